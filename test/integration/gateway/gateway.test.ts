import t from 'tap';
import { monthOf } from '../decisions/lane-client.ts';
import { gatewayFixture } from './gateway-fixture.ts';

t.test('an allowed request reaches the target byte for byte, with what was stripped stripped', async (t) => {
  const { send, ledger, sql, account } = await gatewayFixture(t);
  const body = '{ "amount": 1.00, "currency":"EUR",\n"counterparty":"acme" }';
  const answer = await send({
    body,
    headers: {
      'x-service-decision': 'allow',
      'x-http-method-override': 'DELETE',
      x_http_method_override: 'DELETE',
      'x-forwarded-for': '10.0.0.1',
      forwarded: 'for=10.0.0.1',
      connection: 'x-secret-hop',
      'x-secret-hop': '1',
      'x-kept': 'yes',
    },
  });
  t.equal(answer.status, 201);
  t.equal(answer.headers['x-service-decision'], 'allow');
  t.match(answer.headers['x-service-receipt'], /^rcp_/);
  t.match(answer.headers, { 'cache-control': 'no-store', 'x-ratelimit-limit': /./, 'x-ratelimit-remaining': /./ });
  t.equal(ledger.length, 1);
  const [got] = ledger;
  t.equal(got?.body.toString(), body);
  t.equal(got?.url, '/payments');
  t.equal(got?.headers['x-kept'], 'yes');
  t.equal(got?.headers['x-service-receipt'], answer.headers['x-service-receipt']);
  const gone = ['authorization', 'x-service-decision', 'x-http-method-override', 'x_http_method_override'];
  for (const name of [...gone, 'x-forwarded-for', 'forwarded', 'x-secret-hop']) {
    t.notOk(got?.headers[name], `${name} is not forwarded`);
  }
  const month = await monthOf(sql, account);
  t.equal(month.reserved + month.booked, 100);
});

t.test('a denied request forwards nothing and says why', async (t) => {
  const { send, ledger } = await gatewayFixture(t, { limits: { per_action: 50 } });
  const answer = await send();
  t.equal(answer.status, 403);
  t.match(answer.json, { error: 'service_deny', reasons: ['MD-302'], reason_text: /0\.50 above/, receipt_id: /^rcp_/ });
  t.equal(answer.headers['x-service-decision'], 'deny');
  t.equal(answer.headers['x-service-receipt'], answer.json['receipt_id']);
  t.equal(ledger.length, 0);
});

t.test('an unknown path is denied MD-501 and becomes a tool', async (t) => {
  const { send, ledger, sql } = await gatewayFixture(t);
  const answer = await send({ path: '/api/gateway/http/v1/refunds?x=1', body: '{}' });
  t.match(answer.json, { error: 'service_deny', reasons: ['MD-501'] });
  t.match(await sql`select state from tools where key = 'http.post:/v1/refunds'`, [{ state: 'unmapped' }]);
  t.equal(ledger.length, 0);
});

