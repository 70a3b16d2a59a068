import { type KeyObject, sign, verify } from 'node:crypto';
import { base64urlBytes } from './base64url.ts';
import { isJsonObject, type JsonObject, parseStrictJson } from './json.ts';
import { isP256 } from './jwk.ts';
import { CREDENTIAL_MAX_CHARACTERS, JWS_MAX_CHARACTERS } from './limits.ts';

/**
 * What the service signs, by its type: one kind of token is never another (RFC 8725 §3.11).
 *
 * `cty` is what the payload of that type is, where its specification has it in the header.
 */
const TOKENS = {
  /** The token of a decision (contract §9). */
  'mat+jwt': { cty: null, maxCharacters: JWS_MAX_CHARACTERS },
  /** The seal of a dossier (contract §10, docs/design/0016-dossier.md). */
  'dossier+jwt': { cty: null, maxCharacters: JWS_MAX_CHARACTERS },
  /** A signed tree head of an account's evidence (core/tree-head.ts). */
  'sth+jwt': { cty: null, maxCharacters: JWS_MAX_CHARACTERS },
  /** The receipt of an export of evidence (core/evidence-export.ts). */
  'evidence-export+jwt': { cty: null, maxCharacters: JWS_MAX_CHARACTERS },
  /** A W3C verifiable credential (Securing Verifiable Credentials using JOSE and COSE, §3.1.1). */
  'vc+jwt': { cty: 'vc', maxCharacters: CREDENTIAL_MAX_CHARACTERS },
} as const satisfies Record<string, { readonly cty: string | null; readonly maxCharacters: number }>;
export type JwsType = keyof typeof TOKENS;

/** Why a text is not a token of the service. */
export const JWS_PROBLEMS = {
  too_long: 'The token is longer than any of its type.',
  malformed: 'The token is not three parts of canonical base64url.',
  header: "The token's header is not the strict JSON object with alg, kid and typ that this service writes.",
  algorithm: 'The token is not signed with ES256.',
  type: 'The token is of another type.',
  key_unknown: 'The token names no key of this service.',
  signature: 'The signature is not valid.',
  payload: "The token's payload is not a strict JSON object.",
} as const;
export type JwsProblem = keyof typeof JWS_PROBLEMS;

/** A token that was checked: its payload parsed strictly, and the payload's own text. Or why it is none. */
export type JwsReading =
  | { readonly ok: true; readonly kid: string; readonly payload: JsonObject; readonly text: string }
  | { readonly ok: false; readonly problem: JwsProblem };

/** The header of what is signed: the token's type and the identifier of the key. */
export interface JwsHeader {
  readonly typ: JwsType;
  readonly kid: string;
}

// node:crypto rather than jose: the same signature for a fifth of the time. A test holds the two together.
const ALGORITHM = 'ES256';
const HASH = 'sha256';
/** r and s, 32 bytes each (RFC 7518 §3.4). */
const SIGNATURE_BYTES = 64;
const KID = /^[A-Za-z0-9_-]{1,128}$/;

/** Signs JSON text with a private key on P-256, on the main thread; see {@link signJwsLater}. */
export function signJws(header: JwsHeader, payload: string, key: KeyObject): string {
  const input = signingInput(header, payload);
  return `${input}.${sign(HASH, Buffer.from(input), { key, dsaEncoding: 'ieee-p1363' }).toString('base64url')}`;
}

/** Signs on a thread of libuv: what a process that has other work to do uses. Rejects as {@link signJws} throws. */
export function signJwsLater(header: JwsHeader, payload: string, key: KeyObject): Promise<string> {
  const input = signingInput(header, payload);
  return new Promise((resolve, reject) => {
    sign(HASH, Buffer.from(input), { key, dsaEncoding: 'ieee-p1363' }, (error, signature) => {
      if (error === null) resolve(`${input}.${signature.toString('base64url')}`);
      else reject(error);
    });
  });
}

