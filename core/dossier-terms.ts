import { z } from 'zod';
import type { PlainObject } from './dossier.ts';
import type { MandateTerms } from './mandate.ts';

const limit = z.number().int().min(0).max(Number.MAX_SAFE_INTEGER);
const mandateTerms = z.strictObject({
  mandate_id: z.string(),
  version: limit,
  scope: z.array(z.string()),
  currency: z.string(),
  per_action: limit,
  per_month: limit,
  escalation_threshold: limit.nullable(),
  counterparties: z.array(z.string()),
  agent_did: z.string(),
  time_zone: z.string(),
  valid_until: z.string().nullable(),
  max_uses: limit.nullable(),
});

/** The terms in the body of the entry that set them, or null where they are not stated as they must be. */
export function termsOf(body: PlainObject): MandateTerms | null {
  const parsed = mandateTerms.safeParse(body['terms']);
  return parsed.success ? parsed.data : null;
}
