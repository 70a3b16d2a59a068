import t from 'tap';
import { newSeed, SigningKey } from '../../../core/ed25519.ts';
import type { MatFacts } from '../../../core/mat.ts';
import { newNonce } from '../../../core/presentation.ts';
import { newSecretToken, secretHash } from '../../../core/secret-token.ts';
import { newTypeId } from '../../../core/type-id.ts';
import { ask, chainOf, monthOf } from './lane-client.ts';
import { verified, verify, verifyAsk, verifyFixture } from './verify-client.ts';

t.test('an allow reserves its amount, spends its nonce and is in the evidence with the presentation', async (t) => {
  const fixture = await verifyFixture(t);
  const { sql, account, did } = fixture;
  const ask = verifyAsk(fixture, { amount: 250 });
  const { json, receiptId } = await verified(fixture, ask);
  t.equal(json.decision, 'allow');
  t.match(json.consumption_token, /^ctk_/);
  t.match(json.receipt, { receipt_id: receiptId, evidence: { seq: 0 } });
  const mat = JSON.parse(json.mat_compact ?? '') as MatFacts;
  t.match(mat, { receiptId, mandateId: account.mandateId, decision: 'allow', evidence: json.receipt?.evidence });
  t.same(await monthOf(sql, account), { reserved: 250, booked: 0 });
  const [entry] = await chainOf(sql, account);
  const body = JSON.parse(entry!.body);
  t.match(body, { path: 'verify', decision: 'allow', key: fixture.key.keyId, presentation: { expected_signer: did } });
  t.same(body.presentation.document, JSON.parse(ask.presentation!.document));
  const [row] = await sql`select state, amount, counterparty from authorisations`;
  t.same({ ...row }, { state: 'reserved', amount: 250, counterparty: 'acme' });
  t.same(fixture.errors, []);
});

t.test('each check of a presentation has its code, and reserves nothing', async (t) => {
  const fixture = await verifyFixture(t);
  const now = Date.now();
  const stranger = new SigningKey(newSeed());
  const cases = [
    ['MD-101', { problem: 'The signature does not verify.' }],
    ['MD-101', { malformed: true, problem: 'The presentation must have one proof, an object.' }],
    ['MD-102', { issuedAtMs: now - 400_000, expiresAtMs: now - 100_000 }],
    ['MD-102', { issuedAtMs: now, expiresAtMs: now + 301_000 }],
    ['MD-103', { verifier: newTypeId('acc', now) }],
    ['MD-104', { signedAmount: 101 }],
    ['MD-201', { mandateId: newTypeId('mdt', now) }],
    ['MD-202', { signer: stranger }],
    ['MD-301', { type: 'orders.create' }],
    ['MD-305', { currency: 'USD' }],
  ] as const;
  for (const [code, options] of cases) {
    const { json } = await verified(fixture, options);
    t.match(json, { decision: 'deny', reasons: [code], reason_text: String }, code);
    t.notOk('consumption_token' in json || 'mat_compact' in json);
  }
  t.same(await monthOf(fixture.sql, fixture.account), { reserved: 0, booked: 0 });
  const chain = await chainOf(fixture.sql, fixture.account);
  t.equal(chain.length, cases.length, 'every deny is in the evidence');
});

t.test(
  'a presentation that was spent at another control plane is a replay there too, whatever else fails',
  async (t) => {
    const fixture = await verifyFixture(t, { per_month: 200 });
    const other = fixture.moreLanes();
    const ask = verifyAsk(fixture);
    t.match((await verified(fixture, ask)).json, { decision: 'allow' });
    t.match((await verified(fixture, {}, other)).json, { decision: 'allow' });
    t.match((await verified(fixture, {}, other)).json, { reasons: ['MD-303'] });
    t.equal(fixture.sources.at(-1), 'carried');
    t.match((await verified(fixture, ask, other)).json, { reasons: ['MD-105'] }, 'not MD-303');
  },
);

t.test('a nonce belongs to its mandate: another agent that copies it takes nothing from anybody', async (t) => {
  const fixture = await verifyFixture(t);
  const nonce = newNonce();
  t.match((await verified(fixture, { nonce, mandateId: newTypeId('mdt', Date.now()) })).json, { reasons: ['MD-201'] });
  t.match((await verified(fixture, { nonce })).json, { decision: 'allow' });
});

