import t from 'tap';
import { connect } from '../../../control-plane/db/client.ts';
import { openSandbox } from '../../../control-plane/sandbox/account.ts';
import { contextDigest } from '../../../core/action.ts';
import { formatDidKey } from '../../../core/did-key.ts';
import { newSeed, SigningKey } from '../../../core/ed25519.ts';
import { createPresentation } from '../../../core/presentation.ts';
import { newSecretToken } from '../../../core/secret-token.ts';
import { newTypeId, type TypeId } from '../../../core/type-id.ts';
import { createDatabase } from '../../database.ts';
import { monthOf } from '../decisions/lane-client.ts';
import { sandboxFixture, TERMS } from './sandbox-fixture.ts';

const ACTION = { type: 'payments.create', amount: { value: 12.5, currency: 'EUR' } };
const CTX = contextDigest({ type: ACTION.type, amount_minor: 1_250, currency: 'EUR', counterparty: null });
const MANDATES = '/api/v1/sandbox/mandates';
const PRESENTATIONS = '/api/v1/sandbox/presentations';

t.test('the whole sandbox is walked without a key but for verify, and an allow tells its latency', async (t) => {
  const { send, verify, key, sql, sandboxId, errors } = await sandboxFixture(t);
  const made = await send(MANDATES, TERMS);
  t.equal(made.status, 201);
  t.same(Object.keys(made.json), ['mandate_id', 'agent_secret', 'status', 'expires_at']);
  t.match(made.json, { mandate_id: /^mdt_/, agent_secret: /^ags_[A-Za-z0-9_-]{43}$/, status: 'active' });
  t.match(made.headers, { 'cache-control': 'no-store', 'x-ratelimit-limit': /^\d+$/, 'x-request-id': String });
  const { mandate_id, agent_secret } = made.json;
  const presented = await send(PRESENTATIONS, { mandate_id, agent_secret });
  t.equal(presented.status, 200);
  t.same(Object.keys(presented.json), ['presentation', 'custody', 'note']);
  t.match(presented.json, { custody: 'custodial', presentation: { verifier: sandboxId, ctx: null, mandate_id } });
  const allowed = await verify(presented.json['presentation'], ACTION);
  t.equal(allowed.status, 200);
  t.same(Object.keys(allowed.json), ['decision', 'consumption_token', 'receipt', 'latency_ms', 'mat_compact']);
  t.match(allowed.json, { decision: 'allow', receipt: { ctx: CTX }, latency_ms: Number });
  const token = `Bearer ${key.apiKey}`;
  const { consumption_token } = allowed.json;
  const booked = await send('/api/v1/consumptions', { consumption_token }, { token });
  t.match(booked.json, { mandate_id, booked: { value: 12.5 }, remaining: { value: 87.5 } });
  const chain = await sql<{ kind: string; body: string }[]>`
    select kind, body from evidence where account_id = ${sandboxId} order by seq`;
  const kinds = chain.map((entry) => entry.kind);
  t.same(kinds, ['mandate.created', 'mandate.activated', 'decision', 'consumption.booked']);
  t.notOk(JSON.stringify(chain).includes(String(agent_secret)), 'the secret is in no evidence');
  t.same(errors, []);
});

t.test('a presentation is spent by its allow, and one that names an action allows no other', async (t) => {
  const { make, present, verify } = await sandboxFixture(t);
  const mandate = await make();
  const unbound = await present(mandate);
  t.match((await verify(unbound, ACTION)).json, { decision: 'allow' });
  t.match((await verify(unbound, ACTION)).json, { decision: 'deny', reasons: ['MD-105'] });
  const bound = (await present(mandate, ACTION)) as { ctx: string };
  t.equal(bound.ctx, CTX);
  const other = { ...ACTION, amount: { value: 12.51, currency: 'EUR' } };
  t.match((await verify(bound, other)).json, { decision: 'deny', reasons: ['MD-104'] });
  t.match((await verify(bound, ACTION)).json, { decision: 'allow' });
});

t.test('limits are read from their digits and refused like those of any mandate, field by field', async (t) => {
  const { send } = await sandboxFixture(t);
  const cases: readonly (readonly [Record<string, unknown> | string, number, string])[] = [
    [{ ...TERMS, scope: [] }, 422, 'scope'],
    [{ ...TERMS, scope: ['Payments'] }, 422, 'scope.0'],
    [{ ...TERMS, amount_limit_per_action: '50' }, 422, 'amount_limit_per_action'],
    [{ ...TERMS, amount_limit_per_month: 0.001 }, 422, 'amount_limit_per_month'],
    [{ ...TERMS, escalation_threshold: -1 }, 422, 'escalation_threshold'],
    [{ ...TERMS, currency: 'eur' }, 422, 'currency'],
    [{ ...TERMS, max_uses: 5 }, 422, '(body)'],
    [{ ...TERMS, valid_until: '2099-01-01T00:00:00Z' }, 422, '(body)'],
    [{ ...TERMS, agent_did: '' }, 422, '(body)'],
    ['{"scope":["a.b"],"scope":["c.d"]}', 400, ''],
    [`{"scope":["${'a'.repeat(20_000)}"]}`, 413, ''],
  ];
  for (const [given, status, field] of cases) {
    const body = typeof given === 'string' ? given : JSON.stringify(given);
    const answer = await send(MANDATES, undefined, { body });
    t.equal(answer.status, status, `${body.slice(0, 80)} → ${answer.text}`);
    const fields = (answer.json['fields'] ?? []) as { field: string }[];
    if (field !== '')
      t.same(
        fields.map((one) => one.field),
        [field],
      );
  }
});

