import t from 'tap';
import { textAt } from '../control-plane/admin-fixture.ts';
import { MANDATE } from '../control-plane/noun-fixture.ts';
import { allowed, tell } from '../decisions/lane-client.ts';
import { busyAccount } from './busy-console.ts';
import { consoleFixture } from './console-fixture.ts';

/** The steps of the checklist that are done, and where the next one leads. */
function stepsOf(text: string): { readonly done: number; readonly all: number; readonly next: string | null } {
  const list = /<ol class="steps">([\s\S]*?)<\/ol>/.exec(text)?.[1] ?? '';
  const items = [...list.matchAll(/<li class="(done)?">/g)];
  const next = /<a class="button primary" href="([^"]+)"/.exec(list)?.[1] ?? null;
  return { done: items.filter(([, done]) => done !== undefined).length, all: items.length, next };
}

t.test('a new account is led to its first allowed request, one step after the other', async (t) => {
  const fixture = await consoleFixture(t);
  const person = await fixture.person();
  const page = async () => (await person.browser.get('/console')).text;
  t.same(stepsOf(await page()), { done: 0, all: 5, next: '/console/mandates/new' });
  const { accountId: cliId, token } = await fixture.signUp();
  await fixture.sql`update token_routes set account_id = ${person.accountId} where account_id = ${cliId}`;
  await fixture.sql`update sessions set account_id = ${person.accountId} where account_id = ${cliId}`;
  const made = await fixture.send('POST', '/admin/mandates', token, { ...MANDATE, activate: false });
  t.equal(stepsOf(await page()).done, 0, 'a draft allows nothing');
  const mandateId = textAt(made, 'mandate_id');
  await fixture.send('POST', `/admin/mandates/${mandateId}/activate`, token, {});
  t.same(stepsOf(await page()), { done: 1, all: 5, next: '/console/gateways/new' });
  const gateway = await fixture.send('POST', '/admin/gateways', token, {
    ...{ mandate_id: mandateId, target_url: 'http://127.0.0.1:9' },
  });
  const id = textAt(gateway, 'instance_id');
  t.same(stepsOf(await page()), { done: 2, all: 5, next: `/console/gateways/${id}` });
  t.match(await page(), /no tool is mapped/);
  await busyAccount(fixture, person);
  t.equal(stepsOf(await page()).all, 0, 'who has arrived is not told the way any more');
});

t.test('the day, what needs somebody and the reasons are those of the evidence', async (t) => {
  const fixture = await consoleFixture(t);
  const person = await fixture.person();
  const busy = await busyAccount(fixture, person);
  const { text } = await person.browser.get('/console');
  const figures = Object.fromEntries(
    Array.from(text.matchAll(/<dt>(Allowed|Denied|Escalated)<\/dt><dd>(\d+)/g), ([, name, count]) => [name, count]),
  );
  t.same(figures, { Allowed: '2', Denied: '4', Escalated: '1' });
  t.match(text, /19\.50\u00a0EUR/, 'what was allowed today');
  t.match(text, /One request waits for your answer/);
  t.match(text, /Of one request nobody knows what became of it/);
  t.match(text, /7\.00\u00a0EUR unknown/);
  t.match(text, /href="\/console\/evidence\?code=MD-302"/);
  t.match(text, new RegExp(`href="/console/gateways/${busy.account.instanceId}/tools"`), 'an unmapped tool');
  t.match(text, /<details class="behind">/, 'the chart has a table');
});

t.test('a mandate that ends soon is named, one that ends later is not', async (t) => {
  const fixture = await consoleFixture(t);
  const person = await fixture.person();
  const { token } = await busyAccount(fixture, person);
  for (const [name, days] of [
    ['Ends soon', 3],
    ['Ends later', 40],
  ] as const) {
    const valid_until = new Date(Date.now() + days * 86_400_000).toISOString();
    const made = await fixture.send('POST', '/admin/mandates', token, { ...MANDATE, name, valid_until });
    t.equal(made.status, 201);
  }
  const { text } = await person.browser.get('/console');
  t.match(text, /Ends soon ends soon/);
  t.notMatch(text, /Ends later ends soon/);
});

t.test('how long targets took is read from the evidence, once there were enough of them', async (t) => {
  const fixture = await consoleFixture(t);
  const person = await fixture.person();
  const busy = await busyAccount(fixture, person);
  const page = async () => (await person.browser.get('/console')).text;
  t.notMatch(await page(), /Targets answered within/);
  for (let at = 0; at < 5; at++) {
    const answer = await busy.ask({ amount: 100 + at });
    await tell(fixture.lanes, busy.account, allowed(answer), { outcome: 'booked' });
  }
  t.match(await page(), /Targets answered within \d+ ms half of the time[^<]*the last 6 requests/);
});
