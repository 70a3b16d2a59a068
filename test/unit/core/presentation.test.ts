import assert from 'node:assert/strict';
import fc from 'fast-check';
import t from 'tap';
import { contextDigest } from '../../../core/action.ts';
import { AgentKeys } from '../../../core/agent-keys.ts';
import { encodeMultibase } from '../../../core/base58.ts';
import { addProof, type ProofOptions } from '../../../core/data-integrity.ts';
import { type DecisionFacts, decide } from '../../../core/decide.ts';
import { formatDidKey, verificationMethodOf } from '../../../core/did-key.ts';
import { SigningKey } from '../../../core/ed25519.ts';
import { readPublicKeyNoble } from '../../../core/ed25519-noble.ts';
import { canonicalize, type JsonValue } from '../../../core/jcs.ts';
import { parseStrictJson } from '../../../core/json.ts';
import {
  createPresentation,
  newNonce,
  type Presentation,
  parsePresentation,
  presentationDigest,
  presentationFacts,
  verifyPresentation,
} from '../../../core/presentation.ts';

const KEY = new SigningKey(Buffer.alloc(32, 5));
const DID = formatDidKey(KEY.publicKey);
const OTHER = formatDidKey(new SigningKey(Buffer.alloc(32, 6)).publicKey);
const NOW = Date.UTC(2026, 4, 15, 10);
const INTENT = {
  mandate_id: 'mdt_01jv9h3q2xf6s8t9vwxyz01234',
  verifier: 'acc_01jv9h2n8ke5rvq3s4t6w7x8y9',
  ctx: contextDigest({ type: 'payments.transfer', amount_minor: 12_500, currency: 'EUR' }),
  nonce: 'Zm9yIHRlc3RzIG9ubHkhIQ',
  issued_at_ms: NOW,
  expires_at_ms: NOW + 120_000,
} as const;
const DOCUMENT = createPresentation(INTENT, KEY);
const OTHER_NONCE = newNonce();
const keys = new AgentKeys();

function wellFormed(value: unknown): Presentation {
  const read = parsePresentation(value);
  assert(read.problem === null, read.problem ?? '');
  return read;
}

/** Why a value is refused, by its form or else by its signature, or null. Both ways of reading it must agree. */
async function problemOf(value: unknown): Promise<string | null> {
  const read = parsePresentation(value);
  const tree = parsePresentation(parseStrictJson(Buffer.from(JSON.stringify(value ?? null))));
  assert.equal(read.problem, tree.problem, 'a plain value and the strict tree are read alike');
  return read.problem ?? verifyPresentation(read, keys);
}

const withMembers = (members: object): object => ({ ...DOCUMENT, ...members });
const withProof = (members: object): object => ({ ...DOCUMENT, proof: { ...DOCUMENT.proof, ...members } });
const without = (value: object, name: string): object =>
  Object.fromEntries(Object.entries(value).filter(([other]) => other !== name));

t.test('a presentation is the object of the contract, and says who signed what until when', async (t) => {
  t.same(DOCUMENT, {
    type: 'MandatePresentation',
    mandate_id: INTENT.mandate_id,
    verifier: INTENT.verifier,
    ctx: INTENT.ctx,
    nonce: INTENT.nonce,
    issued_at: '2026-05-15T10:00:00.000Z',
    expires_at: '2026-05-15T10:02:00.000Z',
    proof: {
      type: 'DataIntegrityProof',
      cryptosuite: 'eddsa-jcs-2022',
      created: '2026-05-15T10:00:00.000Z',
      verificationMethod: verificationMethodOf(DID),
      proofPurpose: 'authentication',
      domain: INTENT.verifier,
      challenge: INTENT.nonce,
      proofValue: DOCUMENT.proof.proofValue,
    },
  });
  const { hash_data, signature, ...read } = wellFormed(DOCUMENT);
  t.same(read, { problem: null, document: canonicalize(DOCUMENT), ...INTENT, signer: DID });
  t.same([hash_data.length, signature.length], [64, 64]);
  t.equal(await problemOf(DOCUMENT), null);
});

