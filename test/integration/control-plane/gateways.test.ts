import t from 'tap';
import { TokenRoutes } from '../../../control-plane/decisions/token-routes.ts';
import { isSecretToken, secretHash } from '../../../core/secret-token.ts';
import { newTypeId } from '../../../core/type-id.ts';
import { ask } from '../decisions/lane-client.ts';
import { at, textAt } from './admin-fixture.ts';
import { fieldsOf, nounFixture, problemOf } from './noun-fixture.ts';

const CREDENTIAL = { header: 'Authorization', value: 'Bearer sk_live_4242424242424242' };

t.test('an instance shows its token once, and never what it sends to the target', async (t) => {
  const fixture = await nounFixture(t);
  const mandate_id = await fixture.mandate();
  const target_url = 'http://127.0.0.1:9/v1';
  const made = await fixture.as('POST', '/admin/gateways', {
    mandate_id,
    target_url,
    name: 'Payments',
    credential: CREDENTIAL,
    rate_per_second: 7,
    rate_burst: 9,
  });
  t.equal(made.status, 201);
  const token = textAt(made, 'token');
  t.ok(isSecretToken(token, 'gwt'));
  const { token: _, ...shown } = made.body as Record<string, unknown>;
  const instance = textAt(made, 'instance_id');
  t.match(shown, {
    mandate_id,
    target_url,
    name: 'Payments',
    status: 'active',
    credential_header: 'Authorization',
    rate_per_second: 7,
    rate_burst: 9,
    unmapped_tools: 0,
  });
  t.same((await fixture.as('GET', `/admin/gateways/${instance}`)).body, shown);
  t.same((await fixture.as('GET', '/admin/gateways')).body, { gateways: [shown], next: null });
  const entry = (await fixture.chain()).at(-1);
  t.same(entry, {
    kind: 'gateway.created',
    body: {
      instance,
      mandate_id,
      target_url,
      name: 'Payments',
      rate_per_second: 7,
      rate_burst: 9,
      credential_header: 'Authorization',
      token_sha256: secretHash(token),
    },
  });
  const [row] = await fixture.sql<{ credential_sealed: Buffer }[]>`select credential_sealed from gateway_instances`;
  const { custody } = fixture.deps;
  const open = (id: string) =>
    custody.open(fixture.person.accountId, 'credential', id, row?.credential_sealed ?? Buffer.alloc(0)).toString();
  t.equal(open(instance), CREDENTIAL.value);
  t.throws(() => open(newTypeId('gwi', 0)), 'it opens for no other instance');
});

t.test('a target is taken in its one canonical spelling', async (t) => {
  const { as, mandate } = await nounFixture(t);
  const mandate_id = await mandate();
  const taken: [string, string][] = [
    ['http://127.0.0.1:9', 'http://127.0.0.1:9'],
    ['http://127.0.0.1:9/', 'http://127.0.0.1:9'],
    ['HTTP://LOCALHOST:80/v1/', 'http://localhost/v1'],
    ['https://localhost:443/a/b', 'https://localhost/a/b'],
    ['http://[::1]:8080/v1', 'http://[::1]:8080/v1'],
    ['http://127.1', 'http://127.0.0.1'],
  ];
  for (const [target_url, canonical] of taken) {
    t.equal(at(await as('POST', '/admin/gateways', { mandate_id, target_url }), 'target_url'), canonical, target_url);
  }
});

t.test('a target that two readers could take for two is refused', async (t) => {
  const { as, mandate, sql } = await nounFixture(t);
  const mandate_id = await mandate();
  const refused = [
    ...['', 'localhost', '//localhost', 'ftp://localhost', 'file:///etc/passwd', 'http:localhost', 'http:///localhost'],
    ...['http://u@localhost', 'http://u:p@localhost', 'http://@localhost', 'http://localhost?', 'http://localhost/#'],
    ...['http://localhost/?a=b', 'http://localhost/../v1', 'http://localhost/a/./b', 'http://localhost//v1'],
    ...['http://localhost/%2e', 'http://localhost/a%2fb', 'http://localhost\\v1', 'http:\\\\localhost'],
    ...[
      'http://local\thost',
      ' http://localhost',
      'http://localhost ',
      'http://%6cocalhost',
      'http://localhost/\u00e9',
    ],
    ...['http://localhost:99999', 'http://', `http://localhost/${'a'.repeat(2048)}`, 'http://nowhere.invalid'],
  ];
  for (const target_url of refused) {
    const answer = await as('POST', '/admin/gateways', { mandate_id, target_url });
    t.same([...problemOf(answer), ...fieldsOf(answer)], [422, 'invalid', 'target_url'], JSON.stringify(target_url));
  }
  t.equal((await sql`select from gateway_instances`).length, 0);
});

