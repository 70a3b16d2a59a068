import fc from 'fast-check';
import t from 'tap';
import { busyWith, retryDelayMs } from '../../../../control-plane/notifications/deliveries.ts';
import { DELIVERY_ATTEMPTS_MAX, DELIVERY_RETRY_MAX_MS } from '../../../../core/limits.ts';

const HOUR_MS = 3_600_000;

t.test('pauses grow from seconds to hours, apart from each other by chance, over about three days', async (t) => {
  const random = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true });
  const draws = fc.array(random, { minLength: DELIVERY_ATTEMPTS_MAX - 1, maxLength: DELIVERY_ATTEMPTS_MAX - 1 });
  fc.assert(
    fc.property(draws, (drawn) => {
      const pauses = drawn.map((one, at) => retryDelayMs(at + 1, one));
      const hours = pauses.reduce((sum, pause) => sum + pause, 0) / HOUR_MS;
      t.ok(hours > 58 && hours < 90, `${hours} hours`);
      t.ok(pauses[0]! >= 4_000 && pauses[0]! <= 6_000);
      t.ok(pauses.every((pause) => pause <= DELIVERY_RETRY_MAX_MS * 1.2));
    }),
  );
  t.equal(retryDelayMs(1, 0.5), 5_000);
  t.equal(retryDelayMs(2, 0.5), 15_000);
});

t.test('a receiver with anything in flight is busy, and an account by how much it has', async (t) => {
  const flying = Array.from({ length: 8 }, (_, i) => ({ account_id: 'acc_a', target: `whk_${i % 4}` }));
  const slow = new Map([['acc_a', 15_000]]);
  t.same(busyWith([...flying, { account_id: 'acc_b', target: 'whk_0' }], slow), {
    slow,
    accounts: new Map([
      ['acc_a', 8],
      ['acc_b', 1],
    ]),
    receivers: ['acc_a whk_0', 'acc_a whk_1', 'acc_a whk_2', 'acc_a whk_3', 'acc_b whk_0'],
  });
});
