import t from 'tap';
import type { SeededAccount } from '../../../bench/seed.ts';
import { isTypeId, newTypeId } from '../../../core/type-id.ts';
import { allowed, ask } from '../decisions/lane-client.ts';
import { type AdminAnswer, at, textAt } from './admin-fixture.ts';
import { fieldsOf, type NounFixture, nounFixture, problemOf } from './noun-fixture.ts';

const PAYMENTS = 'http.post:/payments';
const CREATE = { action_type: 'payments.create' };
const READ = { action_type: 'payments.read', amount: 'none' };

/** The routes of one instance's tools. */
function toolsOf({ as }: NounFixture, { instanceId }: SeededAccount) {
  const path = `/admin/gateways/${instanceId}/tools`;
  return {
    map: (name: string, mapping: unknown) => as('PUT', path, { name, mapping }),
    block: (name: string) => as('POST', `${path}/block`, { name }),
    unmap: (name: string) => as('POST', `${path}/unmap`, { name }),
    list: (query = '') => as('GET', `${path}${query}`),
  };
}

async function instanceOf({ sql }: NounFixture) {
  const [row] = await sql<{ unmapped_tools: number; tools_version: number; template_shapes: string[] }[]>`
    select unmapped_tools, tools_version, template_shapes from gateway_instances`;
  return row;
}

function names(answer: AdminAnswer): string[] {
  return (at(answer, 'tools') as { readonly name: string }[]).map(({ name }) => name);
}

t.test('a request that was never seen becomes a tool that keeps its identity when it is mapped', async (t) => {
  const fixture = await nounFixture(t);
  const agent = await fixture.agent();
  const { map, list, unmap } = toolsOf(fixture, agent);
  const unseen = { toolVersion: null };
  t.match(await ask(fixture.lanes, agent, unseen), { answer: 'deny', code: 'MD-501' });
  t.match(await ask(fixture.lanes, agent, unseen), { answer: 'deny', code: 'MD-501' });
  const found = await list('?state=unmapped');
  t.match(at(found, 'tools'), [{ name: PAYMENTS, state: 'unmapped', version: 1, mapping: null }]);
  t.equal((at(found, 'tools') as unknown[]).length, 1);
  const id = textAt(found, 'tools.0.tool_id');
  t.equal((await instanceOf(fixture))?.unmapped_tools, 1);

  const mapped = await map(PAYMENTS, CREATE);
  t.match(mapped.body, { tool_id: id, name: PAYMENTS, state: 'mapped', version: 2 });
  t.equal((await instanceOf(fixture))?.unmapped_tools, 0);
  t.match(await ask(fixture.lanes, agent, unseen), { answer: 'mapping', tool: { id, version: 2, key: PAYMENTS } });
  allowed(await ask(fixture.lanes, { ...agent, toolId: id }, { toolVersion: 2 }));

  const again = await map(PAYMENTS, { ...CREATE, amount_unit: 'minor' });
  t.match(again.body, { tool_id: id, version: 3, mapping: { amount_unit: 'minor' } });
  const stale = await ask(fixture.lanes, { ...agent, toolId: id }, { toolVersion: 2 });
  t.match(stale, { answer: 'mapping', tool: { version: 3 } }, 'what was read by the old mapping is read again');

  t.match((await unmap(PAYMENTS)).body, { tool_id: id, state: 'unmapped', version: 4, mapping: null });
  t.equal((await instanceOf(fixture))?.unmapped_tools, 1);
  t.match(await ask(fixture.lanes, agent, unseen), { answer: 'deny', code: 'MD-501' });
  t.same(problemOf(await unmap(PAYMENTS)), [409, 'conflict']);
  t.same(
    (await fixture.chain()).map(({ kind }) => kind).filter((kind) => kind.startsWith('tool.')),
    ['tool.discovered', 'tool.mapped', 'tool.mapped', 'tool.unmapped'],
  );
});

t.test('a mapping is stored complete: what is left out has the defaults of the contract', async (t) => {
  const fixture = await nounFixture(t);
  const agent = await fixture.agent();
  const { map } = toolsOf(fixture, agent);
  const made = await map(PAYMENTS, CREATE);
  t.ok(isTypeId(at(made, 'tool_id'), 'tol'));
  const mapping = {
    action_type: 'payments.create',
    amount: '/amount',
    currency: '/currency',
    counterparty: '/counterparty',
    amount_unit: 'major',
    currency_notation: 'iso',
    counterparty_optional: true,
    body_limit_bytes: 1_048_576,
  };
  t.same(at(made, 'mapping'), mapping);
  t.same((await fixture.chain()).at(-1), {
    kind: 'tool.mapped',
    body: { instance: agent.instanceId, tool_id: at(made, 'tool_id'), name: PAYMENTS, version: 1, mapping },
  });
  t.match(at(await map('http.get:/payments', READ), 'mapping'), {
    amount: 'none',
    currency: 'none',
    counterparty: 'none',
  });
});

