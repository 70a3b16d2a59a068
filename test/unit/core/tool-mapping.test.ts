import fc from 'fast-check';
import t from 'tap';
import { parseStrictForm } from '../../../core/form.ts';
import { parseStrictJson } from '../../../core/json.ts';
import {
  checkMapping,
  compileMapping,
  needsBody,
  type Reading,
  type RequestBody,
  readValues,
  toolMapping,
  toolMappingInput,
} from '../../../core/tool-mapping.ts';
import { parseToolPattern, readQuery, type ToolPattern } from '../../../core/tool-name.ts';

interface Sent {
  readonly path?: string;
  readonly query?: string;
  readonly json?: string;
  readonly form?: string;
  readonly opaque?: true;
}

function pattern(text: string): ToolPattern {
  const reading = parseToolPattern(text);
  if (!reading.ok) throw new Error(reading.message);
  return reading.pattern;
}

function bodyOf(sent: Sent): RequestBody {
  if (sent.json !== undefined) return { kind: 'json', node: parseStrictJson(Buffer.from(sent.json)) };
  if (sent.form !== undefined) return { kind: 'form', fields: parseStrictForm(Buffer.from(sent.form)) };
  return { kind: sent.opaque ? 'opaque' : 'none' };
}

/** Reads a request by a mapping whose fields are given over the defaults. */
function read(mapping: Record<string, unknown>, sent: Sent, name = 'http.post:/payments'): Reading {
  const query = readQuery(sent.query ?? '');
  if (!query.ok) throw new Error(query.message);
  const compiled = compileMapping(
    toolMappingInput.parse({ action_type: 'payments.create', ...mapping }),
    pattern(name),
  );
  return readValues(compiled, { path: sent.path ?? 'payments', queryParams: query.params, body: bodyOf(sent) });
}

function good(amount_minor: number, currency: string | null, counterparty: string | null = null): Reading {
  return { ok: true, amount_minor, currency, counterparty };
}

function fieldsOf(mapping: Record<string, unknown>, name = 'http.post:/payments'): string[] {
  const complete = toolMappingInput.parse({ action_type: 'a', ...mapping });
  return checkMapping(complete, pattern(name)).map((problem) => problem.field);
}

t.test('by default the top-level amount, currency and counterparty of a JSON body are read', async (t) => {
  t.strictSame(
    read({}, { json: '{"amount":120.5,"currency":"EUR","counterparty":"Acme"}' }),
    good(12050, 'EUR', 'Acme'),
  );
  t.strictSame(read({}, { json: '{"amount":120.5,"currency":"EUR"}' }), good(12050, 'EUR'));
  t.strictSame(read({}, { json: '{"amount":1,"currency":"EUR","counterparty":null}' }), good(100, 'EUR'));
  t.strictSame(
    read({}, { json: '{"amount":1,"currency":"EUR","counterparty":"Mu\u0308ller"}' }),
    good(100, 'EUR', 'Müller'),
  );
});

t.test('values are read from pointers, the query, the path, constants and forms', async (t) => {
  const sources = { amount: '/pay/0/sum', currency: 'const:EUR', counterparty: 'path:to' };
  t.strictSame(
    read(sources, { json: '{"pay":[{"sum":3}]}', path: 'to/a%40b' }, 'http.post:/to/{to}'),
    good(300, 'EUR', 'a@b'),
  );
  t.strictSame(
    read(
      { amount: 'query:amount', currency: 'query:c', counterparty: 'query:to' },
      { query: 'amount=1.5&c=EUR&to=x+y' },
    ),
    good(150, 'EUR', 'x y'),
  );
  const stripe = {
    amount: '/amount',
    currency: '/currency',
    counterparty: '/transfer_data[destination]',
    amount_unit: 'minor',
    currency_notation: 'iso_lower',
  };
  t.strictSame(
    read(stripe, { form: 'amount=2000&currency=eur&transfer_data[destination]=acct_1&payment_method_types[0]=card' }),
    good(2000, 'EUR', 'acct_1'),
  );
  t.strictSame(read({ amount: 'const:0.50', currency: 'const:EUR', counterparty: 'none' }, {}), good(50, 'EUR'));
});

t.test('an amount of none counts as 0 and needs no body', async (t) => {
  t.strictSame(read({ amount: 'none' }, { opaque: true }), good(0, null));
  t.strictSame(read({ amount: 'none', currency: 'const:EUR' }, {}), good(0, 'EUR'));
  t.notOk(needsBody(toolMappingInput.parse({ action_type: 'a', amount: 'none' })));
  t.ok(needsBody(toolMappingInput.parse({ action_type: 'a', amount: 'none', counterparty: '/to' })));
});

