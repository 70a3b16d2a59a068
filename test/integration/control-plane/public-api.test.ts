import { once } from 'node:events';
import { request as httpRequest, type IncomingMessage, type OutgoingHttpHeaders, type RequestOptions } from 'node:http';
import type { AddressInfo } from 'node:net';
import { compactVerify, createLocalJWKSet, type JSONWebKeySet } from 'jose';
import t from 'tap';
import { z } from 'zod';
import { readBody } from '../../../control-plane/http/request.ts';
import { createKey } from '../../../control-plane/keys/store.ts';
import type { RegisterRoutes } from '../../../control-plane/server.ts';
import { API_SCOPES } from '../../../core/api-scopes.ts';
import { DENIAL_CODES } from '../../../core/denial-codes.ts';
import { newSecretToken, SECRET_PREFIXES } from '../../../core/secret-token.ts';
import { newTypeId } from '../../../core/type-id.ts';
import { allowed, ask, tell } from '../decisions/lane-client.ts';
import { INTERNAL_SECRET } from '../proxy/fake-control-plane.ts';
import { proxyFixture } from '../proxy/proxy-fixture.ts';
import { type AdminAnswer, at, textAt } from './admin-fixture.ts';
import { fieldsOf, NOUN_ROUTES, type NounFixture, nounFixture, problemOf } from './noun-fixture.ts';

/** A route for each scope, one that reads a body and one that fails. */
const probes: RegisterRoutes = (app) => {
  for (const scope of API_SCOPES) app.get(`/api/v1/probe/${scope}`, { config: { scope } }, async () => ({ scope }));
  app.post('/api/v1/probe', { config: { scope: 'verify' } }, async (request) => readBody(request, z.strictObject({})));
  app.get('/api/v1/fails', { config: { scope: 'verify' } }, () => Promise.reject(new Error('secret detail')));
};

function withProbes(t: Parameters<typeof nounFixture>[0], options: Parameters<typeof nounFixture>[1] = {}) {
  return nounFixture(t, { register: [...NOUN_ROUTES, probes], ...options });
}

const rateOf = ({ headers }: AdminAnswer) =>
  ['limit', 'remaining', 'reset'].map((name) => Number(headers[`x-ratelimit-${name}`]));

async function statusesOf(answers: readonly Promise<AdminAnswer>[]): Promise<number[]> {
  return (await Promise.all(answers)).map(({ status }) => status);
}

/** Requests on a listening server, with headers as they are. */
async function listening(t: { teardown(fn: () => Promise<unknown>): void }, fixture: NounFixture) {
  await fixture.app.listen({ host: '127.0.0.1', port: 0 });
  t.teardown(() => fixture.app.close());
  const { port } = fixture.app.server.address() as AddressInfo;
  const get = (path: string, headers: OutgoingHttpHeaders | string[], to = port, localAddress = '127.0.0.1') =>
    statusOf({ host: '127.0.0.1', port: to, path, headers, localAddress, agent: false });
  return { port, get };
}

async function statusOf(options: RequestOptions): Promise<number> {
  const request = httpRequest(options).end();
  const [answer] = (await once(request, 'response')) as [IncomingMessage];
  answer.resume();
  await once(answer, 'end');
  return answer.statusCode ?? 0;
}

t.test('a route of the API that declares neither a scope nor that it is public cannot be registered', async (t) => {
  const forgotten: RegisterRoutes = (app) => void app.get('/api/v1/forgotten', async () => ({}));
  await t.rejects(nounFixture(t, { register: [forgotten] }), /\/api\/v1\/forgotten must declare/);
  const both: RegisterRoutes = (app) =>
    void app.get('/api/v1/both', { config: { scope: 'verify', public: true } }, async () => ({}));
  await t.rejects(nounFixture(t, { register: [both] }), /\/api\/v1\/both must declare/);
});

