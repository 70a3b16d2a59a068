import t from 'tap';
import { ToolSightings } from '../../../control-plane/gateways/sightings.ts';
import type { RequestShape } from '../../../core/request-shape.ts';
import type { GatewayAsk } from '../../../core/wire.ts';
import { type GatewayFixture, gatewayFixture } from './gateway-fixture.ts';

interface Row {
  readonly key: string;
  readonly unmapped: number;
  readonly unreadable: number;
  readonly unreadable_reason: string | null;
  readonly shape: RequestShape | null;
}

async function seenAfter({ sql }: GatewayFixture, sightings: ToolSightings): Promise<Row[]> {
  while (await sightings.flush(sql));
  return sql<Row[]>`select key, unmapped, unreadable, unreadable_reason, shape from tool_sightings order by key`;
}

/** The gateway with what its lanes see noted, and every ask that reached them. */
async function watched(t: Parameters<typeof gatewayFixture>[0]) {
  const sightings = new ToolSightings();
  const asks: GatewayAsk[] = [];
  const fixture = await gatewayFixture(t, { sighted: (seen) => sightings.note(seen), asked: (ask) => asks.push(ask) });
  return { fixture, sightings, asks };
}

const ORDERS = '/api/gateway/http/orders';
const SECRET_BODY = '{"amount":12.5,"customer":{"name":"Ada Lovelace","iban":"DE89370400440532013000"},"tags":["vip"]}';

t.test(
  'a tool that was never mapped shows how often it was asked for and of what form, and no value of it',
  async (t) => {
    const { fixture, sightings, asks } = await watched(t);
    for (let i = 0; i < 5; i++) {
      const answer = await fixture.send({ path: `${ORDERS}?coupon=SECRET`, body: SECRET_BODY });
      t.match(answer.json, { reasons: ['MD-501'] });
    }
    t.equal(asks.filter(({ shape }) => shape !== undefined).length, 1, 'the form is told once');
    const rows = await seenAfter(fixture, sightings);
    t.match(rows, [{ key: 'http.post:/orders', unmapped: 5, unreadable: 0, unreadable_reason: null }]);
    t.same(rows[0]?.shape, {
      body: 'json',
      fields: [
        { at: '/amount', type: 'number' },
        { at: '/customer', type: 'object' },
        { at: '/tags', type: 'array' },
        { at: '/customer/name', type: 'string' },
        { at: '/customer/iban', type: 'string' },
        { at: '/tags/0', type: 'string' },
      ],
      query: ['coupon'],
      more: false,
    });
    const [stored] = await fixture.sql<
      { text: string }[]
    >`select string_agg(s::text, '') as text from tool_sightings s`;
    for (const value of ['12.5', 'Ada', 'DE89', 'vip', 'SECRET']) t.notOk(stored?.text.includes(value), value);
    await fixture.send({ path: ORDERS, body: SECRET_BODY });
    t.match(await seenAfter(fixture, sightings), [{ unmapped: 6 }], 'counts add up');
  },
);

t.test('a mapped tool tells nothing of its requests, but for those that cannot be read', async (t) => {
  const { fixture, sightings, asks } = await watched(t);
  for (let i = 0; i < 10; i++) t.equal((await fixture.send()).status, 201);
  const held = asks.filter(({ tool }) => tool !== null);
  t.equal(held.length, 10);
  t.ok(
    held.every((ask) => !('shape' in ask)),
    'nothing is computed or sent on the way of an allowed request',
  );
  t.same(await seenAfter(fixture, sightings), []);
  for (let i = 0; i < 3; i++) {
    t.match((await fixture.send({ body: '{"amount":"1.00","currency":"EUR"}' })).json, { reasons: ['MD-502'] });
  }
  t.match(await seenAfter(fixture, sightings), [
    {
      key: 'http.post:/payments',
      unmapped: 0,
      unreadable: 3,
      unreadable_reason: /^amount: .*not a JSON number/,
      shape: { fields: [{ at: '/amount', type: 'string' }, { at: '/currency' }] },
    },
  ]);
});

