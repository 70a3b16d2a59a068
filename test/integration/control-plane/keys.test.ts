import t from 'tap';
import { connect } from '../../../control-plane/db/client.ts';
import { KeyUses } from '../../../control-plane/keys/uses.ts';
import { buildServer } from '../../../control-plane/server.ts';
import { API_SCOPES } from '../../../core/api-scopes.ts';
import { API_KEY_USES_WAITING_MAX, API_KEYS_ACTIVE_MAX } from '../../../core/limits.ts';
import { isSecretToken, secretHash } from '../../../core/secret-token.ts';
import { isTypeId, newTypeId } from '../../../core/type-id.ts';
import { at, textAt } from './admin-fixture.ts';
import { fieldsOf, NOUN_ROUTES, type NounFixture, nounFixture, problemOf } from './noun-fixture.ts';

/** A control plane that is another one than the fixture's own, on the same database. */
async function replica(t: Parameters<typeof nounFixture>[0], fixture: NounFixture) {
  const app = await buildServer({ ...fixture.deps, keyUses: new KeyUses() }, NOUN_ROUTES);
  t.teardown(() => app.close());
  return app;
}

async function revision({ sql, person }: NounFixture): Promise<number> {
  const [row] = await sql<{ revision: number }[]>`
    select revision from account_heads where account_id = ${person.accountId}`;
  return row?.revision ?? -1;
}

t.test('a key is shown once, and kept and recorded as its hash only', async (t) => {
  const fixture = await nounFixture(t);
  const made = await fixture.as('POST', '/admin/keys', { name: 'shop', scopes: ['verify', 'mandates:read'] });
  t.equal(made.status, 201);
  const [id, secret] = [textAt(made, 'key_id'), textAt(made, 'api_key')];
  t.ok(isTypeId(id, 'key') && isSecretToken(secret, 'mak'));
  const { api_key: _, ...shown } = made.body as Record<string, unknown>;
  t.match(shown, {
    name: 'shop',
    scopes: ['verify', 'mandates:read'],
    status: 'active',
    verify_per_second: 100,
    verify_burst: 500,
    management_per_second: 10,
    management_burst: 20,
    revoked_at: null,
    last_used_at: null,
  });
  t.same((await fixture.as('GET', '/admin/keys')).body, { keys: [shown] });
  t.same((await fixture.as('GET', `/admin/keys/${id}`)).body, shown);
  t.match(await fixture.sql`select encode(token_hash, 'hex') as hash from api_keys`, [{ hash: secretHash(secret) }]);
  const entry = (await fixture.chain()).at(-1);
  t.match(entry, { kind: 'key.created', body: { key_id: id, name: 'shop', scopes: ['verify', 'mandates:read'] } });
  t.equal(entry?.body['token_sha256'], secretHash(secret));
  t.notMatch(JSON.stringify(entry), secret);
});

t.test('what cannot be a key is refused, naming the field', async (t) => {
  const { as, sql } = await nounFixture(t);
  const refusals: [string, unknown][] = [
    ['scopes', {}],
    ['scopes', { scopes: [] }],
    ['scopes', { scopes: 'verify' }],
    ['scopes.1', { scopes: ['verify', 'admin'] }],
    ['scopes.0', { scopes: ['Verify'] }],
    ['scopes', { scopes: ['verify', 'verify'] }],
    ['name', { scopes: ['verify'], name: '' }],
    ['name', { scopes: ['verify'], name: 'a\nb' }],
    ['name', { scopes: ['verify'], name: 'x'.repeat(201) }],
    ['verify_per_second', { scopes: ['verify'], verify_per_second: 0 }],
    ['verify_burst', { scopes: ['verify'], verify_burst: 1_000_001 }],
    ['management_per_second', { scopes: ['verify'], management_per_second: 1.5 }],
    ['management_burst', { scopes: ['verify'], management_burst: '20' }],
    ['(body)', { scopes: ['verify'], status: 'active' }],
  ];
  for (const [field, body] of refusals) {
    const answer = await as('POST', '/admin/keys', body);
    t.same([...problemOf(answer), fieldsOf(answer)[0]], [422, 'invalid', field], JSON.stringify(body).slice(0, 80));
  }
  t.same(await sql`select from api_keys`, []);
  const all = await as('POST', '/admin/keys', { scopes: API_SCOPES });
  t.same([all.status, at(all, 'scopes')], [201, [...API_SCOPES]]);
});

t.test('a revoked key is refused from the answer on, at every control plane, and stays revoked', async (t) => {
  const fixture = await nounFixture(t);
  const other = await replica(t, fixture);
  const { id, secret } = await fixture.apiKey(['mandates:read']);
  const url = `/api/v1/mandates/${await fixture.mandate()}/status`;
  const there = () => other.inject({ url, headers: { authorization: `Bearer ${secret}` } });
  t.equal((await fixture.send('GET', url, secret)).status, 200);
  t.equal((await there()).statusCode, 200);
  const revoked = await fixture.as('POST', `/admin/keys/${id}/revoke`);
  t.match(revoked.body, { key_id: id, status: 'revoked', revoked_at: /Z$/ });
  t.same(problemOf(await fixture.send('GET', url, secret)), [401, 'unauthenticated']);
  t.equal((await there()).statusCode, 401);
  t.same(problemOf(await fixture.as('POST', `/admin/keys/${id}/revoke`)), [409, 'conflict']);
  t.same(problemOf(await fixture.as('PATCH', `/admin/keys/${id}`, { name: 'again' })), [409, 'conflict']);
  t.same(
    (await fixture.chain()).filter(({ kind }) => kind === 'key.revoked').map(({ body }) => body),
    [{ key_id: id }],
  );
  t.same(await fixture.sql`select from token_routes where kind = 'api_key'`, []);
});