t.test('no credential of another kind, and nothing that looks like a key, opens a route of the API', async (t) => {
  const fixture = await withProbes(t);
  const agent = await fixture.agent();
  const { secret } = await fixture.apiKey(API_SCOPES);
  const last = secret.at(-1) === 'A' ? 'E' : 'A';
  const credentials = [
    ...SECRET_PREFIXES.map((prefix) => newSecretToken(prefix)),
    ...[fixture.person.token, agent.token, `mak_${agent.token.slice(4)}`, `mak_${fixture.person.token.slice(4)}`],
    ...[`gwt_${secret.slice(4)}`, `ses_${secret.slice(4)}`, `MAK_${secret.slice(4)}`, secret.slice(4)],
    ...[`${secret.slice(0, -1)}${last}`, `${secret}A`, `${secret}=`, ` ${secret}`, `${secret}, ${secret}`, '', 'mak_'],
  ];
  for (const credential of credentials) {
    const answer = await fixture.send('GET', '/api/v1/probe/verify', credential);
    t.same(problemOf(answer), [401, 'unauthenticated'], JSON.stringify(credential.slice(0, 8)));
    t.equal(answer.headers['www-authenticate'], 'Bearer realm="mandate-gateway", error="invalid_token"');
    t.equal(answer.headers['cache-control'], 'no-store');
    t.notMatch(answer.text, secret.slice(4));
  }
  const nothing = await fixture.send('GET', '/api/v1/probe/verify', null);
  t.same([nothing.status, nothing.headers['www-authenticate']], [401, 'Bearer realm="mandate-gateway"']);
  for (const authorization of [secret, `Basic ${secret}`, `Bearer  ${secret}`, `Token ${secret}`]) {
    const answer = await fixture.app.inject({ url: '/api/v1/probe/verify', headers: { authorization } });
    t.equal(answer.statusCode, 401, authorization.slice(0, 8));
  }
  t.equal((await fixture.send('GET', '/api/v1/probe/verify', secret)).status, 200);
  t.equal((await fixture.send('GET', `/api/v1/probe/verify?access_token=${secret}`, null)).status, 401);
  t.same(problemOf(await fixture.send('GET', '/admin/keys', secret)), [401, 'unauthenticated'], 'nor a key /admin');
});

t.test('a key opens what its scopes name and nothing else, and the refusal names the scope', async (t) => {
  const fixture = await withProbes(t);
  for (const own of API_SCOPES) {
    const { secret } = await fixture.apiKey([own], { management_burst: 100 });
    for (const scope of API_SCOPES) {
      const answer = await fixture.send('GET', `/api/v1/probe/${scope}`, secret);
      if (scope === own) {
        t.same(answer.body, { scope });
        continue;
      }
      t.same(problemOf(answer), [403, 'insufficient_scope'], `${own} at ${scope}`);
      t.match(textAt(answer, 'detail'), scope);
      const challenge = `Bearer realm="mandate-gateway", error="insufficient_scope", scope="${scope}"`;
      t.equal(answer.headers['www-authenticate'], challenge);
    }
  }
});

t.test('every answer tells the rate of the bucket it was counted against', async (t) => {
  const fixture = await withProbes(t, { managementRate: { perSecond: 1, burst: 50 } });
  const { secret } = await fixture.apiKey(['verify'], { management_burst: 30 });
  const answers: [Parameters<NounFixture['send']>, number, number][] = [
    [['GET', '/api/v1/probe/verify', secret], 200, 30],
    [['GET', '/api/v1/probe/verify', null], 401, 50],
    [['GET', '/api/v1/probe/verify', newSecretToken('mak')], 401, 50],
    [['GET', '/api/v1/probe/mandates:read', secret], 403, 30],
    [['GET', '/api/v1/nowhere', null], 404, 50],
    [['GET', '/api/v1/nowhere', secret], 404, 30],
    [['GET', '/api/v1/nowhere', newSecretToken('mak')], 404, 50],
    [['DELETE', '/api/v1/probe', secret], 405, 30],
    [['POST', '/api/v1/probe', secret, '{'], 400, 30],
    [['POST', '/api/v1/probe', secret, { extra: 1 }], 422, 30],
    [['GET', '/api/v1/fails', secret], 500, 30],
    [['GET', '/api/v1/%zz', secret], 400, 50],
    [['GET', '/api/v1/denial-codes', null], 200, 50],
    [['GET', '/api/v1/denial-codes', secret], 200, 50],
  ];
  const left = new Map<number, number>();
  for (const [request, status, limit] of answers) {
    const answer = await fixture.send(...request);
    const [told, remaining = -1, reset = 0] = rateOf(answer);
    t.same([answer.status, told], [status, limit], request.slice(0, 2).join(' '));
    t.ok(remaining <= (left.get(limit) ?? limit) && remaining < limit && reset >= 1, `${remaining} left`);
    left.set(limit, remaining);
  }
  t.ok((left.get(30) ?? 30) < 25 && (left.get(50) ?? 50) < 46, 'each of them was counted');
});

