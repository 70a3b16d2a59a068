import t from 'tap';
import { consoleFixture } from './console-fixture.ts';

t.test('a person signs up, sets up the second factor, keeps recovery codes, and is in', async (t) => {
  const fixture = await consoleFixture(t);
  const { browser, recoveryCodes } = await fixture.person();
  t.equal(recoveryCodes.length, 10);
  const home = await browser.get('/console');
  t.equal(home.status, 200);
  t.match(home.text, /Overview/);
  for (const path of ['/console/account', '/console/keys', '/console/keys/new', '/console/mandates']) {
    t.equal((await browser.get(path)).status, 200, path);
  }
  t.same(fixture.errors, []);
});
