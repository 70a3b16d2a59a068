import { hash, randomBytes } from 'node:crypto';
import { isContextDigest } from './action.ts';
import type { AgentKeys } from './agent-keys.ts';
import { decodeMultibase } from './base58.ts';
import { addProof, hashDataOfTexts, SIGNATURE_BYTES } from './data-integrity.ts';
import type { PresentationFacts } from './decide.ts';
import { type DidKey, didOfVerificationMethod, formatDidKey, verificationMethodOf } from './did-key.ts';
import type { SigningKey } from './ed25519.ts';
import { canonicalize } from './jcs.ts';
import { echoName } from './json.ts';
import { NONCE_MAX_CHARACTERS, NONCE_MIN_CHARACTERS } from './limits.ts';
import { parseTimestamp } from './timestamp.ts';
import { isTypeId, type TypeId } from './type-id.ts';

/** The proof of a presentation; exactly these members. */
export type PresentationProof = {
  readonly type: 'DataIntegrityProof';
  readonly cryptosuite: 'eddsa-jcs-2022';
  readonly created: string;
  readonly verificationMethod: string;
  readonly proofPurpose: 'authentication';
  readonly domain: string;
  readonly challenge: string;
  readonly proofValue: string;
};

/** What an agent signs, without its proof; exactly these members. */
export type PresentationClaims = {
  readonly type: 'MandatePresentation';
  readonly mandate_id: TypeId<'mdt'>;
  readonly verifier: TypeId<'acc'>;
  readonly ctx: string | null;
  readonly nonce: string;
  readonly issued_at: string;
  readonly expires_at: string;
};

/** A presentation as it travels (contract §3). Times are RFC 3339 UTC, `ctx` is null only in the sandbox. */
export type PresentationDocument = PresentationClaims & { readonly proof: PresentationProof };

/**
 * A presentation that is well formed, its signature not yet verified.
 *
 * `document` is the JCS text of all of it, its proof included; times are Unix milliseconds; `hash_data` (64 bytes) is
 * what `signature` (64 bytes) must sign with the key of `signer`.
 */
export interface Presentation {
  readonly problem: null;
  readonly document: string;
  readonly mandate_id: TypeId<'mdt'>;
  readonly verifier: TypeId<'acc'>;
  readonly ctx: string | null;
  readonly nonce: string;
  readonly issued_at_ms: number;
  readonly expires_at_ms: number;
  readonly signer: DidKey;
  readonly hash_data: Uint8Array;
  readonly signature: Uint8Array;
}

/** Why something is not a presentation, in one sentence that may be answered (MD-101). */
export interface MalformedPresentation {
  readonly problem: string;
}

/** What to sign; times are Unix milliseconds. Without `nonce` a new one is made. */
export interface PresentationIntent {
  readonly mandate_id: TypeId<'mdt'>;
  readonly verifier: TypeId<'acc'>;
  readonly ctx: string | null;
  readonly nonce?: string;
  readonly issued_at_ms: number;
  readonly expires_at_ms: number;
}

const NONCE_BYTES = 16;

/** A new nonce: 16 random bytes in base64url. */
export function newNonce(): string {
  return randomBytes(NONCE_BYTES).toString('base64url');
}

/**
 * Makes and signs a presentation; its proof is `created` when it is issued.
 *
 * Throws RangeError where `parsePresentation` would refuse the result; the window's length is not looked at.
 */
export function createPresentation(intent: PresentationIntent, key: SigningKey): PresentationDocument {
  const { mandate_id, verifier, ctx, nonce = newNonce() } = intent;
  const issued_at = new Date(intent.issued_at_ms).toISOString();
  const expires_at = new Date(intent.expires_at_ms).toISOString();
  const claims = { type: 'MandatePresentation', mandate_id, verifier, ctx, nonce, issued_at, expires_at } as const;
  const options = {
    type: 'DataIntegrityProof',
    cryptosuite: 'eddsa-jcs-2022',
    created: issued_at,
    verificationMethod: verificationMethodOf(formatDidKey(key.publicKey)),
    proofPurpose: 'authentication',
    domain: verifier,
    challenge: nonce,
  } as const;
  const document = addProof(claims, options, key);
  const { problem } = parsePresentation(document);
  if (problem !== null) throw new RangeError(problem);
  return document;
}

/** What a member must be: in words, and as a check. Those that are read besides are checked where they are read. */
type Rule = readonly [must: string, holds: (text: string) => boolean];

const NONCE = new RegExp(`^[A-Za-z0-9_-]{${NONCE_MIN_CHARACTERS},${NONCE_MAX_CHARACTERS}}$`);
const TIME = 'an RFC 3339 timestamp in UTC that ends in Z, with at most 9 digits of fraction';
const METHOD = 'the did:key of an Ed25519 key, # and the key again';
const isText = (): boolean => true;

