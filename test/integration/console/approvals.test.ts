import t from 'tap';
import { at } from '../control-plane/admin-fixture.ts';
import { agentOf } from './agent-fixture.ts';
import {
  type Browser,
  CONSOLE_PASSWORD,
  type ConsoleFixture,
  type ConsolePerson,
  consoleFixture,
} from './console-fixture.ts';

/** Another browser of the same person, signed in. */
async function secondBrowser(fixture: ConsoleFixture, { email, secret }: ConsolePerson): Promise<Browser> {
  const browser = fixture.browser();
  await fixture.advance(31);
  await browser.get('/console/login');
  await browser.post('/console/login', { email, password: CONSOLE_PASSWORD, code: await fixture.codeOf(secret) });
  return browser;
}

async function kinds({ sql }: ConsoleFixture, id: string): Promise<string[]> {
  const rows = await sql<{ kind: string }[]>`
    select kind from evidence where kind like 'escalation.%' and body::jsonb ->> 'escalation_id' = ${id} order by seq`;
  return rows.map(({ kind }) => kind);
}

t.test('a person approves with a reason; the token reaches no browser, and its poller gets it', async (t) => {
  const fixture = await consoleFixture(t);
  const { browser, accountId, email } = await fixture.person();
  const agent = await agentOf(fixture, { accountId });
  const id = await agent.escalateWith('{"amount":5.01}');
  const path = `/console/approvals/${id}`;
  const inbox = await browser.get('/console/approvals');
  t.match(inbox.text, new RegExp(`href="${path}"`));
  t.match(inbox.text, /<span class="count">1</, 'the navigation says how many wait');
  t.match(inbox.text, /<noscript><meta http-equiv="refresh"/, 'and it grows no older without scripts');
  const card = await browser.get(path);
  for (const shown of [/5\.01\u00a0EUR/, /acme/, /payments\.create/, /POST \/payments/, /&quot;amount&quot;:5\.01/]) {
    t.match(card.text, shown);
  }
  t.match(card.text, /Above 5\.00\u00a0EUR the mandate/, 'why it escalated');
  t.match(card.text, /994\.99\u00a0EUR of 1,000\.00\u00a0EUR would be left/, 'what the month would hold');
  t.notMatch(card.text, /name="factor_code"/, 'the second factor is fresh');
  const answered = await browser.post(path, { answer: 'approve', reason: ' <i>fine</i>\r\nby me ' });
  t.same([answered.status, answered.location], [303, path]);
  const after = await browser.get(path);
  t.match(after.text, new RegExp(`${email} approved this`));
  t.match(after.text, /&lt;i&gt;fine&lt;\/i&gt;\nby me/);
  t.notMatch(after.text, /name="answer"/);
  for (const { text } of [inbox, card, answered, after, await browser.get('/console/approvals')]) {
    t.notMatch(text, /etk_/, 'no page holds the token');
  }
  const polled = await fixture.send('GET', `/api/v1/escalations/${id}`, agent.account.token);
  t.match(at(polled, 'escalation_token'), /^etk_/);
  t.same(await kinds(fixture, id), ['escalation.approved']);
  t.match((await browser.get('/console/approvals?status=approved')).text, path);
  t.notMatch((await browser.get('/console/approvals?status=rejected')).text, path);
});

t.test('an old second factor is asked for again, a wrong code answers nothing, a right one is used up', async (t) => {
  const fixture = await consoleFixture(t);
  const { browser, accountId, secret } = await fixture.person();
  const agent = await agentOf(fixture, { accountId });
  await fixture.advance(301);
  const [one, two] = [await agent.escalate(), await agent.escalate({ amount: 777 })];
  const path = `/console/approvals/${one}`;
  t.match((await browser.get(path)).text, /name="factor_code"/);
  for (const factor_code of ['', '000000', 'x']) {
    const refused = await browser.post(path, { answer: 'approve', reason: 'kept', factor_code });
    t.equal(refused.status, 422);
    t.match(refused.text, /id="f-factor-code-error"/);
    t.match(refused.text, /kept<\/textarea>/, 'what was typed is not lost');
  }
  t.same(await kinds(fixture, one), []);
  const code = await fixture.codeOf(secret);
  t.equal((await browser.post(path, { answer: 'reject', factor_code: code })).status, 303);
  t.same(await kinds(fixture, one), ['escalation.rejected']);
  await browser.get(`/console/approvals/${two}`);
  t.equal((await browser.post(`/console/approvals/${two}`, { answer: 'reject' })).status, 303, 'and is fresh now');
});

