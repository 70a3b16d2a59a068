import { readdirSync, readFileSync } from 'node:fs';
import t from 'tap';
import { DENIAL_CODES, type DenialCode } from '../../../core/denial-codes.ts';
import { newTypeId } from '../../../core/type-id.ts';
import type { Answer, SendOptions } from '../gateway/gateway-fixture.ts';
import { type ActionBody, payment, type ServiceFixture, serviceFixture } from './service-fixture.ts';

const CODES = DENIAL_CODES.map(([code]) => code);

/** Asks for what is denied with one code, through the proxy; everything it needs before that is allowed is made. */
type Ask = (fixture: ServiceFixture) => Promise<Answer>;

async function mandateOf(fixture: ServiceFixture, changes: object = {}): Promise<string> {
  return await fixture.mandate({ agent_did: fixture.did, escalation_threshold: 50, ...changes });
}

/** Verifies 10 EUR to acme, or another action, under a new mandate or the one that is given. */
async function verify(
  fixture: ServiceFixture,
  given: {
    readonly mandate?: object;
    readonly mandateId?: string;
    readonly action?: ActionBody;
    readonly intent?: Parameters<ServiceFixture['present']>[2];
    readonly body?: object;
  } = {},
): Promise<Answer> {
  const { action = payment(10), intent = {}, body = {} } = given;
  const mandateId = given.mandateId ?? (await mandateOf(fixture, given.mandate));
  const presentation = await fixture.present(mandateId, action, intent);
  return await fixture.call('/api/v1/verify', { presentation, action, ...body });
}

/** POST /payments through a new gateway. */
async function pay(fixture: ServiceFixture, body: string, mapped = true): Promise<Answer> {
  const { token } = await fixture.gateway(await mandateOf(fixture), mapped);
  return await forward(fixture, token, { body });
}

function forward({ call }: ServiceFixture, token: string, options: SendOptions): Promise<Answer> {
  return call('/api/gateway/http/payments', '', { token: `Bearer ${token}`, ...options });
}

const PAYMENT = '{"amount":10,"currency":"EUR","counterparty":"acme"}';

const ASKS: Readonly<Record<DenialCode, Ask>> = {
  'MD-101': async (fixture) => {
    const presentation = await fixture.present(await mandateOf(fixture), payment(10));
    return verify(fixture, { body: { presentation: { ...presentation, nonce: `${presentation.nonce}A` } } });
  },
  'MD-102': (fixture) => verify(fixture, { intent: { issued_at_ms: 1_000_000, expires_at_ms: 1_300_000 } }),
  'MD-103': (fixture) => verify(fixture, { intent: { verifier: newTypeId('acc', Date.now()) } }),
  'MD-104': (fixture) => verify(fixture, { body: { action: payment(11) } }),
  'MD-105': async (fixture) => {
    const body = { presentation: await fixture.present(await mandateOf(fixture), payment(10)) };
    await verify(fixture, { body });
    return verify(fixture, { body });
  },
  'MD-201': (fixture) => verify(fixture, { mandateId: newTypeId('mdt', Date.now()) }),
  'MD-202': (fixture) => verify(fixture, { mandate: { agent_did: '' } }),
  'MD-203': (fixture) => verify(fixture, { mandate: { activate: false } }),
  'MD-204': async (fixture) => {
    const mandateId = await mandateOf(fixture);
    await fixture.as('POST', `/admin/mandates/${mandateId}/revoke`, {});
    return verify(fixture, { mandateId });
  },
  'MD-501': (fixture) => pay(fixture, PAYMENT, false),
  'MD-502': (fixture) => pay(fixture, '{"amount":"ten","currency":"EUR"}'),
  'MD-301': (fixture) => verify(fixture, { action: { ...payment(10), type: 'orders.create' } }),
  'MD-305': (fixture) => verify(fixture, { action: { ...payment(10), amount: { value: 10, currency: 'USD' } } }),
  'MD-304': (fixture) => verify(fixture, { mandate: { counterparties: ['someone else'] } }),
  'MD-302': (fixture) => verify(fixture, { action: payment(100.01) }),
  'MD-303': async (fixture) => {
    const mandateId = await mandateOf(fixture, { amount_limit_per_month: 15 });
    await verify(fixture, { mandateId });
    return verify(fixture, { mandateId });
  },
  'MD-401': async (fixture) => {
    const mandateId = await mandateOf(fixture);
    const { json } = await verify(fixture, { mandateId, action: payment(60) });
    const { id } = json['escalation'] as { readonly id: string };
    await fixture.as('POST', `/admin/escalations/${id}/reject`, {});
    return verify(fixture, { mandateId, action: payment(60) });
  },
  'MD-402': (fixture) => verify(fixture, { body: { escalation_token: 'etk_unknown' } }),
  'MD-503': async (fixture) => {
    const { token, instanceId } = await fixture.gateway(await mandateOf(fixture));
    // As after a restore under another master key.
    await fixture.sql`update gateway_instances set credential_header = 'x-api-key', credential_sealed = '\\x00',
      config_version = config_version + 1 where instance_id = ${instanceId}`;
    return forward(fixture, token, { body: PAYMENT });
  },
};

