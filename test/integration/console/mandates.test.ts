import t from 'tap';
import { allowed } from '../decisions/lane-client.ts';
import { CONSOLE_PASSWORD } from './console-fixture.ts';
import { hiddenFields, mandateFixture } from './mandate-fixture.ts';

/** The form of a change as it is shown for the mandate of the fixture. */
const FORM = { scope: 'payments.*', per_action: '100.00', per_month: '1000.00', threshold: '', counterparties: '' };
const UNTOUCHED = { ...FORM, valid_day: '', valid_time: '', max_uses: '', version: '1' };

t.test('the page of a mandate tells its month, its days and its decisions in words', async (t) => {
  const { owner, own, pay, sql, mandateId, errors } = await mandateFixture(t);
  const empty = await owner.browser.get(own);
  t.match(empty.text, /Nothing was asked for under this mandate yet/);
  const unknown = allowed(await pay(20));
  allowed(await pay(30));
  await pay(120);
  await sql`update reservations set state = 'unknown' where receipt_id = ${unknown}`;
  const page = await owner.browser.get(own);
  t.equal(page.status, 200);
  t.match(page.text, /Travel &lt;i&gt;/);
  t.match(page.text, /50\.00\u00a0EUR of 1,000\.00\u00a0EUR/);
  t.match(page.text, /<span class="reserved">30\.00\u00a0EUR reserved/);
  t.match(page.text, /<span class="unknown">20\.00\u00a0EUR not known yet/);
  t.match(page.text, /Begins anew on 1 .* \(UTC\)/);
  t.match(page.text, `/console/evidence/${unknown}`);
  t.match(page.text, /Denied MD-302/);
  t.match(page.text, /120\.00 EUR is 20\.00 above the limit/);
  t.match(page.text, /<td class="end number">50\.00\u00a0EUR<\/td>/, 'the table behind the chart');
  t.match(page.text, `href="${own}/credential"`);
  await owner.browser.post('/console/preferences', { language: 'de' });
  t.match((await owner.browser.get(own)).text, /Der Betrag liegt über der Grenze je Handlung/, "in the reader's words");
  const file = await owner.browser.get(`${own}/credential`);
  t.match(file.headers['content-type'], /application\/vc\+jwt/);
  t.match(file.headers['content-disposition'], `${mandateId}.jwt`);
  t.match(file.text, /^[\w-]+\.[\w-]+\.[\w-]+$/);
  t.same(errors, []);
});

t.test('a change is shown as a difference and its words, and makes a new version', async (t) => {
  const { owner, own, sql } = await mandateFixture(t);
  const { browser } = owner;
  const form = await browser.get(`${own}/edit`);
  t.match(form.text, /name="per_action"|value="100\.00"/);
  const values = { ...UNTOUCHED, per_action: '70', threshold: '50', valid_day: '2031-05-01', reason: 'Too much' };
  const diff = await browser.post(`${own}/edit`, { ...values, go: 'review' });
  t.equal(diff.status, 200);
  t.match(diff.text, /<span class="will">70\.00\u00a0EUR<\/span>/);
  t.match(diff.text, /Above 50\.00 EUR a human must approve/);
  t.same(await sql`select version from mandates`, [{ version: 1 }]);
  const saved = await browser.post(`${own}/edit`, { ...hiddenFields(diff.text), go: 'save' });
  t.same([saved.status, saved.location], [303, own]);
  const [row] = await sql`select version, per_action, escalation_threshold, rfc3339(valid_until) as u from mandates`;
  t.match(row, { version: 2, per_action: 7000, escalation_threshold: 5000, u: '2031-05-02T00:00:00.000Z' });
  const [entry] = await sql<{ body: string }[]>`select body from evidence where kind = 'mandate.changed'`;
  t.match(JSON.parse(entry?.body ?? ''), { reason: 'Too much', wording: { language: 'en', sha256: /^[0-9a-f]{64}$/ } });
  const versions = await browser.get(`${own}/versions`);
  t.match(versions.text, /Version 2/);
  t.match(versions.text, /<span class="was">100\.00/);
  const again = await browser.get(`${own}/edit`);
  t.match(again.text, /value="2031-05-01"/, 'midnight is the end of the day before');
});