t.test('the hash of what is signed is the one that others would compute from the text', async (t) => {
  const { proof, ...claims } = DOCUMENT;
  const sha256 = async (value: JsonValue) => crypto.subtle.digest('SHA-256', Buffer.from(canonicalize(value)));
  const options = without(proof, 'proofValue') as Record<string, string>;
  const expected = Buffer.concat([await sha256(options), await sha256(claims)].map((hash) => Buffer.from(hash)));
  t.same(Buffer.from(wellFormed(DOCUMENT).hash_data), expected);
  t.equal(
    presentationDigest(DOCUMENT),
    `sha-256:${Buffer.from(await sha256(DOCUMENT)).toString('hex')}`,
    'the digest covers the proof as well',
  );
});

const times = fc.date({ min: new Date(0), max: new Date(Date.UTC(2100, 0)), noInvalidDate: true }).map(Number);
const intents = fc.record({
  mandate_id: fc.constant(INTENT.mandate_id),
  verifier: fc.constant(INTENT.verifier),
  ctx: fc.option(fc.stringMatching(/^sha-256:[0-9a-f]{64}$/)),
  nonce: fc.stringMatching(/^[A-Za-z0-9_-]{22,128}$/),
  issued_at_ms: times,
  expires_at_ms: times,
});

t.test('what is created is read back and verifies, whatever it is written like', async (t) => {
  const property = fc.asyncProperty(intents, fc.uint8Array({ minLength: 32, maxLength: 32 }), async (intent, seed) => {
    const key = new SigningKey(seed);
    const document = createPresentation(intent, key);
    const { hash_data, signature, ...read } = wellFormed(document);
    const text = canonicalize(document);
    assert.deepEqual(read, { problem: null, document: text, ...intent, signer: formatDidKey(key.publicKey) });
    assert.equal(await problemOf(document), null);
    assert.equal(await readPublicKeyNoble(key.publicKey)?.verify(hash_data, signature), true);
    const reversed = Object.fromEntries(Object.entries(document).reverse());
    const spaced = parseStrictJson(Buffer.from(JSON.stringify(reversed, null, 3).replace('"ctx"', '"\\u0063tx"')));
    const again = wellFormed(spaced);
    assert.deepEqual([again.hash_data, again.document], [hash_data, text]);
  });
  await fc.assert(property, { numRuns: 40 });
  t.pass('held');
});

t.test('any one byte changed makes it another presentation that does not verify, or none', async (t) => {
  const bytes = Buffer.from(JSON.stringify(DOCUMENT));
  const property = fc.asyncProperty(fc.nat(bytes.length - 1), fc.integer({ min: 1, max: 255 }), async (at, mask) => {
    const changed = Buffer.from(bytes);
    changed[at] = (changed[at] as number) ^ mask;
    let tree: unknown;
    try {
      tree = parseStrictJson(changed);
    } catch {
      return;
    }
    const read = parsePresentation(tree);
    if (read.problem === null) assert.notEqual(verifyPresentation(read, keys), null, changed.toString());
  });
  await fc.assert(property, { numRuns: 1500 });
  t.pass('held');
});

t.test('each member signed anew is bound: a value from another presentation does not verify', async (t) => {
  const changes: object[] = [
    withMembers({ mandate_id: 'mdt_01jv9h3q2xf6s8t9vwxyz01235' }),
    { ...withProof({ domain: 'acc_01jv9h2n8ke5rvq3s4t6w7x8y8' }), verifier: 'acc_01jv9h2n8ke5rvq3s4t6w7x8y8' },
    withMembers({ ctx: `sha-256:${'0'.repeat(64)}` }),
    withMembers({ ctx: null }),
    { ...withProof({ challenge: OTHER_NONCE }), nonce: OTHER_NONCE },
    withMembers({ issued_at: '2026-05-15T10:00:01.000Z' }),
    withMembers({ issued_at: '2026-05-15T10:00:00Z' }),
    withMembers({ expires_at: '2026-05-15T10:03:00.000Z' }),
    withProof({ created: '2026-05-15T10:00:01.000Z' }),
    withProof({ verificationMethod: verificationMethodOf(OTHER) }),
    withProof({ proofValue: createPresentation({ ...INTENT, ctx: null }, KEY).proof.proofValue }),
    withProof({ proofValue: encodeMultibase(new Uint8Array(64)) }),
  ];
  for (const changed of changes) t.equal(await problemOf(changed), 'The signature does not verify.');
});

