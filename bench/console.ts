import type { AddressInfo } from 'node:net';
import { parseArgs } from 'node:util';
import { gzipSync } from 'node:zlib';
import { allRoutes } from '../control-plane/all-routes.ts';
import { Custody } from '../control-plane/custody/custody.ts';
import { connect, type Sql } from '../control-plane/db/client.ts';
import { Lanes } from '../control-plane/decisions/lanes.ts';
import { VersionCache } from '../control-plane/decisions/versions.ts';
import { KeyUses } from '../control-plane/keys/uses.ts';
import { TokenBuckets } from '../control-plane/rate-limit/buckets.ts';
import { buildServer } from '../control-plane/server.ts';
import { SigningKeys } from '../control-plane/signing/signing-keys.ts';
import { newSecretToken, secretHash } from '../core/secret-token.ts';
import { newTypeId } from '../core/type-id.ts';
import { pagePaths, searchPaths } from './console-pages.ts';
import { type Filled, fillDecisions, filledOf } from './fill-decisions.ts';
import { benchDatabase, median, type SeededAccount, seedAccounts, seedKey } from './seed.ts';

/**
 * How long every page of the console takes and how large it is, on an account with very many decisions.
 *
 * `node bench/console.ts [--decisions 1000000] [--rounds 15] [--data <directory>] [--only <part of an address>]`. A
 * directory that is named is kept, and what it holds is measured again instead of written. Time: from the request on a
 * socket of this machine to the last byte, the median. Size: the page with the style sheet and the scripts it names, as
 * they are and gzipped.
 */
const { values } = parseArgs({
  options: {
    decisions: { type: 'string', default: '1000000' },
    rounds: { type: 'string', default: '15' },
    data: { type: 'string' },
    only: { type: 'string', default: '' },
  },
});
const [decisions, rounds] = [Number(values.decisions), Number(values.rounds)];
const TIME_MAX_MS = 100;
const SIZE_MAX_BYTES = 100_000;
/** Always the same, so that a database that was kept can be opened again; it protects nothing. */
const CUSTODY_KEY = Buffer.alloc(32, 'bench');

const nothing = (): void => {};
const METRICS = {
  ...{ decision: nothing, outcome: nothing, batch: nothing, laneDepth: nothing, evidence: nothing },
  ...{ facts: nothing, rateLimited: nothing },
};

async function serve(appUrl: string, sql: Sql) {
  const logError = (error: unknown, message: string): void => console.error(message, error);
  const custody = new Custody(CUSTODY_KEY);
  const buckets = new TokenBuckets();
  const signing = await SigningKeys.open(sql, custody, logError);
  const versions = new VersionCache(() => 'secret');
  const verifications = { consumptionToken: () => '', signMat: () => '', sandboxAccountId: null };
  const lanes = new Lanes({ databaseUrl: appUrl, versions, buckets, verifications, metrics: METRICS, logError });
  const app = await buildServer(
    {
      ...{ sql, commands: lanes, custody, booking: { lanes, sandboxAccountId: null }, signing, buckets, logError },
      ...{ issuer: 'http://localhost', allowPrivateTargets: true, internalSecretHash: null, keyUses: new KeyUses() },
      managementRate: { perSecond: 1_000_000, burst: 1_000_000 },
    },
    allRoutes(signing),
  );
  await app.listen({ host: '127.0.0.1', port: 0 });
  const { port } = app.server.address() as AddressInfo;
  const close = async (): Promise<void> => {
    await app.close();
    await lanes.close();
    signing.close();
  };
  return { url: `http://127.0.0.1:${port}`, close };
}

/** A browser's session of the account; what the cookie holds. */
async function signIn(sql: Sql, { accountId }: SeededAccount): Promise<string> {
  const [id, token] = [newTypeId('ses', Date.now()), newSecretToken('ses')];
  await sql`
    insert into sessions (account_id, session_id, token_hash, created_at, last_seen_at, expires_at, kind, user_agent,
      factor_at)
    values (${accountId}, ${id}, decode(${secretHash(token)}, 'hex'), db_clock(), db_clock(),
      db_clock() + interval '1 hour', 'console', null, db_clock())`;
  await sql`insert into token_routes (token_hash, kind, account_id, subject_id)
    values (decode(${secretHash(token)}, 'hex'), 'session', ${accountId}, ${id})`;
  return token;
}

