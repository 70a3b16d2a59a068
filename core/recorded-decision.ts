import { z } from 'zod';
import { type Action, type ActionRequest, contextText } from './action.ts';
import {
  type DecisionFacts,
  type DecisionRequest,
  decide,
  ESCALATION_STATES,
  type PresentationFacts,
  type Verdict,
} from './decide.ts';
import { DENIAL_CODE_VERSION } from './denial-codes.ts';
import { MANDATE_STATES, type MandateTerms } from './mandate.ts';
import { type MalformedPresentation, type Presentation, parsePresentation, presentationFacts } from './presentation.ts';

const count = z.number().int().min(0).max(Number.MAX_SAFE_INTEGER);
const text = z.string();

const action = z
  .strictObject({ amount: count, counterparty: text.optional(), currency: text.optional(), type: text })
  .nullable();
const grant = z.strictObject({
  closes_at_ms: count,
  ctx: text,
  decided_by: text.optional(),
  escalation_id: text,
  mandate_id: text,
  status: z.enum(ESCALATION_STATES),
});
const standing = z.strictObject({
  closes_at_ms: count,
  escalation_id: text,
  expires_at_ms: count,
  status: z.enum(ESCALATION_STATES),
});
const mandate = z.strictObject({
  digest: text,
  id: text,
  status: z.enum(MANDATE_STATES),
  uses: count,
  version: count,
});
const month = z.strictObject({ booked: count, month: text, reserved: count });

/** What the evidence of every decision holds; a member that would be null or false is left out. */
const common = {
  action,
  code: text.optional(),
  ctx: text.optional(),
  decision: z.enum(['allow', 'deny', 'escalate']),
  denial_code_version: count,
  escalation: z.strictObject({ expires_at: text, id: text }).optional(),
  grant: grant.optional(),
  idempotency_key: text.optional(),
  mandate: mandate.optional(),
  month: month.optional(),
  reason_text: text.optional(),
  standing: standing.optional(),
  undecidable: text.optional(),
};

const gatewayBody = z.strictObject({
  ...common,
  path: z.literal('gateway'),
  instance: text,
  request: z.strictObject({
    bindable: z.boolean(),
    body_sha256: text.optional(),
    method: text,
    path: text,
    query: text,
    token_given: z.literal(true).optional(),
  }),
  tool: z
    .strictObject({
      id: text,
      key: text,
      state: z.enum(['unmapped', 'blocked', 'mapped']),
      unreadable: text.optional(),
      version: count,
    })
    .optional(),
});

const verifyBody = z.strictObject({
  ...common,
  path: z.literal('verify'),
  key: text,
  presentation: z.strictObject({
    document: z.custom<object>((value) => typeof value === 'object' && value !== null).optional(),
    expected_signer: text.optional(),
    nonce_spent: z.literal(true).optional(),
    problem: text.optional(),
  }),
  request_sha256: text,
  sandbox: z.literal(true).optional(),
  token_given: z.literal(true).optional(),
});

/** The body of a decision's evidence, as `control-plane/decisions/decision-body.ts` writes it. */
export const recordedDecision = z.discriminatedUnion('path', [gatewayBody, verifyBody]);
export type RecordedDecision = z.infer<typeof recordedDecision>;

/** What is needed beside the body: whose decision it is, when, and the terms of its mandate (null: it has none). */
export interface RecordedUnder {
  readonly account: string;
  readonly atMs: number;
  readonly terms: MandateTerms | null;
}

/** The presentation of a recorded verification, read again; null on the gateway path. */
export function recordedPresentation(body: RecordedDecision): Presentation | MalformedPresentation | null {
  if (body.path === 'gateway') return null;
  const { document, problem } = body.presentation;
  return document === undefined ? { problem: problem ?? 'It is not a presentation.' } : parsePresentation(document);
}

/** The verdict that `decide` comes to on the facts that were recorded: the same function that decided. */
export function decideAgain(body: RecordedDecision, under: RecordedUnder): Verdict {
  return decide(recordedFacts(body, under), recordedRequest(body));
}

