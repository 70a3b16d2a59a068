import { setTimeout as delay } from 'node:timers/promises';
import t from 'tap';
import { registerDossierRoutes } from '../../../control-plane/dossiers/routes.ts';
import type { Dossier, DossierEntry } from '../../../core/dossier.ts';
import { checkDossier, type DossierReport } from '../../../core/dossier-check.ts';
import { readPinnedJwks } from '../../../core/dossier-trust.ts';
import { textAt } from '../control-plane/admin-fixture.ts';
import { problemOf } from '../control-plane/noun-fixture.ts';
import { type ActionBody, payment, type ServiceFixture, serviceFixture } from '../verify/service-fixture.ts';

/** The service with dossiers. */
function withDossiers(t: Parameters<typeof serviceFixture>[0]) {
  return serviceFixture(t, [registerDossierRoutes]);
}

/** Checks a dossier with the keys that the service publishes pinned; throws unless it is accepted. */
async function accepted(fixture: ServiceFixture, text: string): Promise<Dossier> {
  const report = await checked(fixture, text);
  const others = report.claims.filter(({ result }) => result === 'failed');
  if (report.verdict !== 'accepted') throw new Error(`${report.verdict}: ${JSON.stringify(others)}`);
  return JSON.parse(text) as Dossier;
}

async function checked(fixture: ServiceFixture, text: string): Promise<DossierReport> {
  const jwks = readPinnedJwks(Buffer.from(JSON.stringify(fixture.deps.signing.jwks())));
  if (!jwks.ok) throw new Error(jwks.problem);
  return await checkDossier(Buffer.from(text), jwks.trust);
}

const kinds = (entries: readonly DossierEntry[]): string[] => entries.map(({ entry }) => entry.kind);

interface Verified {
  readonly decision: string;
  readonly consumption_token?: string;
  readonly mat_compact?: string;
  readonly escalation?: { readonly id: string };
  readonly receipt: { readonly receipt_id: string };
}

async function verify(
  fixture: ServiceFixture,
  mandateId: string,
  action: ActionBody,
  more: object = {},
): Promise<Verified> {
  const presentation = await fixture.present(mandateId, action);
  const { json } = await fixture.call('/api/v1/verify', { presentation, action, ...more });
  return json as unknown as Verified;
}

/** The dossier of a receipt as its principal gets it. */
async function ownDossier(fixture: ServiceFixture, receiptId: string): Promise<Dossier> {
  const answer = await fixture.as('GET', `/admin/verifications/${receiptId}/dossier`);
  if (answer.status !== 200) throw new Error(answer.text);
  return await accepted(fixture, answer.text);
}

