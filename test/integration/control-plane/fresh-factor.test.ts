import t from 'tap';
import { ask } from '../decisions/lane-client.ts';
import { type AdminAnswer, textAt } from './admin-fixture.ts';
import { MANDATE, type NounFixture, nounFixture, problemOf } from './noun-fixture.ts';

const STALE_SECONDS = 301;

async function escalate(fixture: NounFixture): Promise<string> {
  const agent = await fixture.agent({ escalation_threshold: 5 });
  const tool = { name: 'http.post:/payments', mapping: { action_type: 'payments.create' } };
  const toolId = textAt(await fixture.as('PUT', `/admin/gateways/${agent.instanceId}/tools`, tool), 'tool_id');
  const answer = await ask(fixture.lanes, { ...agent, toolId }, { amount: 501 });
  if (answer.answer !== 'escalate') throw new Error(JSON.stringify(answer));
  return answer.escalation_id;
}

const refused = (answer: AdminAnswer) => problemOf(answer).join(' ') === '403 factor_required';

t.test(
  'a session whose second factor is old may not say yes to agents, and one code is one yes for minutes',
  async (t) => {
    const fixture = await nounFixture(t);
    const { as, advance, code } = fixture;
    const [id, stopped, draft] = [
      await escalate(fixture),
      await fixture.mandate(),
      await fixture.mandate({ activate: false }),
    ];
    await as('POST', `/admin/mandates/${stopped}/suspend`, {});
    await advance(STALE_SECONDS);
    const path = `/admin/escalations/${id}`;
    const cases: readonly [path: string, body: object][] = [
      [`${path}/approve`, {}],
      [`${path}/reject`, {}],
      ['/admin/mandates', MANDATE],
      [`/admin/mandates/${draft}/activate`, {}],
      [`/admin/mandates/${stopped}/resume`, {}],
      [`/admin/mandates/${stopped}/revoke`, {}],
      [`/admin/mandates/${stopped}/change`, { amount_limit_per_action: 99 }],
      ['/admin/account/resume', {}],
    ];
    const before = (await fixture.chain()).length;
    for (const [url, body] of cases) {
      const answer = await as('POST', url, body);
      t.ok(refused(answer), `${url} ${answer.status}`);
      t.match(answer.text, /totp_code/);
    }
    t.equal((await fixture.chain()).length, before, 'nothing was done, nor counted as a failure');
    t.ok(refused(await as('POST', `${path}/approve`, { totp_code: '000000' })));
    t.match((await fixture.chain()).at(-1), { kind: 'session.refused', body: { place: 'session' } });
    const right = await code();
    t.equal((await as('POST', `${path}/approve`, { totp_code: right })).status, 200);
    t.equal((await as('POST', `/admin/mandates/${draft}/activate`, {})).status, 200, 'fresh again');
    await advance(STALE_SECONDS);
    t.ok(refused(await as('POST', `/admin/mandates/${stopped}/resume`, { totp_code: right })), 'a code works once');
  },
);

t.test('nobody is asked for a code before they stop an agent, or write a draft', async (t) => {
  const { as, advance, mandate } = await nounFixture(t);
  const id = await mandate();
  await mandate();
  await advance(STALE_SECONDS);
  t.equal((await as('POST', '/admin/mandates', { ...MANDATE, activate: false })).status, 201);
  t.equal((await as('POST', `/admin/mandates/${id}/suspend`, {})).status, 200);
  t.equal((await as('POST', '/admin/account/stop', {})).status, 200);
});

t.test('where each answer needs a factor of its own, the admin API asks for it as the console does', async (t) => {
  const fixture = await nounFixture(t);
  const path = `/admin/escalations/${await escalate(fixture)}/approve`;
  Object.assign(fixture.deps, { approvalFactorMs: 0 });
  await fixture.advance(30);
  t.ok(refused(await fixture.as('POST', path, {})));
  t.equal((await fixture.as('POST', path, { totp_code: await fixture.code() })).status, 200);
});

t.test('a code that was guessed too often locks what is confirmed, also for the right one', async (t) => {
  const { as, advance, code, mandate } = await nounFixture(t);
  const path = `/admin/mandates/${await mandate({ activate: false })}/activate`;
  await advance(STALE_SECONDS);
  let last = await as('POST', path, { totp_code: '000000' });
  for (let n = 0; n < 20 && last.status === 403; n++) last = await as('POST', path, { totp_code: '000000' });
  t.same(problemOf(last), [429, 'locked_out']);
  t.same(problemOf(await as('POST', path, { totp_code: await code() })), [429, 'locked_out']);
});
