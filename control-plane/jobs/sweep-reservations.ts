import { JOB_BATCH } from '../../core/limits.ts';
import type { GatewayOutcome } from '../../core/wire.ts';
import type { Lanes } from '../decisions/lanes.ts';
import type { JobsCore } from './job.ts';

/**
 * Gives up on outcomes that no proxy told in time: unknown, still counted in full (contract §7 "Booking").
 *
 * They take the way of every outcome, so they are judged under the lock by the same rule, and a proxy that tells the
 * outcome later after all is still heard.
 */
export async function sweepReservations({ sql, lanes }: JobsCore): Promise<boolean> {
  const due = await sql<{ account_id: string; receipt_id: string }[]>`
    select account_id, receipt_id from reservations
    where state = 'reserved' and due_at <= db_clock() and path = 'gateway' order by due_at limit ${JOB_BATCH}`;
  const written = await Promise.all(
    due.map(({ account_id, receipt_id }) =>
      tell(lanes, {
        account_id,
        receipt_id,
        outcome: 'unknown',
        cause: 'proxy_lost',
        target_status: null,
        answer: null,
      }),
    ),
  );
  const missed = written.filter((one) => !one).length;
  if (missed > 0) throw new Error(`${missed} of ${due.length} unknown outcomes could not be recorded`);
  return due.length === JOB_BATCH;
}

/** Forgets settled rows after their time: whatever is told after that is told twice. They hold nothing of a month. */
export async function sweepSettled({ sql }: JobsCore): Promise<boolean> {
  const { count } = await sql`
    with old as (
      select account_id, receipt_id from reservations
      where state in ('settled_booked', 'settled_released') and due_at <= db_clock()
      order by due_at limit ${JOB_BATCH})
    delete from reservations r using old where r.account_id = old.account_id and r.receipt_id = old.receipt_id`;
  return count === JOB_BATCH;
}

function tell(lanes: Lanes, outcome: GatewayOutcome): Promise<boolean> {
  return new Promise((answer) => {
    lanes.submit({ kind: 'outcome', accountId: outcome.account_id, outcome, answer });
  });
}
