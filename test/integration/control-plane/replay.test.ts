import t from 'tap';
import { registerReplayRoutes } from '../../../control-plane/mandates/replay-routes.ts';
import { newTypeId } from '../../../core/type-id.ts';
import { cli } from '../cli/stub-admin.ts';
import { allowed, ask, tell } from '../decisions/lane-client.ts';
import { at, textAt } from './admin-fixture.ts';
import { fieldsOf, NOUN_ROUTES, nounFixture, problemOf } from './noun-fixture.ts';

const PAYMENTS = 'http.post:/payments';

/** A person whose agent made some payments: 60, 30 (released), 70 (asked, approved), 80, 120 (denied). */
async function paid(t: Parameters<typeof nounFixture>[0]) {
  const fixture = await nounFixture(t, { register: [...NOUN_ROUTES, registerReplayRoutes] });
  const agent = await fixture.agent({ escalation_threshold: 65, amount_limit_per_month: 250 });
  const tool = { name: PAYMENTS, mapping: { action_type: 'payments.create' } };
  const mapped = await fixture.as('PUT', `/admin/gateways/${agent.instanceId}/tools`, tool);
  const account = { ...agent, toolId: textAt(mapped, 'tool_id') };
  const pay = (amount: number, escalationToken?: string) =>
    ask(fixture.lanes, account, {
      amount: amount * 100,
      ...(escalationToken === undefined ? {} : { escalationToken }),
    });
  await pay(60);
  await tell(fixture.lanes, account, allowed(await pay(30)), { outcome: 'released', target_status: 404 });
  const asked = await pay(70);
  if (asked.answer !== 'escalate') throw new Error('it was not escalated');
  const approved = await fixture.as('POST', `/admin/escalations/${asked.escalation_id}/approve`);
  allowed(await pay(70, textAt(approved, 'escalation_token')));
  await pay(80);
  await pay(120);
  const replay = (body: unknown, id = agent.mandateId) => fixture.as('POST', `/admin/mandates/${id}/replay`, body);
  return { ...fixture, agent, account, pay, replay };
}

const verdicts = (body: unknown) =>
  (body as { counts: { recorded: object; replayed: object; count: number }[] }).counts.map((one) => {
    const name = ({ decision, code }: { decision?: string; code?: string | null }) => code ?? decision;
    return `${name(one.recorded)} -> ${name(one.replayed)}: ${one.count}`;
  });

t.test(
  'a replay under the same limits changes nothing, and under others it tells what would have changed',
  async (t) => {
    const { replay, sql } = await paid(t);
    const [before] = await sql<{ all: string }[]>`select json_agg(h)::text as all from account_heads h`;
    const same = await replay({});
    t.match(same.body, { decisions: 6, changed: 0, unreplayed: 0, currency: 'EUR', changes: [] });
    t.same(at(same, 'allowed'), { recorded: 160, replayed: 160 });
    const lifted = await replay({ escalation_threshold: null, amount_limit_per_action: 150 });
    t.same(verdicts(lifted.body).sort(), [
      'MD-302 -> MD-303: 1',
      'allow -> allow: 2',
      'allow -> not_asked: 1',
      'escalate -> allow: 2',
    ]);
    const low = await replay({ amount_limit_per_month: 100, changes: 1 });
    t.match(low.body, { changed: 3, changes: [{ type: 'payments.create', amount: 70, counterparty: 'acme' }] });
    t.match(at(low, 'changes.0'), {
      receipt_id: /^rcp_/,
      recorded: { decision: 'escalate', code: null },
      replayed: { decision: 'deny', code: 'MD-303', reason: /is 30\.00 more than the 40\.00 left/ },
    });
    t.same(verdicts((await replay({ scope: ['refunds.*'] })).body).sort(), [
      'MD-302 -> MD-301: 1',
      'allow -> MD-301: 3',
      'escalate -> MD-301: 2',
    ]);
    t.match((await replay({ counterparties: ['other'] })).body, { changed: 6 });
    const [after] = await sql<{ all: string }[]>`select json_agg(h)::text as all from account_heads h`;
    t.same(after, before, 'it is a question, not an action');
  },
);

