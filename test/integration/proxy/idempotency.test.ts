import { once } from 'node:events';
import t from 'tap';
import type { GatewayOutcome, StoredAnswer } from '../../../core/wire.ts';
import { begin, leave, PAYMENT, pay, type SendOptions } from './agent.ts';
import { RATE } from './fake-control-plane.ts';
import { type ProxyFixture, proxyFixture } from './proxy-fixture.ts';
import { RawTarget } from './target.ts';

const KEYED: SendOptions = { headers: { 'idempotency-key': 'order-1' } };

/** Lets the fake control plane keep the answer of one key, as the real one does. */
function remember({ control }: ProxyFixture): void {
  let stored: StoredAnswer | null = null;
  control.writeOutcome = (outcome: GatewayOutcome) => {
    stored = outcome.answer;
    return true;
  };
  control.decide = (ask) => {
    const mapping = control.mappingFor(ask);
    if (mapping !== null) return mapping;
    if (stored === null) return control.allowed(ask);
    return { answer: 'replay', receipt_id: 'rcp_1', stored, rate: RATE };
  };
}

t.test('a repeat gets the stored answer with the mark, and the target is asked once', async (t) => {
  const fixture = await proxyFixture(t);
  const { port, target } = fixture;
  remember(fixture);
  target.respond = (_request, response) => {
    response.writeHead(201, { 'content-type': 'application/json', 'x-order': '77', 'set-cookie': ['a=1', 'b=2'] });
    response.end('{"id":"pay_1"}');
  };
  const first = await pay(port, KEYED);
  t.equal(first.status, 201);
  t.notOk(first.headers['x-idempotent-replay']);
  const second = await pay(port, KEYED);
  t.equal(second.status, 201);
  t.equal(second.text, '{"id":"pay_1"}');
  t.equal(second.headers['x-idempotent-replay'], 'true');
  t.equal(second.headers['x-order'], '77');
  t.same(second.headers['set-cookie'], ['a=1', 'b=2']);
  t.equal(second.headers['content-type'], 'application/json');
  t.equal(second.headers['x-service-decision'], 'allow');
  t.equal(second.headers['x-service-receipt'], first.headers['x-service-receipt']);
  t.equal(target.ledger.length, 1);
});

t.test('the end of an answer under a key is not seen before the answer is stored', async (t) => {
  const { port, target, control } = await proxyFixture(t);
  for (const chunked of [false, true]) {
    target.respond = (_request, response) => {
      response.writeHead(200, chunked ? {} : { 'content-length': 4 }).end('done');
    };
    let commit = (): void => {};
    const told = new Promise<void>((resolve) => {
      control.writeOutcome = () =>
        new Promise((written) => {
          commit = () => written(true);
          resolve();
        });
    });
    const request = begin(port, '/api/gateway/http/payments', { ...KEYED, body: PAYMENT });
    let ended = false;
    const answered = once(request, 'response').then(async ([response]) => {
      response.resume();
      await once(response, 'end');
      ended = true;
    });
    request.end(PAYMENT);
    await told;
    await new Promise((resolve) => setImmediate(resolve));
    t.notOk(ended);
    commit();
    await answered;
  }
});

t.test('an answer that is too large is passed on whole and kept without its body', async (t) => {
  const { port, target, control } = await proxyFixture(t);
  const body = 'x'.repeat(256 * 1024 + 1);
  for (const length of [{ 'content-length': body.length }, {}]) {
    target.respond = (_request, response) => {
      response.writeHead(200, length).end(body);
    };
    t.equal((await pay(port, KEYED)).text, body);
  }
  t.match(control.outcomes, [{ answer: { status: 200, body: null } }, { answer: { status: 200, body: null } }]);
});

t.test('an agent that leaves in the middle leaves the whole answer behind, or none, never half of it', async (t) => {
  const { port, target, control } = await proxyFixture(t);
  let finish = (): void => {};
  target.respond = (_request, response) => {
    response.writeHead(200, { 'content-type': 'text/plain' });
    response.write('first half, ');
    finish = () => response.end('second half');
  };
  const request = begin(port, '/api/gateway/http/payments', { ...KEYED, body: PAYMENT });
  request.end(PAYMENT);
  const [response] = await once(request, 'response');
  response.on('error', () => {});
  await once(response, 'data');
  await leave(request);
  // Another request on another connection: by its answer the proxy has seen the first agent leave.
  await pay(port, { body: '{' });
  finish();
  const [outcome] = await control.outcomesTold(1);
  t.equal(outcome?.outcome, 'booked');
  const kept = outcome?.answer?.body ?? null;
  if (kept !== null) t.equal(Buffer.from(kept, 'base64').toString(), 'first half, second half');
});

t.test('an agent that leaves before the answer finds it under its key', async (t) => {
  const { port, target, control } = await proxyFixture(t);
  let finish = (): void => {};
  target.respond = (_request, response) => {
    finish = () => response.writeHead(200, { 'content-type': 'text/plain' }).end('whole');
  };
  const request = begin(port, '/api/gateway/http/payments', { ...KEYED, body: PAYMENT });
  request.on('error', () => {});
  request.end(PAYMENT);
  await target.received(1);
  await leave(request);
  finish();
  const [outcome] = await control.outcomesTold(1);
  t.match(outcome, { outcome: 'booked', answer: { status: 200, body: Buffer.from('whole').toString('base64') } });
});

t.test("what became of a key's request is kept: refused, failed, or not known", async (t) => {
  const fixture = await proxyFixture(t);
  const { port, target, control, pointTo } = fixture;
  target.respond = (_request, response) => {
    response.writeHead(422, { 'content-type': 'text/plain' }).end('no');
  };
  t.equal((await pay(port, KEYED)).status, 422);
  target.respond = (_request, response) => {
    response.writeHead(500, { 'content-type': 'text/plain' }).end('oops');
  };
  t.equal((await pay(port, KEYED)).status, 500);
  const lost = await new RawTarget((socket) => socket.resetAndDestroy()).start();
  t.teardown(() => lost.stop());
  pointTo(lost.url);
  t.equal((await pay(port, KEYED)).json['error'], 'target_lost');
  const gone = await new RawTarget(() => {}).start();
  pointTo(gone.url);
  await gone.stop();
  t.equal((await pay(port, KEYED)).json['error'], 'target_unreachable');
  const [refused, failed, unknown, unreachable] = await control.outcomesTold(4);
  t.match(refused, { outcome: 'released', answer: { status: 422, body: Buffer.from('no').toString('base64') } });
  t.match(failed, { outcome: 'unknown', answer: { status: 500, body: Buffer.from('oops').toString('base64') } });
  t.match(unknown, { outcome: 'unknown', target_status: null });
  t.match(unreachable, { outcome: 'released', answer: null, target_status: null }, 'the key is free again');
});

t.test('stored headers hold nothing of the gateway, and no credential', async (t) => {
  const { port, control, target, pointTo } = await proxyFixture(t);
  pointTo(target.url, { header: 'x-api-key', value: 'secret-of-the-target' });
  target.respond = (request, response) => {
    response.writeHead(200, { 'x-echo': String(request.headers['x-api-key']), 'x-service-receipt': 'forged' }).end();
  };
  t.equal((await pay(port, KEYED)).status, 502);
  const [outcome] = await control.outcomesTold(1);
  t.notMatch(JSON.stringify(outcome), /secret-of|forged/);
});
