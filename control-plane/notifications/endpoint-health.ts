import { WEBHOOK_FAILING_MAX_MS } from '../../core/limits.ts';
import type { Sql } from '../db/client.ts';
import type { CommandRunner } from '../decisions/command.ts';

// Since when an endpoint fails is no state of the account: nothing is decided by it, so it needs no lane.

/** A message arrived: whatever failed before is over. */
export async function noteArrival(sql: Sql, accountId: string, endpointId: string): Promise<void> {
  await sql`update webhook_endpoints set failing_since = null
    where account_id = ${accountId} and endpoint_id = ${endpointId} and failing_since is not null`;
}

/** A message did not arrive; only the first one since the last arrival matters. */
export async function noteFailure(sql: Sql, accountId: string, endpointId: string): Promise<void> {
  await sql`update webhook_endpoints set failing_since = db_clock()
    where account_id = ${accountId} and endpoint_id = ${endpointId} and failing_since is null`;
}

/** Disables an endpoint that is `gone` or took nothing for long, and has its account told of it, once. */
export function disableFailing(
  commands: CommandRunner,
  accountId: string,
  { endpointId, gone }: { readonly endpointId: string; readonly gone: boolean },
): Promise<void> {
  const cause = gone ? 'gone' : 'failing';
  return commands.command(accountId, async ({ sql, now, nowMs, append }) => {
    const failingBefore = new Date(nowMs - WEBHOOK_FAILING_MAX_MS).toISOString();
    const [disabled] = await sql<{ name: string }[]>`
      update webhook_endpoints set status = 'disabled', disabled_cause = ${cause}, changed_at = ${now}
      where account_id = ${accountId} and endpoint_id = ${endpointId} and status = 'active'
        and (${gone} or failing_since <= ${failingBefore})
      returning name`;
    if (disabled === undefined) return;
    append('webhook.disabled', { endpoint_id: endpointId, cause });
    const facts = JSON.stringify({ endpoint_id: endpointId, name: disabled.name, cause });
    await sql`select record_notification(${accountId}, 'webhook.disabled', null, ${facts}::text::jsonb)`;
  });
}
