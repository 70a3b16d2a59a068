import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import t from 'tap';
import { decodeMultibase } from '../../../core/base58.ts';
import { addProof, hashData, type Members, type ProofToVerify, readProof } from '../../../core/data-integrity.ts';
import { didOfVerificationMethod, formatDidKey, parseDidKey, verificationMethodOf } from '../../../core/did-key.ts';
import { readPublicKey, SigningKey } from '../../../core/ed25519.ts';
import { readPublicKeyNoble } from '../../../core/ed25519-noble.ts';
import type { JsonValue } from '../../../core/jcs.ts';

const VECTORS = new URL('../../../../shared/vectors/eddsa-jcs-2022/', import.meta.url);
const skip = existsSync(VECTORS) ? false : 'the test vectors are not beside this checkout';
const text = (path: string): string => readFileSync(new URL(path, VECTORS), 'utf8');
const json = (path: string): Members => JSON.parse(text(path));
const hexOf = (bytes: Uint8Array): string => Buffer.from(bytes).toString('hex');

function wellFormed(secured: Members): ProofToVerify {
  const read = readProof(secured);
  assert(read.problem === null, read.problem ?? '');
  return read;
}

/** Whether a secured document verifies with the did:key that its proof names, by both engines. */
async function verifies(secured: Members): Promise<boolean> {
  const read = readProof(secured);
  if (read.problem !== null) return false;
  const did = didOfVerificationMethod(read.verification_method);
  const bytes = did === null ? null : parseDidKey(did);
  if (bytes === null) return false;
  const answers = [readPublicKey, readPublicKeyNoble].map((from) =>
    from(bytes)?.verify(read.hash_data, read.signature),
  );
  const [native, noble] = await Promise.all(answers);
  assert.equal(native, noble);
  return native === true;
}

/** The signing key of a Multibase private key: multicodec 0x1300 and the seed. */
function signingKey(privateKeyMultibase: string): SigningKey {
  const bytes = decodeMultibase(privateKeyMultibase, 34);
  assert(bytes !== null && bytes[0] === 0x80 && bytes[1] === 0x26);
  return new SigningKey(bytes.subarray(2));
}

t.test("the W3C's vectors: the same hashes, the same signature, and it verifies", { skip }, async (t) => {
  const unsigned = json('unsigned.json');
  const options = json('eddsa-jcs-2022/proofConfigJCS.json');
  const signed = json('eddsa-jcs-2022/signedJCS.json');
  const hashes = hexOf(hashData(unsigned, options));
  t.equal(hashes, text('eddsa-jcs-2022/combinedHashJCS.txt').trim());
  t.equal(hashes, text('eddsa-jcs-2022/proofHashJCS.txt').trim() + text('eddsa-jcs-2022/docHashJCS.txt').trim());
  const read = wellFormed(signed);
  t.equal(hexOf(read.hash_data), hashes);
  t.equal(hexOf(read.signature), text('eddsa-jcs-2022/sigHexJCS.txt').trim());
  t.equal(read.proof_purpose, 'assertionMethod');
  t.ok(await verifies(signed));

  const { publicKeyMultibase, privateKeyMultibase } = json('keyPair.json') as Record<string, string>;
  const key = signingKey(privateKeyMultibase ?? '');
  t.equal(formatDidKey(key.publicKey), `did:key:${publicKeyMultibase}`);
  const { '@context': _, ...without } = options;
  const made = addProof(unsigned, without as Parameters<typeof addProof>[1], key);
  t.same(made, signed, "the document's @context is copied into the proof");
  t.equal(made.proof.proofValue, text('eddsa-jcs-2022/sigBTC58JCS.txt').trim());
});

const KEY = new SigningKey(Buffer.alloc(32, 5));
const OPTIONS = {
  type: 'DataIntegrityProof',
  cryptosuite: 'eddsa-jcs-2022',
  created: '2026-05-15T10:00:00Z',
  verificationMethod: verificationMethodOf(formatDidKey(KEY.publicKey)),
  proofPurpose: 'authentication',
} as const;

