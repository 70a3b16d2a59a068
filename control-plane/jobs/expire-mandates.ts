import { JOB_BATCH } from '../../core/limits.ts';
import type { CommandContext } from '../decisions/command.ts';
import { byAccount } from './by-account.ts';
import type { JobsCore } from './job.ts';

/** Moves mandates whose `valid_until` has passed to `expired` (contract §5). */
export async function expireMandates({ sql, lanes }: JobsCore): Promise<boolean> {
  const ended = await sql<{ account_id: string; mandate_id: string }[]>`
    select account_id, mandate_id from mandates
    where valid_until is not null and status in ('draft', 'active', 'suspended') and valid_until <= db_clock()
    order by valid_until limit ${JOB_BATCH}`;
  await byAccount(ended, (accountId, own) =>
    lanes.command(accountId, (context) =>
      expireOf(
        context,
        own.map((one) => one.mandate_id),
      ),
    ),
  );
  return ended.length === JOB_BATCH;
}

async function expireOf({ sql, accountId, now, append }: CommandContext, ids: readonly string[]): Promise<void> {
  const rows = await sql<{ mandate_id: string; version: number; valid_until: number }[]>`
    update mandates set status = 'expired', changed_at = ${now}
    where account_id = ${accountId} and mandate_id = any (${[...ids]}::text[])
      and status in ('draft', 'active', 'suspended') and valid_until <= ${now}
    returning mandate_id, version, valid_until`;
  for (const { mandate_id, version, valid_until } of rows) {
    append('mandate.expired', { mandate_id, version, valid_until: new Date(valid_until).toISOString() });
  }
}
