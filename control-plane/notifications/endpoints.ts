import { ProblemError } from '../../core/errors.ts';
import { DELIVERIES_WAITING_MAX, WEBHOOK_ENDPOINTS_MAX, WEBHOOK_SECRET_OVERLAP_MS } from '../../core/limits.ts';
import { secretHash } from '../../core/secret-token.ts';
import { newTypeId } from '../../core/type-id.ts';
import type { Custody } from '../custody/custody.ts';
import type { Sql } from '../db/client.ts';
import type { CommandContext } from '../decisions/command.ts';
import { EVENT_TYPES, type EventType, TEST_EVENT } from './event-types.ts';
import type { EndpointInput } from './input.ts';
import { payloadOf } from './payload.ts';

/** A row of `webhook_endpoints`; its secrets are never read here. */
export interface EndpointRecord {
  readonly endpoint_id: string;
  readonly name: string;
  readonly url: string;
  readonly events: readonly EventType[];
  readonly status: 'active' | 'disabled';
  readonly disabled_cause: 'person' | 'failing' | 'gone' | null;
  readonly previous_until: number | null;
  readonly failing_since: number | null;
  readonly created_at: number;
  readonly changed_at: number;
}

const COLUMNS = `endpoint_id, name, url, events, status, disabled_cause, previous_until, failing_since, created_at,
  changed_at`;

/** The endpoints of an account, the newest first. */
export async function readEndpoints(sql: Sql, accountId: string): Promise<EndpointRecord[]> {
  return await sql.unsafe<EndpointRecord[]>(
    `select ${COLUMNS} from webhook_endpoints where account_id = $1 order by endpoint_id desc`,
    [accountId],
  );
}

/** One endpoint of an account; @throws ProblemError 404 */
export async function readEndpoint(sql: Sql, accountId: string, id: string): Promise<EndpointRecord> {
  const rows = await sql.unsafe<EndpointRecord[]>(
    `select ${COLUMNS} from webhook_endpoints where account_id = $1 and endpoint_id = $2`,
    [accountId, id],
  );
  const row = rows[0];
  if (row === undefined) throw new ProblemError('not_found', 'There is no such webhook.');
  return row;
}

/** Makes an endpoint whose messages are signed with `key`; the URL was checked. */
export async function createEndpoint(
  context: CommandContext,
  custody: Custody,
  input: EndpointInput,
  key: Buffer,
): Promise<EndpointRecord> {
  const { sql, accountId, now, nowMs } = context;
  const [row] = await sql<{ count: number }[]>`
    select count(*) as count from webhook_endpoints where account_id = ${accountId}`;
  if (Number(row?.count ?? 0) >= WEBHOOK_ENDPOINTS_MAX) {
    throw new ProblemError('conflict', `An account can have ${WEBHOOK_ENDPOINTS_MAX} webhooks; delete one first.`);
  }
  const id = newTypeId('whk', nowMs);
  const events = [...(input.events ?? EVENT_TYPES)];
  await sql`insert into webhook_endpoints (account_id, endpoint_id, name, url, events, status, secret_sealed,
      created_at, changed_at)
    values (${accountId}, ${id}, ${input.name}, ${input.url}, ${events}, 'active',
      ${custody.seal(accountId, 'webhook', id, key)}, ${now}, ${now})`;
  // A receiver's address may hold a secret of its receiver: the evidence has its host, and a digest to compare with.
  const { origin } = new URL(input.url);
  context.append('webhook.created', {
    ...{ endpoint_id: id, name: input.name, origin, url_sha256: secretHash(input.url), events },
  });
  return readEndpoint(sql, accountId, id);
}

/** Replaces the secret; the one before signs along for a day, so that the receiver can change in between. */
export async function rotateSecret(
  context: CommandContext,
  custody: Custody,
  id: string,
  key: Buffer,
): Promise<EndpointRecord> {
  const { sql, accountId, now, nowMs } = context;
  const until = new Date(nowMs + WEBHOOK_SECRET_OVERLAP_MS).toISOString();
  await readEndpoint(sql, accountId, id);
  await sql`update webhook_endpoints set previous_sealed = secret_sealed, previous_until = ${until},
      secret_sealed = ${custody.seal(accountId, 'webhook', id, key)}, changed_at = ${now}
    where account_id = ${accountId} and endpoint_id = ${id}`;
  context.append('webhook.secret_rotated', { endpoint_id: id, previous_until: until });
  return readEndpoint(sql, accountId, id);
}

/** Disables or enables an endpoint by a person's hand. */
export async function setEndpointStatus(
  context: CommandContext,
  id: string,
  status: EndpointRecord['status'],
): Promise<EndpointRecord> {
  const { sql, accountId, now } = context;
  const before = await readEndpoint(sql, accountId, id);
  if (before.status === status) throw new ProblemError('conflict', `The webhook is ${status} already.`);
  const cause = status === 'disabled' ? 'person' : null;
  await sql`update webhook_endpoints set status = ${status}, disabled_cause = ${cause}, failing_since = null,
      changed_at = ${now}
    where account_id = ${accountId} and endpoint_id = ${id}`;
  if (status === 'disabled') context.append('webhook.disabled', { endpoint_id: id, cause: 'person' });
  else context.append('webhook.enabled', { endpoint_id: id });
  return readEndpoint(sql, accountId, id);
}