t.test('malformed requests leave nothing behind', async (t) => {
  const { send, ledger, sql } = await gatewayFixture(t);
  const cases: [string, Parameters<typeof send>[0], number, string][] = [
    ['duplicate names', { body: '{"amount":1,"\\u0061mount":2}' }, 400, 'malformed_json'],
    ['not JSON', { body: '{"amount":1' }, 400, 'malformed_json'],
    ['a number that is not exact', { body: '{"amount":9007199254740993}' }, 400, 'malformed_json'],
    ['dot segments', { path: '/api/gateway/http/pay/%2e%2e/admin' }, 400, 'ambiguous_path'],
    ['empty segments', { path: '/api/gateway/http/pay//admin' }, 400, 'ambiguous_path'],
    ['an encoded slash', { path: '/api/gateway/http/pay%2fadmin' }, 400, 'ambiguous_path'],
    ['a backslash', { path: '/api/gateway/http/pay\\admin' }, 400, 'ambiguous_path'],
    ['an encoding', { headers: { 'content-encoding': 'gzip' } }, 415, 'unsupported_media_type'],
    ['a charset', { headers: { 'content-type': 'application/json; charset=utf-16' } }, 415, 'unsupported_media_type'],
    ['repeated authorization', { headers: { authorization: ['Bearer a', 'Bearer b'] } }, 400, 'repeated_header'],
    ['no token', { token: null }, 401, 'unauthenticated'],
    ['another kind of token', { token: `Bearer mak_${'A'.repeat(43)}` }, 401, 'unauthenticated'],
    ['a token nobody has', { token: `Bearer gwt_${'A'.repeat(43)}` }, 401, 'unauthenticated'],
    ['TRACE', { method: 'TRACE', body: null }, 405, 'method_not_allowed'],
    ['a body that is too large', { body: ` ${'x'.repeat(1024 * 1024)}` }, 413, 'payload_too_large'],
    ['a declared trailer', { headers: { trailer: 'x-sum', 'transfer-encoding': 'chunked' } }, 400, 'trailers_refused'],
    ['duplicate fields', { ...form('amount=1&amount=2') }, 400, 'malformed_form'],
  ];
  for (const [what, given, status, error] of cases) {
    const answer = await send(given);
    t.equal(answer.status, status, `${what}: ${answer.text}`);
    t.match(answer.json, { error, status, request_id: /^req_/ }, what);
    t.match(answer.headers, { 'content-type': 'application/problem+json', 'x-ratelimit-limit': /./ }, what);
  }
  t.equal(ledger.length, 0, 'no forwarded byte');
  t.same(await sql`select count(*) as count from reservations`, [{ count: 0 }], 'no reservation');
  t.same(await sql`select count(*) as count from tools`, [{ count: 1 }], 'no orphan tool');
  t.same(await sql`select count(*) as count from evidence`, [{ count: 0 }]);
});

function form(body: string) {
  return { body, headers: { 'content-type': 'application/x-www-form-urlencoded' } };
}

t.test('how the target answers is how the amount is booked', async (t) => {
  const fixture = await gatewayFixture(t, { targetTimeoutMs: 300 });
  const { send, sql, account, behave } = fixture;
  const cases: [string, Parameters<typeof behave>[0], number | null, string][] = [
    ['200', (_q, r) => r.end('ok'), 200, 'booked'],
    [
      '302 is passed on, not followed',
      (_q, r) => r.writeHead(302, { location: 'http://127.0.0.1:1/' }).end(),
      302,
      'booked',
    ],
    ['422', (_q, r) => r.writeHead(422).end('no'), 422, 'released'],
    ['500', (_q, r) => r.writeHead(500).end('oops'), 500, 'unknown'],
    ['a reset', (_q, r) => r.socket?.destroy(), 502, 'unknown'],
    ['silence', () => {}, 504, 'unknown'],
    ['not HTTP', (_q, r) => r.socket?.end('nonsense\r\n\r\n'), 502, 'unknown'],
    [
      'half a body',
      (_q, r) => {
        r.writeHead(200, { 'content-length': 10 });
        r.write('half');
        setImmediate(() => r.socket?.destroy());
      },
      502,
      'unknown',
    ],
  ];
  for (const [what, behaviour, status, outcome] of cases) {
    behave(behaviour);
    const answer = await send();
    t.equal(answer.status, status, what);
    const receipt = String(answer.headers['x-service-receipt']);
    const settled = await outcomeOf(sql, receipt);
    t.match(settled, { outcome, receipt_id: receipt }, what);
  }
  t.same(await monthOf(sql, account), { reserved: 500, booked: 200 });
});