t.test('forms, empty bodies and bodies nobody looks into have a shape as well', async (t) => {
  const { fixture, sightings } = await watched(t);
  const form = { 'content-type': 'application/x-www-form-urlencoded' };
  await fixture.send({ path: `${ORDERS}/form`, headers: form, body: 'amount=5&transfer_data[destination]=acct_1' });
  await fixture.send({ path: `${ORDERS}/xml`, headers: { 'content-type': 'text/xml' }, body: '<amount>5</amount>' });
  await fixture.send({ path: `${ORDERS}/none`, method: 'GET', body: null });
  const shapes = (await seenAfter(fixture, sightings)).map(({ key, shape }) => [
    key,
    shape?.body,
    shape?.fields.map(({ at }) => at),
  ]);
  t.same(shapes, [
    ['http.get:/orders/none', 'none', []],
    ['http.post:/orders/form', 'form', ['/amount', '/transfer_data[destination]']],
    ['http.post:/orders/xml', 'opaque', []],
  ]);
});

t.test('names that agents invent are kept only within the bounds, and stay inert', async (t) => {
  const { fixture, sightings } = await watched(t);
  await fixture.sql`update gateway_instances set unmapped_tools = 498`;
  for (let i = 0; i < 5; i++) await fixture.send({ path: `${ORDERS}/${i}`, body: '{"a":1}' });
  t.equal((await seenAfter(fixture, sightings)).length, 2, 'what creates no tool is not kept');
  const hostile = {
    '\u0000': 1,
    '\u202eevil': 2,
    "'); drop table tools; --": 3,
    '<script>alert(1)</script>': 4,
    ['n'.repeat(5000)]: 5,
  };
  await fixture.send({ path: `${ORDERS}/0`, body: JSON.stringify({ ...hostile, __proto__x: { constructor: 1 } }) });
  t.same(fixture.errors, []);
  const [row] = await fixture.sql<{ count: number }[]>`select count(*) as count from tools`;
  t.equal(row?.count, 3);
});

t.test('the largest shape that a request can have is kept, in whatever script its names are', async (t) => {
  const { fixture, sightings } = await watched(t);
  let body: unknown = 1;
  for (const width of [30, 2, 2, 2, 1, 1]) {
    const inside = body;
    body = Object.fromEntries(Array.from({ length: width }, (_, i) => [`${'漢'.repeat(60)}"${i}`, inside]));
  }
  // The first answer vouches for the token: more than 16 KiB are read unasked from then on.
  await fixture.send({ path: '/api/gateway/http/first', body: '1' });
  await fixture.send({ path: ORDERS, body: JSON.stringify(body) });
  const rows = await seenAfter(fixture, sightings);
  t.equal(rows.find(({ key }) => key === 'http.post:/orders')?.shape?.fields.length, 64);
});

t.test('a tool that is gone when its sightings are written takes them with it', async (t) => {
  const { fixture, sightings } = await watched(t);
  await fixture.send({ path: ORDERS, body: '{"a":1}' });
  await fixture.sql`delete from tools where key = 'http.post:/orders'`;
  t.same(await seenAfter(fixture, sightings), []);
  await fixture.send({ path: ORDERS, body: '{"a":1}' });
  t.equal((await seenAfter(fixture, sightings)).length, 1);
  await fixture.sql`delete from tools where key = 'http.post:/orders'`;
  t.same(await seenAfter(fixture, sightings), []);
});

t.test('a flush that fails is made up for by the next one', async (t) => {
  const { fixture, sightings } = await watched(t);
  await fixture.send({ path: ORDERS, body: '{"a":1}' });
  await fixture.sql.unsafe('alter table tool_sightings rename to hidden');
  await t.rejects(sightings.flush(fixture.sql));
  await fixture.send({ path: ORDERS, body: '{"b":1}' });
  await fixture.sql.unsafe('alter table hidden rename to tool_sightings');
  t.match(await seenAfter(fixture, sightings), [{ unmapped: 2, shape: { fields: [{ at: '/a' }] } }]);
});
