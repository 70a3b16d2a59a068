/** What an allow has to be told of; the parts of a batch's facts that say it. */
interface MandateUse {
  readonly accountId: string;
  readonly mandateId: string;
  readonly month: { readonly month: string; readonly reserved: number; readonly booked: number; told?: 80 | 100 };
}

interface Outbox {
  statement(text: string, params: readonly string[]): void;
}

const RECORD = 'select record_notification($1, $2, $3, $4::text::jsonb)';

/**
 * Records an event where an allow of `amount` (minor units), which the month holds already, brought the month's use to
 * 80 % or to 100 % of its limit.
 *
 * On the way of every allow: two additions and a comparison, unless a share is crossed. Use that goes down and up again
 * crosses again, which the database ignores, and which is not even sent twice while the facts stay in memory.
 */
export function noteMonthUse(
  recording: Outbox,
  { accountId, mandateId, month }: MandateUse,
  { per_month: limit, currency }: { readonly per_month: number; readonly currency: string },
  amount: number,
): void {
  const used = month.reserved + month.booked;
  // The same as in limit_changed() of the migration: 80 % rounded up, in whole minor units.
  const warning = limit - Math.floor(limit / 5);
  if (used < warning) return;
  const before = used - amount;
  const told = month.told ?? 0;
  const record = (type: string, percent: 80 | 100): void => {
    month.told = percent;
    const facts = { mandate_id: mandateId, month: month.month, percent, used, limit, currency };
    recording.statement(RECORD, [accountId, type, `${mandateId} ${month.month}`, JSON.stringify(facts)]);
  };
  if (before < warning && told < 80) record('limit.warning', 80);
  if (before < limit && used >= limit && told < 100) record('limit.reached', 100);
}
