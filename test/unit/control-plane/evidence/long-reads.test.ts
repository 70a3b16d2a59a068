import t from 'tap';
import { LongReads } from '../../../../control-plane/evidence/long-reads.ts';
import { LONG_READS_MAX, LONG_READS_OPEN_MAX, READER_PATIENCE_MS } from '../../../../core/limits.ts';

/** Reads with a clock that tests move. */
function clocked() {
  let nowMs = 0;
  const broken: string[] = [];
  const reads = new LongReads(() => nowMs);
  const take = (account: string) => reads.take(account, () => void broken.push(account));
  return { reads, take, broken, pass: (ms: number) => (nowMs += ms) };
}

const accounts = Array.from({ length: LONG_READS_OPEN_MAX }, (_, n) => `acc_${n}`);

t.test('slow readers keep nobody from exporting: who was waited for the longest makes room', async (t) => {
  const { take, broken, pass } = clocked();
  const [slowest = '', ...others] = accounts;
  const first = take(slowest);
  await first.step(async () => {});
  pass(1_000);
  const open = [first, ...others.map(take)];
  for (const one of open) await one.step(async () => {});
  t.throws(() => take('acc_new'), { code: 'overloaded', retryAfterSeconds: 5 }, 'nobody was waited for long yet');
  // Each of them takes a page just in time.
  for (let page = 0; page < 4; page++) {
    pass(READER_PATIENCE_MS / 4);
    for (const one of open) await one.step(async () => {});
  }
  take('acc_new');
  t.same(broken, [slowest]);
  first.end();
  t.throws(() => take('acc_new'), { code: 'conflict' }, 'the end of what was broken off ends nobody else');
  take(slowest);
  t.equal(broken.length, 2, 'and it may begin again');
});

t.test('a few work at the same time, the others in the order in which they came', async (t) => {
  const { take } = clocked();
  const done: string[] = [];
  const gates: (() => void)[] = [];
  const steps = accounts.map((account) =>
    take(account).step(async () => {
      await new Promise<void>((resolve) => gates.push(resolve));
      done.push(account);
    }),
  );
  t.equal(gates.length, LONG_READS_MAX);
  for (let at = 0; at < accounts.length; at++) {
    gates[at]?.();
    await steps[at];
  }
  t.same(done, accounts);
});

t.test('a step that fails gives its turn on, and a reader that is away holds none', async (t) => {
  const { take } = clocked();
  const open = accounts.map((account) => take(account));
  for (const one of open) {
    await t.rejects(
      one.step(async () => {
        throw new Error('broken');
      }),
    );
  }
  t.equal(await open[0]?.step(async () => 'still there'), 'still there');
});

t.test(
  'replays have half of the places, so that an export that can be broken off is always among the others',
  async (t) => {
    const { reads, take, broken, pass } = clocked();
    for (let n = 0; n < LONG_READS_MAX; n++) reads.take(`acc_replay_${n}`, null);
    t.throws(() => reads.take('acc_replay', null), { code: 'overloaded' });
    for (const account of accounts.slice(LONG_READS_MAX)) await take(account).step(async () => {});
    pass(READER_PATIENCE_MS);
    take('acc_new');
    t.equal(broken.length, 1);
  },
);

t.test('an account has one at a time, and its place back however often it ends it', async (t) => {
  const { take } = clocked();
  const first = take('acc_a');
  t.throws(() => take('acc_a'), { code: 'conflict' });
  first.end();
  take('acc_a');
  first.end();
  t.throws(() => take('acc_a'), { code: 'conflict' });
});