t.test('an idempotency key gives the identical answer again, once decided, and refuses another request', async (t) => {
  const fixture = await verifyFixture(t);
  const ask = verifyAsk(fixture, { idempotencyKey: 'one' });
  const answers = await Promise.all(Array.from({ length: 8 }, () => verified(fixture, ask)));
  t.equal(answers.filter(({ replayed }) => !replayed).length, 1);
  t.equal(new Set(answers.map(({ body }) => body)).size, 1, 'byte for byte');
  t.match(answers[0]!.json, { decision: 'allow', consumption_token: /^ctk_/, mat_compact: String });
  t.same(await monthOf(fixture.sql, fixture.account), { reserved: 100, booked: 0 });
  t.match(await verify(fixture, { idempotencyKey: 'one' }), { answer: 'problem', error: 'idempotency_mismatch' });
  const denied = verifyAsk(fixture, { idempotencyKey: 'two', type: 'orders.create' });
  t.equal((await verified(fixture, denied)).body, (await verified(fixture, denied)).body, 'a deny as well');
});

t.test('an approved escalation allows the same presentation once', async (t) => {
  const fixture = await verifyFixture(t, { escalation_threshold: 50 });
  const { sql, account } = fixture;
  const nonce = newNonce();
  const asked = { nonce, issuedAtMs: Date.now(), expiresAtMs: Date.now() + 200_000 };
  const first = await verified(fixture, asked);
  t.match(first.json, { decision: 'escalate', escalation: { id: /^esc_/, expires_at: String } });
  const again = await verified(fixture, asked);
  t.equal(again.json.escalation?.id, first.json.escalation?.id, 'the same escalation');
  const token = newSecretToken('etk');
  await sql`update escalations set status = 'approved', token_hash = decode(${secretHash(token)}, 'hex')`;
  t.match((await verified(fixture, { ...asked, escalationToken: token, amount: 60 })).json, { reasons: ['MD-402'] });
  const { json } = await verified(fixture, { ...asked, escalationToken: token });
  t.match(json, { decision: 'allow' });
  t.match((await verified(fixture, { escalationToken: token })).json, { reasons: ['MD-402'] }, 'used');
  t.same(await monthOf(sql, account), { reserved: 100, booked: 0 });
});

t.test('a key that is revoked, of another kind or without the scope verifies nothing', async (t) => {
  const fixture = await verifyFixture(t);
  const { sql, account, key } = fixture;
  t.match((await verified(fixture)).json, { decision: 'allow' });
  await sql`update api_keys set scopes = array['mandates:read'] where key_id = ${key.keyId}`;
  t.match(await verify(fixture), { error: 'insufficient_scope', detail: /verify/ });
  await sql`update api_keys set scopes = array['verify'] where key_id = ${key.keyId}`;
  t.match((await verified(fixture)).json, { decision: 'allow' });
  await sql`update api_keys set status = 'revoked', revoked_at = db_clock() where key_id = ${key.keyId}`;
  t.match(await verify(fixture), { error: 'unauthenticated' });
  t.match(await verify(fixture, { tokenHash: account.tokenHash }), { error: 'unauthenticated' });
  t.same(await monthOf(sql, account), { reserved: 200, booked: 0 });
});

t.test('verifications are decided on carried facts, and read anew where those are no longer so', async (t) => {
  const fixture = await verifyFixture(t);
  for (let i = 0; i < 4; i++) t.match((await verified(fixture)).json, { decision: 'allow' });
  t.same(fixture.sources, ['read', 'carried', 'carried', 'carried']);
  await fixture.sql`update mandates set status = 'suspended' where mandate_id = ${fixture.account.mandateId}`;
  t.match((await verified(fixture)).json, { reasons: ['MD-203'] });
  t.ok(fixture.sources.includes('changed'));
});

t.test('the month limit holds over gateway and verify together', async (t) => {
  const fixture = await verifyFixture(t, { per_month: 1_000 });
  const { lanes, account } = fixture;
  const forwards = Array.from({ length: 10 }, () => ask(lanes, account));
  const answers = Promise.all(Array.from({ length: 15 }, () => verified(fixture)));
  const forwarded = (await Promise.all(forwards)).filter(({ answer }) => answer === 'allow').length;
  const allowed = (await answers).filter(({ json }) => json.decision === 'allow').length;
  t.equal(forwarded + allowed, 10);
  t.equal((await answers).filter(({ json }) => json.reasons?.[0] === 'MD-303').length, 15 - allowed);
});
