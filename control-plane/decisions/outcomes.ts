import { hash } from 'node:crypto';
import type { GatewayOutcome } from '../../core/wire.ts';
import { type BatchState, type DecisionMetrics, monthKey, type ReservationState } from './batch-state.ts';
import type { Recording } from './record.ts';

interface OutcomeContext {
  readonly state: BatchState;
  readonly recording: Recording;
  readonly metrics: DecisionMetrics;
}

/**
 * Books, releases or keeps a reservation by how its forward ended, and stores the answer of an idempotency key.
 *
 * Told twice it changes nothing the second time. An outcome that is known later than it was given up on still counts
 * (unknown → booked or released). A receipt that reserves nothing (any more) is settled already, and so written.
 * Source: contract §7 "Booking".
 */
export function applyOutcome(context: OutcomeContext, outcome: GatewayOutcome): boolean {
  const reservation = context.state.reservations.get(outcome.receipt_id);
  const head = context.state.heads.get(outcome.account_id);
  if (reservation === undefined || head === undefined || reservation.accountId !== outcome.account_id) return true;
  const from = reservation.state;
  if (from === 'booked' || from === 'released' || from === outcome.outcome) return true;
  moveAmount(context, reservation, outcome);
  context.recording.settle(head.accountId, reservation.receiptId, outcome.outcome);
  context.recording.outcome(head, outcomeText(reservation, outcome));
  reservation.state = outcome.outcome;
  context.metrics.outcome(outcome.outcome);
  if (reservation.keyHash !== null) storeAnswer(context, reservation, outcome);
  return true;
}

function moveAmount(
  { state, recording }: OutcomeContext,
  reservation: ReservationState,
  outcome: GatewayOutcome,
): void {
  const { accountId, mandateId, month, amount } = reservation;
  if (outcome.outcome === 'unknown') return;
  const booked = outcome.outcome === 'booked' ? amount : 0;
  recording.month(accountId, mandateId, month, { reserved: -amount, booked, allows: 0 });
  const seen = state.months.get(monthKey(mandateId, month));
  if (seen === undefined) return;
  seen.reserved -= amount;
  seen.booked += booked;
}

/** The JCS text of an outcome in the evidence; a stored answer is named by the digest of its body. */
function outcomeText(reservation: ReservationState, outcome: GatewayOutcome): string {
  const stored = outcome.answer?.body ?? null;
  const digest = stored === null ? null : hash('sha256', Buffer.from(stored, 'base64'), 'hex');
  return (
    `{"amount":${reservation.amount},"answer_sha256":${JSON.stringify(digest)},"cause":"${outcome.cause}",` +
    `"instance":"${reservation.subjectId}","mandate_id":"${reservation.mandateId}","month":"${reservation.month}",` +
    `"outcome":"${outcome.outcome}","receipt_id":"${reservation.receiptId}",` +
    `"target_status":${JSON.stringify(outcome.target_status)}}`
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
