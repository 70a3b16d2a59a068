import { once } from 'node:events';
import t from 'tap';
import { PAYMENT, pay, send, sendRaw, TOKEN } from './agent.ts';
import { FREE, PAYMENTS, RATE } from './fake-control-plane.ts';
import { proxyFixture } from './proxy-fixture.ts';
import { RawTarget } from './target.ts';

const G = '/api/gateway/http';
const CREDENTIAL = { header: 'X-Api-Key', value: 'secret-of-the-target' };

t.test('an allowed request reaches the target byte for byte, and its answer comes back with the receipt', async (t) => {
  const { port, target, control } = await proxyFixture(t);
  const body = '{ "amount":12.50 ,\n"currency":"EUR","counterparty":"acme", "extra": [1e2, "\\u00e9", {}] }';
  const answer = await pay(port, { body });
  t.equal(answer.status, 201);
  t.equal(answer.text, '{"ok":true}');
  t.equal(answer.headers['x-service-decision'], 'allow');
  t.equal(answer.headers['x-service-receipt'], 'rcp_1');
  t.equal(answer.headers['cache-control'], 'no-store');
  t.equal(answer.headers['x-ratelimit-limit'], String(RATE[0]));
  t.ok(answer.headers['x-request-id']);
  t.equal(target.ledger[0]?.body.toString(), body);
  t.equal(target.ledger[0]?.headers['content-length'], String(body.length));
  t.equal(target.ledger[0]?.headers['x-service-receipt'], 'rcp_1');
  t.match(control.asks.at(-1)?.reading, { ok: true, amount_minor: 1250, currency: 'EUR', counterparty: 'acme' });
});

t.test(
  'the path and query that were checked are the ones that are forwarded, under the base path of the target',
  async (t) => {
    const { port, target, control, map, pointTo } = await proxyFixture(t);
    const rests = [
      '',
      'a',
      "a/b:c@d/!$&'()*+,=~",
      'caf%C3%A9/x%20y',
      'a?b=c',
      'a?b',
      'a?b=%2F..%2F&c=/../x?y',
      'a?q=1&q=2',
    ];
    for (const rest of rests) {
      const [path = ''] = rest.split('?');
      map(`http.get:/${path.replaceAll('%3A', ':')}`, FREE);
    }
    control.mappingFor = (ask) => {
      const update = control.tools.get(ask.name);
      if (update === undefined || ask.tool?.id === update.id) return null;
      return { answer: 'mapping', tool: update };
    };
    for (const base of ['', '/', '/v1', '/v1/']) {
      pointTo(`${target.url}${base}`);
      target.ledger.length = 0;
      for (const rest of rests) {
        const answer = await send(port, `${G}/${rest}`, { method: 'GET' });
        t.equal(answer.status, 201, rest);
        t.equal(target.ledger.at(-1)?.url, `${base.replace(/\/$/, '')}/${rest}`);
        t.equal(control.asks.at(-1)?.request.path, `/${rest.split('?')[0]}`);
      }
    }
  },
);

t.test('every method of the gateway is forwarded as it is', async (t) => {
  const { port, target, map } = await proxyFixture(t);
  for (const method of ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'QUERY']) {
    map(`http.${method.toLowerCase()}:/thing`, FREE);
    const answer = await send(port, `${G}/thing`, { method });
    t.equal(answer.status, 201, method);
    t.equal(target.ledger.at(-1)?.method, method);
    t.equal(answer.text, method === 'HEAD' ? '' : '{"ok":true}');
  }
});

t.test("the agent's credential and everything that speaks of the way here stay behind", async (t) => {
  const { port, target, pointTo } = await proxyFixture(t);
  pointTo(target.url, CREDENTIAL);
  const stripped = [
    'proxy-authorization',
    'proxy-connection',
    'keep-alive',
    'te',
    'forwarded',
    'x-forwarded-for',
    'x-forwarded-host',
    'x-real-ip',
    'x-http-method-override',
    'x-http-method',
    'x-method-override',
    'x-service-decision',
    'x-service-receipt',
    'x-service-anything',
    'x_forwarded_for',
    'X_Service_Receipt',
    'x-api-key',
    'X_API_KEY',
    'x-named-by-connection',
  ];
  const forged = stripped.flatMap((name) => [name, 'forged']);
  const answer = await pay(port, {
    headers: [
      ...['authorization', `Bearer ${TOKEN}`, 'content-type', 'application/json', 'host', 'gateway.example'],
      ...['content-length', String(PAYMENT.length), 'connection', 'close, X-Named-By-Connection'],
      ...['accept-encoding', 'gzip', 'x-kept', 'a', 'X-Kept', 'b', 'idempotency-key', 'k1', ...forged],
    ],
  });
  t.equal(answer.status, 201);
  const [received] = target.ledger;
  t.notMatch(JSON.stringify(received?.rawHeaders), /forged|gwt_|gateway\.example/);
  t.equal(received?.headers.host, new URL(target.url).host);
  t.equal(received?.headers['x-api-key'], CREDENTIAL.value);
  t.equal(received?.headers['x-service-receipt'], answer.headers['x-service-receipt']);
  t.equal(received?.headers['accept-encoding'], 'gzip');
  t.equal(received?.headers['x-kept'], 'a, b');
  t.equal(received?.headers['idempotency-key'], 'k1', 'the target needs it as well');
});

