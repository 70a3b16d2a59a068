import t, { type Test } from 'tap';
import { secretHash, secretTokenOf } from '../../../core/secret-token.ts';
import { type Answer, PAYMENT, pay, type SendOptions, send, sendRaw, TOKEN } from './agent.ts';
import { FREE, PAYMENTS, RATE } from './fake-control-plane.ts';
import { type ProxyFixture, proxyFixture } from './proxy-fixture.ts';

/** A refusal is problem+json with the headers of every answer; nothing was asked, nothing reached the target. */
function refused(t: Test, { target, control }: ProxyFixture, answer: Answer, status: number, error: string): void {
  t.equal(answer.status, status, error);
  t.equal(answer.json['error'], error);
  t.equal(answer.headers['content-type'], 'application/problem+json');
  t.equal(answer.headers['cache-control'], 'no-store');
  t.equal(answer.headers['x-request-id'], answer.json['request_id']);
  t.equal(answer.headers['x-ratelimit-limit'], String(RATE[0]));
  t.equal(answer.headers['x-ratelimit-remaining'], String(RATE[1]));
  t.equal(answer.headers['x-ratelimit-reset'], String(RATE[2]));
  t.same(control.asks, [], 'nothing was asked');
  t.equal(target.begun, 0, 'nothing reached the target');
}

const G = '/api/gateway/http';

t.test('an ambiguous path or query is refused before anything else, even before the token is looked at', async (t) => {
  const fixture = await proxyFixture(t);
  const paths = [
    'a/../b',
    './a',
    'a//b',
    'a/',
    '/a',
    '%2e%2e/a',
    'a%2fb',
    'a%5Cb',
    'a%00',
    'a;x',
    'a%zz',
    'a%ff',
    '%61',
  ];
  for (const path of [...paths, 'a%252f', 'a\\b']) {
    refused(t, fixture, await send(fixture.port, `${G}/${path}`, { token: null }), 400, 'ambiguous_path');
  }
  for (const query of ['a=%zz', 'a=%ff', 'a="b"', '_method=delete', 'a=<b>']) {
    refused(t, fixture, await send(fixture.port, `${G}/a?${query}`, { token: null }), 400, 'ambiguous_query');
  }
});

t.test('only the methods of the gateway are forwarded, in upper case exactly', async (t) => {
  const fixture = await proxyFixture(t);
  for (const method of ['PROPFIND', 'LINK', 'PURGE', 'MKCOL']) {
    refused(t, fixture, await pay(fixture.port, { method }), 405, 'method_not_allowed');
  }
  const trace = await sendRaw(fixture.port, `TRACE ${G}/payments HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n`);
  t.match(trace, /^HTTP\/1\.1 405 /);
  for (const method of ['post', 'Post', 'GETT']) {
    const answer = await sendRaw(
      fixture.port,
      `${method} ${G}/payments HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n`,
    );
    t.match(answer, /^HTTP\/1\.1 (400|405) /, method);
  }
  t.same(fixture.control.asks, []);
});

t.test('a token must be there, once, well-formed and of the right kind', async (t) => {
  const fixture = await proxyFixture(t);
  const wrong = [
    ['no header', {}],
    ['another scheme', { authorization: `Basic ${TOKEN}` }],
    ['no scheme', { authorization: TOKEN }],
    ['an API key', { authorization: `Bearer ${secretTokenOf('mak', Buffer.alloc(32, 1))}` }],
    ['too short', { authorization: `Bearer ${TOKEN.slice(0, -1)}` }],
    ['another spelling of the same bytes', { authorization: `Bearer ${TOKEN.slice(0, -1)}d` }],
    ['two of them in one header', { authorization: `Bearer ${TOKEN}, Bearer ${TOKEN}` }],
  ] as const;
  for (const [what, headers] of wrong) {
    const answer = await pay(fixture.port, { token: null, headers });
    refused(t, fixture, answer, 401, 'unauthenticated');
    t.match(answer.headers['www-authenticate'], /^Bearer/, what);
  }
  t.ok(
    fixture.control.charges.every(({ token_hash }) => token_hash === null),
    'whoever shows no token is counted by address',
  );
});

t.test('headers that two servers could read differently are refused when they are repeated', async (t) => {
  const fixture = await proxyFixture(t);
  const once = { authorization: `Bearer ${TOKEN}`, 'content-type': 'application/json', host: 'x' };
  for (const [name, first, second] of [
    ['authorization', `Bearer ${TOKEN}`, `Bearer ${TOKEN}`],
    ['Host', 'x', 'y'],
    ['idempotency-key', 'a', 'b'],
    ['X-Service-Escalation-Token', 'a', 'b'],
    ['content-type', 'application/json', 'text/plain'],
    ['content-encoding', 'identity', 'identity'],
  ] as const) {
    const headers = Object.entries(once).filter(([known]) => known !== name.toLowerCase());
    const list = [...headers, [name, first], [name.toUpperCase(), second]].flat();
    const answer = await pay(fixture.port, { headers: [...list, 'content-length', String(PAYMENT.length)] });
    refused(t, fixture, answer, 400, 'repeated_header');
  }
});

