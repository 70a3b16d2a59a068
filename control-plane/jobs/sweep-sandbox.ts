import { SANDBOX_SWEEP_BATCH } from '../../core/limits.ts';
import type { JobsCore } from './job.ts';

/** Deletes what sandbox mandates that ended leave behind; the database chooses, and knows which account that is. */
export async function sweepSandbox({ sql, lanes }: JobsCore): Promise<boolean> {
  const [due] = await sql<{ account_id: string }[]>`
    select s.account_id from sandbox_mandates s
    join mandates m on m.account_id = s.account_id and m.mandate_id = s.mandate_id
    where m.valid_until <= db_clock() - interval '1 day'
      or (m.valid_until <= db_clock() - interval '1 hour' and exists (
        select from agent_keys k where k.account_id = s.account_id and k.mandate_id = s.mandate_id))
    limit 1`;
  if (due === undefined) return false;
  // In the account's lane, so that nothing is decided or booked on what is about to go.
  await lanes.command(due.account_id, async (context) => {
    await context.sql`select sweep_sandbox(${SANDBOX_SWEEP_BATCH})`;
  });
  // Others wait on that lane: the next ones go after the job's pause, which is still far more than can be made.
  return false;
}
