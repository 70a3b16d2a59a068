import fc from 'fast-check';
import t from 'tap';
import { isTypeId, newTypeId, TYPE_ID_PREFIXES } from '../../../core/type-id.ts';

const ALPHABET = '0123456789abcdefghjkmnpqrstvwxyz';

/** Decodes a suffix by big-integer arithmetic, sharing nothing with the encoder. */
function uuidOf(id: string): string {
  let value = 0n;
  for (const character of id.slice(id.indexOf('_') + 1)) value = value * 32n + BigInt(ALPHABET.indexOf(character));
  return value.toString(16).padStart(32, '0');
}

const time = fc.integer({ min: 0, max: 2 ** 48 - 1 });

t.test('an identifier is a UUIDv7 of its time: independently decoded, version and variant included', async (t) => {
  const property = fc.property(time, fc.constantFrom(...TYPE_ID_PREFIXES), (at, prefix) => {
    const id = newTypeId(prefix, at);
    const uuid = uuidOf(id);
    const parts = [Number.parseInt(uuid.slice(0, 12), 16) === at, uuid[12] === '7', '89ab'.includes(uuid[16] ?? '')];
    return isTypeId(id, prefix) && uuid.length === 32 && parts.every(Boolean);
  });
  t.doesNotThrow(() => fc.assert(property));
});

t.test('identifiers sort by their time as text', async (t) => {
  const property = fc.property(time, time, (a, b) => {
    const [first, second] = [newTypeId('rcp', a), newTypeId('rcp', b)];
    return a === b || first < second === a < b;
  });
  t.doesNotThrow(() => fc.assert(property));
});

t.test('ten thousand identifiers of one millisecond are all different', async (t) => {
  const made = new Set(Array.from({ length: 10_000 }, () => newTypeId('evt', 1_778_839_200_000)));
  t.equal(made.size, 10_000);
});

t.test('a time that does not fit into 48 bits is refused, not wrapped', async (t) => {
  for (const at of [-1, 0.5, 2 ** 48, Number.NaN, Number.POSITIVE_INFINITY])
    t.throws(() => newTypeId('acc', at), String(at));
});

t.test('only the canonical spelling with the asked prefix is an identifier', async (t) => {
  const id = 'acc_01jv9h2n8ke5rvq3s4t6w7x8y9';
  t.ok(isTypeId(id, 'acc'));
  const wrong: unknown[] = [
    ...[
      id.toUpperCase(),
      `${id}0`,
      id.slice(0, -1),
      ` ${id}`,
      `${id}\n`,
      id.replace('_', '-'),
      id.replace('acc', 'mdt'),
    ],
    ...['acc_81jv9h2n8ke5rvq3s4t6w7x8y9', 'acc_01jv9h2n8ke5rvq3s4t6w7x8yi', 'acc_01jv9h2n8ke5rvq3s4t6w7x8yl'],
    ...[
      'acc_01jv9h2n8ke5rvq3s4t6w7x8yo',
      'acc_01jv9h2n8ke5rvq3s4t6w7x8yu',
      'acc_',
      '',
      null,
      5,
      [id],
      { toString: () => id },
    ],
  ];
  for (const text of wrong) t.notOk(isTypeId(text, 'acc'), JSON.stringify(text));
});
