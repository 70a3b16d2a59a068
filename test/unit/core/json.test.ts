import assert from 'node:assert/strict';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import fc from 'fast-check';
import t from 'tap';
import {
  compilePointer,
  isJsonNumber,
  isJsonObject,
  isJsonPointer,
  type JsonNode,
  JsonSyntaxProblem,
  jsonPointer,
  parseStrictJson,
} from '../../../core/json.ts';
import { JSON_DEPTH_MAX } from '../../../core/limits.ts';

const VECTORS = new URL('../../../../shared/vectors/json-parsing/', import.meta.url);

function parse(text: string): JsonNode {
  return parseStrictJson(Buffer.from(text));
}

/** The code of the refusal, or 'accepted'; any other error is thrown on. */
function outcome(bytes: Uint8Array): string {
  try {
    parseStrictJson(bytes);
    return 'accepted';
  } catch (error) {
    if (error instanceof JsonSyntaxProblem) return error.code;
    throw error;
  }
}

function outcomeOf(text: string): string {
  return outcome(Buffer.from(text));
}

/** The plain value of a node, with members as entries so that `__proto__` stays a name. */
function plain(node: JsonNode): unknown {
  if (isJsonNumber(node)) return Number(node.text);
  if (isJsonObject(node)) return Object.fromEntries([...node].map(([name, value]) => [name, plain(value)]));
  return Array.isArray(node) ? node.map(plain) : node;
}

/** What the standard leaves open (i_), and what it allows but the contract refuses, each with its reason. */
const DECIDED: Record<string, string> = {
  // Exactly 10^20: its double prints as the same number.
  'i_number_too_big_pos_int.json': 'accepted',
  // RFC 8259 only says that names SHOULD be unique; which one counts differs between parsers.
  'y_object_duplicated_key.json': 'duplicate_name',
  'y_object_duplicated_key_and_value.json': 'duplicate_name',
  // Underflow, overflow, or more digits than a double holds: another number would be forwarded than was checked.
  'i_number_double_huge_neg_exp.json': 'number_not_exact',
  'i_number_huge_exp.json': 'number_not_exact',
  'i_number_neg_int_huge_exp.json': 'number_not_exact',
  'i_number_pos_double_huge_exp.json': 'number_not_exact',
  'i_number_real_neg_overflow.json': 'number_not_exact',
  'i_number_real_pos_overflow.json': 'number_not_exact',
  'i_number_real_underflow.json': 'number_not_exact',
  'i_number_too_big_neg_int.json': 'number_not_exact',
  'i_number_very_big_negative_int.json': 'number_not_exact',
  // Escapes that are no Unicode text: parsers replace, keep or drop them.
  'i_object_key_lone_2nd_surrogate.json': 'lone_surrogate',
  'i_string_1st_surrogate_but_2nd_missing.json': 'lone_surrogate',
  'i_string_1st_valid_surrogate_2nd_invalid.json': 'lone_surrogate',
  'i_string_incomplete_surrogate_and_escape_valid.json': 'lone_surrogate',
  'i_string_incomplete_surrogate_pair.json': 'lone_surrogate',
  'i_string_incomplete_surrogates_escape_valid.json': 'lone_surrogate',
  'i_string_invalid_lonely_surrogate.json': 'lone_surrogate',
  'i_string_invalid_surrogate.json': 'lone_surrogate',
  'i_string_inverted_surrogates_U+1D11E.json': 'lone_surrogate',
  'i_string_lone_second_surrogate.json': 'lone_surrogate',
  // Bytes that are no UTF-8: truncated, overlong, surrogates, beyond U+10FFFF, other encodings.
  'i_string_UTF-16LE_with_BOM.json': 'invalid_utf8',
  'i_string_UTF-8_invalid_sequence.json': 'invalid_utf8',
  'i_string_UTF8_surrogate_U+D800.json': 'invalid_utf8',
  'i_string_invalid_utf-8.json': 'invalid_utf8',
  'i_string_iso_latin_1.json': 'invalid_utf8',
  'i_string_lone_utf8_continuation_byte.json': 'invalid_utf8',
  'i_string_not_in_unicode_range.json': 'invalid_utf8',
  'i_string_overlong_sequence_2_bytes.json': 'invalid_utf8',
  'i_string_overlong_sequence_6_bytes.json': 'invalid_utf8',
  'i_string_overlong_sequence_6_bytes_null.json': 'invalid_utf8',
  'i_string_truncated-utf-8.json': 'invalid_utf8',
  'i_string_utf16BE_no_BOM.json': 'invalid_utf8',
  'i_string_utf16LE_no_BOM.json': 'invalid_utf8',
  // Bounds and byte order marks (contract §7).
  'i_structure_500_nested_arrays.json': 'depth',
  'i_structure_UTF-8_BOM_empty_object.json': 'bom',
};