/** Forgets an endpoint and its secrets; what waits for it is not sent. */
export async function deleteEndpoint(context: CommandContext, id: string): Promise<void> {
  const { sql, accountId } = context;
  await readEndpoint(sql, accountId, id);
  await sql`delete from webhook_endpoints where account_id = ${accountId} and endpoint_id = ${id}`;
  context.append('webhook.deleted', { endpoint_id: id });
}

/** Has a test event sent to this endpoint only; returns the delivery's identifier. */
export async function sendTest(context: CommandContext, id: string): Promise<string> {
  const { sql, accountId, now, nowMs } = context;
  assertActive(await readEndpoint(sql, accountId, id));
  await refuseMore(context, id);
  const [eventId, deliveryId] = [newTypeId('evt', nowMs), newTypeId('dlv', nowMs)];
  const facts = { endpoint_id: id };
  const event = { account_id: accountId, event_id: eventId, type: TEST_EVENT, at: nowMs, facts };
  const payload = JSON.stringify(payloadOf(event, { mandate: null, instance: null }));
  await sql`insert into notification_events (account_id, event_id, type, at, facts, payload, spread_at)
    values (${accountId}, ${eventId}, ${TEST_EVENT}, ${now}, ${JSON.stringify(facts)}::text::jsonb, ${payload},
      ${now})`;
  await sql`insert into notification_deliveries (account_id, delivery_id, event_id, channel, target, state, next_at,
      created_at)
    values (${accountId}, ${deliveryId}, ${eventId}, 'webhook', ${id}, 'pending', ${now}, ${now})`;
  context.append('webhook.tested', { endpoint_id: id, delivery_id: deliveryId });
  return deliveryId;
}

/** Has a delivery sent again, under the same identifier and with all its attempts before it. */
export async function replay(context: CommandContext, id: string, deliveryId: string): Promise<void> {
  const { sql, accountId, now } = context;
  assertActive(await readEndpoint(sql, accountId, id));
  await refuseMore(context, id);
  const again = await sql`
    update notification_deliveries set state = 'pending', attempts = 0, next_at = ${now}, settled_at = null
    where account_id = ${accountId} and delivery_id = ${deliveryId} and target = ${id} and state <> 'pending'
    returning 1 as again`;
  if (again.length === 0) {
    await readDelivery(sql, accountId, { endpointId: id, deliveryId });
    throw new ProblemError('conflict', 'The delivery is waiting to be sent already.');
  }
  context.append('webhook.replayed', { endpoint_id: id, delivery_id: deliveryId });
}

function assertActive({ status }: EndpointRecord): void {
  if (status !== 'active') throw new ProblemError('conflict', 'The webhook is disabled; enable it first.');
}

/** A person's hand adds no more to what waits than events do. */
async function refuseMore({ sql, accountId }: CommandContext, id: string): Promise<void> {
  const [row] = await sql<{ waiting: number }[]>`
    select count(*) as waiting from (
      select from notification_deliveries
      where account_id = ${accountId} and target = ${id} and state = 'pending' limit ${DELIVERIES_WAITING_MAX}) x`;
  if (Number(row?.waiting ?? 0) < DELIVERIES_WAITING_MAX) return;
  const detail = `${DELIVERIES_WAITING_MAX} deliveries wait for this webhook already; try again once some were sent.`;
  throw new ProblemError('conflict', detail);
}

/** A delivery to an endpoint as its log shows it. */
export interface DeliveryRecord {
  readonly delivery_id: string;
  readonly event_id: string;
  readonly type: string;
  readonly state: 'pending' | 'delivered' | 'dead';
  readonly attempts: number;
  readonly next_at: number;
  readonly created_at: number;
  readonly settled_at: number | null;
  readonly last_status: number | null;
  readonly last_error: string | null;
  readonly log: unknown;
}

/** The deliveries to an endpoint, the newest first, after one of them where that is given. */
export async function readDeliveries(
  sql: Sql,
  accountId: string,
  where: {
    readonly endpointId: string;
    readonly state: string | null;
    readonly after: string | null;
    readonly limit: number;
  },
): Promise<DeliveryRecord[]> {
  return await sql<DeliveryRecord[]>`
    select d.delivery_id, d.event_id, e.type, d.state, d.attempts, d.next_at, d.created_at, d.settled_at,
      d.last_status, d.last_error, d.log
    from notification_deliveries d
    join notification_events e on e.account_id = d.account_id and e.event_id = d.event_id
    where d.account_id = ${accountId} and d.target = ${where.endpointId}
      and (${where.state}::text is null or d.state = ${where.state})
      and (${where.after}::text is null or d.delivery_id < ${where.after})
    order by d.delivery_id desc limit ${where.limit}`;
}

/** One delivery to an endpoint, with what was sent; @throws ProblemError 404 */
export async function readDelivery(
  sql: Sql,
  accountId: string,
  { endpointId, deliveryId }: { readonly endpointId: string; readonly deliveryId: string },
): Promise<DeliveryRecord & { readonly payload: string }> {
  const [row] = await sql<(DeliveryRecord & { payload: string })[]>`
    select d.delivery_id, d.event_id, e.type, d.state, d.attempts, d.next_at, d.created_at, d.settled_at,
      d.last_status, d.last_error, d.log, e.payload
    from notification_deliveries d
    join notification_events e on e.account_id = d.account_id and e.event_id = d.event_id
    where d.account_id = ${accountId} and d.target = ${endpointId} and d.delivery_id = ${deliveryId}`;
  if (row === undefined) throw new ProblemError('not_found', 'There is no such delivery.');
  return row;
}
