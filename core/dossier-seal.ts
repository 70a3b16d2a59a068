import { hash } from 'node:crypto';
import { z } from 'zod';
import { bodyValue, decimalText } from './body-value.ts';
import type { Dossier } from './dossier.ts';
import { canonicalize, type JsonValue } from './jcs.ts';
import type { JsonObject } from './json.ts';
import { isTypeId } from './type-id.ts';

/** The type of a seal's header. */
export const SEAL_TYPE = 'dossier+jwt';

/** A dossier before it is sealed. */
export type UnsealedDossier = Omit<Dossier, 'seal'>;

/** What a seal states: whose dossier, of which receipt, made when (seconds since 1970), and its digest. */
export interface Seal {
  readonly issuer: string;
  readonly receiptId: string;
  readonly accountId: string;
  readonly issuedAtS: number;
  readonly digest: string;
}

/** `sha-256:` and the hex SHA-256 of the JCS of a dossier without its seal. */
export function dossierDigest(dossier: UnsealedDossier | Dossier): string {
  const { seal: _, ...unsealed } = dossier as Dossier;
  return `sha-256:${hash('sha256', canonicalize(unsealed as unknown as JsonValue), 'hex')}`;
}

/** The JSON text of a seal's claims; the clock is that of whoever seals. */
export function sealClaims(dossier: UnsealedDossier, atMs: number): string {
  const { issuer: iss, receipt } = dossier;
  const { receipt_id: sub, account: aud } = receipt;
  return JSON.stringify({ iss, sub, aud, iat: Math.floor(atMs / 1000), digest: dossierDigest(dossier) });
}

const claims = z.strictObject({
  iss: z.url({ protocol: /^https?$/ }),
  sub: z.string().refine((text) => isTypeId(text, 'rcp')),
  aud: z.string().refine((text) => isTypeId(text, 'acc')),
  iat: decimalText.refine(({ text }) => /^(?:0|[1-9][0-9]{0,12})$/.test(text)).transform(({ text }) => Number(text)),
  digest: z.string().regex(/^sha-256:[0-9a-f]{64}$/),
});

/** The seal in the payload of a token that was accepted as SEAL_TYPE, or null where that states none. */
export function readSeal(payload: JsonObject): Seal | null {
  const parsed = claims.safeParse(bodyValue(payload));
  if (!parsed.success) return null;
  const { iss, sub, aud, iat, digest } = parsed.data;
  return { issuer: iss, receiptId: sub, accountId: aud, issuedAtS: iat, digest };
}
