import { once } from 'node:events';
import { connect } from 'node:net';
import t from 'tap';
import { PAYMENT, pay, sendRaw, TOKEN } from './agent.ts';
import { type ProxyFixture, proxyFixture } from './proxy-fixture.ts';

const LINE = 'POST /api/gateway/http/payments HTTP/1.1\r\n';
const HEAD = `host: x\r\nauthorization: Bearer ${TOKEN}\r\ncontent-type: application/json\r\n`;
const SMUGGLED = `${LINE}${HEAD}content-length: ${PAYMENT.length}\r\n\r\n${PAYMENT}`;
const LENGTH = PAYMENT.length;
const HEX = LENGTH.toString(16);

/** Requests that two servers would end at different places, or read differently; each with its family. */
const FAMILIES: Readonly<Record<string, readonly string[]>> = {
  'CL.TE and TE.CL': [
    `${HEAD}content-length: ${LENGTH}\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n${SMUGGLED}`,
    `${HEAD}transfer-encoding: chunked\r\ncontent-length: 4\r\n\r\n${HEX}\r\n${PAYMENT}\r\n0\r\n\r\n`,
    `${HEAD}Content-Length: 0\r\nTransfer-Encoding: identity\r\n\r\n${SMUGGLED}`,
  ],
  'obfuscated transfer encodings': [
    `${HEAD}transfer-encoding: xchunked\r\n\r\n0\r\n\r\n`,
    `${HEAD}transfer-encoding: chunked, identity\r\n\r\n0\r\n\r\n`,
    `${HEAD}transfer-encoding: identity, chunked\r\ntransfer-encoding: x\r\n\r\n0\r\n\r\n`,
    `${HEAD}transfer-encoding:\x0bchunked\r\n\r\n0\r\n\r\n`,
    `${HEAD}transfer-encoding : chunked\r\n\r\n0\r\n\r\n`,
    `${HEAD}transfer-encoding\r\n : chunked\r\n\r\n0\r\n\r\n`,
    `${HEAD}x: y\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n`,
    `${HEAD}content-length: ${LENGTH}\r\ntransfer_encoding: chunked\r\ntransfer-encoding: cow\r\n\r\n${PAYMENT}`,
  ],
  'lengths that are repeated or not numbers': [
    `${HEAD}content-length: ${LENGTH}\r\ncontent-length: ${LENGTH}\r\n\r\n${PAYMENT}`,
    `${HEAD}content-length: 0\r\ncontent-length: ${LENGTH}\r\n\r\n${PAYMENT}`,
    ...[
      `${LENGTH}, ${LENGTH}`,
      `+${LENGTH}`,
      `-${LENGTH}`,
      `0x${HEX}`,
      `${LENGTH}.0`,
      `${LENGTH} 1`,
      '',
      '1e2',
      '\u0663',
    ].map((value) => `${HEAD}content-length: ${value}\r\n\r\n${PAYMENT}`),
    `${HEAD}content-length: 99999999999999999999999\r\n\r\n${PAYMENT}`,
    `${HEAD}content-length : ${LENGTH}\r\n\r\n${PAYMENT}`,
    `${HEAD} content-length: ${LENGTH}\r\n\r\n${PAYMENT}`,
  ],
  'line ends and control characters': [
    `${HEAD.replaceAll('\r\n', '\n')}content-length: ${LENGTH}\n\n${PAYMENT}`,
    `${HEAD}content-length: ${LENGTH}\n\r\n${PAYMENT}`,
    `${HEAD}content-length: ${LENGTH}\r\r\n\r\n${PAYMENT}`,
    `${HEAD}x: a\0b\r\ncontent-length: ${LENGTH}\r\n\r\n${PAYMENT}`,
    `${HEAD}x\0: a\r\ncontent-length: ${LENGTH}\r\n\r\n${PAYMENT}`,
    `${HEAD}x: a\x7fb\x01\r\ncontent-length: ${LENGTH}\r\n\r\n${PAYMENT}`,
    `${HEAD}folded: a\r\n b\r\ncontent-length: ${LENGTH}\r\n\r\n${PAYMENT}`,
    `${HEAD}: no name\r\ncontent-length: ${LENGTH}\r\n\r\n${PAYMENT}`,
    `${HEAD}n\xe4me: x\r\ncontent-length: ${LENGTH}\r\n\r\n${PAYMENT}`,
  ],
  'tricks with chunks': [
    ...[
      `0x${HEX}`,
      `-${HEX}`,
      `+${HEX}`,
      `${HEX} `,
      `\t${HEX}`,
      'ffffffffffffffffff',
      '',
      'x',
      `${HEX}\n${PAYMENT}`,
    ].map((size) => `${HEAD}transfer-encoding: chunked\r\n\r\n${size}\r\n${PAYMENT}\r\n0\r\n\r\n`),
    `${HEAD}transfer-encoding: chunked\r\n\r\n${HEX}\r\n${PAYMENT}0\r\n\r\n`,
    `${HEAD}transfer-encoding: chunked\r\n\r\n${HEX}\r\n${PAYMENT}XX0\r\n\r\n`,
    `${HEAD}transfer-encoding: chunked\r\n\r\n${HEX}\n${PAYMENT}\n0\n\n`,
    `${HEAD}transfer-encoding: chunked\r\n\r\n${HEX};a=\0\r\n${PAYMENT}\r\n0\r\n\r\n`,
  ],
  hosts: [
    `host: y\r\n${HEAD}content-length: ${LENGTH}\r\n\r\n${PAYMENT}`,
    `${HEAD.replace('host: x\r\n', '')}content-length: ${LENGTH}\r\n\r\n${PAYMENT}`,
  ],
  sizes: [
    `${HEAD}x: ${'y'.repeat(20_000)}\r\ncontent-length: ${LENGTH}\r\n\r\n${PAYMENT}`,
    `${HEAD}${'x: y\r\n'.repeat(5_000)}content-length: ${LENGTH}\r\n\r\n${PAYMENT}`,
  ],
};

