import t from 'tap';
import { BUCKETS_MAX, TokenBuckets } from '../../../../control-plane/rate-limit/buckets.ts';

t.test('a bucket lets its burst through, then its rate', async (t) => {
  const buckets = new TokenBuckets();
  const take = (nowMs: number) => buckets.take('a', 10, 20, nowMs);
  t.same(take(0), { allowed: true, limit: 20, remaining: 19, resetSeconds: 1, retryAfterSeconds: 0 });
  for (let i = 0; i < 19; i++) t.equal(take(0).allowed, true);
  t.same(take(0), { allowed: false, limit: 20, remaining: 0, resetSeconds: 2, retryAfterSeconds: 1 });
  t.equal(take(99).allowed, false, 'a tenth of a second is one request');
  t.equal(take(100).allowed, true);
  t.equal(take(100).allowed, false);
  let allowed = 0;
  for (let at = 101; at <= 10_100; at += 1) if (take(at).allowed) allowed += 1;
  t.equal(allowed, 100, 'ten seconds of a client that never waits');
  t.equal(take(1_000_000).remaining, 19, 'never more than the burst');
});

t.test('a clock that stands still or goes back refills nothing', async (t) => {
  const buckets = new TokenBuckets();
  t.equal(buckets.take('a', 1, 1, 5_000).allowed, true);
  t.equal(buckets.take('a', 1, 1, 5_000).allowed, false);
  t.equal(buckets.take('a', 1, 1, 0).allowed, false);
  t.equal(buckets.take('a', 1, 1, 5_999).allowed, false, 'what was gone back does not count twice');
  t.equal(buckets.take('a', 1, 1, 6_000).allowed, true);
});

t.test('keys have buckets of their own, and a slow one tells how long to wait', async (t) => {
  const buckets = new TokenBuckets();
  t.equal(buckets.take('a', 0.1, 1, 0).allowed, true);
  t.match(buckets.take('a', 0.1, 1, 0), { allowed: false, resetSeconds: 10, retryAfterSeconds: 10 });
  t.equal(buckets.take('b', 0.1, 1, 0).allowed, true);
});

t.test('limits that change apply from the next request on', async (t) => {
  const buckets = new TokenBuckets();
  t.equal(buckets.take('a', 1, 500, 0).remaining, 499);
  t.same(buckets.take('a', 1, 2, 0), { allowed: true, limit: 2, remaining: 1, resetSeconds: 1, retryAfterSeconds: 0 });
  t.equal(buckets.take('a', 1, 500, 0).remaining, 0, 'a larger burst is earned, not given');
});

t.test('a bucket that is known is taken from with its own limits; an unknown key makes none', async (t) => {
  const buckets = new TokenBuckets();
  t.equal(buckets.takeKnown('a', 0), undefined);
  t.equal(buckets.takeKnown('a', 0), undefined);
  buckets.take('a', 1, 2, 0);
  t.match(buckets.takeKnown('a', 0), { allowed: true, limit: 2, remaining: 0 });
  t.match(buckets.takeKnown('a', 0), { allowed: false });
});

t.test('a look takes nothing and makes no bucket', async (t) => {
  const buckets = new TokenBuckets();
  t.match(buckets.peek('a', 1, 2, 0), { allowed: true, remaining: 2, resetSeconds: 0 });
  t.equal(buckets.takeKnown('a', 0), undefined);
  buckets.take('a', 1, 2, 0);
  buckets.take('a', 1, 2, 0);
  t.match(buckets.peek('a', 1, 2, 0), { allowed: false, remaining: 0, retryAfterSeconds: 1 });
  t.match(buckets.peek('a', 1, 2, 1_000), { allowed: true, remaining: 1 });
  t.match(buckets.take('a', 1, 2, 1_000), { allowed: true, remaining: 0 });
});

t.test('a look by other limits than the bucket has leaves it as it is', async (t) => {
  const buckets = new TokenBuckets();
  buckets.take('a', 1, 500, 0);
  t.match(buckets.peek('a', 1, 2, 0), { allowed: true, limit: 2, remaining: 2 });
  t.match(buckets.takeKnown('a', 0), { limit: 500, remaining: 498 });
});

t.test('what is given back is there again, never more than the burst, and only where there is a bucket', async (t) => {
  const buckets = new TokenBuckets();
  t.equal(buckets.giveBack('a', 0), undefined);
  t.equal(buckets.takeKnown('a', 0), undefined);
  buckets.take('a', 1, 2, 0);
  t.match(buckets.giveBack('a', 0), { allowed: true, limit: 2, remaining: 2, resetSeconds: 0 });
  t.match(buckets.giveBack('a', 0), { remaining: 2 });
  t.match(buckets.takeKnown('a', 0), { remaining: 1 });
});

t.test('a request that was taken by other limits than it should is counted as if by the right ones', async (t) => {
  const buckets = new TokenBuckets();
  buckets.take('a', 1, 7, 0);
  t.match(buckets.adjust('a', 1, 7, 0), { allowed: true, limit: 7, remaining: 6 });
  t.match(buckets.adjust('a', 1, 3, 0), { allowed: true, limit: 3, remaining: 2 });
  t.match(buckets.adjust('a', 1, 500, 0), { limit: 500, remaining: 2 }, 'a larger burst is earned, not given');
});

t.test('whatever keys are invented, memory is bounded and an empty bucket outlives the full ones', async (t) => {
  const buckets = new TokenBuckets();
  t.equal(buckets.take('busy', 0.000_001, 1, 0).allowed, true);
  for (let i = 1; i < BUCKETS_MAX; i++) buckets.take(`key ${i}`, 1, 1, 0);
  buckets.take('one more', 1, 1, 2_000);
  t.equal(buckets.takeKnown('key 1', 2_000), undefined, 'those that are full again are forgotten');
  t.equal(buckets.takeKnown('busy', 2_000)?.allowed, false);
});