t.test("a stored Authorization replaces the agent's own", async (t) => {
  const { port, target, pointTo } = await proxyFixture(t);
  pointTo(target.url, { header: 'authorization', value: 'Bearer of-the-target' });
  await pay(port);
  t.equal(target.ledger[0]?.headers.authorization, 'Bearer of-the-target');
});

t.test('what only the gateway may say cannot come from the target', async (t) => {
  const { port, target } = await proxyFixture(t);
  target.respond = (_request, response) => {
    response.writeHead(200, [
      ...['content-type', 'text/plain', 'set-cookie', 'a=1', 'set-cookie', 'b=2', 'etag', '"1"'],
      ...['X-Service-Decision', 'forged', 'x-service-receipt', 'forged', 'x-service-more', 'forged'],
      ...['X-RateLimit-Limit', 'forged', 'x-ratelimit-remaining', 'forged', 'x-ratelimit-reset', 'forged'],
      ...['x-idempotent-replay', 'forged', 'cache-control', 'public', 'connection', 'x-hop', 'x-hop', 'forged'],
      ...['keep-alive', 'timeout=77', 'trailer', 'x-late', 'x-ratelimit-remaining-tokens', '7'],
    ]);
    response.end('hello');
  };
  const answer = await pay(port);
  t.equal(answer.text, 'hello');
  t.notMatch(JSON.stringify(answer.rawHeaders), /forged|public|timeout=77|x-late/);
  t.same(answer.headers['set-cookie'], ['a=1', 'b=2']);
  t.equal(answer.headers['etag'], '"1"');
  t.equal(answer.headers['x-service-decision'], 'allow');
  t.equal(answer.headers['x-ratelimit-remaining-tokens'], '7', "the target's other limits are its own");
});

t.test('redirects are passed on and never followed', async (t) => {
  const { port, target, control } = await proxyFixture(t);
  for (const status of [301, 302, 303, 307, 308]) {
    target.respond = (_request, response) => {
      response.writeHead(status, { location: `${target.url}/elsewhere` }).end();
    };
    const answer = await pay(port);
    t.equal(answer.status, status);
    t.equal(answer.headers.location, `${target.url}/elsewhere`);
  }
  t.equal(target.ledger.length, 5);
  const outcomes = await control.outcomesTold(5);
  t.ok(outcomes.every(({ outcome }) => outcome === 'booked'));
});

t.test('answers without a body and interim answers are understood', async (t) => {
  const { port, target, map } = await proxyFixture(t);
  for (const status of [204, 304]) {
    target.respond = (_request, response) => {
      response.writeHead(status, { etag: '"1"' }).end();
    };
    const answer = await pay(port);
    t.equal(answer.status, status);
    t.equal(answer.text, '');
  }
  map('http.head:/thing', FREE);
  target.respond = (_request, response) => {
    response.writeHead(200, { 'content-length': 1234567 }).end();
  };
  t.equal((await send(port, `${G}/thing`, { method: 'HEAD' })).headers['content-length'], '1234567');
  target.respond = (_request, response) => {
    response.writeEarlyHints({ link: '</a>; rel=preload' });
    response.writeProcessing();
    response.writeHead(200).end('final');
  };
  t.equal((await pay(port)).text, 'final');
});

t.test('trailers of the target are dropped', async (t) => {
  const { port, target } = await proxyFixture(t);
  target.respond = (_request, response) => {
    response.writeHead(200, { trailer: 'x-service-receipt' });
    response.write('hello');
    response.addTrailers({ 'x-service-receipt': 'forged' });
    response.end();
  };
  const raw = await sendRaw(
    port,
    `POST ${G}/payments HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${TOKEN}\r\nconnection: close\r\n` +
      `content-type: application/json\r\ncontent-length: ${PAYMENT.length}\r\n\r\n${PAYMENT}`,
  );
  t.match(raw, /hello/);
  t.notMatch(raw, /forged/);
});

t.test(
  'an answer that repeats the stored credential goes no further, in headers or body, whole or in pieces',
  async (t) => {
    const { port, target, control, pointTo } = await proxyFixture(t);
    pointTo(target.url, { header: 'authorization', value: 'Bearer secret-of-the-target' });
    target.respond = (request, response) => {
      response.writeHead(200, { 'x-echo': request.headers.authorization ?? '' }).end('{}');
    };
    const inHeader = await pay(port);
    t.equal(inHeader.status, 502);
    t.equal(inHeader.json['error'], 'target_invalid_answer');
    target.respond = (_request, response) => {
      const text = JSON.stringify({ you_sent: 'secret-of-the-target' });
      response.writeHead(200, { 'content-length': text.length }).end(text);
    };
    const inBody = await pay(port);
    t.equal(inBody.status, 502);
    target.respond = (_request, response) => {
      response.writeHead(200, { 'content-type': 'text/plain' });
      response.write('x'.repeat(100_000));
      response.write('secret-of-', () => setImmediate(() => response.end('the-target and more')));
    };
    const seen: Buffer[] = [];
    await pay(port).then(
      (answer) => seen.push(answer.body),
      () => {},
    );
    t.notMatch(
      JSON.stringify(inHeader) + JSON.stringify(inBody) + Buffer.concat(seen).toString(),
      'secret-of-the-target',
    );
    const outcomes = await control.outcomesTold(3);
    t.ok(
      outcomes.every(({ outcome, cause }) => outcome === 'booked' && cause === 'target_invalid_answer'),
      'the target did answer',
    );
  },
);

