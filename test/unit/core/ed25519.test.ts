import assert from 'node:assert/strict';
import { generateKeyPairSync, sign as plainSign } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { Point, utils } from '@noble/ed25519';
import fc from 'fast-check';
import t from 'tap';
import { newSeed, readPublicKey, SigningKey } from '../../../core/ed25519.ts';
import { readPublicKeyNoble } from '../../../core/ed25519-noble.ts';
import { hasStrictForm, type ReadPublicKey } from '../../../core/ed25519-rule.ts';

const VECTORS = new URL('../../../../shared/vectors/', import.meta.url);
const skip = existsSync(VECTORS) ? false : 'the test vectors are not beside this checkout';
const hex = (text: string): Uint8Array => Uint8Array.from(Buffer.from(text, 'hex'));

/** What both engines say about a signature; that they agree is part of every test that asks. */
async function verdict(key: Uint8Array, message: Uint8Array, signature: Uint8Array): Promise<boolean> {
  const native = readPublicKey(key);
  const noble = readPublicKeyNoble(key);
  assert.equal(native === null, noble === null, 'the engines accept the same keys');
  if (native === null || noble === null) return false;
  const answer = await native.verify(message, signature);
  assert.equal(native.verifySync(message, signature), answer, 'on this thread and on another');
  assert.equal(await noble.verify(message, signature), answer, 'in OpenSSL and in JavaScript');
  return answer;
}

interface WycheproofGroup {
  readonly publicKey: { readonly pk: string };
  readonly tests: readonly { tcId: number; msg: string; sig: string; result: string; comment: string }[];
}

t.test('Wycheproof: every valid signature is accepted and every invalid one refused', { skip }, async (t) => {
  const file = readFileSync(new URL('wycheproof/ed25519_test.json', VECTORS), 'utf8');
  const { testGroups } = JSON.parse(file) as { testGroups: WycheproofGroup[] };
  const seen = { valid: 0, invalid: 0 };
  for (const { publicKey, tests } of testGroups) {
    for (const { tcId, msg, sig, result, comment } of tests) {
      assert(result === 'valid' || result === 'invalid');
      seen[result] += 1;
      t.equal(await verdict(hex(publicKey.pk), hex(msg), hex(sig)), result === 'valid', `${tcId} ${comment}`);
    }
  }
  t.same(seen, { valid: 88, invalid: 63 }, 'all vectors are there');
});

interface CctvVector {
  readonly number: number;
  readonly key: string;
  readonly sig: string;
  readonly msg: string;
  readonly flags: readonly string[] | null;
}

t.test('CCTV: of 914 edge cases only the honest signature is accepted', { skip }, async (t) => {
  const file = readFileSync(new URL('cctv/ed25519vectors.json', VECTORS), 'utf8');
  const vectors = JSON.parse(file) as CctvVector[];
  t.equal(vectors.length, 914, 'all vectors are there');
  const accepted: CctvVector[] = [];
  for (const vector of vectors) {
    if (await verdict(hex(vector.key), Buffer.from(vector.msg), hex(vector.sig))) accepted.push(vector);
  }
  t.equal(accepted.length, 1);
  t.same(accepted[0]?.flags ?? [], [], 'the one without any flag');
});

/** A generator of the eight points of low order. */
function torsion(): Point {
  const order = Point.CURVE().n;
  for (let y = 2; ; y++) {
    try {
      const point = Point.fromBytes(Uint8Array.of(y, ...new Uint8Array(31)));
      const low = point.multiply(order - 1n, false).add(point);
      if (!low.double().double().is0()) return low;
    } catch {
      // Not every y is one of a point.
    }
  }
}

const T8 = torsion();
const LOW_ORDER = Array.from({ length: 8 }, (_, i) => T8.multiply(BigInt(i), false).toBytes());
const P_AND_UP = (low: number, sign: number) =>
  hex(`${low.toString(16)}${'ff'.repeat(30)}${(0x7f | sign).toString(16)}`);
