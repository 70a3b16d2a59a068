import { etc, hashes, Point } from '@noble/ed25519';
import { Ed25519PublicKey, StrictPoint } from './ed25519-rule.ts';

/**
 * A public key whose engine is plain JavaScript and Web Crypto's SHA-512: for browsers, where `node:crypto` is not.
 *
 * About ten times slower than `core/ed25519.ts`, and held to the same vectors.
 */
class NoblePublicKey extends Ed25519PublicKey {
  readonly #strict: StrictPoint;

  constructor(strict: StrictPoint) {
    super(strict);
    this.#strict = strict;
  }

  protected override async equationHolds(message: Uint8Array, signature: Uint8Array): Promise<boolean> {
    // Own copies: the caller may write to its buffers while the digest is awaited.
    const r = signature.slice(0, 32);
    const s = numberOf(signature.subarray(32));
    const digest = await hashes.sha512Async(etc.concatBytes(r, this.#strict.bytes, message));
    const k = numberOf(digest) % Point.CURVE().n;
    const expected = Point.BASE.multiply(s, false).subtract(this.#strict.point.multiply(k, false)).toBytes();
    return expected.every((byte, i) => byte === r[i]);
  }
}

/** Checks the 32 bytes of a public key; null where they break the strict rule. */
export function readPublicKeyNoble(bytes: Uint8Array): Ed25519PublicKey | null {
  const strict = StrictPoint.of(bytes);
  return strict === null ? null : new NoblePublicKey(strict);
}

function numberOf(littleEndian: Uint8Array): bigint {
  return BigInt(`0x${etc.bytesToHex(Uint8Array.from(littleEndian).reverse())}`);
}
