import { generateKeyPairSync, hash, type KeyObject } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { calculateJwkThumbprint, exportJWK } from 'jose';
import t from 'tap';
import { isJsonObject, type JsonObject, parseStrictJson } from '../../../core/json.ts';
import { isP256, publicJwk, readJwks, readPublicJwk } from '../../../core/jwk.ts';

const VECTORS = new URL('../../../../shared/vectors/wycheproof/json_web_key_test.json', import.meta.url);
const skip = existsSync(VECTORS) ? false : 'the test vectors are not beside this checkout';

const pair = generateKeyPairSync('ec', { namedCurve: 'P-256' });
const JWK = publicJwk(pair.publicKey);
const PRIME = 2n ** 256n - 2n ** 224n + 2n ** 192n + 2n ** 96n - 1n;

function objectOf(value: unknown): JsonObject {
  const node = parseStrictJson(Buffer.from(JSON.stringify(value)));
  if (!isJsonObject(node)) throw new TypeError('not an object');
  return node;
}

const read = (value: unknown) => readPublicJwk(objectOf(value));
const setOf = (...keys: unknown[]) => readJwks(Buffer.from(JSON.stringify({ keys })));
const same = (a: KeyObject | undefined, b: KeyObject): boolean => a?.equals(b) === true;

/** The same members with a kid that fits them, so that a refusal is for something else. */
function withThumbprint(jwk: Record<string, unknown>): Record<string, unknown> {
  const { x, y } = jwk;
  return { ...jwk, kid: hash('sha256', `{"crv":"P-256","kty":"EC","x":"${x}","y":"${y}"}`, 'base64url') };
}

t.test('a JWK is read back as the key it was made of, whether that was public or private', async (t) => {
  for (const key of [pair.publicKey, pair.privateKey]) {
    const jwk = publicJwk(key);
    t.strictSame(jwk, JWK);
    t.ok(same(read(jwk)?.key, pair.publicKey));
    t.equal(read(jwk)?.kid, jwk.kid);
  }
  t.notOk('d' in publicJwk(pair.privateKey), 'nothing private is in it');
});

t.test('the kid is the RFC 7638 thumbprint, as jose computes it', async (t) => {
  t.equal(JWK.kid, await calculateJwkThumbprint(await exportJWK(pair.publicKey)));
  t.match(JWK.kid, /^[A-Za-z0-9_-]{43}$/);
});

t.test('only a key on P-256 has a JWK here', async (t) => {
  const others = [
    generateKeyPairSync('ec', { namedCurve: 'P-384' }),
    generateKeyPairSync('ec', { namedCurve: 'secp256k1' }),
    generateKeyPairSync('ed25519'),
  ];
  for (const { publicKey, privateKey } of others) {
    t.throws(() => publicJwk(publicKey), TypeError);
    t.throws(() => publicJwk(privateKey), TypeError);
    t.notOk(isP256(publicKey));
  }
  t.ok(isP256(pair.publicKey));
});

t.test('a JWK with a member more, less or other is refused, whatever else it is', async (t) => {
  const { d } = pair.privateKey.export({ format: 'jwk' });
  t.equal(read({ ...JWK, d }), null, 'a private key');
  for (const more of [{ key_ops: ['verify'] }, { ext: true }, { x5u: 'https://a.example' }, { x5c: [] }, { k: 'AA' }]) {
    t.equal(read({ ...JWK, ...more }), null, JSON.stringify(more));
  }
  for (const name of Object.keys(JWK)) t.equal(read({ ...JWK, [name]: undefined }), null, `without ${name}`);
  const others = {
    kty: ['OKP', 'ec', null],
    crv: ['P-384', 'secp256k1', 'p-256'],
    alg: ['ES384', 'HS256', 'none'],
    use: ['enc', null],
    kid: ['kid-ec-sign', JWK.x, null, 1, `${JWK.kid}=`],
    x: [`${JWK.x}=`, ` ${JWK.x}`, JWK.x.slice(1), `A${JWK.x}`, 1, null, [JWK.x], JWK.y],
    y: [`${JWK.y}=`, JWK.x, '', 0],
  };
  for (const [name, values] of Object.entries(others)) {
    for (const value of values) {
      t.equal(read({ ...JWK, [name]: value }), null, `${name} ${value}`);
      const fitting = name === 'kid' ? { ...JWK, kid: value } : withThumbprint({ ...JWK, [name]: value });
      t.equal(read(fitting), null, `${name} ${value}, with its own thumbprint`);
    }
  }
});