t.test('a key that breaks the strict rule is no signer, whatever its signature', async (t) => {
  const identity = formatDidKey(Uint8Array.of(1, ...new Uint8Array(31)));
  const forged = encodeMultibase(Uint8Array.of(1, ...new Uint8Array(63)));
  const changed = withProof({ verificationMethod: verificationMethodOf(identity), proofValue: forged });
  t.equal(await problemOf(changed), "The signer's key is not an acceptable Ed25519 key.");
});

t.test('what is no object, or has no single proof, is refused with its reason', async (t) => {
  for (const value of [null, undefined, true, 1, 1.5, 'x', '', [], [DOCUMENT], JSON.stringify(DOCUMENT)]) {
    t.equal(await problemOf(value), 'The presentation must be a JSON object.', JSON.stringify(value)?.slice(0, 20));
  }
  for (const proof of [undefined, null, 1, 'z', [], [DOCUMENT.proof], [DOCUMENT.proof, DOCUMENT.proof]]) {
    t.equal(await problemOf(withMembers({ proof })), 'The presentation must have one proof, an object.');
  }
  t.equal(await problemOf({}), 'The presentation must have one proof, an object.');
});

t.test('every member is required, and each is named where it is missing', async (t) => {
  for (const name of Object.keys(DOCUMENT)) {
    const pattern = name === 'proof' ? /must have one proof/ : new RegExp(`^The presentation's ${name} must be `);
    t.match(await problemOf(without(DOCUMENT, name)), pattern, name);
  }
  for (const name of Object.keys(DOCUMENT.proof)) {
    const changed = withMembers({ proof: without(DOCUMENT.proof, name) });
    t.match(await problemOf(changed), new RegExp(`^The proof's ${name} must be `), name);
  }
});

/** Signs whatever claims and options, as somebody would who holds the key and not the contract. */
function signed(claims: object, options: object): object {
  const { proof, ...own } = DOCUMENT;
  const all = { ...without(proof, 'proofValue'), ...options } as ProofOptions;
  return addProof({ ...own, ...claims }, all, KEY);
}

t.test('nothing rides along: members that the contract does not name are refused, signed or not', async (t) => {
  t.equal(await problemOf(signed({}, {})), null);
  for (const name of ['id', 'holder', 'action', 'amount', 'Nonce', '__proto__', 'constructor', '']) {
    const extra = Object.defineProperty({}, name, { value: 'x', enumerable: true });
    const define = (base: object) => Object.fromEntries([...Object.entries(base), ...Object.entries(extra)]);
    const expected = `must have no member ${JSON.stringify(name)}.`;
    t.equal(await problemOf(define(DOCUMENT)), `The presentation ${expected}`);
    t.equal(await problemOf(withMembers({ proof: define(DOCUMENT.proof) })), `The proof ${expected}`);
  }
  for (const name of ['id', 'expires', 'previousProof', 'nonce']) {
    t.equal(await problemOf(signed({}, { [name]: 'x' })), `The proof must have no member ${JSON.stringify(name)}.`);
  }
  t.equal(await problemOf(signed({ amount: 1 }, {})), 'The presentation must have no member "amount".');
});

t.test('a JSON-LD context is refused with a reason, in the document and in the proof', async (t) => {
  const context = 'https://www.w3.org/ns/credentials/v2';
  const inDocument = 'The presentation must have no @context: it is not a JSON-LD document.';
  t.equal(await problemOf(signed({ '@context': context }, {})), inDocument);
  t.equal(await problemOf(withMembers({ '@context': [] })), inDocument);
  t.equal(await problemOf(withProof({ '@context': [context] })), inDocument.replace('presentation', 'proof'));
});

const longName = 'x'.repeat(5000);

t.test('a problem repeats nothing of what was sent but a member name, bounded and in ASCII', async (t) => {
  t.ok(((await problemOf(withMembers({ [longName]: 1 }))) ?? '').length < 200);
  t.equal(await problemOf(withMembers({ 'é\n<b>': 1 })), 'The presentation must have no member "\\u00e9\\n<b>".');
  t.notMatch(await problemOf(withMembers({ nonce: 'short and secret' })), /secret/);
});

