import { type DecisionFilter, decisionSummaries, decisionSummary, matchesFilter } from '../../core/decision-search.ts';
import type { StoredEntry } from '../../core/evidence.ts';
import type { Sql } from '../db/client.ts';
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

interface Reach {
  readonly size: number;
  readonly indexed: number;
}

/**
 * Decisions of an account that match, below `before` in the chain, the newest first, at most `limit`.
 *
 * What the index holds is looked up there; what came after it is read from the chain itself, a bounded part at a time.
 * Cost: index look-ups and the page, whatever the account's history.
 */
export async function searchDecisions(
  sql: Sql,
  accountId: string,
  filter: DecisionFilter,
  { before, limit }: { readonly before: number | null; readonly limit: number },
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
  const seqs = await indexedSeqs(sql, accountId, filter, { before: Math.min(end, indexed), limit: left + 1 });
  const shown = seqs.slice(0, left);
  decisions.push(...(await entriesOf(sql, accountId, shown)));
  const last = decisions.at(-1)?.seq ?? null;
  return { decisions, nextBefore: seqs.length > left ? (last ?? end) : null };
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

const CONDITIONS = [
  ['subjectId', 'subject_id ='],
  ['mandateId', 'mandate_id ='],
  ['agent', 'agent ='],
  ['decision', 'decision ='],
  ['code', 'code ='],
  ['currency', 'currency ='],
  ['minAmount', 'amount >='],
  ['maxAmount', 'amount <='],
] as const;

async function indexedSeqs(
  sql: Sql,
  accountId: string,
  filter: DecisionFilter,
  { before, limit }: { readonly before: number; readonly limit: number },
): Promise<number[]> {
  const range = await seqRange(sql, accountId, filter, before);
  if (range.from >= range.to) return [];
  const where = ['account_id = $1', 'seq >= $2', 'seq < $3'];
  const values: (string | number)[] = [accountId, range.from, range.to];
  for (const [name, condition] of CONDITIONS) {
    const value = filter[name];
    if (value !== undefined) where.push(`${condition} $${values.push(value)}`);
  }
  // Not prepared: which index is best depends on the values, and a plan for all of them takes none.
  const rows = await sql.unsafe<{ seq: number }[]>(
    `select seq from decision_search where ${where.join(' and ')} order by seq desc limit $${values.push(limit)}`,
    values,
  );
  return rows.map(({ seq }) => seq);
}

/** Time in a chain never goes back, so that a range of time is a range of entries, found at its two ends. */
async function seqRange(
  sql: Sql,
  accountId: string,
  { fromMs, toMs }: DecisionFilter,
  before: number,
): Promise<{ readonly from: number; readonly to: number }> {
  const firstAt = async (ms: number): Promise<number> => {
    const rows = await sql<{ seq: number }[]>`
      select seq from decision_search where account_id = ${accountId} and at >= ${new Date(ms)}
      order by at, seq limit 1`;
    return rows[0]?.seq ?? before;
  };
  const from = fromMs === undefined ? 0 : await firstAt(fromMs);
  const to = toMs === undefined ? before : await firstAt(toMs);
  return { from, to: Math.min(to, before) };
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
