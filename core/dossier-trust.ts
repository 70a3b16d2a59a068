import { z } from 'zod';
import { readTrustAnchors, type X509 } from './certificate.ts';
import { plainValue } from './dossier.ts';
import { isJsonObject, type JsonNode, parseStrictJson } from './json.ts';
import { type PublicJwk, readJwksMembers } from './jwk.ts';
import { TRUST_FILE_MAX_BYTES, TRUST_KEYS_MAX } from './limits.ts';
import { NOTE_SIGNATURE, readVerifierKey, type VerifierKey } from './signed-note.ts';

/** What the one who checks trusts, from elsewhere than the file that is checked. */
export interface Trust {
  /** The service's ES256 keys by `kid`; null: none is pinned. */
  readonly keys: ReadonlyMap<string, PublicJwk> | null;
  /** The Ed25519 keys of logs (their checkpoints' own signatures) and of witnesses. */
  readonly logs: readonly VerifierKey[];
  readonly witnesses: readonly VerifierKey[];
  /** The certificates that timestamping authorities are issued under. */
  readonly authorities: readonly X509[];
}

/** Nothing pinned at all. */
export const NO_TRUST: Trust = { keys: null, logs: [], witnesses: [], authorities: [] };

/** What was read of a file of keys, or in one sentence why it is none. */
export type TrustReading =
  | { readonly ok: true; readonly trust: Trust }
  | { readonly ok: false; readonly problem: string };

const keyTexts = z.array(z.string().max(1024)).max(TRUST_KEYS_MAX).default([]);

const trustFile = z.strictObject({
  trust_version: z.literal(1),
  jwks: z.unknown().optional(),
  logs: keyTexts,
  witnesses: keyTexts,
  tsa_certificates: z.array(z.string().max(TRUST_FILE_MAX_BYTES)).max(TRUST_KEYS_MAX).default([]),
});

/** Reads a pinned JWKS: all of it is understood, or none of it is used. */
export function readPinnedJwks(bytes: Uint8Array): TrustReading {
  const node = parsed(bytes);
  const keys = node === undefined ? null : readJwksMembers(node);
  if (keys === null || keys.size === 0) return refused('It is not a JWKS of ES256 keys, as the service publishes one.');
  return { ok: true, trust: { ...NO_TRUST, keys } };
}

/**
 * Reads a trust file: `{"trust_version": 1, "jwks"?, "logs"?, "witnesses"?, "tsa_certificates"?}`.
 *
 * `logs` and `witnesses` are C2SP verifier keys (`name+id+base64`), `tsa_certificates` PEM texts.
 */
export function readTrustFile(bytes: Uint8Array): TrustReading {
  const node = parsed(bytes);
  if (node === undefined) return refused('It is not strict JSON, or larger than a trust file may be.');
  const file = trustFile.safeParse(plainValue(node));
  if (!file.success) {
    const [issue] = file.error.issues;
    return refused(`It is not a trust file: ${issue?.path.join('.') || 'the document'}: ${issue?.message}.`);
  }
  const jwks = isJsonObject(node) ? node.get('jwks') : undefined;
  const keys = jwks === undefined ? null : readJwksMembers(jwks);
  if (jwks !== undefined && (keys === null || keys.size === 0)) return refused('Its jwks is not a JWKS of ES256 keys.');
  const logs = verifierKeys(file.data.logs, NOTE_SIGNATURE.ed25519);
  if (logs === null) return refused('One of its logs is not the verifier key of a log (name+id+base64).');
  const witnesses = verifierKeys(file.data.witnesses, NOTE_SIGNATURE.cosignature);
  if (witnesses === null) return refused('One of its witnesses is not the verifier key of a witness (name+id+base64).');
  try {
    const authorities = file.data.tsa_certificates.flatMap((pem) => [...readTrustAnchors(pem)]);
    return { ok: true, trust: { keys, logs, witnesses, authorities } };
  } catch {
    return refused('One of its tsa_certificates is not a certificate in PEM.');
  }
}

/** Reads either of them: a trust file says which version it is of. */
export function readPinned(bytes: Uint8Array): TrustReading {
  const node = parsed(bytes);
  return isJsonObject(node) && node.has('trust_version') ? readTrustFile(bytes) : readPinnedJwks(bytes);
}

/** What two files pin together: a `kid` is a thumbprint, so that it has one key only. */
export function bothTrusted(one: Trust, other: Trust): Trust {
  const keys = new Map([...(one.keys ?? []), ...(other.keys ?? [])]);
  return {
    keys: one.keys === null && other.keys === null ? null : keys,
    logs: [...one.logs, ...other.logs],
    witnesses: [...one.witnesses, ...other.witnesses],
    authorities: [...one.authorities, ...other.authorities],
  };
}

function verifierKeys(texts: readonly string[], type: VerifierKey['type']): VerifierKey[] | null {
  const keys = texts.map(readVerifierKey);
  return keys.every((key) => key !== null && key.type === type) ? (keys as VerifierKey[]) : null;
}

function parsed(bytes: Uint8Array): JsonNode | undefined {
  if (bytes.length > TRUST_FILE_MAX_BYTES) return undefined;
  try {
    return parseStrictJson(bytes);
  } catch {
    return undefined;
  }
}

function refused(problem: string): TrustReading {
  return { ok: false, problem };
}