const CLAIMS: ReadonlyMap<string, Rule> = new Map<keyof PresentationClaims, Rule>([
  ['type', exactly('MandatePresentation')],
  ['mandate_id', ["a mandate's identifier (mdt_…)", (text) => isTypeId(text, 'mdt')]],
  ['verifier', ["an account's identifier (acc_…)", (text) => isTypeId(text, 'acc')]],
  ['ctx', ['sha-256: and 64 digits of lower-case hex, or null', isContextDigest]],
  [
    'nonce',
    [
      `${NONCE_MIN_CHARACTERS} to ${NONCE_MAX_CHARACTERS} characters of A-Z a-z 0-9 - _ (16 random bytes or more)`,
      (text) => NONCE.test(text),
    ],
  ],
  ['issued_at', [TIME, isText]],
  ['expires_at', [TIME, isText]],
]);

const PROOF: ReadonlyMap<string, Rule> = new Map<keyof PresentationProof, Rule>([
  ['type', exactly('DataIntegrityProof')],
  ['cryptosuite', exactly('eddsa-jcs-2022')],
  ['created', [TIME, (text) => parseTimestamp(text) !== null]],
  ['verificationMethod', [METHOD, isText]],
  ['proofPurpose', exactly('authentication')],
  ['domain', ['the verifier again', isText]],
  ['challenge', ['the nonce again', isText]],
  ['proofValue', ['z and 64 bytes in base58btc', isText]],
]);

function exactly(value: string): Rule {
  return [value, (text) => text === value];
}

/**
 * Reads a presentation, of the strict JSON tree or as a plain value, and refuses whatever is not exactly one.
 *
 * Every member is required and no other is accepted, in the proof neither, so that nothing rides along that nobody
 * reads. That goes for `@context` too: `eddsa-jcs-2022` copies the document's into the proof, and this one has none.
 * Times are read, not judged: the window is MD-102. `signerOf` is for those who remember what verification methods
 * stand for. Never throws for what it is given; source: contract §3.
 */
export function parsePresentation(value: unknown, signerOf: SignerOf = didOfVerificationMethod): PresentationReading {
  const outer = membersOf(value);
  if (outer === null) return malformed('The presentation must be a JSON object.');
  const inner = membersOf(outer.get('proof'));
  if (inner === null) return malformed('The presentation must have one proof, an object.');
  const wrong =
    problemOf('presentation', outer, CLAIMS, 'proof') ??
    problemOf('proof', inner, PROOF) ??
    (inner.get('domain') === outer.get('verifier') ? null : mustBe('proof', 'domain', 'the verifier again')) ??
    (inner.get('challenge') === outer.get('nonce') ? null : mustBe('proof', 'challenge', 'the nonce again'));
  if (wrong !== null) return malformed(wrong);
  return readMembers(outer, inner, signerOf);
}

/** The `did:key` that a verification method belongs to, or null where it is none. */
export type SignerOf = (method: string) => DidKey | null;

/** What reading a presentation comes to. */
export type PresentationReading = Presentation | MalformedPresentation;

/** Members that have kept their rules: strings, `ctx` null or a string. */
type ReadMembers = ReadonlyMap<string, unknown>;

function readMembers(outer: ReadMembers, inner: ReadMembers, signerOf: SignerOf): PresentationReading {
  const claim = <N extends keyof PresentationClaims>(name: N) => outer.get(name) as PresentationClaims[N];
  const issuedAt = parseTimestamp(claim('issued_at'));
  if (issuedAt === null) return malformed(mustBe('presentation', 'issued_at', TIME));
  const expiresAt = parseTimestamp(claim('expires_at'));
  if (expiresAt === null) return malformed(mustBe('presentation', 'expires_at', TIME));
  const signer = signerOf(inner.get('verificationMethod') as string);
  if (signer === null) return malformed(mustBe('proof', 'verificationMethod', METHOD));
  const signature = decodeMultibase(inner.get('proofValue') as string, SIGNATURE_BYTES);
  if (signature === null) return malformed(mustBe('proof', 'proofValue', 'z and 64 bytes in base58btc'));
  const { unsecured, options, secured } = canonicalTexts(outer, inner);
  return {
    problem: null,
    document: secured,
    mandate_id: claim('mandate_id'),
    verifier: claim('verifier'),
    ctx: claim('ctx'),
    nonce: claim('nonce'),
    issued_at_ms: issuedAt,
    expires_at_ms: expiresAt,
    signer,
    hash_data: hashDataOfTexts(unsecured, options),
    signature,
  };
}

/**
 * The JCS texts of a presentation without its proof, of the proof's options, and of all of it.
 *
 * Written out in JCS order instead of canonicalising objects, because it runs once a request (a test holds it to
 * `canonicalize`). Nothing is escaped: no member that kept its rule can hold a character that JSON would.
 */