const LINES = [
  `POST /api/gateway/http/payments HTTP/1.1\n`,
  `POST /api/gateway/http/payments HTTP/9.9\r\n`,
  `POST /api/gateway/http/payments HTTP/2.0\r\n`,
  `POST /api/gateway/http/payments\r\n`,
  `POST /api/gateway/http/pay\0ments HTTP/1.1\r\n`,
  `POST /api/gateway/http/pay ments HTTP/1.1\r\n`,
  `P\0ST /api/gateway/http/payments HTTP/1.1\r\n`,
  `PRI * HTTP/2.0\r\n`,
  `\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03`,
];

async function neverThere({ target, control }: ProxyFixture, t: Tap, what: string): Promise<void> {
  t.same(control.asks, [], `${what}: nothing was asked`);
  t.equal(target.begun, 0, `${what}: nothing reached the target`);
}
type Tap = Parameters<typeof proxyFixture>[0];

for (const [family, requests] of Object.entries(FAMILIES)) {
  t.test(`${family}: refused, never forwarded, and the proxy goes on`, { timeout: 60_000 }, async (t) => {
    const fixture = await proxyFixture(t);
    for (const rest of requests) {
      const shown = JSON.stringify(rest.replace(HEAD, '…').slice(0, 90));
      // A bare CR LF pair ends whatever still waits for more, so that the connection ends as well.
      const answer = await sendRaw(fixture.port, `${LINE}connection: close\r\n${rest}\r\n\r\n`);
      t.match(answer, /^HTTP\/1\.1 4[0-9][0-9] /, shown);
      t.equal(answer.split(/HTTP\/1\.1 [0-9]{3} /).length, 2, `${shown}: one answer`);
      await neverThere(fixture, t, shown);
    }
    t.equal((await pay(fixture.port)).status, 201, 'the next request is served');
  });
}