t.test('private targets need the operator’s word, and metadata addresses have nobody’s', async (t) => {
  const strict = await nounFixture(t, { allowPrivateTargets: false });
  const open = await nounFixture(t, { allowPrivateTargets: true });
  const mandates = new Map([
    [strict, await strict.mandate()],
    [open, await open.mandate()],
  ]);
  const create = (fixture: typeof strict, target_url: string) =>
    fixture.as('POST', '/admin/gateways', { mandate_id: mandates.get(fixture), target_url });
  for (const host of [
    '127.0.0.1',
    'localhost',
    '10.1.2.3',
    '192.168.0.1',
    '0x7f.1',
    '2130706433',
    '[::1]',
    '[fd00::1]',
  ]) {
    const answer = await create(strict, `http://${host}:9`);
    t.same([answer.status, fieldsOf(answer)], [422, ['target_url']], host);
    t.equal((await create(open, `http://${host}:9`)).status, 201, host);
  }
  for (const host of [
    '169.254.169.254',
    '[::ffff:169.254.169.254]',
    '[fd00:ec2::254]',
    '[fe80::1]',
    '0.0.0.0',
    '[::]',
  ]) {
    t.equal((await create(strict, `http://${host}`)).status, 422, host);
    t.equal((await create(open, `http://${host}`)).status, 422, host);
  }
  t.equal((await create(strict, 'https://93.184.216.34')).status, 201);
});

t.test('what cannot be an instance is refused, naming the field', async (t) => {
  const { as, mandate, sql } = await nounFixture(t);
  const good = { mandate_id: await mandate(), target_url: 'http://127.0.0.1:9' };
  const credential = (header: string, value = 'secret') => ({ credential: { header, value } });
  const refusals: [string, Record<string, unknown>][] = [
    ['mandate_id', { mandate_id: newTypeId('mdt', 0) }],
    ['mandate_id', { mandate_id: null }],
    ['name', { name: '' }],
    ['rate_per_second', { rate_per_second: 0 }],
    ['rate_burst', { rate_burst: 1_000_001 }],
    ['credential.header', credential('')],
    ['credential.header', credential('Api_Key')],
    ['credential.header', credential('X Api')],
    ['credential.header', credential('Host')],
    ['credential.header', credential('CONTENT-LENGTH')],
    ['credential.header', credential('transfer-encoding')],
    ['credential.header', credential('Connection')],
    ['credential.header', credential('X-HTTP-Method-Override')],
    ['credential.header', credential('X-Forwarded-For')],
    ['credential.header', credential('X-Service-Receipt')],
    ['credential.value', credential('Authorization', '')],
    ['credential.value', credential('Authorization', 'a\r\nX-Injected: 1')],
    ['credential.value', credential('Authorization', ' a')],
    ['credential.value', credential('Authorization', 'schl\u00fcssel')],
    ['credential.value', credential('Authorization', 'x'.repeat(4097))],
    ['credential', { credential: { ...CREDENTIAL, extra: 1 } }],
    ['(body)', { token: 'gwt_mine' }],
  ];
  for (const [field, changes] of refusals) {
    const answer = await as('POST', '/admin/gateways', { ...good, ...changes });
    t.same([...problemOf(answer), ...fieldsOf(answer)], [422, 'invalid', field], JSON.stringify(changes).slice(0, 80));
    t.notOk(answer.text.includes('secret') || answer.text.includes('sk_live'), 'no value is repeated');
  }
  t.equal((await sql`select from gateway_instances`).length, 0);
  t.equal((await sql`select from token_routes where kind = 'gateway'`).length, 0);
});

t.test('each change of target or credential is a new configuration; other changes are not', async (t) => {
  const fixture = await nounFixture(t);
  const { instanceId } = await fixture.agent();
  const path = `/admin/gateways/${instanceId}`;
  const version = async () =>
    (await fixture.sql<{ v: number }[]>`select config_version as v from gateway_instances`)[0]?.v;
  t.match((await fixture.as('PATCH', path, { name: 'Other', rate_burst: 3 })).body, { name: 'Other', rate_burst: 3 });
  t.equal(await version(), 1);
  t.match((await fixture.as('PATCH', path, { target_url: 'http://127.0.0.1:9/v2' })).body, {
    target_url: 'http://127.0.0.1:9/v2',
    name: 'Other',
  });
  t.equal(await version(), 2);
  t.match((await fixture.as('PATCH', path, { credential: CREDENTIAL })).body, { credential_header: 'Authorization' });
  t.equal(await version(), 3);
  t.match((await fixture.as('PATCH', path, { credential: null })).body, { credential_header: null });
  t.equal(await version(), 4);
  t.match(await fixture.sql`select credential_sealed from gateway_instances`, [{ credential_sealed: null }]);
  for (const body of [
    {},
    { target_url: '' },
    { target_url: 'ftp://localhost' },
    { status: 'disabled' },
    { name: null },
  ]) {
    t.same(problemOf(await fixture.as('PATCH', path, body)), [422, 'invalid'], JSON.stringify(body));
  }
  t.equal(await version(), 4);
  t.same(
    (await fixture.chain()).slice(6).map(({ kind }) => kind),
    [
      ...['gateway.changed', 'gateway.changed', 'gateway.credential_changed', 'gateway.changed'],
      ...['gateway.credential_changed', 'gateway.changed'],
    ],
  );
});

