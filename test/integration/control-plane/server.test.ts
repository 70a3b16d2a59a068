import t from 'tap';
import { type AdminAnswer, adminFixture, at, PASSWORD } from './admin-fixture.ts';

function problem(answer: AdminAnswer): [number, unknown] {
  return [answer.status, at(answer, 'error')];
}

t.test('every answer, error or not, has its request id, its rate and no-store', async (t) => {
  const fixture = await adminFixture(t, {
    register: [(app) => void app.get('/admin/fails', () => Promise.reject(new Error('secret detail')))],
  });
  const { send } = fixture;
  const { token } = await fixture.signUp();
  const answers = [
    await send('GET', '/admin/account', token),
    await send('GET', '/admin/account', null),
    await send('GET', '/nowhere', null),
    await send('DELETE', '/admin/account', token),
    await send('POST', '/admin/login', null, '{'),
    await send('GET', '/admin/fails', token),
    await send('GET', '/healthz', null),
    await send('GET', '/admin/%zz', token),
  ];
  t.same(
    answers.map((answer) => answer.status),
    [200, 401, 404, 405, 400, 500, 200, 400],
  );
  for (const [n, { headers, status, body }] of answers.entries()) {
    t.equal(headers['cache-control'], 'no-store', `${n}`);
    t.match(headers['x-request-id'], /^[0-9a-f-]{36}$/, `${n}`);
    t.ok(
      'x-ratelimit-limit' in headers && 'x-ratelimit-remaining' in headers && 'x-ratelimit-reset' in headers,
      `${n}`,
    );
    if (status < 400) continue;
    t.match(headers['content-type'], /^application\/problem\+json/, `${n}`);
    t.match(body, { status, request_id: headers['x-request-id'], type: /^urn:mandate-gateway:problem:/ });
  }
  t.equal(answers[3]?.headers['allow'], 'GET');
  t.same([at(answers[5]!, 'error'), answers[5]?.text.includes('secret detail')], ['internal', false]);
  t.equal(fixture.errors.length, 1, 'what is ours to mend is logged');
});

t.test('only strict JSON of at most 256 KiB is read', async (t) => {
  const { send, app } = await adminFixture(t);
  const post = (body: string) => send('POST', '/admin/login', null, body);
  t.same(problem(await post('{"email":1,"email":2}')), [400, 'malformed_json']);
  t.same(problem(await post('{"email":1e400}')), [400, 'malformed_json']);
  t.same(problem(await post(`"${'x'.repeat(256 * 1024)}"`)), [413, 'payload_too_large']);
  t.same(problem(await post('[]')), [422, 'invalid']);
  t.same(problem(await post('{"__proto__":{"email":"a@b.c"}}')), [422, 'invalid']);
  for (const type of ['text/plain', 'application/x-www-form-urlencoded', 'application/jsonp']) {
    const answer = await app.inject({
      method: 'POST',
      url: '/admin/login',
      headers: { 'content-type': type },
      payload: '{}',
    });
    t.equal(answer.statusCode, 415, type);
  }
});

t.test('an empty bucket refuses until it has refilled; invented credentials bring no new one', async (t) => {
  const { send } = await adminFixture(t, { managementRate: { perSecond: 0.001, burst: 3 } });
  const invented = () => `ses_${'A'.repeat(42)}${'AEIMQUY'[Math.floor(Math.random() * 7)]}`;
  const answers: AdminAnswer[] = [];
  for (let i = 0; i < 4; i++) answers.push(await send('GET', '/admin/account', invented()));
  t.same(
    answers.map((answer) => answer.status),
    [401, 401, 401, 429],
  );
  t.same(
    answers.map(({ headers }) => Number(headers['x-ratelimit-remaining'])),
    [2, 1, 0, 0],
  );
  t.equal(at(answers[3]!, 'error'), 'rate_limited');
  t.ok(Number(answers[3]?.headers['retry-after']) > 1);
  t.equal((await send('GET', '/healthz', null)).status, 200, 'probes have their own');
});

t.test('a session has a bucket of its own', async (t) => {
  const fixture = await adminFixture(t, { managementRate: { perSecond: 0.001, burst: 5 } });
  const { token } = await fixture.signUp();
  const statuses: number[] = [];
  for (let i = 0; i < 6; i++) statuses.push((await fixture.send('GET', '/admin/account', token)).status);
  t.same(statuses, [200, 200, 200, 200, 200, 429]);
  t.equal((await fixture.send('GET', '/admin/account', null)).status, 401, "the address's is another");
});

t.test('without its database the process is alive, not ready, and says when to come back', async (t) => {
  const fixture = await adminFixture(t);
  t.equal((await fixture.send('GET', '/readyz', null)).status, 200);
  const { token } = await fixture.signUp();
  await fixture.deps.sql.end();
  t.equal((await fixture.send('GET', '/healthz', null)).status, 200);
  const sent = [
    await fixture.send('GET', '/readyz', null),
    await fixture.send('GET', '/admin/account', token),
    await fixture.send('POST', '/admin/login', null, { email: 'a@b.c', password: PASSWORD, totp_code: '000000' }),
  ];
  for (const answer of sent) {
    t.same(problem(answer), [503, 'not_decidable']);
    t.equal(String(answer.headers['retry-after']), '1');
  }
});
