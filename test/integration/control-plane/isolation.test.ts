import t from 'tap';
import type { SeededAccount } from '../../../bench/seed.ts';
import type { RegisterRoutes } from '../../../control-plane/server.ts';
import { newSecretToken, secretHash } from '../../../core/secret-token.ts';
import { newTypeId } from '../../../core/type-id.ts';
import { allowed, ask, tell } from '../decisions/lane-client.ts';
import { type AdminAnswer, PASSWORD, type SignedUp, TOTP_SECRET, textAt } from './admin-fixture.ts';
import { fieldsOf, NOUN_ROUTES, type NounFixture, nounFixture, problemOf } from './noun-fixture.ts';

const PAYMENTS = 'http.post:/payments';
const MAPPING = { action_type: 'payments.create' };
const CREDENTIAL = 'Bearer sk_live_4242424242424242';

type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';

interface Route {
  readonly method: string;
  readonly url: string;
}

/** A fixture whose routes, those of accounts apart, are told in `routes`. */
async function withRoutes(t: Parameters<typeof nounFixture>[0]): Promise<{ fixture: NounFixture; routes: Route[] }> {
  const routes: Route[] = [];
  const listen: RegisterRoutes = (app) => {
    app.addHook('onRoute', ({ method, url }) => {
      for (const one of [method].flat()) routes.push({ method: one, url });
    });
  };
  return { fixture: await nounFixture(t, { register: [listen, ...NOUN_ROUTES] }), routes };
}

/** Bodies that the routes accept; a route that is in no list fails the test. */
const BODIES: Readonly<Record<string, unknown>> = {
  'PATCH /admin/gateways/:id': { name: 'Mine now' },
  'PATCH /admin/keys/:id': { name: 'Mine now' },
  'PUT /admin/gateways/:id/tools': { name: PAYMENTS, mapping: MAPPING },
  'POST /admin/gateways/:id/tools/unmap': { name: PAYMENTS },
  'POST /admin/gateways/:id/tools/block': { name: PAYMENTS },
  'POST /admin/gateways/:id/tools/import': { tools: [{ name: PAYMENTS, mapping: MAPPING }] },
  'POST /admin/gateways/:id/tools/test': { method: 'POST', path: '/payments', body: '{}' },
  'POST /admin/mandates/:id/change': { amount_limit_per_action: 1 },
  'POST /admin/reconcile/:id/settle': { outcome: 'released', reason: 'Mine now' },
};

interface Belongings {
  readonly agent: SeededAccount;
  readonly apiKey: string;
  readonly ids: Readonly<Record<string, string>>;
}

/** A mandate, an instance with a mapped tool, and an escalation that waits. */
async function belongings(fixture: NounFixture): Promise<Belongings> {
  const agent = await fixture.agent({ escalation_threshold: 5 });
  const tools = `/admin/gateways/${agent.instanceId}/tools`;
  const mapped = await fixture.as('PUT', tools, { name: PAYMENTS, mapping: MAPPING });
  const account = { ...agent, toolId: textAt(mapped, 'tool_id') };
  const escalated = await ask(fixture.lanes, account, { amount: 501 });
  if (escalated.answer !== 'escalate') throw new Error(`not escalated: ${JSON.stringify(escalated)}`);
  const lost = allowed(await ask(fixture.lanes, account, { amount: 100 }));
  await tell(fixture.lanes, account, lost, { outcome: 'unknown' });
  const key = await fixture.as('POST', '/admin/keys', { scopes: ['verify'] });
  const webhook = await fixture.as('POST', '/admin/webhooks', { url: 'http://127.0.0.1:9/' });
  const tried = await fixture.as('POST', `/admin/webhooks/${textAt(webhook, 'endpoint_id')}/test`);
  return {
    agent,
    apiKey: textAt(key, 'api_key'),
    ids: {
      mandates: agent.mandateId,
      gateways: agent.instanceId,
      escalations: escalated.escalation_id,
      keys: textAt(key, 'key_id'),
      webhooks: textAt(webhook, 'endpoint_id'),
      deliveries: textAt(tried, 'delivery_id'),
      reconcile: lost,
    },
  };
}

const KINDS = {
  mandates: 'mdt',
  gateways: 'gwi',
  escalations: 'esc',
  keys: 'key',
  webhooks: 'whk',
  reconcile: 'rcp',
} as const;

