import type { FastifyInstance, FastifyRequest } from 'fastify';
import { ProblemError } from '../../core/errors.ts';
import { isTypeId } from '../../core/type-id.ts';
import { accountOf } from '../admin/session.ts';
import type { CommandContext } from '../decisions/command.ts';
import type { RouteDependencies } from '../http/dependencies.ts';
import { readQuery } from '../http/query.ts';
import { idParam, readBody } from '../http/request.ts';
import { checkedEndpointUrl } from './endpoint-url.ts';
import {
  createEndpoint,
  type DeliveryRecord,
  deleteEndpoint,
  type EndpointRecord,
  readDeliveries,
  readDelivery,
  readEndpoint,
  readEndpoints,
  replay,
  rotateSecret,
  sendTest,
  setEndpointStatus,
} from './endpoints.ts';
import { EVENT_TYPES } from './event-types.ts';
import { deliveriesQuery, endpointInput, settingsInput } from './input.ts';
import { changeSettings, type NotificationSettings, readSettingsOf } from './settings.ts';
import { newWebhookKey, webhookSecret } from './signature.ts';

/** The routes of notifications: webhook endpoints, their deliveries, and what is told by e-mail. */
export function registerNotificationRoutes(app: FastifyInstance, deps: RouteDependencies): void {
  registerEndpoints(app, deps);
  registerSteps(app, deps);
  registerDeliveries(app, deps);
  app.get('/admin/notifications', async (request) => {
    return settingsView(await readSettingsOf(deps.sql, accountOf(request)));
  });
  app.put('/admin/notifications', async (request) => {
    const change = readBody(request, settingsInput);
    return settingsView(await command(deps, request, (context) => changeSettings(context, change)));
  });
}

function registerEndpoints(app: FastifyInstance, deps: RouteDependencies): void {
  app.get('/admin/webhooks', async (request) => {
    return { webhooks: (await readEndpoints(deps.sql, accountOf(request))).map(endpointView) };
  });
  app.get('/admin/webhooks/:id', async (request) => {
    return endpointView(await readEndpoint(deps.sql, accountOf(request), idParam(request, 'whk')));
  });
  app.post('/admin/webhooks', async (request, reply) => {
    const input = readBody(request, endpointInput);
    const url = await checkedEndpointUrl(input.url, deps.allowPrivateTargets);
    const key = newWebhookKey();
    const made = await command(deps, request, (context) =>
      createEndpoint(context, deps.custody, { ...input, url }, key),
    );
    return reply.code(201).send({ ...endpointView(made), secret: webhookSecret(key) });
  });
  app.delete('/admin/webhooks/:id', async (request) => {
    const id = idParam(request, 'whk');
    await command(deps, request, (context) => deleteEndpoint(context, id));
    return { endpoint_id: id, deleted: true };
  });
}

function registerSteps(app: FastifyInstance, deps: RouteDependencies): void {
  app.post('/admin/webhooks/:id/rotate-secret', async (request) => {
    const [id, key] = [idParam(request, 'whk'), newWebhookKey()];
    const rotated = await command(deps, request, (context) => rotateSecret(context, deps.custody, id, key));
    return { ...endpointView(rotated), secret: webhookSecret(key) };
  });
  for (const [step, status] of [
    ['disable', 'disabled'],
    ['enable', 'active'],
  ] as const) {
    app.post(`/admin/webhooks/:id/${step}`, async (request) => {
      const id = idParam(request, 'whk');
      return endpointView(await command(deps, request, (context) => setEndpointStatus(context, id, status)));
    });
  }
  app.post('/admin/webhooks/:id/test', async (request, reply) => {
    const id = idParam(request, 'whk');
    const deliveryId = await command(deps, request, (context) => sendTest(context, id));
    return reply.code(202).send(await oneDelivery(deps, accountOf(request), id, deliveryId));
  });
}

function registerDeliveries(app: FastifyInstance, deps: RouteDependencies): void {
  app.get('/admin/webhooks/:id/deliveries', async (request) => {
    const { state, after, limit } = readQuery(request, deliveriesQuery);
    const [accountId, endpointId] = [accountOf(request), idParam(request, 'whk')];
    await readEndpoint(deps.sql, accountId, endpointId);
    // One more than asked for tells whether there is a next page.
    const where = { endpointId, state: state ?? null, after: after ?? null, limit: limit + 1 };
    const rows = await readDeliveries(deps.sql, accountId, where);
    const deliveries = rows.slice(0, limit).map(deliveryView);
    return { deliveries, next: rows.length > limit ? (deliveries.at(-1)?.delivery_id ?? null) : null };
  });
  app.get('/admin/webhooks/:id/deliveries/:delivery', async (request) => {
    return await oneDelivery(deps, accountOf(request), idParam(request, 'whk'), deliveryParam(request));
  });
  app.post('/admin/webhooks/:id/deliveries/:delivery/replay', async (request, reply) => {
    const [id, deliveryId] = [idParam(request, 'whk'), deliveryParam(request)];
    await command(deps, request, (context) => replay(context, id, deliveryId));
    return reply.code(202).send(await oneDelivery(deps, accountOf(request), id, deliveryId));
  });
}

function command<T>(
  { commands }: RouteDependencies,
  request: FastifyRequest,
  run: (context: CommandContext) => Promise<T>,
): Promise<T> {
  return commands.command(accountOf(request), run);
}

function deliveryParam(request: FastifyRequest): string {
  const { delivery } = request.params as { readonly delivery?: unknown };
  if (isTypeId(delivery, 'dlv')) return delivery;
  throw new ProblemError('not_found', 'There is no such delivery.');
}

async function oneDelivery({ sql }: RouteDependencies, accountId: string, endpointId: string, deliveryId: string) {
  const { payload, ...delivery } = await readDelivery(sql, accountId, { endpointId, deliveryId });
  return { ...deliveryView(delivery), payload: JSON.parse(payload) as unknown };
}

function endpointView(row: EndpointRecord) {
  const { endpoint_id, name, url, events, status, disabled_cause } = row;
  return {
    ...{ endpoint_id, name, url, events, status, disabled_cause },
    previous_secret_until: optionalTime(row.previous_until),
    failing_since: optionalTime(row.failing_since),
    created_at: optionalTime(row.created_at),
    changed_at: optionalTime(row.changed_at),
  };
}

function deliveryView(row: DeliveryRecord) {
  const { delivery_id, event_id, type, state, attempts, last_status, last_error, log } = row;
  return {
    ...{ delivery_id, event_id, type, state, attempts, last_status, last_error },
    next_attempt_at: state === 'pending' ? optionalTime(row.next_at) : null,
    created_at: optionalTime(row.created_at),
    settled_at: optionalTime(row.settled_at),
    log,
  };
}

function settingsView({ email, mail, mail_events, recipients, language }: NotificationSettings) {
  return { email, mail, mail_events, recipients, language, events: EVENT_TYPES };
}

function optionalTime(ms: number | null): string | null {
  return ms === null ? null : new Date(ms).toISOString();
}
