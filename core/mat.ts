import { z } from 'zod';
import { type Action, contextDigest, contextText, isContextDigest } from './action.ts';
import { bodyValue, decimalText, wholeNumber } from './body-value.ts';
import type { Verdict } from './decide.ts';
import type { JsonObject } from './json.ts';
import { minorUnits } from './money.ts';
import { isTypeId } from './type-id.ts';
import { actionInput } from './verify-request.ts';

/** The type of a MAT's header: the token that a verification answers with, and a dossier is fetched by. */
export const MAT_TYPE = 'mat+jwt';
/** How long a MAT is valid, in seconds (contract §9). */
export const MAT_TTL_S = 600;

/** What a MAT states about a decision that is in the evidence (contract §9). */
export interface MatFacts {
  readonly accountId: string;
  readonly mandateId: string;
  readonly mandateDigest: string;
  readonly receiptId: string;
  readonly decidedAtMs: number;
  readonly decision: Verdict['decision'];
  readonly ctx: string;
  readonly action: Action;
  readonly evidence: { readonly seq: number; readonly hash: string };
}

/**
 * The JSON text of a MAT's claims; `action` stands in it as the very text that `ctx` is the digest of.
 *
 * Times are NumericDates (RFC 7519 §2). Source: contract §9.
 */
export function matClaims(issuer: string, facts: MatFacts): string {
  const iat = Math.floor(facts.decidedAtMs / 1000);
  const text = (value: string): string => JSON.stringify(value);
  return (
    `{"iss":${text(issuer)},"sub":${text(facts.mandateId)},"aud":${text(facts.accountId)},` +
    `"jti":${text(facts.receiptId)},"iat":${iat},"exp":${iat + MAT_TTL_S},"decision":"${facts.decision}",` +
    `"ctx":${text(facts.ctx)},"action":${contextText(facts.action)},"mandate_digest":${text(facts.mandateDigest)},` +
    `"evidence":{"seq":${facts.evidence.seq},"hash":"${facts.evidence.hash}"},"assurance_level":1}`
  );
}

/** A MAT as it was read: what it states, who states it, and when (seconds since 1970). */
export interface Mat extends Omit<MatFacts, 'decidedAtMs'> {
  readonly issuer: string;
  readonly issuedAtS: number;
  readonly expiresAtS: number;
}

const SHA_256_HEX = /^[0-9a-f]{64}$/;

/** The claims as they are read back from a strict parse, where numbers keep their digits. */
const claimsSchema = z.strictObject({
  iss: z.url({ protocol: /^https?$/ }),
  sub: z.string().refine((text) => isTypeId(text, 'mdt')),
  aud: z.string().refine((text) => isTypeId(text, 'acc')),
  jti: z.string().refine((text) => isTypeId(text, 'rcp')),
  iat: wholeNumber,
  exp: wholeNumber,
  decision: z.enum(['allow', 'deny', 'escalate']),
  ctx: z.string().refine(isContextDigest),
  action: actionInput,
  mandate_digest: z.string().refine(isContextDigest),
  evidence: z.strictObject({ seq: wholeNumber, hash: z.string().regex(SHA_256_HEX) }),
  assurance_level: decimalText.refine(({ text }) => text === '1'),
});

/**
 * The MAT in the payload of a token that `checkJws` accepted as MAT_TYPE, or null where that states no decision.
 *
 * The action is read exactly, and `ctx` must be its digest. Whether it has expired is another question, since a dossier
 * may be fetched with an expired one ({@link isMatExpired}); `issuer` and `accountId` are the caller's to compare.
 * Source: contract §9.
 */
export function readMat(payload: JsonObject): Mat | null {
  const parsed = claimsSchema.safeParse(bodyValue(payload));
  if (!parsed.success) return null;
  const { iss, sub, aud, jti, iat, exp, decision, ctx, mandate_digest, evidence } = parsed.data;
  const { type, amount, counterparty } = parsed.data.action;
  const reading = minorUnits(amount.value.text, amount.currency, 'major');
  if (!reading.ok || exp !== iat + MAT_TTL_S) return null;
  const { currency } = amount;
  const action: Action = { type, amount_minor: reading.minor, currency, counterparty: counterparty ?? null };
  if (contextDigest(action) !== ctx) return null;
  return {
    ...{ issuer: iss, mandateId: sub, accountId: aud, receiptId: jti, issuedAtS: iat, expiresAtS: exp },
    ...{ decision, ctx, action, mandateDigest: mandate_digest, evidence },
  };
}

/** Whether a MAT is past its time at `atMs` (Unix milliseconds); no skew is allowed, since the issuer is the reader. */
export function isMatExpired(mat: Mat, atMs: number): boolean {
  return atMs >= mat.expiresAtS * 1000;
}