t.test('whether the mandate or its secret is wrong cannot be told from the answer', async (t) => {
  const { send, make, account } = await sandboxFixture(t);
  const [mandate, other] = [await make(), await make()];
  const asked = [
    { ...mandate, agent_secret: newSecretToken('ags') },
    { ...mandate, agent_secret: other.agent_secret },
    { ...mandate, agent_secret: '' },
    { ...mandate, mandate_id: newTypeId('mdt', Date.now()) },
    { ...mandate, mandate_id: account.mandateId },
    { ...mandate, mandate_id: 'nothing' },
  ];
  const answers = [];
  for (const { mandate_id, agent_secret } of asked) {
    const { status, json } = await send(PRESENTATIONS, { mandate_id, agent_secret });
    answers.push(JSON.stringify({ status, ...json, request_id: '' }));
  }
  t.equal(new Set(answers).size, 1, answers[0] ?? '');
  t.match(answers[0], /"status":404/);
});

t.test('an escalation is approved by whoever holds the secret, and its token allows the action once', async (t) => {
  const { send, make, present, verify } = await sandboxFixture(t);
  const mandate = await make();
  const large = { ...ACTION, amount: { value: 20.01, currency: 'EUR' } };
  const escalated = await verify(await present(mandate), large);
  t.match(escalated.json, { decision: 'escalate', escalation: { id: /^esc_/ } });
  const { id } = escalated.json['escalation'] as { id: string };
  const url = `/api/v1/sandbox/escalations/${id}`;
  const stranger = await make();
  for (const [path, secret] of [
    [`${url}/approve`, stranger.agent_secret],
    [`${url}/reject`, stranger.agent_secret],
    [`/api/v1/sandbox/escalations/${newTypeId('esc', Date.now())}/approve`, mandate.agent_secret],
    ['/api/v1/sandbox/escalations/nothing/approve', mandate.agent_secret],
  ]) {
    t.match(await send(String(path), { agent_secret: secret }), { status: 404, json: { error: 'not_found' } });
  }
  const approved = await send(`${url}/approve`, { agent_secret: mandate.agent_secret });
  t.equal(approved.status, 200);
  t.same(Object.keys(approved.json), ['id', 'status', 'escalation_token']);
  t.match(approved.json, { id, status: 'approved', escalation_token: /^etk_/ });
  t.match(await send(`${url}/approve`, { agent_secret: mandate.agent_secret }), { status: 409 });
  const { escalation_token } = approved.json;
  t.match((await verify(await present(mandate), large, { escalation_token })).json, { decision: 'allow' });
  const again = await verify(await present(mandate), large, { escalation_token });
  t.match(again.json, { decision: 'deny', reasons: ['MD-402'] });
});

t.test('a rejected escalation denies the action', async (t) => {
  const { send, make, present, verify } = await sandboxFixture(t);
  const mandate = await make();
  const large = { ...ACTION, amount: { value: 20.01, currency: 'EUR' } };
  const { id } = (await verify(await present(mandate), large)).json['escalation'] as { id: string };
  const answer = await send(`/api/v1/sandbox/escalations/${id}/reject`, { agent_secret: mandate.agent_secret });
  t.match(answer, { status: 200, json: { id, status: 'rejected' } });
  t.match((await verify(await present(mandate), large)).json, { decision: 'deny', reasons: ['MD-401'] });
});

