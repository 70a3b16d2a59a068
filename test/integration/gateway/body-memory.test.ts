import { connect, type Socket } from 'node:net';
import t from 'tap';
import {
  BODY_LIMIT_DEFAULT_BYTES,
  BUFFERED_BODIES_PER_TOKEN_MAX_BYTES,
  BUFFERED_SMALL_BODIES_MAX_BYTES,
  SMALL_BODY_MAX_BYTES,
} from '../../../core/limits.ts';
import { newSecretToken } from '../../../core/secret-token.ts';
import { gatewayFixture } from './gateway-fixture.ts';

type TestContext = Parameters<typeof gatewayFixture>[0];

/** Senders that begin a body of `bytes` and never end it; `answers` are the status lines that came nevertheless. */
function slowSenders(t: TestContext, port: number) {
  const sockets: Socket[] = [];
  const answers: string[] = [];
  let tell = (): void => {};
  t.teardown(async () => {
    for (const socket of sockets) socket.destroy();
  });
  const send = (token: string, bytes: number): void => {
    const socket = connect(port, '127.0.0.1');
    sockets.push(socket);
    socket.on('error', () => {});
    socket.once('data', (chunk) => {
      answers.push(chunk.toString('latin1').slice(9, 12));
      tell();
    });
    const head = `POST /api/gateway/http/payments HTTP/1.1\r\nHost: gateway\r\nAuthorization: Bearer ${token}\r\n`;
    socket.write(`${head}Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n`);
    socket.write(`${(BODY_LIMIT_DEFAULT_BYTES - 10).toString(16)}\r\n${'{"a":"'.padEnd(bytes, 'x')}`);
  };
  /** Resolves when so many were answered. */
  const answered = (count: number): Promise<void> =>
    new Promise((resolve) => {
      tell = () => {
        if (answers.length >= count) resolve();
      };
      tell();
    });
  return { send, answers, answered };
}

t.test('strangers who send large bodies are asked who they are before those are read', async (t) => {
  const { proxyPort, send, ledger } = await gatewayFixture(t);
  const strangers = slowSenders(t, proxyPort);
  const token = newSecretToken('gwt');
  for (let i = 0; i < 80; i++) strangers.send(token, BODY_LIMIT_DEFAULT_BYTES - 20);
  await strangers.answered(80);
  // 429: an address that shows many invalid tokens.
  t.same(new Set([...strangers.answers, '401', '429']), new Set(['401', '429']));
  t.equal((await send()).status, 201, 'others are served');
  t.equal(ledger.length, 1);
});

t.test('strangers who never end small bodies lose them before anybody else does', async (t) => {
  const { proxyPort, send } = await gatewayFixture(t);
  const strangers = slowSenders(t, proxyPort);
  const size = SMALL_BODY_MAX_BYTES - 100;
  for (let i = 0; i <= BUFFERED_SMALL_BODIES_MAX_BYTES / size; i++) strangers.send(newSecretToken('gwt'), size);
  await strangers.answered(1);
  t.same([...new Set(strangers.answers)], ['503']);
  t.equal((await send()).status, 201, 'others are served');
});

t.test('a token that holds more than its share loses its own bodies', async (t) => {
  const { proxyPort, account, send, ledger } = await gatewayFixture(t);
  t.equal((await send()).status, 201, 'the token is known from here on');
  const own = slowSenders(t, proxyPort);
  const size = BODY_LIMIT_DEFAULT_BYTES - 1_000;
  const fitting = Math.floor(BUFFERED_BODIES_PER_TOKEN_MAX_BYTES / size);
  for (let i = 0; i < fitting + 4; i++) own.send(account.token, size);
  await own.answered(4);
  t.same([...new Set(own.answers)], ['503']);
  t.equal((await send()).status, 201, 'small bodies have memory of their own');
  t.equal(ledger.length, 2);
});
