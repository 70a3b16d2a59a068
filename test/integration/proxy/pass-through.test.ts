import { once } from 'node:events';
import type { IncomingMessage, ServerResponse } from 'node:http';
import t from 'tap';
import { begin, readAnswer, send, TOKEN } from './agent.ts';
import { INTERNAL_SECRET, RATE } from './fake-control-plane.ts';
import { proxyFixture } from './proxy-fixture.ts';
import { Target } from './target.ts';

t.test('the other paths of the API go to the control plane, which learns from the proxy alone who asked', async (t) => {
  const admin = await new Target().start();
  t.teardown(() => admin.stop());
  const { port, target, control } = await proxyFixture(t, { controlUrl: admin.url });
  for (const path of ['/api/v1/escalations/esc_1?x=1', '/.well-known/jwks.json']) {
    const answer = await send(port, path, {
      method: 'GET',
      headers: {
        'x-forwarded-for': '203.0.113.9',
        forwarded: 'for=203.0.113.9',
        'x-real-ip': '203.0.113.9',
        'x-mandate-internal-secret': 'forged',
      },
    });
    t.equal(answer.status, 201);
    const received = admin.ledger.at(-1);
    t.equal(received?.url, path);
    t.equal(
      received?.headers.authorization,
      `Bearer ${TOKEN}`,
      'whose request it is, is for the control plane to judge',
    );
    t.equal(received?.headers['x-forwarded-for'], '127.0.0.1');
    t.equal(received?.headers['x-mandate-internal-secret'], INTERNAL_SECRET, 'by which the control plane believes it');
    t.notMatch(JSON.stringify(received?.rawHeaders), /203\.0|forged/);
  }
  t.same(control.asks, []);
  t.equal(target.begun, 0);
});

t.test('no sender can have removed what the proxy says about it', async (t) => {
  const admin = await new Target().start();
  t.teardown(() => admin.stop());
  const { port } = await proxyFixture(t, { controlUrl: admin.url });
  for (const name of [
    'X-Forwarded-For',
    'X-Mandate-Internal-Secret',
    'close, x-forwarded-for, x-mandate-internal-secret',
  ]) {
    const answer = await send(port, '/api/v1/x', {
      method: 'GET',
      headers: { connection: name, 'x-forwarded-for': '::2' },
    });
    t.equal(answer.status, 201);
    const { headers } = admin.ledger.at(-1) ?? { headers: {} };
    t.match(headers, { 'x-forwarded-for': '127.0.0.1', 'x-mandate-internal-secret': INTERNAL_SECRET }, name);
  }
});

t.test('what two readers could take for two requests is not passed on', async (t) => {
  const admin = await new Target().start();
  t.teardown(() => admin.stop());
  const { port } = await proxyFixture(t, { controlUrl: admin.url });
  for (const path of ['/api/../admin/login', '/api/%2e%2E/admin/login', '/api//v1/x', '/api/v1%2fx', '/api/v1/./x']) {
    const answer = await send(port, path, { method: 'GET' });
    t.same([answer.status, answer.json['error']], [400, 'ambiguous_path'], path);
  }
  for (const name of ['authorization', 'Idempotency-Key']) {
    const request = begin(port, '/api/v1/x', {
      method: 'GET',
      headers: ['Host', 'x', name, 'Bearer a', name, 'Bearer b'],
    });
    const answered = new Promise<Parameters<typeof readAnswer>[0]>((resolve) => request.once('response', resolve));
    request.end();
    const answer = await readAnswer(await answered);
    t.same([answer.status, answer.json['error']], [400, 'repeated_header'], name);
  }
  t.same(admin.ledger, []);
});

t.test('what the proxy answers itself costs its sender a request and tells its rate', async (t) => {
  const { port, control } = await proxyFixture(t);
  for (const [path, status] of [
    ['/nowhere', 404],
    ['/api/v1/x', 503],
    ['/api/%zz', 400],
  ] as const) {
    const answer = await send(port, path, { method: 'GET', token: null });
    t.equal(answer.status, status, path);
    t.match(answer.headers['content-type'], /^application\/problem\+json/, path);
    t.match(answer.headers, { 'x-ratelimit-limit': String(RATE[0]), 'x-ratelimit-remaining': String(RATE[1]) }, path);
    t.match(answer.headers, { 'x-ratelimit-reset': String(RATE[2]), 'cache-control': 'no-store' }, path);
    t.equal(answer.json['request_id'], answer.headers['x-request-id'], path);
  }
  t.same(
    control.charges,
    Array.from({ length: 3 }, () => ({ token_hash: null, address: '127.0.0.1' })),
  );
  control.chargeAnswer = { rate: [20, 0, 2], retry_after_s: 1 };
  const refused = await send(port, '/nowhere', { method: 'GET', token: null });
  t.same([refused.status, refused.json['error'], refused.headers['retry-after']], [429, 'rate_limited', '1']);
});

