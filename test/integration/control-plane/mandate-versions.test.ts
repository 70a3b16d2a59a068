import t from 'tap';
import { mandateWords, wordingOf } from '../../../core/mandate-words.ts';
import type { GatewayAnswer } from '../../../core/wire.ts';
import { allowed, ask } from '../decisions/lane-client.ts';
import { at, textAt } from './admin-fixture.ts';
import { fieldsOf, MANDATE, type NounFixture, nounFixture, problemOf } from './noun-fixture.ts';

const PAYMENTS = 'http.post:/payments';

/** An agent whose payments are mapped; amounts below are minor units. */
async function payer(fixture: NounFixture, changes: Readonly<Record<string, unknown>> = {}) {
  const agent = await fixture.agent(changes);
  const path = `/admin/gateways/${agent.instanceId}/tools`;
  const mapped = await fixture.as('PUT', path, { name: PAYMENTS, mapping: { action_type: 'payments.create' } });
  const account = { ...agent, toolId: textAt(mapped, 'tool_id') };
  const pay = (amount: number) => ask(fixture.lanes, account, { amount });
  const change = (body: unknown) => fixture.as('POST', `/admin/mandates/${agent.mandateId}/change`, body);
  return { account, pay, change };
}

const codeOf = (answer: GatewayAnswer) => (answer.answer === 'deny' ? answer.code : answer.answer);

t.test('new terms hold from the moment the change is answered, and say what they changed', async (t) => {
  const fixture = await nounFixture(t);
  const { account, pay, change } = await payer(fixture);
  allowed(await pay(10_000));
  const changed = await change({ amount_limit_per_action: 50, escalation_threshold: 20, reason: 'too much' });
  t.equal(changed.status, 200);
  t.match(changed.body, {
    version: 2,
    status: 'active',
    amount_limit_per_action: 50,
    usage: { reserved: 100 },
    changes: [
      { field: 'amount_limit_per_action', before: 100, after: 50 },
      { field: 'escalation_threshold', before: null, after: 20 },
    ],
    uncovered_tools: [],
  });
  t.equal(codeOf(await pay(5_001)), 'MD-302');
  t.equal(codeOf(await pay(5_000)), 'escalate');
  allowed(await pay(2_000));
  const entries = await fixture.chain();
  const entry = entries.find(({ kind }) => kind === 'mandate.changed');
  t.match(entry?.body, {
    terms: { version: 2, per_action: 5_000, mandate_id: account.mandateId },
    before: { version: 1 },
    reason: 'too much',
    digest: at(changed, 'digest'),
  });
  const last = entries.filter(({ kind }) => kind === 'decision').at(-1);
  t.match(last?.body, { mandate: { version: 2, digest: at(changed, 'digest') } });
  const versions = await fixture.as('GET', `/admin/mandates/${account.mandateId}/versions`);
  t.match(at(versions, 'versions'), [
    { version: 2, terms: { amount_limit_per_action: 50 }, changes: [{ field: 'amount_limit_per_action' }, {}] },
    { version: 1, terms: { amount_limit_per_action: 100 }, changes: [] },
  ]);
});

t.test('a limit below what is used already allows nothing more, and a higher one again does', async (t) => {
  const fixture = await nounFixture(t);
  const { pay, change } = await payer(fixture);
  allowed(await pay(10_000));
  const lowered = await change({ amount_limit_per_month: 40 });
  t.match(lowered.body, { usage: { reserved: 100, remaining: 0 } });
  t.equal(codeOf(await pay(1)), 'MD-303');
  t.equal(codeOf(await pay(0)), 'MD-303');
  t.equal((await change({ amount_limit_per_month: 101 })).status, 200);
  allowed(await pay(100));
  t.equal(codeOf(await pay(1)), 'MD-303');
});

t.test('what the past was counted by cannot change, nor what has ended; the answer says why', async (t) => {
  const fixture = await nounFixture(t);
  const { account, change } = await payer(fixture, { max_uses: 3 });
  const fixed = await change({ currency: 'USD', time_zone: 'Europe/Berlin', agent_did: '' });
  t.same(fieldsOf(fixed).sort(), ['agent_did', 'currency', 'time_zone']);
  t.match(at(fixed, 'detail'), /cannot be changed: .*make a new mandate/);
  t.same(fieldsOf(await change({})), ['(body)']);
  t.same(fieldsOf(await change({ amount_limit_per_action: 100 })), ['(body)'], 'the same terms again');
  t.same(fieldsOf(await change({ amount_limit_per_action: 1.234, amount_limit_per_month: -1 })).length, 2);
  const long = Array.from({ length: 1000 }, (_, i) => `${'x'.repeat(50)}${i}`);
  t.same(fieldsOf(await change({ counterparties: long })), ['counterparties'], 'more than an entry holds');
  t.equal((await fixture.as('POST', '/admin/mandates', { ...MANDATE, counterparties: long })).status, 422);
  t.same(fieldsOf(await change({ valid_until: '2001-01-01T00:00:00Z' })), ['valid_until']);
  t.same(problemOf(await change({ max_uses: 4, version: 2 })), [409, 'conflict'], 'thought for another version');
  t.equal((await change({ max_uses: 4, version: 1 })).status, 200);
  await fixture.as('POST', `/admin/mandates/${account.mandateId}/revoke`, {});
  t.same(problemOf(await change({ max_uses: 5 })), [409, 'conflict']);
});

