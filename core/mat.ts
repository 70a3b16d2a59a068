import { z } from 'zod';
import { type Action, contextText } from './action.ts';
import type { Verdict } from './decide.ts';

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

/** The claims as they are read back; numbers of the action as they were written in JSON. */
export const matSchema = z.strictObject({
  iss: z.string(),
  sub: z.string(),
  aud: z.string(),
  jti: z.string(),
  iat: z.number().int(),
  exp: z.number().int(),
  decision: z.enum(['allow', 'deny', 'escalate']),
  ctx: z.string(),
  action: z.strictObject({
    type: z.string(),
    amount: z.strictObject({ value: z.number(), currency: z.string() }),
    counterparty: z.string().optional(),
  }),
  mandate_digest: z.string(),
  evidence: z.strictObject({ seq: z.number().int(), hash: z.string() }),
  assurance_level: z.literal(1),
});
export type Mat = z.infer<typeof matSchema>;
