import assert from 'node:assert/strict';
import fc from 'fast-check';
import t from 'tap';
import { FormSyntaxProblem, parseStrictForm } from '../../../core/form.ts';
import { FORM_FIELDS_MAX, FORM_NAME_PARTS_MAX } from '../../../core/limits.ts';

function outcome(text: string | Uint8Array): string {
  try {
    parseStrictForm(Buffer.from(text));
    return 'accepted';
  } catch (error) {
    if (error instanceof FormSyntaxProblem) return error.code;
    throw error;
  }
}

function parse(text: string): [string, string][] {
  return [...parseStrictForm(Buffer.from(text))];
}

t.test('fields are read with their names as they are', async (t) => {
  t.strictSame(parse('amount=2000&currency=eur&payment_method_types[0]=card&transfer_data[amount]=5&items[]=1'), [
    ['amount', '2000'],
    ['currency', 'eur'],
    ['payment_method_types[0]', 'card'],
    ['transfer_data[amount]', '5'],
    ['items[]', '1'],
  ]);
  t.strictSame(parse('a=b+c%20d&%C3%BC=%F0%9F%98%80&e=&f=x=y'), [
    ['a', 'b c d'],
    ['ü', '😀'],
    ['e', ''],
    ['f', 'x=y'],
  ]);
  t.strictSame(parse(''), []);
  t.strictSame(parse('a%5Bb%5D=1'), [['a[b]', '1']]);
});

const REFUSED: [string, string, string][] = [
  ['duplicate_name', 'amount=1&amount=2', 'a name twice'],
  ['duplicate_name', 'amount=1&%61mount=2', 'a name twice after decoding'],
  ['duplicate_name', 'items[]=1&items[]=2', 'a list twice'],
  ['duplicate_name', '__proto__=1&__proto__=2', '__proto__ is a name like any other'],
  ['empty_pair', 'a=1&&b=2', 'an empty pair'],
  ['empty_pair', 'a=1&', 'an empty pair at the end'],
  ['empty_pair', '&a=1', 'an empty pair at the start'],
  ['no_value', 'a', 'no equals sign'],
  ['no_value', 'a&b=1', 'no equals sign before the next pair'],
  ['no_name', '=1', 'no name'],
  ['raw_character', 'a=1;amount=2', 'a raw semicolon, a separator to some'],
  ['raw_character', 'a=1\n', 'a line feed'],
  ['raw_character', 'a=b c', 'a raw space'],
  ['invalid_encoding', 'a=%', 'a lone percent sign'],
  ['invalid_encoding', 'a=%4', 'half an escape'],
  ['invalid_encoding', 'a=%zz', 'an escape that is not hexadecimal'],
  ['invalid_encoding', 'a=%u0061', 'the escape of old scripts'],
  ['invalid_encoding', 'a=%FF', 'an escape that is not UTF-8'],
  ['invalid_encoding', 'a=%C0%AF', 'an overlong escape'],
  ['invalid_encoding', 'a=%ED%A0%80', 'an escaped surrogate'],
  ['nul', 'a=1%002', 'NUL in a value: it ends the text for some'],
  ['invalid_name', 'a%00=1', 'NUL in a name'],
  ['invalid_name', 'a%0A=1', 'a control character in a name'],
  ['invalid_name', '+amount=1', 'a leading space, which PHP drops'],
  ['invalid_name', 'a[b=1', 'an open bracket, which PHP makes an underscore'],
  ['invalid_name', 'a]=1', 'a bracket that nothing opened'],
  ['invalid_name', '[a]=1', 'no name before a bracket'],
  ['invalid_name', 'a[b]c=1', 'text after a bracket, which PHP drops'],
  ['invalid_name', 'a[[b]]=1', 'brackets in brackets'],
  ['ambiguous_name', 'amount=1&amount[x]=2', 'a value and a container'],
  ['ambiguous_name', 'amount[]=1&amount=2', 'a container and a value'],
  ['ambiguous_name', 'a[b]=1&a[b][c]=2', 'a value and a container further down'],
  ['ambiguous_name', 'a_b=1&a.b=2', 'names that PHP folds into one'],
  ['method_override', '_method=DELETE', 'a field that overrides the method'],
  ['method_override', '%5fMETHOD=DELETE', 'a field that overrides the method, disguised'],
];

t.test('whatever two servers could read differently is refused', async (t) => {
  for (const [code, text, why] of REFUSED) t.equal(outcome(text), code, why);
  t.equal(outcome(Buffer.from('a=\xff', 'latin1')), 'not_ascii', 'raw bytes');
  t.equal(outcome('a=ü'), 'not_ascii', 'raw UTF-8');
});

t.test('fields and bracketed parts are bounded', async (t) => {
  const fields = (count: number) => Array.from({ length: count }, (_, i) => `f${i}=`).join('&');
  t.equal(outcome(fields(FORM_FIELDS_MAX)), 'accepted');
  t.equal(outcome(fields(FORM_FIELDS_MAX + 1)), 'too_many_fields');
  t.equal(outcome(`a${'[b]'.repeat(FORM_NAME_PARTS_MAX)}=1`), 'accepted');
  t.equal(outcome(`a${'[b]'.repeat(FORM_NAME_PARTS_MAX + 1)}=1`), 'invalid_name');
});

t.test('an accepted form is read as the WHATWG parser reads it', async (t) => {
  const text = fc.stringMatching(/^[a-c0-2&=+%;.[\]_-]{0,24}$/);
  let accepted = 0;
  const property = fc.property(text, (form) => {
    if (outcome(form) !== 'accepted') return;
    accepted += 1;
    assert.deepEqual(parse(form), [...new URLSearchParams(form)]);
  });
  fc.assert(property, { numRuns: 3000 });
  t.ok(accepted > 10, 'some were accepted');
});

t.test('what URLSearchParams writes is read back, unless it is refused', async (t) => {
  const name = fc.stringMatching(/^[a-z][a-z0-9_]{0,8}(\[[a-z0-9]{0,3}\]){0,2}$/);
  const value = fc.string({ unit: 'binary' }).filter((text) => text.isWellFormed() && !text.includes('\0'));
  const property = fc.property(fc.uniqueArray(fc.tuple(name, value), { selector: ([key]) => key }), (pairs) => {
    const form = new URLSearchParams(pairs).toString();
    const got = outcome(form);
    if (got === 'ambiguous_name') return;
    assert.equal(got, 'accepted');
    assert.deepEqual(parse(form), pairs);
  });
  fc.assert(property, { numRuns: 300 });
  t.pass('held');
});

t.test('random bytes throw nothing but FormSyntaxProblem, and a message repeats no value', async (t) => {
  fc.assert(fc.property(fc.uint8Array({ maxLength: 40 }), (bytes) => typeof outcome(bytes) === 'string'));
  t.throws(() => parse('a=hunter2&a=hunter2'), { code: 'duplicate_name', offset: 10, message: /^(?!.*hunter2)/ });
});
