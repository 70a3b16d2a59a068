import t from 'tap';
import { textAt } from '../control-plane/admin-fixture.ts';
import { MANDATE } from '../control-plane/noun-fixture.ts';
import { type ConsoleFixture, type ConsolePerson, consoleFixture } from './console-fixture.ts';

const TARGET = 'http://127.0.0.1:9';
const SECRET = 'Bearer sk_live_4242424242424242';

/** A person with a mandate, made by a session of the command line that is theirs. */
async function withMandate(fixture: ConsoleFixture): Promise<ConsolePerson & { readonly mandateId: string }> {
  const person = await fixture.person();
  const cli = await fixture.signUp();
  await fixture.sql`update sessions set account_id = ${person.accountId} where account_id = ${cli.accountId}`;
  await fixture.sql`update token_routes set account_id = ${person.accountId} where account_id = ${cli.accountId}`;
  const mandateId = textAt(await fixture.send('POST', '/admin/mandates', cli.token, MANDATE), 'mandate_id');
  return { ...person, mandateId };
}

const fieldsOf = (mandate_id: string, more: Readonly<Record<string, string>> = {}) => ({
  name: 'Shop',
  mandate_id,
  target_url: TARGET,
  'credential.header': 'Authorization',
  'credential.value': SECRET,
  rate_per_second: '7',
  rate_burst: '9',
  ...more,
});

t.test('a token is in the answer that made it and nowhere again, the credential in none', async (t) => {
  const fixture = await consoleFixture(t);
  const { browser, mandateId } = await withMandate(fixture);
  await browser.get('/console/gateways/new');
  const made = await browser.post('/console/gateways', fieldsOf(mandateId, { name: '<i>"x"\u202e' }));
  t.equal(made.status, 200);
  const token = /gwt_[A-Za-z0-9_-]{43}/.exec(made.text)?.[0] ?? '';
  t.match(made.text, new RegExp(`curl -i https://mandate\\.example/api/gateway/http/payments[\\s\\S]*Bearer ${token}`));
  t.match(made.text, /data-copy="new-token"/);
  const id = /gwi_[0-9a-z]{26}/.exec(made.text)?.[0] ?? '';
  const path = `/console/gateways/${id}`;
  for (const url of [path, '/console/gateways', `${path}/change`, `${path}/rotate`, `${path}/tools`]) {
    const { status, text } = await browser.get(url);
    t.equal(status, 200, url);
    t.notMatch(text, /gwt_/, url);
    t.notMatch(text, /sk_live_42/, url);
    t.notMatch(text, /<i>/, url);
  }
  t.match((await browser.get(path)).text, /7 a second, 9 at once/);
  const rotated = await browser.post(`${path}/rotate`, {});
  t.equal(rotated.status, 200);
  const renewed = /gwt_[A-Za-z0-9_-]{43}/.exec(rotated.text)?.[0] ?? '';
  t.not(renewed, token);
  const kinds = await fixture.sql`select from evidence where kind = 'gateway.token_rotated'`;
  t.equal(kinds.length, 1);
});

t.test('a gateway that cannot be made says why beside each field, and forgets the credential', async (t) => {
  const fixture = await consoleFixture(t, { allowPrivateTargets: false });
  const { browser, mandateId } = await withMandate(fixture);
  await browser.get('/console/gateways/new');
  const wrong = await browser.post('/console/gateways', fieldsOf(mandateId));
  t.equal(wrong.status, 422);
  t.match(wrong.text, /id="f-target-url-error">This address is private/);
  t.match(wrong.text, /value="Shop"/);
  t.notMatch(wrong.text, /sk_live_42/);
  const cases: [Record<string, string>, RegExp][] = [
    [{ target_url: 'ftp://x' }, /f-target-url-error/],
    [{ mandate_id: 'mdt_01h455vb4pex5vsknk084sn02q', target_url: 'https://1.1.1.1' }, /f-mandate-id-error/],
    [{ name: ' ' }, /f-name-error/],
    [{ 'credential.value': '' }, /id="f-credential-value-error">Give the header and its value/],
    [{ 'credential.header': 'Host' }, /f-credential-header-error/],
    [{ rate_per_second: 'many' }, /f-rate-per-second-error/],
    [{ rate_burst: '0' }, /f-rate-burst-error/],
  ];
  for (const [more, message] of cases) {
    const answer = await browser.post('/console/gateways', fieldsOf(mandateId, more));
    t.equal(answer.status, 422, JSON.stringify(more));
    t.match(answer.text, message);
  }
  t.same(await fixture.sql`select from gateway_instances`, []);
});

