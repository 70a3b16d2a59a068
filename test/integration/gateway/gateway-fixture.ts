import { mkdtemp, rm } from 'node:fs/promises';
import { createServer, request as httpRequest, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { SeededAccount, SeededLimits } from '../../../bench/seed.ts';
import type { Sql } from '../../../control-plane/db/client.ts';
import type { BatchDependencies } from '../../../control-plane/decisions/batch.ts';
import { type EscalationGate, startInternalServer } from '../../../control-plane/decisions/internal-server.ts';
import type { Lanes } from '../../../control-plane/decisions/lanes.ts';
import { TokenRoutes } from '../../../control-plane/decisions/token-routes.ts';
import { TokenBuckets } from '../../../control-plane/rate-limit/buckets.ts';
import type { GatewayAsk } from '../../../core/wire.ts';
import { startProxy } from '../../../proxy/server.ts';
import { laneFixture } from '../decisions/lane-client.ts';

/** What reached the target, in the order in which it came: the independent ledger that tests judge by. */
export interface Delivered {
  readonly method: string;
  readonly url: string;
  readonly headers: IncomingMessage['headers'];
  readonly rawHeaders: readonly string[];
  readonly body: Buffer;
}

export type Behaviour = (request: Delivered, response: ServerResponse) => void;

export interface GatewayFixture {
  readonly sql: Sql;
  readonly lanes: Lanes;
  readonly account: SeededAccount;
  readonly ledger: Delivered[];
  readonly proxyPort: number;
  readonly errors: unknown[];
  behave(behaviour: Behaviour): void;
  stopControlPlane(): Promise<void>;
  send(options?: SendOptions): Promise<Answer>;
}

export interface SendOptions {
  readonly method?: string;
  readonly path?: string;
  readonly headers?: Record<string, string | string[]>;
  readonly body?: string | Buffer | null;
  readonly token?: string | null;
  /** Where it comes from, 127.0.0.1 where nothing is said: whoever shows no valid credential is limited by address. */
  readonly from?: string;
}

export interface Answer {
  readonly status: number;
  readonly headers: IncomingMessage['headers'];
  readonly text: string;
  readonly json: Record<string, unknown>;
}

export interface FixtureOptions {
  readonly limits?: SeededLimits;
  readonly escalations?: EscalationGate;
  readonly allowPrivateTargets?: boolean;
  readonly targetTimeoutMs?: number;
  readonly sighted?: BatchDependencies['sighted'];
  /** Told of every ask of a gateway request that reached the lanes. */
  readonly asked?: (ask: GatewayAsk) => void;
  readonly newAgentKeys?: { readonly perSecond: number; readonly burst: number };
}

const NO_ESCALATIONS: EscalationGate = { wait: async () => null, storeBody: async () => true };

type TestContext = Parameters<typeof laneFixture>[0];

/** Everything of the gateway path in one process: target, proxy, internal listener, lanes, PostgreSQL. */
export async function gatewayFixture(t: TestContext, options: FixtureOptions = {}): Promise<GatewayFixture> {
  const target = await startTarget(t);
  const { sql, lanes: seeded, account, errors, moreLanes } = await laneFixture(t, options.limits);
  const { sighted, asked } = options;
  const lanes = sighted === undefined ? seeded : moreLanes({ sighted });
  if (asked !== undefined) tellAsks(lanes, asked);
  await sql`update gateway_instances set target_url = ${target.url}, config_version = 2`;
  const directory = await mkdtemp(join(tmpdir(), 'mandate-gateway-'));
  t.teardown(() => rm(directory, { recursive: true, force: true }));
  const internal = await startInternalServer({
    listen: { path: join(directory, 'control.sock') },
    secret: 'a shared secret of the test',
    lanes,
    routes: new TokenRoutes(sql),
    buckets: new TokenBuckets(),
    escalations: options.escalations ?? NO_ESCALATIONS,
    keyUsed: () => {},
    sandboxAccountId: null,
    metrics: { decision() {}, outcome() {}, batch() {}, laneDepth() {}, evidence() {}, facts() {}, rateLimited() {} },
    logError: (error) => errors.push(error),
  });
  const stopControlPlane = async (): Promise<void> => {
    internal.server.closeAllConnections();
    await internal.close();
  };
  const proxy = await startProxy({
    host: '127.0.0.1',
    port: 0,
    controlPlanes: [`unix:${join(directory, 'control.sock')}`],
    internalSecret: 'a shared secret of the test',
    controlUrl: 'http://127.0.0.1:9',
    decisionTimeoutMs: 2_000,
    allowPrivateTargets: options.allowPrivateTargets ?? true,
    targetConnectTimeoutMs: 1_000,
    targetTimeoutMs: options.targetTimeoutMs ?? 5_000,
    shutdownTimeoutMs: 2_000,
    ...(options.newAgentKeys === undefined ? {} : { newAgentKeys: options.newAgentKeys }),
    logError: (error) => errors.push(error),
  });
  t.teardown(async () => {
    await proxy.close();
    await stopControlPlane();
  });
  const send = (given: SendOptions = {}): Promise<Answer> => sendTo(proxy.port, account.token, given);
  return { sql, lanes, account, errors, ...target, proxyPort: proxy.port, stopControlPlane, send };
}

function tellAsks(lanes: Lanes, asked: (ask: GatewayAsk) => void): void {
  const submit = lanes.submit.bind(lanes);
  lanes.submit = (item) => {
    if (item.kind === 'ask') asked(item.ask);
    submit(item);
  };
}

/** A target that keeps a ledger; it answers 201 unless told to `behave` otherwise. */
export async function startTarget(t: TestContext) {
  const ledger: Delivered[] = [];
  let behaviour: Behaviour = (_request, response) => {
    response.writeHead(201, { 'content-type': 'application/json' });
    response.end('{"id":"pay_1"}');
  };
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const { method = '', url = '', headers, rawHeaders } = request;
      const delivered = { method, url, headers, rawHeaders, body: Buffer.concat(chunks) };
      ledger.push(delivered);
      behaviour(delivered, response);
    });
  });
  await new Promise<void>((resolve) => {
    server.listen(0, '127.0.0.1', () => resolve());
  });
  t.teardown(async () => {
    server.closeAllConnections();
    server.close();
  });
  const behave = (next: Behaviour): void => {
    behaviour = next;
  };
  return { ledger, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, behave };
}

