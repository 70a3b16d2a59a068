import type { StoredEntry } from '../../core/evidence.ts';
import { DOSSIER_ENTRIES_MAX, DOSSIER_REFUSALS_MAX, OUTCOME_LATE_MS } from '../../core/limits.ts';
import type { Sql } from '../db/client.ts';

/** Where a decision stands: whose it is, its receipt and its place. */
export interface DecisionPlace {
  readonly accountId: string;
  readonly receiptId: string;
  readonly seq: number;
  readonly atMs: number;
}

// Everything here is a look-up by an index; docs/design/0017-entries-of-a-receipt.md says by which.

/** The decision that a receipt names, or null. */
export async function decisionOf(sql: Sql, accountId: string, receiptId: string): Promise<StoredEntry | null> {
  const [row] = await sql<StoredEntry[]>`
    select ${columns(sql)} from evidence e
    where e.account_id = ${accountId} and e.id = ${receiptId} and e.kind <> 'outcome' and e.kind = 'decision'`;
  return row ?? null;
}

/** The entry that last set a mandate's terms before the decision, and the one that last moved its status. */
export async function mandateBefore(
  sql: Sql,
  { accountId, seq }: DecisionPlace,
  mandateId: string,
): Promise<{ readonly terms: StoredEntry | null; readonly status: StoredEntry | null }> {
  const before = sql`e.account_id = ${accountId} and evidence_subject(e.body) = ${mandateId} and e.seq < ${seq}
    and e.kind not in ('decision', 'outcome')`;
  const [[terms], [status]] = await Promise.all([
    sql<StoredEntry[]>`select ${columns(sql)} from evidence e
      where ${before} and e.kind in ('mandate.created', 'mandate.changed') order by e.seq desc limit 1`,
    sql<StoredEntry[]>`select ${columns(sql)} from evidence e
      where ${before} and e.kind in ('mandate.activated', 'mandate.suspended', 'mandate.resumed', 'mandate.revoked',
        'mandate.expired', 'mandate.consumed') order by e.seq desc limit 1`,
  ]);
  return { terms: terms ?? null, status: status ?? null };
}

/** The decision that asked for an escalation, and the entry that answered it; each null where there is none. */
export async function escalationEntries(
  sql: Sql,
  accountId: string,
  escalationId: string,
): Promise<{ readonly opened: StoredEntry | null; readonly answered: StoredEntry | null }> {
  const [[answered], [asked]] = await Promise.all([
    sql<StoredEntry[]>`select ${columns(sql)} from evidence e
      where e.account_id = ${accountId} and evidence_subject(e.body) = ${escalationId}
        and e.kind not in ('decision', 'outcome')
        and e.kind in ('escalation.approved', 'escalation.rejected', 'escalation.expired')
      order by e.seq limit 1`,
    sql<{ receipt_id: string }[]>`select receipt_id from escalations
      where account_id = ${accountId} and escalation_id = ${escalationId}`,
  ]);
  const opened = asked === undefined ? null : await decisionOf(sql, accountId, asked.receipt_id);
  return { opened, answered: answered ?? null };
}

/** What was booked and reported of a receipt, the refused attempts among it up to DOSSIER_REFUSALS_MAX, in order. */
export async function eventsOf(sql: Sql, { accountId, receiptId }: DecisionPlace): Promise<StoredEntry[]> {
  const own = sql`e.account_id = ${accountId} and evidence_subject(e.body) = ${receiptId}
    and e.kind not in ('decision', 'outcome')`;
  const [events, refusals] = await Promise.all([
    sql<StoredEntry[]>`select ${columns(sql)} from evidence e
      where ${own} and e.kind not in ('consumption.refused', 'execution.refused')
      order by e.seq limit ${DOSSIER_ENTRIES_MAX - DOSSIER_REFUSALS_MAX}`,
    sql<StoredEntry[]>`select ${columns(sql)} from evidence e
      where ${own} and e.kind in ('consumption.refused', 'execution.refused')
      order by e.seq limit ${DOSSIER_REFUSALS_MAX}`,
  ]);
  return [...events, ...refusals].sort((a, b) => a.seq - b.seq);
}

/** The outcomes of a gateway's allow, in order: late ones by their table, another close behind the decision. */
export async function outcomesOf(sql: Sql, place: DecisionPlace): Promise<StoredEntry[]> {
  const { accountId, receiptId } = place;
  const [[open], late] = await Promise.all([
    sql`select from reservations
      where account_id = ${accountId} and receipt_id = ${receiptId} and state = 'reserved'`,
    sql<StoredEntry[]>`
      select ${columns(sql)} from late_outcomes l join evidence e on e.account_id = l.account_id and e.seq = l.seq
      where l.account_id = ${accountId} and l.receipt_id = ${receiptId} order by l.seq limit ${DOSSIER_ENTRIES_MAX}`,
  ]);
  if (open !== undefined) return [...late];
  const soon = await soonOutcome(sql, place);
  return [...(soon === null ? [] : [soon]), ...late];
}

/** Entries looked through first for an outcome, and how the step grows: most lie within a few. */
const FIRST_STEP = 256;
const STEP_GROWTH = 4;

/** The outcome that was told within OUTCOME_LATE_MS, if one was: the entries of that time are looked through. */
async function soonOutcome(sql: Sql, place: DecisionPlace): Promise<StoredEntry | null> {
  const { accountId, receiptId, seq, atMs } = place;
  const end = new Date(atMs + OUTCOME_LATE_MS).toISOString();
  let from = seq;
  for (let step = FIRST_STEP; ; step *= STEP_GROWTH) {
    const until = from + step;
    const [[found], [last]] = await Promise.all([
      sql<StoredEntry[]>`select ${columns(sql)} from evidence e
        where e.account_id = ${accountId} and e.seq > ${from} and e.seq <= ${until} and e.kind = 'outcome'
          and e.at < ${end} and strpos(e.body, ${`"receipt_id":"${receiptId}"`}) > 0
        order by e.seq limit 1`,
      sql<{ at: string }[]>`select at from evidence where account_id = ${accountId} and seq = ${until}`,
    ]);
    if (found !== undefined) return found;
    if (last === undefined || last.at >= end) return null;
    from = until;
  }
}

function columns(sql: Sql) {
  return sql`e.account_id as account, e.seq, e.id, e.kind, e.at, encode(e.prev, 'hex') as prev, e.body,
    encode(e.hash, 'hex') as hash`;
}
