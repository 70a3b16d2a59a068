import type { FastifyInstance } from 'fastify';
import { type SeededAccount, seedAccounts } from '../../../bench/seed.ts';
import { Custody } from '../../../control-plane/custody/custody.ts';
import { connect, type Sql } from '../../../control-plane/db/client.ts';
import type { Lanes } from '../../../control-plane/decisions/lanes.ts';
import { EscalationWaits } from '../../../control-plane/escalations/gate.ts';
import { registerEscalationRoutes } from '../../../control-plane/escalations/routes.ts';
import { registerEvidenceRoutes } from '../../../control-plane/evidence/routes.ts';
import { KeyUses } from '../../../control-plane/keys/uses.ts';
import { TokenBuckets } from '../../../control-plane/rate-limit/buckets.ts';
import { buildServer } from '../../../control-plane/server.ts';
import { SigningKeys } from '../../../control-plane/signing/signing-keys.ts';
import { newSecretToken, secretHash } from '../../../core/secret-token.ts';
import { newTypeId } from '../../../core/type-id.ts';
import { type AskOptions, ask, type LaneFixture, laneFixture } from '../decisions/lane-client.ts';

const MASTER_KEY = Buffer.alloc(32, 7);

type TestContext = Parameters<typeof laneFixture>[0];

/** One control plane's admin API and waits, over lanes of its own. */
export interface Plane {
  readonly lanes: Lanes;
  readonly waits: EscalationWaits;
  readonly app: FastifyInstance;
}

/** A signed-in person with a mandate that escalates above 5.00 EUR, and as many control planes as wanted. */
export interface EscalationFixture extends LaneFixture {
  readonly plane: Plane;
  readonly session: string;
  readonly custody: Custody;
  readonly appSql: Sql;
  morePlanes(): Promise<Plane>;
  /** Asks for what needs a human; returns the escalation's identifier. */
  escalate(options?: AskOptions): Promise<string>;
  /** Another account with its session. */
  stranger(): Promise<{ readonly account: SeededAccount; readonly session: string }>;
  /** Moves the database's clock by so many seconds. */
  moveTime(seconds: number): Promise<void>;
}

export async function escalationFixture(t: TestContext): Promise<EscalationFixture> {
  const fixture = await laneFixture(t, { escalation_threshold: 500 });
  const custody = new Custody(MASTER_KEY);
  const appSql = connect(fixture.databaseUrl, { applicationName: 'test admin', max: 4 });
  t.teardown(() => appSql.end());
  const planeOver = async (lanes: Lanes): Promise<Plane> => {
    const logError = (error: unknown): unknown => fixture.errors.push(error);
    const waits = new EscalationWaits({ sql: appSql, commands: lanes, custody, logError });
    const signing = await SigningKeys.open(appSql, custody, logError);
    t.teardown(async () => signing.close());
    const app = await buildServer(
      {
        sql: appSql,
        commands: lanes,
        custody,
        booking: { lanes, sandboxAccountId: null },
        signing,
        issuer: 'https://mandate.example',
        buckets: new TokenBuckets(),
        allowPrivateTargets: true,
        internalSecretHash: null,
        keyUses: new KeyUses(),
        logError,
        managementRate: { perSecond: 10_000, burst: 10_000 },
        escalationChanged: (accountId, id) => waits.changed(accountId, id),
      },
      [registerEscalationRoutes, registerEvidenceRoutes],
    );
    t.teardown(() => app.close());
    return { lanes, waits, app };
  };
  return {
    ...fixture,
    custody,
    appSql,
    plane: await planeOver(fixture.lanes),
    session: await seedSession(fixture.sql, fixture.account),
    morePlanes: () => planeOver(fixture.moreLanes()),
    escalate: async (options = {}) => {
      const answer = await ask(fixture.lanes, fixture.account, { amount: 501, ...options });
      if (answer.answer !== 'escalate') throw new Error(`not escalated: ${JSON.stringify(answer)}`);
      return answer.escalation_id;
    },
    stranger: async () => {
      const [account] = await seedAccounts(fixture.sql, 1, 'http://127.0.0.1:9');
      return { account: account!, session: await seedSession(fixture.sql, account!) };
    },
    moveTime: async (seconds) => {
      await fixture.sql.unsafe(`create or replace function db_clock() returns timestamptz language sql volatile
        parallel safe as $$ select date_trunc('milliseconds', clock_timestamp() + interval '${seconds} seconds') $$`);
    },
  };
}

async function seedSession(sql: Sql, { accountId }: SeededAccount): Promise<string> {
  const token = newSecretToken('ses');
  const id = newTypeId('ses', Date.now());
  // Its factor stays fresh however far a test moves the clock.
  await sql`insert into sessions (account_id, session_id, token_hash, created_at, last_seen_at, expires_at, factor_at)
    values (${accountId}, ${id}, decode(${secretHash(token)}, 'hex'), db_clock(), db_clock(),
      db_clock() + interval '12 hours', db_clock() + interval '12 hours')`;
  await sql`insert into token_routes (token_hash, kind, account_id, subject_id)
    values (decode(${secretHash(token)}, 'hex'), 'session', ${accountId}, ${id})`;
  return token;
}

/** Sends a request to a plane's admin API; returns the status and the body. */
export async function send(
  { app }: Plane,
  method: 'GET' | 'POST',
  url: string,
  token: string,
  body?: Readonly<Record<string, unknown>>,
) {
  const answer = await app.inject({
    method,
    url,
    headers: { authorization: `Bearer ${token}` },
    ...(body === undefined ? {} : { payload: body }),
  });
  return { status: answer.statusCode, body: answer.json() as Record<string, unknown> };
}