function signingInput({ typ, kid }: JwsHeader, payload: string): string {
  const { cty } = TOKENS[typ];
  const header = JSON.stringify(cty === null ? { alg: ALGORITHM, kid, typ } : { alg: ALGORITHM, cty, kid, typ });
  return `${Buffer.from(header).toString('base64url')}.${Buffer.from(payload).toString('base64url')}`;
}

/**
 * Checks a compact JWS of this type: form, header, key, signature, payload, in this order; it never throws.
 *
 * The algorithm is ES256 whatever the header asks for, and the header has the members that {@link signJws} writes and
 * no other: `crit`, `jwk`, `jku`, `x5c`, `x5u`, `b64` and unknown ones are refused. Parts are canonical base64url, so
 * nothing but the signature's two forms (r, s) and (r, n - s) is another text of the same token: its text is not its
 * identity. Who it is for and until when is the reader's of its claims. Source: RFC 7515 §5.2, RFC 8725, contract §9.
 */
export function checkJws(token: string, typ: JwsType, keyOf: (kid: string) => KeyObject | null): JwsReading {
  const parts = readJwsParts(token, typ);
  if (!parts.ok) return parts;
  const key = keyOf(parts.kid);
  if (key === null || !isP256(key)) return refused('key_unknown');
  return isEs256(parts.input, parts.signature, key) ? readingOf(parts) : refused('signature');
}

/**
 * As {@link checkJws}, with an engine that takes its time: it tells whether the signature holds, null for no such key.
 *
 * For Web Crypto, which browsers have as well.
 */
export async function checkJwsWith(
  token: string,
  typ: JwsType,
  verifies: (kid: string, input: Uint8Array, signature: Uint8Array) => Promise<boolean | null>,
): Promise<JwsReading> {
  const parts = readJwsParts(token, typ);
  if (!parts.ok) return parts;
  const holds = await verifies(parts.kid, parts.input, parts.signature);
  if (holds === null) return refused('key_unknown');
  return holds ? readingOf(parts) : refused('signature');
}

interface JwsParts {
  readonly ok: true;
  readonly kid: string;
  readonly input: Uint8Array;
  readonly signature: Uint8Array;
  readonly body: Uint8Array;
}

/** The parts of a token of this type, before anybody looks at its signature. */
function readJwsParts(token: string, typ: JwsType): JwsParts | (JwsReading & { readonly ok: false }) {
  const { cty, maxCharacters } = TOKENS[typ];
  if (token.length > maxCharacters) return refused('too_long');
  const parts = token.split('.', 4);
  const [head, body, signature] = parts.map(base64urlBytes);
  if (parts.length !== 3 || !head || !body || !signature) return refused('malformed');
  const header = objectOf(head);
  if (header === null) return refused('header');
  if (header.get('alg') !== ALGORITHM) return refused('algorithm');
  if (header.get('typ') !== typ) return refused('type');
  const kid = header.get('kid');
  if (typeof kid !== 'string' || !KID.test(kid)) return refused('key_unknown');
  if (header.size !== (cty === null ? 3 : 4) || (cty !== null && header.get('cty') !== cty)) return refused('header');
  // All three parts are base64url by now, so that one unit is one byte.
  const input = new TextEncoder().encode(token.slice(0, token.lastIndexOf('.')));
  return { ok: true, kid, input, signature, body };
}

function readingOf({ kid, body }: JwsParts): JwsReading {
  const payload = objectOf(body);
  if (payload === null) return refused('payload');
  return { ok: true, kid, payload, text: new TextDecoder().decode(body) };
}

/** Whether `signature` (r and s in 32 bytes each, both in 1..n-1) is one of ES256 over `input`. */
export function isEs256(input: Uint8Array, signature: Uint8Array, key: KeyObject): boolean {
  if (signature.length !== SIGNATURE_BYTES) return false;
  return verify(HASH, input, { key, dsaEncoding: 'ieee-p1363' }, signature);
}

function refused(problem: JwsProblem): JwsReading & { readonly ok: false } {
  return { ok: false, problem };
}

function objectOf(bytes: Uint8Array): JsonObject | null {
  try {
    const node = parseStrictJson(bytes);
    return isJsonObject(node) ? node : null;
  } catch {
    return null;
  }
}