t.test(
  'of two sessions that answer at once exactly one is taken, and the other is told who, what and when',
  async (t) => {
    const fixture = await consoleFixture(t);
    const person = await fixture.person();
    const agent = await agentOf(fixture, person);
    const other = await secondBrowser(fixture, person);
    for (let round = 0; round < 5; round++) {
      const id = await agent.escalate({ amount: 600 + round });
      const path = `/console/approvals/${id}`;
      await Promise.all([person.browser.get(path), other.get(path)]);
      const answers = await Promise.all([
        person.browser.post(path, { answer: 'approve' }),
        other.post(path, { answer: 'reject', reason: 'not now' }),
      ]);
      t.same(answers.map(({ status }) => status).sort(), [303, 409]);
      const loser = answers.find(({ status }) => status === 409);
      const what = answers[0].status === 303 ? 'approved' : 'rejected';
      t.match(loser?.text, /Your answer was not taken/);
      t.match(loser?.text, new RegExp(`${person.email} ${what} this`));
      t.match(loser?.text, /<dt>Answered<\/dt><dd><time/);
      t.same(await kinds(fixture, id), [`escalation.${what}`]);
    }
  },
);

t.test('what is over is said to be over, without spending a code, and is written down once', async (t) => {
  const fixture = await consoleFixture(t);
  const { browser, accountId, secret } = await fixture.person();
  const agent = await agentOf(fixture, { accountId });
  const id = await agent.escalate();
  const path = `/console/approvals/${id}`;
  await fixture.advance(601);
  t.match((await browser.get('/console/approvals')).text, /Nothing waits for you/);
  t.match((await browser.get(path)).text, /Nobody answered in time/);
  const code = await fixture.codeOf(secret);
  const late = await browser.post(path, { answer: 'approve', factor_code: code });
  t.equal(late.status, 409);
  t.match(late.text, /Your answer was not taken/);
  t.match(late.text, /Nobody answered in time/);
  const next = await agent.escalate({ amount: 888 });
  await browser.get(`/console/approvals/${next}`);
  const answered = await browser.post(`/console/approvals/${next}`, { answer: 'approve', factor_code: code });
  t.equal(answered.status, 303, 'the code was still good');
});

t.test('what is no answer is refused, and what an agent wrote stays text', async (t) => {
  const fixture = await consoleFixture(t);
  const { browser, accountId } = await fixture.person();
  const agent = await agentOf(fixture, { accountId }, { name: 'Agent "><script>alert(1)</script>' });
  const hostile = '</pre><script>alert(1)</script><img src=x onerror=alert(1)>\u202egnp\u200b\n';
  const id = await agent.escalateWith(hostile, { counterparty: 'acme"><svg onload=alert(1)>\u2066' });
  const path = `/console/approvals/${id}`;
  for (const url of ['/console/approvals', path]) {
    const { text } = await browser.get(url);
    t.notMatch(text, /<script>alert|<img src=x|<svg onload/, url);
    t.notMatch(text, /[\u202e\u2066\u200b]/, `${url}: nothing turns the text around it`);
    t.match(text, /U\+2066/, 'and it is seen');
  }
  t.match((await browser.get(path)).text, /&lt;\/pre&gt;.*U\+202E.*U\+200B/);
  for (const fields of [
    {},
    { answer: 'maybe' },
    { answer: 'approve', reason: 'x'.repeat(501) },
    { answer: 'approve', decided_by: 'me' },
  ]) {
    t.equal(
      (await browser.post(path, fields as Record<string, string>)).status,
      422,
      JSON.stringify(fields).slice(0, 60),
    );
  }
  t.equal((await browser.post(path, { answer: 'approve', csrf: 'x' })).status, 403);
  t.same(await kinds(fixture, id), []);
  const raw = await browser.get(`${path}/body`);
  t.match(raw.headers, { 'content-type': /^text\/plain/, 'content-disposition': /^attachment/ });
  const bytes = await agent.escalateWith(Buffer.from([0xff, 0xfe, 0x00]), { amount: 900 });
  t.match((await browser.get(`/console/approvals/${bytes}`)).text, /\/\/4A/, 'what is no text is base64');
  const long = await agent.escalateWith('<'.repeat(60_000), { amount: 901 });
  const page = await browser.get(`/console/approvals/${long}`);
  t.ok(page.text.length < 100_000, 'a page stays small');
  t.match(page.text, new RegExp(`/console/approvals/${long}/body`), 'and leads to all of it');
});

t.test('an approval that would break the limit says so before', async (t) => {
  const fixture = await consoleFixture(t);
  const { browser, accountId } = await fixture.person();
  const agent = await agentOf(fixture, { accountId });
  const id = await agent.escalate({ amount: 9_000 });
  await fixture.sql`
    insert into mandate_months (account_id, mandate_id, month, reserved, booked, allows)
    select account_id, mandate_id, date_trunc('month', db_clock() at time zone time_zone)::date, 0, 95000, 7
    from mandates on conflict (account_id, mandate_id, month) do update set booked = 95000`;
  t.match((await browser.get(`/console/approvals/${id}`)).text, /This would go 40\.00\u00a0EUR above the limit/);
});
