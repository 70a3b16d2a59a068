import { hash } from 'node:crypto';
import { decodeMultibase, encodeMultibase } from './base58.ts';
import type { SigningKey } from './ed25519.ts';
import { canonicalize, type JsonValue } from './jcs.ts';

/** The members of a JSON object. */
export type Members = { readonly [name: string]: JsonValue };

/** What a proof of this cryptosuite says besides its value; further members are signed as they are. */
export type ProofOptions = {
  readonly type: 'DataIntegrityProof';
  readonly cryptosuite: 'eddsa-jcs-2022';
  readonly created?: string;
  readonly verificationMethod: string;
  readonly proofPurpose: string;
  readonly domain?: string;
  readonly challenge?: string;
};

/** A proof that is well formed: `signature` (64 bytes) is to be verified over `hash_data` (64 bytes). */
export interface ProofToVerify {
  readonly problem: null;
  readonly hash_data: Uint8Array;
  readonly signature: Uint8Array;
  readonly verification_method: string;
  readonly proof_purpose: string;
}

/** The bytes of an Ed25519 signature. */
export const SIGNATURE_BYTES = 64;

/**
 * The 64 bytes that `eddsa-jcs-2022` signs: SHA-256 of the JCS of the proof's options, then that of the document.
 *
 * Throws JcsProblem for what has no canonical form. Source: W3C Data Integrity EdDSA Cryptosuites v1.0 §§3.3.3-3.3.5.
 */
export function hashData(document: Members, proofOptions: Members): Uint8Array {
  return hashDataOfTexts(canonicalize(document), canonicalize(proofOptions));
}

/** As {@link hashData}, of what is JCS text already. */
export function hashDataOfTexts(document: string, proofOptions: string): Uint8Array {
  // By way of hex: a buffer of its own for each hash costs more than the hash.
  return Buffer.from(hash('sha256', proofOptions, 'hex') + hash('sha256', document, 'hex'), 'hex');
}

/**
 * Signs a document: the same members and `proof`, whose options are these and the document's `@context`, if any.
 *
 * Source: W3C Data Integrity EdDSA Cryptosuites v1.0 §3.3.1.
 */
export function addProof<D extends Members, P extends ProofOptions>(
  document: D,
  options: P,
  key: SigningKey,
): D & { readonly proof: P & { readonly proofValue: string } } {
  const context = document['@context'];
  const proof = context === undefined ? options : { ...options, '@context': context };
  const proofValue = encodeMultibase(key.sign(hashData(document, proof)));
  return { ...document, proof: { ...proof, proofValue } };
}

/**
 * Reads the proof of a secured document as far as it can be read without the signer's key.
 *
 * One proof, of this type and cryptosuite. Where it has an `@context`, the document's must start with that, and the
 * document is hashed with that. Whoever calls decides which key and which purpose the proof must name.
 * Source: W3C Data Integrity EdDSA Cryptosuites v1.0 §§3.3.2, 3.3.5.
 */
export function readProof(secured: Members): ProofToVerify | { readonly problem: string } {
  const { proof, ...unsecured } = secured;
  if (!isMembers(proof)) return { problem: 'The document must have one proof, an object.' };
  const { proofValue, ...options } = proof;
  const { type, cryptosuite, created, verificationMethod, proofPurpose } = options;
  if (type !== 'DataIntegrityProof') return { problem: "The proof's type must be DataIntegrityProof." };
  if (cryptosuite !== 'eddsa-jcs-2022') return { problem: "The proof's cryptosuite must be eddsa-jcs-2022." };
  if (created !== undefined && !(typeof created === 'string' && DATE_TIME.test(created))) {
    return { problem: "The proof's created must be a date and time." };
  }
  if (typeof verificationMethod !== 'string') return { problem: "The proof's verificationMethod must be a string." };
  if (typeof proofPurpose !== 'string') return { problem: "The proof's proofPurpose must be a string." };
  const signature = typeof proofValue === 'string' ? decodeMultibase(proofValue, SIGNATURE_BYTES) : null;
  if (signature === null) return { problem: "The proof's proofValue must be z and 64 bytes in base58btc." };
  const context = options['@context'];
  if (context !== undefined && !startsWith(unsecured['@context'], context)) {
    return { problem: "The document's @context must start with that of its proof." };
  }
  const document = context === undefined ? unsecured : { ...unsecured, '@context': context };
  return {
    problem: null,
    hash_data: hashData(document, options),
    signature,
    verification_method: verificationMethod,
    proof_purpose: proofPurpose,
  };
}

/** dateTime of XML Schema 1.1 part 2 §3.3.7, with the years that have four digits. */
const DATE_TIME =
  /^[0-9]{4}-[01][0-9]-[0-3][0-9]T[0-2][0-9]:[0-5][0-9]:[0-5][0-9](?:\.[0-9]{1,9})?(?:Z|[+-][01][0-9]:[0-5][0-9])?$/;

function isMembers(value: JsonValue | undefined): value is Members {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** Whether the first context, a value or a list of them, begins with all values of the second in their order. */
function startsWith(whole: JsonValue | undefined, start: JsonValue): boolean {
  const [all, first] = [listOf(whole), listOf(start)];
  return first.every((value, i) => i < all.length && canonicalize(all[i] as JsonValue) === canonicalize(value));
}

function listOf(value: JsonValue | undefined): readonly JsonValue[] {
  if (value === undefined) return [];
  return Array.isArray(value) ? value : [value as JsonValue];
}