t.test(
  'JSONTestSuite: what must be read is read, what must not is refused, what is open is decided',
  { skip: existsSync(VECTORS) ? false : 'the test vectors are not beside this checkout' },
  async (t) => {
    const files = readdirSync(VECTORS).filter((name) => /^[yni]_/.test(name));
    t.ok(files.length > 300, 'all vectors are there');
    for (const file of files) {
      const got = outcome(readFileSync(new URL(encodeURIComponent(file), VECTORS)));
      const decided = DECIDED[file];
      if (decided !== undefined) t.equal(got, decided, file);
      else if (file.startsWith('n_')) t.not(got, 'accepted', file);
      else t.equal(got, 'accepted', `${file} must be listed as decided, or be accepted`);
    }
  },
);

t.test('a document is read as JSON.parse reads it', async (t) => {
  const property = fc.property(fc.jsonValue({ noUnicodeString: false }), fc.constantFrom(0, 1, 2), (value, indent) => {
    const text = JSON.stringify(value, null, indent);
    assert.deepEqual(plain(parse(text)), JSON.parse(text));
  });
  fc.assert(property, { numRuns: 300 });
  t.pass('held for 300 documents');
});

t.test(
  'a damaged document throws nothing but JsonSyntaxProblem, and is never read where JSON.parse refuses',
  async (t) => {
    const document = fc.jsonValue({ noUnicodeString: false }).map((value) => Buffer.from(JSON.stringify(value)));
    const property = fc.property(document, fc.nat(), fc.integer({ min: 0, max: 255 }), (bytes, at, byte) => {
      bytes[at % bytes.length] = byte;
      if (outcome(bytes) !== 'accepted') return;
      const decoded = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
      assert.deepEqual(plain(parseStrictJson(bytes)), JSON.parse(decoded));
    });
    fc.assert(property, { numRuns: 2000 });
    t.pass('held for 2000 damages');
  },
);

t.test('a member name may not occur twice, at any depth, however it is escaped', async (t) => {
  t.equal(outcomeOf('{"amount":1,"amount":2}'), 'duplicate_name');
  t.equal(outcomeOf('{"amount":1,"\\u0061mount":2}'), 'duplicate_name');
  t.equal(outcomeOf('[{"a":{"b":1,"c":[{"x":1,"x":1}]}}]'), 'duplicate_name');
  t.equal(outcomeOf('{"__proto__":1,"__proto__":2}'), 'duplicate_name');
  t.equal(outcomeOf('{"\\ud83d\\ude00":1,"😀":2}'), 'duplicate_name');
  t.equal(outcomeOf('{"a":{"a":{"a":1}}}'), 'accepted');
});

t.test('__proto__ and constructor are names like any other', async (t) => {
  const node = parse('{"__proto__":{"amount":1}}');
  t.equal(jsonPointer(node, '/amount'), undefined);
  t.strictSame(jsonPointer(node, '/__proto__/amount'), { kind: 'number', text: '1' });
  t.equal(jsonPointer(parse('{}'), '/constructor'), undefined);
});

t.test('numbers keep their source text, and only those pass that a double keeps', async (t) => {
  for (const text of [
    '0',
    '-0',
    '1.50',
    '9007199254740992',
    '1e2',
    '1E+2',
    '-1.0e-7',
    '0.30000000000000004',
    '5e-324',
  ]) {
    t.strictSame(parse(text), { kind: 'number', text });
  }
  for (const text of ['1e22', '0e999999999', '0.000e-400', '100000000000000000000.000', '1.7976931348623157e308']) {
    t.equal(outcomeOf(text), 'accepted', text);
  }
  const lost = ['9007199254740993', '1e400', '-1e400', '123.456e-789', '1e-400', '0.1234567890123456789', '2e-324'];
  for (const text of [...lost, '9007199254740992.5', '1152921504606846976']) {
    t.equal(outcomeOf(text), 'number_not_exact', text);
  }
});

t.test('a number is refused exactly when its decimal value changes through a double', async (t) => {
  const decimals = fc.tuple(fc.bigInt({ min: 0n, max: 10n ** 20n }), fc.integer({ min: -30, max: 30 }));
  const property = fc.property(decimals, ([digits, exponent]) => {
    const text = `${digits}e${exponent}`;
    const [mantissa = '', power = '0'] = Number(text).toExponential().split('e');
    const [whole = '', fraction = ''] = mantissa.split('.');
    const [shown, shownPower] = [BigInt(whole + fraction), Number(power) - fraction.length];
    const low = Math.min(exponent, shownPower);
    const same = digits * 10n ** BigInt(exponent - low) === shown * 10n ** BigInt(shownPower - low);
    return outcomeOf(text) === (same ? 'accepted' : 'number_not_exact');
  });
  fc.assert(property, { numRuns: 1000 });
  fc.assert(
    fc.property(fc.double({ noNaN: true, noDefaultInfinity: true }), (x) => outcomeOf(String(x)) === 'accepted'),
  );
  t.pass('held');
});