t.test('forms are read strictly and forwarded as they are', async (t) => {
  const { port, target, control, map } = await proxyFixture(t);
  map('http.post:/v1/charges', {
    ...PAYMENTS,
    amount_unit: 'minor',
    currency_notation: 'iso_lower',
    counterparty: '/to',
  });
  const body = 'amount=1250&currency=eur&to=acme&metadata[order]=1%2F2';
  const headers = { 'content-type': 'application/x-www-form-urlencoded' };
  const answer = await send(port, `${G}/v1/charges`, { body, headers });
  t.equal(answer.status, 201);
  t.equal(target.ledger[0]?.body.toString(), body);
  t.match(control.asks.at(-1)?.reading, { ok: true, amount_minor: 1250, currency: 'EUR', counterparty: 'acme' });
});

t.test('values come from the path and the query where the mapping says so', async (t) => {
  const { port, control, map } = await proxyFixture(t);
  const mapping = { ...PAYMENTS, amount: 'query:sum', currency: 'const:EUR', counterparty: 'path:who' } as const;
  map('http.post:/pay/{who}/now', mapping);
  const answer = await send(port, `${G}/pay/acme%20ltd/now?sum=3.75`, { method: 'POST' });
  t.equal(answer.status, 201);
  t.match(control.asks.at(-1)?.reading, { ok: true, amount_minor: 375, currency: 'EUR', counterparty: 'acme ltd' });
});

t.test('a changed target is used from the next decision on', async (t) => {
  const { port, target, control, pointTo } = await proxyFixture(t);
  await pay(port);
  const other = await new RawTarget((socket) => {
    socket.end('HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nother');
  }).start();
  t.teardown(() => other.stop());
  t.equal(control.asks[0]?.config_version, 0, 'nothing is held before the first allow');
  pointTo(other.url);
  t.equal((await pay(port)).text, 'other');
  t.equal((await pay(port)).text, 'other');
  t.equal(control.asks.at(-1)?.config_version, 2);
  t.equal(target.ledger.length, 1);
});

t.test('large uploads that nothing is read from stream by; they cannot be bound or repeated', async (t) => {
  const { port, target, control, map } = await proxyFixture(t);
  map('http.put:/files/a', FREE);
  const body = Buffer.alloc(3 * 1024 * 1024, 'x');
  const headers = { 'content-type': 'application/octet-stream' };
  const answer = await send(port, `${G}/files/a`, { method: 'PUT', body, headers });
  t.equal(answer.status, 201);
  t.ok(target.ledger[0]?.body.equals(body));
  t.match(control.asks.at(-1), { bindable: false, request: { body_sha256: null } });
  const chunked = { ...headers, 'transfer-encoding': 'chunked' };
  t.equal((await send(port, `${G}/files/a`, { method: 'PUT', body, headers: chunked })).status, 201);
  t.ok(target.ledger[1]?.body.equals(body));
  const keyed = { ...headers, 'idempotency-key': 'k' };
  const refused = await send(port, `${G}/files/a`, { method: 'PUT', body, headers: keyed });
  t.equal(refused.json['error'], 'malformed_request');
  t.equal(target.begun, 2);
  const small = await send(port, `${G}/files/a`, { method: 'PUT', body: 'tiny', headers });
  t.equal(small.status, 201);
  t.match(control.asks.at(-1), { bindable: true });
});

t.test('an upload reaches the target while the agent is still sending it', async (t) => {
  const { port, target, map } = await proxyFixture(t);
  map('http.put:/files/a', FREE);
  const { begin } = await import('./agent.ts');
  const headers = { 'content-type': 'application/octet-stream', 'content-length': 2 * 1024 * 1024 };
  const request = begin(port, `${G}/files/a`, { method: 'PUT', headers });
  const arrived = once(target.events, 'begun');
  request.write(Buffer.alloc(1024 * 1024 + 1));
  await arrived;
  request.end(Buffer.alloc(1024 * 1024 - 1));
  const [response] = await once(request, 'response');
  t.equal(response.statusCode, 201);
  response.resume();
  t.equal(target.ledger[0]?.body.length, 2 * 1024 * 1024);
});

t.test('a mapping that reads from a body which cannot be read is never forwarded', async (t) => {
  const { port, target, control } = await proxyFixture(t);
  const answer = await pay(port, { headers: { 'content-type': 'text/plain' } });
  t.equal(answer.status, 403);
  t.same(answer.json['reasons'], ['MD-502']);
  t.match(control.asks.at(-1)?.reading, { ok: false, field: 'amount' });
  t.equal(target.begun, 0);
});