const UNREADABLE: [field: string, why: string, sent: Sent][] = [
  ['amount', 'a string is not a number', { json: '{"amount":"100","currency":"EUR"}' }],
  ['amount', 'an exponent', { json: '{"amount":1e2,"currency":"EUR"}' }],
  ['amount', 'minus zero', { json: '{"amount":-0,"currency":"EUR"}' }],
  ['amount', 'negative', { json: '{"amount":-5,"currency":"EUR"}' }],
  ['amount', 'too many decimals', { json: '{"amount":100.005,"currency":"EUR"}' }],
  ['amount', 'decimals of a currency without any', { json: '{"amount":1.0,"currency":"JPY"}' }],
  ['amount', 'null', { json: '{"amount":null,"currency":"EUR"}' }],
  ['amount', 'an object', { json: '{"amount":{"value":1},"currency":"EUR"}' }],
  ['amount', 'missing', { json: '{"currency":"EUR"}' }],
  ['amount', 'not an object', { json: '[1]' }],
  ['amount', 'another name but for case', { json: '{"amount":1,"Amount":1000,"currency":"EUR"}' }],
  ['amount', 'another name but for case folding', { json: '{"amount":1,"amo\\u0075NT":1000,"currency":"EUR"}' }],
  ['amount', 'no body', {}],
  ['amount', 'a body of another type', { opaque: true }],
  ['amount', 'a form amount with a sign', { form: 'amount=-1&currency=EUR' }],
  ['amount', 'a form amount with a space', { form: 'amount=+1&currency=EUR' }],
  ['amount', 'a form field that differs in case', { form: 'amount=1&AMOUNT=1000&currency=EUR' }],
  ['currency', 'lower case', { json: '{"amount":1,"currency":"eur"}' }],
  ['currency', 'unknown', { json: '{"amount":1,"currency":"XXX"}' }],
  ['currency', 'not a string', { json: '{"amount":1,"currency":978}' }],
  ['currency', 'missing', { json: '{"amount":1}' }],
  ['counterparty', 'a number', { json: '{"amount":1,"currency":"EUR","counterparty":1}' }],
  ['counterparty', 'empty', { json: '{"amount":1,"currency":"EUR","counterparty":""}' }],
  ['counterparty', 'a control character', { json: '{"amount":1,"currency":"EUR","counterparty":"a\\nb"}' }],
  ['counterparty', 'too long', { json: `{"amount":1,"currency":"EUR","counterparty":"${'x'.repeat(257)}"}` }],
  ['counterparty', 'absent but for another case', { json: '{"amount":1,"currency":"EUR","Counterparty":"x"}' }],
];

t.test('what cannot be read exactly is unreadable, and says which field', async (t) => {
  for (const [field, why, sent] of UNREADABLE) {
    const reading = read({}, sent);
    t.match(reading, { ok: false, field }, `${field}: ${why}`);
    if (!reading.ok) t.match(reading.message, /^[A-Z].*\.$/, 'the message is a sentence');
  }
});

t.test('lower-case notation takes lower case only', async (t) => {
  const mapping = { currency_notation: 'iso_lower' };
  t.strictSame(read(mapping, { json: '{"amount":1,"currency":"jpy"}' }), good(1, 'JPY'));
  for (const code of ['JPY', 'Jpy', 'xxx']) {
    t.match(read(mapping, { json: `{"amount":1,"currency":"${code}"}` }), { ok: false, field: 'currency' });
  }
});

t.test('a required counterparty that is absent is unreadable', async (t) => {
  const mapping = { counterparty_optional: false };
  t.match(read(mapping, { json: '{"amount":1,"currency":"EUR"}' }), { ok: false, field: 'counterparty' });
});

t.test('a query that two servers could read differently is unreadable where a value comes from it', async (t) => {
  const mapping = { amount: 'query:amount', currency: 'const:EUR', counterparty: 'none' };
  for (const query of [
    'amount=1&amount=2',
    'amount=1&%61mount=2',
    'amount=1;amount=2',
    'amount=1&AMOUNT=2',
    'b=1',
    'amount',
  ]) {
    t.match(read(mapping, { query }), { ok: false, field: 'amount' }, query);
  }
  t.match(read({ ...mapping, amount: 'const:1' }, { query: 'a=1&a=2' }), { ok: true }, 'nobody reads this query');
});