t.test('a template stands for its paths, the more specific one first, a blocked one closes', async (t) => {
  const fixture = await nounFixture(t);
  const agent = await fixture.agent();
  const { map, block, unmap } = toolsOf(fixture, agent);
  const probe = (name: string) => ask(fixture.lanes, agent, { name, toolVersion: null });
  const template = await map('http.post:/orders/{id}/{what}', CREATE);
  const id = at(template, 'tool_id');
  t.match(await probe('http.post:/orders/7/refund'), { answer: 'mapping', tool: { id } });
  const refund = await map('http.post:/orders/{id}/refund', CREATE);
  t.match(await probe('http.post:/orders/7/refund'), { answer: 'mapping', tool: { id: at(refund, 'tool_id') } });
  t.match(await probe('http.post:/orders/7/cancel'), { answer: 'mapping', tool: { id } });
  t.equal((await instanceOf(fixture))?.template_shapes.length, 2);

  const renamed = await map('http.post:/orders/{order}/{step}', { ...CREATE, counterparty: 'path:order' });
  t.match(renamed.body, { tool_id: id, version: 2, name: 'http.post:/orders/{order}/{step}' }, 'the same template');
  t.match((await block('http.post:/orders/{id}/refund')).body, { state: 'blocked', mapping: null, version: 2 });
  t.match(await probe('http.post:/orders/7/refund'), { answer: 'deny', code: 'MD-501' });
  t.equal((await instanceOf(fixture))?.template_shapes.length, 2, 'a blocked template still stands before others');
  t.equal((await fixture.sql`select from tools`).length, 2, 'what a template covers is not discovered');

  t.match((await unmap('http.post:/orders/{x}/refund')).body, { state: 'unmapped', version: 3 });
  t.match(await probe('http.post:/orders/7/refund'), { answer: 'mapping', tool: { id } });
  t.equal((await unmap('http.post:/orders/{a}/{b}')).status, 200);
  t.same((await instanceOf(fixture))?.template_shapes, []);
  t.same(problemOf(await unmap('http.post:/orders/{a}/{b}')), [404, 'not_found']);
  const anew = await map('http.post:/orders/{id}/{what}', CREATE);
  t.not(at(anew, 'tool_id'), id, 'a template that was removed does not come back under its old versions');
});

t.test('an exact name that is blocked stays closed under a template that is mapped', async (t) => {
  const fixture = await nounFixture(t);
  const agent = await fixture.agent();
  const { map, block } = toolsOf(fixture, agent);
  await map('http.delete:/keys/{id}', READ);
  t.match((await block('http.delete:/keys/root')).body, { state: 'blocked', version: 1 });
  const probe = (name: string) => ask(fixture.lanes, agent, { name, toolVersion: null });
  t.match(await probe('http.delete:/keys/root'), { answer: 'deny', code: 'MD-501' });
  t.match(await probe('http.delete:/keys/other'), { answer: 'mapping' });
  t.equal((await fixture.chain()).at(-2)?.kind, 'tool.blocked');
});

t.test('a mapping that could never be read is refused when it is saved, naming the field', async (t) => {
  const fixture = await nounFixture(t);
  const agent = await fixture.agent();
  const { map } = toolsOf(fixture, agent);
  const refusals: [string, string, unknown][] = [
    ['name', 'payments', CREATE],
    ['name', 'http.post:payments', CREATE],
    ['name', 'http.POST:/payments', CREATE],
    ['name', 'http.trace:/payments', CREATE],
    ['name', 'http.post:/a/../b', CREATE],
    ['name', 'http.post:/a?b=c', CREATE],
    ['name', 'http.post:/a/{id}/{id}', CREATE],
    ['name', 'http.post:/a/{id', CREATE],
    ['name', `http.post:/${'a'.repeat(2100)}`, CREATE],
    ['mapping', PAYMENTS, undefined],
    ['mapping', PAYMENTS, { ...CREATE, extra: true }],
    ['mapping.action_type', PAYMENTS, {}],
    ['mapping.action_type', PAYMENTS, { action_type: 'Payments' }],
    ['mapping.action_type', PAYMENTS, { action_type: 'payments' }],
    ['mapping.action_type', PAYMENTS, { action_type: 'paymentsx.create' }],
    ['mapping.action_type', PAYMENTS, { action_type: 'refunds.create' }],
    ['mapping.amount', PAYMENTS, { ...CREATE, amount: 'amount' }],
    ['mapping.amount', PAYMENTS, { ...CREATE, amount: 5 }],
    ['mapping.amount', PAYMENTS, { ...CREATE, amount: 'path:id' }],
    ['mapping.amount', PAYMENTS, { ...CREATE, amount: 'const:1.005', currency: 'const:EUR' }],
    ['mapping.currency', PAYMENTS, { ...CREATE, currency: 'none' }],
    ['mapping.currency', PAYMENTS, { ...CREATE, currency: 'const:eur' }],
    ['mapping.amount_unit', PAYMENTS, { ...CREATE, amount_unit: 'cents' }],
    ['mapping.body_limit_bytes', PAYMENTS, { ...CREATE, body_limit_bytes: 0 }],
    ['mapping.body_limit_bytes', PAYMENTS, { ...CREATE, body_limit_bytes: 1.5 }],
    ['mapping.body_limit_bytes', PAYMENTS, { ...CREATE, body_limit_bytes: 1e12 }],
  ];
  for (const [field, name, mapping] of refusals) {
    const answer = await map(name, mapping);
    t.same([...problemOf(answer), ...fieldsOf(answer)], [422, 'invalid', field], `${name} ${JSON.stringify(mapping)}`);
  }
  t.same(
    fieldsOf(await map('http.get:/payments', CREATE)),
    ['mapping.amount', 'mapping.currency', 'mapping.counterparty'],
    'a GET has no body',
  );
  t.equal((await fixture.sql`select from tools`).length, 0);
  t.equal((await instanceOf(fixture))?.tools_version, 1);
});

