import t from 'tap';
import { agentOf } from './agent-fixture.ts';
import { consoleFixture } from './console-fixture.ts';

const SETTLED = { outcome: 'released', reason: 'not in their\r\nbooks', confirmed: 'on' };

t.test('an unknown outcome is listed, and settled with a reason and a confirmation, once', async (t) => {
  const fixture = await consoleFixture(t);
  const { browser, accountId } = await fixture.person();
  t.match((await browser.get('/console/reconcile')).text, /Every outcome is known/);
  const agent = await agentOf(fixture, { accountId });
  const receipt = await agent.unknown({ counterparty: 'x<script>y' });
  const path = `/console/reconcile/${receipt}`;
  const list = await browser.get('/console/reconcile');
  t.match(list.text, new RegExp(`href="${path}"`));
  t.match(list.text, /x&lt;script&gt;y/);
  t.match(list.text, /The target did not answer in time/);
  t.match((await browser.get(path)).text, /POST \/payments/);
  for (const [fields, wrong] of [
    [{}, 'f-outcome-error'],
    [{ ...SETTLED, outcome: 'unknown' }, 'f-outcome-error'],
    [{ ...SETTLED, reason: ' ' }, 'f-reason-error'],
    [{ ...SETTLED, reason: 'x'.repeat(501) }, 'f-reason-error'],
    [{ outcome: 'booked', reason: 'x' }, 'Confirm that you have looked it up'],
  ] as const) {
    const refused = await browser.post(path, fields as Record<string, string>);
    t.equal(refused.status, 422);
    t.match(refused.text, wrong);
  }
  const [held] = await fixture.sql`select reserved, booked from mandate_months`;
  t.match(held, { reserved: 300, booked: 0 });
  const settled = await browser.post(path, SETTLED);
  t.same([settled.status, settled.location], [303, '/console/reconcile']);
  t.match((await browser.get('/console/reconcile')).text, /its amount is free again/);
  t.match((await fixture.sql`select reserved, booked from mandate_months`)[0], { reserved: 0, booked: 0 });
  const [entry] = await fixture.sql<{ body: string }[]>`select body from evidence where kind = 'outcome.settled'`;
  t.match(JSON.parse(entry?.body ?? '{}'), { reason: 'not in their books', settled_by: accountId });
  const again = await browser.post(path, SETTLED);
  t.equal(again.status, 409);
  t.match(again.text, /settled already/);
  t.equal((await browser.get(path)).status, 404);
});