t.test('case twins on the way to a value make it unreadable, elsewhere they do not matter', async (t) => {
  const mapping = { amount: '/pay/amount', currency: 'const:EUR', counterparty: 'none' };
  t.match(read(mapping, { json: '{"pay":{"amount":1},"PAY":{"amount":9}}' }), { ok: false, field: 'amount' });
  t.match(read(mapping, { json: '{"pay":{"amount":1},"x":{"y":1,"Y":2}}' }), { ok: true });
  const kelvin = { amount: '/kilo', currency: 'const:EUR', counterparty: 'none' };
  t.match(read(kelvin, { json: '{"kilo":1,"\u212ailo":9}' }), { ok: false, field: 'amount' }, 'the Kelvin sign is a k');
  t.match(read({ ...kelvin, amount: '/sum' }, { json: '{"sum":1,"\u017fum":9}' }), { ok: false }, 'the long s is an s');
});

t.test('messages repeat nothing of the request', async (t) => {
  for (const json of [
    '{"amount":"hunter2"}',
    '{"amount":1,"currency":"hunter2"}',
    '{"amount":1,"currency":"EUR","counterparty":"hunter2\\u0000"}',
  ]) {
    t.notMatch(JSON.stringify(read({}, { json })), /hunter2/);
  }
});

t.test('reading any JSON body gives an exact reading or a named field, and throws nothing', async (t) => {
  const body = fc.record(
    {
      amount: fc.jsonValue({ maxDepth: 1 }),
      currency: fc.constantFrom('EUR', 'JPY', 'x', 1),
      counterparty: fc.jsonValue({ maxDepth: 1 }),
    },
    { requiredKeys: [] },
  );
  const property = fc.property(body, (value) => {
    const reading = read({}, { json: JSON.stringify(value) });
    if (!reading.ok) return ['amount', 'currency', 'counterparty'].includes(reading.field);
    return (
      Number.isSafeInteger(reading.amount_minor) && reading.amount_minor >= 0 && reading.currency === value.currency
    );
  });
  fc.assert(property, { numRuns: 1000 });
  t.pass('held');
});

t.test('a mapping has defaults for all but its action type, and those are complete', async (t) => {
  const mapping = toolMappingInput.parse({ action_type: 'payments.create' });
  t.strictSame(toolMapping.parse(mapping), mapping);
  t.match(mapping, { amount: '/amount', currency: '/currency', counterparty: '/counterparty', amount_unit: 'major' });
  t.match(toolMappingInput.parse({ action_type: 'a', amount: 'none' }), { currency: 'none', counterparty: 'none' });
});

t.test('a malformed mapping is refused with the name of its field', async (t) => {
  const malformed: Record<string, unknown>[] = [
    { action_type: 'A' },
    { amount: 'amount' },
    { amount: '/' },
    { amount: '/a~2' },
    { amount: 'query:' },
    { amount: 'path:X' },
    { currency: 'header:x' },
    { counterparty: 'NONE' },
    { counterparty: `/${'x'.repeat(600)}` },
    { amount_unit: 'cents' },
    { currency_notation: 'any' },
    { body_limit_bytes: 0 },
    { body_limit_bytes: 2 ** 40 },
  ];
  for (const given of malformed) {
    const result = toolMappingInput.safeParse({ action_type: 'a', ...given });
    t.equal(
      result.success ? null : result.error.issues[0]?.path[0],
      Object.keys(given)[0],
      JSON.stringify(given).slice(0, 60),
    );
  }
  t.notOk(toolMappingInput.safeParse({ action_type: 'a', amounts: '/x' }).success, 'an unknown member');
});

t.test('rules that could never be read are reported when the mapping is saved', async (t) => {
  t.strictSame(fieldsOf({}), []);
  t.strictSame(fieldsOf({ amount: 'none' }, 'http.get:/payments'), []);
  t.strictSame(fieldsOf({}, 'http.get:/payments'), ['amount', 'currency', 'counterparty'], 'a GET has no body');
  t.strictSame(fieldsOf({ amount: 'path:sum' }, 'http.post:/pay/{id}'), ['amount']);
  t.strictSame(fieldsOf({ amount: 'path:sum' }, 'http.post:/pay/{sum}'), []);
  t.strictSame(fieldsOf({ currency: 'none' }), ['currency']);
  t.strictSame(fieldsOf({ currency: 'const:eur' }), ['currency']);
  t.strictSame(fieldsOf({ currency: 'const:eur', currency_notation: 'iso_lower' }), []);
  t.strictSame(fieldsOf({ amount: 'const:1e2' }), ['amount']);
  t.strictSame(fieldsOf({ amount: 'const:1.005' }), [], 'there are currencies with three decimals');
  t.strictSame(fieldsOf({ amount: 'const:1.005', currency: 'const:EUR' }), ['amount']);
  t.strictSame(fieldsOf({ amount: 'const:1.5', amount_unit: 'minor' }), ['amount']);
  t.strictSame(fieldsOf({ counterparty: 'const:a\u0000' }), ['counterparty']);
});
