import t from 'tap';
import { textAt } from '../control-plane/admin-fixture.ts';
import { MANDATE } from '../control-plane/noun-fixture.ts';
import { consoleFixture } from './console-fixture.ts';
import { discover, OPENAPI } from './discovered-tools.ts';
import { hiddenFields } from './mandate-fixture.ts';

const REFUNDS = [81, 82, 83].map((order) => `http.post:/orders/${order}/refund`);
const LONG = `http.post:/${'x'.repeat(600)}`;

async function toolsFixture(t: Parameters<typeof consoleFixture>[0]) {
  const fixture = await consoleFixture(t);
  const person = await fixture.person();
  const cli = await fixture.signUp();
  const { sql } = fixture;
  await sql`update sessions set account_id = ${person.accountId} where account_id = ${cli.accountId}`;
  await sql`update token_routes set account_id = ${person.accountId} where account_id = ${cli.accountId}`;
  const mandate_id = textAt(await fixture.send('POST', '/admin/mandates', cli.token, MANDATE), 'mandate_id');
  const gateway = { mandate_id, target_url: 'http://127.0.0.1:9' };
  const id = textAt(await fixture.send('POST', '/admin/gateways', cli.token, gateway), 'instance_id');
  const see = (names: readonly string[]) => discover(sql, { accountId: person.accountId, instanceId: id }, names);
  const tools = () => sql<{ pattern: string; state: string; mapping: Record<string, unknown> | null }[]>`
    select pattern, state, mapping from tools where state <> 'unmapped' order by pattern`;
  return { fixture, ...person, id, path: `/console/gateways/${id}/tools`, see, tools };
}

const MAPPED = {
  action_type: 'payments.create',
  amount: '/amount',
  amount_unit: 'major',
  currency: '/currency',
  currency_notation: 'iso',
  counterparty: '/payee',
  counterparty_optional: 'on',
};
const TRIED = { try_method: 'POST', try_path: '/payments', try_type: 'application/json' };

t.test('what was discovered is listed with its count, form and suggestion, and alike paths as one', async (t) => {
  const { browser, path, see } = await toolsFixture(t);
  t.match((await browser.get(path)).text, /Nothing new/);
  await see([...REFUNDS, LONG, 'http.post:/payments', 'http.get:/%3Cscript%3Ealert(1)%3C%2Fx'.replace('%2F', '/')]);
  const { text } = await browser.get(path);
  t.match(text, /These 3 paths look like one/);
  t.match(text, /http\.post:\/orders\/\{order_id\}\/refund/);
  t.match(text, /3 times/);
  t.match(text, /Counts as payments\.create\. Amount: the field \/amount, in the main unit\./);
  t.match(text, /&lt;img src=x onerror=alert\(1\)&gt;/);
  t.notMatch(text, /<img/);
  t.notMatch(text, /x{100}…?<\/code>/, 'a long name is shortened');
  t.ok(text.length < 100_000);
});

