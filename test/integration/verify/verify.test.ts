import t from 'tap';
import { type SeededKey, type SeededLimits, seedKey } from '../../../bench/seed.ts';
import { contextDigest } from '../../../core/action.ts';
import { formatDidKey } from '../../../core/did-key.ts';
import { newSeed, SigningKey } from '../../../core/ed25519.ts';
import { createPresentation, type PresentationDocument } from '../../../core/presentation.ts';
import { newSecretToken } from '../../../core/secret-token.ts';
import type { TypeId } from '../../../core/type-id.ts';
import { chainOf, monthOf } from '../decisions/lane-client.ts';
import {
  type Answer,
  type FixtureOptions,
  type GatewayFixture,
  gatewayFixture,
  type SendOptions,
} from '../gateway/gateway-fixture.ts';

interface Fixture extends GatewayFixture {
  readonly agent: SigningKey;
  readonly key: SeededKey;
  /** A body for POST /api/v1/verify: 12.50 EUR to acme. */
  body(changes?: Record<string, unknown>): Record<string, unknown>;
  verify(body: unknown, options?: SendOptions): Promise<Answer>;
}

const ACTION = { type: 'payments.create', amount: { value: 12.5, currency: 'EUR' }, counterparty: 'acme' };
const CTX = contextDigest({ type: ACTION.type, amount_minor: 1_250, currency: 'EUR', counterparty: 'acme' });

async function fixtureOf(
  t: Parameters<typeof gatewayFixture>[0],
  limits: SeededLimits = {},
  newAgentKeys?: FixtureOptions['newAgentKeys'],
): Promise<Fixture> {
  const agent = new SigningKey(newSeed());
  const rate = newAgentKeys === undefined ? {} : { newAgentKeys };
  const agentDid = formatDidKey(agent.publicKey);
  const fixture = await gatewayFixture(t, { limits: { agent_did: agentDid, ...limits }, ...rate });
  const { account } = fixture;
  const key = await seedKey(fixture.sql, account);
  const present = (): PresentationDocument =>
    createPresentation(
      {
        mandate_id: account.mandateId as TypeId<'mdt'>,
        verifier: account.accountId as TypeId<'acc'>,
        ctx: CTX,
        issued_at_ms: Date.now(),
        expires_at_ms: Date.now() + 300_000,
      },
      agent,
    );
  return {
    ...fixture,
    ...{ agent, key },
    body: (changes = {}) => ({ presentation: present(), action: ACTION, ...changes }),
    verify: (body, options = {}) =>
      fixture.send({
        path: '/api/v1/verify',
        token: `Bearer ${key.apiKey}`,
        body: typeof body === 'string' || Buffer.isBuffer(body) ? body : JSON.stringify(body),
        ...options,
      }),
  };
}

t.test('an allow has exactly the members of the interface, and every answer its headers', async (t) => {
  const { verify, body, account, sql } = await fixtureOf(t);
  const answer = await verify(body());
  t.equal(answer.status, 200);
  t.same(Object.keys(answer.json), ['decision', 'consumption_token', 'receipt', 'mat_compact']);
  t.match(answer.json, { decision: 'allow', receipt: { receipt_id: /^rcp_/, ctx: CTX } });
  t.match(answer.headers, {
    'cache-control': 'no-store',
    'content-type': /^application\/json/,
    'x-ratelimit-limit': /^\d+$/,
    'x-ratelimit-remaining': /^\d+$/,
    'x-ratelimit-reset': /^\d+$/,
    'x-request-id': String,
  });
  t.same(await monthOf(sql, account), { reserved: 1_250, booked: 0 });
});

t.test('a presentation that was changed, or is none, is MD-101 and recorded', async (t) => {
  const { verify, body, sql, account } = await fixtureOf(t);
  const asked = body() as { presentation: PresentationDocument };
  const changed = { ...asked.presentation, expires_at: new Date(Date.now() + 299_000).toISOString() };
  for (const presentation of [changed, {}, { ...asked.presentation, more: 1 }]) {
    const answer = await verify({ ...asked, presentation });
    t.match(answer.json, { decision: 'deny', reasons: ['MD-101'] });
    t.equal(answer.status, 200);
  }
  t.equal((await chainOf(sql, account)).length, 3);
  t.same(await monthOf(sql, account), { reserved: 0, booked: 0 });
});

