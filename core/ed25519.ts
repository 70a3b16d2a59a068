import { createPrivateKey, createPublicKey, type KeyObject, randomBytes, sign, verify } from 'node:crypto';
import { Ed25519PublicKey, hasStrictForm, StrictPoint } from './ed25519-rule.ts';

/** A public key whose engine is `node:crypto`; the object that OpenSSL wants is made once. */
export class NativePublicKey extends Ed25519PublicKey {
  readonly #key: KeyObject;

  constructor(strict: StrictPoint) {
    super(strict);
    const x = Buffer.from(strict.bytes).toString('base64url');
    this.#key = createPublicKey({ key: { kty: 'OKP', crv: 'Ed25519', x }, format: 'jwk' });
  }

  /** As `verify`, on the calling thread: for where no event loop is held up by it. */
  verifySync(message: Uint8Array, signature: Uint8Array): boolean {
    return hasStrictForm(signature) && verify(null, message, this.#key, signature);
  }

  // On a thread of libuv's pool; Node takes copies of both before it returns.
  protected override equationHolds(message: Uint8Array, signature: Uint8Array): Promise<boolean> {
    return new Promise((resolve, reject) => {
      verify(null, message, this.#key, signature, (error, holds) => {
        if (error === null) resolve(holds);
        else reject(error);
      });
    });
  }
}

/** Checks the 32 bytes of a public key (about half a millisecond); null where they break the strict rule. */
export function readPublicKey(bytes: Uint8Array): NativePublicKey | null {
  const strict = StrictPoint.of(bytes);
  return strict === null ? null : new NativePublicKey(strict);
}

/** The 32 random bytes that are an Ed25519 private key (RFC 8032 §5.1.5); zeroise them after use. */
export function newSeed(): Buffer {
  return randomBytes(SEED_BYTES);
}

const SEED_BYTES = 32;
/** PKCS #8 of an Ed25519 key up to its seed (RFC 8410 §7). */
const PKCS8_HEAD = Buffer.from('302e020100300506032b657004220420', 'hex');

/** A private key that signs. OpenSSL holds it, and clears its memory once this object is collected. */
export class SigningKey {
  readonly #key: KeyObject;
  readonly #publicKey: Buffer;

  /** Takes the 32 bytes of a seed and keeps none of them; throws RangeError for another length. */
  constructor(seed: Uint8Array) {
    if (seed.length !== SEED_BYTES) throw new RangeError('an Ed25519 private key has 32 bytes');
    const der = Buffer.concat([PKCS8_HEAD, seed]);
    try {
      this.#key = createPrivateKey({ key: der, format: 'der', type: 'pkcs8' });
    } finally {
      der.fill(0);
    }
    this.#publicKey = createPublicKey(this.#key).export({ format: 'der', type: 'spki' }).subarray(-SEED_BYTES);
  }

  /** The 32 bytes of the public key, derived from the private one (never taken from elsewhere). */
  get publicKey(): Uint8Array {
    return Uint8Array.from(this.#publicKey);
  }

  /** The 64 bytes of the signature over `message` (RFC 8032 §5.1.6: the same each time). */
  sign(message: Uint8Array): Uint8Array {
    return sign(null, message, this.#key);
  }
}