t.test('a body that would have to be undone first is 415', async (t) => {
  const fixture = await proxyFixture(t);
  const wrong = [
    { 'content-encoding': 'gzip' },
    { 'content-encoding': 'identity, gzip' },
    { 'content-type': 'application/json; charset=utf-16' },
    { 'content-type': 'application/json;charset="iso-8859-1"' },
    { 'content-type': 'application/vnd.api+json; charset=latin1' },
    { 'content-type': 'application/x-www-form-urlencoded; charset=utf-7' },
  ];
  for (const headers of wrong) {
    refused(t, fixture, await pay(fixture.port, { headers }), 415, 'unsupported_media_type');
  }
  for (const type of ['application/json; charset=utf-8', 'application/json;charset="UTF-8"', 'Application/JSON']) {
    t.equal((await pay(fixture.port, { headers: { 'content-type': type } })).status, 201, type);
  }
});

t.test('JSON and forms that are not strict are 400 with the place, and nothing is recorded', async (t) => {
  const fixture = await proxyFixture(t);
  for (const body of ['{"amount":1,"amount":2}', '{"a":1}x', '{"a":', '\ufeff{}', '{"a":1e400}', 'NaN', "{'a':1}"]) {
    const answer = await pay(fixture.port, { body });
    refused(t, fixture, answer, 400, 'malformed_json');
    t.match(String(answer.json['detail']), /[0-9]/, 'it says where');
  }
  refused(t, fixture, await pay(fixture.port, { body: Buffer.from([0x22, 0xff, 0x22]) }), 400, 'malformed_json');
  const headers = { 'content-type': 'application/x-www-form-urlencoded' };
  for (const body of ['a=1&a=2', 'a', 'a=%zz', 'a=1&&b=2', 'a=é', '_method=delete']) {
    refused(t, fixture, await pay(fixture.port, { body, headers }), 400, 'malformed_form');
  }
});

t.test('a body above its limit is 413, whether it announces its length or not', async (t) => {
  const fixture = await proxyFixture(t);
  t.equal((await pay(fixture.port)).status, 201, 'the proxy holds the mapping');
  fixture.control.asks.length = 0;
  fixture.target.begun = 0;
  const body = `{"amount":1,"currency":"EUR","note":"${'x'.repeat(PAYMENTS.body_limit_bytes)}"}`;
  for (const headers of [{}, { 'transfer-encoding': 'chunked' }]) {
    const answer = await pay(fixture.port, { body, headers });
    t.equal(answer.status, 413);
    t.equal(answer.json['error'], 'payload_too_large');
    t.equal(fixture.target.begun, 0);
  }
});

t.test("a tool's own body limit holds, lower or higher than the default, from the first request on", async (t) => {
  const fixture = await proxyFixture(t);
  fixture.map('http.post:/small', { ...PAYMENTS, body_limit_bytes: 64 });
  fixture.map('http.post:/large', { ...PAYMENTS, body_limit_bytes: 4 * 1024 * 1024 });
  const small = `{"amount":1,"currency":"EUR","note":"${'x'.repeat(64)}"}`;
  const large = `{"amount":1,"currency":"EUR","note":"${'x'.repeat(2 * 1024 * 1024)}"}`;
  for (const round of [1, 2]) {
    const answer = await send(fixture.port, `${G}/small`, { body: small });
    t.equal(answer.json['error'], 'payload_too_large', `round ${round}`);
    t.equal((await send(fixture.port, `${G}/large`, { body: large })).status, 201, `round ${round}`);
  }
  t.same(
    fixture.target.ledger.map(({ url }) => url),
    ['/large', '/large'],
  );
  t.equal(fixture.target.ledger[0]?.body.length, large.length);
});

t.test('a limit that was raised counts at once, also where the proxy holds the old one', async (t) => {
  const fixture = await proxyFixture(t);
  const body = `{"amount":1,"currency":"EUR","note":"${'x'.repeat(200)}"}`;
  fixture.map('http.post:/payments', { ...PAYMENTS, body_limit_bytes: 100 });
  t.equal((await pay(fixture.port, { body })).status, 413);
  const raised = { ...PAYMENTS, body_limit_bytes: 1000 };
  const known = fixture.control.tools.get('http.post:/payments');
  if (known !== undefined) fixture.control.tools.set(known.key, { ...known, version: 2, mapping: raised });
  t.equal((await pay(fixture.port, { body })).status, 201);
});