t.test('a period is taken exactly, and one that cannot be meant is refused', async (t) => {
  const { replay, chain, send, agent, sql } = await paid(t);
  const times = (await sql<{ at: string }[]>`select at from evidence where kind = 'decision' order by seq`).map(
    (one) => one.at,
  );
  const later = times.filter((time) => time >= (times[2] ?? ''));
  t.match((await replay({ from: times[2] })).body, { decisions: later.length, period: { from: times[2] } });
  t.match((await replay({ from: '2020-01-01T00:00:00Z', to: times[2] })).body, { decisions: 6 - later.length });
  t.match((await replay({ from: '2020-01-01T00:00:00Z', to: '2020-02-01T00:00:00Z' })).body, {
    decisions: 0,
    days: [],
  });
  const refused = async (body: unknown) => {
    const answer = await replay(body);
    t.equal(answer.status, 422, answer.text);
    return fieldsOf(answer);
  };
  t.same(await refused({ from: '2030-01-01T00:00:00Z' }), ['from']);
  t.same(await refused({ to: '2020-01-01T00:00:00Z' }), ['to']);
  t.same(await refused({ from: '2026-01-01', to: 'x' }), ['from', 'to']);
  t.same(await refused({ amount_limit_per_month: -1 }), ['amount_limit_per_month']);
  t.same(await refused({ amount_limit_per_action: 1.001, escalation_threshold: -5 }), [
    'amount_limit_per_action',
    'escalation_threshold',
  ]);
  t.same(await refused({ scope: [] }), ['scope']);
  t.same(await refused({ scope: ['NOT A TYPE'] }), ['scope.0']);
  t.same(await refused({ counterparties: [''] }), ['counterparties.0']);
  t.same(await refused({ changes: 201 }), ['changes']);
  t.same(await refused({ currency: 'USD' }), ['(body)']);
  t.same(problemOf(await replay({}, newTypeId('mdt', Date.now()))), [404, 'not_found']);
  t.same(problemOf(await send('POST', `/admin/mandates/${agent.mandateId}/replay`, null, {})), [
    401,
    'unauthenticated',
  ]);
  t.ok((await chain()).length > 0);
});

t.test('two replays of an account do not run at once', async (t) => {
  const { replay } = await paid(t);
  const answers = await Promise.all([replay({}), replay({}), replay({})]);
  const statuses = answers.map(({ status }) => status).sort();
  t.ok(statuses.includes(200) && statuses.every((status) => status === 200 || status === 409), statuses.join());
  t.equal((await replay({})).status, 200, 'and each gives its turn back');
});

t.test('the CLI shows counts, a chart and what changes, and the very answer with --json', async (t) => {
  const { app, person, agent } = await paid(t);
  const url = await app.listen({ host: '127.0.0.1', port: 0 });
  const run = (...args: string[]) =>
    cli(['mandates', 'replay', agent.mandateId, ...args], { MANDATE_CONTROL_URL: url, MANDATE_TOKEN: person.token });
  const { code, stdout } = await run('--threshold', 'none', '--per-action', '150', '--per-month', '400');
  t.equal(code, 0);
  t.match(stdout, /allowed +160 EUR, would be 360 EUR/);
  t.match(stdout, /escalate +allow +2 +150/);
  t.match(stdout, /\d{4}-\d\d-\d\d {2}#+\++ +160 -> 360/);
  t.match(stdout, /rcp_\w{26} +80 +escalate +allow/);
  const json = await run('--per-month', '100', '--json');
  t.match(JSON.parse(json.stdout), { mandate_id: agent.mandateId, changed: 3 });
  t.equal((await run('--per-month', '1e3')).code, 2);
  t.equal((await run('--counterparty', 'a', '--any-counterparty')).code, 2);
  t.match((await run('--from', 'yesterday')).stderr, /from: must be an RFC 3339 time/);
});