t.test('a suggestion is explained, tried and accepted with clicks only', async (t) => {
  const { browser, path, see, tools } = await toolsFixture(t);
  await see(['http.post:/payments']);
  const page = await browser.get(`${path}/edit?name=${encodeURIComponent('http.post:/payments')}`);
  t.equal(page.status, 200);
  t.match(page.text, /<option value="payments.create" selected>/);
  t.match(page.text, /<option value="\/amount" selected>/);
  t.match(page.text, /<option value="\/payee" selected>/);
  t.match(page.text, /It is a number with the usual name of an amount/);
  const form = { ...MAPPED, ...TRIED, name: 'http.post:/payments' };
  const body = (amount: number) => JSON.stringify({ amount, currency: 'EUR', payee: '<b>acme</b>\u202e' });
  const allowed = await browser.post(`${path}/map`, {
    ...form,
    try_body: JSON.stringify({ amount: 5, currency: 'EUR' }),
    do: 'try',
  });
  t.equal(allowed.status, 200);
  t.match(allowed.text, /role="status"[\s\S]*This request would be allowed/);
  const denied = await browser.post(`${path}/map`, {
    ...form,
    try_body: JSON.stringify({ amount: 100.5, currency: 'EUR', payee: '<b>acme</b>' }),
    do: 'try',
  });
  t.match(denied.text, /would be denied: MD-302/);
  t.match(denied.text, /above the limit/);
  t.notMatch(denied.text, /<b>acme/);
  t.match((await browser.post(`${path}/map`, { ...form, try_body: body(5), do: 'try' })).text, /denied: MD-502/);
  t.same(await tools(), [], 'trying saves nothing');
  const broken = await browser.post(`${path}/map`, { ...form, try_body: '{"a":1,"a":2}', do: 'try' });
  t.same([broken.status, /id="f-try-body-error"/.test(broken.text)], [422, true]);
  const elsewhere = await browser.post(`${path}/map`, { ...form, try_path: '/other', do: 'try' });
  t.match(elsewhere.text, /id="f-try-path-error"/);
  const saved = await browser.post(`${path}/map`, { ...form, do: 'save' });
  t.same([saved.status, saved.location], [303, `${path}?show=mapped`]);
  t.match(await tools(), [{ pattern: 'http.post:/payments', mapping: { amount: '/amount', counterparty: '/payee' } }]);
  t.match((await browser.get(`${path}?show=mapped`)).text, /The mapping is saved/);
});

t.test('of a request whose body nobody has seen it is not suggested that it costs nothing', async (t) => {
  const { browser, path, see, tools, fixture } = await toolsFixture(t);
  await see(['http.post:/payments', 'http.get:/payments']);
  await fixture.sql`delete from tool_sightings`;
  const { text } = await browser.get(path);
  t.equal(text.match(/Its body was not seen yet/g)?.length, 1);
  t.equal(text.match(/costs nothing/g)?.length, 1, 'what has no body is free');
  const name = 'http.post:/payments';
  const page = await browser.get(`${path}/edit?name=${encodeURIComponent(name)}`);
  t.match(page.text, /name="amount"[^>]*>\s*<option value="" selected>/);
  const form = { ...MAPPED, name, do: 'save', amount: '', currency: 'none', counterparty: 'none' };
  const refused = await browser.post(`${path}/map`, form);
  t.same([refused.status, /id="f-amount-error"/.test(refused.text)], [422, true]);
  t.same(await tools(), []);
  const said = await browser.post(`${path}/map`, { ...form, amount: 'none' });
  t.equal(said.status, 303, 'whoever says so may');
});

t.test('what could not be saved is said beside the field that holds it', async (t) => {
  const { browser, path, tools } = await toolsFixture(t);
  await browser.get(`${path}/edit`);
  const save = (more: Readonly<Record<string, string>>) =>
    browser.post(`${path}/map`, { ...MAPPED, ...TRIED, name: 'http.post:/payments', do: 'save', ...more });
  const cases: [Record<string, string>, string][] = [
    [{ name: 'payments' }, 'f-name-error'],
    [{ action_type: '' }, 'f-action-type-error'],
    [{ action_type: 'other', action_type_other: 'orders.refund' }, 'f-action-type-other-error'],
    [{ amount: 'other', amount_other: 'amount' }, 'f-amount-other-error'],
    [{ amount: 'path:id' }, 'f-amount-error'],
    [{ currency: 'none' }, 'f-currency-error'],
    [{ currency: 'const:EURO' }, 'f-currency-error'],
    [{ amount_unit: 'cents' }, 'f-amount-unit-error'],
    [{ body_limit_bytes: '99999999999' }, 'f-body-limit-bytes-error'],
  ];
  for (const [more, error] of cases) {
    const answer = await save(more);
    t.equal(answer.status, 422, JSON.stringify(more));
    t.match(answer.text, `id="${error}"`, JSON.stringify(more));
  }
  t.same(await tools(), []);
  t.equal((await browser.post(`${path}/block`, { name: 'x' })).status, 422);
  t.equal((await browser.post(`${path}/unmap`, { name: 'http.post:/nothing' })).status, 404);
});

