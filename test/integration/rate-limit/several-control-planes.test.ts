import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import type { Sql } from '../../../control-plane/db/client.ts';
import { startInternalServer } from '../../../control-plane/decisions/internal-server.ts';
import { TokenRoutes } from '../../../control-plane/decisions/token-routes.ts';
import { RedisBuckets } from '../../../control-plane/rate-limit/redis-buckets.ts';
import { startProxy } from '../../../proxy/server.ts';
import { type AdminAnswer, adminFixture, at, textAt } from '../control-plane/admin-fixture.ts';
import { type LaneFixture, laneFixture, monthOf } from '../decisions/lane-client.ts';
import { type Answer, type Delivered, type SendOptions, sendTo, startTarget } from '../gateway/gateway-fixture.ts';
import { fakeRedis, letting } from './fake-redis.ts';
import { type RedisServer, redisServer, WITHOUT_REDIS } from './redis-server.ts';

const SECRET = 'a shared secret of the test';
type TestContext = Parameters<typeof laneFixture>[0];

interface Several {
  readonly fixture: LaneFixture;
  readonly ledger: readonly Delivered[];
  /** Sends to the proxy of one of the control planes. */
  send(plane: number, options?: SendOptions): Promise<Answer>;
  limit(perSecond: number, burst: number): Promise<void>;
}

/** Control planes that share the store, each with a proxy of its own, so that a token is used at all of them. */
async function several(t: TestContext, url: string, count = 2): Promise<Several> {
  const target = await startTarget(t);
  const fixture = await laneFixture(t);
  const { sql, account } = fixture;
  await sql`update gateway_instances set target_url = ${target.url}, config_version = 2`;
  // Rates below one a second, so that nothing refills while a test runs.
  await sql.unsafe(`alter table gateway_instances drop constraint gateway_instances_rate_per_second_check,
    alter column rate_per_second type numeric`);
  const ports = await Promise.all(Array.from({ length: count }, () => controlPlane(t, fixture, url)));
  return {
    fixture,
    ledger: target.ledger,
    send: (plane, options = {}) => sendTo(ports[plane]!, account.token, options),
    limit: (perSecond, burst) => limit(sql, perSecond, burst),
  };
}

async function limit(sql: Sql, perSecond: number, burst: number): Promise<void> {
  await sql.begin(async (one) => {
    await one`update account_heads set revision = revision + 1`;
    await one`update gateway_instances set rate_per_second = ${perSecond}, rate_burst = ${burst}`;
  });
}