t.test('nesting is read up to its limit and refused above it', async (t) => {
  const nested = (levels: number) => '['.repeat(levels) + ']'.repeat(levels);
  t.equal(outcomeOf(nested(JSON_DEPTH_MAX)), 'accepted');
  t.equal(outcomeOf(nested(JSON_DEPTH_MAX + 1)), 'depth');
  t.equal(outcomeOf('{"a":'.repeat(JSON_DEPTH_MAX + 1)), 'depth');
  t.equal(outcomeOf('['.repeat(1_000_000)), 'depth');
  t.equal(outcomeOf(`[${'[],{},'.repeat(1000)}0]`), 'accepted', 'breadth is not depth');
});

t.test('a byte order mark, trailing data and an empty document are refused by their names', async (t) => {
  t.equal(outcomeOf('\ufeff{}'), 'bom');
  t.equal(outcomeOf('{} {}'), 'trailing_data');
  t.equal(outcomeOf('{}\0'), 'trailing_data');
  t.equal(outcomeOf('1 2'), 'trailing_data');
  t.equal(outcomeOf(''), 'syntax');
  t.equal(outcomeOf(' '), 'syntax');
  t.equal(outcomeOf('{}\ufeff'), 'trailing_data');
  t.equal(outcomeOf('NaN'), 'syntax');
  t.equal(outcomeOf('-'), 'syntax');
});

t.test('a view into a larger buffer is read, and nothing beside it', async (t) => {
  const large = Buffer.from('xx{"a":1}yy');
  t.strictSame(plain(parseStrictJson(large.subarray(2, 9))), { a: 1 });
  t.strictSame(plain(parseStrictJson(new Uint8Array(large).subarray(2, 9))), { a: 1 });
});

t.test('a message repeats nothing of a body but a bounded name in printable ASCII', async (t) => {
  const secret = 'hunter2-hunter2';
  for (const text of [`{"a":"${secret}"`, `["${secret}" x]`, `{"p":"${secret}","a":1,"a":2}`, `"${secret}`]) {
    t.throws(() => parse(text), { name: 'JsonSyntaxProblem', message: /^(?!.*hunter2)/s });
  }
  const name = `\\u001b[31m\u202e${'x'.repeat(500)}`;
  t.throws(() => parse(`{"${name}":1,"${name}":2}`), { message: /^[ -~]{1,120}$/ });
  t.throws(() => parse('{"ab":1,"ab":2}'), { code: 'duplicate_name', offset: 8, message: /"ab" occurs twice/ });
});

t.test('JSON Pointers lead where RFC 6901 §5 says', async (t) => {
  const node = parse('{"foo":["bar","baz"],"":0,"a/b":1,"c%d":2,"e^f":3,"g|h":4,"i\\\\j":5,"k\\"l":6," ":7,"m~n":8}');
  t.equal(jsonPointer(node, ''), node);
  t.equal(jsonPointer(node, '/foo/0'), 'bar');
  const expected: [string, number][] = [
    ['/', 0],
    ['/a~1b', 1],
    ['/c%d', 2],
    ['/e^f', 3],
    ['/g|h', 4],
    ['/i\\j', 5],
    ['/k"l', 6],
    ['/ ', 7],
    ['/m~0n', 8],
  ];
  for (const [pointer, value] of expected) {
    t.strictSame(jsonPointer(node, pointer), { kind: 'number', text: String(value) }, pointer);
    t.strictSame(jsonPointer(node, compilePointer(pointer)), { kind: 'number', text: String(value) }, pointer);
  }
  for (const pointer of [
    '/foo/00',
    '/foo/-',
    '/foo/2',
    '/foo/1e0',
    '/foo/ 1',
    '/foo/-1',
    '/foo/0/x',
    '/none/x',
    '/foo/length',
  ]) {
    t.equal(jsonPointer(node, pointer), undefined, pointer);
  }
  t.equal(jsonPointer(parse('{"~1":1}'), '/~01') === undefined, false, '~01 is ~1, not /');
});

t.test('what is not a JSON Pointer is refused', async (t) => {
  for (const text of ['a', 'a/b', '/~', '/~2', '/a~', '#/a', ' /a']) {
    t.notOk(isJsonPointer(text), text);
    t.throws(() => compilePointer(text), RangeError);
  }
  for (const text of ['', '/', '//', '/a/b', '/~0~1', '/ä/\n']) t.ok(isJsonPointer(text), text);
});
