import { JOB_BATCH } from '../../core/limits.ts';
import type { JobsCore } from './job.ts';

// Without an account's lock: what is deleted here bears on nothing any more. Rows are locked as they are chosen, so
// one that is given new life at the same moment (an idempotency key used again) is not among them.

/** How long an ended session is kept for those who look into what happened, in days. */
const SESSION_KEPT_DAYS = 30;

/** Deletes answers kept for idempotency keys whose time is over. */
export async function sweepAnswers({ sql }: JobsCore): Promise<boolean> {
  const { count } = await sql`
    with old as (
      select account_id, subject_id, key_hash from idempotency_answers
      where expires_at <= db_clock() order by expires_at limit ${JOB_BATCH} for update skip locked)
    delete from idempotency_answers a using old
    where a.account_id = old.account_id and a.subject_id = old.subject_id and a.key_hash = old.key_hash`;
  return count === JOB_BATCH;
}

/** Deletes sessions long past their end, and the routes of their tokens. */
export async function sweepSessions({ sql }: JobsCore): Promise<boolean> {
  const [row] = await sql<{ deleted: number }[]>`
    with old as (
      select account_id, session_id from sessions
      where expires_at <= db_clock() - ${SESSION_KEPT_DAYS}::integer * interval '1 day'
      order by expires_at limit ${JOB_BATCH} for update skip locked),
    gone as (
      delete from sessions s using old where s.account_id = old.account_id and s.session_id = old.session_id
      returning s.token_hash),
    routes as (
      delete from token_routes r using gone where r.token_hash = gone.token_hash and r.kind = 'session')
    select count(*) as deleted from gone`;
  return row?.deleted === JOB_BATCH;
}
