import t from 'tap';
import { CONSOLE_ROUTES } from '../../../control-plane/console/routes.ts';
import { textAt } from '../control-plane/admin-fixture.ts';
import { MANDATE } from '../control-plane/noun-fixture.ts';
import { agentOf } from './agent-fixture.ts';
import { busyAccount } from './busy-console.ts';
import { type ConsoleFixture, type ConsolePerson, consoleFixture } from './console-fixture.ts';
import { hiddenFields } from './mandate-fixture.ts';

/** An object of `owner` for each route that names one, by its path; a new page of an object adds its line here. */
async function objectsOf(fixture: ConsoleFixture, owner: ConsolePerson): Promise<Readonly<Record<string, string>>> {
  const { sql } = fixture;
  const cli = await fixture.signUp();
  await sql`update sessions set account_id = ${owner.accountId} where account_id = ${cli.accountId}`;
  await sql`update token_routes set account_id = ${owner.accountId} where account_id = ${cli.accountId}`;
  const made = await fixture.send('POST', '/admin/mandates', cli.token, MANDATE);
  const key = await fixture.send('POST', '/admin/keys', cli.token, { scopes: ['verify'] });
  const mandate_id = textAt(made, 'mandate_id');
  const gateway = { mandate_id, target_url: 'http://127.0.0.1:9' };
  const instance = textAt(await fixture.send('POST', '/admin/gateways', cli.token, gateway), 'instance_id');
  const passkey = 'psk_01h455vb4pex5vsknk084sn02q';
  await sql`
    insert into passkeys (account_id, passkey_id, credential_id, public_key, counter, transports, name, backed_up,
      created_at)
    values (${owner.accountId}, ${passkey}, ${Buffer.from('id')}, ${Buffer.from('key')}, 0, '{}', 'x', false,
      db_clock())`;
  const [session] = await sql<{ session_id: string }[]>`
    select session_id from sessions where account_id = ${owner.accountId} and kind = 'console' limit 1`;
  const another = async (changes: object) =>
    textAt(await fixture.send('POST', '/admin/mandates', cli.token, { ...MANDATE, ...changes }), 'mandate_id');
  const suspended = await another({});
  await fixture.send('POST', `/admin/mandates/${suspended}/suspend`, cli.token, {});
  const ofGateways = CONSOLE_ROUTES.filter(({ path }) => path.startsWith('/gateways/:id'));
  const { allowedReceipt } = await busyAccount(fixture, owner);
  const [entry] = await sql<{ id: string }[]>`
    select id from evidence where account_id = ${owner.accountId} and kind = 'mandate.created' limit 1`;
  return {
    '/evidence/:id': allowedReceipt,
    '/evidence/:id/dossier': allowedReceipt,
    '/evidence/:id/print': allowedReceipt,
    '/evidence/entries/:id': entry?.id ?? '',
    ...Object.fromEntries(ofGateways.map(({ path }) => [path, instance])),
    '/mandates/:id': mandate_id,
    '/mandates/:id/versions': mandate_id,
    '/mandates/:id/credential': mandate_id,
    '/mandates/:id/edit': await another({}),
    '/mandates/:id/activate': await another({ activate: false }),
    '/mandates/:id/suspend': await another({}),
    '/mandates/:id/resume': suspended,
    '/mandates/:id/revoke': await another({}),
    '/keys/:id/change': textAt(key, 'key_id'),
    '/keys/:id/revoke': textAt(key, 'key_id'),
    '/passkeys/:id/remove': passkey,
    '/account/sessions/:id/revoke': session?.session_id ?? '',
    ...(await askedOf(fixture, owner)),
    ...(await webhookOf(fixture, cli.token)),
  };
}

/** The person's session now: steps that need a second factor give it a new identity. */
async function sessionOf({ sql }: ConsoleFixture, { accountId }: ConsolePerson): Promise<string> {
  const [session] = await sql<{ session_id: string }[]>`
    select session_id from sessions where account_id = ${accountId} and kind = 'console' order by created_at desc`;
  return session?.session_id ?? '';
}

/** What a form that needs more than its button is sent with. */
async function formsOf({ browser }: ConsolePerson, objects: Readonly<Record<string, string>>) {
  const change = {
    ...{ scope: 'orders.create', per_action: '50.00', per_month: '100.00', threshold: '', version: '1' },
    ...{ counterparties: '', valid_day: '', valid_time: '', max_uses: '' },
  };
  await browser.get('/console');
  const diff = await browser.post(`/console/mandates/${objects['/mandates/:id/edit']}/edit`, change);
  const forms: Readonly<Record<string, Readonly<Record<string, string>>>> = {
    '/mandates/:id/edit': { ...hiddenFields(diff.text), go: 'save' },
  };
  return forms;
}

