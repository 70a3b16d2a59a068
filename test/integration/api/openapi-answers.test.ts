import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import t from 'tap';
import { seedKey } from '../../../bench/seed.ts';
import { type OpenApiDocument, openApiDocument } from '../../../control-plane/api/openapi-document.ts';
import { createAgentKey } from '../../../control-plane/custody/agent-keys.ts';
import { API_SCOPES } from '../../../core/api-scopes.ts';
import { newSecretToken } from '../../../core/secret-token.ts';
import { newTypeId } from '../../../core/type-id.ts';
import { answersAs } from '../../openapi-answers.ts';
import {
  type SandboxFixture,
  type SandboxFixtureOptions,
  sandboxFixture,
  TERMS,
} from '../control-plane/sandbox-fixture.ts';
import type { Answer, SendOptions } from '../gateway/gateway-fixture.ts';

type Test = Parameters<typeof sandboxFixture>[0] & { same(found: unknown, wanted: unknown, message: string): unknown };

interface Fixture extends SandboxFixture {
  readonly document: OpenApiDocument;
  readonly apiKey: string;
  /** Sends with the API key unless told otherwise; whatever is answered must be as the document says. */
  ask(method: string, path: string, body?: unknown, options?: SendOptions): Promise<Answer>;
}

async function fixtureOf(t: Test, options: SandboxFixtureOptions = {}): Promise<Fixture> {
  const fixture = await sandboxFixture(t, options);
  const { apiKey } = await seedKey(fixture.sql, fixture.account, API_SCOPES);
  const { text } = await fixture.send('/api/openapi.json', undefined, { method: 'GET' });
  const document = JSON.parse(text) as OpenApiDocument;
  const ask: Fixture['ask'] = async (method, path, body, more = {}) => {
    const answer = await fixture.send(path, body, { method, token: `Bearer ${apiKey}`, ...more });
    const given = { status: answer.status, headers: answer.headers, body: answer.text };
    t.same(answersAs(document, method, path, given), [], `${method} ${path} → ${answer.status}`);
    return answer;
  };
  return { ...fixture, document, apiKey, ask };
}

const ACTION = { type: 'payments.create', amount: { value: 12.5, currency: 'EUR' }, counterparty: 'acme' };

t.test('the served document is the one that is generated, and the page shows it', async (t) => {
  const { document, ask } = await fixtureOf(t);
  t.same(document, JSON.parse(JSON.stringify(openApiDocument('https://mandate.example'))));
  const page = await ask('GET', '/api/docs', undefined, { token: null });
  t.equal(page.status, 200);
  t.match(page.headers, {
    'content-type': 'text/html; charset=utf-8',
    'content-security-policy': /^default-src 'none'; style-src 'sha256-[^']+'; base-uri 'none'/,
  });
  t.match(page.text, '/api/v1/verify');
  for (const path of ['/api/openapi.json', '/.well-known/jwks.json', '/api/v1/denial-codes']) {
    t.equal((await ask('GET', path, undefined, { token: null })).status, 200, path);
  }
});

t.test('every answer of the log is as the document says', async (t) => {
  const { ask, jobs, account } = await fixtureOf(t);
  const get = (path: string, options?: SendOptions) => ask('GET', `/api/v1/evidence/${path}`, undefined, options);
  await jobs.lanes.command(account.accountId, async ({ append }) => {
    for (let i = 0; i < 300; i++) append('mandate.changed', { i });
    append('mandate.changed', { text: 'x'.repeat(65_500) });
  });
  for (const path of [
    'checkpoint',
    'tree-head',
    'tile/0/000',
    'tile/0/001.p/44',
    'tile/1/000.p/1',
    'tile/entries/000',
  ]) {
    t.equal((await get(path)).status, 200, path);
  }
  for (const path of ['tile/0/002.p/1', 'tile/x/000', 'tile/entries/1']) t.equal((await get(path)).status, 404, path);
  t.equal((await get('tile/entries/001.p/45')).status, 409);
  t.equal((await get('checkpoint', { token: null })).status, 401);
});

