import { once } from 'node:events';
import type { IncomingMessage } from 'node:http';
import t from 'tap';
import { begin, leave, PAYMENT, pay } from './agent.ts';
import { proxyFixture } from './proxy-fixture.ts';
import { RawTarget } from './target.ts';

const G = '/api/gateway/http';

t.test('how the target answered decides the booking: 2xx and 3xx, 4xx, 5xx', async (t) => {
  const { port, target, control } = await proxyFixture(t);
  const cases = [
    [200, 'booked'],
    [201, 'booked'],
    [302, 'booked'],
    [400, 'released'],
    [404, 'released'],
    [429, 'released'],
    [500, 'unknown'],
    [503, 'unknown'],
  ] as const;
  for (const [status] of cases) {
    target.respond = (_request, response) => {
      response.writeHead(status).end('answer');
    };
    const answer = await pay(port);
    t.equal(answer.status, status, "the target's own status");
    t.equal(answer.text, 'answer');
    t.equal(answer.headers['x-service-decision'], 'allow');
  }
  const outcomes = await control.outcomesTold(cases.length);
  t.same(
    outcomes.map(({ target_status, outcome, cause, answer }) => [target_status, outcome, cause, answer]),
    cases.map(([status, outcome]) => [status, outcome, 'answered', null]),
  );
});

t.test('a target that was never connected to: released before the agent knows, 502', async (t) => {
  const { port, control, pointTo } = await proxyFixture(t);
  const gone = await new RawTarget(() => {}).start();
  pointTo(gone.url);
  await gone.stop();
  const answer = await pay(port);
  t.equal(answer.status, 502);
  t.equal(answer.json['error'], 'target_unreachable');
  t.equal(answer.headers['x-service-receipt'], 'rcp_1');
  t.match(control.outcomes, [{ outcome: 'released', cause: 'target_unreachable', target_status: null }]);
});

t.test('a name that does not resolve is a target that cannot be reached', async (t) => {
  const { port, control, pointTo } = await proxyFixture(t, {
    resolve: () => Promise.reject(Object.assign(new Error('no such name'), { code: 'ENOTFOUND' })),
  });
  pointTo('http://target.invalid');
  const answer = await pay(port);
  t.equal(answer.json['error'], 'target_unreachable');
  t.notMatch(answer.text, /no such name/, 'the answer says nothing internal');
  t.match(control.outcomes, [{ outcome: 'released', cause: 'target_unreachable' }]);
});

t.test('a target that goes away after the request was sent: unknown, 502', async (t) => {
  const { port, control, pointTo } = await proxyFixture(t);
  const lost = await new RawTarget((socket) => socket.resetAndDestroy()).start();
  t.teardown(() => lost.stop());
  pointTo(lost.url);
  const answer = await pay(port);
  t.equal(answer.status, 502);
  t.equal(answer.json['error'], 'target_lost');
  t.match(await control.outcomesTold(1), [{ outcome: 'unknown', cause: 'target_lost', target_status: null }]);
  t.equal(lost.connections.length, 1, 'it is never sent twice');
});

t.test('a target that does not answer in time: unknown, 504', async (t) => {
  const { port, target, control } = await proxyFixture(t, { targetTimeoutMs: 200 });
  target.respond = () => {};
  const answer = await pay(port);
  t.equal(answer.status, 504);
  t.equal(answer.json['error'], 'target_timeout');
  t.match(await control.outcomesTold(1), [{ outcome: 'unknown', cause: 'target_timeout', target_status: null }]);
});

t.test('a target that stops in the middle of its body: unknown, and the agent sees the break', async (t) => {
  const { port, control, pointTo } = await proxyFixture(t);
  const bodies = [
    'content-length: 100\r\n\r\n{"half":',
    `content-length: 300000\r\n\r\n${'x'.repeat(200_000)}`,
    'transfer-encoding: chunked\r\n\r\n8\r\n{"half":\r\n',
  ];
  for (const [at, rest] of bodies.entries()) {
    const half = await new RawTarget((socket) => socket.end(`HTTP/1.1 200 OK\r\n${rest}`)).start();
    t.teardown(() => half.stop());
    pointTo(half.url);
    const answer = await pay(port).catch((error: Error) => error);
    if (answer instanceof Error) t.pass('the connection broke');
    else t.equal(answer.json['error'], 'target_lost', 'nothing of a short answer had been sent');
    const outcomes = await control.outcomesTold(at + 1);
    t.match(outcomes[at], { outcome: 'unknown', cause: 'target_lost', target_status: 200 });
  }
});

t.test('a target that does not speak HTTP: unknown, 502, and the proxy lives', async (t) => {
  const { port, control, pointTo } = await proxyFixture(t);
  const garbage = [
    'SSH-2.0-OpenSSH_9.9\r\n',
    'HTTP/1.1 200 OK\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\nhello!',
    'HTTP/1.1 200 OK\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n',
    'HTTP/1.1 200 OK\r\nbad header: \0\r\n\r\n',
    `HTTP/1.1 200 OK\r\nx: ${'y'.repeat(70_000)}\r\n\r\n`,
    'HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n',
  ];
  for (const [at, bytes] of garbage.entries()) {
    const broken = await new RawTarget((socket) => socket.end(bytes, 'latin1')).start();
    t.teardown(() => broken.stop());
    pointTo(broken.url);
    const answer = await pay(port);
    t.equal(answer.status, 502, JSON.stringify(bytes.slice(0, 40)));
    t.match(answer.json['error'], /^target_(invalid_answer|lost)$/);
    const outcomes = await control.outcomesTold(at + 1);
    t.match(outcomes[at], { outcome: 'unknown', target_status: null });
  }
});

