import t from 'tap';
import { secretHash, secretTokenOf } from '../../../core/secret-token.ts';
import type { GatewayAnswer } from '../../../core/wire.ts';
import { PAYMENT, pay, send, TOKEN } from './agent.ts';
import { FakeControlPlane, FREE, INTERNAL_SECRET, PAYMENTS, RATE, type RawReply, tool } from './fake-control-plane.ts';
import { DECISION_TIMEOUT_MS, proxyFixture } from './proxy-fixture.ts';

const G = '/api/gateway/http';
const OTHER_ANSWERS = { rate: RATE, receipt_id: 'rcp_9', retry_after_s: null };

t.test('a deny says which limit, with code, text and receipt, and nothing is forwarded', async (t) => {
  const { port, target, control } = await proxyFixture(t);
  control.decide = (ask) => control.mappingFor(ask) ?? control.deny('MD-302', '12.50 EUR is above 10.00 EUR');
  const answer = await pay(port);
  t.equal(answer.status, 403);
  t.same(answer.json, {
    error: 'service_deny',
    reasons: ['MD-302'],
    reason_text: '12.50 EUR is above 10.00 EUR',
    receipt_id: 'rcp_1',
  });
  t.equal(answer.headers['x-service-decision'], 'deny');
  t.equal(answer.headers['x-service-receipt'], 'rcp_1');
  t.equal(answer.headers['cache-control'], 'no-store');
  t.equal(answer.headers['x-ratelimit-remaining'], String(RATE[1]));
  t.equal(target.begun, 0);
});

t.test('an escalate names the escalation, and its first request hands over the body for the card', async (t) => {
  const { port, target, control } = await proxyFixture(t);
  control.decide = (ask) => control.mappingFor(ask) ?? control.escalate(control.bodies.length === 0);
  for (const _ of [1, 2]) {
    const answer = await pay(port);
    t.equal(answer.status, 403);
    t.match(answer.json, {
      error: 'service_escalate',
      escalation: { id: 'esc_1', expires_at: '2030-01-01T00:10:00.000Z' },
      receipt_id: /^rcp_/,
    });
    t.equal(answer.headers['x-service-decision'], 'escalate');
    t.equal(answer.headers['x-service-receipt'], answer.json['receipt_id']);
  }
  t.match(control.bodies, [{ escalation_id: 'esc_1', body: Buffer.from(PAYMENT).toString('base64') }]);
  t.equal(target.begun, 0);
});

t.test('a body that is too large for a card is not sent, and the escalation stands all the same', async (t) => {
  const { port, control } = await proxyFixture(t);
  control.decide = (ask) => control.mappingFor(ask) ?? control.escalate(true);
  const body = `{"amount":1,"currency":"EUR","note":"${'x'.repeat(65_536)}"}`;
  t.equal((await pay(port, { body })).json['error'], 'service_escalate');
  t.same(control.bodies, []);
});

t.test("the control plane's problems are answered with their status, rate and receipt", async (t) => {
  const { port, control, target } = await proxyFixture(t);
  const cases = [
    ['unauthenticated', 401],
    ['forbidden', 403],
    ['idempotency_in_flight', 409],
    ['idempotency_mismatch', 422],
    ['rate_limited', 429],
    ['not_decidable', 503],
  ] as const;
  for (const [error, status] of cases) {
    control.decide = () => ({ answer: 'problem', error, detail: 'Because.', ...OTHER_ANSWERS, retry_after_s: 7 });
    const answer = await pay(port);
    t.equal(answer.status, status);
    t.match(answer.json, { error, detail: 'Because.', status, request_id: answer.headers['x-request-id'] });
    t.equal(answer.headers['retry-after'], '7');
    t.equal(answer.headers['x-service-receipt'], 'rcp_9');
    t.equal(answer.headers['x-ratelimit-limit'], String(RATE[0]));
    t.notOk(answer.headers['x-service-decision'], 'nothing was decided');
  }
  t.equal(target.begun, 0);
});

t.test(
  'the ask says what is decided about: token and key as hashes, digest of the body, the request itself',
  async (t) => {
    const { port, control, map } = await proxyFixture(t);
    const escalation = secretTokenOf('etk', Buffer.alloc(32, 3));
    await pay(port, { headers: { 'idempotency-key': 'key-1', 'x-service-escalation-token': escalation } });
    t.match(control.asks.at(-1), {
      token_hash: secretHash(TOKEN),
      address: '127.0.0.1',
      name: 'http.post:/payments',
      tool: { id: 'tol_http.post:/payments', version: 1 },
      request: { method: 'POST', path: '/payments', query: '', body_sha256: secretHash(PAYMENT) },
      bindable: true,
      idempotency_key_hash: secretHash('key-1'),
      escalation_token_hash: secretHash(escalation),
    });
    map('http.get:/a', FREE);
    await send(port, `${G}/a?b=c`, { method: 'GET' });
    t.match(control.asks.at(-1), {
      request: { method: 'GET', path: '/a', query: 'b=c', body_sha256: secretHash('') },
      idempotency_key_hash: null,
      escalation_token_hash: null,
    });
    t.notMatch(JSON.stringify(control.batches), TOKEN);
  },
);