const REFUSED: Readonly<Record<string, readonly unknown[]>> = {
  type: ['mandatepresentation', 'VerifiablePresentation', ['MandatePresentation'], null, 'MandatePresentation '],
  mandate_id: [
    '',
    'mdt_',
    INTENT.verifier,
    INTENT.mandate_id.toUpperCase(),
    `${INTENT.mandate_id}0`,
    INTENT.mandate_id.replace('mdt_0', 'mdt_8'),
    ` ${INTENT.mandate_id}`,
    `${INTENT.mandate_id}\n`,
    7,
    null,
  ],
  verifier: ['', 'acc_', INTENT.mandate_id, `${INTENT.verifier}\n`, [INTENT.verifier], null],
  ctx: ['', 'null', 'a'.repeat(64), `sha-256:${'A'.repeat(64)}`, `sha-256:${'a'.repeat(63)}`, `${INTENT.ctx}\n`, 0, {}],
  nonce: [
    '',
    'a'.repeat(21),
    'a'.repeat(129),
    `${'a'.repeat(21)}=`,
    `${'a'.repeat(30)}+/`,
    `${'a'.repeat(22)}\n`,
    1,
    null,
  ],
  issued_at: ['', 'now', '2026-05-15T10:00:00', '2026-05-15T10:00:00+00:00', '2026-02-30T10:00:00Z', NOW, null],
  expires_at: ['', '2026-05-15T12:02:00+02:00', '2026-05-15T24:00:00Z', NOW + 1, null],
};

t.test('each member of the presentation has one form, and what has another is refused by name', async (t) => {
  for (const [name, values] of Object.entries(REFUSED)) {
    for (const value of values) {
      const pattern = new RegExp(`^The presentation's ${name} must be `);
      t.match(await problemOf(withMembers({ [name]: value })), pattern, `${name} ${JSON.stringify(value)}`);
    }
  }
});

const value64 = DOCUMENT.proof.proofValue;
const REFUSED_IN_PROOF: Readonly<Record<string, readonly unknown[]>> = {
  type: ['Ed25519Signature2020', 'dataIntegrityProof', null],
  cryptosuite: ['eddsa-rdfc-2022', 'ecdsa-jcs-2019', 'EDDSA-JCS-2022', '', null],
  created: ['', '2026-05-15T10:00:00+00:00', '2026-05-15', NOW, null],
  verificationMethod: [
    DID,
    `${DID}#key-1`,
    `${DID}#${OTHER.slice(8)}`,
    `did:web:example.com#${DID.slice(8)}`,
    `https://example.com/${DID}`,
    'did:key:z6LSeu9HkTHSfLLeUs2nnzUSNedgDUevfNQgQjQC23ZCit6F#z6LSeu9HkTHSfLLeUs2nnzUSNedgDUevfNQgQjQC23ZCit6F',
    { id: verificationMethodOf(DID) },
    null,
  ],
  proofPurpose: ['assertionMethod', 'Authentication', ['authentication'], null],
  domain: [INTENT.mandate_id, 'acc_01jv9h2n8ke5rvq3s4t6w7x8y8', '', [INTENT.verifier], null],
  challenge: [`${INTENT.nonce}x`, '', [INTENT.nonce], null],
  proofValue: [
    '',
    'z',
    value64.slice(1),
    `${value64}1`,
    value64.replace('z', 'z1'),
    value64.slice(0, -1),
    'zO',
    1,
    null,
  ],
};

t.test('each member of the proof has one form, and what has another is refused by name', async (t) => {
  for (const [name, values] of Object.entries(REFUSED_IN_PROOF)) {
    for (const value of values) {
      const pattern = new RegExp(`^The proof's ${name} must be `);
      t.match(await problemOf(withProof({ [name]: value })), pattern, `${name} ${JSON.stringify(value)}`);
    }
  }
});