t.test('every answer of paths 1 and 2 is as the document says', async (t) => {
  const { ask, account, jobs, custody } = await fixtureOf(t, { limits: { per_action: 10_000 } });
  await jobs.lanes.command(account.accountId, (context) => createAgentKey(context, custody, account.mandateId));
  const present = (action: unknown) => ask('POST', '/api/v1/agents/present', { mandate_id: account.mandateId, action });
  const { presentation } = (await present(ACTION)).json;
  const [body, headers] = [{ presentation, action: ACTION }, { 'idempotency-key': 'order-1' }];
  const allow = await ask('POST', '/api/v1/verify', body, { headers });
  t.match(allow.json, { decision: 'allow' });
  t.match((await ask('POST', '/api/v1/verify', body, { headers })).headers, { 'x-idempotent-replay': 'true' });
  t.equal((await ask('POST', '/api/v1/verify', { ...body, more: 1 }, { headers })).status, 422);
  t.match((await ask('POST', '/api/v1/verify', body)).json, { decision: 'deny', reasons: ['MD-105'] });
  const token = allow.json['consumption_token'];
  const consumption = { consumption_token: token, final_amount: 12, currency: 'EUR', counterparty: 'acme' };
  t.equal((await ask('POST', '/api/v1/consumptions', { ...consumption, final_amount: 13 })).status, 409);
  t.equal((await ask('POST', '/api/v1/consumptions', consumption)).status, 200);
  t.match((await ask('POST', '/api/v1/consumptions', consumption)).headers, { 'x-idempotent-replay': 'true' });
  t.equal((await ask('POST', '/api/v1/consumptions', { ...consumption, final_amount: 11 })).status, 409);
  const execution = { reservation_token: token, outcome: 'succeeded', executed_amount: 12 };
  t.match((await ask('POST', '/api/v1/executions', execution)).json, { status: 'erfolgreich' });
  t.equal((await ask('POST', '/api/v1/executions', { ...execution, outcome: 'failed' })).status, 409);
  t.match((await ask('GET', `/api/v1/mandates/${account.mandateId}/status`)).json, { status: 'active', usage: {} });
  t.match((await ask('GET', `/api/v1/mandates/${newTypeId('mdt', 0)}/status`)).status, 404);
});

t.test('every answer of the sandbox, with its escalations, is as the document says', async (t) => {
  const { ask } = await fixtureOf(t);
  const open = { token: null };
  const { mandate_id, agent_secret } = (await ask('POST', '/api/v1/sandbox/mandates', TERMS, open)).json;
  const action = { ...ACTION, amount: { value: 30, currency: 'EUR' } };
  const escalated = async () => {
    const intent = { mandate_id, agent_secret, action };
    const { presentation } = (await ask('POST', '/api/v1/sandbox/presentations', intent, open)).json;
    const answer = await ask('POST', '/api/v1/verify', { presentation, action });
    return { presentation, id: (answer.json['escalation'] as { id: string }).id };
  };
  const { presentation, id } = await escalated();
  t.match((await ask('GET', `/api/v1/escalations/${id}`)).json, { status: 'pending' });
  const answer = (verb: string) => ask('POST', `/api/v1/sandbox/escalations/${id}/${verb}`, { agent_secret }, open);
  t.equal((await answer('approve')).status, 200);
  t.equal((await answer('reject')).status, 409);
  const { escalation_token } = (await ask('GET', `/api/v1/escalations/${id}`)).json;
  const allow = await ask('POST', '/api/v1/verify', { presentation, action, escalation_token });
  t.match(allow.json, { decision: 'allow', latency_ms: Number });
  const other = await escalated();
  const reject = `/api/v1/sandbox/escalations/${other.id}/reject`;
  t.match((await ask('POST', reject, { agent_secret }, open)).json, { status: 'rejected' });
  const unbound = await ask('POST', '/api/v1/sandbox/presentations', { mandate_id, agent_secret }, open);
  t.match(unbound.json, { presentation: { ctx: null } });
  t.equal((await ask('POST', '/api/v1/sandbox/presentations', { mandate_id, agent_secret: 'x' }, open)).status, 404);
  for (const method of ['GET', 'PUT', 'POST', 'DELETE', 'OPTIONS', 'HEAD', 'PATCH']) {
    const body = method === 'POST' || method === 'PUT' ? { order: 1 } : undefined;
    t.equal((await ask(method, '/api/sandbox/echo?n=1', body, open)).status, 200, method);
  }
});