t.test('tools are blocked and taken out again, and a template stands for its paths', async (t) => {
  const { browser, path, see, tools } = await toolsFixture(t);
  await see(REFUNDS);
  const template = 'http.post:/orders/{order_id}/refund';
  const page = await browser.get(`${path}/edit?name=${encodeURIComponent(template)}`);
  t.match(page.text, /<option value="path:order_id">/);
  t.match(page.text, /<option value="\/amount" selected>/, 'the form that the merged tools have in common');
  t.match(page.text, /value="payments\.refund"/, 'a wildcard offers what the path says');
  t.match(page.text, /the mandate does not cover it/);
  await browser.post(`${path}/map`, { ...MAPPED, name: template, do: 'save' });
  t.notMatch((await browser.get(path)).text, /orders\/81/);
  t.equal((await browser.post(`${path}/block`, { name: template })).location, `${path}?show=blocked`);
  t.match(await tools(), [{ pattern: template, state: 'blocked' }]);
  t.equal((await browser.post(`${path}/unmap`, { name: template })).location, path);
  t.same(await tools(), []);
});

t.test('the operations of a document are mapped together, or none of them with the reason in its row', async (t) => {
  const { browser, path, tools } = await toolsFixture(t);
  await browser.get(`${path}/import`);
  const read = await browser.post(`${path}/import`, { document: OPENAPI, base_path: '', prefix: '' });
  t.equal(read.status, 200);
  t.match(read.text, /Shop &lt;b&gt;API/);
  t.notMatch(read.text, /<script>alert/);
  t.match(read.text, /Cannot be tools \(1\)/);
  const hidden = Array.from(read.text.matchAll(/name="tool\[(\d+)\]" value="([^"]*)"/g), ([, at, json]) => [
    `tool[${at}]`,
    (json ?? '').replaceAll('&quot;', '"').replaceAll('&lt;', '<').replaceAll('&gt;', '>').replaceAll('&amp;', '&'),
  ]);
  t.equal(hidden.length, 2);
  const rows = Object.fromEntries(hidden) as Record<string, string>;
  const refused = await browser.post(`${path}/import/apply`, {
    ...rows,
    ...{ 'pick[0]': 'on', 'pick[1]': 'on', 'action[0]': 'payments.transfer', 'action[1]': 'transfers.read' },
  });
  t.equal(refused.status, 422);
  t.match(refused.text, /Nothing was mapped[\s\S]*The mandate does not cover it/);
  t.same(await tools(), [], 'all or none');
  t.match((await browser.post(`${path}/import/apply`, rows)).text, /Tick at least one/);
  const done = await browser.post(`${path}/import/apply`, {
    ...rows,
    ...{ 'pick[0]': 'on', 'pick[1]': 'on', 'action[0]': 'payments.transfer', 'action[1]': 'payments.read' },
  });
  t.same([done.status, done.location], [303, `${path}?show=mapped`]);
  t.match(await tools(), [
    { pattern: 'http.get:/transfers/{transfer_id}', mapping: { action_type: 'payments.read' } },
    { pattern: 'http.post:/transfers', mapping: { action_type: 'payments.transfer', amount: '/amount' } },
  ]);
  t.equal((await browser.post(`${path}/import/apply`, { 'tool[0]': '{}', 'pick[0]': 'on' })).status, 400);
});

