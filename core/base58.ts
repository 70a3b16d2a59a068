/** base58btc: the alphabet without 0, O, I and l, in the order of its digits. */
const ALPHABET = '123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz';

const DIGIT_OF = new Int8Array(128).fill(-1);
for (let digit = 0; digit < ALPHABET.length; digit++) DIGIT_OF[ALPHABET.charCodeAt(digit)] = digit;

/** log 256 / log 58, rounded up: what one byte takes at most. */
const CHARACTERS_PER_BYTE = 1.3658;

/** A limb of the number that is read, and the digits that surely fit one. */
const LIMB_BYTES = 3;
const LIMB = 2 ** (8 * LIMB_BYTES);
const LIMB_DIGITS = 4;
const ONE = ALPHABET.charCodeAt(0);

/**
 * The base58btc text of `bytes`: one `1` for each leading zero byte, then the rest as one big-endian number.
 *
 * Takes time in the square of the length: for keys and signatures, not for documents.
 * Source: draft-msporny-base58-03, and the alphabet of W3C Controlled Identifiers §2.4 (Multibase).
 */
export function encodeBase58(bytes: Uint8Array): string {
  // Little-endian digits; as many as are in use.
  const digits = new Uint8Array(Math.ceil(bytes.length * CHARACTERS_PER_BYTE));
  let used = 0;
  for (const byte of bytes) {
    let carry = byte;
    for (let i = 0; i < used || carry > 0; i++) {
      carry += (digits[i] as number) << 8;
      digits[i] = carry % 58;
      carry = (carry / 58) | 0;
      if (i === used) used += 1;
    }
  }
  let text = '1'.repeat(leadingZeros(bytes));
  while (used > 0) {
    used -= 1;
    text += ALPHABET.charAt(digits[used] as number);
  }
  return text;
}

/**
 * The bytes that a base58btc text stands for, or null where it is not the text of exactly `length` bytes.
 *
 * Each byte string has one text, and only that is accepted; a text too long for `length` bytes is not even read.
 */
export function decodeBase58(text: string, length: number): Uint8Array | null {
  if (text.length > Math.ceil(length * CHARACTERS_PER_BYTE)) return null;
  // Little-endian limbs; as many as are in use.
  const limbs = new Float64Array(Math.ceil(length / LIMB_BYTES) + 1);
  let used = 0;
  let ones = 0;
  while (ones < text.length && text.charCodeAt(ones) === ONE) ones += 1;
  for (let at = ones; at < text.length; ) {
    // As many digits at once as fit a limb: the product of two limbs and a carry is exact in a double.
    let group = 0;
    let weight = 1;
    for (let n = 0; n < LIMB_DIGITS && at < text.length; n++, at++) {
      const digit = DIGIT_OF[text.charCodeAt(at)] ?? -1;
      if (digit < 0) return null;
      group = group * 58 + digit;
      weight *= 58;
    }
    let carry = group;
    for (let i = 0; i < used || carry > 0; i++) {
      if (i === limbs.length) return null;
      const sum = (limbs[i] as number) * weight + carry;
      carry = Math.floor(sum / LIMB);
      limbs[i] = sum - carry * LIMB;
      if (i === used) used += 1;
    }
  }
  return bytesOf(limbs, ones, length);
}

/** The number as big-endian bytes behind so many zeros, or null where that is not exactly `length` bytes. */
function bytesOf(limbs: Float64Array, zeros: number, length: number): Uint8Array | null {
  const bytes = new Uint8Array(length);
  let first = length;
  for (let i = 0; i < limbs.length * LIMB_BYTES; i++) {
    const byte = ((limbs[Math.floor(i / LIMB_BYTES)] as number) >> ((i % LIMB_BYTES) * 8)) & 0xff;
    if (byte === 0) continue;
    if (i >= length) return null;
    first = length - 1 - i;
    bytes[first] = byte;
  }
  return zeros === first ? bytes : null;
}

/** `z` and the base58btc text: what Multibase calls it. */
export function encodeMultibase(bytes: Uint8Array): string {
  return `z${encodeBase58(bytes)}`;
}

/** The `length` bytes of a Multibase text in base58btc (`z…`), or null where it is anything else. */
export function decodeMultibase(text: string, length: number): Uint8Array | null {
  return text.startsWith('z') ? decodeBase58(text.slice(1), length) : null;
}

function leadingZeros(bytes: Uint8Array): number {
  let at = 0;
  while (at < bytes.length && bytes[at] === 0) at += 1;
  return at;
}