/** The port of its proxy. */
async function controlPlane(t: TestContext, { sql, errors, moreLanes }: LaneFixture, url: string): Promise<number> {
  const directory = await mkdtemp(join(tmpdir(), 'mandate-rates-'));
  t.teardown(() => rm(directory, { recursive: true, force: true }));
  const buckets = await RedisBuckets.open({ url, onChange() {} });
  t.teardown(async () => buckets.close());
  const logError = (error: unknown) => errors.push(error);
  const internal = await startInternalServer({
    listen: { path: join(directory, 'control.sock') },
    secret: SECRET,
    lanes: moreLanes({ lanes: 1, buckets }),
    routes: new TokenRoutes(sql),
    buckets,
    escalations: { wait: async () => null, storeBody: async () => true },
    keyUsed: () => {},
    sandboxAccountId: null,
    metrics: { decision() {}, outcome() {}, batch() {}, laneDepth() {}, evidence() {}, facts() {}, rateLimited() {} },
    logError,
  });
  const proxy = await startProxy({
    host: '127.0.0.1',
    port: 0,
    controlPlanes: [`unix:${join(directory, 'control.sock')}`],
    internalSecret: SECRET,
    controlUrl: 'http://127.0.0.1:9',
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

const told = ({ headers }: Answer | AdminAnswer): number[] =>
  ['limit', 'remaining'].map((name) => Number(headers[`x-ratelimit-${name}`]));

t.test(
  'over several control planes a bucket lets through its burst, by the ledger',
  { skip: WITHOUT_REDIS },
  async (t) => {
    const { url } = await redisServer(t);
    const { send, ledger, limit } = await several(t, url);
    await limit(0.000_001, 20);
    const answers = await Promise.all(Array.from({ length: 60 }, (_, i) => send(i % 2)));
    const allowed = answers.filter(({ status }) => status === 201);
    t.equal(ledger.length, 20);
    t.equal(allowed.length, 20);
    t.same(
      allowed.map(told).sort(([, a = 0], [, b = 0]) => b - a),
      Array.from({ length: 20 }, (_, i) => [20, 19 - i]),
      'each was told its own remainder',
    );
    const refused = answers.filter(({ status }) => status === 429);
    t.equal(refused.length, 40);
    for (const answer of refused) {
      t.same(told(answer), [20, 0]);
      t.equal(answer.json['error'], 'rate_limited');
      t.ok(Number(answer.headers['retry-after']) > 1);
    }
  },
);

t.test('the headers count down over all control planes, whatever is answered', { skip: WITHOUT_REDIS }, async (t) => {
  const { url } = await redisServer(t);
  const { send, limit, ledger } = await several(t, url, 3);
  await limit(0.000_001, 12);
  const seen: unknown[] = [];
  const kinds: SendOptions[] = [{}, { body: '{"amount":' }, { path: '/api/gateway/http/nothing-mapped' }, {}];
  for (let i = 0; i < 12; i++) seen.push(told(await send(i % 3, kinds[i % 4])));
  t.same(
    seen,
    Array.from({ length: 12 }, (_, i) => [12, 11 - i]),
    'a request costs one, also where the proxy had to be told the mapping first, and where it is malformed',
  );
  const delivered = ledger.length;
  t.same(await Promise.all([0, 1, 2].map(async (plane) => (await send(plane)).status)), [429, 429, 429]);
  t.equal(ledger.length, delivered);
});

t.test('limits that change hold everywhere from the next request on', { skip: WITHOUT_REDIS }, async (t) => {
  const { url } = await redisServer(t);
  const { send, limit } = await several(t, url);
  await limit(0.000_001, 50);
  t.same(told(await send(0)), [50, 49]);
  t.same(told(await send(1)), [50, 48]);
  await limit(0.000_001, 3);
  const answers = await Promise.all(Array.from({ length: 8 }, () => send(1)));
  t.equal(answers.filter(({ status }) => status === 201).length, 3, 'also those that arrive together');
  t.same(told(await send(0)), [3, 0]);
  await limit(1_000_000, 5);
  t.equal((await send(0)).status, 201);
});

t.test('who shows no valid token has one bucket of his address over all', { skip: WITHOUT_REDIS }, async (t) => {
  const { url } = await redisServer(t);
  const { send, ledger } = await several(t, url);
  const invented = { token: `Bearer gwt_${'A'.repeat(43)}` };
  const answers = await Promise.all(Array.from({ length: 24 }, (_, i) => send(i % 2, invented)));
  const statuses = answers.map(({ status }) => status);
  t.ok(statuses.filter((status) => status === 401).length >= 20, 'the burst of the management class');
  t.same(
    [...new Set(statuses)].filter((status) => status !== 401 && status !== 429),
    [],
  );
  t.ok(answers.every((answer) => told(answer)[0] === 20));
  t.equal(ledger.length, 0);
});

t.test('without the store nothing is forwarded; when it is back, requests are', { skip: WITHOUT_REDIS }, async (t) => {
  const store: RedisServer = await redisServer(t);
  const { send, ledger, fixture } = await several(t, store.url);
  t.equal((await send(0)).status, 201);
  await store.kill();
  const refused = await Promise.all(Array.from({ length: 10 }, (_, i) => send(i % 2)));
  for (const { status, json, headers } of refused) {
    t.same([status, json['error'], headers['retry-after']], [503, 'not_decidable', '1']);
  }
  t.equal(ledger.length, 1);
  while ((await monthOf(fixture.sql, fixture.account)).booked < 100) await fixture.sql`select pg_sleep(0.01)`;
  t.match(await monthOf(fixture.sql, fixture.account), { reserved: 0 }, 'outcomes are written, nothing is reserved');
  await store.start();
  for (;;) if ((await send(0)).status === 201 && (await send(1)).status === 201) break;
  t.equal(ledger.length >= 3, true);
});

t.test('a store that answers nonsense is one that is away', async (t) => {
  const fake = await fakeRedis(t, letting('9'));
  const { send, ledger } = await several(t, fake.url, 1);
  fake.respond = () => '+OK\r\n';
  t.match(await send(0), { status: 503, json: { error: 'not_decidable' } });
  t.equal(ledger.length, 0);
});

t.test('a bucket that is found with another rate however often it is charged decides nothing', async (t) => {
  const fake = await fakeRedis(t, letting('9'));
  const { send, ledger } = await several(t, fake.url, 1);
  t.match(await send(0), { status: 503, json: { error: 'not_decidable' } });
  t.equal(ledger.length, 0);
});

t.test('the APIs count over all control planes, and refuse without the store', { skip: WITHOUT_REDIS }, async (t) => {
  const store = await redisServer(t);
  const open = async () => {
    const buckets = await RedisBuckets.open({ url: store.url, onChange() {} });
    t.teardown(async () => buckets.close());
    return adminFixture(t, { buckets, managementRate: { perSecond: 0.000_001, burst: 6 } });
  };
  const [one, other] = [await open(), await open()];
  const { token } = await one.signUp();
  const mine = [await one.send('GET', '/admin/account', token), await one.send('GET', '/admin/account', token)];
  t.same(mine.map(told), [
    [6, 5],
    [6, 4],
  ]);
  const asked = [one, other, other, one, other].map((server) => server.send('GET', '/api/v1/denial-codes', null));
  t.same((await Promise.all(asked)).map((answer) => told(answer)[1]).sort(), [1, 2, 3, 4, 5]);
  t.same(
    [(await other.send('GET', '/api/v1/x', null)).status, (await one.send('GET', '/api/v1/x', null)).status],
    [404, 429],
  );
  await store.kill();
  const away = await one.send('GET', '/admin/account', token);
  t.same([away.status, at(away, 'error'), String(away.headers['retry-after'])], [503, 'not_decidable', '1']);
  t.equal((await one.send('POST', '/admin/login', null, {})).status, 503);
  t.equal((await one.send('GET', '/api/v1/%', null)).status, 503, 'also what cannot even be read');
  t.equal((await one.send('GET', '/healthz', null)).status, 200, 'but the process is alive');
  t.equal(textAt(away, 'detail').includes('redis'), false);
});