t.test('of many revocations at once one is made and recorded', async (t) => {
  const fixture = await nounFixture(t);
  const { id } = await fixture.apiKey(['verify']);
  const answers = await Promise.all(Array.from({ length: 6 }, () => fixture.as('POST', `/admin/keys/${id}/revoke`)));
  t.same(answers.map(({ status }) => status).sort(), [200, 409, 409, 409, 409, 409]);
  t.equal((await fixture.chain()).filter(({ kind }) => kind === 'key.revoked').length, 1);
});

t.test('rates that were changed hold from the next request on', async (t) => {
  const fixture = await nounFixture(t);
  const { id, secret } = await fixture.apiKey(['mandates:read'], { management_burst: 7 });
  const url = `/api/v1/mandates/${await fixture.mandate()}/status`;
  t.equal((await fixture.send('GET', url, secret)).headers['x-ratelimit-limit'], '7');
  const changed = await fixture.as('PATCH', `/admin/keys/${id}`, { management_burst: 3, verify_per_second: 250 });
  t.match(changed.body, { management_burst: 3, management_per_second: 10, verify_per_second: 250, verify_burst: 500 });
  t.match((await fixture.send('GET', url, secret)).headers, { 'x-ratelimit-limit': '3', 'x-ratelimit-remaining': '2' });
  t.same(problemOf(await fixture.as('PATCH', `/admin/keys/${id}`, {})), [422, 'invalid']);
  t.equal(fieldsOf(await fixture.as('PATCH', `/admin/keys/${id}`, { scopes: ['verify'] }))[0], '(body)');
  const entry = (await fixture.chain()).findLast(({ kind }) => kind === 'key.changed');
  t.match(entry?.body, { key_id: id, management_burst: 3, verify_per_second: 250 });
});

t.test('a key needs an account with a second factor, and an account has a bounded number of them', async (t) => {
  const fixture = await nounFixture(t);
  await fixture.sql`update accounts set second_factor_at = null`;
  t.same(problemOf(await fixture.as('POST', '/admin/keys', { scopes: ['verify'] })), [403, 'forbidden']);
  await fixture.sql`update accounts set second_factor_at = db_clock()`;
  const { id } = await fixture.apiKey(['verify']);
  await fixture.sql`
    insert into api_keys (account_id, key_id, name, token_hash, scopes, status, created_at)
    select account_id, 'key_' || lpad(n::text, 26, '0'), name, token_hash, scopes, status, created_at
    from api_keys, generate_series(1, ${API_KEYS_ACTIVE_MAX - 1}::integer) as n`;
  t.same(problemOf(await fixture.as('POST', '/admin/keys', { scopes: ['verify'] })), [409, 'conflict']);
  t.equal((await fixture.as('POST', `/admin/keys/${id}/revoke`)).status, 200);
  t.equal((await fixture.as('POST', '/admin/keys', { scopes: ['verify'] })).status, 201);
});

t.test('a change of a key, even by hand, moves the facts of its account; its use does not', async (t) => {
  const fixture = await nounFixture(t);
  const { id, secret } = await fixture.apiKey(['mandates:read']);
  const before = await revision(fixture);
  const url = `/api/v1/mandates/${newTypeId('mdt', 0)}/status`;
  t.equal((await fixture.send('GET', url, secret)).status, 404);
  await fixture.deps.keyUses.flush(fixture.deps.sql);
  t.equal(typeof at(await fixture.as('GET', `/admin/keys/${id}`), 'last_used_at'), 'string');
  t.equal(await revision(fixture), before);
  await fixture.sql`update api_keys set verify_burst = 1`;
  t.equal(await revision(fixture), before + 1);
  await fixture.sql`delete from api_key_uses`;
  t.equal(await revision(fixture), before + 1);
  await fixture.sql`delete from api_keys`;
  t.equal(await revision(fixture), before + 2);
});

t.test('the last use is the latest of all replicas, is kept when it cannot be written, and is bounded', async (t) => {
  const fixture = await nounFixture(t);
  const { accountId } = fixture.person;
  const { id } = await fixture.apiKey(['verify']);
  const shown = async () => at(await fixture.as('GET', `/admin/keys/${id}`), 'last_used_at');
  const [here, there] = [new KeyUses(), new KeyUses()];
  const [early, late] = ['2026-05-15T10:00:00.000Z', '2026-05-15T10:00:01.000Z'];
  here.note(accountId, id, Date.parse(late));
  here.note(accountId, id, Date.parse(early));
  there.note(accountId, id, Date.parse(early));
  there.note(accountId, newTypeId('key', 0), Date.parse(early));
  await here.flush(fixture.deps.sql);
  t.equal(await shown(), late);
  await there.flush(fixture.deps.sql);
  t.equal(await shown(), late, 'what came later is not undone; a key that is gone stops nothing');
  const away = connect('postgres://nobody@127.0.0.1:1/none', { applicationName: 'test' });
  t.teardown(() => away.end());
  here.note(accountId, id, Date.parse('2026-05-15T10:00:02.000Z'));
  await t.rejects(here.flush(away));
  await here.flush(fixture.deps.sql);
  t.equal(await shown(), '2026-05-15T10:00:02.000Z');
  const full = new KeyUses();
  for (let n = 0; n < API_KEY_USES_WAITING_MAX; n++) full.note(accountId, `key ${n}`, 0);
  full.note(accountId, id, Date.parse('2026-05-15T10:00:03.000Z'));
  while (await full.flush(fixture.deps.sql));
  t.equal(await shown(), '2026-05-15T10:00:02.000Z', 'beyond the bound it waits for its next use');
});
