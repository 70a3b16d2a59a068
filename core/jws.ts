import { createPublicKey, hash, type KeyObject, sign, verify } from 'node:crypto';
import { isJsonObject, type JsonObject, parseStrictJson } from './json.ts';
import { JWS_MAX_CHARACTERS } from './limits.ts';

/**
 * Compact JWS with ES256, and nothing else (RFC 7515, RFC 7518 §3.4): what the service signs and checks.
 *
 * node:crypto rather than jose on this way: its signatures are several times cheaper, and a test holds both together.
 */
const ALGORITHM = 'ES256';
const COORDINATE_BYTES = 32;
const SIGNATURE_BYTES = 2 * COORDINATE_BYTES;
const KID = /^[A-Za-z0-9_-]{1,128}$/;

/** The header of what is signed: the token's type and the identifier of the key. */
export interface JwsHeader {
  readonly typ: string;
  readonly kid: string;
}

/** A token that was checked, or why it is none. `payload` is a JSON object, parsed strictly. */
export type JwsReading =
  | { readonly ok: true; readonly kid: string; readonly payload: JsonObject; readonly text: string }
  | { readonly ok: false; readonly problem: string };

/** A public key of a JWKS (RFC 7517); exactly these members. */
export interface PublicJwk {
  readonly kty: 'EC';
  readonly crv: 'P-256';
  readonly x: string;
  readonly y: string;
  readonly kid: string;
  readonly alg: 'ES256';
  readonly use: 'sig';
}

/** Signs JSON text; on the main thread, some 30 µs. */
export function signJws(header: JwsHeader, payload: string, key: KeyObject): string {
  const input = signingInput(header, payload);
  return `${input}.${sign('sha256', Buffer.from(input), { key, dsaEncoding: 'ieee-p1363' }).toString('base64url')}`;
}

/** As {@link signJws}, on a thread of libuv. */
export function signJwsLater(header: JwsHeader, payload: string, key: KeyObject): Promise<string> {
  const input = signingInput(header, payload);
  return new Promise((resolve, reject) => {
    sign('sha256', Buffer.from(input), { key, dsaEncoding: 'ieee-p1363' }, (error, signature) => {
      if (error === null) resolve(`${input}.${signature.toString('base64url')}`);
      else reject(error);
    });
  });
}

function signingInput({ typ, kid }: JwsHeader, payload: string): string {
  const header = JSON.stringify({ alg: ALGORITHM, typ, kid });
  return `${Buffer.from(header).toString('base64url')}.${Buffer.from(payload).toString('base64url')}`;
}

/**
 * Checks a token of this type: its form, then its key, then its signature; never throws for what it is given.
 *
 * The header has exactly `alg`, `typ` and `kid`: `crit`, `jwk`, `jku`, `x5u`, `b64` and whatever else are refused, and
 * the algorithm is not the sender's to choose. Base64url is canonical, so a token has one text. Source: RFC 8725.
 */
export function checkJws(token: string, typ: string, keyOf: (kid: string) => KeyObject | null): JwsReading {
  if (token.length > JWS_MAX_CHARACTERS) return refused('The token is too long.');
  const parts = token.split('.');
  if (parts.length !== 3) return refused('The token does not have three parts.');
  const [head, body, seal] = parts.map(canonicalBytes);
  if (!head || !body || !seal) return refused('A part of the token is not canonical base64url.');
  const header = objectOf(head);
  if (header === null) return refused("The token's header is not a strict JSON object.");
  for (const name of header.keys()) {
    if (name !== 'alg' && name !== 'typ' && name !== 'kid') return refused("The token's header has another member.");
  }
  if (header.get('alg') !== ALGORITHM) return refused(`The token is not signed with ${ALGORITHM}.`);
  if (header.get('typ') !== typ) return refused('The token is of another type.');
  const kid = header.get('kid');
  if (typeof kid !== 'string' || !KID.test(kid)) return refused('The token does not name its key.');
  const key = keyOf(kid);
  if (key === null) return refused('The token names a key that is not known.');
  if (seal.length !== SIGNATURE_BYTES) return refused('The signature has another length.');
  const input = Buffer.from(token.slice(0, token.lastIndexOf('.')));
  if (!verify('sha256', input, { key, dsaEncoding: 'ieee-p1363' }, seal)) return refused('The signature is not valid.');
  const payload = objectOf(body);
  if (payload === null) return refused("The token's payload is not a strict JSON object.");
  return { ok: true, kid, payload, text: body.toString('utf8') };
}

function refused(problem: string): JwsReading {
  return { ok: false, problem };
}

/** The bytes of base64url without padding, or null where the text is not the only one for them. */
function canonicalBytes(text: string): Buffer | null {
  const bytes = Buffer.from(text, 'base64url');
  return bytes.length > 0 && bytes.toString('base64url') === text ? bytes : null;
}

function objectOf(bytes: Buffer): JsonObject | null {
  try {
    const node = parseStrictJson(bytes);
    return isJsonObject(node) ? node : null;
  } catch {
    return null;
  }
}

/** The JWK of a P-256 key, its `kid` the RFC 7638 thumbprint; throws TypeError for any other key. */
export function publicJwk(key: KeyObject): PublicJwk {
  const { kty, crv, x, y } = createPublicKey(
    key.type === 'private' ? key : key.export({ format: 'pem', type: 'spki' }),
  ).export({ format: 'jwk' });
  if (kty !== 'EC' || crv !== 'P-256' || typeof x !== 'string' || typeof y !== 'string') {
    throw new TypeError('an ES256 key is on P-256');
  }
  return { kty, crv, x, y, kid: thumbprint(x, y), alg: ALGORITHM, use: 'sig' };
}

function thumbprint(x: string, y: string): string {
  return hash('sha256', `{"crv":"P-256","kty":"EC","x":"${x}","y":"${y}"}`, 'base64url');
}

/** The public key of a JWK, or null where it is not exactly one that {@link publicJwk} makes. */
export function readPublicJwk(value: unknown): { readonly kid: string; readonly key: KeyObject } | null {
  if (typeof value !== 'object' || value === null) return null;
  const { kty, crv, x, y, kid, alg, use, ...more } = value as Partial<Record<string, unknown>>;
  if (kty !== 'EC' || crv !== 'P-256' || alg !== ALGORITHM || use !== 'sig' || Object.keys(more).length > 0)
    return null;
  if (typeof x !== 'string' || typeof y !== 'string' || kid !== thumbprint(x, y)) return null;
  if (canonicalBytes(x)?.length !== COORDINATE_BYTES || canonicalBytes(y)?.length !== COORDINATE_BYTES) return null;
  try {
    // OpenSSL refuses a point that is not on the curve.
    return { kid, key: createPublicKey({ key: { kty, crv, x, y }, format: 'jwk' }) };
  } catch {
    return null;
  }
}
