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
 * (unknown → booked or released). A receipt that reserves nothing (any more) is settled already, and so written.
 * Source: contract §7 "Booking".
 */
export function applyOutcome(context: OutcomeContext, outcome: GatewayOutcome): boolean {
  const { facts, recording } = context;
  const reservation = facts.reservations.get(outcome.receipt_id);
  if (reservation === undefined || reservation.state === outcome.outcome) return true;
  const { head } = facts;
  moveAmount(context, reservation, outcome);
  recording.settle(head, reservation.receiptId, outcome.outcome);
  recording.outcome(head, reservation.receiptId, outcomeText(reservation, outcome));
  recording.outcomes.push(outcome.outcome);
  if (outcome.outcome === 'unknown') reservation.state = 'unknown';
  else facts.reservations.delete(reservation.receiptId);
  if (reservation.keyHash !== null) storeAnswer(context, reservation, outcome);
  return true;
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

/** The JCS text of an outcome in the evidence, without what there is not; an answer is named by its body's digest. */
function outcomeText(reservation: ReservationState, outcome: GatewayOutcome): string {
  const stored = outcome.answer?.body ?? null;
  const digest = stored === null ? null : hash('sha256', Buffer.from(stored, 'base64'), 'hex');
  const status = outcome.target_status;
  return (
    `{"amount":${reservation.amount}${digest === null ? '' : `,"answer_sha256":"${digest}"`}` +
    `,"cause":"${outcome.cause}","instance":"${reservation.subjectId}","mandate_id":"${reservation.mandateId}"` +
    `,"month":"${reservation.month}","outcome":"${outcome.outcome}","receipt_id":"${reservation.receiptId}"` +
    `${status === null ? '' : `,"target_status":${status}`}}`
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