t.test('every answer of the gateway is as the document says', async (t) => {
  const target = createServer((request, response) => {
    request.resume();
    response.writeHead(request.url === '/payments' ? 201 : 404, { 'content-type': 'text/plain' }).end('done');
  });
  await new Promise<void>((resolve) => void target.listen(0, '127.0.0.1', () => resolve()));
  t.teardown(() => target.close());
  const targetUrl = `http://127.0.0.1:${(target.address() as AddressInfo).port}`;
  const fixture = await fixtureOf(t, { targetUrl, limits: { per_action: 10_000, escalation_threshold: 5_000 } });
  const token = `Bearer ${fixture.account.token}`;
  const send = (amount: number, more: SendOptions = {}, path = 'payments') =>
    fixture.ask('POST', `/api/gateway/http/${path}`, { amount, currency: 'EUR' }, { token, ...more });
  t.match(await send(10), { status: 201, headers: { 'x-service-decision': 'allow' } });
  t.match((await send(200)).json, { error: 'service_deny', reasons: ['MD-302'] });
  t.match((await send(1, {}, 'orders/17/refund')).json, { reasons: ['MD-501'] });
  const escalated = await send(60);
  t.match(escalated.json, { error: 'service_escalate' });
  const { id } = escalated.json['escalation'] as { id: string };
  t.match((await fixture.ask('GET', `/api/v1/escalations/${id}`, undefined, { token })).json, { status: 'pending' });
  const headers = { 'idempotency-key': 'order-1' };
  t.equal((await send(10, { headers })).status, 201);
  t.match((await send(10, { headers })).headers, { 'x-idempotent-replay': 'true' });
  t.equal((await send(11, { headers })).status, 422);
  t.equal((await send(10, { token: `Bearer ${newSecretToken('gwt')}` })).status, 401);
  t.equal((await send(10, { headers: { 'content-encoding': 'gzip' } })).status, 415);
  t.equal((await send(10, {}, 'a//b')).status, 400);
  target.close();
  target.closeAllConnections();
  const away = await send(10);
  t.match(away, { status: 502, json: { error: 'target_unreachable' }, headers: { 'x-service-receipt': /^rcp_/ } });
});

t.test('every refusal is as the document says, whatever is wrong with the request', async (t) => {
  const { ask, document, sql, account, ...fixture } = await fixtureOf(t);
  const { apiKey: bare } = await seedKey(sql, account, ['evidence:read']);
  for (const [template, item] of Object.entries(document.paths)) {
    const path = template
      .replace('{tool_path}', 'payments')
      .replace('{id}', newTypeId(template.includes('mandates') ? 'mdt' : 'esc', 0));
    for (const method of Object.keys(item).filter((name) => name !== 'parameters')) {
      const verb = method.toUpperCase();
      const bodies = verb === 'POST' ? ['{', '{}', '[]', '{"a":1,"a":1}', `{"a":"${'x'.repeat(20_000)}"}`] : [null];
      for (const body of bodies) {
        for (const token of [null, 'Bearer mak_x', `Bearer ${bare}`, `Bearer ${fixture.apiKey}`]) {
          const answer = await ask(verb, path, undefined, { token, body });
          t.ok(answer.status < 500, `${verb} ${path} ${answer.status}`);
        }
      }
      if (verb === 'POST') await ask(verb, path, undefined, { body: 'a=1', headers: { 'content-type': 'text/plain' } });
    }
  }
  for (const path of ['/api/v1/nowhere', '/api/v1/verify/', '/api/v1/%zz', '/api/v1/x%2fy']) await ask('GET', path);
  t.equal((await ask('DELETE', '/api/v1/consumptions')).status, 405);
});

t.test('the product rates are told, and a refusal by them is as the document says', async (t) => {
  const { ask } = await fixtureOf(t, { ownRates: true });
  const answers = await Promise.all(
    Array.from({ length: 40 }, () => ask('GET', '/api/v1/denial-codes', undefined, { token: null })),
  );
  t.ok(
    answers.some(({ status }) => status === 429),
    'some were too many',
  );
});
