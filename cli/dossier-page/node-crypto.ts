import { sha256 } from '@noble/hashes/sha2.js';
import { bytesToHex } from '@noble/hashes/utils.js';
import { PageBuffer } from './node-buffer.ts';

// What the checker uses of `node:crypto`, in a browser: SHA-256. The rest belongs to functions that the page has no use
// for, which are bundled with those that it has.

/** `crypto.hash` of Node for SHA-256: text is hashed as UTF-8. */
export function hash(algorithm: string, data: string | Uint8Array, encoding: 'hex'): string;
export function hash(algorithm: string, data: string | Uint8Array, encoding: 'buffer'): Uint8Array;
export function hash(algorithm: string, data: string | Uint8Array, encoding: string): string | Uint8Array {
  if (algorithm !== 'sha256') throw new RangeError('the page has SHA-256 only');
  const digest = sha256(typeof data === 'string' ? new TextEncoder().encode(data) : data);
  if (encoding === 'hex') return bytesToHex(digest);
  const buffer = PageBuffer.from(digest);
  return encoding === 'buffer' ? buffer : buffer.toString(encoding);
}

function absent(): never {
  throw new Error('the page signs nothing and makes nothing up');
}

export const randomBytes = absent;
export const sign = absent;
export const verify = absent;
export const createPublicKey = absent;
export const createPrivateKey = absent;
