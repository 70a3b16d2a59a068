import { once } from 'node:events';
import type { IncomingMessage, ServerResponse } from 'node:http';
import t from 'tap';
import { begin, leave, PAYMENT, pay } from './agent.ts';
import { proxyFixture } from './proxy-fixture.ts';

const PAY = '/api/gateway/http/payments';

t.test('an event stream arrives piece by piece, each piece before the next one is made', async (t) => {
  const { port, target, control } = await proxyFixture(t);
  let stream: ServerResponse | null = null;
  target.respond = (_request, response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    response.flushHeaders();
    stream = response;
  };
  const request = begin(port, PAY, { body: PAYMENT });
  request.end(PAYMENT);
  const [response] = (await once(request, 'response')) as [IncomingMessage];
  t.equal(response.headers['content-type'], 'text/event-stream', 'the head comes before the first piece');
  t.equal(response.headers['x-service-decision'], 'allow');
  const target1 = stream as ServerResponse | null;
  for (const piece of ['data: 1\n\n', 'data: 2\n\n', 'data: [DONE]\n\n']) {
    const arrived = once(response, 'data');
    target1?.write(piece);
    t.equal(String((await arrived)[0]), piece);
  }
  t.same(control.outcomes, [], 'it is not over');
  target1?.end();
  await once(response, 'end');
  t.match(await control.outcomesTold(1), [{ outcome: 'booked' }]);
});

t.test(
  'an event stream under an idempotency key arrives piece by piece as well; its end waits for the commit',
  async (t) => {
    const { port, target, control } = await proxyFixture(t);
    let stream: ServerResponse | null = null;
    target.respond = (_request, response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      response.write('data: 1\n\n');
      stream = response;
    };
    const request = begin(port, PAY, { body: PAYMENT, headers: { 'idempotency-key': 'k' } });
    request.end(PAYMENT);
    const [response] = (await once(request, 'response')) as [IncomingMessage];
    t.equal(String((await once(response, 'data'))[0]), 'data: 1\n\n');
    (stream as ServerResponse | null)?.end('data: 2\n\n');
    t.equal(String((await once(response, 'data'))[0]), 'data: 2\n\n');
    await once(response, 'end');
    t.match(control.outcomes, [{ answer: { body: Buffer.from('data: 1\n\ndata: 2\n\n').toString('base64') } }]);
  },
);

t.test('an agent that reads slowly holds the target back, and memory stays small', async (t) => {
  const { port, target } = await proxyFixture(t);
  const total = 64 * 1024 * 1024;
  const piece = Buffer.alloc(64 * 1024, 'x');
  let produced = 0;
  const stalled = new Promise<void>((resolve) => {
    target.respond = (_request, response) => {
      response.writeHead(200, { 'content-length': total });
      const more = (): void => {
        while (produced < total) {
          produced += piece.length;
          if (response.write(piece)) continue;
          response.once('drain', more);
          // Nothing drains while the agent reads nothing: the time is only there to end the test when all is well.
          setTimeout(resolve, 300, undefined).unref();
          return;
        }
        response.end();
        resolve();
      };
      more();
    };
  });
  const request = begin(port, PAY, { body: PAYMENT });
  request.end(PAYMENT);
  const [response] = (await once(request, 'response')) as [IncomingMessage];
  await stalled;
  t.ok(produced < total / 2, `${produced} bytes were taken from the target before the agent read any`);
  let received = 0;
  for await (const chunk of response) received += (chunk as Buffer).length;
  t.equal(received, total);
});

t.test('an agent that leaves a download ends it at the target', async (t) => {
  const { port, target, control } = await proxyFixture(t);
  const ended = new Promise<void>((resolve) => {
    target.respond = (_request, response) => {
      response.writeHead(200, { 'content-length': 1024 * 1024 * 1024 });
      response.write(Buffer.alloc(1024 * 1024));
      response.on('close', resolve);
    };
  });
  const request = begin(port, PAY, { body: PAYMENT });
  request.end(PAYMENT);
  const [response] = (await once(request, 'response')) as [IncomingMessage];
  response.on('error', () => {});
  await once(response, 'data');
  await leave(request);
  await ended;
  t.match(await control.outcomesTold(1), [{ outcome: 'booked', target_status: 200 }]);
});

t.test('many answers at once are not mixed up', async (t) => {
  const { port, target } = await proxyFixture(t);
  target.respond = (_request, response, body) => {
    const { note } = JSON.parse(body.toString()) as { note: string };
    setImmediate(() => response.end(note.repeat(3)));
  };
  const answers = await Promise.all(
    Array.from({ length: 200 }, async (_, i) => {
      const { text } = await pay(port, { body: `{"amount":1,"currency":"EUR","note":"n${i};"}` });
      return text === `n${i};n${i};n${i};`;
    }),
  );
  t.notOk(answers.includes(false));
});
