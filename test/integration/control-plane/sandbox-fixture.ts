import { randomBytes } from 'node:crypto';
import type { AddressInfo } from 'node:net';
import { type SeededAccount, type SeededKey, type SeededLimits, seedAccounts, seedKey } from '../../../bench/seed.ts';
import { createLogger } from '../../../config/log.ts';
import { allRoutes } from '../../../control-plane/all-routes.ts';
import { Custody } from '../../../control-plane/custody/custody.ts';
import { connect, type Sql } from '../../../control-plane/db/client.ts';
import { startInternalServer } from '../../../control-plane/decisions/internal-server.ts';
import { Lanes } from '../../../control-plane/decisions/lanes.ts';
import { TokenRoutes } from '../../../control-plane/decisions/token-routes.ts';
import { VersionCache } from '../../../control-plane/decisions/versions.ts';
import type { JobsCore } from '../../../control-plane/jobs/job.ts';
import { KeyUses } from '../../../control-plane/keys/uses.ts';
import { TokenBuckets } from '../../../control-plane/rate-limit/buckets.ts';
import { openSandbox } from '../../../control-plane/sandbox/account.ts';
import { buildServer } from '../../../control-plane/server.ts';
import { SigningKeys } from '../../../control-plane/signing/signing-keys.ts';
import { MAT_TYPE, matClaims } from '../../../core/mat.ts';
import { secretHash } from '../../../core/secret-token.ts';
import { startProxy } from '../../../proxy/server.ts';
import { createDatabase } from '../../database.ts';
import { type Answer, type SendOptions, sendTo } from '../gateway/gateway-fixture.ts';

const ISSUER = 'https://mandate.example';
const SECRET = 'a shared secret of the test';
const SILENT = {
  ...{ decision() {}, outcome() {}, batch() {}, laneDepth() {}, evidence() {}, facts() {}, rateLimited() {} },
};

/** A mandate of the sandbox as it was answered to whoever made it. */
export interface MadeMandate {
  readonly mandate_id: string;
  readonly agent_secret: string;
}

/** One proxy and one control plane with a sandbox, and a real account with an API key. */
export interface SandboxFixture {
  /** The owner's pool. */
  readonly sql: Sql;
  /** The application's pool. */
  readonly appSql: Sql;
  readonly sandboxId: string;
  readonly account: SeededAccount;
  readonly key: SeededKey;
  readonly controlPort: number;
  readonly jobs: JobsCore;
  readonly custody: Custody;
  readonly errors: unknown[];
  /** Sends a request through the proxy, without a credential unless one is given. */
  send(path: string, body?: unknown, options?: SendOptions): Promise<Answer>;
  make(changes?: Record<string, unknown>): Promise<MadeMandate>;
  present(mandate: MadeMandate, action?: unknown): Promise<unknown>;
  verify(presentation: unknown, action: unknown, more?: Record<string, unknown>): Promise<Answer>;
  /** Moves the database's clock by so many seconds. */
  moveTime(seconds: number): Promise<void>;
}

export interface SandboxFixtureOptions {
  readonly limits?: SeededLimits;
  /** The product's rates; otherwise nothing is limited but what the sandbox adds. */
  readonly ownRates?: boolean;
  /** Where the account's gateway forwards to; nowhere unless it is given. */
  readonly targetUrl?: string;
}