/** Sends one request to a port of this machine; the default is a POST of a payment of 1.00 EUR. */
export function sendTo(port: number, token: string, given: SendOptions): Promise<Answer> {
  const body = given.body === undefined ? '{"amount":1.00,"currency":"EUR","counterparty":"acme"}' : given.body;
  const authorization = given.token === undefined ? `Bearer ${token}` : given.token;
  const headers: Record<string, string | string[]> = { ...given.headers };
  if (authorization !== null) headers['authorization'] ??= authorization;
  if (body !== null) {
    headers['content-type'] ??= 'application/json';
    if (headers['transfer-encoding'] === undefined) headers['content-length'] ??= String(Buffer.byteLength(body));
  }
  return new Promise((resolve, reject) => {
    const request = httpRequest(
      {
        port,
        host: '127.0.0.1',
        method: given.method ?? 'POST',
        path: given.path ?? '/api/gateway/http/payments',
        headers,
        agent: false,
        localAddress: given.from ?? '127.0.0.1',
      },
      (response) => {
        const chunks: Buffer[] = [];
        response.on('data', (chunk: Buffer) => chunks.push(chunk));
        response.on('error', reject);
        response.on('end', () => {
          const text = Buffer.concat(chunks).toString('utf8');
          resolve({ status: response.statusCode ?? 0, headers: response.headers, text, json: jsonOf(text) });
        });
      },
    );
    request.on('error', reject);
    request.end(body ?? undefined);
  });
}

function jsonOf(text: string): Record<string, unknown> {
  try {
    return JSON.parse(text) as Record<string, unknown>;
  } catch {
    return {};
  }
}