/** The facts that a decision was made from, as they were recorded; see {@link decideAgain}. */
export function recordedFacts(body: RecordedDecision, { account, atMs, terms }: RecordedUnder): DecisionFacts {
  const { mandate: recorded } = body;
  return {
    now_ms: atMs,
    account_id: account,
    mandate:
      recorded === undefined || terms === null ? null : { ...terms, status: recorded.status, uses: recorded.uses },
    month: body.month ?? { month: '', reserved: 0, booked: 0 },
    presentation: recordedPresentationFacts(body),
    tool: body.path === 'gateway' ? toolFacts(body) : null,
    grant: body.grant ?? null,
    standing: body.standing ?? null,
    undecidable: body.undecidable ?? null,
  };
}

function toolFacts({ tool }: Extract<RecordedDecision, { path: 'gateway' }>): DecisionFacts['tool'] {
  return tool === undefined ? null : { state: tool.state, unreadable: tool.unreadable ?? null };
}

function recordedPresentationFacts(body: RecordedDecision): PresentationFacts | null {
  if (body.path === 'gateway') return null;
  const presentation = recordedPresentation(body);
  if (presentation === null) return null;
  const { expected_signer, nonce_spent, problem } = body.presentation;
  const findings = {
    signature_problem: problem ?? null,
    expected_signer: expected_signer ?? null,
    nonce_spent: nonce_spent === true,
  };
  if (presentation.problem !== null) return presentationFacts(presentation, findings);
  // In the sandbox a presentation may be signed before anybody knows for what (contract §3).
  const ctx = presentation.ctx ?? (body.sandbox === true ? (body.ctx ?? null) : null);
  return presentationFacts({ ...presentation, ctx }, findings);
}

/** What was asked, as it was recorded. */
export function recordedRequest(body: RecordedDecision): DecisionRequest {
  const token = body.path === 'gateway' ? body.request.token_given : body.token_given;
  const asked = body.action;
  return {
    action:
      asked === null
        ? null
        : {
            type: asked.type,
            amount: asked.amount,
            currency: asked.currency ?? null,
            counterparty: asked.counterparty ?? null,
          },
    ctx: body.ctx ?? null,
    escalation_token_given: token === true,
    bindable: body.path === 'gateway' ? body.request.bindable : true,
  };
}

/**
 * The action that the recorded `ctx` is the digest of, as its canonical text; null where no action was read.
 *
 * On the gateway path it covers the request, and names the mandate's currency where the request names none.
 * Throws RangeError or JcsProblem where what is recorded is no action. Source: contract §2.
 */
export function recordedContext(body: RecordedDecision, terms: MandateTerms | null): string | null {
  const { action: asked, ctx } = body;
  if (asked === null || ctx === undefined) return null;
  const currency = asked.currency ?? (body.path === 'gateway' ? (terms?.currency ?? null) : null);
  const plain: Action = {
    type: asked.type,
    amount_minor: asked.amount,
    currency,
    counterparty: asked.counterparty ?? null,
  };
  return contextText(body.path === 'gateway' ? { ...plain, request: requestOf(body) } : plain);
}

function requestOf({ request }: Extract<RecordedDecision, { path: 'gateway' }>): ActionRequest {
  const { method, path, query, body_sha256 } = request;
  return { method, path, query, body_sha256: body_sha256 ?? null };
}

/** In what a verdict is another than the recorded one, or null; a reason's wording may change, its code may not. */
export function verdictDifference(body: RecordedDecision, verdict: Verdict): string | null {
  if (verdict.decision !== body.decision) return `${verdict.decision} instead of ${body.decision}`;
  switch (verdict.decision) {
    case 'deny':
      return verdict.code === body.code ? null : `${verdict.code} instead of ${body.code ?? 'no code'}`;
    case 'escalate':
      if (verdict.standing === null || verdict.standing === body.escalation?.id) return null;
      return `to ${verdict.standing} instead of ${body.escalation?.id ?? 'no escalation'}`;
    case 'allow': {
      const used = body.grant !== undefined && body.grant.escalation_id === verdict.escalation_id;
      return verdict.escalation_id === null || used ? null : 'by an approval that is not recorded';
    }
    default:
      throw new Error(`a verdict that is not known: ${String(verdict satisfies never)}`);
  }
}

/** Whether the codes of a recorded decision are those of this program's table. */
export function hasKnownCodes(body: RecordedDecision): boolean {
  return body.denial_code_version === DENIAL_CODE_VERSION;
}