t.test('coordinates have one spelling: below the prime, 32 bytes, canonical base64url', async (t) => {
  const encode = (n: bigint): string => Buffer.from(n.toString(16).padStart(64, '0'), 'hex').toString('base64url');
  const B = 0x5ac635d8aa3a93e7b3ebbd55769886bc651d06b0cc53b0f63bce3c3e27d2604bn;
  const y = power(B, (PRIME + 1n) / 4n);
  const zero = withThumbprint({ ...JWK, x: encode(0n), y: encode(y) });
  t.not(read(zero), null, 'x = 0 is a point');
  const off = [
    ...[
      { x: encode(PRIME), y: encode(y) },
      { x: encode(0n), y: encode(y + 1n) },
      { x: encode(0n), y: encode(0n) },
    ],
    ...[
      { x: 'AA', y: encode(y) },
      { x: `AA${encode(0n)}`, y: encode(y) },
    ],
  ];
  for (const one of off) t.equal(read(withThumbprint({ ...JWK, ...one })), null, JSON.stringify(one));
  const last = JWK.x.slice(-1);
  const respelt = Array.from('ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_').filter((character) => {
    const x = JWK.x.slice(0, -1) + character;
    return character !== last && Buffer.from(x, 'base64url').equals(Buffer.from(JWK.x, 'base64url'));
  });
  t.equal(respelt.length, 3);
  for (const character of respelt) {
    t.equal(read(withThumbprint({ ...JWK, x: JWK.x.slice(0, -1) + character })), null, character);
  }
});

function power(base: bigint, exponent: bigint): bigint {
  let [result, square] = [1n, base];
  for (let rest = exponent; rest > 0n; rest >>= 1n) {
    if (rest & 1n) result = (result * square) % PRIME;
    square = (square * square) % PRIME;
  }
  return result;
}

t.test('a JWKS is read as a whole or not at all', async (t) => {
  const other = publicJwk(generateKeyPairSync('ec', { namedCurve: 'P-256' }).publicKey);
  t.same([...(setOf(JWK, other)?.keys() ?? [])], [JWK.kid, other.kid]);
  t.ok(same(setOf(other, JWK)?.get(JWK.kid), pair.publicKey));
  t.equal(setOf()?.size, 0);
  t.equal(setOf(JWK, JWK), null, 'a kid twice');
  t.equal(setOf(JWK, { ...other, kid: JWK.kid }), null, 'the name of another key');
  t.equal(setOf(JWK, { kty: 'oct', k: 'AAAA', alg: 'HS256', kid: 'x', use: 'sig' }), null, 'a symmetric key beside it');
  for (const text of [
    ...['', '[]', 'null', '{}', '{"keys":{}}', '{"keys":null}', '{"keys":[null]}', '{"keys":[[]]}'],
    ...['{"keys":[],"keys":[]}', '{"keys":[],"more":1}', '{"keys":[]} x'],
    JSON.stringify({ keys: [JWK] }).replace('"kty"', '"kty":"EC","kty"'),
  ]) {
    t.equal(readJwks(Buffer.from(text)), null, text.slice(0, 40));
  }
});

interface KeySet {
  readonly keys: readonly Record<string, unknown>[];
}
interface KeyGroup {
  readonly comment: string;
  readonly public?: KeySet;
  readonly private: KeySet;
}

t.test(
  'Wycheproof: of its keys none is one of ours, for their own reasons and not for their names',
  { skip },
  async (t) => {
    const { testGroups } = JSON.parse(readFileSync(VECTORS, 'utf8')) as { testGroups: readonly KeyGroup[] };
    let curves = 0;
    for (const { comment, public: known, private: secret } of testGroups) {
      for (const set of [known, secret]) {
        if (set === undefined) continue;
        t.equal(readJwks(Buffer.from(JSON.stringify(set))), null, comment);
      }
      const renamed = (known?.keys ?? []).map((jwk) => ('x' in jwk ? withThumbprint(jwk) : jwk));
      if (known === undefined) continue;
      t.equal(setOf(...renamed), null, `${comment}, with thumbprints`);
      curves += renamed.filter((jwk) => 'x' in jwk).length;
    }
    t.ok(curves >= 6, `${curves} keys on curves`);
    const good = { kty: 'EC', crv: 'P-256', alg: 'ES256', use: 'sig' };
    const point = {
      x: '04N0xi21hshyvBp7I167sbE_bXqyqkAPfefdklMO7wY',
      y: 'UI8exy-C06a7DUnjIdENkxeFtHM4-l_41LqEw9nVgmw',
    };
    t.not(read(withThumbprint({ ...good, ...point })), null, 'what they are variations of is accepted');
  },
);
