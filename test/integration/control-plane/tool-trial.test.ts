import t from 'tap';
import type { RequestShape } from '../../../core/request-shape.ts';
import { allowed, ask } from '../decisions/lane-client.ts';
import { type AdminAnswer, at, textAt } from './admin-fixture.ts';
import { fieldsOf, nounFixture, problemOf } from './noun-fixture.ts';

const PAYMENTS = 'http.post:/payments';
const MAPPING = { action_type: 'payments.create' };

async function trialFixture(t: Parameters<typeof nounFixture>[0], changes: Readonly<Record<string, unknown>> = {}) {
  const fixture = await nounFixture(t);
  const agent = await fixture.agent({ escalation_threshold: 50, ...changes });
  const path = `/admin/gateways/${agent.instanceId}/tools`;
  const trial = (body: unknown) => fixture.as('POST', `${path}/test`, body);
  const pay = (body: unknown, more: Readonly<Record<string, unknown>> = {}) =>
    trial({ method: 'POST', path: '/payments', body: JSON.stringify(body), ...more });
  return { fixture, agent, path, trial, pay };
}

const verdict = (answer: AdminAnswer) => [at(answer, 'decision'), at(answer, 'code')];
const payment = (amount: number) => ({ amount, currency: 'EUR', counterparty: 'Acme' });

t.test('a request is told what would become of it, by the mapping that is saved or one that is not yet', async (t) => {
  const { fixture, path, pay } = await trialFixture(t);
  t.same(verdict(await pay(payment(1))), ['deny', 'MD-501']);
  const tried = await pay(payment(12.5), { mapping: MAPPING });
  t.match(tried.body, {
    tool: { name: PAYMENTS, pattern: PAYMENTS },
    decision: 'allow',
    code: null,
    reason: /within every limit/,
    action: { type: 'payments.create', amount: { value: 12.5, currency: 'EUR' }, counterparty: 'Acme' },
    currency: 'EUR',
    month_limit: 1000,
    before: { booked: 0, reserved: 0 },
    after: { booked: 0, reserved: 12.5 },
    covered: true,
    shape: { body: 'json', fields: [{ at: '/amount', type: 'number' }, {}, {}] },
  });
  t.same(verdict(await pay(payment(50.01), { mapping: MAPPING })), ['escalate', null]);
  const above = await pay(payment(100.01), { mapping: MAPPING });
  t.same(verdict(above), ['deny', 'MD-302']);
  t.match(at(above, 'reason'), /0\.01 above the limit/);
  t.same(at(above, 'after'), at(above, 'before'));
  t.same(verdict(await pay({ amount: '1' }, { mapping: MAPPING })), ['deny', 'MD-502']);
  t.same(verdict(await pay(payment(1), { mapping: { action_type: 'other.thing' } })), ['deny', 'MD-301']);
  await fixture.as('PUT', path, { name: PAYMENTS, mapping: { ...MAPPING, amount_unit: 'minor' } });
  t.match((await pay(payment(1250))).body, { decision: 'allow', action: { amount: { value: 12.5 } } });
});

t.test('templates, forms, queries and methods are read as the gateway reads them', async (t) => {
  const { trial } = await trialFixture(t);
  const template = {
    name: 'http.post:/orders/{id}/pay',
    mapping: { ...MAPPING, counterparty: 'path:id', amount: 'query:sum', currency: 'const:EUR' },
  };
  const found = await trial({ method: 'POST', path: '/orders/81/pay?sum=7.50', ...template });
  t.match(found.body, {
    decision: 'allow',
    action: { counterparty: '81', amount: { value: 7.5 } },
    tool: { pattern: template.name },
  });
  t.same(fieldsOf(await trial({ method: 'POST', path: '/orders/81/refund', ...template })), ['name']);
  const form = {
    method: 'POST',
    path: '/payments',
    content_type: 'application/x-www-form-urlencoded',
    body: 'amount=3&currency=eur',
  };
  const lower = { ...MAPPING, currency_notation: 'iso_lower', amount_unit: 'minor' };
  t.match((await trial({ ...form, mapping: lower })).body, { decision: 'allow', action: { amount: { value: 0.03 } } });
  t.match((await trial({ method: 'GET', path: '/payments', mapping: { ...MAPPING, amount: 'none' } })).body, {
    decision: 'allow',
    action: { amount: null },
  });
  t.same(problemOf(await trial({ method: 'TRACE', path: '/x' })), [405, 'method_not_allowed']);
  t.same(problemOf(await trial({ method: 'POST', path: '/a/../b' })), [400, 'ambiguous_path']);
  t.same(problemOf(await trial({ method: 'POST', path: '/a?x=%zz' })), [400, 'ambiguous_query']);
  t.same(problemOf(await trial({ method: 'POST', path: '/a', body: '{"a":1,"a":2}' })), [400, 'malformed_json']);
  t.same(
    problemOf(
      await trial({ method: 'POST', path: '/a', body: '{}', content_type: 'application/json; charset=utf-16' }),
    ),
    [415, 'unsupported_media_type'],
  );
  t.same(fieldsOf(await trial({ method: 'POST', path: '/a', mapping: { ...MAPPING, amount: 'path:id' } })), [
    'mapping.amount',
  ]);
});

