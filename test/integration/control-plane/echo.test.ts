import { request as httpRequest } from 'node:http';
import t from 'tap';
import { newSecretToken } from '../../../core/secret-token.ts';
import { INTERNAL_SECRET_HEADER } from '../../../core/wire.ts';
import { sendTo } from '../gateway/gateway-fixture.ts';
import { sandboxFixture } from './sandbox-fixture.ts';

const ECHO = '/api/sandbox/echo';

t.test('the echo answers what it received, whatever the method, and with nothing of the way', async (t) => {
  const { send, sql, sandboxId, errors } = await sandboxFixture(t);
  for (const method of ['POST', 'PUT', 'PATCH', 'DELETE', 'GET', 'OPTIONS']) {
    const headers = { 'x-note': 'kept', 'x-forwarded-for': '203.0.113.9', 'content-type': 'application/json' };
    const answer = await send(`${ECHO}?a=1&a=%20?`, undefined, { method, headers, body: '{"a":1,"a":2}' });
    t.equal(answer.status, 200, `${method} ${answer.text}`);
    t.match(answer.headers, { 'content-type': /^application\/json/, 'x-content-type-options': 'nosniff' });
    const { headers: seen, body, ...rest } = answer.json;
    t.same(rest, { method, path: ECHO, query: 'a=1&a=%20?', body_encoding: 'utf-8' });
    // Whoever stands on the way may drop what means nothing to these methods.
    if (method !== 'GET' && method !== 'OPTIONS') t.equal(body, '{"a":1,"a":2}', method);
    t.match(seen, { 'x-note': 'kept' });
    t.same(
      Object.keys(seen as object).filter((name) => /forwarded|host|connection|mandate/.test(name)),
      [],
    );
  }
  const head = await send(ECHO, undefined, { method: 'HEAD' });
  t.match(head, { status: 200, text: '' });
  t.equal((await sql`select from evidence where account_id = ${sandboxId}`).length, 0, 'nothing is recorded');
  t.same(errors, []);
});

t.test('credentials are masked wherever they stand in the headers', async (t) => {
  const { send, controlPort } = await sandboxFixture(t);
  const secret = 'do-not-tell';
  const names = ['Authorization', 'Proxy-Authorization', 'Cookie', 'Set-Cookie', 'X-Api-Key', 'apikey', 'X-Auth-Token'];
  const more = ['X-Acme-Key', 'X-Service-Escalation-Token', 'X-Amz-Signature', 'X-Client-Secret', 'X-Session-Id'];
  for (const name of [...names, ...more]) {
    const answer = await send(ECHO, undefined, { method: 'GET', headers: { [name]: secret } });
    t.equal(answer.status, 200, name);
    t.notMatch(answer.text, secret, name);
    if (name !== 'Proxy-Authorization') {
      t.match((answer.json['headers'] as Record<string, unknown>)[name.toLowerCase()], '***', name);
    }
  }
  const own = newSecretToken('mak');
  t.notMatch((await send(ECHO, undefined, { headers: { 'x-note': own } })).text, own.slice(4));
  const key = await send(ECHO, undefined, { headers: { 'idempotency-key': 'order 7' } });
  t.match(key.json, { headers: { 'idempotency-key': 'order 7' } }, 'what is no credential is told');
  for (const given of ['a shared secret of the test', 'a guess']) {
    const headers = { [INTERNAL_SECRET_HEADER]: given };
    const direct = await sendTo(controlPort, '', { path: ECHO, token: null, method: 'GET', body: null, headers });
    t.equal(direct.status, 200);
    t.notMatch(direct.text, given, 'nor the secret of proxies');
    t.notMatch(direct.text, INTERNAL_SECRET_HEADER);
  }
});

t.test('any content type and any bytes are taken, and none is interpreted', async (t) => {
  const { send, controlPort } = await sandboxFixture(t);
  const types = ['text/plain', 'application/xml', 'application/octet-stream', 'image/x-none', 'application/json'];
  for (const type of types) {
    const answer = await send(ECHO, undefined, { headers: { 'content-type': type }, body: '{"open' });
    t.match(answer, { status: 200, json: { body: '{"open' } }, type);
  }
  const bytes = Buffer.from([0, 255, 254, 65]);
  t.match(await send(ECHO, undefined, { body: bytes }), {
    json: { body: bytes.toString('base64'), body_encoding: 'base64' },
  });
  t.match(await send(ECHO, undefined, { body: '\ufeffa' }), { json: { body: '\ufeffa', body_encoding: 'utf-8' } });
  const got = await sendTo(controlPort, '', { path: ECHO, token: null, method: 'GET', body: 'of a GET' });
  t.match(got, { status: 200, json: { method: 'GET', body: 'of a GET' } });
});

t.test('a body above 64 KiB is refused, whether its length is told or not', async (t) => {
  const { send, controlPort, errors } = await sandboxFixture(t);
  const limit = 64 * 1024;
  t.match(await send(ECHO, undefined, { body: 'x'.repeat(limit) }), { status: 200 });
  const large = 'x'.repeat(limit + 1);
  t.match(await send(ECHO, undefined, { body: large }), { status: 413, json: { error: 'payload_too_large' } });
  const chunked = { headers: { 'transfer-encoding': 'chunked' }, body: large };
  t.match(await send(ECHO, undefined, chunked), { status: 413 });
  const direct = await sendTo(controlPort, '', { path: ECHO, token: null, body: large });
  t.match(direct, { status: 413, headers: { connection: 'close' } });
  await new Promise<void>((resolve) => {
    const half = httpRequest({ port: controlPort, path: ECHO, method: 'POST', headers: { 'content-length': 10 } });
    half.on('error', () => resolve());
    half.write('half', () => half.destroy());
    half.on('close', () => resolve());
  });
  t.match(await send(ECHO, undefined, { body: 'still here' }), { status: 200 });
  t.same(errors, [], 'and what breaks off is no fault of ours');
});

t.test('only the echo itself is there, and it is limited like everything else', async (t) => {
  const { send } = await sandboxFixture(t, { ownRates: true });
  t.match(await send(`${ECHO}/more`, undefined, { method: 'GET' }), { status: 404 });
  const answers = [];
  for (let i = 0; i < 30; i++) answers.push(await send(ECHO, undefined, { method: 'GET' }));
  const refused = answers.find(({ status }) => status === 429);
  t.match(refused, {
    json: { error: 'rate_limited' },
    headers: { 'x-ratelimit-remaining': '0', 'retry-after': /^1$/ },
  });
});
