import { once } from 'node:events';
import t from 'tap';
import { secretHash, secretTokenOf } from '../../../core/secret-token.ts';
import type { EscalationWaitAnswer } from '../../../core/wire.ts';
import { begin, leave, PAYMENT, pay } from './agent.ts';
import { type ProxyFixture, proxyFixture } from './proxy-fixture.ts';

const GRANT = secretTokenOf('etk', Buffer.alloc(32, 5));
const WAIT = { headers: { prefer: 'wait=30' } };

/** Escalates until the grant is shown; returns how the human's answer is given. */
function escalating({ control }: ProxyFixture): (answer: EscalationWaitAnswer) => void {
  const waiting: ((answer: EscalationWaitAnswer) => void)[] = [];
  control.waitAnswer = () => new Promise((resolve) => waiting.push(resolve));
  control.decide = (ask) => {
    const mapping = control.mappingFor(ask);
    if (mapping !== null) return mapping;
    if (ask.escalation_token_hash === secretHash(GRANT)) return control.allowed(ask);
    return control.escalate(control.bodies.length === 0);
  };
  return (answer) => {
    for (const resolve of waiting.splice(0)) resolve(answer);
  };
}

t.test(
  'Prefer: wait holds the request until a human approved, and then it is decided again and forwarded',
  async (t) => {
    const fixture = await proxyFixture(t);
    const { port, control, target } = fixture;
    const human = escalating(fixture);
    const held = pay(port, WAIT);
    await control.waited(1);
    t.equal(target.begun, 0);
    t.equal(control.bodies.length, 1, 'the card shows the body before anybody answers');
    t.match(control.waits, [{ escalation_id: 'esc_1', timeout_ms: 30_000 }]);
    human({ status: 'approved', escalation_token: GRANT });
    const answer = await held;
    t.equal(answer.status, 201);
    t.equal(answer.headers['x-service-decision'], 'allow');
    t.equal(target.ledger.length, 1);
    t.notOk(target.ledger[0]?.headers['x-service-escalation-token']);
  },
);

t.test('a rejected request is decided again, which denies it', async (t) => {
  const fixture = await proxyFixture(t);
  const { port, control, target } = fixture;
  const human = escalating(fixture);
  const held = pay(port, WAIT);
  await control.waited(1);
  control.decide = () => control.deny('MD-401', 'rejected');
  human({ status: 'rejected', escalation_token: null });
  const answer = await held;
  t.same(answer.json['reasons'], ['MD-401']);
  t.equal(control.asks.at(-1)?.escalation_token_hash, null);
  t.equal(target.begun, 0);
});

t.test('nobody answered in the time the agent gave: escalate, to come back later', async (t) => {
  const fixture = await proxyFixture(t);
  const human = escalating(fixture);
  const held = pay(fixture.port, WAIT);
  await fixture.control.waited(1);
  human({ status: 'pending', escalation_token: null });
  t.equal((await held).json['error'], 'service_escalate');
});

t.test('an agent that leaves ends the wait, and nothing is forwarded even if it is approved then', async (t) => {
  const fixture = await proxyFixture(t);
  const { port, control, target } = fixture;
  const human = escalating(fixture);
  const request = begin(port, '/api/gateway/http/payments', { ...WAIT, body: PAYMENT });
  request.on('error', () => {});
  request.end(PAYMENT);
  await control.waited(1);
  const ended = once(control.events, 'wait-closed');
  await leave(request);
  await ended;
  t.match(control.waits, [{ aborted: true }]);
  const asked = control.asks.length;
  human({ status: 'approved', escalation_token: GRANT });
  await pay(port, { body: '{' });
  t.equal(control.asks.length, asked);
  t.equal(target.begun, 0);
});

t.test('only a wait of 1 to 600 seconds is a wait; anything else in Prefer is as if it were not there', async (t) => {
  const fixture = await proxyFixture(t);
  const { port, control } = fixture;
  const human = escalating(fixture);
  for (const prefer of ['wait', 'wait=', 'wait=0', 'wait=-1', 'wait=x', 'wait=1.5', 'return=minimal', 'wait = ten']) {
    t.equal((await pay(port, { headers: { prefer } })).json['error'], 'service_escalate', prefer);
  }
  t.equal(control.waits.length, 0);
  const lists = ['return=minimal, wait=5', 'respond-async,  wait="5"'];
  for (const [at, prefer] of lists.entries()) {
    const held = pay(port, { headers: { prefer } });
    await control.waited(at + 1);
    human({ status: 'pending', escalation_token: null });
    t.equal((await held).status, 403);
  }
  const long = pay(port, { headers: { prefer: 'wait=601' } });
  const done = await Promise.race([long, control.waited(lists.length + 1)]);
  if (done === undefined) t.ok((control.waits.at(-1)?.timeout_ms ?? 0) <= 600_000);
  human({ status: 'pending', escalation_token: null });
  t.equal((await long).status, 403);
});

t.test('the control plane going away while a request is held forwards nothing', async (t) => {
  const fixture = await proxyFixture(t);
  const { port, control, target } = fixture;
  escalating(fixture);
  const held = pay(port, WAIT);
  await control.waited(1);
  await control.stop();
  const answer = await held;
  t.ok(answer.status === 403 || answer.status === 503);
  t.equal(target.begun, 0);
});
