import { mkdtemp, rm } from 'node:fs/promises';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { seedKey } from '../../../bench/seed.ts';
import { registerConsumptionRoutes } from '../../../control-plane/consumptions/routes.ts';
import { registerPresentRoutes } from '../../../control-plane/custody/routes.ts';
import { startInternalServer } from '../../../control-plane/decisions/internal-server.ts';
import { TokenRoutes } from '../../../control-plane/decisions/token-routes.ts';
import { registerExecutionRoutes } from '../../../control-plane/executions/routes.ts';
import { registerSandboxRoutes } from '../../../control-plane/sandbox/routes.ts';
import type { RegisterRoutes } from '../../../control-plane/server.ts';
import { contextDigest } from '../../../core/action.ts';
import { API_SCOPES } from '../../../core/api-scopes.ts';
import { formatDidKey } from '../../../core/did-key.ts';
import { newSeed, SigningKey } from '../../../core/ed25519.ts';
import { createPresentation, type PresentationDocument, type PresentationIntent } from '../../../core/presentation.ts';
import type { TypeId } from '../../../core/type-id.ts';
import { startProxy } from '../../../proxy/server.ts';
import { textAt } from '../control-plane/admin-fixture.ts';
import { NOUN_ROUTES, type NounFixture, nounFixture } from '../control-plane/noun-fixture.ts';
import { type Answer, type SendOptions, sendTo, startTarget } from '../gateway/gateway-fixture.ts';
import { INTERNAL_SECRET } from '../proxy/fake-control-plane.ts';

const ROUTES = [
  ...NOUN_ROUTES,
  registerPresentRoutes,
  registerConsumptionRoutes,
  registerExecutionRoutes,
  registerSandboxRoutes,
];

/** An action in major units, as it is sent. */
export interface ActionBody {
  readonly type: string;
  readonly amount: { readonly value: number; readonly currency: string };
  readonly counterparty?: string;
}

/** An action of so many EUR to acme. */
export function payment(value: number): ActionBody {
  return { type: 'payments.create', amount: { value, currency: 'EUR' }, counterparty: 'acme' };
}

type Target = Awaited<ReturnType<typeof startTarget>>;

/** The whole service in one process: both APIs of a control plane, its lanes, a proxy in front, and a target. */
export interface ServiceFixture extends NounFixture {
  /** A key with every scope, its rates as high as they go. */
  readonly key: string;
  /** The key of an agent that signs for itself, and its did:key. */
  readonly signer: SigningKey;
  readonly did: string;
  readonly port: number;
  readonly target: Target;
  /** Sends to the proxy, with the key where nothing else is said; each request comes from an address of its own. */
  call(path: string, body?: unknown, options?: SendOptions): Promise<Answer>;
  /** A presentation by `signer` for an action in whole cents, by the database's clock. */
  present(mandateId: string, action: ActionBody, changes?: Partial<PresentationIntent>): Promise<PresentationDocument>;
  /** A gateway in front of the target, with POST /payments mapped unless `mapped` is false; returns its token. */
  gateway(mandateId: string, mapped?: boolean): Promise<{ readonly token: string; readonly instanceId: string }>;
}

export async function serviceFixture(
  t: Parameters<typeof nounFixture>[0],
  more: readonly RegisterRoutes[] = [],
): Promise<ServiceFixture> {
  const target = await startTarget(t);
  const nouns = await nounFixture(t, { register: [...ROUTES, ...more], sandbox: true });
  const port = await startService(t, nouns);
  const signer = new SigningKey(newSeed());
  const { apiKey: key } = await seedKey(nouns.sql, nouns.person, API_SCOPES);
  let sent = 0;
  const call: ServiceFixture['call'] = (path, body, options = {}) => {
    sent += 1;
    return sendTo(port, key, {
      path,
      from: `127.0.${1 + (sent >> 8)}.${sent & 255}`,
      ...(body === undefined
        ? { method: 'GET', body: null }
        : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
      ...options,
    });
  };
  const present: ServiceFixture['present'] = async (mandateId, { type, amount, counterparty }, changes = {}) => {
    const [row] = await nouns.sql<{ now: number }[]>`select epoch_ms(db_clock()) as now`;
    const now = row?.now ?? 0;
    const amount_minor = Math.round(amount.value * 100);
    const ctx = contextDigest({ type, amount_minor, currency: amount.currency, counterparty: counterparty ?? null });
    const verifier = nouns.person.accountId as TypeId<'acc'>;
    const window = { issued_at_ms: now, expires_at_ms: now + 300_000 };
    return createPresentation({ mandate_id: mandateId as TypeId<'mdt'>, verifier, ctx, ...window, ...changes }, signer);
  };
  const gateway: ServiceFixture['gateway'] = async (mandateId, mapped = true) => {
    const made = await nouns.as('POST', '/admin/gateways', { mandate_id: mandateId, target_url: target.url });
    const instanceId = textAt(made, 'instance_id');
    const tool = { name: 'http.post:/payments', mapping: { action_type: 'payments.create' } };
    if (mapped) textAt(await nouns.as('PUT', `/admin/gateways/${instanceId}/tools`, tool), 'tool_id');
    return { token: textAt(made, 'token'), instanceId };
  };
  return { ...nouns, key, signer, did: formatDidKey(signer.publicKey), port, target, call, present, gateway };
}

/** Puts the control plane's listeners and a proxy around a fixture; returns the proxy's port. */
async function startService(t: Parameters<typeof nounFixture>[0], nouns: NounFixture): Promise<number> {
  const { deps, lanes, sql, errors } = nouns;
  const directory = await mkdtemp(join(tmpdir(), 'mandate-service-'));
  t.teardown(() => rm(directory, { recursive: true, force: true }));
  const socket = join(directory, 'control.sock');
  const logError = (error: unknown): unknown => errors.push(error);
  await nouns.app.listen({ host: '127.0.0.1', port: 0 });
  const internal = await startInternalServer({
    listen: { path: socket },
    secret: INTERNAL_SECRET,
    lanes,
    routes: new TokenRoutes(sql),
    buckets: deps.buckets,
    escalations: { wait: async () => null, storeBody: async () => true },
    keyUsed: () => {},
    sandboxAccountId: deps.booking.sandboxAccountId,
    metrics: { decision() {}, outcome() {}, batch() {}, laneDepth() {}, evidence() {}, facts() {}, rateLimited() {} },
    logError,
  });
  const { port } = nouns.app.server.address() as AddressInfo;
  const proxy = await startProxy({
    host: '127.0.0.1',
    port: 0,
    controlPlanes: [`unix:${socket}`],
    internalSecret: INTERNAL_SECRET,
    controlUrl: `http://127.0.0.1:${port}`,
    decisionTimeoutMs: 5_000,
    allowPrivateTargets: true,
    targetConnectTimeoutMs: 1_000,
    targetTimeoutMs: 5_000,
    shutdownTimeoutMs: 2_000,
    logError,
  });
  t.teardown(async () => {
    await proxy.close();
    internal.server.closeAllConnections();
    await internal.close();
  });
  return proxy.port;
}
