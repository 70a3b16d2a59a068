import fc from 'fast-check';
import t from 'tap';
import { BUCKET_SCRIPT, KEY_PREFIX } from '../../../control-plane/rate-limit/bucket-script.ts';
import { TokenBuckets } from '../../../control-plane/rate-limit/buckets.ts';
import { type BucketOperation, performOne, type RatedState } from '../../../control-plane/rate-limit/operations.ts';
import { RedisBuckets } from '../../../control-plane/rate-limit/redis-buckets.ts';
import { RATE_LIMIT_WAITING_MAX } from '../../../core/limits.ts';
import { bulks, fakeRedis, letting } from './fake-redis.ts';
import { freePort, redisServer, WITHOUT_REDIS } from './redis-server.ts';

const SLOW = { perSecond: 0.001, burst: 10 };
const take = (key: string, rate = SLOW): BucketOperation => ({ kind: 'take', key, rate });

interface Opened {
  readonly buckets: RedisBuckets;
  readonly changes: boolean[];
}

async function opened(t: { teardown(fn: () => void): void }, url: string): Promise<Opened> {
  const changes: boolean[] = [];
  const buckets = await RedisBuckets.open({ url, onChange: (away) => changes.push(away) });
  t.teardown(() => buckets.close());
  return { buckets, changes };
}

/** Asks until it is answered; the time-out of the test bounds it. */
async function untilAnswered(buckets: RedisBuckets): Promise<(RatedState | null)[]> {
  for (;;) {
    try {
      return await buckets.perform([take('until')]);
    } catch {
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }
}

const rate = fc.record({
  perSecond: fc.constantFrom(0.001, 0.3, 1, 7, 100, 999_999),
  burst: fc.integer({ min: 1, max: 12 }),
});
const key = fc.constantFrom('a', 'b');
const operation: fc.Arbitrary<BucketOperation> = fc.oneof(
  fc.record({ kind: fc.constantFrom('take', 'take', 'take', 'peek', 'adjust'), key, rate }),
  fc.record({ kind: fc.constantFrom('known', 'give'), key }),
) as fc.Arbitrary<BucketOperation>;

t.test('the script in the store does what the buckets of one process do', { skip: WITHOUT_REDIS }, async (t) => {
  const { url } = await redisServer(t);
  const { buckets } = await opened(t, url);
  let run = 0;
  let known = 0;
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.array(operation, { minLength: 1, maxLength: 8 }), { maxLength: 12 }),
      async (batches) => {
        run += 1;
        const model = new TokenBuckets();
        for (const batch of batches) {
          const operations = batch.map((one) => ({ ...one, key: hashOf(run, one.key) }) as BucketOperation);
          const [answer] = await buckets.performTimed(operations);
          const expected = operations.map((one) => performOne(model, one, answer?.atMs ?? Number.NaN));
          const found = answer?.found.map((one) => one?.state ?? null);
          known += expected.filter((one) => one !== null).length;
          t.same(found, expected, JSON.stringify(batch));
        }
        return t.passing();
      },
    ),
    { numRuns: 150 },
  );
  t.ok(known > 500, 'buckets were there to compare');
});

/** Keys of credentials, so that a full bucket is remembered as the model does. */
function hashOf(run: number, name: string): string {
  return Buffer.from(`${name}${run}`).toString('hex').padEnd(64, '0');
}

t.test(
  'clients that race for one bucket take its burst, each a state of its own',
  { skip: WITHOUT_REDIS },
  async (t) => {
    const { url } = await redisServer(t, 'a-password');
    const all = await Promise.all(Array.from({ length: 4 }, () => opened(t, url)));
    const many = { perSecond: 0.001, burst: 500 };
    const answers = await Promise.all(
      Array.from({ length: 600 }, (_, i) => all[i % 4]!.buckets.perform([take('raced', many)])),
    );
    const allowed = answers.flat().filter((one) => one?.state.allowed === true);
    t.equal(allowed.length, 500);
    t.equal(new Set(allowed.map((one) => one?.state.remaining)).size, 500, 'no two were told the same remainder');
  },
);

t.test(
  'what is longer than a call is taken in order, and a bucket is no longer there than it must be',
  { skip: WITHOUT_REDIS },
  async (t) => {
    const { url } = await redisServer(t);
    const { buckets } = await opened(t, url);
    const many = { perSecond: 1, burst: 2_000 };
    const found = await buckets.perform(Array.from({ length: 700 }, () => take('address ::1', many)));
    t.same(
      found.slice(0, 3).map((one) => one?.state.remaining),
      [1_999, 1_998, 1_997],
    );
    t.equal(found.length, 700);
    const { createClient } = await import('@redis/client');
    const client = await createClient({ url }).connect();
    t.teardown(() => client.destroy());
    const ttl = await client.pTTL(`${KEY_PREFIX}address ::1`);
    t.ok(ttl > 690_000 && ttl <= 701_001, `full in 700 s: ${ttl} ms`);
    await client.set(`${KEY_PREFIX}broken`, 'not a bucket');
    await t.rejects(
      buckets.perform([take('broken')]),
      { code: 'RATE_LIMITS_AWAY' },
      'what cannot be read allows nothing',
    );
    t.equal(await buckets.evictionPolicy(), 'noeviction');
    await client.sendCommand(['SCRIPT', 'FLUSH']);
    t.match(await buckets.perform([take('address ::1', many)]), [{ state: { allowed: true, limit: 2_000 } }]);
    t.match(
      await buckets.perform([{ kind: 'known', key: 'nobody' }]),
      [null],
      'a bucket that is not there is not made',
    );
    t.equal(await client.exists(`${KEY_PREFIX}nobody`), 0);
  },
);