const NON_CANONICAL = Array.from({ length: 19 }, (_, i) => [P_AND_UP(0xed + i, 0), P_AND_UP(0xed + i, 0x80)]).flat();
/** y = 1 and y = -1 have x = 0, which has no sign. */
const SIGNED_ZERO = [hex(`01${'00'.repeat(30)}80`), hex(`ec${'ff'.repeat(31)}`)];

t.test('keys of low order, with a component of low order, or not in their only encoding are refused', async (t) => {
  const honest = new SigningKey(Buffer.alloc(32, 7)).publicKey;
  const mixed = Array.from({ length: 7 }, (_, i) =>
    Point.fromBytes(honest)
      .add(T8.multiply(BigInt(i + 1), false))
      .toBytes(),
  );
  const readers: [string, ReadPublicKey][] = [
    ['native', readPublicKey],
    ['noble', readPublicKeyNoble],
  ];
  for (const [engine, read] of readers) {
    for (const key of [...LOW_ORDER, ...NON_CANONICAL, ...SIGNED_ZERO, ...mixed]) {
      t.equal(read(key), null, `${engine} ${Buffer.from(key).toString('hex')}`);
    }
    t.equal(read(hex(`02${'00'.repeat(31)}`)), null, 'not on the curve');
    for (const length of [0, 31, 33, 64]) t.equal(read(new Uint8Array(length).fill(3)), null, `${length} bytes`);
    t.same(read(honest)?.toBytes(), honest);
  }
});

t.test('the fixed signature that the identity as key would accept for any message is refused', async (t) => {
  const identity = hex(`01${'00'.repeat(31)}`);
  const forged = hex(`01${'00'.repeat(63)}`);
  t.equal(await verdict(identity, Buffer.from('anything'), forged), false);
});

/** Signs as RFC 8032 does, but with this component of low order added to R, and with S made to fit. */
async function signWithTorsion(seed: Uint8Array, message: Uint8Array, component: Point): Promise<Uint8Array> {
  const { scalar, pointBytes } = await utils.getExtendedPublicKeyAsync(seed);
  const order = Point.CURVE().n;
  const nonce = 123_456_789n;
  const r = Point.BASE.multiply(nonce).add(component).toBytes();
  const digest = await crypto.subtle.digest('SHA-512', Buffer.concat([r, pointBytes, message]));
  const k = BigInt(`0x${Buffer.from(digest).reverse().toString('hex')}`) % order;
  return Buffer.concat([r, littleEndian((nonce + k * scalar) % order)]);
}

function littleEndian(value: bigint): Buffer {
  return Buffer.from(value.toString(16).padStart(64, '0'), 'hex').reverse();
}

t.test('R with a component of low order is refused, though the equation with the cofactor holds', async (t) => {
  const seed = Buffer.alloc(32, 9);
  const { publicKey } = new SigningKey(seed);
  const message = Buffer.from('m');
  t.equal(await verdict(publicKey, message, await signWithTorsion(seed, message, Point.ZERO)), true);
  for (let i = 1n; i < 8n; i++) {
    t.equal(await verdict(publicKey, message, await signWithTorsion(seed, message, T8.multiply(i))), false, `${i}`);
  }
});

t.test('signatures whose form is wrong are seen without the key', async (t) => {
  const honest = new SigningKey(Buffer.alloc(32, 7)).sign(Buffer.from('m'));
  const [r, s] = [honest.subarray(0, 32), honest.subarray(32)];
  t.ok(hasStrictForm(honest));
  for (const low of [...LOW_ORDER, ...NON_CANONICAL, ...SIGNED_ZERO]) {
    t.notOk(hasStrictForm(Buffer.concat([low, s])), Buffer.from(low).toString('hex'));
  }
  const order = Point.CURVE().n;
  const value = BigInt(`0x${Buffer.from(s).reverse().toString('hex')}`);
  for (const large of [order, order + 1n, value + order, value + 2n * order, 2n ** 256n - 1n]) {
    t.notOk(hasStrictForm(Buffer.concat([r, littleEndian(large)])), `S = ${large}`);
  }
  t.ok(hasStrictForm(Buffer.concat([r, littleEndian(order - 1n)])));
  for (const length of [0, 63, 65, 128]) t.notOk(hasStrictForm(new Uint8Array(length).fill(2)));
});