t.test('every member of the document and of the proof is signed', async (t) => {
  const secured: Members = addProof({ a: 1, b: { c: ['x'] } }, { ...OPTIONS, domain: 'd', challenge: 'c' }, KEY);
  const proof = secured['proof'] as Members;
  t.ok(await verifies(secured));
  t.ok(await verifies({ proof: Object.fromEntries(Object.entries(proof).reverse()), b: { c: ['x'] }, a: 1 }));
  for (const changed of [{ a: 2 }, { a: '1' }, { b: { c: ['y'] } }, { d: null }]) {
    t.notOk(await verifies({ ...secured, ...changed }), JSON.stringify(changed));
  }
  const { a: _, ...less } = secured;
  t.notOk(await verifies(less));
  const changes = {
    domain: 'e',
    challenge: 'd',
    created: '2026-05-15T10:00:01Z',
    proofPurpose: 'assertionMethod',
    x: 1,
  };
  for (const [name, value] of Object.entries(changes)) {
    t.notOk(await verifies({ ...secured, proof: { ...proof, [name]: value } }), name);
  }
  for (const name of ['domain', 'challenge', 'created', 'proofPurpose', 'verificationMethod', 'proofValue']) {
    t.notOk(
      await verifies({ ...secured, proof: Object.fromEntries(Object.entries(proof).filter(([n]) => n !== name)) }),
    );
  }
});

t.test("a document's @context may be added to after signing, and in no other way changed", async (t) => {
  const secured: Members = addProof({ '@context': ['https://a.example', { b: 'c' }], n: 1 }, OPTIONS, KEY);
  const context = secured['@context'] as readonly JsonValue[];
  t.same((secured['proof'] as Members)['@context'], context);
  t.ok(await verifies(secured));
  t.ok(await verifies({ ...secured, '@context': [...context, 'https://d.example'] }));
  const others = ['https://a.example', [], context.toReversed(), ['https://d.example', ...context], null];
  for (const other of others) t.notOk(await verifies({ ...secured, '@context': other }), JSON.stringify(other));
  const { '@context': _, ...none } = secured;
  t.equal(readProof(none).problem, "The document's @context must start with that of its proof.");
  const single: Members = addProof({ '@context': 'https://a.example' }, OPTIONS, KEY);
  t.ok(await verifies(single));
  t.ok(await verifies({ ...single, '@context': ['https://a.example'] }));
});

t.test('what is not one proof of this cryptosuite is refused with its reason', async (t) => {
  const secured: Members = addProof({ a: 1 }, OPTIONS, KEY);
  const proof = secured['proof'] as Members;
  const problemOf = (change: Members) => readProof({ ...secured, proof: { ...proof, ...change } }).problem ?? '';
  for (const other of [null, 'z', [proof], [proof, proof], 1]) {
    t.match(readProof({ ...secured, proof: other as JsonValue }).problem, /one proof/);
  }
  t.match(readProof({ a: 1 }).problem, /one proof/);
  t.match(problemOf({ type: 'Ed25519Signature2020' }), /type/);
  t.match(problemOf({ cryptosuite: 'eddsa-rdfc-2022' }), /cryptosuite/);
  t.match(problemOf({ cryptosuite: 'ecdsa-jcs-2019' }), /cryptosuite/);
  for (const created of ['', 'now', 1, '2026-05-15', null]) t.match(problemOf({ created }), /created/);
  t.equal(problemOf({ created: '2026-05-15T12:00:00+02:00' }), '', 'the standard takes any date and time');
  t.match(problemOf({ verificationMethod: { id: 'x' } }), /verificationMethod/);
  t.match(problemOf({ proofPurpose: ['authentication'] }), /proofPurpose/);
  const value = proof['proofValue'] as string;
  for (const proofValue of ['', 'z', value.slice(1), `${value}1`, value.replace('z', 'z1'), `u${value.slice(1)}`, 7]) {
    t.match(problemOf({ proofValue }), /proofValue/);
  }
});
