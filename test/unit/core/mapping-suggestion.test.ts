import fc from 'fast-check';
import t from 'tap';
import { actionTypeOf, isIdentifier, suggestMapping } from '../../../core/mapping-suggestion.ts';
import { type RequestShape, SHAPE_TYPES } from '../../../core/request-shape.ts';
import { suggestTemplates } from '../../../core/template-suggestion.ts';
import { checkMapping, toolMapping } from '../../../core/tool-mapping.ts';
import { candidateKeys, GATEWAY_METHODS, parseToolPattern, type ToolPattern } from '../../../core/tool-name.ts';

const MANDATE = { scope: ['payments.*', 'orders.refund'], currency: 'EUR' };

function patternOf(name: string): ToolPattern {
  const reading = parseToolPattern(name);
  if (!reading.ok) throw new Error(reading.message);
  return reading.pattern;
}

function json(types: Readonly<Record<string, string>>): RequestShape {
  const fields = Object.entries(types).map(([at, type]) => ({ at, type }) as RequestShape['fields'][number]);
  return { body: 'json', fields, query: [], more: false };
}

const suggest = (name: string, shape: RequestShape | null) => suggestMapping(patternOf(name), shape, MANDATE);

t.test('an ordinary payment is read as it is meant, with a reason for each part', async (t) => {
  const shape = json({ '/amount': 'number', '/currency': 'string', '/counterparty': 'string', '/note': 'string' });
  const found = suggest('http.post:/v1/payments', shape);
  t.match(found, {
    action_type: { value: 'payments.create', confidence: 'high' },
    amount: { value: '/amount', confidence: 'high' },
    amount_unit: { value: 'major', confidence: 'high' },
    currency: { value: '/currency', confidence: 'high' },
    counterparty: { value: '/counterparty', confidence: 'high' },
    mapping: { amount: '/amount', currency: '/currency', counterparty: '/counterparty', amount_unit: 'major' },
  });
  for (const part of ['action_type', 'amount', 'amount_unit', 'currency', 'counterparty'] as const) {
    t.match(found[part].reason, /\.$/);
  }
});

t.test('amounts are found where real APIs have them', async (t) => {
  const cases: [Record<string, string>, string, string, string, string][] = [
    [
      { '/amount': 'object', '/amount/value': 'number', '/amount/currency': 'string' },
      '/amount/value',
      'major',
      '/amount/currency',
      'none',
    ],
    [
      { '/data': 'object', '/data/total_price': 'number', '/data/ccy': 'string', '/data/vendor': 'string' },
      '/data/total_price',
      'major',
      '/data/ccy',
      '/data/vendor',
    ],
    [
      { '/amount_cents': 'integer', '/recipient': 'object', '/recipient/iban': 'string' },
      '/amount_cents',
      'minor',
      'const:EUR',
      '/recipient/iban',
    ],
    [
      { '/amountInCents': 'integer', '/amount': 'string', '/currencyCode': 'string', '/to': 'string' },
      '/amountInCents',
      'minor',
      '/currencyCode',
      '/to',
    ],
    [{ '/items': 'array', '/items/0': 'object', '/items/0/amount': 'number' }, 'none', 'major', 'none', 'none'],
  ];
  for (const [fields, amount, unit, currency, counterparty] of cases) {
    const found = suggest('http.post:/payments', json(fields)).mapping;
    const read = {
      amount: found.amount,
      unit: found.amount_unit,
      currency: found.currency,
      counterparty: found.counterparty,
    };
    t.same(read, { amount, unit, currency, counterparty }, Object.keys(fields).join(' '));
  }
});

t.test('where it cannot tell it says so, and rather denies too much', async (t) => {
  const whole = suggest('http.post:/payments', json({ '/amount': 'integer', '/currency': 'string' }));
  t.match(whole.amount_unit, { value: 'major', confidence: 'low', reason: /cents/ });
  t.match(suggest('http.post:/payments', json({ '/amount': 'string' })).amount, {
    value: 'none',
    confidence: 'low',
    reason: /text/,
  });
  t.match(suggest('http.post:/notes', json({ '/text': 'string' })).amount, { value: 'none', confidence: 'low' });
  t.match(suggest('http.get:/payments', json({ '/amount': 'number' })).amount, { value: 'none', confidence: 'high' });
  t.match(suggest('http.post:/payments', null).amount, { value: 'none', confidence: 'low' });
  t.match(suggest('http.post:/invoices', json({ '/amount': 'number' })).action_type, {
    value: 'invoices.create',
    confidence: 'low',
    reason: /scope/,
  });
});

