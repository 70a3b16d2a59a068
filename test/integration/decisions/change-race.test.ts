import t from 'tap';
import type { GatewayAnswer } from '../../../core/wire.ts';
import { textAt } from '../control-plane/admin-fixture.ts';
import { nounFixture } from '../control-plane/noun-fixture.ts';
import { ask } from './lane-client.ts';

const ROUNDS = 30;
const CLIENTS = 64;

t.test(
  `no decision that starts after a change was answered goes by the old terms, among ${CLIENTS} that run`,
  async (t) => {
    const fixture = await nounFixture(t);
    const agent = await fixture.agent({ amount_limit_per_month: 9_000_000 });
    const mapped = await fixture.as('PUT', `/admin/gateways/${agent.instanceId}/tools`, {
      name: 'http.post:/payments',
      mapping: { action_type: 'payments.create' },
    });
    const rates = { rate_per_second: 1_000_000, rate_burst: 1_000_000 };
    t.equal((await fixture.as('PATCH', `/admin/gateways/${agent.instanceId}`, rates)).status, 200);
    const account = { ...agent, toolId: textAt(mapped, 'tool_id') };
    const path = `/admin/mandates/${agent.mandateId}`;
    for (let round = 0; round < ROUNDS; round++) {
      const limit = round % 2 === 0 ? 50 : 100;
      const late: Promise<GatewayAnswer>[] = [];
      const early = Array.from({ length: CLIENTS }, () => ask(fixture.lanes, account, { amount: 7_500 }));
      const change = fixture.as('POST', `${path}/change`, { amount_limit_per_action: limit }).then((answer) => {
        late.push(...Array.from({ length: CLIENTS }, () => ask(fixture.lanes, account, { amount: 7_500 })));
        return answer;
      });
      t.equal((await change).status, 200);
      const wanted = limit === 50 ? 'deny' : 'allow';
      const answers = await Promise.all(late);
      t.same([...new Set(answers.map(({ answer }) => answer))], [wanted], `round ${round}`);
      await Promise.all(early);
    }
    // In the chain, what was decided under a version stands between its change and the next one.
    let version = 1;
    let decisions = 0;
    for (const { kind, body } of await fixture.chain()) {
      if (kind === 'mandate.changed') version = (body['terms'] as { version: number }).version;
      if (kind !== 'decision') continue;
      decisions += 1;
      if ((body['mandate'] as { version: number }).version !== version)
        t.fail(`decided under another version than ${version}`);
    }
    t.equal(decisions, ROUNDS * CLIENTS * 2);
    t.equal(version, ROUNDS + 1);
    t.same(fixture.errors, []);
  },
);
