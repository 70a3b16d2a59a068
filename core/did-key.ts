import { decodeMultibase, encodeMultibase } from './base58.ts';

/** An Ed25519 `did:key` in its only spelling. */
export type DidKey = `did:key:z6Mk${string}`;

const SCHEME = 'did:key:';
/** The multicodec of an Ed25519 public key, 0xed, as an unsigned varint. */
const ED25519_CODEC = [0xed, 0x01] as const;
/** The codec and 32 bytes of key; all of them take the same number of characters, since none starts with a zero. */
const KEY_BYTES = 34;
const DID_CHARACTERS = 56;

/**
 * The 32 bytes of key that an Ed25519 `did:key` stands for, or null.
 *
 * Only the exact text that `formatDidKey` would write: no other key type, base or case, no parameters, path, query or
 * fragment. Whether the bytes are an acceptable key is another question (`core/ed25519.ts`).
 * Source: did:key method v0.9 §3, W3C Controlled Identifiers §2.4, multicodec table.
 */
export function parseDidKey(text: string): Uint8Array | null {
  if (text.length !== DID_CHARACTERS || !text.startsWith(SCHEME)) return null;
  const bytes = decodeMultibase(text.slice(SCHEME.length), KEY_BYTES);
  const key = bytes?.subarray(ED25519_CODEC.length);
  // Another codec before these 32 bytes is another text.
  return key !== undefined && formatDidKey(key) === text ? key : null;
}

/** Whether `text` is an Ed25519 `did:key` in its only spelling; it says nothing about the key being acceptable. */
export function isDidKey(text: string): text is DidKey {
  return parseDidKey(text) !== null;
}

/** The `did:key` of 32 bytes of Ed25519 public key; throws RangeError for another length. */
export function formatDidKey(key: Uint8Array): DidKey {
  if (key.length !== KEY_BYTES - ED25519_CODEC.length) throw new RangeError('an Ed25519 public key has 32 bytes');
  return `${SCHEME}${encodeMultibase(Uint8Array.of(...ED25519_CODEC, ...key))}` as DidKey;
}

/** The verification method of a `did:key`, which has exactly one: `did:key:z6Mk…#z6Mk…`. */
export function verificationMethodOf(did: DidKey): string {
  return `${did}#${did.slice(SCHEME.length)}`;
}

/** The `did:key` whose verification method this is, or null where it is not one in its only spelling. */
export function didOfVerificationMethod(text: string): DidKey | null {
  const did = text.slice(0, DID_CHARACTERS);
  return isDidKey(did) && verificationMethodOf(did) === text ? did : null;
}