t.test('method and path say what is done', async (t) => {
  const cases = {
    'http.post:/v1/payments': 'payments.create',
    'http.get:/payments/{id}': 'payments.read',
    'http.post:/orders/81/refund': 'orders.refund',
    'http.post:/api/v2/orders/{order_id}/refund': 'orders.refund',
    'http.delete:/customers/{id}': 'customers.delete',
    'http.patch:/api/customers/{id}': 'customers.update',
    'http.post:/': 'requests.create',
    'http.post:/%C3%BCber/81': 'requests.create',
  };
  for (const [name, type] of Object.entries(cases)) t.equal(actionTypeOf(patternOf(name)), type, name);
});

const segment = fc.oneof(
  fc.constantFrom('payments', 'orders', 'refund', 'v1', 'api', 'Ünknown', 'a.b', '{id}', '{order_id}', '%20', 'x_y'),
  fc.integer({ min: 0, max: 999 }).map(String),
  fc.uuid(),
);
const nameOf = fc
  .tuple(fc.constantFrom(...GATEWAY_METHODS), fc.array(segment, { maxLength: 6 }))
  .map(([method, parts]) => `http.${method.toLowerCase()}:/${parts.join('/')}`)
  .filter((name) => parseToolPattern(name).ok);
const fieldName = fc.oneof(
  fc.constantFrom(
    'amount',
    'total',
    'value',
    'currency',
    'recipient',
    'iban',
    'cents',
    'a~b',
    'a/b',
    '',
    '\u0000',
    '__proto__',
  ),
  fc.string({ maxLength: 20 }),
);
const shapeArbitrary: fc.Arbitrary<RequestShape> = fc.record({
  body: fc.constantFrom('json', 'form', 'none', 'opaque'),
  fields: fc.array(
    fc.record({
      at: fc.array(fieldName, { minLength: 1, maxLength: 3 }).map((parts) => `/${parts.join('/')}`),
      type: fc.constantFrom(...SHAPE_TYPES),
    }),
    { maxLength: 10 },
  ),
  query: fc.array(fc.oneof(fc.constantFrom('amount', 'currency'), fc.string({ minLength: 1, maxLength: 20 })), {
    maxLength: 4,
  }),
  more: fc.boolean(),
});

t.test('whatever was seen, what is suggested can be saved', async (t) => {
  fc.assert(
    fc.property(nameOf, fc.option(shapeArbitrary), (name, shape) => {
      const pattern = patternOf(name);
      const { mapping } = suggestMapping(pattern, shape, MANDATE);
      t.ok(toolMapping.safeParse(mapping).success, JSON.stringify(mapping));
      t.same(checkMapping(mapping, pattern), []);
    }),
    { numRuns: 500 },
  );
});

t.test('names that differ in identifiers become one template, and words never do', async (t) => {
  const shape = json({ '/reason': 'string' });
  const names = ['/orders/81/refund', '/orders/82/refund', '/orders/81/cancel', '/orders', '/users/ada', '/users/bob'];
  const found = suggestTemplates(names.map((path) => ({ name: `http.post:${path}`, shape })));
  t.match(found, [
    {
      name: 'http.post:/orders/{order_id}/refund',
      tools: ['http.post:/orders/81/refund', 'http.post:/orders/82/refund'],
    },
  ]);
  t.equal(found.length, 1);
  const others = [
    { name: 'http.post:/orders/81/refund', shape },
    { name: 'http.post:/orders/82/refund', shape: json({ '/x': 'string' }) },
  ];
  t.same(suggestTemplates(others), [], 'another form is another thing');
  const two = ['/categories/11/items/21', '/categories/12/items/22'].map((path) => ({
    name: `http.get:${path}`,
    shape: null,
  }));
  t.match(suggestTemplates(two), [{ name: 'http.get:/categories/{category_id}/items/{item_id}' }]);
  const ids = ['ch_3NqLbW2eZvKYlo2C', '0190c2a1-7b3c-7def-8a12-0123456789ab', '81', 'deadbeefcafe'];
  t.ok(ids.every(isIdentifier));
  t.notOk(['refund', 'v1', 'payment_intents', 'my-reports', 'sha256'].some(isIdentifier));
});

t.test('every template that is suggested can be saved and stands for each of its tools', async (t) => {
  fc.assert(
    fc.property(
      fc.array(
        nameOf.filter((name) => !name.includes('{')),
        { maxLength: 30 },
      ),
      (names) => {
        const found = suggestTemplates([...new Set(names)].map((name) => ({ name, shape: null })));
        t.equal(new Set(found.map(({ name }) => name)).size, found.length);
        for (const { name, tools } of found) {
          const pattern = patternOf(name);
          t.ok(tools.length >= 2 && pattern.shape !== null);
          for (const tool of tools)
            t.ok(candidateKeys(tool, [pattern.shape!]).includes(pattern.key), `${name} ${tool}`);
        }
      },
    ),
    { numRuns: 300 },
  );
});
