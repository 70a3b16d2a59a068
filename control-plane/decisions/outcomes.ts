import { hash } from 'node:crypto';
import type { GatewayOutcome } from '../../core/wire.ts';
import { type AccountFacts, monthKey, type ReservationState } from './account-facts.ts';
import type { Recording } from './record.ts';

interface OutcomeContext {
  readonly facts: AccountFacts;
  readonly recording: Recording;
}

/**
 * Books, releases or keeps a reservation by how its forward ended, and stores the answer of an idempotency key.
 *
 * Told twice it changes nothing the second time. An outcome that is known later than it was given up on still counts
 * (unknown → booked or released), unless a person has settled it meanwhile: then it is recorded where it says
 * otherwise, and what the person said stands. A receipt that reserves nothing (any more) is settled
 * already, and so written.
 * Source: contract §7 "Booking", docs/design/0018-a-person-settles-for-good.md.
 */
export function applyOutcome(context: OutcomeContext, outcome: GatewayOutcome): boolean {
  const { facts, recording } = context;
  const reservation = facts.reservations.get(outcome.receipt_id);
  if (reservation === undefined || reservation.state === outcome.outcome) return true;
  const { head } = facts;
  const settled = settledAs(reservation.state);
  if (settled !== null) return applyLate(context, reservation, outcome, settled);
  moveAmount(context, reservation, outcome);
  recording.settle(head, reservation.receiptId, outcome.outcome);
  recording.outcome(head, reservation.receiptId, outcomeText(reservation, outcome));
  recording.outcomes.push(outcome.outcome);
  if (outcome.outcome === 'unknown') noteUnknown(context, reservation, outcome);
  else facts.reservations.delete(reservation.receiptId);
  if (reservation.keyHash !== null) storeAnswer(context, reservation, outcome);
  return true;
}

function settledAs(state: ReservationState['state']): 'booked' | 'released' | null {
  if (state === 'settled_booked') return 'booked';
  return state === 'settled_released' ? 'released' : null;
}

/** What is told after a person settled it: the sums stay as they are, whatever it says. */
function applyLate(
  { facts, recording }: OutcomeContext,
  reservation: ReservationState,
  outcome: GatewayOutcome,
  settled: 'booked' | 'released',
): boolean {
  if (outcome.outcome === 'unknown' || outcome.outcome === settled) return true;
  recording.outcome(facts.head, reservation.receiptId, outcomeText(reservation, outcome, settled));
  recording.settle(facts.head, reservation.receiptId, outcome.outcome);
  facts.reservations.delete(reservation.receiptId);
  return true;
}

/** Keeps for the reconcile list what is known of an outcome that is not; see control-plane/reconciliation. */
function noteUnknown(
  { facts, recording }: OutcomeContext,
  reservation: ReservationState,
  outcome: GatewayOutcome,
): void {
  reservation.state = 'unknown';
  recording.statement(
    `update reservations set unknown_at = ms_time($3), cause = $4, target_status = $5::text::integer
     where account_id = $1 and receipt_id = $2`,
    [
      reservation.accountId,
      reservation.receiptId,
      String(facts.head.nowMs),
      outcome.cause,
      outcome.target_status === null ? null : String(outcome.target_status),
    ],
  );
}

function moveAmount(
  { facts, recording }: OutcomeContext,
  reservation: ReservationState,
  outcome: GatewayOutcome,
): void {
  const { mandateId, month, amount } = reservation;
  if (outcome.outcome === 'unknown') return;
  const booked = outcome.outcome === 'booked' ? amount : 0;
  const seen = facts.months.get(monthKey(mandateId, month));
  recording.month(reservation, seen, { reserved: -amount, booked, allows: 0 });
  if (seen === undefined) return;
  seen.reserved -= amount;
  seen.booked += booked;
}

/**
 * The JCS text of an outcome in the evidence, without what there is not; an answer is named by its body's digest.
 * `settled`: what a person had said by then, and what counts.
 */
function outcomeText(
  reservation: ReservationState,
  outcome: GatewayOutcome,
  settled: 'booked' | 'released' | null = null,
): string {
  const stored = outcome.answer?.body ?? null;
  const digest = stored === null ? null : hash('sha256', Buffer.from(stored, 'base64'), 'hex');
  const status = outcome.target_status;
  return (
    `{"amount":${reservation.amount}${digest === null ? '' : `,"answer_sha256":"${digest}"`}` +
    `,"cause":"${outcome.cause}","instance":"${reservation.subjectId}","mandate_id":"${reservation.mandateId}"` +
    `,"month":"${reservation.month}","outcome":"${outcome.outcome}","receipt_id":"${reservation.receiptId}"` +
    `${settled === null ? '' : `,"settled":"${settled}"`}${status === null ? '' : `,"target_status":${status}`}}`
  );
}

function storeAnswer({ recording }: OutcomeContext, reservation: ReservationState, outcome: GatewayOutcome): void {
  const { accountId, subjectId, keyHash, receiptId } = reservation;
  if (outcome.outcome === 'released' && outcome.target_status === null) {
    // Nothing reached the target, so the key was not used up.
    recording.statement(
      `delete from idempotency_answers
       where account_id = $1 and subject_id = $2 and key_hash = decode($3, 'hex') and receipt_id = $4`,
      [accountId, subjectId, keyHash, receiptId],
    );
    return;
  }
  const { answer } = outcome;
  recording.statement(
    `update idempotency_answers set state = $5, status = $6::text::integer, headers = $7::text::jsonb,
       body = decode($8, 'base64')
     where account_id = $1 and subject_id = $2 and key_hash = decode($3, 'hex') and receipt_id = $4`,
    [
      accountId,
      subjectId,
      keyHash,
      receiptId,
      answer === null ? 'unknown' : 'answered',
      answer === null ? null : String(answer.status),
      answer === null ? null : JSON.stringify(answer.headers),
      answer?.body ?? null,
    ],
  );
}
