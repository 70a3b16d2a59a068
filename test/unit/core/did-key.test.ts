import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import fc from 'fast-check';
import t from 'tap';
import { encodeBase58, encodeMultibase } from '../../../core/base58.ts';
import {
  type DidKey,
  didOfVerificationMethod,
  formatDidKey,
  isDidKey,
  parseDidKey,
  verificationMethodOf,
} from '../../../core/did-key.ts';
import { SigningKey } from '../../../core/ed25519.ts';

const VECTORS = new URL('../../../../shared/vectors/did-key/', import.meta.url);
const skip = existsSync(VECTORS) ? false : 'the test vectors are not beside this checkout';
const DID: DidKey = 'did:key:z6MkiTBz1ymuepAQ4HEHYSF1H8quG5GLVVQR3djdX3mDooWp';

interface Vector {
  readonly seed: string;
  readonly didDocument: { readonly verificationMethod: readonly { readonly id: string }[] };
}

function vectorsOf(file: string): Record<string, unknown> {
  return JSON.parse(readFileSync(new URL(file, VECTORS), 'utf8'));
}

t.test(
  "the method's own Ed25519 vectors are read, with their key and their verification method",
  { skip },
  async (t) => {
    const vectors = Object.entries(vectorsOf('ed25519-x25519.json') as Record<string, Vector>);
    t.equal(vectors.length, 5, 'all vectors are there');
    for (const [did, { seed, didDocument }] of vectors) {
      const key = parseDidKey(did);
      assert(key !== null && isDidKey(did));
      t.same(key, new SigningKey(Buffer.from(seed, 'hex')).publicKey, did);
      t.equal(formatDidKey(key), did);
      t.equal(verificationMethodOf(did), didDocument.verificationMethod[0]?.id);
      t.equal(didOfVerificationMethod(verificationMethodOf(did)), did);
      t.equal(didOfVerificationMethod(didDocument.verificationMethod[1]?.id ?? ''), null, 'the X25519 key beside it');
    }
  },
);

t.test('every other type of key is refused', { skip }, async (t) => {
  const files = ['bls12381.json', 'nist-curves.json', 'rsa.json', 'secp256k1.json'].map(vectorsOf);
  const x25519 = vectorsOf('x25519.json')['didDocument'] as Record<string, unknown>;
  const dids = [...files, x25519].flatMap((vectors) => Object.keys(vectors));
  t.equal(dids.length, 25, 'all vectors are there');
  for (const did of dids) {
    t.match(did, /^did:key:z/);
    t.equal(parseDidKey(did), null, did.slice(0, 40));
    t.equal(didOfVerificationMethod(`${did}#${did.slice(8)}`), null);
  }
});

t.test('any 32 bytes have one did:key, which is read back', async (t) => {
  const property = fc.property(fc.uint8Array({ minLength: 32, maxLength: 32 }), (key) => {
    const did = formatDidKey(key);
    assert.match(did, /^did:key:z6Mk[1-9A-HJ-NP-Za-km-z]{44}$/);
    assert.deepEqual(parseDidKey(did), key);
    assert.equal(didOfVerificationMethod(verificationMethodOf(did)), did);
  });
  fc.assert(property, { numRuns: 500 });
  for (const length of [0, 31, 33, 64]) t.throws(() => formatDidKey(new Uint8Array(length)), RangeError);
});

t.test('no other text stands for a key: aliases, cases, bases, parameters and fragments are refused', async (t) => {
  t.ok(isDidKey(DID));
  const key = parseDidKey(DID) ?? new Uint8Array(32);
  const codec = (...head: number[]) => `did:key:${encodeMultibase(Uint8Array.of(...head, ...key))}`;
  const refused = [
    '',
    'did:key:',
    DID.slice(8),
    DID.toUpperCase(),
    DID.toLowerCase(),
    DID.replace('did', 'DID'),
    DID.replace('key', 'Key'),
    DID.replace(':z', ':1:z'),
    DID.replace(':z', ':1.1:z'),
    DID.replace(':z', ':Z'),
    DID.replace(':z', ':z1'),
    ` ${DID}`,
    `${DID} `,
    `${DID}\n`,
    `${DID}\0`,
    `${DID}#`,
    `${DID}?`,
    `${DID}/`,
    `${DID};a=b`,
    `${DID}?versionId=1`,
    verificationMethodOf(DID),
    DID.replace('z6Mk', 'z6%4Dk'),
    DID.replace('M', '\uff2d'),
    `did:key:u${Buffer.of(0xed, 0x01, ...key).toString('base64url')}`,
    `did:key:f${Buffer.of(0xed, 0x01, ...key).toString('hex')}`,
    `did:key:z${encodeBase58(key)}`,
    codec(0xec, 0x01),
    codec(0xe7, 0x01),
    codec(0xed, 0x00),
    codec(0xed, 0x81, 0x00),
    codec(0x80, 0x24),
    codec(0x01, 0xed),
    `did:key:${encodeMultibase(Uint8Array.of(0xed, 0x01, ...key, 0))}`,
    `did:key:${encodeMultibase(Uint8Array.of(0xed, 0x01, ...key.subarray(1)))}`,
    `did:web:${DID.slice(8)}`,
    `did:key:z${'1'.repeat(1_000_000)}`,
  ];
  for (const text of refused) t.equal(parseDidKey(text), null, JSON.stringify(text.slice(0, 70)));
});

t.test('one character changed is another key or none, never the same', async (t) => {
  const key = parseDidKey(DID);
  const characters = fc.oneof(
    fc.string({ unit: 'binary-ascii', minLength: 1, maxLength: 1 }),
    fc.constantFrom(...'zZ6Mk'),
  );
  const property = fc.property(fc.nat(DID.length - 1), characters, (at, character) => {
    const text = `${DID.slice(0, at)}${character}${DID.slice(at + 1)}`;
    const read = parseDidKey(text);
    if (text === DID) assert.deepEqual(read, key);
    else if (read !== null) assert.notDeepEqual(read, key);
  });
  fc.assert(property, { numRuns: 1000 });
  t.pass('held');
});

t.test('a verification method names its key twice, and nothing else is one', async (t) => {
  const method = verificationMethodOf(DID);
  t.equal(method, `${DID}#z6MkiTBz1ymuepAQ4HEHYSF1H8quG5GLVVQR3djdX3mDooWp`);
  t.equal(didOfVerificationMethod(method), DID);
  const other = 'z6MkjchhfUsD6mmvni8mCdXHw216Xrm9bQe2mBH1P5RDjVJG';
  const refused = [
    '',
    DID,
    `${DID}#`,
    `${DID}#${other}`,
    `${DID}#key-1`,
    `#${DID.slice(8)}`,
    `${method}#`,
    `${method} `,
  ];
  for (const text of [...refused, method.replace('#', '?'), method.replace('#', '%23')]) {
    t.equal(didOfVerificationMethod(text), null, text);
  }
});