t.test('uses that were made bound how few there may be, and null takes limits away', async (t) => {
  const fixture = await nounFixture(t);
  const { pay, change } = await payer(fixture, {
    max_uses: 3,
    escalation_threshold: 1,
    valid_until: '2999-01-01T00:00:00Z',
  });
  allowed(await pay(100));
  allowed(await pay(100));
  t.same(fieldsOf(await change({ max_uses: 1 })), ['max_uses']);
  t.equal((await change({ max_uses: 2 })).status, 200);
  t.equal(codeOf(await pay(100)), 'MD-204');
  const freed = await change({ max_uses: null, escalation_threshold: null, valid_until: null });
  t.match(freed.body, { max_uses: null, escalation_threshold: null, valid_until: null });
  allowed(await pay(200));
});

t.test('tools that a narrower scope leaves out are named, and denied', async (t) => {
  const fixture = await nounFixture(t);
  const { pay, change } = await payer(fixture);
  const changed = await change({ scope: ['payments.refund'] });
  t.same(at(changed, 'uncovered_tools'), [PAYMENTS]);
  t.equal(codeOf(await pay(1)), 'MD-301');
});

t.test('the wording that a person was shown is in the evidence, and a wrong one is refused', async (t) => {
  const fixture = await nounFixture(t);
  const draft = { ...MANDATE, activate: false, counterparties: ['Acme'] };
  const made = await fixture.as('POST', '/admin/mandates', draft);
  const path = `/admin/mandates/${textAt(made, 'mandate_id')}`;
  const shown = await fixture.as('GET', `${path}/wording?language=de`);
  const text = textAt(shown, 'text');
  t.match(text, /Er darf nur mit diesen zu tun haben.*\n- Acme\n/);
  const wrong = await fixture.as('POST', `${path}/activate`, { wording: { language: 'en', text } });
  t.same(problemOf(wrong), [409, 'conflict']);
  t.equal((await fixture.as('POST', `${path}/activate`, { wording: { language: 'de', text } })).status, 200);
  const stale = await fixture.as('POST', `${path}/change`, { max_uses: 2, wording: { language: 'de', text } });
  t.same(problemOf(stale), [409, 'conflict'], 'the words of the old terms');
  const terms = { per_action: 10_000, per_month: 100_000, escalation_threshold: null, valid_until: null, max_uses: 2 };
  const words = mandateWords(
    { ...terms, scope: MANDATE.scope, currency: 'EUR', counterparties: ['Acme'], agent_did: '', time_zone: 'UTC' },
    'en',
  );
  t.equal(
    (await fixture.as('POST', `${path}/change`, { max_uses: 2, wording: { language: 'en', text: words } })).status,
    200,
  );
  const entries = await fixture.chain();
  const wordings = entries
    .filter(({ kind }) => kind.startsWith('mandate.'))
    .map(({ kind, body }) => [kind, body['wording']]);
  t.same(wordings, [
    ['mandate.created', undefined],
    ['mandate.activated', wordingOf(text, 'de')],
    ['mandate.changed', wordingOf(words, 'en')],
  ]);
});

t.test('a stop suspends every active mandate at once, and a resume only what it suspended', async (t) => {
  const fixture = await nounFixture(t);
  const { account, pay } = await payer(fixture);
  const [draft, second, own, ended] = [
    await fixture.mandate({ activate: false }),
    await fixture.mandate(),
    await fixture.mandate(),
    await fixture.mandate(),
  ];
  await fixture.as('POST', `/admin/mandates/${own}/suspend`, {});
  await fixture.as('POST', `/admin/mandates/${ended}/revoke`, {});
  const stranger = await fixture.signUp();
  const theirs = await fixture.send('POST', '/admin/mandates', stranger.token, MANDATE);
  const stopped = await fixture.as('POST', '/admin/account/stop', { reason: 'something is wrong' });
  const ids = (answer: typeof stopped) =>
    (at(answer, 'mandates') as { mandate_id: string }[]).map((one) => one.mandate_id);
  t.same(ids(stopped).sort(), [account.mandateId, second].sort());
  t.equal(codeOf(await pay(1)), 'MD-203');
  t.same(
    problemOf(await fixture.as('POST', '/admin/account/stop', {})),
    [409, 'conflict'],
    'nothing is active any more',
  );
  await fixture.as('POST', `/admin/mandates/${second}/resume`, {});
  await fixture.as('POST', `/admin/mandates/${second}/suspend`, {});
  t.same(
    ids(await fixture.as('POST', '/admin/account/resume', {})),
    [account.mandateId],
    'one’s own step is one’s own',
  );
  allowed(await pay(1));
  const states = await fixture.sql<{ mandate_id: string; status: string }[]>`select mandate_id, status from mandates`;
  const stateOf = (id: unknown) => states.find((one) => one.mandate_id === id)?.status;
  t.same([draft, second, own, ended].map(stateOf), ['draft', 'suspended', 'suspended', 'revoked']);
  t.equal(stateOf(at(theirs, 'mandate_id')), 'active', 'nobody else is stopped');
  const steps = (await fixture.chain()).filter(({ body }) => body['all'] === true);
  t.same(
    steps.map(({ kind, body }) => [kind, body['reason']]),
    [...Array(2).fill(['mandate.suspended', 'something is wrong']), ['mandate.resumed', null]],
  );
});