function canonicalTexts(outer: ReadMembers, inner: ReadMembers) {
  const ctx = outer.get('ctx');
  const start =
    `{"ctx":${ctx === null ? 'null' : `"${ctx}"`},"expires_at":"${outer.get('expires_at')}",` +
    `"issued_at":"${outer.get('issued_at')}","mandate_id":"${outer.get('mandate_id')}","nonce":"${outer.get('nonce')}"`;
  const end = `,"type":"${outer.get('type')}","verifier":"${outer.get('verifier')}"}`;
  const optionsStart =
    `{"challenge":"${inner.get('challenge')}","created":"${inner.get('created')}",` +
    `"cryptosuite":"${inner.get('cryptosuite')}","domain":"${inner.get('domain')}",` +
    `"proofPurpose":"${inner.get('proofPurpose')}"`;
  const optionsEnd = `,"type":"${inner.get('type')}","verificationMethod":"${inner.get('verificationMethod')}"}`;
  return {
    unsecured: start + end,
    options: optionsStart + optionsEnd,
    secured: `${start},"proof":${optionsStart},"proofValue":"${inner.get('proofValue')}"${optionsEnd}${end}`,
  };
}

/**
 * Verifies the signature of a presentation with the key that it names: null where it holds, else why not (MD-101).
 *
 * On the calling thread: another one would be woken, and wake this one, for a quarter of what a signature costs. Whose
 * key that is, is another question (MD-202). Throws only where the engine itself fails: then nothing is known.
 */
export function verifyPresentation(presentation: Presentation, keys: AgentKeys): string | null {
  const key = keys.get(presentation.signer);
  if (key === null) return "The signer's key is not an acceptable Ed25519 key.";
  return key.verifySync(presentation.hash_data, presentation.signature) ? null : 'The signature does not verify.';
}

/** `sha-256:` and the hex SHA-256 of the JCS of the whole presentation, its proof included: how evidence names it. */
export function presentationDigest(document: PresentationDocument): string {
  return `sha-256:${hash('sha256', canonicalize(document), 'hex')}`;
}

/** What was found out about a presentation by asking: the agent of its mandate, and whether its nonce is spent. */
export interface PresentationFindings {
  readonly signature_problem: string | null;
  readonly expected_signer: string | null;
  readonly nonce_spent: boolean;
}

/** What `decide` looks at of a well-formed presentation; times are Unix milliseconds. */
export type PresentedClaims = Pick<
  PresentationFacts,
  'issued_at_ms' | 'expires_at_ms' | 'verifier' | 'ctx' | 'signer'
> & { readonly problem: null };

/** The facts that `decide` takes. One that is malformed has no claims, and `decide` looks at none. */
export function presentationFacts(
  presentation: PresentedClaims | MalformedPresentation,
  { signature_problem, expected_signer, nonce_spent }: PresentationFindings,
): PresentationFacts {
  if (presentation.problem !== null) {
    const nothing = { issued_at_ms: 0, expires_at_ms: 0, verifier: '', ctx: null, signer: '' };
    return { problem: presentation.problem, ...nothing, expected_signer, nonce_spent };
  }
  const { issued_at_ms, expires_at_ms, verifier, ctx, signer } = presentation;
  return {
    problem: signature_problem,
    issued_at_ms,
    expires_at_ms,
    verifier,
    ctx,
    signer,
    expected_signer,
    nonce_spent,
  };
}

function malformed(problem: string): MalformedPresentation {
  return { problem };
}

function mustBe(what: string, name: string, must: string): string {
  return `The ${what}'s ${name} must be ${must}.`;
}

/** The members of an object in either form, or null for what is none; a number of the strict tree is none. */
function membersOf(value: unknown): ReadonlyMap<string, unknown> | null {
  if (value instanceof Map) return value;
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return null;
  const members = new Map<string, unknown>(Object.entries(value));
  return members.get('kind') === 'number' ? null : members;
}

/** The first thing that is wrong with an object, or null; `besides` is a member that others look at. */
function problemOf(
  what: string,
  members: ReadonlyMap<string, unknown>,
  rules: ReadonlyMap<string, Rule>,
  besides?: string,
): string | null {
  for (const name of members.keys()) {
    if (name === '@context') return `The ${what} must have no @context: it is not a JSON-LD document.`;
    if (name !== besides && !rules.has(name)) return `The ${what} must have no member ${echoName(name)}.`;
  }
  for (const [name, [must, holds]] of rules) {
    const value = members.get(name);
    if (value === null && name === 'ctx') continue;
    if (typeof value !== 'string' || !holds(value)) return mustBe(what, name, must);
  }
  return null;
}