t.test('a stored credential does not follow to another origin unless it is given again', async (t) => {
  const fixture = await nounFixture(t);
  const { instanceId } = await fixture.agent();
  const path = `/admin/gateways/${instanceId}`;
  t.equal((await fixture.as('PATCH', path, { credential: CREDENTIAL })).status, 200);
  for (const target_url of ['http://127.0.0.1:10', 'https://127.0.0.1:9', 'http://localhost:9']) {
    const answer = await fixture.as('PATCH', path, { target_url });
    t.same([...problemOf(answer), ...fieldsOf(answer)], [422, 'invalid', 'credential'], target_url);
  }
  t.equal((await fixture.as('PATCH', path, { target_url: 'http://127.0.0.1:9/v2' })).status, 200, 'same origin');
  const moved = { target_url: 'http://127.0.0.1:10', credential: { header: 'X-Api-Key', value: 'another' } };
  t.match((await fixture.as('PATCH', path, moved)).body, {
    target_url: moved.target_url,
    credential_header: 'X-Api-Key',
  });
  const bare = await fixture.as('PATCH', path, { target_url: 'http://127.0.0.1:9', credential: null });
  t.match(bare.body, { target_url: 'http://127.0.0.1:9', credential_header: null });
});

t.test('a rotated token is refused from then on, even where its route is remembered', async (t) => {
  const fixture = await nounFixture(t);
  const { lanes, sql } = fixture;
  const agent = await fixture.agent();
  const routes = new TokenRoutes(sql);
  await routes.find(new Set([agent.tokenHash]));
  t.match(await ask(lanes, agent), { answer: 'deny', code: 'MD-501' });
  const rotated = await fixture.as('POST', `/admin/gateways/${agent.instanceId}/rotate-token`);
  const token = textAt(rotated, 'token');
  t.not(token, agent.token);
  t.ok(routes.known(agent.tokenHash), 'a replica still knows whose it was');
  t.match(await ask(lanes, agent), { answer: 'problem', error: 'unauthenticated' });
  t.match(await ask(lanes, { ...agent, token, tokenHash: secretHash(token) }), { answer: 'deny', code: 'MD-501' });
  t.equal((await sql`select from token_routes where kind = 'gateway'`).length, 1, 'the old route is gone');
  t.same((await fixture.chain()).find(({ kind }) => kind === 'gateway.token_rotated')?.body, {
    instance: agent.instanceId,
    token_sha256: secretHash(token),
  });
});

t.test('of many rotations at once one token remains, and only that works', async (t) => {
  const fixture = await nounFixture(t);
  const agent = await fixture.agent();
  const path = `/admin/gateways/${agent.instanceId}/rotate-token`;
  const answers = await Promise.all(Array.from({ length: 6 }, () => fixture.as('POST', path)));
  const tokens = [agent.token, ...answers.map((answer) => textAt(answer, 'token'))];
  const outcomes = await Promise.all(
    tokens.map((token) => ask(fixture.lanes, { ...agent, token, tokenHash: secretHash(token) })),
  );
  t.equal(outcomes.filter(({ answer }) => answer === 'deny').length, 1);
  t.equal((await fixture.sql`select from token_routes where kind = 'gateway'`).length, 1);
});

t.test('a disabled instance decides nothing, and works again when it is enabled', async (t) => {
  const fixture = await nounFixture(t);
  const agent = await fixture.agent();
  const step = (name: string) => fixture.as('POST', `/admin/gateways/${agent.instanceId}/${name}`);
  t.same(problemOf(await step('enable')), [409, 'conflict']);
  t.match((await step('disable')).body, { status: 'disabled' });
  t.match(await ask(fixture.lanes, agent), { answer: 'problem', error: 'forbidden' });
  t.same(problemOf(await step('disable')), [409, 'conflict']);
  t.match((await step('enable')).body, { status: 'active' });
  t.match(await ask(fixture.lanes, agent), { answer: 'deny', code: 'MD-501' });
  t.same(
    (await fixture.chain()).map(({ kind }) => kind).filter((kind) => /abled$/.test(kind)),
    ['gateway.disabled', 'gateway.enabled'],
  );
});