t.test('a dossier fetched with its MAT is accepted from the keys alone, booked and reported as it was', async (t) => {
  const fixture = await withDossiers(t);
  const mandateId = await fixture.mandate({ agent_did: fixture.did });
  const { consumption_token: token, mat_compact: mat, receipt } = await verify(fixture, mandateId, payment(12.5));
  const receiptId = receipt.receipt_id;
  await fixture.call('/api/v1/consumptions', { consumption_token: token, final_amount: 13 });
  await fixture.call('/api/v1/consumptions', { consumption_token: token, final_amount: 10 });
  const html = '<img src=x onerror=alert(1)>';
  await fixture.call('/api/v1/executions', { reservation_token: token, outcome: 'erfolgreich', external_ref: html });
  await fixture.advance(3600);
  const path = `/api/v1/verifications/${receiptId}/dossier?mat=${mat}`;
  const answer = await fixture.call(path);
  t.equal(answer.status, 200, 'an expired MAT is fine');
  t.equal(answer.headers['content-type'], 'application/json; charset=utf-8');
  const dossier = await accepted(fixture, answer.text);
  t.equal(dossier.mat, mat);
  t.same(kinds(dossier.consumption), ['consumption.refused', 'consumption.booked']);
  t.same(kinds(dossier.execution), ['execution.reported']);
  t.same(dossier.action, payment(12.5));
  t.equal(answer.text.includes(String(token)), false, 'no secret is in it');
  const page = await fixture.call(path, undefined, {
    headers: { accept: 'text/html,application/xhtml+xml,*/*;q=0.8' },
  });
  t.equal(page.headers['content-type'], 'text/html; charset=utf-8');
  t.match(page.headers['content-security-policy'], /^default-src 'none'; style-src 'sha256-/);
  t.match(page.text, '&lt;img src=x onerror=alert(1)&gt;');
  t.notMatch(page.text, /<img|<script/);
  t.equal(page.text.includes(String(mat)), false, 'what is printed opens nothing');
});

t.test(
  'an escalation, its approver and the second decision are one dossier, and so are the refused ones',
  async (t) => {
    const fixture = await withDossiers(t);
    const mandateId = await fixture.mandate({ agent_did: fixture.did, escalation_threshold: 50 });
    const asked = await verify(fixture, mandateId, payment(60));
    const pending = await ownDossier(fixture, asked.receipt.receipt_id);
    t.equal(pending.receipt.decision, 'escalate');
    t.same(pending.escalations, [{ escalation_id: asked.escalation?.id, opened: null, answered: null }]);
    const approved = await fixture.as('POST', `/admin/escalations/${asked.escalation?.id}/approve`, {});
    const token = textAt(approved, 'escalation_token');
    const allowed = await verify(fixture, mandateId, payment(60), { escalation_token: token });
    const dossier = await ownDossier(fixture, allowed.receipt.receipt_id);
    const [part] = dossier.escalations;
    t.equal(part?.opened?.entry.id, asked.receipt.receipt_id);
    t.same(part?.answered?.entry.body['decided_by'], fixture.person.accountId);
    t.ok(dossier.mat, 'a MAT was made for whoever is signed in');
    const other = await verify(fixture, mandateId, payment(70));
    await fixture.as('POST', `/admin/escalations/${other.escalation?.id}/reject`, { reason: 'no' });
    const refused = await verify(fixture, mandateId, payment(70));
    const { decision, escalations } = await ownDossier(fixture, refused.receipt.receipt_id);
    t.equal(decision.entry.body['code'], 'MD-401');
    t.equal(escalations[0]?.answered?.entry.kind, 'escalation.rejected');
    await fixture.as('POST', `/admin/mandates/${mandateId}/suspend`, {});
    const suspended = await verify(fixture, mandateId, payment(1));
    const last = await ownDossier(fixture, suspended.receipt.receipt_id);
    t.equal(last.mandate?.status?.entry.kind, 'mandate.suspended');
    const malformed = await fixture.call('/api/v1/verify', { presentation: { type: '<b>' }, action: payment(1) });
    const { receipt_id: receiptId } = malformed.json['receipt'] as { readonly receipt_id: string };
    t.equal((await ownDossier(fixture, receiptId)).mandate, null);
  },
);

/** Resolves once the outcome of a receipt is recorded, which may be after its answer. */
async function outcomeTold({ sql }: ServiceFixture, receiptId: string): Promise<void> {
  for (let looks = 0; looks < 500; looks++) {
    const told = await sql`select from evidence where kind = 'outcome' and strpos(body, ${receiptId}) > 0`;
    if (told.length > 0) return;
    await delay(10);
  }
  throw new Error('no outcome was told');
}

t.test('what came through the gateway has its outcome in the dossier, told at once or late or twice', async (t) => {
  const fixture = await withDossiers(t);
  const mandateId = await fixture.mandate({ agent_did: fixture.did, escalation_threshold: 50 });
  const { token } = await fixture.gateway(mandateId);
  const pay = async (body = '{"amount":10,"currency":"EUR","counterparty":"acme"}') => {
    const { headers, json } = await fixture.call('/api/gateway/http/payments?x=%3Cb%3E', body, {
      token: `Bearer ${token}`,
    });
    const receiptId = String(headers['x-service-receipt'] ?? json['receipt_id']);
    if (headers['x-service-decision'] === 'allow') await outcomeTold(fixture, receiptId);
    return receiptId;
  };
  const soon = await ownDossier(fixture, await pay());
  t.same([soon.mat, soon.presentation, kinds(soon.consumption)], [null, null, ['outcome']]);
  t.match(soon.action, { request: { method: 'POST', path: '/payments', query: 'x=%3Cb%3E' } });
  fixture.target.behave((_request, response) => {
    void fixture.advance(5).then(() => response.writeHead(201).end());
  });
  const late = await pay();
  t.equal((await fixture.sql`select from late_outcomes where receipt_id = ${late}`).length, 1);
  t.same(kinds((await ownDossier(fixture, late)).consumption), ['outcome']);
  fixture.target.behave((_request, response) => response.writeHead(500).end());
  const failed = await ownDossier(fixture, await pay());
  t.match(failed.consumption[0]?.entry.body, { outcomes: [{ outcome: 'unknown' }] });
  const escalated = await ownDossier(fixture, await pay('{"amount":60,"currency":"EUR","counterparty":"acme"}'));
  t.equal(escalated.receipt.decision, 'escalate');
  const denied = await ownDossier(fixture, await pay('{"amount":1,"currency":"USD","counterparty":"acme"}'));
  t.equal(denied.decision.entry.body['code'], 'MD-305');
  const unreadable = await ownDossier(fixture, await pay('{"amount":"x"}'));
  t.equal(unreadable.action, null);
  t.same(await fixture.sql`select 1 from late_outcomes`, [{ '?column?': 1 }], 'only the late one has a row');
});

t.test('a dossier is only for whoever has the MAT of that very receipt and the scope', async (t) => {
  const fixture = await withDossiers(t);
  const mandateId = await fixture.mandate({ agent_did: fixture.did });
  const [one, other] = [await verify(fixture, mandateId, payment(1)), await verify(fixture, mandateId, payment(2))];
  const path = (receiptId: string) => `/api/v1/verifications/${receiptId}/dossier`;
  const own = path(one.receipt.receipt_id);
  const refusals: [string, number, string][] = [
    [own, 422, 'invalid'],
    [`${own}?mat=`, 422, 'invalid'],
    [`${own}?mat=${one.mat_compact}&more=1`, 422, 'invalid'],
    [`${own}?mat=${other.mat_compact}`, 403, 'forbidden'],
    [`${own}?mat=${one.mat_compact?.slice(0, -2)}AA`, 403, 'forbidden'],
    [`${own}?mat=${one.mat_compact?.split('.').slice(0, 2).join('.')}.`, 403, 'forbidden'],
    [`${path('rcp_00000000000000000000000000')}?mat=${one.mat_compact}`, 403, 'forbidden'],
    [`${path('nothing')}?mat=${one.mat_compact}`, 404, 'not_found'],
  ];
  for (const [url, status, code] of refusals) {
    const { status: given, json, text } = await fixture.call(url);
    t.same([given, json['error']], [status, code], url.slice(0, 80));
    t.equal(text.includes(String(one.mat_compact)), false);
  }
  const { secret } = await fixture.apiKey(['verify', 'mandates:read']);
  const scoped = await fixture.call(`${own}?mat=${one.mat_compact}`, undefined, { token: `Bearer ${secret}` });
  t.same([scoped.status, scoped.json['error']], [403, 'insufficient_scope']);
  const stranger = await fixture.signUp();
  const made = await fixture.send('POST', '/admin/keys', stranger.token, { scopes: ['evidence:read'] });
  const theirs = { token: `Bearer ${textAt(made, 'api_key')}` };
  const foreign = await fixture.call(`${own}?mat=${one.mat_compact}`, undefined, theirs);
  t.same([foreign.status, foreign.json['error']], [403, 'forbidden'], "another account's key, with a stolen MAT");
  const admin = await fixture.send('GET', `/admin/verifications/${one.receipt.receipt_id}/dossier`, stranger.token);
  t.same(problemOf(admin), [404, 'not_found']);
  t.same(fixture.errors, []);
  const schema = await fixture.call('/api/v1/dossier-schema', undefined, { token: null });
  t.equal(schema.headers['content-type'], 'application/schema+json');
});

t.test('a sandbox decision has its dossier for whoever verified it', async (t) => {
  const fixture = await withDossiers(t);
  const made = await fixture.call('/api/v1/sandbox/mandates', {
    ...{ scope: ['payments.*'], amount_limit_per_action: 100, amount_limit_per_month: 1000 },
    escalation_threshold: 50,
  });
  const { mandate_id, agent_secret } = made.json;
  const { json } = await fixture.call('/api/v1/sandbox/presentations', { mandate_id, agent_secret });
  const verified = await fixture.call('/api/v1/verify', { presentation: json['presentation'], action: payment(5) });
  const { mat_compact: mat, receipt } = verified.json as unknown as Verified;
  const answer = await fixture.call(`/api/v1/verifications/${receipt.receipt_id}/dossier?mat=${mat}`);
  t.equal(answer.status, 200, answer.text);
  const dossier = await accepted(fixture, answer.text);
  t.equal(dossier.presentation?.['ctx'], null);
});
