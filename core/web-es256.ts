import type { PublicJwk } from './jwk.ts';

/**
 * Whether a signature is one of ES256 by this key, with Web Crypto: what Node and browsers both have.
 *
 * False as well where the coordinates are no point of the curve. Source: RFC 7518 §3.4.
 */
export async function verifyEs256(jwk: PublicJwk, input: Uint8Array, signature: Uint8Array): Promise<boolean> {
  const key = await imported(jwk);
  if (key === null) return false;
  const { subtle } = globalThis.crypto;
  return await subtle.verify({ name: 'ECDSA', hash: 'SHA-256' }, key, own(signature), own(input));
}

type WebKey = Awaited<ReturnType<typeof globalThis.crypto.subtle.importKey>>;

// One key checks three tokens of a dossier.
const known = new WeakMap<PublicJwk, WebKey | null>();

async function imported(jwk: PublicJwk): Promise<WebKey | null> {
  const before = known.get(jwk);
  if (before !== undefined) return before;
  const { kty, crv, x, y } = jwk;
  let key: WebKey | null = null;
  try {
    const { subtle } = globalThis.crypto;
    key = await subtle.importKey('jwk', { kty, crv, x, y }, { name: 'ECDSA', namedCurve: crv }, false, ['verify']);
  } catch (error) {
    // DataError: what is imported is no key.
    if (!(error instanceof DOMException)) throw error;
  }
  known.set(jwk, key);
  return key;
}

function own(bytes: Uint8Array): Uint8Array<ArrayBuffer> {
  return Uint8Array.from(bytes);
}
