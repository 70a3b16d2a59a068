import { type DecisionFilter, decisionSummaries, decisionSummary, matchesFilter } from '../../core/decision-search.ts';
import type { StoredEntry } from '../../core/evidence.ts';
import type { Sql } from '../db/client.ts';
import { findIndexed, type Looks } from './indexed-search.ts';
import { columnsOf } from './search-index.ts';

/** Entries that one look takes from the end of the chain that is not indexed yet: some twenty milliseconds. */
const TAIL_MAX = 2_000;
/** So many of them at a time: the newest ones often suffice. */
const TAIL_STEP = 500;

/** A decision as it is in the chain. */
export type FoundDecision = Pick<StoredEntry, 'seq' | 'id' | 'at' | 'body'>;

export interface DecisionPage {
  /** The newest first. */
  readonly decisions: readonly FoundDecision[];
  /** Go on below this entry; null where all were seen. A page may hold fewer than asked for, or none, and go on. */
  readonly nextBefore: number | null;
}

/** Which page: `looks` is how far the index is gone through for it (see `findIndexed`). */
export interface AskedPage {
  readonly before: number | null;
  readonly limit: number;
  readonly looks?: Looks;
}

interface Reach {
  readonly size: number;
  readonly indexed: number;
}

/**
 * Decisions of an account that match, below `before` in the chain, the newest first, at most `limit`.
 *
 * What the index holds is looked up there; what came after it is read from the chain itself, a bounded part at a time.
 * Cost: bounded look-ups and the page, whatever the account's history.
 */
export async function searchDecisions(
  sql: Sql,
  accountId: string,
  filter: DecisionFilter,
  { before, limit, looks }: AskedPage,
): Promise<DecisionPage> {
  if (filter.receiptId !== undefined) return byReceipt(sql, accountId, filter, before);
  const { size, indexed } = await reachOf(sql, accountId);
  const end = Math.min(before ?? size, size);
  const least = Math.max(indexed, end - TAIL_MAX);
  const matching: FoundDecision[] = [];
  let from = end;
  while (from > least && matching.length <= limit) {
    const to = from;
    from = Math.max(least, to - TAIL_STEP);
    const tail = await tailOf(sql, accountId, from, to);
    matching.push(...tail.filter((entry) => fits(entry, filter)).reverse());
  }
  const decisions: FoundDecision[] = matching.slice(0, limit);
  if (matching.length > limit) return { decisions, nextBefore: decisions.at(-1)?.seq ?? null };
  if (from > indexed) return { decisions, nextBefore: from };
  const left = limit - decisions.length;
  // One more than asked for tells whether there is a next page.
  const { seqs, seenTo } = await findIndexed(sql, accountId, filter, {
    before: Math.min(end, indexed),
    limit: left + 1,
    ...(looks === undefined ? {} : { looks }),
  });
  const shown = seqs.slice(0, left);
  decisions.push(...(await entriesOf(sql, accountId, shown)));
  if (seqs.length > left) return { decisions, nextBefore: decisions.at(-1)?.seq ?? end };
  return { decisions, nextBefore: seenTo === 0 ? null : seenTo };
}

function fits(entry: FoundDecision, filter: DecisionFilter): boolean {
  const summary = decisionSummary(entry);
  return summary !== null && matchesFilter(summary, filter);
}

/** How long the chain is, and how far it is indexed. */
async function reachOf(sql: Sql, accountId: string): Promise<Reach> {
  const [row] = await sql<Reach[]>`
    select h.size, coalesce(p.next_seq, 0) as indexed from account_heads h
    left join decision_positions p on p.account_id = h.account_id where h.account_id = ${accountId}`;
  if (row === undefined) throw new Error('an account with a session has no head');
  return row;
}

async function tailOf(sql: Sql, accountId: string, from: number, to: number): Promise<FoundDecision[]> {
  const rows = await sql<FoundDecision[]>`
    select seq, id, at, body from evidence
    where account_id = ${accountId} and seq >= ${from} and seq < ${to} and kind = 'decision' order by seq`;
  return [...rows];
}

async function byReceipt(
  sql: Sql,
  accountId: string,
  filter: DecisionFilter,
  before: number | null,
): Promise<DecisionPage> {
  const rows = await sql<FoundDecision[]>`
    select seq, id, at, body from evidence
    where account_id = ${accountId} and id = ${filter.receiptId ?? ''} and kind <> 'outcome' and kind = 'decision'`;
  return {
    decisions: rows.filter((one) => fits(one, filter) && (before === null || one.seq < before)),
    nextBefore: null,
  };
}

/** When the chain was at an entry, in Unix milliseconds: what a search that goes on from there was through with. */
export async function timeAt(sql: Sql, accountId: string, seq: number): Promise<number | null> {
  const [row] = await sql<{ at: string }[]>`
    select at from evidence where account_id = ${accountId} and seq = ${seq}`;
  return row === undefined ? null : Date.parse(row.at);
}

async function entriesOf(sql: Sql, accountId: string, seqs: readonly number[]): Promise<FoundDecision[]> {
  if (seqs.length === 0) return [];
  const rows = await sql<FoundDecision[]>`
    select e.seq, e.id, e.at, e.body from evidence e
    where e.account_id = ${accountId} and e.seq = any (${seqs.map(String)}::text[]::bigint[]) order by e.seq desc`;
  return [...rows];
}

/** Decisions of one day, mandate, kind and code; `amount` in minor units, a text because it may be any size. */
export interface DayCount {
  readonly mandate_id: string;
  readonly day: string;
  readonly decision: string;
  readonly code: string;
  readonly decisions: number;
  readonly amount: string;
}

export interface DayCounts {
  readonly days: readonly DayCount[];
  /** Entries of the chain from here on are not counted yet: null where all are. */
  readonly uncountedFrom: number | null;
}

/** What was decided from `from` to `to` (calendar days, both included), by day; of one mandate where it is named. */
export async function countDays(
  sql: Sql,
  accountId: string,
  { from, to, mandateId }: { readonly from: string; readonly to: string; readonly mandateId: string | null },
): Promise<DayCounts> {
  const { size, indexed } = await reachOf(sql, accountId);
  const end = Math.min(size, indexed + TAIL_MAX);
  const columns = columnsOf(decisionSummaries(await tailOf(sql, accountId, indexed, end)));
  const days = await sql<DayCount[]>`
    select n.mandate_id, n.day, n.decision, n.code, sum(n.decisions)::bigint as decisions, sum(n.amount) as amount
    from (
      select mandate_id, day, decision, code, decisions, amount from decision_days where account_id = ${accountId}
      union all
      select t.mandate_id, t.day, t.decision, t.code, t.decisions, t.amount from days_of(${accountId},
        ${columns.at}::text[], ${columns.mandate}::text[], ${columns.decision}::text[], ${columns.code}::text[],
        ${columns.currency}::text[], ${columns.amount}::text[]::bigint[]) t
    ) n
    where n.day between ${from}::text::date and ${to}::text::date
      and (${mandateId}::text is null or n.mandate_id = ${mandateId}::text)
    group by 1, 2, 3, 4 order by n.day, n.mandate_id, n.decision, n.code`;
  return { days: [...days], uncountedFrom: end < size ? end : null };
}
