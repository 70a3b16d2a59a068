import { ProblemError } from '../../core/errors.ts';
import type { EvidenceKind } from '../../core/evidence.ts';
import type { JsonValue } from '../../core/jcs.ts';
import { canonicalize } from '../../core/jcs.ts';
import { decimalOf } from '../../core/money.ts';
import { type AuthorisationState, monthKey } from './account-facts.ts';
import type { AskContext } from './ask.ts';
import type { Lanes } from './lanes.ts';

/** How long a booking may wait for its turn, in milliseconds: whoever asked has given up by then. */
const BOOKING_BUDGET_MS = 5_000;

/** What a booking says: an answer, or the refusal that is answered (after what was recorded is committed). */
export type Booked<T> = { readonly ok: true; readonly value: T } | { readonly ok: false; readonly error: ProblemError };

/**
 * Runs a change to an authorisation in its account's lane, among its decisions; resolves after the commit.
 *
 * `apply` may run more than once, each time on facts as they are then; null where the token is not this account's.
 * @throws ProblemError as `apply` says, 503 where nothing could be written
 */
export function book<T>(
  lanes: Pick<Lanes, 'submit'>,
  { accountId, tokenHash }: { readonly accountId: string; readonly tokenHash: string },
  apply: (context: AskContext, authorisation: AuthorisationState) => Booked<T>,
): Promise<T | null> {
  return new Promise((resolve, reject) => {
    lanes.submit({
      kind: 'booking',
      accountId,
      tokenHash,
      deadlineMs: performance.now() + BOOKING_BUDGET_MS,
      apply: (context, authorisation) => {
        if (authorisation === undefined) return () => resolve(null);
        const booked = apply(context, authorisation);
        return () => (booked.ok ? resolve(booked.value) : reject(booked.error));
      },
      refuse: (detail) => reject(new ProblemError('not_decidable', detail, { retryAfterSeconds: 1 })),
    });
  });
}

/** Where a booking stands in the evidence. */
export interface BookingReceipt {
  readonly receipt_id: string;
  readonly recorded_at: string;
  readonly evidence: { readonly seq: number; readonly hash: string };
}

/** Records something of an authorisation in the evidence. */
export function recordBooking(
  { facts: { head }, recording }: AskContext,
  authorisation: AuthorisationState,
  entry: { readonly kind: EvidenceKind; readonly id: string; readonly body: Readonly<Record<string, JsonValue>> },
): BookingReceipt {
  const { receiptId, mandateId, month, currency } = authorisation;
  const body = { receipt_id: receiptId, mandate_id: mandateId, month, currency, ...entry.body };
  const { seq, at } = recording.append(head, entry.kind, entry.id, canonicalize(body as JsonValue));
  return { receipt_id: receiptId, recorded_at: at, evidence: { seq, hash: head.hash } };
}

/** Moves what was reserved in the authorisation's own month: `booked` of it counts for good, the rest is free again. */
export function settleReserved(
  { facts, recording }: AskContext,
  authorisation: AuthorisationState,
  booked: number,
): void {
  const { accountId, mandateId, month, amount } = authorisation;
  const seen = facts.months.get(monthKey(mandateId, month));
  recording.month({ accountId, mandateId, month }, seen, { reserved: -amount, booked, allows: 0 });
  if (seen === undefined) return;
  seen.reserved -= amount;
  seen.booked += booked;
}

/** What is left of the authorisation's month, never less than nothing; `period` is the month as `YYYY-MM`. */
export function remainingOf({ facts }: AskContext, authorisation: AuthorisationState) {
  const { mandateId, month, currency, perMonth } = authorisation;
  const seen = facts.months.get(monthKey(mandateId, month));
  const left = Math.max(0, perMonth - (seen?.reserved ?? perMonth) - (seen?.booked ?? 0));
  return { value: decimalOf(left, currency), currency, period: month.slice(0, 7) };
}

/** The refusal of a request that contradicts what is recorded already. */
export function conflict(detail: string): { readonly ok: false; readonly error: ProblemError } {
  return { ok: false, error: new ProblemError('conflict', detail) };
}
