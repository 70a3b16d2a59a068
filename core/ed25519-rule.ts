import { etc, Point } from '@noble/ed25519';

const KEY_BYTES = 32;
const SIGNATURE_BYTES = 64;

/**
 * A point that may be a public key under the strict rule, and its 32 bytes.
 *
 * The encoding is canonical, and the point is in the subgroup of prime order without being the identity: neither of low
 * order nor with a component of low order. `of` is the only way to get one.
 */
export class StrictPoint {
  readonly bytes: Uint8Array;
  readonly point: Point;

  private constructor(bytes: Uint8Array, point: Point) {
    this.bytes = bytes;
    this.point = point;
  }

  /** Checks the 32 bytes of a public key (about half a millisecond); null where they break the rule. */
  static of(bytes: Uint8Array): StrictPoint | null {
    if (bytes.length !== KEY_BYTES) return null;
    const own = Uint8Array.from(bytes);
    const point = decodePoint(own);
    return point === null || point.isSmallOrder() || !point.isTorsionFree() ? null : new StrictPoint(own, point);
  }
}

function decodePoint(bytes: Uint8Array): Point | null {
  try {
    return Point.fromBytes(bytes, false);
  } catch {
    return null;
  }
}

/**
 * A public key that keeps the strict rule, and the only thing that signatures are verified with, whatever the engine.
 *
 * A signature is accepted where it has 64 bytes, R is canonical and not of low order, S < L, and R is byte for byte
 * [S]B - [k]A (the equation without the cofactor). With keys of prime order nothing is left on which engines differ.
 * Source: RFC 8032 §5.1.7 and contract §3; what engines differ on: Chalkias et al., "Taming the many EdDSAs" (2020).
 */
export abstract class Ed25519PublicKey {
  readonly #bytes: Uint8Array;

  constructor(strict: StrictPoint) {
    this.#bytes = strict.bytes;
  }

  /** A copy of the 32 bytes of the key. */
  toBytes(): Uint8Array {
    return Uint8Array.from(this.#bytes);
  }

  /** Whether `signature` is this key's over `message`; it rejects only where the engine itself fails. */
  async verify(message: Uint8Array, signature: Uint8Array): Promise<boolean> {
    return hasStrictForm(signature) && (await this.equationHolds(message, signature));
  }

  /** Whether R is [S]B - [k]A; called with signatures of strict form only. */
  protected abstract equationHolds(message: Uint8Array, signature: Uint8Array): Promise<boolean>;
}

/** The way from 32 bytes to a key: null where they break the strict rule. Each engine has one. */
export type ReadPublicKey = (bytes: Uint8Array) => Ed25519PublicKey | null;

/** p = 2^255 - 19 and L, the order of the base point, as 32 little-endian bytes (RFC 8032 §5.1). */
const FIELD = littleEndian('7fffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffed');
const ORDER = littleEndian('1000000000000000000000000000000014def9dea2f79cd65812631a5cf5d3ed');

/** The y of the eight points of low order; each but the first two stands for two points. */
const LOW_ORDER_Y = [
  '0000000000000000000000000000000000000000000000000000000000000001',
  '7fffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffec',
  '0000000000000000000000000000000000000000000000000000000000000000',
  '7a03ac9277fdc74ec6cc392cfa53202a0f67100d760b3cba4fd84d3d706a17c7',
  '05fc536d880238b13933c6d305acdfd5f098eff289f4c345b027b2c28f95e826',
].map(littleEndian);

/**
 * Whether the 64 bytes of a signature keep the strict rule as far as can be seen without the key: S < L, the y of R
 * below p, and R none of the eight points of low order in whatever encoding.
 */
export function hasStrictForm(signature: Uint8Array): boolean {
  if (signature.length !== SIGNATURE_BYTES) return false;
  if (!isBelow(signature.subarray(KEY_BYTES), ORDER)) return false;
  const y = Uint8Array.from(signature.subarray(0, KEY_BYTES));
  y[31] = (y[31] as number) & 0x7f;
  return isBelow(y, FIELD) && !LOW_ORDER_Y.some((low) => isSame(y, low));
}

function isBelow(number: Uint8Array, bound: Uint8Array): boolean {
  for (let i = KEY_BYTES - 1; i >= 0; i--) {
    if (number[i] !== bound[i]) return (number[i] as number) < (bound[i] as number);
  }
  return false;
}

function isSame(a: Uint8Array, b: Uint8Array): boolean {
  return a.every((byte, i) => byte === b[i]);
}

function littleEndian(hex: string): Uint8Array {
  return etc.hexToBytes(hex).reverse();
}
