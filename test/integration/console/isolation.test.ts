import t from 'tap';
import { CONSOLE_ROUTES } from '../../../control-plane/console/routes.ts';
import { textAt } from '../control-plane/admin-fixture.ts';
import { MANDATE } from '../control-plane/noun-fixture.ts';
import { busyAccount } from './busy-console.ts';
import { type ConsoleFixture, type ConsolePerson, consoleFixture } from './console-fixture.ts';

/** An object of `owner` for each route that names one, by its path; a new page of an object adds its line here. */
async function objectsOf(fixture: ConsoleFixture, owner: ConsolePerson): Promise<Readonly<Record<string, string>>> {
  const { sql } = fixture;
  const cli = await fixture.signUp();
  await sql`update sessions set account_id = ${owner.accountId} where account_id = ${cli.accountId}`;
  await sql`update token_routes set account_id = ${owner.accountId} where account_id = ${cli.accountId}`;
  const made = await fixture.send('POST', '/admin/mandates', cli.token, MANDATE);
  const key = await fixture.send('POST', '/admin/keys', cli.token, { scopes: ['verify'] });
  const passkey = 'psk_01h455vb4pex5vsknk084sn02q';
  await sql`
    insert into passkeys (account_id, passkey_id, credential_id, public_key, counter, transports, name, backed_up,
      created_at)
    values (${owner.accountId}, ${passkey}, ${Buffer.from('id')}, ${Buffer.from('key')}, 0, '{}', 'x', false,
      db_clock())`;
  const [session] = await sql<{ session_id: string }[]>`
    select session_id from sessions where account_id = ${owner.accountId} and kind = 'console' limit 1`;
  const { allowedReceipt } = await busyAccount(fixture, owner);
  const [entry] = await sql<{ id: string }[]>`
    select id from evidence where account_id = ${owner.accountId} and kind = 'mandate.created' limit 1`;
  return {
    '/evidence/:id': allowedReceipt,
    '/evidence/:id/dossier': allowedReceipt,
    '/evidence/:id/print': allowedReceipt,
    '/evidence/entries/:id': entry?.id ?? '',
    '/mandates/:id': textAt(made, 'mandate_id'),
    '/keys/:id/revoke': textAt(key, 'key_id'),
    '/passkeys/:id/remove': passkey,
    '/account/sessions/:id/revoke': session?.session_id ?? '',
  };
}

t.test('what belongs to somebody else does not exist, on any page', async (t) => {
  const fixture = await consoleFixture(t);
  const [anna, bert] = [await fixture.person(), await fixture.person()];
  const objects = await objectsOf(fixture, anna);
  const routes = CONSOLE_ROUTES.filter(({ path }) => path.includes(':'));
  await bert.browser.get('/console');
  const count = async () => (await fixture.sql`select from evidence where account_id = ${anna.accountId}`).length;
  const before = await count();
  for (const { method, path } of routes) {
    const id = objects[path];
    if (id === undefined) throw new Error(`isolation.test.ts knows no object for ${path}`);
    for (const one of [id, `${id.slice(0, -1)}0`, 'x', `${id}x`, "mdt_'--"]) {
      const url = `/console${path.replace(':id', encodeURIComponent(one))}`;
      const answer = method === 'GET' ? await bert.browser.get(url) : await bert.browser.post(url, {});
      t.equal(answer.status, 404, `${method} ${url}`);
    }
  }
  t.equal(await count(), before, 'and nothing happened');
  for (const { method, path } of routes.filter((route) => route.method === 'GET')) {
    const url = `/console${path.replace(':id', objects[path] ?? '')}`;
    t.equal((await anna.browser.get(url)).status, 200, `${method} ${url}: its owner sees it`);
  }
  await anna.browser.get('/console');
  for (const { path } of routes.filter((route) => route.method === 'POST')) {
    const url = `/console${path.replace(':id', objects[path] ?? '')}`;
    t.equal((await anna.browser.post(url, {})).status, 303, `${url}: its owner may`);
    await anna.browser.get('/console');
  }
});

t.test('no list shows what belongs to somebody else', async (t) => {
  const fixture = await consoleFixture(t);
  const [anna, bert] = [await fixture.person(), await fixture.person()];
  const objects = Object.values(await objectsOf(fixture, anna));
  const lists = CONSOLE_ROUTES.filter(({ method, path }) => method === 'GET' && !path.includes(':'));
  for (const { path } of lists) {
    const { text } = await bert.browser.get(`/console${path === '/' ? '' : path}`);
    for (const id of objects) t.notMatch(text, id, path);
  }
});