interface Measured {
  readonly status: number;
  readonly ms: number;
  readonly bytes: number;
  readonly gzipped: number;
}

async function measure(url: string, path: string, cookie: string): Promise<Measured> {
  const times: number[] = [];
  let status = 0;
  let body = Buffer.alloc(0);
  for (let round = 0; round < rounds; round++) {
    const started = performance.now();
    const answer = await fetch(`${url}/console${path}`, { headers: { cookie }, redirect: 'manual' });
    body = Buffer.from(await answer.arrayBuffer());
    times.push(performance.now() - started);
    status = answer.status;
  }
  const assets = [...body.toString().matchAll(/(?:href|src)="(\/console\/assets\/[^"]+)"/g)];
  const all = [body];
  for (const [, asset = ''] of assets) all.push(Buffer.from(await (await fetch(url + asset)).arrayBuffer()));
  const total = (parts: readonly Buffer[]): number => parts.reduce((sum, part) => sum + part.length, 0);
  return { status, ms: median(times), bytes: total(all), gzipped: total(all.map((part) => gzipSync(part))) };
}

/** What is measured: written on a new database, found again on one that was kept. */
async function seeded(owner: Sql): Promise<{ account: SeededAccount; filled: Filled; size: number }> {
  const [found] = await owner<(SeededAccount & { keyId: string; size: number })[]>`
    select i.account_id as "accountId", i.mandate_id as "mandateId", i.instance_id as "instanceId",
      k.key_id as "keyId", p.next_seq - 1 as size, '' as "toolId", '' as token, '' as "tokenHash"
    from gateway_instances i join api_keys k on k.account_id = i.account_id
    join decision_positions p on p.account_id = i.account_id order by i.created_at, i.instance_id desc limit 1`;
  if (found !== undefined) return { account: found, filled: filledOf(found, found.keyId), size: found.size };
  const started = performance.now();
  const limits = { per_month: 100_000_000, per_action: 10_000 };
  const [account] = await seedAccounts(owner, 1, 'http://127.0.0.1:9', limits);
  if (account === undefined) throw new Error('no account was seeded');
  const { keyId } = await seedKey(owner, account);
  const filled = filledOf(account, keyId);
  await owner`insert into mandates (account_id, mandate_id, name, status, scope, currency, per_action, per_month,
      digest, created_at, changed_at)
    select account_id, ${filled.mandates[1]}, 'bench 2', status, scope, currency, per_action, per_month, digest,
      created_at, changed_at from mandates`;
  await owner`insert into mandate_months (account_id, mandate_id, month, reserved, booked, allows)
    values (${account.accountId}, ${account.mandateId}, date_trunc('month', db_clock())::date, 12000, 5000000, 700)`;
  await fillDecisions(owner, account, filled, decisions);
  console.log(`${decisions} decisions written in ${Math.round((performance.now() - started) / 1000)} s`);
  return { account, filled, size: decisions };
}

const database = await benchDatabase(values.data);
const owner = connect(database.ownerUrl, { applicationName: 'bench', max: 1, statementTimeoutMs: 3_600_000 });
const sql = connect(database.appUrl, { applicationName: 'bench console', max: 10 });
const { account, filled, size } = await seeded(owner);
const served = await serve(database.appUrl, sql);
const cookie = `mandate_plain_session=${await signIn(owner, account)}`;
let worst = 0;
const paths = [...pagePaths(account, filled, size), ...searchPaths(account, filled, size)];
for (const path of paths.filter((one) => one.includes(values.only))) {
  const { status, ms, bytes, gzipped } = await measure(served.url, path, cookie);
  const over = ms >= TIME_MAX_MS || bytes >= SIZE_MAX_BYTES ? '  OVER' : '';
  worst = Math.max(worst, ms);
  const sizes = `${(bytes / 1000).toFixed(1)} kB  gzip ${(gzipped / 1000).toFixed(1)} kB`;
  console.log(`${status}  ${ms.toFixed(1).padStart(6)} ms  ${sizes}  /console${path}${over}`);
}
console.log(`slowest ${worst.toFixed(1)} ms`);
await served.close();
await sql.end();
await owner.end();
await database.stop();
