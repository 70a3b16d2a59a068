import assert from 'node:assert/strict';
import fc from 'fast-check';
import t from 'tap';
import { decodeBase58, decodeMultibase, encodeBase58, encodeMultibase } from '../../../core/base58.ts';

const hex = (text: string): Uint8Array => Uint8Array.from(Buffer.from(text, 'hex'));

// The examples of draft-msporny-base58-03 §5, and what leading zeros become.
const EXAMPLES: readonly (readonly [Uint8Array, string])[] = [
  [Uint8Array.from(Buffer.from('Hello World!')), '2NEpo7TZRRrLZSi2U'],
  [
    Uint8Array.from(Buffer.from('The quick brown fox jumps over the lazy dog.')),
    'USm3fpXnKG5EUBx2ndxBDMPVciP5hGey2Jh4NDv6gmeo1LkMeiKrLJUUBk6Z',
  ],
  [hex('0000287fb4cd'), '11233QC4'],
  [hex(''), ''],
  [hex('00'), '1'],
  [hex('ff'), '5Q'],
];

t.test('texts and bytes stand for each other as the draft has them', async (t) => {
  for (const [bytes, text] of EXAMPLES) {
    t.equal(encodeBase58(bytes), text);
    t.same(decodeBase58(text, bytes.length), bytes, text);
  }
});

t.test('each byte string has one text, and no other is accepted for it', async (t) => {
  const bytes = fc.oneof(
    fc.uint8Array({ maxLength: 70 }),
    fc
      .tuple(fc.nat(5), fc.uint8Array({ maxLength: 40 }))
      .map(([n, tail]) => Uint8Array.of(...Array(n).fill(0), ...tail)),
  );
  const there = fc.property(bytes, (value) => {
    assert.deepEqual(decodeBase58(encodeBase58(value), value.length), value);
    assert.deepEqual(decodeMultibase(encodeMultibase(value), value.length), value);
  });
  fc.assert(there, { numRuns: 500 });
  const alphabet = [...'123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz'];
  const text = fc.array(fc.oneof(fc.constant('1'), fc.constantFrom(...alphabet)), { maxLength: 12 });
  const back = fc.property(text, fc.nat(10), (characters, length) => {
    const value = decodeBase58(characters.join(''), length);
    if (value === null) return;
    assert.equal(value.length, length);
    assert.equal(encodeBase58(value), characters.join(''));
  });
  fc.assert(back, { numRuns: 2000 });
  t.pass('held');
});

t.test('another length, alphabet or base is refused, and a long text is not read', async (t) => {
  const { length } = 'Hello World!';
  t.equal(decodeBase58('2NEpo7TZRRrLZSi2U', length - 1), null);
  t.equal(decodeBase58('2NEpo7TZRRrLZSi2U', length + 1), null);
  t.equal(decodeBase58('12NEpo7TZRRrLZSi2U', length), null, 'a leading zero more');
  for (const odd of ['0', 'O', 'I', 'l', ' ', '\n', 'é', '\u{1f600}', '-']) {
    t.equal(decodeBase58(`2NEpo7TZRRrLZSi2${odd}`, length), null, JSON.stringify(odd));
  }
  t.equal(decodeBase58('5R', 1), null, '256 is not a byte');
  t.equal(decodeBase58('1'.repeat(10_000_000), 64), null);
  for (const text of ['', '2NEpo7TZRRrLZSi2U', 'Z2NEpo7TZRRrLZSi2U', 'uSGVsbG8gV29ybGQh', 'zz2NEpo7TZRRrLZSi2U']) {
    t.equal(decodeMultibase(text, length), null, text);
  }
});
