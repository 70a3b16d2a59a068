import { randomBytes } from 'node:crypto';

/**
 * TypeIDs: a prefix, `_`, and a UUIDv7 in Crockford base32 (26 lower-case characters).
 *
 * Source: TypeID 0.3.0, RFC 9562 §5.7, contract §1.
 */
export const TYPE_ID_PREFIXES = [
  'acc',
  'mdt',
  'rcp',
  'esc',
  'gwi',
  'tol',
  'key',
  'con',
  'exe',
  'ses',
  'evt',
  'whk',
  'dlv',
  'psk',
] as const;
export type TypeIdPrefix = (typeof TYPE_ID_PREFIXES)[number];
export type TypeId<P extends TypeIdPrefix = TypeIdPrefix> = `${P}_${string}`;

const ALPHABET = '0123456789abcdefghjkmnpqrstvwxyz';
const POOL_IDS = 256;
const RANDOM_BYTES = 10;

let pool = Buffer.alloc(0);
let poolAt = 0;

function fillTail(target: Buffer): void {
  if (poolAt >= pool.length) {
    pool = randomBytes(POOL_IDS * RANDOM_BYTES);
    poolAt = 0;
  }
  for (let i = 0; i < RANDOM_BYTES; i++) target[6 + i] = pool[poolAt + i]!;
  poolAt += RANDOM_BYTES;
}

const bytes = Buffer.alloc(16);

const TIME_END_MS = 2 ** 48;

/**
 * Makes an identifier whose time part is `atMs` (Unix milliseconds); its 74 random bits make it unique, not secret.
 *
 * @throws RangeError where `atMs` is not a whole number of 48 bits
 */
export function newTypeId<P extends TypeIdPrefix>(prefix: P, atMs: number): TypeId<P> {
  if (!Number.isInteger(atMs) || atMs < 0 || atMs >= TIME_END_MS)
    throw new RangeError('a time that no UUIDv7 can hold');
  bytes.writeUIntBE(atMs, 0, 6);
  fillTail(bytes);
  bytes[6] = 0x70 | (bytes[6]! & 0x0f);
  bytes[8] = 0x80 | (bytes[8]! & 0x3f);
  return `${prefix}_${crockford(bytes)}`;
}

function crockford(source: Buffer): string {
  // 128 bits in 26 characters of 5 bits: the first character carries only the top 3 bits.
  let text = ALPHABET[source[0]! >> 5]!;
  let held = source[0]! & 0x1f;
  let bits = 5;
  let next = 1;
  for (let i = 1; i < 26; i++) {
    if (bits < 5) {
      held = (held << 8) | source[next]!;
      next += 1;
      bits += 8;
    }
    bits -= 5;
    text += ALPHABET[(held >> bits) & 0x1f]!;
    held &= (1 << bits) - 1;
  }
  return text;
}

const SUFFIX = /^[0-7][0-9a-hjkmnp-tv-z]{25}$/;

/** Whether `text` is a TypeID with this prefix in its only spelling. */
export function isTypeId<P extends TypeIdPrefix>(text: unknown, prefix: P): text is TypeId<P> {
  return typeof text === 'string' && text.startsWith(`${prefix}_`) && SUFFIX.test(text.slice(prefix.length + 1));
}

/** The time part of a TypeID, in Unix milliseconds: its first 48 bits; NaN where it is none. */
export function typeIdTimeMs(id: string): number {
  const suffix = id.slice(id.indexOf('_') + 1);
  if (!SUFFIX.test(suffix)) return Number.NaN;
  let bits = 0;
  for (let at = 0; at < TIME_CHARACTERS; at++) bits = bits * 32 + ALPHABET.indexOf(suffix.charAt(at));
  return bits;
}

/** Ten characters of five bits are two that are always zero and 48 of time. */
const TIME_CHARACTERS = 10;
