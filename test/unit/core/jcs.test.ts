import assert from 'node:assert/strict';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import fc from 'fast-check';
import t from 'tap';
import { canonicalize, JcsProblem, type JsonValue } from '../../../core/jcs.ts';

const VECTORS = new URL('../../../../shared/vectors/jcs/', import.meta.url);

function codeOf(value: unknown): string {
  try {
    canonicalize(value as JsonValue);
    return 'accepted';
  } catch (error) {
    if (error instanceof JcsProblem) return error.code;
    throw error;
  }
}

t.test(
  "RFC 8785's own test data comes out byte for byte",
  { skip: existsSync(VECTORS) ? false : 'the test vectors are not beside this checkout' },
  async (t) => {
    const files = readdirSync(new URL('input/', VECTORS));
    t.ok(files.length >= 6, 'all vectors are there');
    for (const file of files) {
      const value = JSON.parse(readFileSync(new URL(`input/${file}`, VECTORS), 'utf8')) as JsonValue;
      t.equal(canonicalize(value), readFileSync(new URL(`output/${file}`, VECTORS), 'utf8').trimEnd(), file);
      const hex = readFileSync(new URL(`outhex/${file.replace('.json', '.txt')}`, VECTORS), 'utf8');
      t.equal(Buffer.from(canonicalize(value)).toString('hex'), hex.replaceAll(/\s/g, ''), file);
    }
  },
);

t.test('members are ordered by UTF-16 code units', async (t) => {
  t.equal(canonicalize({ '\ufb33': 1, '😀': 2, b: 3, B: 4, '': 5 }), '{"":5,"B":4,"b":3,"😀":2,"\ufb33":1}');
  t.equal(canonicalize(JSON.parse('{"__proto__":1,"10":2,"9":3}') as JsonValue), '{"10":2,"9":3,"__proto__":1}');
});

t.test('numbers are written as RFC 8785 appendix B has them', async (t) => {
  const cases: [number, string][] = [
    [-0, '0'],
    [5e-324, '5e-324'],
    [1.7976931348623157e308, '1.7976931348623157e+308'],
    [9007199254740992, '9007199254740992'],
    [1e21, '1e+21'],
    [0.000001, '0.000001'],
    [1e-7, '1e-7'],
    [333333333.3333333, '333333333.3333333'],
  ];
  for (const [number, text] of cases) t.equal(canonicalize(number), text);
});

t.test('the canonical text means the same value and is its own canonical form', async (t) => {
  const property = fc.property(fc.jsonValue({ maxDepth: 5, noUnicodeString: false }), (value) => {
    const text = canonicalize(value as JsonValue);
    const back = JSON.parse(text) as JsonValue;
    assert.deepEqual(back, JSON.parse(JSON.stringify(value)));
    assert.equal(canonicalize(back), text);
  });
  fc.assert(property, { numRuns: 300 });
  t.pass('held');
});

t.test('the order in which members were written does not matter', async (t) => {
  const members = fc.uniqueArray(fc.tuple(fc.string({ unit: 'grapheme' }), fc.integer()), {
    selector: ([name]) => name,
  });
  const property = fc.property(members, (entries) => {
    assert.equal(canonicalize(Object.fromEntries(entries)), canonicalize(Object.fromEntries(entries.toReversed())));
  });
  fc.assert(property);
  t.pass('held');
});

t.test('what JSON cannot say has no canonical form', async (t) => {
  t.equal(codeOf(Number.NaN), 'number_not_finite');
  t.equal(codeOf({ a: [Number.POSITIVE_INFINITY] }), 'number_not_finite');
  t.equal(codeOf('\ud800'), 'lone_surrogate');
  t.equal(codeOf({ '\udfff': 1 }), 'lone_surrogate');
  for (const value of [undefined, () => 1, 1n, Symbol('x'), new Date(), new Map(), { a: undefined }, [undefined]]) {
    t.equal(codeOf(value), 'not_json');
  }
  const cycle: Record<string, unknown> = {};
  cycle['self'] = cycle;
  t.equal(codeOf(cycle), 'depth');
  t.ok(new JcsProblem('depth', '') instanceof TypeError);
});
