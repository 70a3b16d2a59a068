import fc from 'fast-check';
import t from 'tap';
import { OPENAPI_MAX_CHARACTERS, OpenApiProblem, openApiParser } from '../../../core/openapi-text.ts';
import { OPENAPI_OPERATIONS_MAX, readOpenApi, serverPath, withAction } from '../../../core/openapi-tools.ts';
import { requestShape } from '../../../core/request-shape.ts';
import { checkMapping } from '../../../core/tool-mapping.ts';
import { parseToolPattern } from '../../../core/tool-name.ts';

const parseOpenApiText = await openApiParser();

const OPTIONS = { basePath: '', mandate: { scope: ['payments.*'], currency: 'EUR' } };

const SHOP = `
openapi: 3.1.0
info: {title: Shop, version: '1'}
servers: [{url: 'https://api.example.com/v1/'}]
paths:
  /payments:
    post:
      summary: Pay somebody
      requestBody:
        content:
          application/json:
            schema: {$ref: '#/components/schemas/Payment'}
    get:
      parameters: [{name: limit, in: query}, {name: X-Trace, in: header}]
  /orders/{orderId}/refund:
    parameters: [{$ref: '#/components/parameters/Dry'}]
    post:
      x-mandate-action-type: payments.refund
      requestBody:
        content:
          application/x-www-form-urlencoded:
            schema:
              type: object
              properties:
                amount: {type: integer}
                target: {type: object, properties: {iban: {type: string}}}
  /files/{name}.{format}:
    get: {}
  /trailing/:
    get: {}
  /orders/{other}/refund:
    post: {}
components:
  parameters:
    Dry: {name: dry_run, in: query}
  schemas:
    Money:
      type: object
      properties: {value: {type: number}, currency: {type: [string, 'null']}}
    Base: {type: object, properties: {note: {type: string}}}
    Payment:
      allOf:
        - $ref: '#/components/schemas/Base'
        - properties:
            amount: {$ref: '#/components/schemas/Money'}
            payee: {oneOf: [{type: string}, {type: object}]}
            lines: {type: array, items: {$ref: '#/components/schemas/Money'}}
`;

const read = (text: string, options = OPTIONS) => readOpenApi(parseOpenApiText(text), options);

t.test('the operations of a document become tools with the fields that their schemas name', async (t) => {
  const { title, tools, skipped } = read(SHOP);
  t.equal(title, 'Shop');
  t.same(
    tools.map(({ name, declared, suggestion }) => [name, declared, suggestion.mapping.action_type]),
    [
      ['http.get:/payments', false, 'payments.read'],
      ['http.post:/payments', false, 'payments.create'],
      ['http.post:/orders/{order_id}/refund', true, 'payments.refund'],
    ],
  );
  const [list, pay, refund] = tools;
  t.same(list?.shape, { body: 'none', fields: [], query: ['limit'], more: false });
  t.same(pay?.shape.fields, [
    { at: '/note', type: 'string' },
    { at: '/amount', type: 'object' },
    { at: '/payee', type: 'mixed' },
    { at: '/lines', type: 'array' },
    { at: '/amount/value', type: 'number' },
    { at: '/amount/currency', type: 'string' },
    { at: '/lines/0', type: 'object' },
    { at: '/lines/0/value', type: 'number' },
    { at: '/lines/0/currency', type: 'string' },
  ]);
  t.match(pay?.suggestion.mapping, { amount: '/amount/value', currency: '/amount/currency', amount_unit: 'major' });
  t.match(refund?.shape, { body: 'form', query: ['dry_run'] });
  t.match(refund?.suggestion.mapping, { amount: '/amount', counterparty: '/target[iban]', currency: 'const:EUR' });
  t.same(
    skipped.map(({ operation }) => operation),
    ['GET /files/{name}.{format}', 'GET /trailing/', 'POST /orders/{other}/refund'],
  );
  for (const { reason } of skipped) t.match(reason, /\.$/);
  t.equal(serverPath(parseOpenApiText(SHOP)), '/v1');
  t.equal(read(SHOP, { ...OPTIONS, basePath: '/v1' }).tools[0]?.name, 'http.get:/v1/payments');
  t.match(withAction(pay!.suggestion, 'a.b').mapping, { action_type: 'a.b', amount: '/amount/value' });
});