function nounOf(url: string): keyof typeof KINDS {
  const noun = /^\/(?:admin|api\/v1)\/(mandates|gateways|escalations|keys|webhooks|reconcile)\/:id/.exec(url)?.[1];
  if (noun === undefined) throw new Error(`the test does not know ${url}`);
  return noun as keyof typeof KINDS;
}

function visible(answer: AdminAnswer): unknown {
  const { request_id: _, ...body } = answer.body as Record<string, unknown>;
  return { status: answer.status, body };
}

/** Every row of the account. */
async function rowsOf({ sql }: NounFixture, accountId: string): Promise<string[]> {
  const tables = await sql<{ name: string }[]>`
    select table_name as name from information_schema.columns
    where table_schema = current_schema() and column_name = 'account_id' and table_name !~ '_p[0-9]$' order by 1`;
  const rows: string[] = [];
  for (const { name } of tables) {
    const found = await sql.unsafe<{ row: string }[]>(
      `select '${name} ' || row_to_json(r)::text as row from ${name} as r where account_id = $1 order by 1`,
      [accountId],
    );
    rows.push(...found.map(({ row }) => row));
  }
  return rows;
}

t.test('to a stranger what belongs to another account is what does not exist, on every route', async (t) => {
  const { fixture, routes } = await withRoutes(t);
  const { agent, ids } = await belongings(fixture);
  const stranger = await fixture.signUp();
  const before = await rowsOf(fixture, agent.accountId);
  const own = routes.filter(({ url }) => url.startsWith('/admin/') && url.includes(':id'));
  t.ok(own.length >= 20, `${own.length} routes name something by its identifier`);
  for (const { method, url } of own) {
    const send = (id: string) =>
      fixture.send(
        method as Method,
        url.replace(':id', id).replace(':delivery', ids['deliveries'] ?? ''),
        stranger.token,
        BODIES[`${method} ${url}`],
      );
    const others = await send(ids[nounOf(url)] ?? '');
    t.same(problemOf(others), [404, 'not_found'], `${method} ${url}`);
    t.same(visible(others), visible(await send(newTypeId(KINDS[nounOf(url)], 0))), 'cannot be told apart');
  }
  t.same(await rowsOf(fixture, agent.accountId), before, 'nothing of it was touched');
});

t.test('lists hold what is one’s own, and nothing can be built on what is another’s', async (t) => {
  const { fixture } = await withRoutes(t);
  const { agent } = await belongings(fixture);
  const stranger = await fixture.signUp();
  const as = (method: Method, url: string, body?: unknown) => fixture.send(method, url, stranger.token, body);
  for (const noun of ['mandates', 'gateways', 'escalations', 'keys', 'webhooks']) {
    const paged = noun === 'mandates' || noun === 'gateways';
    t.same((await as('GET', `/admin/${noun}`)).body, { [noun]: [], ...(paged ? { next: null } : {}) });
  }
  const made = { target_url: 'http://127.0.0.1:9' };
  const others = await as('POST', '/admin/gateways', { ...made, mandate_id: agent.mandateId });
  t.same(fieldsOf(others), ['mandate_id']);
  t.same(visible(others), visible(await as('POST', '/admin/gateways', { ...made, mandate_id: newTypeId('mdt', 0) })));
});

t.test('no route below /admin opens to anybody but a person', async (t) => {
  const { fixture, routes } = await withRoutes(t);
  const { agent, apiKey, ids } = await belongings(fixture);
  const before = await rowsOf(fixture, agent.accountId);
  for (const { method, url } of routes.filter((route) => route.url.startsWith('/admin/'))) {
    const path = url.includes(':id') ? url.replace(':id', ids[nounOf(url)] ?? '') : url;
    for (const token of [null, agent.token, apiKey, newSecretToken('ses'), newSecretToken('mak')]) {
      const answer = await fixture.send(method as Method, path, token, BODIES[`${method} ${url}`]);
      t.same(problemOf(answer), [401, 'unauthenticated'], `${method} ${url} ${token?.slice(0, 4) ?? 'nobody'}`);
    }
  }
  t.same(await rowsOf(fixture, agent.accountId), before, 'an agent approves nothing');
});

