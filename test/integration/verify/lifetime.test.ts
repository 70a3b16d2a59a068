import t from 'tap';
import { createLogger } from '../../../config/log.ts';
import { expireMandates } from '../../../control-plane/jobs/expire-mandates.ts';
import { after, runClock, stopClock } from '../decisions/database-clock.ts';
import type { Answer } from '../gateway/gateway-fixture.ts';
import { payment, type ServiceFixture, serviceFixture } from './service-fixture.ts';

const PAYMENT = '{"amount":10,"currency":"EUR","counterparty":"acme"}';

/** What verify and the gateway say, then the mandate's status and its uses (0 where none are counted). */
async function sayings(fixture: ServiceFixture, mandateId: string, token: string) {
  const verified = await verify(fixture, mandateId);
  const forwarded = await fixture.call('/api/gateway/http/payments', PAYMENT, { token: `Bearer ${token}` });
  return [saying(verified), saying(forwarded), ...(await standing(fixture, mandateId))];
}

async function verify(fixture: ServiceFixture, mandateId: string): Promise<Answer> {
  const presentation = await fixture.present(mandateId, payment(10));
  return await fixture.call('/api/v1/verify', { presentation, action: payment(10) });
}

function saying({ status, json }: Answer): unknown {
  const [code] = (json['reasons'] ?? []) as string[];
  return code ?? json['decision'] ?? status;
}

async function standing({ call }: ServiceFixture, mandateId: string): Promise<unknown[]> {
  const { json } = await call(`/api/v1/mandates/${mandateId}/status`);
  return [json['status'], (json['limits'] as { readonly uses: number }).uses];
}

t.test('a mandate ends with its last millisecond: MD-204 and expired, before and after the job says so', async (t) => {
  const fixture = await serviceFixture(t);
  const until = '2031-06-01T00:00:00.000Z';
  const mandateId = await fixture.mandate({ agent_did: fixture.did, valid_until: until });
  const { token } = await fixture.gateway(mandateId);
  await stopClock(fixture.sql, after(until, -1));
  t.same(await sayings(fixture, mandateId, token), ['allow', 201, 'active', 0]);
  // A second later, since a lane may still reckon with the millisecond before.
  await runClock(fixture.sql, after(until, 1_001));
  t.same(await sayings(fixture, mandateId, token), ['MD-204', 'MD-204', 'expired', 0]);
  const log = createLogger({ name: 'test', level: 'silent' });
  await expireMandates({ sql: fixture.deps.sql, lanes: fixture.lanes, log, keyUses: fixture.deps.keyUses });
  const [row] = await fixture.sql`select status from mandates where mandate_id = ${mandateId}`;
  t.equal(row?.['status'], 'expired');
  t.same(await sayings(fixture, mandateId, token), ['MD-204', 'MD-204', 'expired', 0]);
  t.ok(
    (await fixture.chain()).some(({ kind, body }) => kind === 'mandate.expired' && body['mandate_id'] === mandateId),
  );
  t.same(fixture.errors, []);
});

t.test('the first moment after a mandate is not its own', async (t) => {
  const fixture = await serviceFixture(t);
  const until = '2031-06-01T00:00:00.000Z';
  const mandateId = await fixture.mandate({ agent_did: fixture.did, valid_until: until });
  const { token } = await fixture.gateway(mandateId);
  await stopClock(fixture.sql, until);
  t.same(await sayings(fixture, mandateId, token), ['MD-204', 'MD-204', 'expired', 0]);
});

t.test('the last use that a mandate permits consumes it, and a failed execution gives no use back', async (t) => {
  const fixture = await serviceFixture(t);
  const mandateId = await fixture.mandate({ agent_did: fixture.did, max_uses: 2 });
  const { token } = await fixture.gateway(mandateId);
  const first = await verify(fixture, mandateId);
  t.equal(saying(first), 'allow');
  t.same(await standing(fixture, mandateId), ['active', 1]);
  const denied = await fixture.call('/api/v1/verify', { presentation: {}, action: payment(10) });
  t.equal(saying(denied), 'MD-101');
  t.same(await standing(fixture, mandateId), ['active', 1], 'a deny is no use');
  const last = await verify(fixture, mandateId);
  t.equal(saying(last), 'allow');
  t.same(await sayings(fixture, mandateId, token), ['MD-204', 'MD-204', 'consumed', 2]);
  const failed = { reservation_token: last.json['consumption_token'], outcome: 'failed' };
  t.equal((await fixture.call('/api/v1/executions', failed)).status, 200, 'its uses can still be accounted for');
  const consumed = await fixture.call('/api/v1/consumptions', { consumption_token: first.json['consumption_token'] });
  t.equal(consumed.status, 200);
  t.same(await sayings(fixture, mandateId, token), ['MD-204', 'MD-204', 'consumed', 2]);
  t.same(fixture.target.ledger, []);
  t.same(fixture.errors, []);
});
