import t from 'tap';
import { lockAfter } from '../../../../control-plane/accounts/lock-out.ts';

t.test('locks double from thirty seconds to a quarter of an hour', async (t) => {
  t.same(
    [0, 4, 5, 6, 7, 8, 9, 10, 1000].map(lockAfter),
    [0, 0, 30_000, 60_000, 120_000, 240_000, 480_000, 900_000, 900_000],
  );
});