/** The outcome in the evidence; outcomes of what is booked or unknown follow within milliseconds. */
async function outcomeOf(sql: Awaited<ReturnType<typeof gatewayFixture>>['sql'], receipt: string) {
  for (let i = 0; i < 200; i++) {
    const rows = await sql<{ body: string }[]>`
      select o::text as body from evidence, json_array_elements(body::json -> 'outcomes') o
      where kind = 'outcome' and o ->> 'receipt_id' = ${receipt}`;
    if (rows[0] !== undefined) return JSON.parse(rows[0].body) as Record<string, unknown>;
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
  return null;
}

t.test('a target that is not there releases the amount before the agent is told', async (t) => {
  const { send, sql, account } = await gatewayFixture(t);
  await sql`update gateway_instances set target_url = 'http://127.0.0.1:1', config_version = 3`;
  const answer = await send();
  t.equal(answer.status, 502);
  t.match(answer.json, { error: 'target_unreachable' });
  t.same(await monthOf(sql, account), { reserved: 0, booked: 0 });
});

t.test('private targets are refused at connect time unless they are allowed', async (t) => {
  const { send, ledger } = await gatewayFixture(t, { allowPrivateTargets: false });
  const answer = await send();
  t.match(answer.json, { error: 'target_unreachable', detail: /range/ });
  t.equal(ledger.length, 0);
});

t.test('one idempotency key is forwarded once and then answered from the store', async (t) => {
  const { send, ledger } = await gatewayFixture(t);
  const key = { headers: { 'idempotency-key': 'order-1' } };
  const first = await send(key);
  const second = await send(key);
  t.equal(ledger.length, 1);
  t.equal(ledger[0]?.headers['idempotency-key'], 'order-1');
  t.equal(second.headers['x-idempotent-replay'], 'true');
  t.equal(second.headers['x-service-receipt'], first.headers['x-service-receipt']);
  t.same([second.status, second.text], [first.status, first.text]);
  const other = await send({ ...key, body: '{"amount":2,"currency":"EUR"}' });
  t.match([other.status, other.json], [422, { error: 'idempotency_mismatch' }]);
});

t.test('without a control plane every request is 503 and none reaches the target', async (t) => {
  const { send, ledger, stopControlPlane } = await gatewayFixture(t);
  t.equal((await send()).status, 201);
  await stopControlPlane();
  for (let i = 0; i < 5; i++) {
    const answer = await send();
    t.match([answer.status, answer.json], [503, { error: 'not_decidable' }]);
    t.ok(answer.headers['retry-after']);
  }
  t.equal(ledger.length, 1);
});

t.test('an event stream arrives piece by piece', async (t) => {
  const { behave, proxyPort, account } = await gatewayFixture(t);
  let next: (() => void) | undefined;
  behave((_request, response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    response.write('data: 1\n\n');
    next = () => response.end('data: 2\n\n');
  });
  const response = await fetch(`http://127.0.0.1:${proxyPort}/api/gateway/http/payments`, {
    method: 'POST',
    headers: { authorization: `Bearer ${account.token}`, 'content-type': 'application/json' },
    body: '{"amount":1,"currency":"EUR"}',
  });
  const reader = response.body!.getReader();
  const first = await reader.read();
  t.equal(Buffer.from(first.value!).toString(), 'data: 1\n\n', 'the first event is there before the second is sent');
  next?.();
  t.equal(Buffer.from((await reader.read()).value!).toString(), 'data: 2\n\n');
});

t.test('the stored credential is added, replaces the agent’s own, and never comes back', async (t) => {
  const { send, ledger, sql, behave } = await gatewayFixture(t);
  await sql`update gateway_instances set credential_header = 'X-Api-Key',
    credential_sealed = '\\x00', config_version = 9`;
  // The fixture's custody opens every credential to the word `secret`, which is too short to be searched for.
  await send({ headers: { 'x-api-key': 'agent' } });
  t.same(
    ledger[0]?.rawHeaders.filter((_, i, all) => all[i - 1]?.toLowerCase() === 'x-api-key'),
    ['secret'],
  );
  behave((_request, response) => response.end('fine'));
  t.equal((await send()).text, 'fine');
});
