import { connect } from 'node:net';
import t from 'tap';
import { gatewayFixture } from './gateway-fixture.ts';

/** Sends raw bytes and returns all that comes back until the server ends the connection or falls silent. */
function raw(port: number, text: string): Promise<string> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1');
    let answer = '';
    const done = (): void => {
      socket.destroy();
      resolve(answer);
    };
    socket.setTimeout(1_500, done);
    socket.on('data', (chunk) => {
      answer += chunk.toString('latin1');
    });
    socket.on('close', done);
    socket.on('error', () => {});
    socket.write(text, 'latin1');
  });
}

const BODY = '{"amount":1,"currency":"EUR"}';

t.test('HTTP that two servers could read differently never reaches the target and never stops the proxy', async (t) => {
  const { proxyPort, account, ledger, send } = await gatewayFixture(t);
  const bearer = `Authorization: Bearer ${account.token}\r\n`;
  const head = (extra: string, line = 'POST /api/gateway/http/payments HTTP/1.1'): string =>
    `${line}\r\nHost: gateway\r\n${bearer}Content-Type: application/json\r\n${extra}\r\n`;
  const chunked = `${BODY.length.toString(16)}\r\n${BODY}\r\n0\r\n\r\n`;
  const length = `Content-Length: ${BODY.length}\r\n`;
  const hidden = 'POST /api/gateway/http/admin HTTP/1.1\r\nHost: x\r\n\r\n';
  const cases: Record<string, string> = {
    'CL.TE': `${head(`${length}Transfer-Encoding: chunked\r\n`)}0\r\n\r\n${hidden}`,
    'TE.CL': `${head(`Transfer-Encoding: chunked\r\nContent-Length: 4\r\n`)}${chunked}`,
    'two lengths': `${head(`${length}Content-Length: 3\r\n`)}${BODY}`,
    'two equal lengths': `${head(length + length)}${BODY}`,
    'a length list': `${head(`Content-Length: ${BODY.length}, ${BODY.length}\r\n`)}${BODY}`,
    'a signed length': `${head(`Content-Length: +${BODY.length}\r\n`)}${BODY}`,
    'a length in hexadecimal': `${head('Content-Length: 0x1d\r\n')}${BODY}`,
    'a negative length': `${head('Content-Length: -1\r\n')}${BODY}`,
    'an obfuscated encoding': `${head('Transfer-Encoding: xchunked\r\n')}${chunked}`,
    'two encodings': `${head('Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n')}${chunked}`,
    'an encoding with a tab': `${head('Transfer-Encoding:\tchunked\r\nContent-Length: 3\r\n')}${chunked}`,
    'a space before the colon': `${head(`Content-Length : ${BODY.length}\r\n`)}${BODY}`,
    'a folded header': `${head(`X-A: b\r\n c\r\n${length}`)}${BODY}`,
    'a bare line feed': head(length).replaceAll('\r\n', '\n') + BODY,
    'a bare carriage return': `${head(`X-A: b\rc\r\n${length}`)}${BODY}`,
    'a NUL in a header': `${head(`X-A: b\0c\r\n${length}`)}${BODY}`,
    'a NUL in the path': `${head(length, 'POST /api/gateway/http/pay\0ments HTTP/1.1')}${BODY}`,
    'no host': `POST /api/gateway/http/payments HTTP/1.1\r\n${bearer}${length}\r\n${BODY}`,
    'two hosts': `${head(`Host: other\r\n${length}`)}${BODY}`,
    'an absolute target': `${head(length, 'POST http://evil/api/gateway/http/payments HTTP/1.1')}${BODY}`,
    'HTTP/0.9': 'GET /api/gateway/http/payments\r\n\r\n',
    'an unknown version': `${head(length, 'POST /api/gateway/http/payments HTTP/9.9')}${BODY}`,
    'an unknown method': `${head(length, 'PAY /api/gateway/http/payments HTTP/1.1')}${BODY}`,
    'a lower-case method': `${head(length, 'post /api/gateway/http/payments HTTP/1.1')}${BODY}`,
    CONNECT: 'CONNECT target:443 HTTP/1.1\r\nHost: target:443\r\n\r\n',
    'an upgrade': head('Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: a\r\n'),
    'an upgrade to h2c': head('Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AA\r\n'),
    'an HTTP/2 preface': 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n',
    'headers beyond the limit': `${head(`X-Big: ${'a'.repeat(20_000)}\r\n${length}`)}${BODY}`,
    'a bad chunk size': `${head('Transfer-Encoding: chunked\r\n')}zz\r\n${BODY}\r\n0\r\n\r\n`,
    'a chunk longer than it says': `${head('Transfer-Encoding: chunked\r\n')}5\r\n${BODY}\r\n0\r\n\r\n`,
    'trailers after chunks': `${head('Transfer-Encoding: chunked\r\n')}${chunked.slice(0, -2)}X-T: 1\r\n\r\n`,
    'a body that is cut short': `${head(`Content-Length: ${BODY.length + 5}\r\n`)}${BODY}`,
    'nothing but bytes': '\x16\x03\x01\x02\x00\x01\x00',
  };
  for (const [what, text] of Object.entries(cases)) {
    const answer = await raw(proxyPort, text);
    t.notMatch(answer, /^HTTP\/1\.1 2/, `${what} is not allowed`);
    t.notMatch(answer, /^HTTP\/1\.1 5/, `${what} is no fault of ours`);
  }
  t.equal(ledger.length, 0, 'nothing reached the target');
  t.equal((await send()).status, 201, 'the proxy still works');
  t.equal(ledger.length, 1);
});

t.test('a pipelined request behind an allowed one is decided on its own', async (t) => {
  const { proxyPort, account, ledger } = await gatewayFixture(t);
  const one = (path: string): string =>
    `POST /api/gateway/http/${path} HTTP/1.1\r\nHost: g\r\nAuthorization: Bearer ${account.token}\r\n` +
    `Content-Type: application/json\r\nContent-Length: ${BODY.length}\r\n\r\n${BODY}`;
  const answer = await raw(proxyPort, one('payments') + one('admin'));
  t.match(answer, /^HTTP\/1\.1 201[\s\S]*HTTP\/1\.1 403[\s\S]*MD-501/);
  t.same(
    ledger.map(({ url }) => url),
    ['/payments'],
  );
});
