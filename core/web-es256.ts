import type { PublicJwk } from './jwk.ts';

/**
 * Whether a signature is one of ES256 by this key, with Web Crypto: what Node and browsers both have.
 *
 * False as well where the coordinates are no point of the curve. Source: RFC 7518 §3.4.
 */
export async function verifyEs256({ x, y }: PublicJwk, input: Uint8Array, signature: Uint8Array): Promise<boolean> {
  const { subtle } = globalThis.crypto;
  try {
    const jwk = { kty: 'EC', crv: 'P-256', x, y };
    const key = await subtle.importKey('jwk', jwk, { name: 'ECDSA', namedCurve: 'P-256' }, false, ['verify']);
    return await subtle.verify({ name: 'ECDSA', hash: 'SHA-256' }, key, own(signature), own(input));
  } catch (error) {
    // DataError: what is imported is no key.
    if (error instanceof DOMException) return false;
    throw error;
  }
}

function own(bytes: Uint8Array): Uint8Array<ArrayBuffer> {
  return Uint8Array.from(bytes);
}
