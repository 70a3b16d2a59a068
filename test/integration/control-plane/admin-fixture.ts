import { randomBytes } from 'node:crypto';
import type { FastifyInstance } from 'fastify';
import { generateSync } from 'otplib';
import { Custody } from '../../../control-plane/custody/custody.ts';
import { connect, type Sql } from '../../../control-plane/db/client.ts';
import type { DecisionMetrics } from '../../../control-plane/decisions/account-facts.ts';
import { Lanes } from '../../../control-plane/decisions/lanes.ts';
import { VersionCache } from '../../../control-plane/decisions/versions.ts';
import type { RouteDependencies } from '../../../control-plane/http/dependencies.ts';
import { KeyUses } from '../../../control-plane/keys/uses.ts';
import { TokenBuckets } from '../../../control-plane/rate-limit/buckets.ts';
import type { Buckets } from '../../../control-plane/rate-limit/operations.ts';
import { openSandbox } from '../../../control-plane/sandbox/account.ts';
import { buildServer, type RegisterRoutes } from '../../../control-plane/server.ts';
import { jwksRoute } from '../../../control-plane/signing/routes.ts';
import { SigningKeys } from '../../../control-plane/signing/signing-keys.ts';
import { MAT_TYPE, type MatFacts, matClaims } from '../../../core/mat.ts';
import { secretHash } from '../../../core/secret-token.ts';
import { createDatabase } from '../../database.ts';
import { VERIFICATIONS } from '../decisions/lane-client.ts';
import { INTERNAL_SECRET } from '../proxy/fake-control-plane.ts';

const SILENT: DecisionMetrics = {
  decision() {},
  outcome() {},
  batch() {},
  laneDepth() {},
  evidence() {},
  facts() {},
  rateLimited() {},
};

/** The second factor and the password of every account that a fixture makes. */
export const TOTP_SECRET = 'JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP';
export const PASSWORD = 'an unlikely sentence';

/** An answer: `body` is the parsed JSON, `text` what was sent. */
export interface AdminAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, unknown>>;
  readonly text: string;
  readonly body: unknown;
}

/** The value at a dotted path of an answer's body (`at(answer, 'usage.remaining')`), or undefined. */
export function at(answer: AdminAnswer, path: string): unknown {
  let value = answer.body;
  for (const name of path.split('.')) {
    if (typeof value !== 'object' || value === null) return undefined;
    value = (value as Readonly<Record<string, unknown>>)[name];
  }
  return value;
}

/** The same for a member that must be a string. */
export function textAt(answer: AdminAnswer, path: string): string {
  const value = at(answer, path);
  if (typeof value === 'string') return value;
  throw new Error(`${path} is no string in ${answer.status} ${answer.text}`);
}

export interface SignedUp {
  readonly accountId: string;
  readonly email: string;
  readonly token: string;
  /** The code that confirmed the second factor: used up. */
  readonly code: string;
}

/** The admin API on a fresh database, with real lanes, in this process. */
export interface AdminFixture {
  readonly app: FastifyInstance;
  readonly deps: RouteDependencies;
  /** The owner's pool. */
  readonly sql: Sql;
  readonly lanes: Lanes;
  readonly masterKey: Buffer;
  readonly errors: unknown[];
  /** Sends a request; a string body goes out as it is, anything else as JSON. */
  send(
    method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE',
    url: string,
    token: string | null,
    body?: unknown,
  ): Promise<AdminAnswer>;
  /** The code of TOTP_SECRET at the database's time, `steps` of 30 s later. */
  code(steps?: number): Promise<string>;
  /** Moves the database's clock forward. */
  advance(seconds: number): Promise<void>;
  /** Makes an account and signs it in. */
  signUp(email?: string): Promise<SignedUp>;
}

export interface AdminFixtureOptions {
  readonly register?: readonly RegisterRoutes[];
  /** null: what the product has. */
  readonly managementRate?: { readonly perSecond: number; readonly burst: number } | null;
  readonly allowPrivateTargets?: boolean;
  /** The keys that are published and signed with; of the fixture's own database where nothing is said. */
  readonly signing?: SigningKeys;
  /** Whether there is a sandbox. */
  readonly sandbox?: boolean;
  readonly buckets?: Buckets;
  /** The address of the service; `https://mandate.example` where nothing is said. */
  readonly issuer?: string;
}