t.test('nonces of 22 and of 128 characters are accepted, and a new one has 16 random bytes', async (t) => {
  for (const length of [22, 128]) {
    t.equal(await problemOf(createPresentation({ ...INTENT, nonce: 'aZ9_-'.repeat(26).slice(0, length) }, KEY)), null);
  }
  const { nonce, ...rest } = INTENT;
  const made = [createPresentation(rest, KEY), createPresentation(rest, KEY)].map((document) => document.nonce);
  t.equal(new Set([...made, nonce]).size, 3);
  for (const text of made) t.match(text, /^[A-Za-z0-9_-]{22}$/);
});

t.test('times of other precisions are read: what agents in other languages write', async (t) => {
  const document = signed({ issued_at: '2026-05-15T10:00:00Z', expires_at: '2026-05-15T10:01:00.123456789Z' }, {});
  t.equal(await problemOf(document), null);
  const { issued_at_ms, expires_at_ms } = wellFormed(document);
  t.same([issued_at_ms, expires_at_ms], [NOW, NOW + 60_123]);
});

t.test('nothing is created that would be refused', async (t) => {
  const wrong: object[] = [{ nonce: 'short' }, { verifier: INTENT.mandate_id }, { ctx: 'x' }, { mandate_id: 'mdt_' }];
  for (const change of [...wrong, { issued_at_ms: Number.NaN }, { expires_at_ms: 9e15 }]) {
    t.throws(() => createPresentation({ ...INTENT, ...change }, KEY), RangeError, JSON.stringify(change));
  }
});

function factsOf(value: unknown, signature_problem: string | null): DecisionFacts {
  const findings = { signature_problem, expected_signer: DID, nonce_spent: false };
  return {
    now_ms: NOW + 1000,
    account_id: INTENT.verifier,
    mandate: null,
    month: { month: '2026-05-01', reserved: 0, booked: 0 },
    presentation: presentationFacts(parsePresentation(value), findings),
    tool: null,
    grant: null,
    standing: null,
    undecidable: null,
  };
}

t.test(
  'the facts feed the decision: malformed and unverified are MD-101, the rest goes on to its own check',
  async (t) => {
    const codeOf = (value: unknown, ctx: string | null, signatureProblem: string | null = null) => {
      const request = { action: null, ctx, escalation_token_given: false, bindable: true };
      const verdict = decide(factsOf(value, signatureProblem), request);
      return verdict.decision === 'deny' ? [verdict.code, verdict.reason_text] : [];
    };
    const { ctx } = INTENT;
    t.same(codeOf({}, ctx), ['MD-101', 'The presentation must have one proof, an object.']);
    const forged = 'The signature does not verify.';
    t.same(codeOf(DOCUMENT, ctx, forged), ['MD-101', forged]);
    const at = (from: number, to: number) =>
      codeOf(createPresentation({ ...INTENT, issued_at_ms: from, expires_at_ms: to }, KEY), ctx)[0];
    t.equal(at(NOW - 600_000, NOW - 400_000), 'MD-102');
    t.equal(at(NOW, NOW + 300_001), 'MD-102');
    t.equal(at(NOW, NOW), 'MD-102');
    const elsewhere = createPresentation({ ...INTENT, verifier: 'acc_01jv9h2n8ke5rvq3s4t6w7x8y8' }, KEY);
    t.equal(codeOf(elsewhere, ctx)[0], 'MD-103');
    t.equal(codeOf(DOCUMENT, `sha-256:${'0'.repeat(64)}`)[0], 'MD-104');
    t.equal(codeOf(DOCUMENT, ctx)[0], 'MD-201', 'all checks of the presentation have passed');
    t.same(factsOf(DOCUMENT, null).presentation, {
      problem: null,
      issued_at_ms: NOW,
      expires_at_ms: NOW + 120_000,
      verifier: INTENT.verifier,
      ctx,
      signer: DID,
      expected_signer: DID,
      nonce_spent: false,
    });
  },
);

t.test('no value whatsoever makes the reader throw', async (t) => {
  const anything = fc.oneof(fc.jsonValue(), fc.anything());
  const near = fc.record({ ...Object.fromEntries(Object.keys(DOCUMENT).map((name) => [name, anything])) });
  const property = fc.property(fc.oneof(anything, near), (value) => {
    assert.notEqual(parsePresentation(value).problem, null);
  });
  fc.assert(property, { numRuns: 1000 });
  t.pass('held');
});