t.test('a change that somebody overtook is compared anew, and nothing that was typed is lost', async (t) => {
  const { owner, own, api, mandateId, sql } = await mandateFixture(t);
  const { browser } = owner;
  const diff = await browser.post(`${own}/edit`, { ...UNTOUCHED, per_action: '70', go: 'review' });
  await api('POST', `/admin/mandates/${mandateId}/change`, { amount_limit_per_month: 900 });
  const stale = await browser.post(`${own}/edit`, { ...hiddenFields(diff.text), go: 'save' });
  t.equal(stale.status, 409);
  t.match(stale.text, /it has version 2 now/);
  t.match(stale.text, /<span class="was">900\.00/, 'against what there is now');
  t.equal(hiddenFields(stale.text)['per_action'], '70');
  t.equal((await browser.post(`${own}/edit`, { ...hiddenFields(stale.text), go: 'save' })).status, 303);
  t.match(await sql`select version, per_action, per_month from mandates`, [{ version: 3, per_action: 7000 }]);
});

t.test('a change that is wrong or none saves nothing', async (t) => {
  const { owner, own, sql } = await mandateFixture(t);
  const { browser } = owner;
  await browser.get(`${own}/edit`);
  const wrong = await browser.post(`${own}/edit`, { ...UNTOUCHED, per_action: 'x', scope: '', go: 'review' });
  t.equal(wrong.status, 422);
  t.match(wrong.text, /id="f-per-action-error"/);
  t.match(wrong.text, /id="f-more-error"/);
  const none = await browser.post(`${own}/edit`, { ...UNTOUCHED, go: 'review' });
  t.match(none.text, /Nothing would change/);
  t.equal((await browser.post(`${own}/edit`, { ...UNTOUCHED, go: 'save' })).status, 422);
  const unread = await browser.post(`${own}/edit`, { ...UNTOUCHED, per_action: '70', go: 'save' });
  t.equal(unread.status, 409, 'nobody read its words');
  const narrowed = await browser.post(`${own}/edit`, { ...UNTOUCHED, scope: 'orders.*', go: 'review' });
  t.match(narrowed.text, /http\.post:\/payments/, 'tools that are denied from then on');
  t.same(await sql`select version from mandates`, [{ version: 1 }]);
});

t.test('a replay of last month tells what new terms would have done, and changes nothing', async (t) => {
  const { owner, own, pay, sql, advance, codeOf } = await mandateFixture(t);
  const { browser } = owner;
  allowed(await pay(60));
  allowed(await pay(20));
  const asked = { ...UNTOUCHED, per_action: '50' };
  const none = await browser.post(`${own}/edit`, { ...asked, go: 'replay' });
  t.match(none.text, /Nothing was asked for in this time/);
  const now = await browser.post(`${own}/edit`, { ...asked, go: 'replay-now' });
  t.match(now.text, /1 of 2 decisions would have been others/);
  await advance(32 * 86_400);
  await browser.get('/console/login');
  const code = await codeOf(owner.secret);
  const signedIn = await browser.post('/console/login', { email: owner.email, password: CONSOLE_PASSWORD, code });
  t.equal(signedIn.status, 303);
  await browser.get('/console');
  const entries = async () => (await sql`select from evidence where account_id = ${owner.accountId}`).length;
  const before = await entries();
  const page = await browser.post(`${own}/edit`, { ...asked, go: 'replay' });
  t.equal(page.status, 200);
  t.match(page.text, /1 of 2 decisions would have been others/);
  t.match(page.text, /Allowed: 80\.00\u00a0EUR\. It would have been 20\.00\u00a0EUR/);
  t.match(page.text, /<td class="end number">80\.00\u00a0EUR<\/td>/, 'the table behind the chart');
  t.match(page.text, /Denied MD-302/);
  t.match(page.text, /\/console\/evidence\/rcp_/);
  const same = await browser.post(`${own}/edit`, { ...UNTOUCHED, per_month: '2000', go: 'replay' });
  t.match(same.text, /All 2 decisions would have been the same/);
  t.equal(await entries(), before);
});