t.test('values are never decided on by an old mapping: the body is read again by the new one', async (t) => {
  const { port, control } = await proxyFixture(t);
  await pay(port);
  t.equal(control.asks.length, 2, 'the first ask is answered with the mapping');
  await pay(port);
  t.equal(control.asks.length, 3, 'the second one knows it');
  const changed = { ...PAYMENTS, amount: '/total', body_limit_bytes: 2000 } as const;
  control.tools.set('http.post:/payments', tool('http.post:/payments', changed, 2));
  const answer = await pay(port, { body: '{"amount":1,"total":2,"currency":"EUR"}' });
  t.equal(answer.status, 201);
  t.match(control.asks.at(-1), { tool: { version: 2 }, reading: { amount_minor: 200 } });
});

t.test('the most specific template reads the request', async (t) => {
  const { port, control, map } = await proxyFixture(t);
  map('http.post:/pay/{who}', { ...PAYMENTS, counterparty: 'path:who' });
  await send(port, `${G}/pay/acme`, { body: PAYMENT });
  t.match(control.asks.at(-1), { tool: { id: 'tol_http.post:/pay/{}' }, reading: { counterparty: 'acme' } });
});

t.test('a mapping that changes without end is 503, not a loop', async (t) => {
  const { port, control, target } = await proxyFixture(t);
  let version = 1;
  control.decide = () => {
    version += 1;
    return { answer: 'mapping', tool: tool('http.post:/payments', PAYMENTS, version) };
  };
  const answer = await pay(port);
  t.equal(answer.status, 503);
  t.equal(answer.json['error'], 'not_decidable');
  t.ok(control.asks.length <= 5);
  t.equal(target.begun, 0);
});

t.test('the control plane away, slow, half or out of its mind: 503 in time, and no byte to the target', async (t) => {
  const bad = { status: 200, text: '{"asks":[{"answer":"allow"}],"outcomes":[],"charges":[]}' };
  const other = { answer: 'allow', receipt_id: 'r', account_id: 'a', instance_id: 'i', target: null, rate: RATE };
  const replies: [string, RawReply][] = [
    ['stuck', 'hang'],
    ['resetting', 'reset'],
    ['half an answer', 'half'],
    ['500', { status: 500, text: '{}' }],
    ['401: another secret', { status: 401, text: '{}' }],
    ['no JSON', { status: 200, text: '<html>' }],
    ['nothing', { status: 200, text: '{"asks":[],"outcomes":[],"charges":[]}' }],
    ['an allow without its members', bad],
    [
      'two answers to one ask',
      { status: 200, text: JSON.stringify({ asks: [other, other], outcomes: [], charges: [] }) },
    ],
    ['an allow without a target', { status: 200, text: JSON.stringify({ asks: [other], outcomes: [], charges: [] }) }],
    ['an answer that is not known', { status: 200, text: '{"asks":[{"answer":"maybe"}],"outcomes":[],"charges":[]}' }],
  ];
  for (const [what, reply] of replies) {
    const { port, control, target } = await proxyFixture(t, { decisionTimeoutMs: DECISION_TIMEOUT_MS });
    control.onBatch = () => reply;
    const answer = await pay(port);
    t.equal(answer.status, 503, what);
    t.equal(answer.json['error'], 'not_decidable', what);
    t.equal(answer.headers['retry-after'], '1', what);
    t.equal(target.begun, 0, what);
    control.onBatch = () => null;
    t.equal((await pay(port)).status, 201, `${what}: it recovers by itself`);
  }
});

t.test('a control plane that is stopped and started again is found again', async (t) => {
  const { port, control, target } = await proxyFixture(t, { decisionTimeoutMs: DECISION_TIMEOUT_MS });
  t.equal((await pay(port)).status, 201);
  await control.stop();
  for (const _ of [1, 2, 3]) t.equal((await pay(port)).status, 503);
  t.equal(target.begun, 1);
  await control.start();
  t.equal((await pay(port)).status, 201);
});

t.test('an allow that comes too late is released and never forwarded', async (t) => {
  const { port, control, target } = await proxyFixture(t, { decisionTimeoutMs: DECISION_TIMEOUT_MS });
  let late = (): void => {};
  control.decide = (ask) =>
    control.mappingFor(ask) ??
    new Promise<GatewayAnswer>((resolve) => {
      late = () => resolve(control.allowed(ask));
    });
  t.equal((await pay(port)).status, 503);
  late();
  t.match(await control.outcomesTold(1), [{ outcome: 'released', cause: 'not_forwarded' }]);
  t.equal(target.begun, 0);
});

