import type { Sql } from '../../db/client.ts';
import { currentSize } from '../../evidence/tree-heads.ts';

/** Entries at the chain's end that are looked through: some hundred forwarded requests, in two milliseconds. */
const ENTRIES_LOOKED_AT = 400;
/** Requests that say anything of half of them and of 95 in a hundred. */
const REQUESTS_LEAST = 5;

/** How long targets took, in milliseconds: half of `count` requests no longer than `half`, 95 % than `most`. */
export interface Latency {
  readonly half: number;
  readonly most: number;
  readonly count: number;
}

interface Outcome {
  readonly receipt_id: string;
  readonly outcome: string;
  readonly target_status?: number | null;
}

/**
 * How long the requests that were forwarded last took, from the decision to the entry of their answer, both of which
 * are evidence; null where there were too few. Nothing is measured or stored for it while requests are decided.
 */
export async function readLatency(sql: Sql, accountId: string): Promise<Latency | null> {
  const size = await currentSize(sql, accountId);
  const rows = await sql<{ id: string; kind: string; at: string; body: string | null }[]>`
    select id, kind, at, case when kind = 'outcome' then body end as body from evidence
    where account_id = ${accountId} and seq >= ${size - ENTRIES_LOOKED_AT} and kind in ('decision', 'outcome')`;
  const decided = new Map(rows.filter(({ kind }) => kind === 'decision').map(({ id, at }) => [id, Date.parse(at)]));
  const taken = rows.flatMap(({ at, body }) => {
    const { outcomes = [] } = body === null ? {} : (JSON.parse(body) as { readonly outcomes?: readonly Outcome[] });
    return outcomes.flatMap(({ receipt_id, outcome, target_status }) => {
      const from = decided.get(receipt_id);
      // What no target answered says how long somebody waited for nothing.
      const answered = outcome !== 'unknown' && typeof target_status === 'number';
      return from === undefined || !answered ? [] : [Date.parse(at) - from];
    });
  });
  if (taken.length < REQUESTS_LEAST) return null;
  taken.sort((a, b) => a - b);
  const atShare = (share: number): number => taken[Math.min(taken.length - 1, Math.floor(taken.length * share))] ?? 0;
  return { half: atShare(0.5), most: atShare(0.95), count: taken.length };
}
