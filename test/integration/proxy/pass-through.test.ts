import t from 'tap';
import { send, TOKEN } from './agent.ts';
import { proxyFixture } from './proxy-fixture.ts';
import { Target } from './target.ts';

t.test('the other paths of the API go to the control plane, which learns from the proxy alone who asked', async (t) => {
  const admin = await new Target().start();
  t.teardown(() => admin.stop());
  const { port, target, control } = await proxyFixture(t, { controlUrl: admin.url });
  for (const path of ['/api/v1/escalations/esc_1?x=1', '/.well-known/jwks.json']) {
    const answer = await send(port, path, {
      method: 'GET',
      headers: {
        'x-forwarded-for': '203.0.113.9',
        forwarded: 'for=203.0.113.9',
        'x-real-ip': '203.0.113.9',
        'x-mandate-internal-secret': 'forged',
      },
    });
    t.equal(answer.status, 201);
    const received = admin.ledger.at(-1);
    t.equal(received?.url, path);
    t.equal(
      received?.headers.authorization,
      `Bearer ${TOKEN}`,
      'whose request it is, is for the control plane to judge',
    );
    t.equal(received?.headers['x-forwarded-for'], '127.0.0.1');
    t.notMatch(JSON.stringify(received?.rawHeaders), /203\.0|forged/);
  }
  t.same(control.asks, []);
  t.equal(target.begun, 0);
});

t.test('without a control plane the other paths are 503', async (t) => {
  const { port } = await proxyFixture(t);
  const answer = await send(port, '/api/v1/escalations/esc_1', { method: 'GET' });
  t.equal(answer.status, 503);
  t.equal(answer.json['error'], 'not_decidable');
  t.equal(answer.headers['retry-after'], '1');
});
