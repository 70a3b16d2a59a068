import { z } from 'zod';
import { actionInput } from '../../core/verify-request.ts';
import { mandateInput } from '../mandates/input.ts';

/** The body of POST /api/v1/sandbox/mandates: what a mandate's own input has of these. */
export const sandboxMandateInput = mandateInput.pick({
  scope: true,
  amount_limit_per_action: true,
  amount_limit_per_month: true,
  escalation_threshold: true,
  currency: true,
});
export type SandboxMandateInput = z.infer<typeof sandboxMandateInput>;

const SECRET_MAX_CHARACTERS = 256;

// Any text: what is no secret is answered like one that is wrong.
const secret = z.string().max(SECRET_MAX_CHARACTERS, 'is too long');

/** The body of POST /api/v1/sandbox/presentations. */
export const sandboxPresentationInput = z.strictObject({
  mandate_id: z.string().max(SECRET_MAX_CHARACTERS, 'is too long'),
  agent_secret: secret,
  action: actionInput.optional(),
});

/** The body of POST /api/v1/sandbox/escalations/<id>/approve and …/reject. */
export const sandboxAnswerInput = z.strictObject({ agent_secret: secret });
