import { JOB_BATCH } from '../../core/limits.ts';
import { expire } from '../escalations/store.ts';
import { byAccount } from './by-account.ts';
import type { JobsCore } from './job.ts';

/** Writes as expired what nobody answered in time (contract §6). */
export async function expireEscalations({ sql, lanes }: JobsCore): Promise<boolean> {
  const late = await sql<{ account_id: string; escalation_id: string }[]>`
    select account_id, escalation_id from escalations
    where status = 'pending' and expires_at <= db_clock() order by expires_at limit ${JOB_BATCH}`;
  await byAccount(late, (accountId, own) =>
    expire(
      lanes,
      accountId,
      own.map((one) => one.escalation_id),
    ),
  );
  return late.length === JOB_BATCH;
}
