import { JOB_BATCH } from '../../core/limits.ts';
import { lapse } from '../consumptions/book.ts';
import { book } from '../decisions/booking.ts';
import type { JobsCore } from './job.ts';

/** Books in full what nobody booked in time (contract §5): each in its account's lane, judged by the same rule. */
export async function lapseAuthorisations({ sql, lanes }: JobsCore): Promise<boolean> {
  const due = await sql<{ account_id: string; token_hash: string }[]>`
    select account_id, encode(token_hash, 'hex') as token_hash from authorisations
    where state = 'reserved' and due_at <= db_clock() order by due_at limit ${JOB_BATCH}`;
  await Promise.all(
    due.map(({ account_id: accountId, token_hash: tokenHash }) => book(lanes, { accountId, tokenHash }, lapse)),
  );
  return due.length === JOB_BATCH;
}

/** Deletes spent nonces of presentations that have expired: those are refused for that first. */
export async function sweepNonces({ sql }: JobsCore): Promise<boolean> {
  const { count } = await sql`
    with old as (
      select account_id, nonce_hash from spent_nonces
      where expires_at <= db_clock() - interval '1 minute' order by expires_at limit ${JOB_BATCH})
    delete from spent_nonces n using old where n.account_id = old.account_id and n.nonce_hash = old.nonce_hash`;
  return count === JOB_BATCH;
}
