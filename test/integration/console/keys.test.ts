import t from 'tap';
import { consoleFixture } from './console-fixture.ts';

t.test('an API key is shown in the answer that made it and nowhere again', async (t) => {
  const fixture = await consoleFixture(t);
  const { browser } = await fixture.person();
  await browser.get('/console/keys/new');
  const fields = { name: '<b>"Shop" & co</b>', 'scopes[verify]': 'on', 'scopes[mandates:read]': 'on' };
  const made = await browser.post('/console/keys', fields);
  t.equal(made.status, 200);
  const secret = /mak_[A-Za-z0-9_-]{43}/.exec(made.text)?.[0] ?? '';
  t.not(secret, '');
  t.match(made.text, /&lt;b&gt;&quot;Shop&quot; &amp; co&lt;\/b&gt;/);
  const list = await browser.get('/console/keys');
  t.match(list.text, /mandates:read/);
  t.notMatch(list.text, /mak_/);
  t.notMatch(list.text, /<b>/);
  const id = /key_[0-9a-z]{26}/.exec(list.text)?.[0] ?? '';
  t.equal((await browser.get(`/console/keys/${id}/revoke`)).status, 200);
  const revoked = await browser.post(`/console/keys/${id}/revoke`, {});
  t.same([revoked.status, revoked.location], [303, '/console/keys']);
  const after = await browser.get('/console/keys');
  t.match(after.text, /role="status"/);
  t.match(after.text, /Revoked/);
  t.notMatch((await browser.get('/console/keys')).text, /role="status"/, 'the message is shown once');
  t.equal((await browser.get(`/console/keys/${id}/revoke`)).status, 404);
});

t.test('a form that is refused keeps what was typed and says what is wrong beside it', async (t) => {
  const fixture = await consoleFixture(t);
  const { browser } = await fixture.person();
  await browser.get('/console/keys/new');
  const none = await browser.post('/console/keys', { name: 'Shop' });
  t.equal(none.status, 422);
  t.match(none.text, /value="Shop"/);
  t.match(none.text, /id="f-scopes-error">Tick at least one/);
  const unnamed = await browser.post('/console/keys', { name: ' ', 'scopes[verify]': 'on' });
  t.match(unnamed.text, /aria-invalid="true" aria-describedby="f-name-hint f-name-error"/);
  t.match(unnamed.text, /name="scopes\[verify\]" value="on" checked/);
  const unknown = await browser.post('/console/keys', { name: 'Shop', 'scopes[everything]': 'on' });
  t.equal(unknown.status, 422);
  t.same(await fixture.sql`select from api_keys`, []);
});

t.test('the rates of a key are shown, given and changed; what it may do is not', async (t) => {
  const fixture = await consoleFixture(t);
  const { browser } = await fixture.person();
  t.match((await browser.get('/console/keys/new')).text, /name="verify_per_second" [^>]*value="100"/);
  const wrong = await browser.post('/console/keys', { name: 'Shop', 'scopes[verify]': 'on', verify_burst: 'x' });
  t.match(wrong.text, /id="f-verify-burst-error"/);
  await browser.post('/console/keys', { name: 'Shop', 'scopes[verify]': 'on', verify_per_second: '7' });
  const list = await browser.get('/console/keys');
  t.match(list.text, /7 decisions, 10 others a second/);
  const path = `/console/keys/${/key_[0-9a-z]{26}/.exec(list.text)?.[0]}/change`;
  t.match((await browser.get(path)).text, /value="7"/);
  t.equal((await browser.post(path, { name: '', verify_per_second: '0' })).status, 422);
  const changed = { name: 'Till', management_per_second: '3', 'scopes[mandates:read]': 'on' };
  t.equal((await browser.post(path, changed)).location, '/console/keys');
  t.match(await fixture.sql`select name, scopes, verify_per_second, management_per_second from api_keys`, [
    { name: 'Till', scopes: ['verify'], verify_per_second: 7, management_per_second: 3 },
  ]);
});

t.test('a message is one of ours, whatever the cookie says', async (t) => {
  const fixture = await consoleFixture(t);
  const { browser } = await fixture.person();
  for (const key of ['keys.constructor', 'constructor.name', 'keys.nothing', 'nothing.revoked', 'keys.title']) {
    browser.cookies.set('__Host-mandate_flash', key);
    const page = await browser.get('/console/keys');
    t.equal(page.status, 200, key);
    t.notMatch(page.text, /role="status"/, key);
    t.notOk(browser.cookies.has('__Host-mandate_flash'), 'and it is forgotten');
  }
});