t.test(
  'whoever sends too much still reads the answer, and no connection hangs after it',
  { timeout: 20_000 },
  async (t) => {
    const fixture = await proxyFixture(t);
    fixture.control.tools.clear();
    fixture.control.decide = () => fixture.control.deny('MD-501', 'not mapped');
    const body = `{"note":"${'x'.repeat(3 * 1024 * 1024)}"}`;
    const head = `POST ${G}/unmapped HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${TOKEN}\r\n`;
    const first = `${head}content-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`;
    const second = `GET ${G}/unmapped HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n`;
    const answers = await sendRaw(fixture.port, [first, second]);
    t.match(answers, /^HTTP\/1\.1 (403|413) /);
  },
);

t.test('an idempotency key is 1 to 255 visible ASCII characters', async (t) => {
  const fixture = await proxyFixture(t);
  for (const key of ['', 'a b', 'x'.repeat(256), 'é']) {
    const answer = await pay(fixture.port, { headers: { 'idempotency-key': key } });
    refused(t, fixture, answer, 400, 'malformed_request');
  }
});

t.test('trailers are refused, announced or not, and nothing is forwarded', async (t) => {
  const fixture = await proxyFixture(t);
  const head =
    `POST ${G}/payments HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${TOKEN}\r\n` +
    'content-type: application/json\r\ntransfer-encoding: chunked\r\nconnection: close\r\n';
  const chunk = `${PAYMENT.length.toString(16)}\r\n${PAYMENT}\r\n0\r\n`;
  for (const bytes of [`${head}trailer: x-a\r\n\r\n${chunk}x-a: 1\r\n\r\n`, `${head}\r\n${chunk}x-a: 1\r\n\r\n`]) {
    const answer = await sendRaw(fixture.port, bytes);
    t.match(answer, /^HTTP\/1\.1 400 /);
    t.match(answer, /trailers_refused/);
  }
  t.same(fixture.control.asks, []);
  t.equal(fixture.target.begun, 0);
});

t.test('Expect: 100-continue is answered for, anything else that is expected is 417', async (t) => {
  const fixture = await proxyFixture(t);
  const head = `POST ${G}/payments HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\nconnection: close\r\n`;
  const length = `content-length: ${PAYMENT.length}\r\n`;
  const token = `authorization: Bearer ${TOKEN}\r\n`;
  const answer = await sendRaw(fixture.port, `${head}${token}${length}expect: 100-continue\r\n\r\n${PAYMENT}`);
  t.match(answer, /^HTTP\/1\.1 100 Continue\r\n\r\nHTTP\/1\.1 201 /);
  t.notOk('expect' in (fixture.target.ledger[0]?.headers ?? {}), 'the target is not asked to expect anything');
  const other = await sendRaw(fixture.port, `${head}${token}${length}expect: 200-ok\r\n\r\n${PAYMENT}`);
  t.match(other, /^HTTP\/1\.1 417 /);
  t.equal(fixture.target.begun, 1);
});

t.test('an agent whose bucket is empty gets 429 for malformed requests as well', async (t) => {
  const fixture = await proxyFixture(t);
  fixture.control.chargeAnswer = { rate: [500, 0, 5], retry_after_s: 3 };
  const answer = await pay(fixture.port, { body: '{' });
  t.equal(answer.status, 429);
  t.equal(answer.json['error'], 'rate_limited');
  t.equal(answer.headers['retry-after'], '3');
  t.equal(answer.headers['x-ratelimit-remaining'], '0');
  t.same(fixture.control.charges, [{ token_hash: secretHash(TOKEN), address: '127.0.0.1' }]);
});

t.test('with the control plane away or stuck, a malformed request still gets its own answer', async (t) => {
  const options: SendOptions = { body: '{' };
  const stuck = await proxyFixture(t, { decisionTimeoutMs: 300 });
  stuck.control.onBatch = () => 'hang';
  t.equal((await pay(stuck.port, options)).json['error'], 'malformed_json');
  const away = await proxyFixture(t, { decisionTimeoutMs: 300 });
  await away.control.stop();
  t.equal((await pay(away.port, options)).json['error'], 'malformed_json');
  t.equal((await pay(away.port, { token: null })).json['error'], 'unauthenticated');
});

t.test('a path outside the gateway is not a way around it', async (t) => {
  const fixture = await proxyFixture(t);
  fixture.map('http.post:/payments', FREE);
  for (const path of ['/api/gateway/HTTP/payments', '/api/%67ateway/http/payments', '/API/gateway/http/payments']) {
    const answer = await send(fixture.port, path, { body: PAYMENT });
    t.ok(answer.status >= 400, `${path}: ${answer.status}`);
  }
  const absolute = await sendRaw(
    fixture.port,
    `POST http://x${G}/payments HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${TOKEN}\r\n` +
      'content-length: 0\r\nconnection: close\r\n\r\n',
  );
  t.match(absolute, /^HTTP\/1\.1 4/);
  t.equal(fixture.target.begun, 0);
});