t.test('a key has its own bucket by its own rates, whoever else shares its address', async (t) => {
  const fixture = await withProbes(t, { managementRate: null });
  const small = await fixture.apiKey(['verify'], { management_per_second: 1, management_burst: 3 });
  const usual = await fixture.apiKey(['verify']);
  const probe = (token: string | null) => fixture.send('GET', '/api/v1/probe/verify', token);
  const beganMs = performance.now();
  const statuses = await statusesOf(Array.from({ length: 40 }, () => probe(small.secret)));
  const earned = Math.ceil((performance.now() - beganMs) / 1000);
  const passed = statuses.filter((status) => status === 200).length;
  t.ok(passed >= 3 && passed <= 3 + earned, `${passed} of 40 that came at once, none known before`);
  t.ok(statuses.every((status) => status === 200 || status === 429));
  const refused = await probe(small.secret);
  if (refused.status === 429) t.ok(Number(refused.headers['retry-after']) >= 1);
  t.equal((await probe(usual.secret)).status, 200);
  t.same(rateOf(await probe(null))[0], 20, "the address's is another");
});

t.test('many keys that are new here do not count against the address they share', async (t) => {
  const fixture = await withProbes(t, { managementRate: null });
  const secrets: string[] = [];
  for (let n = 0; n < 30; n++) {
    const [input, secret] = [{ name: `${n}`, scopes: ['verify' as const] }, newSecretToken('mak')];
    await fixture.lanes.command(fixture.person.accountId, (context) => createKey(context, input, secret));
    secrets.push(secret);
  }
  const statuses = await statusesOf(secrets.map((secret) => fixture.send('GET', '/api/v1/probe/verify', secret)));
  t.same(new Set(statuses), new Set([200]));
});

t.test('invented keys empty the bucket of their address only', async (t) => {
  const fixture = await withProbes(t, { managementRate: { perSecond: 0.001, burst: 5 } });
  const { secret } = await fixture.apiKey(['verify']);
  const probe = (token: string) => fixture.send('GET', '/api/v1/probe/verify', token);
  t.equal((await probe(secret)).status, 200);
  const invented = await statusesOf(Array.from({ length: 30 }, () => probe(newSecretToken('mak'))));
  t.equal(invented.filter((status) => status === 401).length, 5);
  t.equal(invented.filter((status) => status === 429).length, 25);
  t.equal((await probe(secret)).status, 200, 'a key that works goes on');
});

t.test('a valid key that is shown where it does not belong gives it no new bucket', async (t) => {
  const fixture = await withProbes(t);
  const { secret } = await fixture.apiKey(['verify'], { management_per_second: 1, management_burst: 6 });
  const probe = () => fixture.send('GET', '/api/v1/probe/verify', secret);
  for (let n = 0; n < 2; n++) t.equal((await probe()).status, 200);
  for (let n = 0; n < 2; n++) t.equal((await fixture.send('GET', '/admin/keys', secret)).status, 401);
  t.ok((rateOf(await probe())[1] ?? 6) <= 3);
});

t.test('an address is believed from a proxy that proves itself, and from nobody else', async (t) => {
  const fixture = await withProbes(t, { managementRate: { perSecond: 0.001, burst: 2 } });
  const { get } = await listening(t, fixture);
  const codes = '/api/v1/denial-codes';
  const from = (address: string, secret: string | null) =>
    get(codes, { 'x-forwarded-for': address, ...(secret === null ? {} : { 'x-mandate-internal-secret': secret }) });
  for (const address of ['203.0.113.1', '2001:db8::1']) {
    t.same([await from(address, INTERNAL_SECRET), await from(address, INTERNAL_SECRET)], [200, 200], address);
    t.equal(await from(address, INTERNAL_SECRET), 429, address);
  }
  t.equal(await from('203.0.113.2', null), 200, 'counts for the connection');
  t.equal(await from('203.0.113.3', `${INTERNAL_SECRET.slice(0, -1)}x`), 200, 'counts for the connection');
  t.equal(await from('203.0.113.4', null), 429);
  t.equal(await from('no address', INTERNAL_SECRET), 429, 'what is no address is not believed');
});

t.test('an IPv6 client counts by its /64, on every way in', async (t) => {
  const fixture = await withProbes(t, { managementRate: { perSecond: 0.001, burst: 2 } });
  const ask = async (url: string, remoteAddress: string) => {
    const headers = { host: 'mandate.example' };
    return (await fixture.app.inject({ method: 'GET', url, remoteAddress, headers })).statusCode;
  };
  for (const url of ['/api/v1/denial-codes', '/admin/keys', '/console/login', '/console/assets/none.css', '/healthz']) {
    const first = [await ask(url, '2001:db8::1'), await ask(url, '2001:db8::2')];
    t.notOk(first.includes(429), url);
    t.equal(await ask(url, '2001:db8:0:0:ffff::3'), 429, url);
    t.not(await ask(url, '2001:db8:0:1::1'), 429, `${url}: the next network has its own`);
    t.notOk([await ask(url, '::ffff:203.0.113.7'), await ask(url, '203.0.113.7')].includes(429), url);
    t.equal(await ask(url, '203.0.113.7'), 429, `${url}: a mapped IPv4 address is that address`);
    t.not(await ask(url, '::ffff:203.0.113.8'), 429, url);
  }
});