/** Codes that only the gateway gives. */
const GATEWAY_ONLY: ReadonlySet<string> = new Set(['MD-501', 'MD-502', 'MD-503']);

t.test('each code is answered through the proxy, with its receipt, and recorded', async (t) => {
  const fixture = await serviceFixture(t);
  const seen: string[] = [];
  for (const [code] of DENIAL_CODES) {
    const answer = await ASKS[code](fixture);
    const reasons = { reasons: [code], reason_text: /\.$/ };
    if (GATEWAY_ONLY.has(code)) {
      t.equal(answer.status, 403, code);
      t.match(answer.json, { error: 'service_deny', ...reasons, receipt_id: /^rcp_/ });
      const { receipt_id } = answer.json;
      t.match(answer.headers, { 'x-service-decision': 'deny', 'x-service-receipt': receipt_id });
    } else {
      t.equal(answer.status, 200, code);
      t.match(answer.json, {
        decision: 'deny',
        ...reasons,
        receipt: { receipt_id: /^rcp_/, evidence: { hash: String } },
      });
      t.same(Object.keys(answer.json), ['decision', 'reasons', 'reason_text', 'receipt']);
    }
    t.match(answer.headers, { 'cache-control': 'no-store', 'x-ratelimit-limit': /^\d+$/ });
    t.match((await fixture.chain()).at(-1), { kind: 'decision', body: { decision: 'deny', code } });
    seen.push(code);
  }
  t.same(seen, CODES);
  t.same(fixture.target.ledger, [], 'nothing reached the target');
});

t.test('the published table, the vectors and the documentation have the same codes', async (t) => {
  const fixture = await serviceFixture(t);
  const published = await fixture.call('/api/v1/denial-codes');
  const { codes } = published.json as { readonly codes: readonly { readonly code: string }[] };
  t.same(
    codes.map(({ code }) => code),
    CODES,
  );
  const files = readdirSync(new URL('../../vectors/decisions/', import.meta.url));
  const denied = files.flatMap((file) => /^MD-\d{3}/.exec(file)?.[0] ?? []);
  t.same([...new Set(denied)].sort(), [...CODES].sort());
  const page = readFileSync(new URL('../../../docs/denial-codes.md', import.meta.url), 'utf8');
  const sections = page.split(/^## (?=MD-)/m).slice(1);
  t.same(
    sections.map((section) => section.slice(0, 6)),
    CODES,
  );
  for (const section of sections) t.match(section, /\*\*Cause\.\*\*.*\*\*What to do\.\*\*.*\*\*Example\.\*\*/s);
});