t.test("everything that is missing is named at once, in the reader's language", async (t) => {
  const fixture = await consoleFixture(t);
  const { browser, mandateId } = await withMandate(fixture);
  await browser.get('/console/gateways/new');
  await browser.post('/console/preferences', { language: 'de' });
  const empty = await browser.post('/console/gateways', fieldsOf('', { name: '', target_url: '' }));
  t.equal(empty.status, 422);
  t.match(empty.text, /f-name-error">Füllen Sie das aus/);
  t.match(empty.text, /f-mandate-id-error">Wählen Sie eines Ihrer Mandate/);
  t.match(empty.text, /f-target-url-error">Füllen Sie das aus/);
  const away = await browser.post('/console/gateways', fieldsOf(mandateId, { target_url: 'https://nowhere.invalid' }));
  t.match(away.text, /f-target-url-error">Diesen Host gibt es nicht/);
});

t.test('settings change, the credential stays unless it is typed, and never goes to another host', async (t) => {
  const fixture = await consoleFixture(t);
  const { browser, mandateId } = await withMandate(fixture);
  await browser.get('/console/gateways/new');
  const made = await browser.post('/console/gateways', fieldsOf(mandateId));
  const path = `/console/gateways/${/gwi_[0-9a-z]{26}/.exec(made.text)?.[0]}`;
  const { mandate_id: _, ...settings } = fieldsOf(mandateId, { 'credential.value': '', name: 'Renamed' });
  const change = (more: Readonly<Record<string, string>>) => browser.post(`${path}/change`, { ...settings, ...more });
  await browser.get(`${path}/change`);
  t.equal((await change({ rate_burst: '11' })).status, 303);
  const moved = await change({ target_url: 'http://127.0.0.2:9' });
  t.equal(moved.status, 422);
  t.match(moved.text, /type the credential for it again/);
  const page = await browser.get(path);
  t.match(page.text, /Renamed/);
  t.match(page.text, /11 at once/);
  t.match(page.text, /<code>Authorization<\/code>: stored/);
  t.equal((await browser.post(`${path}/credential/remove`, {})).location, path);
  t.notMatch((await browser.get(path)).text, /Authorization<\/code>: stored/);
  await browser.get(`${path}/disable`);
  t.equal((await browser.post(`${path}/disable`, {})).location, path);
  t.match((await browser.get(path)).text, /every request is denied/);
  await browser.get(path);
  t.equal((await browser.post(`${path}/disable`, {})).status, 303, 'pressed again in an old page');
  t.equal((await browser.post(`${path}/enable`, {})).status, 303);
  t.notMatch((await browser.get(`${path}?`)).text, /This gateway is disabled/);
});

t.test('without a mandate the form leads to one', async (t) => {
  const fixture = await consoleFixture(t);
  const { browser } = await fixture.person();
  t.match((await browser.get('/console/gateways/new')).text, /href="\/console\/mandates\/new"/);
  t.match((await browser.get('/console/gateways')).text, /No gateway yet/);
});

t.test('a token that is shown once is shown, whatever else of the page cannot be read', async (t) => {
  const fixture = await consoleFixture(t);
  const { browser, mandateId } = await withMandate(fixture);
  await browser.get('/console/gateways/new');
  const made = await browser.post('/console/gateways', fieldsOf(mandateId));
  const id = /gwi_[0-9a-z]{26}/.exec(made.text)?.[0] ?? '';
  await fixture.sql`alter table escalations rename to elsewhere`;
  const rotated = await browser.post(`/console/gateways/${id}/rotate`, {});
  t.equal(rotated.status, 200);
  t.match(rotated.text, /gwt_[A-Za-z0-9_-]{43}/);
  t.equal(fixture.errors.length, 1, 'and the log says what was wrong');
});
