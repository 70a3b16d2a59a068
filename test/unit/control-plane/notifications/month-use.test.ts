import fc from 'fast-check';
import t from 'tap';
import { noteMonthUse } from '../../../../control-plane/notifications/month-use.ts';

const MANDATE = { accountId: 'acc_x', mandateId: 'mdt_x' };

/** Runs allows (positive) and releases (negative) as batches do; returns the percents that were recorded, in order. */
function run(limit: number, changes: readonly number[]): number[] {
  const told: number[] = [];
  const month: { month: string; reserved: number; booked: number; told?: 80 | 100 } = {
    ...{ month: '2026-05-01', reserved: 0, booked: 0 },
  };
  const recording = {
    statement: (_: string, params: readonly string[]) => void told.push(JSON.parse(params[3] ?? '').percent),
  };
  for (const change of changes) {
    if (change < 0) {
      month.reserved = Math.max(0, month.reserved + change);
    } else if (month.reserved + change <= limit) {
      month.reserved += change;
      noteMonthUse(recording, { ...MANDATE, month }, { per_month: limit, currency: 'EUR' }, change);
    }
  }
  return told;
}

t.test('a share is recorded exactly when use comes to it, and not again while the facts stay in memory', async (t) => {
  const changes = fc.array(fc.integer({ min: -500, max: 500 }), { maxLength: 60 });
  fc.assert(
    fc.property(fc.integer({ min: 0, max: 2_000 }), changes, (limit, given) => {
      let [use, highest] = [0, 0];
      for (const change of given) {
        if (change < 0) use = Math.max(0, use + change);
        else if (use + change <= limit) use += change;
        highest = Math.max(highest, use);
      }
      const expected = [80, 100].filter((percent) => limit > 0 && highest * 100 >= limit * percent);
      t.same(run(limit, given), expected);
    }),
  );
});

t.test('the largest limits are exact', async (t) => {
  const limit = 1_000_000_000_000_000;
  t.same(run(limit, [(limit / 5) * 4 - 1]), []);
  t.same(run(limit, [(limit / 5) * 4 - 1, 1]), [80]);
  t.same(run(limit, [limit]), [80, 100]);
});
