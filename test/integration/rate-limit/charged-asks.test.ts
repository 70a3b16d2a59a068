import t from 'tap';
import type { DecidedVerification, Problem } from '../../../control-plane/decisions/ask.ts';
import { answerCharged, type SharedChargeMeans } from '../../../control-plane/decisions/shared-charges.ts';
import { TokenBuckets } from '../../../control-plane/rate-limit/buckets.ts';
import type { Rate } from '../../../control-plane/rate-limit/classes.ts';
import {
  type BucketOperation,
  performOne,
  RateLimitsAway,
  type SharedBuckets,
} from '../../../control-plane/rate-limit/operations.ts';
import type { BatchRequest, DecisionAnswer } from '../../../core/wire.ts';
import { askFor } from '../decisions/lane-client.ts';
import { type VerifyFixture, verifyAsk, verifyFixture } from '../decisions/verify-client.ts';

/** A store in memory whose clock stands still, and what it was asked, call by call. */
class Store implements SharedBuckets {
  readonly own = new TokenBuckets();
  readonly calls: (readonly BucketOperation[])[] = [];
  away = false;
  readonly #rates = new Map<string, Rate>();
  readonly #buckets = new TokenBuckets();

  async perform(operations: readonly BucketOperation[]) {
    this.calls.push(operations);
    if (this.away) throw new RateLimitsAway('away');
    return operations.map((operation) => {
      if ('rate' in operation && operation.kind !== 'peek') this.#rates.set(operation.key, operation.rate);
      const state = performOne(this.#buckets, operation, 0);
      const rate = this.#rates.get(operation.key);
      return state === null || rate === undefined ? null : { state, rate };
    });
  }

  remaining(key: string): number | undefined {
    const rate = this.#rates.get(key);
    return rate && this.#buckets.peek(key, rate.perSecond, rate.burst, 0).remaining;
  }
}

interface Charging {
  readonly fixture: VerifyFixture;
  readonly store: Store;
  readonly limited: string[];
  answer(message: Partial<BatchRequest>): ReturnType<typeof answerCharged>;
  limit(burst: number): Promise<void>;
}

async function charging(t: Parameters<typeof verifyFixture>[0]): Promise<Charging> {
  const fixture = await verifyFixture(t);
  const { account, key, sql } = fixture;
  const store = new Store();
  const lanes = fixture.moreLanes({ lanes: 1, buckets: store });
  const limited: string[] = [];
  const means: SharedChargeMeans = {
    shared: store,
    known: (hash, path) => {
      return (hash === account.tokenHash && path !== 'verify') || (hash === key.tokenHash && path !== 'gateway');
    },
    rateLimited: (rateClass) => limited.push(rateClass),
    submit: (ask, charged, reply) => {
      const common = { accountId: account.accountId, deadlineMs: performance.now() + 5_000, ...charged };
      if (ask.path === 'gateway') {
        lanes.submit({ kind: 'ask', instanceId: account.instanceId, ask, answer: reply, ...common });
        return;
      }
      const answer = (one: DecidedVerification | Problem) => {
        if (one.answer === 'problem') return reply(one);
        const { receiptId: receipt_id, replayed, rate } = one;
        return reply({ answer: 'result', receipt_id, replayed, rate, body: one.text() });
      };
      lanes.submit({ kind: 'verify', key, ask, answer, ...common });
    },
  };
  const limit = async (burst: number): Promise<void> => {
    await sql`update account_heads set revision = revision + 1`;
    await sql`update api_keys set verify_per_second = 1, verify_burst = ${burst}`;
    await sql`update gateway_instances set rate_per_second = 1, rate_burst = ${burst}`;
  };
  const answer: Charging['answer'] = (message) =>
    answerCharged(means, { asks: [], outcomes: [], charges: [], ...message });
  return { fixture, store, limited, answer, limit };
}

const remaining = (answer: DecisionAnswer | undefined): unknown =>
  answer === undefined || answer.answer === 'mapping' ? null : [answer.answer, answer.rate?.[0], answer.rate?.[1]];

t.test('verifications are charged together in one call, once each, by the limits of the key', async (t) => {
  const { answer, limit, fixture, store, limited } = await charging(t);
  await limit(5);
  const first = await answer({ asks: [verifyAsk(fixture), verifyAsk(fixture)] });
  t.same(first.asks.map(remaining), [
    ['result', 5, 4],
    ['result', 5, 3],
  ]);
  t.same(
    store.calls.map((call) => call.map(({ kind }) => kind)),
    [
      ['known', 'known'],
      ['take', 'take'],
    ],
    'a key that is new to the store',
  );
  const next = await answer({ asks: Array.from({ length: 5 }, () => verifyAsk(fixture)) });
  t.same(next.asks.map(remaining), [
    ['result', 5, 2],
    ['result', 5, 1],
    ['result', 5, 0],
    ['problem', 5, 0],
    ['problem', 5, 0],
  ]);
  t.equal(store.calls.length, 3, 'then one call a message');
  t.same(limited, ['verify', 'verify']);
});

t.test('limits that were changed hold for all asks of the message that finds out', async (t) => {
  const { answer, limit, fixture, store } = await charging(t);
  await limit(50);
  await answer({ asks: [verifyAsk(fixture)] });
  await limit(2);
  const { asks } = await answer({ asks: Array.from({ length: 4 }, () => verifyAsk(fixture)) });
  t.same(asks.map(remaining), [
    ['result', 2, 1],
    ['result', 2, 0],
    ['problem', 2, 0],
    ['problem', 2, 0],
  ]);
  t.equal(store.remaining(fixture.key.tokenHash), 0);
});

t.test('what comes to no answer that tells a rate is given back', async (t) => {
  const { answer, limit, fixture, store } = await charging(t);
  await limit(5);
  const { account } = fixture;
  await answer({ asks: [askFor(account)] });
  t.equal(store.remaining(account.tokenHash), 4);
  const { asks } = await answer({
    asks: [askFor(account, { toolVersion: 9 }), askFor(account, { toolVersion: null })],
  });
  t.same(
    asks.map((one) => one.answer),
    ['mapping', 'mapping'],
  );
  t.equal(store.remaining(account.tokenHash), 4);
  await fixture.sql`update account_heads set revision = revision + 1`;
  await fixture.sql`update gateway_instances set token_hash = decode(${'ab'.repeat(32)}, 'hex')`;
  const revoked = await answer({ asks: [askFor(account)] });
  t.match(revoked.asks, [{ error: 'unauthenticated', rate: [20, 19, 1] }], 'his address is charged');
  t.equal(store.remaining(account.tokenHash), 4);
});

t.test('a malformed request is charged to its credential where that was used, else to its address', async (t) => {
  const { answer, limit, fixture } = await charging(t);
  await limit(5);
  const { account } = fixture;
  const charges = [{ token_hash: account.tokenHash, address: '::1' }];
  t.match(await answer({ charges }), { charges: [{ rate: [20, 19, 1], retry_after_s: null }] });
  await answer({ asks: [askFor(account)] });
  t.match(await answer({ charges }), { charges: [{ rate: [5, 3, 2], retry_after_s: null }] });
  const none = [{ token_hash: null, address: '::1' }];
  t.match(await answer({ charges: none }), { charges: [{ rate: [20, 18, 1] }] });
});

t.test('who sends malformed requests from all over an IPv6 network has one bucket', async (t) => {
  const { answer } = await charging(t);
  const from = (address: string) => answer({ charges: [{ token_hash: null, address }] });
  t.match(await from('2001:db8::1'), { charges: [{ rate: [20, 19, 1] }] });
  t.match(await from('2001:db8::ffff:2'), { charges: [{ rate: [20, 18, 1] }] });
  t.match(await from('2001:db8:0:1::1'), { charges: [{ rate: [20, 19, 1] }] });
});

t.test('while the store is away nothing is decided, and no state is told', async (t) => {
  const { answer, fixture, store } = await charging(t);
  store.away = true;
  const { tokenHash } = fixture.account;
  const message = {
    asks: [verifyAsk(fixture), askFor(fixture.account)],
    charges: [{ token_hash: tokenHash, address: '' }],
  };
  const { asks, charges } = await answer(message);
  for (const one of asks) t.match(one, { error: 'not_decidable', rate: null, retry_after_s: 1 });
  t.same(charges, [null]);
  t.equal((await fixture.sql`select from evidence where kind = 'decision'`).length, 0);
});
