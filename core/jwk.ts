import { createPublicKey, hash, type KeyObject } from 'node:crypto';
import { isCanonicalBase64url } from './base64url.ts';
import { isJsonObject, type JsonNode, type JsonObject, parseStrictJson } from './json.ts';

/** The public key of ES256 as the service publishes it: exactly these members (RFC 7517, RFC 7518 §6.2). */
export interface PublicJwk {
  readonly kty: 'EC';
  readonly crv: 'P-256';
  readonly x: string;
  readonly y: string;
  readonly kid: string;
  readonly alg: 'ES256';
  readonly use: 'sig';
}

/** A key that was read: `kid` is its thumbprint. */
export interface ReadKey {
  readonly kid: string;
  readonly key: KeyObject;
}

/** 32 bytes have 43 characters of base64url. */
const COORDINATE_CHARACTERS = 43;
const MEMBERS: ReadonlySet<string> = new Set(['kty', 'crv', 'x', 'y', 'kid', 'alg', 'use']);

/** The JWK of a P-256 key, public or private; throws TypeError for any other key. */
export function publicJwk(key: KeyObject): PublicJwk {
  const publicKey = key.type === 'private' ? createPublicKey(key) : key;
  if (!isP256(publicKey)) throw new TypeError('a key of ES256 is on P-256');
  const { x, y } = publicKey.export({ format: 'jwk' });
  if (x === undefined || y === undefined) throw new TypeError('a key on P-256 has two coordinates');
  return { kty: 'EC', crv: 'P-256', x, y, kid: thumbprint(x, y), alg: 'ES256', use: 'sig' };
}

/** Whether a key is one on P-256, which is what ES256 is for. */
export function isP256(key: KeyObject): boolean {
  return key.asymmetricKeyType === 'ec' && key.asymmetricKeyDetails?.namedCurve === 'prime256v1';
}

/** The thumbprint of a P-256 key in base64url (RFC 7638 §3.2). */
function thumbprint(x: string, y: string): string {
  return hash('sha256', `{"crv":"P-256","kty":"EC","x":"${x}","y":"${y}"}`, 'base64url');
}

/**
 * The members of a JWK, or null where they are not what {@link publicJwk} could have made.
 *
 * Every member is there and no other, so nothing private either; coordinates have their full length and one spelling;
 * `kid` is the thumbprint, so that a key cannot be published under the name of another. Whether the point is on the
 * curve is for the engine to say that imports it.
 */
export function readJwkMembers(jwk: JsonObject): PublicJwk | null {
  if (jwk.size !== MEMBERS.size || !jwk.keys().every((name) => MEMBERS.has(name))) return null;
  if (jwk.get('kty') !== 'EC' || jwk.get('crv') !== 'P-256') return null;
  if (jwk.get('alg') !== 'ES256' || jwk.get('use') !== 'sig') return null;
  const [x, y] = [jwk.get('x'), jwk.get('y')];
  if (!isCoordinate(x) || !isCoordinate(y)) return null;
  const kid = thumbprint(x, y);
  return jwk.get('kid') === kid ? { kty: 'EC', crv: 'P-256', x, y, kid, alg: 'ES256', use: 'sig' } : null;
}

/** The key in a JWK, or null where it is not one that {@link publicJwk} could have made: its point is on the curve. */
export function readPublicJwk(jwk: JsonObject): ReadKey | null {
  const members = readJwkMembers(jwk);
  if (members === null) return null;
  const { kty, crv, x, y, kid } = members;
  try {
    // OpenSSL refuses coordinates that are not below the prime, and points that are not on the curve.
    return { kid, key: createPublicKey({ key: { kty, crv, x, y }, format: 'jwk' }) };
  } catch {
    return null;
  }
}

function isCoordinate(node: JsonNode | undefined): node is string {
  return typeof node === 'string' && node.length === COORDINATE_CHARACTERS && isCanonicalBase64url(node);
}

/**
 * The keys of a JWKS by their `kid`, or null where one of them is not to be read, or a `kid` occurs twice.
 *
 * A set that is not understood as a whole is not used in part. Source: RFC 7517 §5.
 */
export function readJwks(bytes: Uint8Array): ReadonlyMap<string, KeyObject> | null {
  return keySet(parsed(bytes), (jwk) => readPublicJwk(jwk)?.key ?? null);
}

/** The same of a set that was parsed already, as members for an engine to import: nothing says yet that it can. */
export function readJwksMembers(set: JsonNode): ReadonlyMap<string, PublicJwk> | null {
  return keySet(set, readJwkMembers);
}

function keySet<K>(set: JsonNode, read: (jwk: JsonObject) => K | null): Map<string, K> | null {
  const list = isJsonObject(set) && set.size === 1 ? set.get('keys') : null;
  if (!Array.isArray(list)) return null;
  const keys = new Map<string, K>();
  for (const jwk of list as readonly JsonNode[]) {
    const key = isJsonObject(jwk) ? read(jwk) : null;
    const kid = isJsonObject(jwk) ? jwk.get('kid') : null;
    if (key === null || typeof kid !== 'string' || keys.has(kid)) return null;
    keys.set(kid, key);
  }
  return keys;
}

function parsed(bytes: Uint8Array): JsonNode {
  try {
    return parseStrictJson(bytes);
  } catch {
    return null;
  }
}