t.test('JSON and YAML of one document are read alike', async (t) => {
  t.same(read(JSON.stringify(parseOpenApiText(SHOP))), read(SHOP));
});

t.test('what is no OpenAPI 3 document is refused in words that say what it is', async (t) => {
  const deep = `${'['.repeat(200_000)}`;
  const uses = Array.from({ length: 30 }, (_, i) => `b${i}: &b${i} [${'*a, '.repeat(9)}*a]`);
  const bombs = `a: &a [x, x]\n${uses.join('\n')}`;
  const cases: [string, RegExp][] = [
    ['', /no member "openapi"/],
    ['null', /no member "openapi"/],
    ['[]', /no member "openapi"/],
    ['{"swagger": "2.0"}', /Swagger 2\.0.*convert/],
    ['{"openapi": "4.0.0"}', /another one/],
    ['{"openapi": 3.1}', /no member "openapi"/],
    ['{"__proto__": {"openapi": "3.1.0"}}', /no member "openapi"/],
    ['{', /not JSON/],
    ['a: [', /not YAML/],
    [`{"a":${deep}`, /not JSON/],
    [deep, /not YAML/],
    [bombs, /not YAML/],
    ['x'.repeat(OPENAPI_MAX_CHARACTERS + 1), /split it/],
  ];
  for (const [text, message] of cases)
    t.throws(() => read(text), { name: 'OpenApiProblem', message }, text.slice(0, 40));
  t.ok(new OpenApiProblem('x') instanceof Error);
});

t.test('documents that refer in circles, nest without end or never stop are read in bounded work', async (t) => {
  const schemas = {
    Self: { $ref: '#/components/schemas/Self' },
    Ring: { properties: { amount: { type: 'number' }, again: { $ref: '#/components/schemas/Ring' } } },
    Double: { allOf: [{ $ref: '#/components/schemas/Double' }, { $ref: '#/components/schemas/Double' }] },
    Wide: { properties: Object.fromEntries(Array.from({ length: 50_000 }, (_, i) => [`f${i}`, { type: 'string' }])) },
    Away: { $ref: 'https://example.com/schema.json' },
    Nowhere: { $ref: '#/components/%E0%A4%A/x' },
  };
  const body = (name: string) => ({
    requestBody: { content: { 'application/json': { schema: { $ref: `#/components/schemas/${name}` } } } },
  });
  const paths = Object.fromEntries(
    Object.keys(schemas).map((name) => [`/${name.toLowerCase()}`, { post: body(name) }]),
  );
  const { tools } = readOpenApi({ openapi: '3.0.3', paths, components: { schemas } }, OPTIONS);
  t.equal(tools.length, Object.keys(schemas).length);
  for (const { shape } of tools) t.ok(requestShape.safeParse(shape).success);
  const of = (name: string) => tools.find((tool) => tool.name === `http.post:/${name}`);
  t.match(of('ring')?.suggestion.mapping, { amount: '/amount' });
  t.equal(of('wide')?.shape.more, true);
  t.same(of('away')?.shape.fields, []);
  const many = Object.fromEntries(
    Array.from({ length: OPENAPI_OPERATIONS_MAX + 10 }, (_, i) => [`/p${i}`, { post: body('Wide') }]),
  );
  const huge = readOpenApi({ openapi: '3.1.0', paths: many, components: { schemas } }, OPTIONS);
  t.equal(huge.tools.length, OPENAPI_OPERATIONS_MAX);
  t.match(huge.skipped, [{ reason: /split it/ }]);
  const ring: Record<string, unknown> = { openapi: '3.1.0', paths: {} };
  ring['paths'] = ring;
  t.same(readOpenApi(ring, OPTIONS).tools, [], 'YAML can make an object that holds itself');
});