t.test('a released amount is given back before the agent has any of the answer', async (t) => {
  const { port, target, control } = await proxyFixture(t);
  let commit = (_written: boolean): void => {};
  control.writeOutcome = () =>
    new Promise((resolve) => {
      commit = resolve;
      control.events.emit('told');
    });
  const answers = [
    (body: string) => ({ 'content-length': String(body.length) }),
    () => ({ 'content-type': 'text/plain', 'transfer-encoding': 'chunked' }),
  ];
  for (const headersFor of answers) {
    target.respond = (_request, response) => {
      response.writeHead(402, headersFor('declined')).end('declined');
    };
    const request = begin(port, `${G}/payments`, { body: PAYMENT });
    let answered = false;
    const response = once(request, 'response').then(([answer]) => {
      answered = true;
      return answer as IncomingMessage;
    });
    const told = once(control.events, 'told');
    request.end(PAYMENT);
    await told;
    // What was sent before the outcome would have arrived by now: the outcome took the longer way.
    await new Promise((resolve) => setImmediate(resolve));
    t.notOk(answered, 'the answer waits for the commit');
    commit(true);
    const answer = await response;
    t.equal(answer.statusCode, 402);
    answer.resume();
    await once(answer, 'end');
  }
});

t.test('an outcome that could not be written is told again, and the agent is not held for ever', async (t) => {
  const { port, target, control } = await proxyFixture(t);
  let refusals = 2;
  control.writeOutcome = () => {
    refusals -= 1;
    return refusals < 0;
  };
  target.respond = (_request, response) => {
    response.writeHead(400).end();
  };
  t.equal((await pay(port)).status, 400);
  const outcomes = await control.outcomesTold(1);
  t.match(outcomes, [{ outcome: 'released', receipt_id: 'rcp_1' }]);
  t.equal(refusals, -1);
});

t.test('outcomes survive a control plane that was away when they were told', async (t) => {
  const { port, target, control } = await proxyFixture(t);
  target.respond = (_request, response) => {
    void control.stop().then(() => response.writeHead(200).end('done'));
  };
  t.equal((await pay(port)).text, 'done', 'the answer is not lost over it');
  await control.start();
  t.match(await control.outcomesTold(1), [{ outcome: 'booked', receipt_id: 'rcp_1' }]);
});

t.test('an agent that leaves before the target answered: the forward ends by itself and is booked', async (t) => {
  const { port, target, control } = await proxyFixture(t);
  let answer = (): void => {};
  target.respond = (_request, response) => {
    answer = () => response.writeHead(200).end('done');
  };
  const request = begin(port, `${G}/payments`, { body: PAYMENT });
  request.on('error', () => {});
  request.end(PAYMENT);
  await target.received(1);
  await leave(request);
  answer();
  t.match(await control.outcomesTold(1), [{ outcome: 'booked', cause: 'answered', target_status: 200 }]);
});

t.test('an agent that left is not read on for: an endless answer ends, booked by its status', async (t) => {
  for (const leaves of ['before the answer', 'during the answer']) {
    const { port, target, control } = await proxyFixture(t);
    const ended = new Promise<void>((resolve) => {
      target.respond = (_request, response) => {
        const tick = setInterval(() => response.write('data: x\n\n'), 5);
        response.on('close', () => {
          clearInterval(tick);
          resolve();
        });
      };
    });
    const request = begin(port, `${G}/payments`, { body: PAYMENT });
    request.on('error', () => {});
    request.end(PAYMENT);
    if (leaves === 'before the answer') await target.received(1);
    else {
      const [response] = (await once(request, 'response')) as [IncomingMessage];
      response.on('error', () => {});
      await once(response, 'data');
    }
    await leave(request);
    await ended;
    t.match(await control.outcomesTold(1), [{ outcome: 'booked', cause: 'answered', target_status: 200 }], leaves);
  }
});

t.test('an allow for an agent that has left is released, and nothing is forwarded', async (t) => {
  const { port, target, control } = await proxyFixture(t);
  let release = (): void => {};
  const asked = new Promise<void>((resolve) => {
    control.decide = (ask) => {
      const mapping = control.mappingFor(ask);
      if (mapping !== null) return mapping;
      resolve();
      return new Promise((answer) => {
        release = () => answer(control.allowed(ask));
      });
    };
  });
  const request = begin(port, `${G}/payments`, { body: PAYMENT });
  request.on('error', () => {});
  request.end(PAYMENT);
  await asked;
  await leave(request);
  // Another request on another connection: by its answer the proxy has seen the first one leave.
  await pay(port, { body: '{' });
  release();
  t.match(await control.outcomesTold(1), [{ outcome: 'released', cause: 'not_forwarded', target_status: null }]);
  t.equal(target.begun, 0);
});

t.test('a lone client costs one message a request: the outcome rides with the next ask', async (t) => {
  const { port, control } = await proxyFixture(t);
  await pay(port);
  await control.outcomesTold(1);
  const before = control.batches.length;
  for (let i = 0; i < 20; i++) await pay(port);
  await control.outcomesTold(21);
  const alone = control.batches.slice(before).filter(({ asks }) => asks.length === 0);
  t.ok(alone.length <= 10, `${alone.length} of 20 outcomes travelled alone`);
});
