import { invalidFields } from '../../core/body-value.ts';
import { ProblemError } from '../../core/errors.ts';
import { REPLAY_ENTRIES_MAX } from '../../core/limits.ts';
import { type MandateTerms, mandateDigest } from '../../core/mandate.ts';
import { REPLAY_KINDS, Replay, type ReplayChanges, type ReplayEntry } from '../../core/replay.ts';
import { ReplaySummary } from '../../core/replay-summary.ts';
import type { Sql } from '../db/client.ts';
import type { LongRead } from '../evidence/long-reads.ts';
import { MANDATE_TERMS_COLUMNS, mandateTerms } from './terms.ts';

/** Entries that are looked at a time: what a replay holds, and how long (some ms) it keeps decisions waiting. */
const PAGE_ENTRIES = 256;

/** What is replayed; times are RFC 3339 UTC, `to` itself not included, null: this month, until now. */
export interface ReplayAsked {
  readonly accountId: string;
  readonly mandateId: string;
  readonly changes: ReplayChanges;
  readonly from: string | null;
  readonly to: string | null;
  readonly changesMax: number;
}

/** What there is of a mandate to replay it by. */
export interface Replayable {
  readonly terms: MandateTerms;
  /** The beginning of the mandate's month before this one, of its current month, and now. */
  readonly lastMonthBegan: string;
  readonly monthBegan: string;
  readonly now: string;
}

/** The mandate of a replay; @throws ProblemError 404 */
export async function replayable(sql: Sql, accountId: string, mandateId: string): Promise<Replayable> {
  const rows = await sql.unsafe<
    ({ last_month_began: string; month_began: string; now: string } & Record<string, unknown>)[]
  >(
    `select ${MANDATE_TERMS_COLUMNS}, rfc3339(db_clock()) as now,
       rfc3339(date_trunc('month', db_clock() at time zone time_zone) at time zone time_zone) as month_began,
       rfc3339((date_trunc('month', db_clock() at time zone time_zone) - interval '1 month') at time zone time_zone)
         as last_month_began
     from mandates where account_id = $1 and mandate_id = $2`,
    [accountId, mandateId],
  );
  const row = rows[0];
  if (row === undefined) throw new ProblemError('not_found', 'There is no such mandate.');
  const { last_month_began: lastMonthBegan, month_began: monthBegan, now } = row;
  return { terms: mandateTerms(row), lastMonthBegan, monthBegan, now };
}

/**
 * Runs what was decided under a mandate in a period through `decide` under other limits; see `core/replay.ts`.
 *
 * Reads the chain in pages, each in its turn among all long reads, so that memory is bounded whatever the period
 * holds. `signal` ends it between two pages.
 *
 * @throws ProblemError 422 where the period holds more than REPLAY_ENTRIES_MAX entries of the account
 */
export async function replayMandate(
  sql: Sql,
  asked: ReplayAsked,
  found: Replayable,
  { read, signal }: { readonly read: LongRead; readonly signal: AbortSignal },
) {
  const { accountId, mandateId, changes } = asked;
  const [from, to] = [asked.from ?? found.monthBegan, asked.to ?? found.now];
  const [begin, end] = [await firstAt(sql, accountId, from), await firstAt(sql, accountId, to)];
  if (end - begin > REPLAY_ENTRIES_MAX) {
    const message = `the period holds ${end - begin} entries; at most ${REPLAY_ENTRIES_MAX} are replayed at a time`;
    throw invalidFields([
      { field: asked.from === null ? 'from' : 'to', message: `${message}, so choose a shorter one` },
    ]);
  }
  const versions = await termsByDigest(sql, accountId, found.terms);
  const replay = new Replay(mandateId, changes, (digest) => versions.get(digest) ?? null);
  const summary = new ReplaySummary(asked.changesMax);
  for (let seq = begin; seq < end && !signal.aborted; seq += PAGE_ENTRIES) {
    const page = { mandateId, from: seq, to: Math.min(seq + PAGE_ENTRIES, end) };
    await read.step(async () => {
      for (const entry of await readPage(sql, accountId, page)) {
        const replayed = replay.next(entry);
        if (replayed !== null) summary.add(replayed);
      }
    });
  }
  const { currency } = found.terms;
  const view = summary.view(currency);
  return { mandate_id: mandateId, period: { from, to }, currency, unreplayed: replay.unreplayed, ...view };
}

/** The first entry at or after a time, by halving: the chain's time never goes back. */
async function firstAt(sql: Sql, accountId: string, time: string): Promise<number> {
  const [head] = await sql<{ size: number }[]>`select size from account_heads where account_id = ${accountId}`;
  let [low, high] = [0, head?.size ?? 0];
  while (low < high) {
    const middle = Math.floor((low + high) / 2);
    const [row] = await sql<{ before: boolean }[]>`
      select at < ${time}::text as before from evidence where account_id = ${accountId} and seq = ${middle}`;
    if (row?.before === true) low = middle + 1;
    else high = middle;
  }
  return low;
}

async function readPage(
  sql: Sql,
  accountId: string,
  { mandateId, from, to }: { readonly mandateId: string; readonly from: number; readonly to: number },
): Promise<readonly ReplayEntry[]> {
  return await sql<ReplayEntry[]>`
    select account_id as account, seq, id, kind, at, body from evidence
    where account_id = ${accountId} and seq >= ${from} and seq < ${to} and kind in ${sql([...REPLAY_KINDS])}
      and position(${mandateId} in body) > 0
    order by seq`;
}

/** Every version of a mandate that the chain states, and the one that it has now. */
async function termsByDigest(sql: Sql, accountId: string, current: MandateTerms): Promise<Map<string, MandateTerms>> {
  const rows = await sql<{ body: string }[]>`
    select body from evidence
    where account_id = ${accountId} and kind in ('mandate.created', 'mandate.changed')
      and kind not in ('decision', 'outcome') and position(${current.mandate_id} in body) > 0`;
  const versions = new Map([[mandateDigest(current), current]]);
  for (const { body } of rows) {
    const { terms } = JSON.parse(body) as { readonly terms?: MandateTerms };
    if (terms !== undefined) versions.set(mandateDigest(terms), terms);
  }
  return versions;
}
