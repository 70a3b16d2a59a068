import assert from 'node:assert/strict';
import { METHODS } from 'node:http';
import fc from 'fast-check';
import t from 'tap';
import { FormSyntaxProblem } from '../../../core/form.ts';
import { TEMPLATE_PARAMS_MAX, TOOL_PATH_MAX_BYTES, TOOL_PATH_SEGMENTS_MAX } from '../../../core/limits.ts';
import {
  candidateKeys,
  GATEWAY_METHODS,
  isGatewayMethod,
  parseToolPattern,
  plainSpelling,
  readQuery,
  readToolPath,
  type ToolPattern,
  templateParams,
  toolName,
} from '../../../core/tool-name.ts';

function pathOutcome(path: string): string {
  const reading = readToolPath(path);
  return reading.ok ? 'accepted' : reading.problem;
}

function queryOutcome(query: string): string {
  const reading = readQuery(query);
  return reading.ok ? 'accepted' : reading.problem;
}

function pattern(text: string): ToolPattern {
  const reading = parseToolPattern(text);
  if (!reading.ok) throw new Error(reading.message);
  return reading.pattern;
}

t.test('paths in their one canonical spelling are accepted as they are', async (t) => {
  const paths = [
    '',
    'payments',
    'v1/payment_intents',
    'a/b.c/~d/-_',
    "a!$&'()*+,=:@b",
    'orders/12:cancel',
    '...',
    '.well-known',
  ];
  for (const path of [
    ...paths,
    'a%20b',
    '%C3%BC',
    '%F0%9F%98%80',
    '100%25',
    'a%7Cb',
    'x%40y',
    'a%25zz',
    '%7B%7D',
    '..a',
  ]) {
    t.strictSame(readToolPath(path), { ok: true, path });
  }
});

const REFUSED_PATHS: [string, string][] = [
  ['dot_segment', '..'],
  ['dot_segment', '.'],
  ['dot_segment', 'pay/../admin'],
  ['dot_segment', 'pay/.'],
  ['not_canonical_encoding', 'pay/%2e%2e/admin'],
  ['not_canonical_encoding', 'pay/%2E%2E/admin'],
  ['not_canonical_encoding', 'pay/.%2e'],
  ['not_canonical_encoding', '%41'],
  ['not_canonical_encoding', '%7E'],
  ['not_canonical_encoding', '%c3%bc'],
  ['not_canonical_encoding', '%3a'],
  ['empty_segment', 'a//b'],
  ['empty_segment', '/a'],
  ['empty_segment', 'a/'],
  ['empty_segment', '/'],
  ['encoded_separator', 'a%2fb'],
  ['encoded_separator', 'a%2Fb'],
  ['encoded_separator', 'a%5cb'],
  ['encoded_separator', 'a%5Cb'],
  ['control_character', 'a%00'],
  ['control_character', 'a%0d%0a'],
  ['control_character', 'a%7F'],
  ['control_character', 'a%C2%85'],
  ['control_character', 'a\tb'],
  ['control_character', 'a\x7f'],
  ['backslash', 'a\\b'],
  ['path_parameter', 'a;x=1'],
  ['path_parameter', 'a%3Bx'],
  ['path_parameter', '..;/admin'],
  ['not_ascii', 'a\xfc'],
  ['not_ascii', 'ü'],
  ['invalid_percent_encoding', 'a%'],
  ['invalid_percent_encoding', 'a%4'],
  ['invalid_percent_encoding', 'a%zz'],
  ['invalid_percent_encoding', 'a%u002e'],
  ['double_encoding', '%252e%252e'],
  ['double_encoding', 'a%252Fb'],
  ['invalid_utf8', '%FF'],
  ['invalid_utf8', '%C0%AE'],
  ['invalid_utf8', '%ED%A0%80'],
  ['invalid_utf8', '%C3/%BC'],
  ['too_long', 'a'.repeat(TOOL_PATH_MAX_BYTES + 1)],
  [
    'too_many_segments',
    Array(TOOL_PATH_SEGMENTS_MAX + 1)
      .fill('a')
      .join('/'),
  ],
];

t.test('ambiguous paths are refused, each by its reason', async (t) => {
  for (const [problem, path] of REFUSED_PATHS) t.equal(pathOutcome(path), problem, JSON.stringify(path.slice(0, 40)));
  for (const character of ' "<>`{}|^[]#?') t.equal(pathOutcome(`a${character}b`), 'character_not_allowed', character);
  t.equal(pathOutcome('a'.repeat(TOOL_PATH_MAX_BYTES)), 'accepted');
  t.equal(pathOutcome(Array(TOOL_PATH_SEGMENTS_MAX).fill('a').join('/')), 'accepted');
});

