import { randomBytes } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { connect } from '../control-plane/db/client.ts';
import { formatDidKey } from '../core/did-key.ts';
import type { SigningKey } from '../core/ed25519.ts';
import { pidOf, stopChild } from './children.ts';
import type { Contender, RunningContender } from './contender.ts';
import { fillEvidence } from './fill-evidence.ts';
import { startProcess } from './processes.ts';
import { type BenchDatabase, benchDatabase, seedAccounts, seedKey } from './seed.ts';

/** The two processes and their database. */
interface StartedSystem {
  readonly url: string;
  /** The control plane itself, without the proxy before it. */
  readonly controlUrl: string;
  readonly pids: Readonly<Record<string, readonly number[]>>;
  stop(): Promise<void>;
}

async function startSystem(database: BenchDatabase, batchMax: number): Promise<StartedSystem> {
  const directory = await mkdtemp(join(tmpdir(), 'mandate-bench-'));
  const socket = join(directory, 'control.sock');
  const secret = randomBytes(32).toString('hex');
  const common = {
    MANDATE_INTERNAL_SECRET: secret,
    MANDATE_GATEWAY_ALLOW_PRIVATE_TARGETS: 'true',
    MANDATE_DECISION_BATCH_MAX: String(batchMax),
    MANDATE_LOG_LEVEL: 'error',
    NODE_ENV: 'production',
  };
  const control = await startProcess('control-plane/main', {
    ...common,
    MANDATE_DATABASE_APP_URL: database.appUrl,
    MANDATE_MASTER_KEY: randomBytes(32).toString('hex'),
    MANDATE_CONTROL_SOCKET: socket,
    MANDATE_CONTROL_PORT: '0',
    MANDATE_CONTROL_METRICS_PORT: '0',
  });
  const proxy = await startProcess('proxy/main', {
    ...common,
    MANDATE_CONTROL_PLANES: `unix:${socket}`,
    MANDATE_CONTROL_URL: control.at['admin'],
    MANDATE_PROXY_PORT: '0',
    MANDATE_PROXY_METRICS_PORT: '0',
  });
  return {
    url: proxy.at['proxy'] ?? '',
    controlUrl: control.at['admin'] ?? '',
    pids: { proxy: [pidOf(proxy.child)], 'control plane': [pidOf(control.child)], PostgreSQL: [database.pid] },
    stop: async () => {
      await stopChild(proxy.child);
      await stopChild(control.child);
      await database.stop();
      await rm(directory, { recursive: true, force: true });
    },
  };
}

async function startGateway(
  upstreamUrl: string,
  options: { readonly accounts: number; readonly batchMax: number },
): Promise<RunningContender> {
  const database = await benchDatabase();
  const sql = connect(database.ownerUrl, { applicationName: 'bench', max: 1 });
  const accounts = await seedAccounts(sql, options.accounts, upstreamUrl);
  await sql.end();
  const system = await startSystem(database, options.batchMax);
  const tokens = accounts.map(({ token }) => token);
  return { ...system, path: '/api/gateway/http/payments', headers: {}, tokens };
}

/** The same system with one account that has API keys and a mandate for this agent. */
export async function startVerifyGateway(options: { readonly keys: number; readonly agent: SigningKey }) {
  const database = await benchDatabase();
  const sql = connect(database.ownerUrl, { applicationName: 'bench', max: 1 });
  const agent_did = formatDidKey(options.agent.publicKey);
  const [account] = await seedAccounts(sql, 1, 'http://127.0.0.1:9', { agent_did });
  if (account === undefined) throw new Error('no account was seeded');
  const apiKeys: string[] = [];
  for (let i = 0; i < options.keys; i++) apiKeys.push((await seedKey(sql, account)).apiKey);
  await sql.end();
  const { accountId, mandateId } = account;
  return { ...(await startSystem(database, 256)), accountId, mandateId, apiKeys };
}

/** The same system with one account that has so many entries of evidence, and an API key that may read them. */
export async function startEvidenceGateway(entries: number) {
  const database = await benchDatabase();
  const sql = connect(database.ownerUrl, { applicationName: 'bench', max: 1, statementTimeoutMs: 0 });
  const [account] = await seedAccounts(sql, 1, 'http://127.0.0.1:9');
  if (account === undefined) throw new Error('no account was seeded');
  await fillEvidence(sql, account, entries);
  const { apiKey } = await seedKey(sql, account, ['evidence:read']);
  await sql.end();
  return { ...(await startSystem(database, 256)), apiKey };
}

/** Our gateway as it is shipped: full enforcement, durable evidence, one worker. */
export const gateway: Contender = {
  name: 'gateway',
  start: (upstreamUrl, { accounts }) => startGateway(upstreamUrl, { accounts, batchMax: 256 }),
};

/** The same with one decision a transaction and a message: what group commit is worth. */
export const gatewayBatchOne: Contender = {
  name: 'gateway-batch-1',
  start: (upstreamUrl, { accounts }) => startGateway(upstreamUrl, { accounts, batchMax: 1 }),
};

/**
 * Starts the system once and stops it, so that all of it is compiled: the first start of a checkout strips types, which
 * leaves up to 28 MiB in each process that no later start has, nor an installed package.
 */
export async function compileAll(): Promise<void> {
  await (await startGateway('http://127.0.0.1:9', { accounts: 1, batchMax: 256 })).stop();
}