t.test('an instance has templates of at most 64 shapes', async (t) => {
  const fixture = await nounFixture(t);
  const agent = await fixture.agent();
  const { map } = toolsOf(fixture, agent);
  // Two to the sixth ways to place parameters in six segments behind a first one, which makes one more.
  const shapes = Array.from({ length: 64 }, (_, n) => {
    const segments = Array.from({ length: 6 }, (_, at) => ((n >> at) & 1 ? `{p${at}}` : `s${at}`));
    return `http.get:/{id}/${segments.join('/')}`;
  });
  for (const name of shapes) t.equal((await map(name, READ)).status, 200, name);
  t.equal((await map('http.get:/{id}/other/s1/s2/s3/s4/s5', READ)).status, 200, 'another template of a known shape');
  const size = (await fixture.chain()).length;
  t.same(problemOf(await map('http.get:/{id}', READ)), [409, 'conflict']);
  t.equal((await fixture.sql`select from tools`).length, 65, 'nothing of it is left');
  t.equal((await fixture.chain()).length, size);
  t.equal((await instanceOf(fixture))?.template_shapes.length, 64);
});

t.test('the count of unmapped tools stays exact, and never goes above its bound by unmapping', async (t) => {
  const fixture = await nounFixture(t);
  const agent = await fixture.agent();
  const { map, unmap } = toolsOf(fixture, agent);
  await fixture.sql`
    insert into tools (account_id, instance_id, key, tool_id, pattern, state, created_at, changed_at)
    select ${agent.accountId}, ${agent.instanceId}, 'http.get:/t' || n, 'tol_' || lpad(n::text, 26, '0'),
      'http.get:/t' || n, 'unmapped', db_clock(), db_clock() from generate_series(1, 499) as n`;
  await fixture.sql`update gateway_instances set unmapped_tools = 499`;
  await map('http.get:/a', READ);
  await map('http.get:/b', READ);
  t.equal((await instanceOf(fixture))?.unmapped_tools, 499);
  t.equal((await unmap('http.get:/a')).status, 200);
  t.equal((await instanceOf(fixture))?.unmapped_tools, 500);
  t.match((await unmap('http.get:/b')).body, { state: 'unmapped' });
  t.equal((await instanceOf(fixture))?.unmapped_tools, 500);
  t.equal((await fixture.sql`select from tools where key = 'http.get:/b'`).length, 0, 'forgotten instead');
  t.match(await ask(fixture.lanes, agent, { toolVersion: null }), { answer: 'deny', code: 'MD-501' });
  await map('http.get:/t1', READ);
  t.equal((await instanceOf(fixture))?.unmapped_tools, 499);
});

t.test('tools are listed page by page, each once, by state', async (t) => {
  const fixture = await nounFixture(t);
  const agent = await fixture.agent();
  const { map, block, list } = toolsOf(fixture, agent);
  const exact = ['a', 'b', 'c', 'd'].map((name) => `http.get:/${name}`);
  for (const name of [...exact, 'http.get:/b/{id}']) await map(name, READ);
  await block('http.get:/c');
  const all: string[] = [];
  let next: string | null = '';
  const pages: number[] = [];
  while (next !== null) {
    const page = await list(`?limit=2${next === '' ? '' : `&after=${encodeURIComponent(next)}`}`);
    pages.push(names(page).length);
    all.push(...names(page));
    next = at(page, 'next') as string | null;
  }
  t.same(pages, [2, 2, 1]);
  t.same(all, ['http.get:/a', 'http.get:/b', 'http.get:/b/{id}', 'http.get:/c', 'http.get:/d']);
  t.same(at(await list('?limit=5'), 'next'), null, 'no empty page follows');
  t.same(names(await list('?state=blocked')), ['http.get:/c']);
  for (const query of ['?limit=0', '?limit=1001', '?state=open', '?page=1', '?limit=01', '?limit=1&limit=2']) {
    t.same(problemOf(await list(query)), [422, 'invalid'], query);
  }
});

t.test('an instance that does not exist has no tools', async (t) => {
  const fixture = await nounFixture(t);
  const { map, block, unmap, list } = toolsOf(fixture, { ...(await fixture.agent()), instanceId: newTypeId('gwi', 0) });
  for (const answer of [await map(PAYMENTS, CREATE), await block(PAYMENTS), await unmap(PAYMENTS), await list()]) {
    t.same(problemOf(answer), [404, 'not_found']);
  }
});
