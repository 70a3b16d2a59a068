import { setTimeout as delay } from 'node:timers/promises';
import t from 'tap';
import { allowed, ask, askFor, chainOf, laneFixture, monthOf } from './lane-client.ts';

t.test('what has to be decided anew is not decided once its time is over', async (t) => {
  const { account, sql, sources, moreLanes } = await laneFixture(t, { per_month: 1_000 });
  const lanes = moreLanes({ batchMax: 32 });
  for (let i = 0; i < 2; i++) allowed(await ask(lanes, account, { amount: 1 }));
  sources.length = 0;
  const budgetMs = 300;
  const holder = await sql.reserve();
  await holder`begin`;
  await holder`update mandate_months set booked = 990`;
  const waiting = Promise.all(Array.from({ length: 64 }, () => ask(lanes, account, { amount: 1, budgetMs })));
  await delay(budgetMs + 50);
  await holder`commit`;
  holder.release();
  for (const answer of await waiting) t.match(answer, { answer: 'problem', error: 'not_decidable' });
  t.same(new Set(sources), new Set(['changed']), 'they were sent, refused, and not read for again');
  t.equal((await chainOf(sql, account)).length, 2);
  t.same(await monthOf(sql, account), { reserved: 2, booked: 990 });
});

for (const way of ['read', 'carried'] as const) {
  t.test(`an answer that cannot be given has nothing decided twice, on facts that are ${way}`, async (t) => {
    const { account, lanes, sql, errors, sources } = await laneFixture(t);
    if (way === 'carried') for (let i = 0; i < 2; i++) allowed(await ask(lanes, account));
    const before = (await chainOf(sql, account)).length;
    const { accountId, instanceId } = account;
    const message = askFor(account);
    const thrown = new Error('the response is gone');
    let told = 0;
    lanes.submit({
      ...{ kind: 'ask', accountId, instanceId, ask: message, deadlineMs: performance.now() + 10_000 },
      answer: () => {
        told += 1;
        throw thrown;
      },
    });
    allowed(await ask(lanes, account));
    t.equal(told, 1);
    t.same(errors, [thrown]);
    t.equal((await chainOf(sql, account)).length, before + 2, 'each was decided once');
    t.ok(sources.includes(way));
  });
}