t.test(
  'a store that is killed refuses, and serves again by itself when it is back',
  { skip: WITHOUT_REDIS },
  async (t) => {
    const server = await redisServer(t);
    const { buckets, changes } = await opened(t, server.url);
    await buckets.perform([take('a')]);
    await server.kill();
    await t.rejects(buckets.perform([take('a')]), { code: 'RATE_LIMITS_AWAY' });
    await server.start();
    t.match(await untilAnswered(buckets), [{ state: { remaining: 9 } }]);
    t.same(changes, [true, false], 'told once that it is away, once that it is back');
  },
);

t.test(
  'a store that stands still refuses within its time, and serves again when it goes on',
  { skip: WITHOUT_REDIS },
  async (t) => {
    const server = await redisServer(t);
    const { buckets } = await opened(t, server.url);
    await buckets.perform([take('a')]);
    server.signal('SIGSTOP');
    await t.rejects(buckets.perform([take('a')]), { code: 'RATE_LIMITS_AWAY' });
    server.signal('SIGCONT');
    t.match(await untilAnswered(buckets), [{ state: { allowed: true } }]);
  },
);

t.test('a store that is not there yet refuses, and is found when it comes', async (t) => {
  const port = await freePort();
  const { buckets, changes } = await opened(t, `redis://127.0.0.1:${port}`);
  await t.rejects(buckets.perform([take('a')]), { code: 'RATE_LIMITS_AWAY' });
  t.same(changes, [true]);
});

t.test('the script is sent where the store does not know it, and only its name afterwards', async (t) => {
  let known = false;
  const answer = letting('9');
  const fake = await fakeRedis(t, (command) => {
    if (command[0] === 'EVALSHA' && !known) return '-NOSCRIPT No matching script\r\n';
    known ||= command[0] === 'EVAL';
    return answer(command);
  });
  const { buckets } = await opened(t, fake.url);
  t.match(await buckets.perform([take('a'), take('b')]), [{ state: { remaining: 9 } }, { state: { remaining: 9 } }]);
  await buckets.perform([take('a')]);
  t.same(
    fake.commands.map(([name]) => name),
    ['EVALSHA', 'EVAL', 'EVALSHA'],
    'one command for all operations',
  );
  t.equal(fake.commands[1]?.[1], BUCKET_SCRIPT);
  t.same(fake.commands[2]?.slice(2), ['1', `${KEY_PREFIX}a`, 'take', '0.001', '10', '0']);
});

t.test('whatever else a store answers, nothing is allowed', async (t) => {
  const fake = await fakeRedis(t, letting('9'));
  const { buckets } = await opened(t, fake.url);
  const good = ['1700000000000.5', '1', '9', '0.001', '10'];
  const withOne = (i: number, value: string) => bulks(good.map((one, at) => (at === i ? value : one)));
  const wrong = [
    ...['+OK\r\n', ':1\r\n', '$-1\r\n', '*-1\r\n', '*0\r\n', '-ERR no\r\n', '-READONLY replica\r\n', '-OOM full\r\n'],
    ...['-MOVED 1 127.0.0.1:1\r\n', '-LOADING it\r\n', bulks(good.slice(1)), bulks([...good, '1']), bulks([])],
    ...['', 'x', '-1', 'Infinity', 'nan', '0x10', '1e999'].flatMap((value) => [withOne(0, value), withOne(2, value)]),
    ...['2', 'true', '', '-1'].map((value) => withOne(1, value)),
    ...['0', '-1', 'inf', ''].map((value) => withOne(3, value)),
    ...['0', '8', '-10', ''].map((value) => withOne(4, value)),
    `*5\r\n${'$1\r\n1\r\n'.repeat(4)}:1\r\n`,
  ];
  for (const text of wrong) {
    fake.respond = () => text;
    await t.rejects(buckets.perform([take('a')]), { code: 'RATE_LIMITS_AWAY' }, JSON.stringify(text));
  }
  fake.respond = letting('8');
  t.match(await untilAnswered(buckets), [{ state: { remaining: 8 } }]);
});

t.test('a store that falls silent is given up, and connected to anew', async (t) => {
  const fake = await fakeRedis(t, letting('9'));
  const { buckets, changes } = await opened(t, fake.url);
  await buckets.perform([take('a')]);
  fake.respond = () => null;
  const refused = await Promise.allSettled([buckets.perform([take('a')]), buckets.perform([take('b')])]);
  t.same(
    refused.map(({ status }) => status),
    ['rejected', 'rejected'],
  );
  fake.respond = letting('7');
  t.match(await untilAnswered(buckets), [{ state: { remaining: 7 } }]);
  t.ok(fake.connections() >= 2);
  fake.drop();
  t.match(await untilAnswered(buckets), [{ state: { remaining: 7 } }]);
  t.same(changes.slice(0, 2), [true, false]);
});

t.test('bytes that are no protocol end the connection, not the process', async (t) => {
  const fake = await fakeRedis(t, letting('9'));
  const { buckets } = await opened(t, fake.url);
  fake.respond = () => 'HTTP/1.1 400 Bad Request\r\n\r\n';
  await t.rejects(buckets.perform([take('a')]), { code: 'RATE_LIMITS_AWAY' });
  fake.respond = letting('6');
  t.match(await untilAnswered(buckets), [{ state: { remaining: 6 } }]);
});

t.test('what waits for a silent store is bounded', async (t) => {
  const fake = await fakeRedis(t, () => null);
  const { buckets } = await opened(t, fake.url);
  const full = buckets.perform(Array.from({ length: RATE_LIMIT_WAITING_MAX }, (_, i) => take(`key ${i}`)));
  const refused = t.rejects(full, { code: 'RATE_LIMITS_AWAY' });
  await t.rejects(buckets.perform([take('one more')]), { message: /too much waits/ });
  await refused;
});