const seeds = fc.uint8Array({ minLength: 32, maxLength: 32 });

t.test('what is signed verifies, here and by node:crypto alone', async (t) => {
  const property = fc.asyncProperty(seeds, fc.uint8Array({ maxLength: 200 }), async (seed, message) => {
    const key = new SigningKey(seed);
    const signature = key.sign(message);
    assert.equal(signature.length, 64);
    assert.equal(await verdict(key.publicKey, message, signature), true);
    assert.deepEqual(key.publicKey, (await utils.getExtendedPublicKeyAsync(seed)).pointBytes);
  });
  await fc.assert(property, { numRuns: 30 });
  const pair = generateKeyPairSync('ed25519');
  const raw = pair.publicKey.export({ format: 'der', type: 'spki' }).subarray(-32);
  t.equal(await verdict(raw, Buffer.from('m'), plainSign(null, Buffer.from('m'), pair.privateKey)), true);
});

t.test('any one byte changed, in message, signature or key, is refused', async (t) => {
  const property = fc.asyncProperty(
    seeds,
    fc.uint8Array({ minLength: 1, maxLength: 40 }),
    fc.constantFrom(0, 1, 2),
    fc.nat(),
    fc.integer({ min: 1, max: 255 }),
    async (seed, message, which, place, mask) => {
      const key = new SigningKey(seed);
      const parts = [key.publicKey, message, key.sign(message)] as [Uint8Array, Uint8Array, Uint8Array];
      const changed = Uint8Array.from(parts[which] as Uint8Array);
      const at = place % changed.length;
      changed[at] = (changed[at] as number) ^ mask;
      parts[which] = changed;
      assert.equal(await verdict(...parts), false);
    },
  );
  await fc.assert(property, { numRuns: 120 });
  t.pass('held');
});

t.test('RFC 8032 §7.1: the keys and signatures of its tests come out', async (t) => {
  const seed = hex('4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb');
  const key = new SigningKey(seed);
  t.same(key.publicKey, hex('3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c'));
  t.equal(
    Buffer.from(key.sign(hex('72'))).toString('hex'),
    '92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da' +
      '085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00',
  );
});

t.test('what a caller does to its buffers after the call changes nothing', async (t) => {
  const signer = new SigningKey(newSeed());
  const own = Uint8Array.from(signer.publicKey);
  const keys = [readPublicKey(own), readPublicKeyNoble(own)];
  own.fill(0);
  signer.publicKey.fill(0);
  for (const key of keys) {
    assert(key !== null);
    key.toBytes().fill(0);
    t.same(key.toBytes(), signer.publicKey);
    const message = Uint8Array.from(Buffer.from('m'));
    const signature = Uint8Array.from(signer.sign(message));
    const answer = key.verify(message, signature);
    message.fill(0);
    signature.fill(0);
    t.equal(await answer, true);
  }
});

t.test('seeds are 32 random bytes, and nothing else is taken for one', async (t) => {
  t.equal(newSeed().length, 32);
  t.not(newSeed().toString('hex'), newSeed().toString('hex'));
  for (const length of [0, 31, 33, 64]) t.throws(() => new SigningKey(new Uint8Array(length)), RangeError);
  const seed = newSeed();
  const key = new SigningKey(seed);
  const signature = key.sign(Buffer.from('m'));
  seed.fill(0);
  t.same(key.sign(Buffer.from('m')), signature, 'the caller may zeroise its seed');
  t.equal(JSON.stringify({ key }), '{"key":{}}', 'a key is not written down by accident');
});