t.test('request lines that are not HTTP/1.1: refused, never forwarded, and the proxy goes on', async (t) => {
  const fixture = await proxyFixture(t);
  for (const line of LINES) {
    const rest = `${HEAD}connection: close\r\ncontent-length: ${LENGTH}\r\n\r\n${PAYMENT}`;
    const answer = await sendRaw(fixture.port, `${line}${rest}`);
    t.match(answer, /^HTTP\/1\.1 [45][0-9][0-9] /, JSON.stringify(line));
    await neverThere(fixture, t, JSON.stringify(line));
  }
  t.equal((await pay(fixture.port)).status, 201);
});

t.test('what follows a request on its connection is a request of its own, with a decision of its own', async (t) => {
  const fixture = await proxyFixture(t);
  const one = `${LINE}${HEAD}content-length: ${LENGTH}\r\n\r\n${PAYMENT}`;
  const last = `${LINE}${HEAD}connection: close\r\ncontent-length: ${LENGTH}\r\n\r\n${PAYMENT}`;
  const answers = await sendRaw(fixture.port, one + one + last);
  t.equal(answers.split('HTTP/1.1 201 ').length, 4);
  t.equal(fixture.target.ledger.length, 3);
  const receipts = fixture.target.ledger.map(({ headers }) => headers['x-service-receipt']);
  t.equal(new Set(receipts).size, 3);
});

t.test('garbage behind a request does not become its answer, nor a part of it', async (t) => {
  const fixture = await proxyFixture(t);
  const { port, target } = fixture;
  const one = `${LINE}${HEAD}content-length: ${LENGTH}\r\n\r\n${PAYMENT}`;
  target.respond = () => {};
  const before = sendRaw(port, `${one}GARBAGE\r\n\r\n`);
  t.equal(await before, '', 'nothing is known of the first request yet');
  target.respond = (_request, response) => {
    response.writeHead(200, { 'content-type': 'text/plain' });
    response.write('first piece;');
  };
  const socket = connect({ host: '127.0.0.1', port });
  const seen: Buffer[] = [];
  socket.on('error', () => {});
  socket.on('data', (chunk: Buffer) => seen.push(chunk));
  socket.write(one);
  while (!Buffer.concat(seen).includes('first piece;')) await once(socket, 'data');
  socket.write('GARBAGE\r\n\r\n');
  await new Promise<void>((resolve) => socket.once('close', () => resolve()));
  const all = Buffer.concat(seen).toString();
  t.equal(all.split('HTTP/1.1 ').length, 2);
  t.ok(all.endsWith('first piece;\r\n'), 'the break is visible: there is no last chunk');
});

t.test('upgrades and CONNECT take no connection over', async (t) => {
  const fixture = await proxyFixture(t);
  const upgrade =
    'connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\nsec-websocket-key: eA==\r\n';
  const h2c = 'connection: upgrade, http2-settings\r\nupgrade: h2c\r\nhttp2-settings: AAMAAABkAAQAAP__\r\n';
  for (const bytes of [
    `GET /api/gateway/http/payments HTTP/1.1\r\n${HEAD}${upgrade}\r\n${SMUGGLED}`,
    `POST /api/gateway/http/payments HTTP/1.1\r\n${HEAD}${upgrade}content-length: 0\r\n\r\n${SMUGGLED}`,
    `GET /api/gateway/http/payments HTTP/1.1\r\n${HEAD}${h2c}\r\n${SMUGGLED}`,
    `CONNECT target.example:443 HTTP/1.1\r\nhost: target.example:443\r\n\r\n${SMUGGLED}`,
    `CONNECT /api/gateway/http/payments HTTP/1.1\r\n${HEAD}\r\n${SMUGGLED}`,
    `GET /api/v1/verify HTTP/1.1\r\n${HEAD}${upgrade}\r\n${SMUGGLED}`,
  ]) {
    const answer = await sendRaw(fixture.port, bytes);
    t.match(answer, /^HTTP\/1\.1 4[0-9][0-9] /, bytes.slice(0, 60));
    await neverThere(fixture, t, bytes.slice(0, 40));
  }
  t.equal((await pay(fixture.port)).status, 201);
});