t.test('what is wrong with a body is named field by field, and nothing is recorded', async (t) => {
  const { verify, body, sql, account } = await fixtureOf(t);
  const cases: readonly (readonly [unknown, number, string])[] = [
    [{ action: ACTION }, 422, 'presentation'],
    [body({ presentation: 'eyJ' }), 422, 'presentation'],
    [body({ action: { ...ACTION, amount: { value: 12.345, currency: 'EUR' } } }), 422, 'action.amount.value'],
    [body({ action: { ...ACTION, amount: { value: '12.5', currency: 'EUR' } } }), 422, 'action.amount.value'],
    [body({ action: { ...ACTION, amount: { value: -1, currency: 'EUR' } } }), 422, 'action.amount.value'],
    [body({ action: { ...ACTION, amount: { value: 1, currency: 'eur' } } }), 422, 'action.amount.currency'],
    [body({ action: { ...ACTION, type: 'Payments' } }), 422, 'action.type'],
    [body({ action: { ...ACTION, counterparty: '' } }), 422, 'action.counterparty'],
    [body({ action: { ...ACTION, note: 'rides along' } }), 422, 'action'],
    [body({ more: 1 }), 422, '(body)'],
    ['[]', 422, 'presentation'],
    ['{"presentation":', 400, ''],
    ['{"action":{},"action":{}}', 400, ''],
    [Buffer.from([0x7b, 0xff, 0x7d]), 400, ''],
    ['', 415, ''],
  ];
  for (const [given, status, field] of cases) {
    const answer = await verify(given);
    const said = `${JSON.stringify(given).slice(0, 60)} → ${answer.text}`;
    t.equal(answer.status, status, said);
    t.match(answer.headers, { 'content-type': 'application/problem+json', 'x-ratelimit-limit': /^\d+$/ });
    const fields = (answer.json['fields'] ?? []) as { field: string }[];
    if (field !== '')
      t.ok(
        fields.some((one) => one.field === field),
        said,
      );
  }
  t.same(await chainOf(sql, account), []);
});

t.test('who shows no API key, or something else as one, is 401 on every method', async (t) => {
  const { verify, body, account } = await fixtureOf(t);
  const shown = [null, 'Bearer', `Bearer ${account.token}`, `Bearer ${newSecretToken('mak')}`, 'Basic bWFr'];
  for (const token of shown) {
    const answer = await verify(body(), { token });
    t.match(answer, { status: 401, json: { error: 'unauthenticated' } }, String(token));
    t.match(answer.headers, { 'www-authenticate': /^Bearer/, 'x-ratelimit-limit': '20' });
  }
  t.match(await verify(null, { token: null, method: 'GET', body: null }), { status: 401 });
});

t.test('other methods, media types, encodings and sizes are refused for what they are', async (t) => {
  const { verify, body } = await fixtureOf(t);
  t.match(await verify(null, { method: 'GET', body: null }), { status: 405, headers: { allow: 'POST' } });
  t.match(await verify(body(), { headers: { 'content-type': 'text/plain' } }), { status: 415 });
  t.match(await verify(body(), { headers: { 'content-encoding': 'gzip' } }), { status: 415 });
  t.match(await verify(body(), { path: '/api/v1/verify?x=1' }), { status: 400 });
  t.match(await verify(body({ more: 'x'.repeat(70_000) })), { status: 413 });
  const twice = { 'idempotency-key': ['a', 'b'] };
  t.match(await verify(body(), { headers: twice }), { status: 400, json: { error: 'repeated_header' } });
  t.match(await verify(body(), { headers: { 'idempotency-key': 'ä' } }), { status: 400 });
});

t.test('a key without the scope is told which one it lacks', async (t) => {
  const fixture = await fixtureOf(t);
  const { apiKey } = await seedKey(fixture.sql, fixture.account, ['mandates:read']);
  const answer = await fixture.verify(fixture.body(), { token: `Bearer ${apiKey}` });
  t.match(answer, { status: 403, json: { error: 'insufficient_scope', detail: /verify/ } });
});

t.test('a repeat under an idempotency key is the same answer, marked as one', async (t) => {
  const { verify, body, sql, account } = await fixtureOf(t);
  const headers = { 'idempotency-key': 'order 17'.replace(' ', '-') };
  const asked = JSON.stringify(body());
  const [first, second] = [await verify(asked, { headers }), await verify(asked, { headers })];
  t.equal(second.text, first.text);
  t.same(
    [first, second].map((one) => one.headers['x-idempotent-replay']),
    [undefined, 'true'],
  );
  t.match(await verify(body(), { headers }), { status: 422, json: { error: 'idempotency_mismatch' } });
  t.same(await monthOf(sql, account), { reserved: 1_250, booked: 0 });
});

t.test('no control plane, no decision: 503 and a time to come back', async (t) => {
  const { verify, body, stopControlPlane } = await fixtureOf(t);
  await stopControlPlane();
  const answer = await verify(body());
  t.match(answer, { status: 503, json: { error: 'not_decidable' }, headers: { 'retry-after': /^\d+$/ } });
});

t.test('agents nobody has seen are checked only so fast, and known ones are not kept waiting', async (t) => {
  const { verify, body, account } = await fixtureOf(t, {}, { perSecond: 0.000_001, burst: 3 });
  t.match((await verify(body())).json, { decision: 'allow' });
  const stranger = (): unknown => {
    const intent = {
      mandate_id: account.mandateId as TypeId<'mdt'>,
      verifier: account.accountId as TypeId<'acc'>,
      ctx: CTX,
      issued_at_ms: Date.now(),
      expires_at_ms: Date.now() + 300_000,
    };
    return { presentation: createPresentation(intent, new SigningKey(newSeed())), action: ACTION };
  };
  const statuses: number[] = [];
  for (let i = 0; i < 4; i++) statuses.push((await verify(stranger())).status);
  t.same(statuses, [200, 200, 503, 503]);
  t.match(await verify(stranger()), { json: { error: 'overloaded' }, headers: { 'retry-after': '1' } });
  t.match((await verify(body())).json, { decision: 'allow' });
});