t.test('one account that is stuck does not stop the others', async (t) => {
  const { port, control } = await proxyFixture(t);
  const stuck = secretTokenOf('gwt', Buffer.alloc(32, 9));
  let free = (): void => {};
  control.decide = (ask) => {
    if (ask.token_hash !== secretHash(stuck)) return control.allow(ask);
    return new Promise((resolve) => {
      free = () => resolve(control.deny('MD-501', 'not mapped'));
    });
  };
  const held = pay(port, { token: stuck });
  await control.asked(1);
  t.equal((await pay(port)).status, 201);
  free();
  t.equal((await held).status, 403);
});

t.test('requests at once travel together', async (t) => {
  const { port, control } = await proxyFixture(t);
  await pay(port);
  control.batches.length = 0;
  const answers = await Promise.all(Array.from({ length: 64 }, () => pay(port)));
  t.ok(answers.every(({ status }) => status === 201));
  const messages = control.batches.filter(({ asks }) => asks.length > 0).length;
  t.ok(messages < 40, `${messages} messages for 64 asks`);
});

t.test(
  'where one control plane cannot be connected to, another one decides; what was sent is not sent twice',
  async (t) => {
    const gone = new FakeControlPlane('http://127.0.0.1:9');
    t.teardown(() => gone.remove());
    const second = new FakeControlPlane('http://127.0.0.1:9');
    await second.start();
    t.teardown(() => second.remove());
    const { port, target } = await proxyFixture(t, {
      controlPlanes: [gone.address, second.address],
      decisionTimeoutMs: DECISION_TIMEOUT_MS,
    });
    second.target = { version: 1, url: target.url, credential: null };
    for (let i = 0; i < 8; i++) {
      const token = secretTokenOf('gwt', Buffer.alloc(32, i));
      t.equal((await pay(port, { token })).status, 201, 'whichever of them the token picks');
    }
    second.onBatch = () => 'reset';
    const asked = second.asks.length;
    t.equal((await pay(port)).status, 503);
    t.equal(second.asks.length, asked + 1);
  },
);

t.test('every proxy asks the same control plane about a token, and tokens are spread over all of them', async (t) => {
  const controls = [new FakeControlPlane('http://127.0.0.1:9'), new FakeControlPlane('http://127.0.0.1:9')];
  for (const control of controls) {
    await control.start();
    t.teardown(() => control.remove());
    control.decide = (ask) => control.mappingFor(ask) ?? control.deny('MD-302', 'too much');
  }
  const addresses = controls.map(({ address }) => address);
  const one = await proxyFixture(t, { controlPlanes: addresses });
  const other = await proxyFixture(t, { controlPlanes: addresses.toReversed() });
  const tokens = Array.from({ length: 32 }, (_, i) => secretTokenOf('gwt', Buffer.alloc(32, i)));
  for (const { port } of [one, other]) await Promise.all(tokens.map((token) => pay(port, { token })));
  const [first, second] = controls.map(({ asks }) => new Set(asks.map((ask) => ask.token_hash)));
  if (first === undefined || second === undefined) throw new Error('there are two');
  t.ok(first.isDisjointFrom(second), 'no token was asked about at both');
  t.ok(first.size > 0 && second.size > 0, `${first.size} and ${second.size} tokens`);
  t.equal(first.size + second.size, tokens.length);
});

t.test('the secret is sent to the control plane and to nobody else', async (t) => {
  const { port, target } = await proxyFixture(t);
  const answer = await pay(port, { headers: { 'x-mandate-internal-secret': 'forged' } });
  t.equal(answer.status, 201);
  t.notMatch(JSON.stringify(target.ledger), INTERNAL_SECRET);
  t.notMatch(JSON.stringify(target.ledger[0]?.rawHeaders), 'forged');
});

t.test('health and readiness: alive is alive, ready is a control plane that answers', async (t) => {
  const { port, control } = await proxyFixture(t);
  const get = (path: string) => send(port, path, { method: 'GET', token: null });
  t.equal((await get('/healthz')).status, 200);
  t.equal((await get('/readyz')).status, 200);
  await control.stop();
  t.equal((await get('/healthz')).status, 200);
  t.equal((await get('/readyz')).status, 503);
  const nowhere = await get('/nowhere');
  t.equal(nowhere.status, 404);
  t.equal(nowhere.json['error'], 'not_found');
});

t.test('closing finishes what was begun and tells its outcome', async (t) => {
  const fixture = await proxyFixture(t);
  const { port, proxy, target, control } = fixture;
  let answer = (): void => {};
  target.respond = (_request, response) => {
    answer = () => response.writeHead(200).end('done');
  };
  const begun = pay(port);
  await target.received(1);
  const closed = proxy.close();
  answer();
  t.equal((await begun).text, 'done');
  await closed;
  t.match(control.outcomes, [{ outcome: 'booked' }]);
  await t.rejects(pay(port), 'nobody listens any more');
});