t.test('a small document that multiplies itself is read in bounded work', async (t) => {
  const pay = { requestBody: { content: { 'application/json': { schema: { $ref: '#/s' } } } } };
  const paths = Object.fromEntries(Array.from({ length: 1_000 }, (_, i) => [`/p${i}`, { post: pay }]));
  const far = { $ref: `#${'/a'.repeat(400)}` };
  let deep: object = far;
  for (let i = 0; i < 399; i++) deep = { a: deep };
  const schemas = {
    itself: { allOf: Array.from({ length: 2_000 }, () => ({ $ref: '#/s' })) },
    far: { allOf: Array.from({ length: 2_000 }, () => far) },
    types: { type: Array.from({ length: 100_000 }, () => ({ toString: 1 })) },
  };
  for (const [name, s] of Object.entries(schemas)) {
    const { tools } = readOpenApi({ openapi: '3.1.0', paths, s, a: deep }, OPTIONS);
    t.equal(tools.length, 1_000, name);
    t.equal(tools.at(-1)?.shape.body, 'json', name);
  }
  for (const part of ['{a}', '{a_ID}']) {
    const path = `/${Array.from({ length: 100_000 }, () => part).join('/')}`;
    t.match(readOpenApi({ openapi: '3.1.0', paths: { [path]: { get: {} } } }, OPTIONS).skipped, [
      { reason: /32 segments/ },
    ]);
  }
  const many = Array.from({ length: 100_000 }, (_, i) => `{a${i}}`).join('/');
  t.match(parseToolPattern(`http.get:/${many}`), { ok: false, message: /at most 8/ });
});

t.test(
  'schemas are read of the operations that are asked for only, each once, and no further than allowed',
  async (t) => {
    let looks = 0;
    const part = { properties: { amount: { type: 'number' } } };
    const counted = () => ({
      get allOf() {
        looks += 1;
        return Array.from({ length: 1_000 }, () => part);
      },
    });
    const s = { shared: counted(), own: counted(), far: counted() };
    const post = (name: string) => ({
      post: { requestBody: { content: { 'application/json': { schema: { $ref: `#/s/${name}` } } } } },
    });
    const paths = { '/a': post('shared'), '/b': post('shared'), '/c': post('own'), '/d': post('far') };
    const { tools } = readOpenApi({ openapi: '3.1.0', paths, s }, { ...OPTIONS, membersMax: 9_000 });
    t.same([tools.length, looks], [4, 0]);
    const amounts = tools.map(({ suggestion }) => suggestion.mapping.amount);
    t.same(amounts.slice(0, 3), ['/amount', '/amount', '/amount']);
    t.same(looks, 3);
    t.match(tools[3]?.shape, { fields: [], more: true });
  },
);

t.test('whatever a document says, each tool has a name and a mapping that can be saved', async (t) => {
  const name = fc.oneof(
    fc.constantFrom('amount', '{id}', '{petId}', '__proto__', 'currency', 'constructor'),
    fc.string({ maxLength: 12 }),
  );
  const schema = fc.letrec((tie) => ({
    node: fc.oneof(
      { maxDepth: 4 },
      fc.anything(),
      fc.record({
        type: fc.constantFrom('number', 'string', 'object', 7),
        properties: fc.dictionary(name, tie('node')),
      }),
      fc.record({ allOf: fc.array(tie('node'), { maxLength: 2 }) }),
      fc.constantFrom({ $ref: '#/paths' }, { $ref: '#' }, { $ref: '#/' }, { $ref: '../x' }),
    ),
  })).node;
  const operation = fc.oneof(
    fc.anything(),
    fc.record({
      summary: fc.anything(),
      parameters: fc.anything(),
      requestBody: fc.record({ content: fc.record({ 'application/json': fc.record({ schema }) }) }),
      'x-mandate-action-type': fc.anything(),
    }),
  );
  const paths = fc.dictionary(
    fc.array(name, { maxLength: 4 }).map((parts) => `/${parts.join('/')}`),
    fc.oneof(fc.anything(), fc.record({ post: operation, get: operation })),
  );
  fc.assert(
    fc.property(paths, (given) => {
      for (const tool of readOpenApi({ openapi: '3.1.0', paths: given }, OPTIONS).tools) {
        const reading = parseToolPattern(tool.name);
        t.ok(reading.ok && checkMapping(tool.suggestion.mapping, reading.pattern).length === 0, tool.name);
        t.ok(requestShape.safeParse(tool.shape).success);
      }
    }),
    { numRuns: 500 },
  );
});
