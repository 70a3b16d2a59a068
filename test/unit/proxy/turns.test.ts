import t from 'tap';
import { VERIFICATIONS_A_TURN } from '../../../core/limits.ts';
import { Turns } from '../../../proxy/verify/turns.ts';

const turnOver = () => new Promise<void>((resolve) => setImmediate(resolve));

t.test('what arrives at once is done so many at a time, in its order, and nothing is left', async (t) => {
  const turns = new Turns();
  const done: number[] = [];
  const count = VERIFICATIONS_A_TURN * 2 + 3;
  for (let i = 0; i < count; i++) void turns.next().then(() => done.push(i));
  const after: number[] = [];
  while (done.length < count) {
    await turnOver();
    after.push(done.length);
  }
  t.same(
    done,
    Array.from({ length: count }, (_, i) => i),
  );
  t.same(
    [...new Set(after)].filter((n) => n > 0),
    [VERIFICATIONS_A_TURN, VERIFICATIONS_A_TURN * 2, count],
  );
  void turns.next().then(() => done.push(-1));
  await turnOver();
  t.equal(done.at(-1), -1, 'later ones have their turn as well');
});
