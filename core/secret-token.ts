import { hash, randomBytes, timingSafeEqual } from 'node:crypto';

/**
 * Bearer secrets: a prefix per kind and 32 random bytes in base64url; only their SHA-256 is ever stored (contract §1).
 *
 * `ses` is the session of a signed-in person (CLI and console), which the contract leaves unnamed.
 */
export const SECRET_PREFIXES = ['mak', 'gwt', 'ctk', 'etk', 'ags', 'ses'] as const;
export type SecretPrefix = (typeof SECRET_PREFIXES)[number];

/** Makes a new secret of this kind. */
export function newSecretToken(prefix: SecretPrefix): string {
  return secretTokenOf(prefix, randomBytes(32));
}

/** The text of a secret whose 32 bytes are given. */
export function secretTokenOf(prefix: SecretPrefix, bytes: Buffer): string {
  return `${prefix}_${bytes.toString('base64url')}`;
}

// The last of 43 base64url characters carries 4 bits: only 16 values are canonical.
const BODY = /^[A-Za-z0-9_-]{42}[AEIMQUYcgkosw048]$/;

/** Whether `text` is a well-formed, canonical secret of this kind; it says nothing about it being valid. */
export function isSecretToken(text: unknown, prefix: SecretPrefix): text is string {
  return typeof text === 'string' && text.length === 47 && text.startsWith(`${prefix}_`) && BODY.test(text.slice(4));
}

/** The SHA-256 of a secret's text in lower-case hex: what the database knows of it. */
export function secretHash(token: string): string {
  return hash('sha256', token, 'hex');
}

/** Compares two texts of hashes in constant time; unequal lengths are unequal. */
export function sameHash(a: string, b: string): boolean {
  const left = Buffer.from(a, 'utf8');
  const right = Buffer.from(b, 'utf8');
  return left.length === right.length && timingSafeEqual(left, right);
}