t.test('through the proxy each client has its own bucket, and keys work', async (t) => {
  const fixture = await withProbes(t, { managementRate: { perSecond: 0.001, burst: 6 } });
  const { port, get } = await listening(t, fixture);
  const { secret } = await fixture.apiKey(['verify']);
  const proxy = await proxyFixture(t, { controlUrl: `http://127.0.0.1:${port}` });
  const from = (address: string) => get('/api/v1/denial-codes', {}, proxy.port, address);
  for (let n = 0; n < 6; n++) t.equal(await from('127.0.0.2'), 200);
  t.equal(await from('127.0.0.2'), 429);
  t.equal(await from('127.0.0.3'), 200);
  t.equal(await get('/api/v1/probe/verify', { authorization: `Bearer ${secret}` }, proxy.port), 200);
  t.equal(await get('/api/v1/probe/verify', { authorization: `Bearer ${fixture.person.token}` }, proxy.port), 401);
  t.equal(await get('/admin/keys', { authorization: `Bearer ${fixture.person.token}` }, proxy.port), 404);
});

t.test('two credentials in one request are refused, whichever is valid', async (t) => {
  const fixture = await withProbes(t);
  const { get } = await listening(t, fixture);
  const { secret } = await fixture.apiKey(['verify']);
  for (const pair of [
    [secret, newSecretToken('mak')],
    [newSecretToken('mak'), secret],
    [secret, secret],
  ]) {
    const headers = ['host', 'x', ...pair.flatMap((one) => ['Authorization', `Bearer ${one}`])];
    t.equal(await get('/api/v1/probe/verify', headers), 400);
  }
});

t.test('the table of denial codes is published in check order', async (t) => {
  const { send } = await nounFixture(t);
  const answer = await send('GET', '/api/v1/denial-codes', null);
  t.equal(answer.status, 200);
  t.equal(at(answer, 'denial_code_version'), 1);
  const codes = at(answer, 'codes') as { code: string; name: string; order: number; description: string }[];
  t.same(
    codes.map(({ code, name, order, description }) => [code, name, order, description]),
    DENIAL_CODES.map(([code, name, description], i) => [code, name, i + 1, description]),
  );
  t.equal(codes.length, 19);
});

t.test('the status of a mandate tells its limits, its verifier and what is left of the month', async (t) => {
  const fixture = await nounFixture(t);
  const { secret } = await fixture.apiKey(['mandates:read']);
  const terms = { amount_limit_per_action: 100.5, escalation_threshold: 50, counterparties: ['acme'], max_uses: 9 };
  const id = await fixture.mandate({ ...terms, valid_until: '2099-01-01T00:00:00.000Z', time_zone: 'Europe/Berlin' });
  const answer = await fixture.send('GET', `/api/v1/mandates/${id}/status`, secret);
  t.equal(answer.status, 200);
  const { usage, credential, ...rest } = answer.body as {
    readonly usage: Record<string, unknown>;
    readonly credential: string;
  };
  const keys = createLocalJWKSet((await fixture.send('GET', '/.well-known/jwks.json', null)).body as JSONWebKeySet);
  const { payload, protectedHeader } = await compactVerify(credential, keys);
  t.equal(protectedHeader.typ, 'vc+jwt');
  t.match(JSON.parse(new TextDecoder().decode(payload)), { credentialSubject: { mandate: { mandate_id: id } } });
  t.strictSame(rest, {
    mandate_id: id,
    status: 'active',
    limits: {
      scope: ['payments.*'],
      amount_limit_per_action: 100.5,
      amount_limit_per_month: 1000,
      escalation_threshold: 50,
      currency: 'EUR',
      counterparties: ['acme'],
      valid_until: '2099-01-01T00:00:00.000Z',
      max_uses: 9,
      uses: 0,
      time_zone: 'Europe/Berlin',
    },
    agent_did: '',
    presentation_verifier: fixture.person.accountId,
  });
  t.match(usage, { month: /^\d{4}-\d{2}$/, reserved: 0, booked: 0, remaining: 1000, resets_at: /Z$/ });
  const largest = await fixture.mandate({ amount_limit_per_month: 9_999_999_999_999.99 });
  const exact = await fixture.send('GET', `/api/v1/mandates/${largest}/status`, secret);
  t.match(exact.text, '"amount_limit_per_month":9999999999999.99,');
});