t.test('the console is behind the same address: pages, cookies, forms and events pass', async (t) => {
  const admin = await new Target().start();
  t.teardown(() => admin.stop());
  const { port, control, target } = await proxyFixture(t, { controlUrl: admin.url });
  const root = await send(port, '/', { method: 'GET', token: null });
  t.same([root.status, root.headers.location, root.headers['cache-control']], [303, '/console', 'no-store']);
  admin.respond = (_request, response) => {
    response.writeHead(303, { location: '/console/keys', 'set-cookie': ['a=1; Path=/', 'b=2; Path=/'] }).end();
  };
  const answer = await send(port, '/console/keys?x=1', {
    token: null,
    headers: {
      host: 'mandate.example',
      cookie: '__Host-mandate_session=ses_x; other=1',
      origin: 'https://mandate.example',
      'sec-fetch-site': 'same-origin',
      'content-type': 'application/x-www-form-urlencoded',
      'x-forwarded-host': 'evil.example',
    },
    body: 'csrf=x&name=a+b',
  });
  t.same([answer.status, answer.headers.location], [303, '/console/keys']);
  t.same(answer.headers['set-cookie'], ['a=1; Path=/', 'b=2; Path=/']);
  const received = admin.ledger.at(-1);
  t.match(received, { method: 'POST', url: '/console/keys?x=1' });
  t.equal(received?.body.toString(), 'csrf=x&name=a+b');
  t.match(received?.headers, {
    cookie: '__Host-mandate_session=ses_x; other=1',
    origin: 'https://mandate.example',
    'sec-fetch-site': 'same-origin',
    'x-forwarded-host': 'mandate.example',
    'x-forwarded-for': '127.0.0.1',
  });
  let events: ServerResponse | undefined;
  admin.respond = (_request, response) => {
    events = response.writeHead(200, { 'content-type': 'text/event-stream' });
    events.write('data: 1\n\n');
  };
  const request = begin(port, '/console/approvals/events', { method: 'GET', token: null });
  request.end();
  const [stream] = (await once(request, 'response')) as [IncomingMessage];
  const pieces = stream[Symbol.asyncIterator]();
  t.equal(String((await pieces.next()).value), 'data: 1\n\n', 'before the next one is made');
  events?.write('data: 2\n\n');
  t.equal(String((await pieces.next()).value), 'data: 2\n\n');
  events?.end();
  t.equal((await pieces.next()).done, true);
  t.same([control.asks, target.begun], [[], 0], 'and none of it is a request for the gateway');
});

t.test('a request is passed on once, whatever is answered', async (t) => {
  const admin = await new Target().start();
  t.teardown(() => admin.stop());
  admin.respond = (_request, response) => response.writeHead(503, { 'retry-after': '1' }).end('{}');
  const { port } = await proxyFixture(t, { controlUrl: admin.url });
  t.equal((await send(port, '/api/v1/x', { method: 'GET' })).status, 503);
  t.equal(admin.ledger.length, 1);
});

t.test('without a control plane the other paths are 503', async (t) => {
  const { port } = await proxyFixture(t);
  const answer = await send(port, '/api/v1/escalations/esc_1', { method: 'GET' });
  t.equal(answer.status, 503);
  t.equal(answer.json['error'], 'not_decidable');
  t.equal(answer.headers['retry-after'], '1');
});

t.test('a body larger than anything takes that is passed on is refused here, and whole: 413', async (t) => {
  const admin = await new Target().start();
  t.teardown(() => admin.stop());
  const { port } = await proxyFixture(t, { controlUrl: admin.url });
  const refused = await send(port, '/api/v1/consumptions', { method: 'POST', body: 'x'.repeat(256 * 1024 + 1) });
  t.equal(refused.status, 413);
  t.match(refused.headers, { 'content-type': 'application/problem+json', 'x-ratelimit-limit': String(RATE[0]) });
  t.same(admin.ledger, []);
  const passed = await send(port, '/api/v1/consumptions', { method: 'POST', body: 'x'.repeat(256 * 1024) });
  t.equal(passed.status, 201);
  const form = { method: 'POST', body: 'x'.repeat(1024 * 1024), token: null };
  t.equal((await send(port, '/console/gateways/gwi_x/tools/import', form)).status, 201, 'a form may hold a document');
});