t.test('a trial goes by the facts of the moment and leaves no trace', async (t) => {
  const { fixture, agent, path, pay } = await trialFixture(t);
  const mapped = await fixture.as('PUT', path, { name: PAYMENTS, mapping: MAPPING });
  const account = { ...agent, toolId: textAt(mapped, 'tool_id') };
  const entries = (await fixture.chain()).length;
  const state = () => fixture.sql`
    select (select count(*) from reservations) as reservations, (select count(*) from mandate_months) as months,
      (select count(*) from escalations) as escalations, (select count(*) from tools) as tools,
      (select sum(revision) from account_heads) as revision, (select sum(size) from account_heads) as size`;
  const before = await state();
  for (let i = 0; i < 5; i++) {
    t.same(verdict(await pay(payment(30))), ['allow', null]);
    t.same(verdict(await pay(payment(60))), ['escalate', null]);
    t.same(verdict(await pay(payment(1), { path: '/never/seen' })), ['deny', 'MD-501']);
  }
  t.same(await state(), before);
  t.equal((await fixture.chain()).length, entries);
  for (let i = 0; i < 20; i++) allowed(await ask(fixture.lanes, account, { amount: 4_900 }));
  const full = await pay(payment(30));
  t.same(verdict(full), ['deny', 'MD-303']);
  t.match(full.body, { before: { reserved: 980 } });
  await fixture.as('POST', '/admin/account/stop', {});
  t.same(verdict(await pay(payment(1))), ['deny', 'MD-203']);
  await fixture.as('POST', `/admin/gateways/${agent.instanceId}/disable`, {});
  t.equal(at(await pay(payment(1)), 'disabled'), true);
});

t.test('what was discovered is listed with its sightings, and suggested to be mapped', async (t) => {
  const { fixture, agent, path } = await trialFixture(t);
  const names = ['http.post:/payments', 'http.post:/orders/81/refund', 'http.post:/orders/82/refund'];
  for (const name of names) await ask(fixture.lanes, agent, { name, toolVersion: null });
  const fields = [
    { at: '/amount', type: 'number' },
    { at: '/currency', type: 'string' },
  ] as const;
  const shape: RequestShape = { body: 'json', fields: [...fields], query: [], more: false };
  await fixture.sql`insert into tool_sightings (account_id, instance_id, key, unmapped, first_at, last_at, shape)
    select account_id, instance_id, key, 3, db_clock(), db_clock(), ${JSON.stringify(shape)}::text::jsonb from tools`;
  const list = await fixture.as('GET', path);
  t.match(at(list, 'tools.2'), { name: 'http.post:/payments', seen: { unmapped: 3, unreadable: 0, shape } });
  const found = await fixture.as('GET', `${path}/suggestions`);
  t.match(at(found, 'templates'), [
    {
      name: 'http.post:/orders/{order_id}/refund',
      tools: names.slice(1),
      suggestion: { mapping: { action_type: 'orders.refund' } },
    },
  ]);
  const [first] = (at(found, 'tools') as { name: string; suggestion: { mapping: unknown } }[]).filter(
    ({ name }) => name === names[0],
  );
  t.match(first?.suggestion, {
    action_type: { value: 'payments.create', confidence: 'high' },
    amount: { value: '/amount' },
  });
  t.equal(
    (await fixture.as('PUT', path, { name: names[0], mapping: first?.suggestion.mapping })).status,
    200,
    'as it is suggested it can be saved',
  );
  await fixture.as('PUT', path, { name: 'http.post:/orders/{id}/refund', mapping: { action_type: 'payments.refund' } });
  t.same(
    (await fixture.as('GET', `${path}/suggestions`)).body,
    { templates: [], tools: [] },
    'what a template stands for is dealt with',
  );
});

t.test('many tools are mapped at once, all or none, and what is dealt with is left alone', async (t) => {
  const { fixture, path } = await trialFixture(t);
  const bring = (tools: unknown, more = {}) => fixture.as('POST', `${path}/import`, { tools, ...more });
  const good = Array.from({ length: 150 }, (_, i) => ({ name: `http.post:/tool/${i}/{id}`, mapping: MAPPING }));
  const bad = [
    { name: 'nonsense', mapping: MAPPING },
    { name: 'http.get:/a', mapping: MAPPING },
    { name: 'http.post:/b/{x}', mapping: MAPPING },
    { name: 'http.post:/b/{y}', mapping: MAPPING },
  ];
  t.same(fieldsOf(await bring([...good, ...bad])), [
    'tools.150.name',
    'tools.151.mapping.amount',
    'tools.151.mapping.currency',
    'tools.151.mapping.counterparty',
    'tools.153.name',
  ]);
  t.same(fieldsOf(await bring([...good, { name: 'http.post:/c', mapping: { action_type: 'x.y' } }])), [
    'tools.150.mapping.action_type',
  ]);
  t.same(fieldsOf(await bring([])), ['tools']);
  t.same(fieldsOf(await bring(Array(201).fill(good[0]))), ['tools']);
  t.same(at(await fixture.as('GET', path), 'tools'), [], 'nothing of those was written');
  await fixture.as('POST', `${path}/block`, { name: 'http.post:/tool/3/{id}' });
  const done = await bring(good);
  t.equal((at(done, 'tools') as unknown[]).length, 149);
  t.same(at(done, 'kept'), ['http.post:/tool/3/{id}']);
  t.match((await bring(good.slice(0, 4), { overwrite: true })).body, {
    tools: [{ version: 2 }, {}, {}, { state: 'mapped' }],
    kept: [],
  });
  const kinds = (await fixture.chain()).filter(({ kind }) => kind === 'tool.mapped');
  t.equal(kinds.length, 149 + 4, 'each is in the evidence');
  t.same(problemOf(await fixture.send('POST', `${path}/import`, (await fixture.signUp()).token, { tools: good })), [
    404,
    'not_found',
  ]);
});