/** What an agent of `owner` asked for: one waits for an answer, of one nobody knows the outcome. */
async function askedOf(fixture: ConsoleFixture, owner: ConsolePerson): Promise<Readonly<Record<string, string>>> {
  const agent = await agentOf(fixture, owner);
  const escalation = await agent.escalateWith('{}');
  return {
    '/approvals/:id': escalation,
    '/approvals/:id/events': escalation,
    '/approvals/:id/body': escalation,
    '/reconcile/:id': await agent.unknown(),
  };
}

async function webhookOf({ send }: ConsoleFixture, token: string): Promise<Readonly<Record<string, string>>> {
  const made = await send('POST', '/admin/webhooks', token, { url: 'http://127.0.0.1:9/' });
  const id = textAt(made, 'endpoint_id');
  const test = await send('POST', `/admin/webhooks/${id}/test`, token);
  // What waits is not sent again: it has to have been given up.
  const delivery = textAt(test, 'delivery_id');
  const steps = ['', '/test', '/rotate', '/disable', '/enable', '/delete'];
  const deliveries = ['/:delivery', '/:delivery/replay'].map((one) => `/deliveries${one}`);
  return {
    ...Object.fromEntries([...steps, ...deliveries].map((step) => [`/settings/webhooks/:id${step}`, id])),
    ':delivery': delivery,
  };
}

/** What the forms need that ask more than whether. */
const FIELDS: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  '/approvals/:id': { answer: 'approve' },
  '/reconcile/:id': { outcome: 'booked', reason: 'looked', confirmed: 'on' },
};

/** Streams do not end, and are tried with a browser. */
const isStream = (path: string): boolean => path.endsWith('/events');

t.test('what belongs to somebody else does not exist, on any page', async (t) => {
  const fixture = await consoleFixture(t);
  const [anna, bert] = [await fixture.person(), await fixture.person()];
  const objects = await objectsOf(fixture, anna);
  const routes = CONSOLE_ROUTES.filter(({ path }) => path.includes(':'));
  const fields = { ...FIELDS, ...(await formsOf(anna, objects)) };
  const url = (path: string, id: string) =>
    `/console${path.replace(':id', encodeURIComponent(id)).replace(':delivery', objects[':delivery'] ?? '')}`;
  await fixture.sql`update notification_deliveries set state = 'dead', settled_at = db_clock()`;
  await bert.browser.get('/console');
  const count = async () => (await fixture.sql`select from evidence where account_id = ${anna.accountId}`).length;
  const before = await count();
  for (const { method, path } of routes) {
    const id = objects[path];
    if (id === undefined) throw new Error(`isolation.test.ts knows no object for ${path}`);
    for (const one of [id, `${id.slice(0, -1)}0`, 'x', `${id}x`, "mdt_'--"]) {
      const to = url(path, one);
      const answer = method === 'GET' ? await bert.browser.get(to) : await bert.browser.post(to, FIELDS[path] ?? {});
      t.equal(answer.status, 404, `${method} ${to}`);
    }
  }
  t.equal(await count(), before, 'and nothing happened');
  for (const { method, path } of routes.filter((route) => route.method === 'GET' && !isStream(route.path))) {
    const to = url(path, objects[path] ?? '');
    t.equal((await anna.browser.get(to)).status, 200, `${method} ${to}: its owner sees it`);
  }
  await anna.browser.get('/console');
  // Her session ends last: what came after it would only lead to the sign-in.
  const endsSession = ({ path }: { readonly path: string }) => Number(path.startsWith('/account/sessions/'));
  const posts = routes.filter((route) => route.method === 'POST').toSorted((a, b) => endsSession(a) - endsSession(b));
  for (const { path } of posts) {
    const to = url(path, endsSession({ path }) ? await sessionOf(fixture, anna) : (objects[path] ?? ''));
    const answer = await anna.browser.post(to, fields[path] ?? {});
    // Done, a secret shown once, or a form that says what it lacks: none of them says that there is nothing.
    t.ok([200, 303, 422].includes(answer.status), `${to}: its owner may, ${answer.status}`);
    if (!endsSession({ path })) t.notMatch(answer.location ?? '', '/console/login', to);
    await anna.browser.get('/console');
  }
});

t.test('no list shows what belongs to somebody else', async (t) => {
  const fixture = await consoleFixture(t);
  const [anna, bert] = [await fixture.person(), await fixture.person()];
  const objects = Object.values(await objectsOf(fixture, anna));
  const lists = CONSOLE_ROUTES.filter(({ method, path }) => method === 'GET' && !path.includes(':') && !isStream(path));
  for (const { path } of lists) {
    const { text } = await bert.browser.get(`/console${path === '/' ? '' : path}`);
    for (const id of objects) t.notMatch(text, id, path);
  }
});
