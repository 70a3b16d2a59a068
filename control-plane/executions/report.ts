import { hash } from 'node:crypto';
import type { DecimalText } from '../../core/body-value.ts';
import { invalidFields } from '../../core/body-value.ts';
import { ProblemError } from '../../core/errors.ts';
import { decimalOf, minorUnits } from '../../core/money.ts';
import { newTypeId } from '../../core/type-id.ts';
import type { AuthorisationState } from '../decisions/account-facts.ts';
import type { AskContext } from '../decisions/ask.ts';
import { type Booked, conflict, recordBooking, settleReserved } from '../decisions/booking.ts';

/** How an execution ended (contract §5), by every name that is accepted for it. */
export const OUTCOMES = {
  erfolgreich: 'erfolgreich',
  fehlgeschlagen: 'fehlgeschlagen',
  teilweise: 'teilweise',
  abgebrochen: 'abgebrochen',
  succeeded: 'erfolgreich',
  failed: 'fehlgeschlagen',
  partial: 'teilweise',
  cancelled: 'abgebrochen',
} as const;
export type OutcomeName = keyof typeof OUTCOMES;
type Outcome = (typeof OUTCOMES)[OutcomeName];

/** Reports of one receipt: partial ones may follow each other, and nobody needs more. */
const REPORTS_MAX = 100;

/** What POST /api/v1/executions reports besides its token. */
export interface Execution {
  readonly outcome: OutcomeName;
  readonly executed_amount?: DecimalText | undefined;
  readonly executed_currency?: string | undefined;
  readonly external_ref?: string | undefined;
}

/**
 * Records how an allowed action went; one that failed or was cancelled releases what was not booked. Answers as text.
 *
 * Reported again with the same values it answers the same; after anything but `teilweise` nothing else is accepted.
 * Source: contract §5.
 */
export function reportExecution(
  context: AskContext,
  authorisation: AuthorisationState,
  asked: Execution,
): Booked<{ readonly text: string; readonly replayed: boolean }> {
  const { currency, amount, executions } = authorisation;
  const outcome = OUTCOMES[asked.outcome];
  const given = asked.executed_amount;
  const reading = given === undefined ? null : minorUnits(given.text, currency, 'major');
  if (reading !== null && !reading.ok) {
    return { ok: false, error: invalidFields([{ field: 'executed_amount', message: reading.message }]) };
  }
  const executed = reading?.minor ?? null;
  const values = [outcome, executed, asked.executed_currency, asked.external_ref];
  const digest = hash('sha256', JSON.stringify(values), 'hex');
  const same = executions.find((one) => one.digest === digest);
  if (same !== undefined) return { ok: true, value: { text: same.answer, replayed: true } };
  if (executions.some((one) => one.outcome !== 'teilweise')) {
    return conflict('How this went was reported already, with other values.');
  }
  if (executions.length >= REPORTS_MAX) return conflict(`At most ${REPORTS_MAX} reports are kept of one action.`);
  if (asked.executed_currency !== undefined && asked.executed_currency !== currency) {
    return conflict('The executed_currency is not the one that was authorised.');
  }
  if (executed !== null && executed > amount) return exceeds(context, authorisation, { outcome, executed });
  const text = reported(context, authorisation, { outcome, executed, digest, externalRef: asked.external_ref ?? null });
  return { ok: true, value: { text, replayed: false } };
}

interface Report {
  readonly outcome: Outcome;
  readonly executed: number | null;
  readonly digest: string;
  readonly externalRef: string | null;
}

function reported(context: AskContext, authorisation: AuthorisationState, report: Report): string {
  const { accountId, receiptId, amount } = authorisation;
  const { outcome, executed, digest, externalRef } = report;
  const { nowMs } = context.facts.head;
  const ended = outcome === 'fehlgeschlagen' || outcome === 'abgebrochen';
  const releases = ended && authorisation.state === 'reserved';
  if (releases) settleReserved(context, authorisation, 0);
  const id = newTypeId('exe', nowMs);
  recordBooking(context, authorisation, {
    ...{ kind: 'execution.reported', id },
    body: { outcome, executed_amount: executed, external_ref: externalRef, released: releases ? amount : 0 },
  });
  const text = JSON.stringify({ execution_id: id, receipt_id: receiptId, status: outcome });
  context.recording.statement(
    `insert into executions (account_id, execution_id, receipt_id, outcome, request_digest, answer, reported_at)
     values ($1, $2, $3, $4, decode($5, 'hex'), $6, ms_time($7))`,
    [accountId, id, receiptId, outcome, digest, text, String(nowMs)],
  );
  if (releases) {
    context.recording.statement(
      "update authorisations set state = 'released' where account_id = $1 and receipt_id = $2",
      [accountId, receiptId],
    );
    authorisation.state = 'released';
  }
  authorisation.executions.push({ outcome, digest, answer: text });
  return text;
}

function exceeds(
  context: AskContext,
  authorisation: AuthorisationState,
  { outcome, executed }: { readonly outcome: Outcome; readonly executed: number },
): Booked<never> {
  const { amount, currency } = authorisation;
  const id = newTypeId('evt', context.facts.head.nowMs);
  const body = { outcome, amount, executed_amount: executed };
  recordBooking(context, authorisation, { kind: 'execution.refused', id, body });
  const detail = `The executed amount is above the ${decimalOf(amount, currency)} ${currency} that were authorised.`;
  return { ok: false, error: new ProblemError('exceeds_authorised_amount', detail) };
}