t.test('an agent asks after its own escalations only', async (t) => {
  const { fixture } = await withRoutes(t);
  const { agent, ids } = await belongings(fixture);
  const neighbour = await fixture.agent();
  const path = `/api/v1/escalations/${ids['escalations']}`;
  t.match((await fixture.send('GET', path, agent.token)).body, { id: ids['escalations'], status: 'pending' });
  t.same(problemOf(await fixture.send('GET', path, neighbour.token)), [404, 'not_found'], 'of the same account');
  t.same(problemOf(await fixture.send('GET', path, fixture.person.token)), [401, 'unauthenticated'], 'a person');
  const rotated = await fixture.as('POST', `/admin/gateways/${agent.instanceId}/rotate-token`);
  t.same(problemOf(await fixture.send('GET', path, agent.token)), [401, 'unauthenticated'], 'a token that was rotated');
  t.equal((await fixture.send('GET', path, textAt(rotated, 'token'))).status, 200);
});

/** Walks through everything a secret passes; returns the secrets and all answers that must not hold one. */
async function walk(fixture: NounFixture, person: SignedUp) {
  const { as } = fixture;
  const answers: AdminAnswer[] = [];
  const note = async (answer: Promise<AdminAnswer>) => void answers.push(await answer);
  const { agent, apiKey, ids } = await belongings(fixture);
  const path = `/admin/gateways/${agent.instanceId}`;
  await note(as('PATCH', path, { credential: { header: 'Authorization', value: CREDENTIAL } }));
  await note(as('PATCH', path, { credential: { header: 'Host', value: CREDENTIAL } }));
  await note(as('PATCH', path, { credential: { header: 'Authorization', value: `${CREDENTIAL}\n` } }));
  await note(as('PATCH', path, { target_url: `http://x:${CREDENTIAL.slice(7)}@127.0.0.1/` }));
  const rotated = await as('POST', `${path}/rotate-token`);
  const approved = await as('POST', `/admin/escalations/${ids['escalations']}/approve`);
  await fixture.advance(60);
  const login = { email: person.email, password: PASSWORD, totp_code: await fixture.code() };
  const signedIn = await fixture.send('POST', '/admin/login', null, login);
  await note(fixture.send('POST', '/admin/login', null, { ...login, password: 'a wrong sentence' }));
  await note(fixture.send('POST', '/admin/login', null, { ...login, password: 7 }));
  await note(fixture.send('POST', '/admin/login', null, `{"password":"${PASSWORD}","password":"${PASSWORD}"}`));
  for (const url of ['/admin/account', '/admin/gateways', path, `${path}/tools`, '/admin/mandates', '/admin/keys']) {
    await note(as('GET', url));
  }
  await note(as('GET', '/admin/escalations'));
  await note(as('GET', '/admin/evidence?limit=1000'));
  const shownOnce = [textAt(rotated, 'token'), textAt(approved, 'escalation_token'), textAt(signedIn, 'token')];
  const secrets = [
    PASSWORD,
    'a wrong sentence',
    TOTP_SECRET,
    CREDENTIAL,
    CREDENTIAL.slice(7),
    person.token,
    agent.token,
    apiKey,
  ];
  return { answers, secrets: [...secrets, ...shownOnce] };
}

t.test('no secret is in clear in an answer that need not show it, the evidence, the logs or any table', async (t) => {
  const { fixture } = await withRoutes(t);
  const { answers, secrets } = await walk(fixture, fixture.person);
  const forms = secrets.flatMap((secret) => {
    const bytes = Buffer.from(secret);
    return [secret, bytes.toString('hex'), bytes.toString('base64').replace(/=+$/, '')];
  });
  const leaks = (text: string) => forms.filter((form) => text.includes(form));
  for (const { text, status } of answers) t.same(leaks(text), [], `${status} ${text.slice(0, 60)}`);
  const rows = await rowsOf(fixture, fixture.person.accountId);
  t.ok(rows.some((row) => row.startsWith('gateway_instances ')) && rows.some((row) => row.startsWith('evidence ')));
  for (const row of rows) t.same(leaks(row), [], row.slice(0, 60));
  for (const error of fixture.errors) t.same(leaks(String((error as Error).stack)), []);
  t.ok(
    rows.some((row) => row.includes(secretHash(fixture.person.token))),
    'what is stored of a token is its hash',
  );
});