const pathText = fc.oneof(
  fc.stringMatching(/^(?:[a-z.%/;:@~]|%[0-9A-Fa-f]{2}|%2[Ee5]|\.\.\/){0,12}$/),
  fc.string({ unit: fc.nat(255).map((unit) => String.fromCharCode(unit)), maxLength: 12 }),
);

t.test('an accepted path goes through new URL() byte for byte, and so does its name', async (t) => {
  let accepted = 0;
  const property = fc.property(pathText, (path) => {
    if (pathOutcome(path) !== 'accepted') return;
    accepted += 1;
    const plain = plainSpelling(path);
    for (const spelling of [path, plain]) {
      const url = new URL(`http://target.example/${spelling}?q`);
      assert.equal(url.pathname, `/${spelling}`);
      assert.equal(url.host + url.hash, 'target.example');
    }
    assert.equal(pathOutcome(plain), 'accepted');
    assert.equal(plainSpelling(plain), plain);
    assert.equal(decodeURIComponent(plain), decodeURIComponent(path));
  });
  fc.assert(property, { numRuns: 20_000 });
  t.ok(accepted > 500, 'enough were accepted');
});

t.test('no two accepted paths that decode alike have different names', async (t) => {
  const reserved = "!$&'()*+,=:@%20%25%7C%3F%23ü~a";
  const one = fc.constantFrom(...Array.from(reserved.replaceAll(/%../g, '')), '%20', '%25', '%7C', '%3F', '%23');
  const property = fc.property(fc.array(one, { minLength: 1, maxLength: 6 }), (parts) => {
    const percent = (text: string) =>
      Array.from(Buffer.from(text), (byte) => `%${byte.toString(16).toUpperCase().padStart(2, '0')}`).join('');
    const plain = parts.map((part) => (part === 'ü' ? '%C3%BC' : part)).join('');
    const escaped = parts.map((part) => (/^[!$&'()*+,=:@ü]$/.test(part) ? percent(part) : part)).join('');
    if (pathOutcome(plain) !== 'accepted' || pathOutcome(escaped) !== 'accepted') return;
    assert.equal(toolName('POST', plain), toolName('POST', escaped));
  });
  fc.assert(property, { numRuns: 2000 });
  t.equal(toolName('POST', 'pay%3Anow'), 'http.post:/pay:now');
});

t.test('methods are an exact list without CONNECT and TRACE, all of which Node delivers', async (t) => {
  for (const method of GATEWAY_METHODS) t.ok(METHODS.includes(method) && isGatewayMethod(method), method);
  for (const method of ['CONNECT', 'TRACE', 'post', 'Post', 'PROPFIND', 'FOO', '', 'POST '])
    t.notOk(isGatewayMethod(method));
  t.equal(toolName('POST', 'payments'), 'http.post:/payments');
  t.equal(toolName('GET', ''), 'http.get:/');
});

t.test('queries that stay as they are through new URL() are accepted', async (t) => {
  for (const query of [
    '',
    'a=1',
    'a',
    'a=1&a=2',
    'expand[]=x',
    'q=%22x%22',
    'f={a|b}^`',
    'a=1&&b',
    'filter=a;b',
    '%C3%BC=1',
    'x=?/',
  ]) {
    t.equal(queryOutcome(query), 'accepted', query);
  }
  const text = fc.string({ unit: fc.nat(255).map((unit) => String.fromCharCode(unit)), maxLength: 10 });
  const property = fc.property(fc.oneof(text, fc.stringMatching(/^[a-z&=%0-9A-F;+]{0,12}$/)), (query) => {
    if (queryOutcome(query) !== 'accepted') return;
    assert.equal(new URL(`http://target.example/p?${query}`).search, query === '' ? '' : `?${query}`);
  });
  fc.assert(property, { numRuns: 5000 });
});

t.test('ambiguous queries are refused, each by its reason', async (t) => {
  for (const query of ['a b', 'a"', 'a#b', "a'", 'a<', 'a>', 'a\\b', 'a\x00', 'a\n', 'a\xfc', 'a\x7f']) {
    t.equal(queryOutcome(query), 'character_not_allowed', JSON.stringify(query));
  }
  for (const query of ['%', '%4', '%zz', '%FF', '%C0%AF'])
    t.equal(queryOutcome(query), 'invalid_percent_encoding', query);
  t.equal(queryOutcome('a'.repeat(8193)), 'too_long');
});

t.test('a query cannot override the method', async (t) => {
  const overrides = ['_method=DELETE', 'a=1&_METHOD=put', '%5Fmethod=x', '_method', 'a;_method=x', '+_method=x'];
  for (const query of [...overrides, 'X-HTTP-Method-Override=PUT', '$httpMethod=PUT']) {
    t.equal(queryOutcome(query), 'method_override', query);
  }
  for (const query of ['payment_method=card', 'a=_method', 'method=x']) t.equal(queryOutcome(query), 'accepted', query);
});

t.test('parameters of a query are read as strictly as a form, when they are read', async (t) => {
  const good = readQuery('a=1&b=x+y');
  t.strictSame(good.ok && [...good.params.fields()], [
    ['a', '1'],
    ['b', 'x y'],
  ]);
  for (const query of ['a=1&a=2', 'a=1&%61=2', 'a=1;a=2', 'a&b=1', 'a=1&&b=2']) {
    const reading = readQuery(query);
    t.throws(() => reading.ok && reading.params.fields(), FormSyntaxProblem, query);
  }
});

t.test('a pattern is an exact name or a template whose key erases its parameters', async (t) => {
  t.match(pattern('http.post:/payments'), { method: 'POST', key: 'http.post:/payments', shape: null, params: [] });
  t.match(pattern('http.post:/orders/{id}/refund'), {
    key: 'http.post:/orders/{}/refund',
    shape: 'lpl',
    params: [{ name: 'id', segment: 1 }],
  });
  t.match(pattern('http.get:/{a}'), { key: 'http.get:/{}', shape: 'p' });
  t.match(pattern('http.get:/'), { key: 'http.get:/', shape: null });
  t.equal(pattern('http.get:/a%3Ab/{x}').key, 'http.get:/a:b/{}');
});

t.test('what could never match a request is not a pattern', async (t) => {
  const refused = ['', 'payments', 'http.post:payments', 'http.POST:/a', 'http.trace:/a', 'http.connect:/a', 'post:/a'];
  const paths = [
    '/a/',
    '//a',
    '/../a',
    '/a b',
    '/ü',
    '/{id',
    '/x{id}',
    '/{id}x',
    '/{}',
    '/{Id}',
    '/{1}',
    '/{a}/{a}',
    '/%7b',
  ];
  for (const text of [...refused, ...paths.map((path) => `http.post:${path}`)]) {
    const reading = parseToolPattern(text);
    t.notOk(reading.ok, text);
    if (!reading.ok) t.match(reading.message, /\.$/, 'the message is a sentence');
  }
  const many = (count: number) => `http.post:/${Array.from({ length: count }, (_, i) => `{p${i}}`).join('/')}`;
  t.ok(parseToolPattern(many(TEMPLATE_PARAMS_MAX)).ok);
  t.notOk(parseToolPattern(many(TEMPLATE_PARAMS_MAX + 1)).ok);
});

t.test('candidates come most specific first: exact, fewer parameters, leftmost literal', async (t) => {
  t.strictSame(candidateKeys('http.post:/a/b/c', ['ppp', 'pll', 'lpl', 'lp', 'llp', 'plp', 'llll']), [
    'http.post:/a/b/c',
    'http.post:/a/b/{}',
    'http.post:/a/{}/c',
    'http.post:/{}/b/c',
    'http.post:/{}/b/{}',
    'http.post:/{}/{}/{}',
  ]);
  t.strictSame(candidateKeys('http.post:/a', []), ['http.post:/a']);
  t.strictSame(candidateKeys('http.get:/', ['p', 'l']), ['http.get:/'], 'the root matches no template');
});

t.test('a template matches exactly the paths it describes, and gives their decoded values', async (t) => {
  const segment = fc.constantFrom('a', 'b', 'x%20y', 'a:b', 'a%3Ab', '{p}');
  const property = fc.property(
    fc.array(segment, { minLength: 1, maxLength: 4 }),
    fc.array(segment, { maxLength: 4 }),
    (template, rest) => {
      const text = template.map((part, i) => (part === '{p}' ? `{p${i}}` : part)).join('/');
      const of = pattern(`http.post:/${text}`);
      const path = rest.map((part) => (part === '{p}' ? 'v%20w' : part)).join('/');
      const matches =
        template.length === rest.length &&
        template.every((part, i) => part === '{p}' || plainSpelling(part) === plainSpelling(path.split('/')[i] ?? ''));
      const keys = candidateKeys(toolName('POST', path), of.shape === null ? [] : [of.shape]);
      assert.equal(keys.includes(of.key), matches);
      if (!matches) return;
      const expected = of.params.map(({ name, segment: at }) => [name, decodeURIComponent(path.split('/')[at] ?? '')]);
      assert.deepEqual([...templateParams(of, path)], expected);
    },
  );
  fc.assert(property, { numRuns: 3000 });
  t.strictSame([...templateParams(pattern('http.get:/u/{id}'), 'u/a%40b')], [['id', 'a@b']]);
});

t.test('the key of a template is never the name of a tool', async (t) => {
  const property = fc.property(pathText, (path) => {
    if (pathOutcome(path) === 'accepted') assert.ok(!/[{}]/.test(toolName('POST', path)));
  });
  fc.assert(property, { numRuns: 2000 });
  t.match(pattern('http.post:/{a}').key, /\{\}/);
});