/** Makes the fixture; it ends with the test. */
export async function adminFixture(
  t: Parameters<typeof createDatabase>[0],
  options: AdminFixtureOptions = {},
): Promise<AdminFixture> {
  const database = await createDatabase(t);
  const errors: unknown[] = [];
  const masterKey = randomBytes(32);
  const custody = new Custody(masterKey);
  const buckets = options.buckets ?? new TokenBuckets();
  const logError = (error: unknown) => errors.push(error);
  const open = (account: string, instance: string, sealed: Buffer) =>
    custody.open(account, 'credential', instance, sealed).toString('utf8');
  const sql = connect(database.appUrl, { applicationName: 'test admin', max: 2 });
  const sandboxAccountId = options.sandbox === true ? await openSandbox(sql) : null;
  const signing = options.signing ?? (await SigningKeys.open(sql, custody, logError));
  t.teardown(async () => signing.close());
  const issuer = options.issuer ?? 'https://mandate.example';
  const signMat = (facts: MatFacts) => signing.sign(MAT_TYPE, matClaims(issuer, facts));
  const lanes = new Lanes({
    databaseUrl: database.appUrl,
    lanes: 2,
    versions: new VersionCache(open),
    buckets,
    verifications: { ...VERIFICATIONS, signMat, sandboxAccountId },
    metrics: SILENT,
    logError,
  });
  const deps: RouteDependencies = {
    sql,
    commands: lanes,
    custody,
    booking: { lanes, sandboxAccountId },
    signing,
    issuer,
    buckets,
    allowPrivateTargets: options.allowPrivateTargets ?? true,
    logError,
    internalSecretHash: secretHash(INTERNAL_SECRET),
    keyUses: new KeyUses(),
    ...(options.managementRate === null
      ? {}
      : { managementRate: options.managementRate ?? { perSecond: 10_000, burst: 10_000 } }),
  };
  const app = await buildServer(deps, [...(options.register ?? []), jwksRoute(signing)]);
  t.teardown(async () => {
    await app.close();
    await lanes.close();
    await sql.end();
  });
  return { app, deps, sql: database.sql, lanes, masterKey, errors, ...actionsOf(app, database.sql) };
}

function actionsOf(app: FastifyInstance, sql: Sql): Pick<AdminFixture, 'send' | 'code' | 'advance' | 'signUp'> {
  let offsetSeconds = 0;
  let accounts = 0;
  const send: AdminFixture['send'] = async (method, url, token, body) => {
    const answer = await app.inject({
      method,
      url,
      headers: {
        ...(token === null ? {} : { authorization: `Bearer ${token}` }),
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      },
      ...(body === undefined ? {} : { payload: typeof body === 'string' ? body : JSON.stringify(body) }),
    });
    const text = answer.body;
    return { status: answer.statusCode, headers: answer.headers, text, body: text === '' ? null : JSON.parse(text) };
  };
  const code: AdminFixture['code'] = async (steps = 0) => {
    const [row] = await sql<{ now: number }[]>`select epoch_ms(db_clock()) as now`;
    return generateSync({ secret: TOTP_SECRET, epoch: Math.floor((row?.now ?? 0) / 1000) + steps * 30 });
  };
  const advance: AdminFixture['advance'] = async (seconds) => {
    offsetSeconds += seconds;
    await sql.unsafe(`create or replace function db_clock() returns timestamptz language sql volatile parallel safe
      as $$ select date_trunc('milliseconds', clock_timestamp()) + interval '${offsetSeconds} seconds' $$`);
  };
  const signUp: AdminFixture['signUp'] = async (email = `person-${++accounts}@example.com`) => {
    const wanted = { email, password: PASSWORD, totp_secret: TOTP_SECRET };
    const begun = await send('POST', '/admin/signup', null, wanted);
    const first = await code();
    const confirm = { signup_token: textAt(begun, 'signup_token'), totp_code: first };
    const answer = await send('POST', '/admin/signup/confirm', null, confirm);
    if (answer.status !== 201) throw new Error(`the sign-up failed: ${answer.text}`);
    return { accountId: textAt(answer, 'account_id'), email, token: textAt(answer, 'token'), code: first };
  };
  return { send, code, advance, signUp };
}
