import { ProblemError } from '../../core/errors.ts';
import type { Sql } from '../db/client.ts';
import type { CommandContext } from '../decisions/command.ts';

/**
 * How long a settled row is kept, in milliseconds, so that an outcome told later after all is recorded: far longer than
 * any forward lasts and any proxy repeats itself.
 */
const SETTLED_KEPT_MS = 24 * 60 * 60_000;

/** How a person says that a forward ended. */
export const SETTLEMENTS = ['booked', 'released'] as const;
export type Settled = (typeof SETTLEMENTS)[number];

/** An outcome that nobody knows; amounts are minor units, times Unix milliseconds, `month` its first day. */
export interface UnknownOutcome {
  readonly receipt_id: string;
  readonly mandate_id: string;
  readonly mandate_name: string;
  readonly currency: string;
  readonly instance_id: string;
  readonly instance_name: string | null;
  readonly amount: number;
  readonly month: string;
  readonly reserved_at: number;
  readonly unknown_at: number | null;
  readonly cause: string | null;
  readonly target_status: number | null;
  /** The decision that reserved it: where it stands in the chain, and what it says (JCS text). */
  readonly seq: number | null;
  readonly decision: string | null;
}

/** Which unknown outcomes are read: those after a receipt, or `only` that of one. */
export interface UnknownWanted {
  readonly after: string | null;
  readonly only?: string | null;
  readonly limit: number;
}

/**
 * The outcomes of an account that nobody knows, in the order in which their requests were decided.
 *
 * Looks at what is open only, whatever the history; each decision is found by its identifier.
 */
export async function readUnknown(
  sql: Sql,
  accountId: string,
  { after, only = null, limit }: UnknownWanted,
): Promise<UnknownOutcome[]> {
  const rows = await sql<UnknownOutcome[]>`
    select r.receipt_id, r.mandate_id, m.name as mandate_name, m.currency, r.subject_id as instance_id,
      i.name as instance_name, r.amount, r.month, r.reserved_at, r.unknown_at, r.cause, r.target_status, d.seq,
      d.body as decision
    from (
      select * from reservations
      where account_id = ${accountId} and state = 'unknown' and (${after}::text is null or receipt_id > ${after})
        and (${only}::text is null or receipt_id = ${only})
      order by receipt_id limit ${limit}
    ) r
    join mandates m on m.account_id = r.account_id and m.mandate_id = r.mandate_id
    left join gateway_instances i on i.account_id = r.account_id and i.instance_id = r.subject_id
    left join evidence d on d.account_id = r.account_id and d.id = r.receipt_id and d.kind <> 'outcome'
    order by r.receipt_id`;
  return [...rows];
}

/** What a settlement did: what of the month it took (minor units), and what the month holds since. */
export interface Settlement {
  readonly receiptId: string;
  readonly mandateId: string;
  readonly currency: string;
  readonly month: string;
  readonly amount: number;
  readonly outcome: Settled;
  readonly reserved: number;
  readonly booked: number;
  readonly settledAt: string;
  readonly seq: number;
}

interface Held {
  readonly mandate_id: string;
  readonly currency: string;
  readonly subject_id: string;
  readonly amount: number;
  readonly month: string;
  readonly state: string;
  readonly cause: string | null;
}

/**
 * Books in full, or frees, what an unknown outcome holds of the month it was reserved in, and records who said so.
 *
 * Under the head lock, where every outcome is judged: of several answers the first one counts, and an outcome that the
 * proxy tells before it leaves nothing to settle.
 *
 * @throws ProblemError 404 where there is no such receipt, 409 where its outcome is not (or no longer) unknown
 */
export async function settle(
  context: CommandContext,
  receiptId: string,
  { outcome, reason, settledBy }: { readonly outcome: Settled; readonly reason: string; readonly settledBy: string },
): Promise<Settlement> {
  const { sql, accountId, now, nowMs } = context;
  const [held] = await sql<Held[]>`
    select r.mandate_id, m.currency, r.subject_id, r.amount, r.month, r.state, r.cause
    from reservations r join mandates m on m.account_id = r.account_id and m.mandate_id = r.mandate_id
    where r.account_id = ${accountId} and r.receipt_id = ${receiptId} and r.path = 'gateway'`;
  if (held?.state !== 'unknown') throw await notUnknown(sql, accountId, receiptId, held?.state);
  const { mandate_id: mandateId, currency, amount, month, cause } = held;
  const [left] = await sql<{ reserved: number; booked: number }[]>`
    update mandate_months set reserved = reserved - ${amount}::bigint,
      booked = booked + ${outcome === 'booked' ? amount : 0}::bigint
    where account_id = ${accountId} and mandate_id = ${mandateId} and month = ${month}
    returning reserved, booked`;
  if (left === undefined) throw new Error(`the month of reservation ${receiptId} is not there`);
  await sql`update reservations set state = ${`settled_${outcome}`}, due_at = ${nowMs + SETTLED_KEPT_MS}
    where account_id = ${accountId} and receipt_id = ${receiptId}`;
  const { seq } = context.append('outcome.settled', {
    ...{ receipt_id: receiptId, mandate_id: mandateId, instance: held.subject_id, month, currency, amount },
    ...{ outcome, reason, settled_by: settledBy, ...(cause === null ? {} : { cause }) },
  });
  return { receiptId, mandateId, currency, month, amount, outcome, ...left, settledAt: now, seq };
}

async function notUnknown(sql: Sql, accountId: string, receiptId: string, state: string | undefined) {
  if (state === 'reserved') {
    return new ProblemError('conflict', 'This request is still being forwarded, or its outcome is about to be told.');
  }
  const known = await sql`select from evidence
    where account_id = ${accountId} and id = ${receiptId} and kind <> 'outcome'`;
  return known.length === 0
    ? new ProblemError('not_found', 'There is no such receipt.')
    : new ProblemError('conflict', 'The outcome of this receipt is not unknown: nothing is left to settle.');
}