t.test('of a document that multiplies itself a page reads no more than decisions can wait for', async (t) => {
  const { browser, path } = await toolsFixture(t);
  await browser.get(`${path}/import`);
  const part = { $ref: '#/part' };
  const names = Array.from({ length: 50 }, (_, n) => `S${n}`);
  const schemas = Object.fromEntries(names.map((name) => [name, { allOf: Array.from({ length: 1_000 }, () => part) }]));
  const document = JSON.stringify({
    openapi: '3.1.0',
    paths: Object.fromEntries(
      names.map((name) => {
        const schema = { $ref: `#/components/schemas/${name}` };
        return [`/${name}`, { post: { requestBody: { content: { 'application/json': { schema } } } } }];
      }),
    ),
    part: { properties: { amount: { type: 'number' } } },
    components: { schemas },
  });
  const read = await browser.post(`${path}/import`, { document });
  const rows = Object.entries(hiddenFields(read.text))
    .filter(([name]) => name.startsWith('tool'))
    .map(([, row]) => JSON.parse(row) as { mapping: { amount: string } });
  const known = rows.filter(({ mapping }) => mapping.amount === '/amount').length;
  t.equal(rows.length, 50);
  t.ok(known >= 1 && known < 40, `${known} were read`);
});

t.test('who imports tools of a target that cannot be reached now is told so', async (t) => {
  const { browser, path, fixture } = await toolsFixture(t);
  await browser.get(`${path}/import`);
  const read = () => browser.post(`${path}/import`, { document: OPENAPI, base_path: '', prefix: '' });
  t.notMatch((await read()).text, /cannot be reached now/);
  await fixture.sql`update gateway_instances set target_url = 'https://nowhere.invalid'`;
  const away = await read();
  t.equal(away.status, 200, 'and may map them all the same');
  t.match(away.text, /The target https:\/\/nowhere\.invalid cannot be reached now[\s\S]*This host cannot be found/);
});

t.test('a document that is none, or too large, is refused without a page of it', async (t) => {
  const { browser, path } = await toolsFixture(t);
  await browser.get(`${path}/import`);
  const read = (document: string, more = {}) => browser.post(`${path}/import`, { document, ...more });
  t.match((await read('')).text, /Paste the document/);
  t.match((await read('{"swagger":"2.0"}')).text, /Swagger 2\.0/);
  t.match((await read(OPENAPI, { base_path: 'v1' })).text, /Begin with a slash/);
  const large = await read('x'.repeat(1024 * 1024 + 1));
  t.same([large.status, large.text.length < 20_000], [422, true]);
  t.equal((await read('x'.repeat(3 * 1024 * 1024))).status, 413);
  const operations = Array.from({ length: 120 }, (_, at) => [`/things/${'y'.repeat(90)}${at}`, { post: {} }]);
  const many = await read(JSON.stringify({ openapi: '3.0.0', paths: Object.fromEntries(operations) }));
  t.match(many.text, /50 of 120 are listed/);
  t.ok(many.text.length < 100_000, `${many.text.length}`);
});

t.test('whatever an address asks for, the lists answer', async (t) => {
  const { browser, path, see } = await toolsFixture(t);
  await see(REFUNDS);
  for (const query of ['?show=mapped&after=%00', '?from=99999', '?from=-1', '?show=x', '?show=mapped&show=blocked']) {
    t.equal((await browser.get(`${path}${query}`)).status, 200, query);
  }
  for (const name of ['%00', '%E2%80%AE', 'http.post:/a/../b', 'x'.repeat(5000), '&name=x']) {
    const { status, text } = await browser.get(`${path}/edit?name=${name}`);
    t.equal(status, 200, name.slice(0, 20));
    t.notMatch(text.replaceAll(/value="[^"]*"/g, ''), /\u202e/);
  }
});

t.test('every page of tools speaks German', async (t) => {
  const { browser, path, see } = await toolsFixture(t);
  await see(['http.post:/payments']);
  browser.cookies.set('__Host-mandate_language', 'de');
  t.match((await browser.get(path)).text, /Betrag: das Feld \/amount, in der Haupteinheit/);
  t.match((await browser.get(`${path}/edit?name=http.post:/payments`)).text, /üblichen Namen eines Betrags/);
  t.match((await browser.get(`${path}/import`)).text, /OpenAPI-Dokument einlesen/);
});
