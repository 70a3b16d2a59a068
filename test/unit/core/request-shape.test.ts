import fc from 'fast-check';
import t from 'tap';
import { parseStrictForm } from '../../../core/form.ts';
import { parseStrictJson } from '../../../core/json.ts';
import {
  mergeShapes,
  type RequestShape,
  requestShape,
  SHAPE_FIELDS_MAX,
  SHAPE_NAME_MAX_CHARACTERS,
  shapeOf,
} from '../../../core/request-shape.ts';
import { QueryParams } from '../../../core/tool-name.ts';

const NO_QUERY = new QueryParams('');

function ofJson(value: unknown): RequestShape {
  return shapeOf({
    body: { kind: 'json', node: parseStrictJson(Buffer.from(JSON.stringify(value))) },
    queryParams: NO_QUERY,
  });
}

function ofForm(text: string): RequestShape {
  return shapeOf({ body: { kind: 'form', fields: parseStrictForm(Buffer.from(text)) }, queryParams: NO_QUERY });
}

t.test('a shape names the fields of a body and their types, as a mapping would name them', async (t) => {
  const body = {
    amount: 12.5,
    count: 3,
    'a/b': { '~': 'x' },
    ok: true,
    none: null,
    items: [{ price: 1 }, { other: 2 }],
  };
  t.same(ofJson(body), {
    body: 'json',
    fields: [
      { at: '/amount', type: 'number' },
      { at: '/count', type: 'integer' },
      { at: '/a~1b', type: 'object' },
      { at: '/ok', type: 'boolean' },
      { at: '/none', type: 'null' },
      { at: '/items', type: 'array' },
      { at: '/a~1b/~0', type: 'string' },
      { at: '/items/0', type: 'object' },
      { at: '/items/0/price', type: 'integer' },
    ],
    query: [],
    more: false,
  });
  t.same(ofForm('amount=1250&transfer_data[destination]=acct_1').fields, [
    { at: '/amount', type: 'string' },
    { at: '/transfer_data[destination]', type: 'string' },
  ]);
  const query = shapeOf({ body: { kind: 'none' }, queryParams: new QueryParams('limit=10&from=2030') });
  t.same(query, { body: 'none', fields: [], query: ['limit', 'from'], more: false });
  t.same(
    shapeOf({ body: { kind: 'opaque' }, queryParams: new QueryParams('a=1&a=2') }).more,
    true,
    'an unreadable query',
  );
});

t.test('no value of a request is in its shape, whatever the request is', async (t) => {
  const word = fc.stringMatching(/^[a-z]{1,8}$/);
  const secret = fc.stringMatching(/^SECRET[0-9]{6}$/);
  const body = fc.letrec((tie) => ({
    node: fc.oneof({ depthSize: 'small' }, secret, fc.array(tie('node')), fc.dictionary(word, tie('node'))),
  })).node;
  fc.assert(
    fc.property(body, (value) => {
      t.notOk(/SECRET/.test(JSON.stringify(ofJson(value))));
    }),
    { numRuns: 200 },
  );
  // Objects that are used as tables: what stands as a name is a value.
  const table = { 'ada@example.com': 1, DE89370400440532013000: 2, '0171555123456': 3, '4242424242424242': 4 };
  t.match(ofJson({ balances: table }), { fields: [{ at: '/balances', type: 'object' }], more: true });
  t.equal(ofJson({ balances: table }).fields.length, 1);
});

t.test('every shape is bounded and safe to send, store and show, whatever names a body has', async (t) => {
  const hostile = fc.oneof(
    fc.string({ unit: 'binary', maxLength: 100 }).filter((text) => text.isWellFormed()),
    fc.constantFrom('__proto__', 'constructor', '<script>', '\u202eevil', '\u0000', '\u0007', 'a\nb', "'; drop --"),
  );
  const body = fc.letrec((tie) => ({
    node: fc.oneof(
      { maxDepth: 9 },
      fc.integer(),
      fc.array(tie('node'), { maxLength: 3 }),
      fc.dictionary(hostile, tie('node')),
    ),
  })).node;
  fc.assert(
    fc.property(body, (value) => {
      const shape = ofJson(value);
      t.ok(requestShape.safeParse(shape).success);
      t.ok(shape.fields.every(({ at }) => !/[\p{Cc}\p{Cf}]/u.test(at)));
      t.same(mergeShapes(shape, shape), shape);
    }),
    { numRuns: 300 },
  );
  const wide = ofJson(Object.fromEntries(Array.from({ length: 100_000 }, (_, i) => [`f${i.toString(36)}`, i])));
  t.equal(wide.fields.length, SHAPE_FIELDS_MAX);
  t.equal(wide.more, true);
  t.same(ofJson({ ['n'.repeat(SHAPE_NAME_MAX_CHARACTERS + 1)]: 1 }), {
    body: 'json',
    fields: [],
    query: [],
    more: true,
  });
  let deep: unknown = 1;
  for (let i = 0; i < 60; i++) deep = { a: deep };
  t.ok(ofJson(deep).fields.length < 10);
});

t.test('shapes of one tool add up to all fields that were seen, in whichever order', async (t) => {
  const one = ofJson({ amount: 1, note: null });
  const other = ofJson({ amount: 1.5, note: 'x', payee: 'y' });
  const types = ({ fields }: RequestShape) => Object.fromEntries(fields.map(({ at, type }) => [at, type]));
  const both = { '/amount': 'number', '/note': 'string', '/payee': 'string' };
  t.same(types(mergeShapes(one, other)), both);
  t.same(types(mergeShapes(other, one)), both);
  t.same(types(mergeShapes(ofJson({ a: 'x' }), ofJson({ a: 1 }))), { '/a': 'mixed' });
  t.same(mergeShapes(one, ofForm('a=1')), ofForm('a=1'), 'a body of another kind is another tool, in effect');
});