t.test('the status shows each change that was answered before', async (t) => {
  const fixture = await nounFixture(t);
  const { secret } = await fixture.apiKey(['mandates:read'], { management_burst: 100 });
  const agent = await fixture.agent({ max_uses: 9 });
  const tools = `/admin/gateways/${agent.instanceId}/tools`;
  const mapping = { action_type: 'payments.create' };
  const mapped = await fixture.as('PUT', tools, { name: 'http.post:/payments', mapping });
  const account = { ...agent, toolId: textAt(mapped, 'tool_id') };
  const status = () => fixture.send('GET', `/api/v1/mandates/${agent.mandateId}/status`, secret);
  const receipt = allowed(await ask(fixture.lanes, account, { amount: 1250 }));
  t.match((await status()).body, { usage: { reserved: 12.5, booked: 0, remaining: 987.5 }, limits: { uses: 1 } });
  t.equal(await tell(fixture.lanes, account, receipt, { outcome: 'booked' }), true);
  t.match((await status()).body, { usage: { reserved: 0, booked: 12.5, remaining: 987.5 }, credential: String });
  for (const [step, state] of [
    ['suspend', 'suspended'],
    ['resume', 'active'],
    ['revoke', 'revoked'],
  ]) {
    t.equal((await fixture.as('POST', `/admin/mandates/${agent.mandateId}/${step}`)).status, 200);
    t.equal(at(await status(), 'status'), state);
  }
  const ends = await fixture.mandate({ valid_until: new Date(Date.now() + 3_600_000).toISOString() });
  await fixture.advance(3_601);
  const ended = await fixture.send('GET', `/api/v1/mandates/${ends}/status`, secret);
  t.equal(at(ended, 'status'), 'expired', 'at its time, before any job has written it');
});

t.test('a mandate of another account is one that does not exist', async (t) => {
  const fixture = await nounFixture(t);
  const { secret } = await fixture.apiKey(['mandates:read']);
  const stranger = await fixture.signUp();
  const made = await fixture.send('POST', '/admin/mandates', stranger.token, {
    ...{ scope: ['a.b'], amount_limit_per_action: 1, amount_limit_per_month: 1 },
  });
  const ids = [textAt(made, 'mandate_id'), newTypeId('mdt', 0), newTypeId('gwi', 0), 'x', '%00'];
  for (const id of ids) {
    const answer = await fixture.send('GET', `/api/v1/mandates/${id}/status`, secret);
    t.same(problemOf(answer), [404, 'not_found'], id);
    t.same(fieldsOf(answer), []);
  }
});

t.test('a key with the scope verify sees the escalations of its account and no other', async (t) => {
  const fixture = await nounFixture(t);
  const agent = await fixture.agent({ escalation_threshold: 5 });
  const tools = `/admin/gateways/${agent.instanceId}/tools`;
  const mapping = { action_type: 'payments.create' };
  const mapped = await fixture.as('PUT', tools, { name: 'http.post:/payments', mapping });
  const escalated = await ask(fixture.lanes, { ...agent, toolId: textAt(mapped, 'tool_id') }, { amount: 501 });
  if (escalated.answer !== 'escalate') throw new Error(`not escalated: ${JSON.stringify(escalated)}`);
  const url = `/api/v1/escalations/${escalated.escalation_id}`;
  const { secret } = await fixture.apiKey(['verify']);
  t.match((await fixture.send('GET', url, secret)).body, { id: escalated.escalation_id, status: 'pending' });
  const approved = await fixture.as('POST', `/admin/escalations/${escalated.escalation_id}/approve`);
  const token = textAt(approved, 'escalation_token');
  t.match((await fixture.send('GET', url, secret)).body, { status: 'approved', escalation_token: token });
  const reader = await fixture.apiKey(['mandates:read']);
  t.same(problemOf(await fixture.send('GET', url, reader.secret)), [403, 'insufficient_scope']);
  const stranger = await fixture.signUp();
  const others = await fixture.send('POST', '/admin/keys', stranger.token, { scopes: ['verify'] });
  t.same(problemOf(await fixture.send('GET', url, textAt(others, 'api_key'))), [404, 'not_found']);
  t.same(problemOf(await fixture.send('GET', '/api/v1/escalations/x', secret)), [404, 'not_found']);
  t.same(problemOf(await fixture.send('GET', '/api/v1/escalations/x', agent.token)), [404, 'not_found']);
  t.same(problemOf(await fixture.send('GET', '/api/v1/escalations/x', newSecretToken('gwt'))), [
    401,
    'unauthenticated',
  ]);
});