t.test('no presentation of the sandbox reaches a real mandate, and no real agent one of the sandbox', async (t) => {
  const agent = new SigningKey(newSeed());
  const did = formatDidKey(agent.publicKey);
  const { make, present, verify, send, sandboxId, account, key, sql } = await sandboxFixture(t, {
    limits: { agent_did: did, escalation_threshold: 100 },
  });
  const mandate = await make();
  const sign = (mandateId: string, verifier: string, ctx: string | null) =>
    createPresentation(
      {
        ...{ mandate_id: mandateId as TypeId<'mdt'>, verifier: verifier as TypeId<'acc'>, ctx },
        ...{ issued_at_ms: Date.now(), expires_at_ms: Date.now() + 60_000 },
      },
      agent,
    );
  const cases = [
    [sign(account.mandateId, sandboxId, CTX), 'MD-201', 'a real mandate, addressed to the sandbox'],
    [sign(account.mandateId, sandboxId, null), 'MD-201', 'the same for no action'],
    [sign(mandate.mandate_id, account.accountId, CTX), 'MD-201', 'a sandbox mandate, addressed to a real account'],
    [sign(mandate.mandate_id, sandboxId, CTX), 'MD-202', 'a sandbox mandate, signed by another agent'],
    [sign(account.mandateId, account.accountId, null), 'MD-104', 'a real mandate for no action'],
  ] as const;
  for (const [presentation, code, said] of cases) {
    t.match((await verify(presentation, ACTION)).json, { decision: 'deny', reasons: [code] }, said);
  }
  t.same(await monthOf(sql, account), { reserved: 0, booked: 0 });

  const large = { ...ACTION, amount: { value: 20.01, currency: 'EUR' }, counterparty: 'acme' };
  const sandboxed = (await verify(await present(mandate), large)).json['escalation'] as { id: string };
  const ctx = contextDigest({ type: large.type, amount_minor: 2_001, currency: 'EUR', counterparty: 'acme' });
  const real = (await verify(sign(account.mandateId, account.accountId, ctx), large)).json['escalation'] as {
    id: string;
  };
  const answered = await send(`/api/v1/sandbox/escalations/${real.id}/approve`, { agent_secret: mandate.agent_secret });
  t.equal(answered.status, 404, 'a real escalation cannot be answered here');
  const approve = `/api/v1/sandbox/escalations/${sandboxed.id}/approve`;
  const { escalation_token } = (await send(approve, { agent_secret: mandate.agent_secret })).json;
  const crossed = await verify(sign(account.mandateId, account.accountId, ctx), large, { escalation_token });
  t.match(crossed.json, { decision: 'deny', reasons: ['MD-402'] }, 'an approval of the sandbox is none elsewhere');
  t.same(await monthOf(sql, account), { reserved: 0, booked: 0 });
  const asKey = await send('/api/v1/verify', {}, { token: `Bearer ${mandate.agent_secret}` });
  t.equal(asKey.status, 401, 'a sandbox secret is no API key');
  const asSecret = { mandate_id: mandate.mandate_id, agent_secret: key.apiKey };
  t.equal((await send(PRESENTATIONS, asSecret)).status, 404, 'an API key is no sandbox secret');
});

t.test('nobody can sign in to the account of the sandbox, and there is one however many start at once', async (t) => {
  const { sql, appUrl } = await createDatabase(t);
  const replicas = [1, 2, 3, 4].map((n) => connect(appUrl, { applicationName: `replica ${n}`, max: 1 }));
  const opened = await Promise.all(replicas.map(openSandbox));
  t.equal(new Set(opened).size, 1);
  t.equal(await openSandbox(replicas[0]!), opened[0], 'and it stays');
  t.match(await sql`select password_hash, second_factor_at from accounts`, [
    { password_hash: '!', second_factor_at: null },
  ]);
  t.equal((await sql`select from accounts`).length, 1);
  await Promise.all(replicas.map((one) => one.end()));
});

t.test('an address makes some mandates an hour, and the sandbox holds so many of everybody', async (t) => {
  const { send, make, sql, sandboxId } = await sandboxFixture(t);
  for (let i = 0; i < 20; i++) await make();
  const refused = await send(MANDATES, TERMS);
  t.match(refused, { status: 429, json: { error: 'rate_limited' } });
  t.match(refused.headers, { 'retry-after': /^1[0-9]{2}$/, 'x-ratelimit-limit': '20', 'x-ratelimit-remaining': '0' });
  t.match(await send(MANDATES, { ...TERMS, scope: [] }), { status: 422 }, 'what is invalid costs no mandate');
  t.equal((await sql`select from mandates where account_id = ${sandboxId}`).length, 20);
});

t.test('a full sandbox refuses more, and makes nothing', async (t) => {
  const { send, make, sql, sandboxId } = await sandboxFixture(t);
  const { mandate_id } = await make();
  await sql`
    insert into mandates (account_id, mandate_id, name, status, scope, currency, per_action, per_month, digest,
      created_at, changed_at)
    select account_id, 'mdt_' || lpad(n::text, 26, '0'), name, status, scope, currency, per_action, per_month, digest,
      created_at, changed_at
    from mandates, generate_series(2, 2000) as n where mandate_id = ${mandate_id}`;
  await sql`
    insert into sandbox_mandates (account_id, mandate_id, secret_hash, created_at)
    select account_id, mandate_id, sha256(mandate_id::bytea), created_at from mandates
    where account_id = ${sandboxId} and mandate_id <> ${mandate_id}`;
  const answer = await send(MANDATES, TERMS);
  t.match(answer, { status: 503, json: { error: 'overloaded' }, headers: { 'retry-after': '300' } });
  t.equal((await sql`select from sandbox_mandates`).length, 2_000);
});
