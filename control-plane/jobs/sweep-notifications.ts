import { JOB_BATCH, NOTIFICATIONS_KEPT_DAYS } from '../../core/limits.ts';
import type { Sql } from '../db/client.ts';

/** Deletes events that are old, and with them the log of their deliveries. */
export async function sweepNotifications(sql: Sql): Promise<boolean> {
  const { count } = await sql`
    with old as (
      select account_id, event_id from notification_events
      where at <= (select db_clock()) - ${NOTIFICATIONS_KEPT_DAYS}::integer * interval '1 day'
        and spread_at is not null
      order by at limit ${JOB_BATCH} for update skip locked)
    delete from notification_events e using old
    where e.account_id = old.account_id and e.event_id = old.event_id`;
  return count === JOB_BATCH;
}
