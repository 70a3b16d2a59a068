import { hash } from 'node:crypto';
import type { DecimalText } from '../../core/body-value.ts';
import { invalidFields } from '../../core/body-value.ts';
import { ProblemError } from '../../core/errors.ts';
import { decimalOf, minorUnits } from '../../core/money.ts';
import { newTypeId } from '../../core/type-id.ts';
import type { AuthorisationState } from '../decisions/account-facts.ts';
import type { AskContext } from '../decisions/ask.ts';
import { type Booked, conflict, recordBooking, remainingOf, settleReserved } from '../decisions/booking.ts';

/** What POST /api/v1/consumptions asks besides its token; what is left out is not compared, the amount then all. */
export interface Consumption {
  readonly final_amount?: DecimalText | undefined;
  readonly currency?: string | undefined;
  readonly action_type?: string | undefined;
  readonly counterparty?: string | undefined;
  readonly context_digest?: string | undefined;
}

/**
 * Books what an allowed action really cost and frees the rest; answers as JSON text.
 *
 * Asked again with the same values it answers the same; above what was authorised it is refused, and that is recorded.
 * Source: contract §5.
 */
export function bookConsumption(
  context: AskContext,
  authorisation: AuthorisationState,
  asked: Consumption,
): Booked<{ readonly text: string; readonly replayed: boolean }> {
  const { currency, amount } = authorisation;
  const reading = asked.final_amount === undefined ? null : minorUnits(asked.final_amount.text, currency, 'major');
  if (reading !== null && !reading.ok) {
    return { ok: false, error: invalidFields([{ field: 'final_amount', message: reading.message }]) };
  }
  const final = reading?.minor ?? amount;
  const digest = digestOf(asked, final);
  const { state, consumptionDigest, consumptionAnswer } = authorisation;
  if (state === 'booked' && consumptionDigest === digest && consumptionAnswer !== null) {
    return { ok: true, value: { text: consumptionAnswer, replayed: true } };
  }
  if (state !== 'reserved') return conflict(SETTLED[state]);
  const differs = mismatch(asked, authorisation);
  if (differs !== null) return conflict(`The ${differs} is not the one that was authorised.`);
  if (final > amount) return exceeds(context, authorisation, final);
  return { ok: true, value: { text: booked(context, authorisation, { final, digest }), replayed: false } };
}

const SETTLED: Readonly<Record<Exclude<AuthorisationState['state'], 'reserved'>, string>> = {
  booked: 'This was booked already, with other values.',
  released: 'What was reserved was released: its execution failed or was cancelled.',
  final: 'The time to book has passed: what was reserved counts in full.',
};

/** Books an authorisation in full that nobody booked in time (contract §5); whether there was anything to do. */
export function lapse(context: AskContext, authorisation: AuthorisationState): Booked<boolean> {
  if (authorisation.state !== 'reserved') return { ok: true, value: false };
  const { accountId, receiptId, amount } = authorisation;
  settleReserved(context, authorisation, amount);
  const { nowMs } = context.facts.head;
  recordBooking(context, authorisation, { kind: 'consumption.lapsed', id: newTypeId('evt', nowMs), body: { amount } });
  context.recording.statement(
    "update authorisations set state = 'final', booked = amount where account_id = $1 and receipt_id = $2",
    [accountId, receiptId],
  );
  authorisation.state = 'final';
  authorisation.booked = amount;
  return { ok: true, value: true };
}

function booked(
  context: AskContext,
  authorisation: AuthorisationState,
  { final, digest }: { readonly final: number; readonly digest: string },
): string {
  const { accountId, receiptId, mandateId, currency, amount } = authorisation;
  settleReserved(context, authorisation, final);
  const id = newTypeId('con', context.facts.head.nowMs);
  const receipt = recordBooking(context, authorisation, {
    ...{ kind: 'consumption.booked', id },
    body: { amount, final_amount: final },
  });
  const text = JSON.stringify({
    consumption_id: id,
    mandate_id: mandateId,
    booked: { value: decimalOf(final, currency), currency },
    remaining: remainingOf(context, authorisation),
    receipt,
  });
  context.recording.statement(
    `update authorisations set state = 'booked', booked = $3::text::bigint, consumption_digest = decode($4, 'hex'),
       consumption_answer = $5
     where account_id = $1 and receipt_id = $2`,
    [accountId, receiptId, String(final), digest, text],
  );
  authorisation.state = 'booked';
  authorisation.booked = final;
  authorisation.consumptionDigest = digest;
  authorisation.consumptionAnswer = text;
  return text;
}

function exceeds(context: AskContext, authorisation: AuthorisationState, final: number): Booked<never> {
  const { amount, currency } = authorisation;
  const id = newTypeId('evt', context.facts.head.nowMs);
  recordBooking(context, authorisation, { kind: 'consumption.refused', id, body: { amount, final_amount: final } });
  const detail = `The final amount is above the ${decimalOf(amount, currency)} ${currency} that were authorised.`;
  return { ok: false, error: new ProblemError('exceeds_authorised_amount', detail) };
}

function mismatch(asked: Consumption, { currency, actionType, counterparty, ctx }: AuthorisationState): string | null {
  if (asked.currency !== undefined && asked.currency !== currency) return 'currency';
  if (asked.action_type !== undefined && asked.action_type !== actionType) return 'action_type';
  if (asked.counterparty !== undefined && asked.counterparty !== counterparty) return 'counterparty';
  return asked.context_digest !== undefined && asked.context_digest !== ctx ? 'context_digest' : null;
}

function digestOf(asked: Consumption, final: number): string {
  const { currency, action_type, counterparty, context_digest } = asked;
  return hash('sha256', JSON.stringify([final, currency, action_type, counterparty, context_digest]), 'hex');
}