t.test('each step between states says what follows, and revoking needs a fresh second factor', async (t) => {
  const { owner, own, sql, advance, codeOf, pay } = await mandateFixture(t);
  const { browser } = owner;
  allowed(await pay(40));
  const status = async () => (await sql<{ status: string }[]>`select status from mandates`)[0]?.status;
  const asked = await browser.get(`${own}/suspend`);
  t.match(asked.text, /Gateways that act under it: Shop\./);
  t.match(asked.text, /40\.00\u00a0EUR is reserved/);
  t.equal((await browser.post(`${own}/suspend`, { reason: 'Looking' })).status, 303);
  t.equal(await status(), 'suspended');
  t.equal((await browser.get(`${own}/suspend`)).status, 409, 'a step that does not lead on');
  t.equal((await browser.post(`${own}/suspend`, {})).status, 409);
  const resume = await browser.get(`${own}/resume`);
  t.equal((await browser.post(`${own}/resume`, hiddenFields(resume.text))).status, 303);
  await advance(600);
  const revoke = await browser.get(`${own}/revoke`);
  t.match(revoke.text, /This cannot be undone/);
  t.match(revoke.text, /name="factor_code"/);
  const without = await browser.post(`${own}/revoke`, { reason: 'Over' });
  t.equal(without.status, 422);
  t.match(without.text, /value="Over"/);
  t.match(without.text, /id="f-factor-code-error"/);
  t.equal((await browser.post(`${own}/revoke`, { factor_code: '000000' })).status, 422);
  t.equal(await status(), 'active');
  const code = await codeOf(owner.secret);
  t.equal((await browser.post(`${own}/revoke`, { factor_code: code, reason: 'Over' })).status, 303);
  t.equal(await status(), 'revoked');
  t.equal((await browser.get(`${own}/credential`)).status, 404);
  t.equal((await browser.get(`${own}/edit`)).status, 409);
});

t.test('one stop suspends every active mandate, and one step takes it back', async (t) => {
  const { owner, own, sql, advance, codeOf, api, pay } = await mandateFixture(t);
  const { browser } = owner;
  const other = {
    scope: ['a.*'],
    amount_limit_per_action: 1,
    amount_limit_per_month: 1,
    activate: true,
    name: 'Other',
  };
  const made = (await api('POST', '/admin/mandates', other)).body as { mandate_id: string };
  await browser.get('/console');
  await browser.post(`/console/mandates/${made.mandate_id}/suspend`, {});
  t.match((await browser.get('/console')).text, /href="\/console\/stop"/);
  const page = await browser.get('/console/stop');
  t.match(page.text, /Travel &lt;i&gt;/);
  t.notMatch(page.text, /<li>Other/);
  await advance(600);
  t.equal((await browser.post('/console/stop', {})).status, 422, 'a fresh second factor');
  const code = await codeOf(owner.secret);
  t.equal((await browser.post('/console/stop', { factor_code: code, reason: 'Odd orders' })).status, 303);
  t.equal((await pay(10)).answer, 'deny');
  t.match((await browser.get('/console')).text, /Your account is stopped/);
  t.match((await browser.get(own)).text, /Suspended/);
  const again = await browser.post('/console/stop', {});
  t.equal(again.status, 303);
  t.match((await browser.get('/console/stop')).text, /somebody was there before you/);
  t.match((await browser.get('/console/stop/resume')).text, /Travel/);
  t.equal((await browser.post('/console/stop/resume', {})).status, 303);
  t.same(await sql`select name, status from mandates order by name`, [
    { name: 'Other', status: 'suspended' },
    { name: 'Travel <i>', status: 'active' },
  ]);
  const kinds = await sql`select body::jsonb ->> 'reason' as reason from evidence
    where kind = 'mandate.suspended' and body::jsonb -> 'all' = 'true'`;
  t.same(kinds, [{ reason: 'Odd orders' }]);
});
