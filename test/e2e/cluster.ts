import { randomBytes } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { Agent, createServer, request as httpRequest } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type StartedProcess, startProcess } from '../../bench/processes.ts';
import { type SeededAccount, type SeededLimits, seedAccounts, seedInstances } from '../../bench/seed.ts';
import { connect, type Sql } from '../../control-plane/db/client.ts';
import { newSecretToken, secretHash } from '../../core/secret-token.ts';
import { newTypeId } from '../../core/type-id.ts';
import { createDatabase } from '../database.ts';

type TestContext = Parameters<typeof createDatabase>[0];

/** Two control planes and a proxy with two workers, as processes, before one database and one target. */
export interface Cluster {
  readonly sql: Sql;
  readonly controlPlanes: readonly StartedProcess[];
  /** Where the proxy is now. */
  readonly proxyUrl: string;
  /** Kills the proxy with its workers, and starts it anew. */
  killProxy(): Promise<void>;
  /** How often each reference reached the target: the ledger that is judged by. */
  readonly ledger: Map<string, number>;
  startControlPlane(index: number): Promise<StartedProcess>;
  /** A fresh account whose mandate has `instances` gateway instances, spread over the control planes by token. */
  seed(limits: SeededLimits, instances: number): Promise<SeededAccount[]>;
  pay(token: string, reference: string): Promise<number>;
  /** A person's session at the second control plane; `post` resolves with the status. */
  signIn(accountId: string): Promise<{ post(path: string): Promise<number> }>;
}

const SHARED = { MANDATE_GATEWAY_ALLOW_PRIVATE_TARGETS: 'true', MANDATE_LOG_LEVEL: 'fatal' };

/** Starts the cluster; everything ends with the test. */
export async function startCluster(t: TestContext): Promise<Cluster> {
  const database = await createDatabase(t);
  const sql = connect(database.ownerUrl, { applicationName: 'test', max: 2 });
  t.teardown(() => sql.end());
  const directory = await mkdtemp(join(tmpdir(), 'mandate-cluster-'));
  t.teardown(() => rm(directory, { recursive: true, force: true }));
  const target = await startTarget(t);
  const secrets = { MANDATE_INTERNAL_SECRET: randomBytes(32).toString('hex') };
  const masterKey = randomBytes(32).toString('hex');
  const sockets = [0, 1].map((i) => join(directory, `control-${i}.sock`));
  const startControlPlane = async (index: number): Promise<StartedProcess> => {
    const started = await startProcess('control-plane/main', {
      ...SHARED,
      ...secrets,
      MANDATE_DATABASE_APP_URL: database.appUrl,
      MANDATE_MASTER_KEY: masterKey,
      MANDATE_CONTROL_SOCKET: sockets[index],
      MANDATE_CONTROL_PORT: '0',
      MANDATE_CONTROL_METRICS_PORT: '0',
    });
    t.teardown(() => ended(started));
    return started;
  };
  const controlPlanes = await Promise.all([startControlPlane(0), startControlPlane(1)]);
  const startProxy = async (): Promise<StartedProcess> => {
    const started = await startProcess('proxy/main', {
      ...SHARED,
      ...secrets,
      MANDATE_PROXY_WORKERS: '2',
      MANDATE_CONTROL_PLANES: sockets.map((socket) => `unix:${socket}`).join(','),
      MANDATE_CONTROL_URL: controlPlanes[0]!.at['admin'],
      MANDATE_PROXY_PORT: '0',
      MANDATE_PROXY_METRICS_PORT: '0',
    });
    t.teardown(() => ended(started));
    return started;
  };
  let proxy = await startProxy();
  const proxyUrl = (): string => proxy.at['proxy'] ?? '';
  const killProxy = async (): Promise<void> => {
    await ended(proxy, 'SIGKILL');
    proxy = await startProxy();
  };
  const agent = new Agent({ keepAlive: true, maxSockets: 128 });
  t.teardown(async () => agent.destroy());
  const seed: Cluster['seed'] = async (limits, instances) => {
    const [account] = await seedAccounts(sql, 1, target.url, limits);
    return [account!, ...(await seedInstances(sql, account!, instances - 1))];
  };
  const pay = (token: string, reference: string): Promise<number> => payment(agent, proxyUrl(), token, reference);
  const signIn: Cluster['signIn'] = (accountId) => session(sql, controlPlanes[1]!.at['admin'] ?? '', accountId);
  const { ledger } = target;
  return {
    ...{ sql, controlPlanes, ledger, startControlPlane, killProxy, seed, pay, signIn },
    get proxyUrl() {
      return proxyUrl();
    },
  };
}

/** A person's session, as if somebody had signed in. */
async function session(sql: Sql, base: string, accountId: string): ReturnType<Cluster['signIn']> {
  const token = newSecretToken('ses');
  const id = newTypeId('ses', Date.now());
  await sql`insert into sessions (account_id, session_id, token_hash, created_at, last_seen_at, expires_at, factor_at)
    values (${accountId}, ${id}, decode(${secretHash(token)}, 'hex'), db_clock(), db_clock(),
      db_clock() + interval '1 hour', db_clock())`;
  await sql`insert into token_routes (token_hash, kind, account_id, subject_id)
    values (decode(${secretHash(token)}, 'hex'), 'session', ${accountId}, ${id})`;
  const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' };
  const post = async (path: string): Promise<number> => {
    const response = await fetch(`${base}${path}`, { method: 'POST', headers, body: '{}' });
    await response.arrayBuffer();
    return response.status;
  };
  return { post };
}

async function startTarget(t: TestContext) {
  const ledger = new Map<string, number>();
  const server = createServer((request, response) => {
    let body = '';
    request.on('data', (chunk: Buffer) => {
      body += chunk.toString();
    });
    request.on('end', () => {
      const { reference } = JSON.parse(body) as { reference: string };
      ledger.set(reference, (ledger.get(reference) ?? 0) + 1);
      response.end('{}');
    });
  });
  await new Promise<void>((resolve) => {
    server.listen(0, '127.0.0.1', () => resolve());
  });
  t.teardown(async () => {
    server.closeAllConnections();
    server.close();
  });
  return { ledger, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` };
}

/** Pays 1.00 EUR; resolves with the status, or 0 when the connection broke. */
function payment(agent: Agent, proxyUrl: string, token: string, reference: string): Promise<number> {
  const body = JSON.stringify({ amount: 1, currency: 'EUR', counterparty: 'acme', reference });
  const headers = {
    authorization: `Bearer ${token}`,
    'content-type': 'application/json',
    'content-length': Buffer.byteLength(body),
  };
  return new Promise((resolve) => {
    const url = `${proxyUrl}/api/gateway/http/payments`;
    const request = httpRequest(url, { agent, method: 'POST', headers }, (response) => {
      response.resume();
      response.on('end', () => resolve(response.statusCode ?? 0));
      response.on('error', () => resolve(0));
    });
    request.on('error', () => resolve(0));
    request.end(body);
  });
}

/** Ends a process and waits for it; one that is gone already is fine. */
export async function ended({ child }: StartedProcess, signal: NodeJS.Signals = 'SIGTERM'): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exit = new Promise((resolve) => child.once('exit', resolve));
  child.kill(signal);
  await exit;
}