/** Makes the fixture; it ends with the test. */
export async function sandboxFixture(
  t: Parameters<typeof createDatabase>[0],
  options: SandboxFixtureOptions = {},
): Promise<SandboxFixture> {
  const { sql, appUrl } = await createDatabase(t);
  const appSql = connect(appUrl, { applicationName: 'test control plane', max: 4 });
  const sandboxId = await openSandbox(appSql);
  const [account] = await seedAccounts(sql, 1, options.targetUrl ?? 'http://127.0.0.1:9', options.limits);
  if (account === undefined) throw new Error('no account was seeded');
  const key = await seedKey(sql, account, ['verify', 'consumptions:write', 'executions:write']);
  const errors: unknown[] = [];
  const custody = new Custody(randomBytes(32));
  const buckets = new TokenBuckets();
  const shared = { buckets, logError: (error: unknown): unknown => errors.push(error) };
  const signing = await SigningKeys.open(appSql, custody, shared.logError);
  const lanes = new Lanes({
    ...{ ...shared, databaseUrl: appUrl, lanes: 2, versions: new VersionCache(() => 'secret'), metrics: SILENT },
    verifications: {
      consumptionToken: (receiptId) => custody.consumptionToken(receiptId),
      signMat: (facts) => signing.sign(MAT_TYPE, matClaims(ISSUER, facts)),
      sandboxAccountId: sandboxId,
    },
  });
  const internal = await startInternalServer({
    ...{ ...shared, listen: { host: '127.0.0.1', port: 0 }, secret: SECRET, lanes, routes: new TokenRoutes(appSql) },
    escalations: { wait: async () => null, storeBody: async () => true },
    keyUsed: () => {},
    sandboxAccountId: sandboxId,
    metrics: SILENT,
  });
  const keyUses = new KeyUses();
  const app = await buildServer(
    {
      ...{ ...shared, sql: appSql, commands: lanes, custody, signing, keyUses },
      ...{ issuer: ISSUER, booking: { lanes, sandboxAccountId: sandboxId } },
      ...{ allowPrivateTargets: true, internalSecretHash: secretHash(SECRET) },
      ...(options.ownRates === true ? {} : { managementRate: { perSecond: 10_000, burst: 10_000 } }),
    },
    allRoutes(signing),
  );
  await app.listen({ host: '127.0.0.1', port: 0 });
  const controlPort = (app.server.address() as AddressInfo).port;
  const proxy = await startProxy({
    ...{ host: '127.0.0.1', port: 0, internalSecret: SECRET, controlUrl: `http://127.0.0.1:${controlPort}` },
    controlPlanes: [`http://127.0.0.1:${(internal.server.address() as AddressInfo).port}`],
    ...{ decisionTimeoutMs: 5_000, allowPrivateTargets: true, targetConnectTimeoutMs: 1_000, targetTimeoutMs: 5_000 },
    ...{ shutdownTimeoutMs: 2_000, logError: shared.logError },
  });
  t.teardown(async () => {
    await proxy.close();
    internal.server.closeAllConnections();
    await internal.close();
    await app.close();
    signing.close();
    await lanes.close();
    await appSql.end();
  });
  const log = createLogger({ name: 'test', level: 'silent' });
  const jobs = { sql: appSql, lanes, keyUses, log };
  const parts = { sql, appSql, sandboxId, account, key, controlPort, jobs, custody, errors };
  return { ...parts, ...actionsOf(sql, proxy.port, key) };
}

function actionsOf(sql: Sql, port: number, { apiKey }: SeededKey) {
  const send: SandboxFixture['send'] = (path, body, options = {}) =>
    sendTo(port, '', { path, token: null, body: body === undefined ? null : JSON.stringify(body), ...options });
  const make: SandboxFixture['make'] = async (changes = {}) => {
    const answer = await send('/api/v1/sandbox/mandates', { ...TERMS, ...changes });
    if (answer.status !== 201) throw new Error(`no mandate: ${answer.text}`);
    return answer.json as unknown as MadeMandate;
  };
  const present: SandboxFixture['present'] = async ({ mandate_id, agent_secret }, action) => {
    const body = { mandate_id, agent_secret, ...(action === undefined ? {} : { action }) };
    const answer = await send('/api/v1/sandbox/presentations', body);
    if (answer.status !== 200) throw new Error(`no presentation: ${answer.text}`);
    return answer.json['presentation'];
  };
  const verify: SandboxFixture['verify'] = (presentation, action, more = {}) =>
    send('/api/v1/verify', { presentation, action, ...more }, { token: `Bearer ${apiKey}` });
  const moveTime: SandboxFixture['moveTime'] = async (seconds) => {
    await sql.unsafe(`create or replace function db_clock() returns timestamptz language sql volatile parallel safe
      as $$ select date_trunc('milliseconds', clock_timestamp() + interval '${seconds} seconds') $$`);
  };
  return { send, make, present, verify, moveTime };
}

/** A sandbox mandate like the one in the interface's document. */
export const TERMS = {
  scope: ['payments.create'],
  amount_limit_per_action: 50,
  amount_limit_per_month: 100,
  escalation_threshold: 20,
};
