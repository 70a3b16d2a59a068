import { z } from 'zod';
import { DENIAL_CODES, type DenialCode } from './denial-codes.ts';
import { PROBLEMS, type ProblemCode } from './errors.ts';
import { requestShape } from './request-shape.ts';
import { toolMapping } from './tool-mapping.ts';

/**
 * What the proxy and the control plane say to each other: one batch of asks, outcomes and charges per round trip.
 *
 * Everything here is internal (authenticated by the shared secret); hashes are lower-case hex, amounts minor units.
 */
const hex32 = z.string().length(64);
const small = z.number().int().min(0);

/** Which way a request came to its decision. */
export const DECISION_PATHS = ['gateway', 'verify'] as const;
export type DecisionPath = (typeof DECISION_PATHS)[number];

/**
 * What one gateway request asks. `tool` names the mapping by which `reading` was made; null when none is held. `shape`
 * comes along now and then where nothing could be read, for whoever will map the tool.
 */
export const gatewayAsk = z.object({
  path: z.literal('gateway'),
  token_hash: hex32,
  address: z.string().max(64),
  name: z.string().max(4096),
  tool: z.object({ id: z.string(), version: small }).nullable(),
  reading: z
    .discriminatedUnion('ok', [
      z.object({
        ok: z.literal(true),
        amount_minor: small,
        currency: z.string().nullable(),
        counterparty: z.string().nullable(),
      }),
      z.object({ ok: z.literal(false), field: z.string(), message: z.string() }),
    ])
    .nullable(),
  request: z.object({
    method: z.string(),
    path: z.string(),
    query: z.string(),
    body_sha256: hex32.nullable(),
  }),
  bindable: z.boolean(),
  idempotency_key_hash: hex32.nullable(),
  escalation_token_hash: hex32.nullable(),
  config_version: small,
  budget_ms: small,
  shape: requestShape.optional(),
});
export type GatewayAsk = z.infer<typeof gatewayAsk>;

/**
 * What one POST /api/v1/verify asks, after the checks that need no state.
 *
 * `presentation` null: not well formed, as `problem` says; a well-formed one with a `problem` has a bad signature. Its
 * `document` is its JCS text, for the evidence; times are Unix milliseconds.
 */
export const verifyAsk = z.object({
  path: z.literal('verify'),
  token_hash: hex32,
  address: z.string().max(64),
  problem: z.string().nullable(),
  presentation: z
    .object({
      mandate_id: z.string(),
      verifier: z.string(),
      ctx: z.string().nullable(),
      nonce_hash: hex32,
      issued_at_ms: z.number().int(),
      expires_at_ms: z.number().int(),
      signer: z.string(),
      document: z.string(),
    })
    .nullable(),
  action: z.object({
    type: z.string(),
    amount_minor: small,
    currency: z.string(),
    counterparty: z.string().nullable(),
  }),
  request_digest: hex32,
  idempotency_key_hash: hex32.nullable(),
  escalation_token_hash: hex32.nullable(),
  budget_ms: small,
});
export type VerifyAsk = z.infer<typeof verifyAsk>;

/** A request for a decision, whichever way it came. */
export const decisionAsk = z.discriminatedUnion('path', [gatewayAsk, verifyAsk]);
export type DecisionAsk = z.infer<typeof decisionAsk>;

/** An answer worth keeping for an idempotency key; `body` is base64, null when it was larger than may be kept. */
export const storedAnswer = z.object({
  status: z.number().int().min(100).max(599),
  headers: z.array(z.tuple([z.string(), z.string()])),
  body: z.string().nullable(),
});
export type StoredAnswer = z.infer<typeof storedAnswer>;

/** Why a forward ended as it did; recorded in evidence. */
export const OUTCOME_CAUSES = [
  'answered',
  'target_unreachable',
  'target_timeout',
  'target_lost',
  'target_invalid_answer',
  'not_forwarded',
  'proxy_lost',
] as const;

/** How a forwarded request ended (contract §7): 2xx/3xx booked, 4xx or never connected released, else unknown. */
export const gatewayOutcome = z.object({
  account_id: z.string(),
  receipt_id: z.string(),
  outcome: z.enum(['booked', 'released', 'unknown']),
  cause: z.enum(OUTCOME_CAUSES),
  target_status: z.number().int().nullable(),
  answer: storedAnswer.nullable(),
});
export type GatewayOutcome = z.infer<typeof gatewayOutcome>;

/** Takes one request from the bucket of a token (or, where it is not known, of the address) without asking anything. */
export const rateCharge = z.object({ token_hash: hex32.nullable(), address: z.string().max(64) });
export type RateCharge = z.infer<typeof rateCharge>;

export const batchRequest = z.object({
  asks: z.array(decisionAsk),
  outcomes: z.array(gatewayOutcome),
  charges: z.array(rateCharge),
});
export type BatchRequest = z.infer<typeof batchRequest>;

/** `[limit, remaining, seconds until full]`, the values of the X-RateLimit headers; `limit` is the burst. */
export const rateState = z.tuple([small, small, small]);
export type RateState = z.infer<typeof rateState>;

/** Where an instance forwards to; sent only when the proxy holds another `version`. */
export const targetConfig = z.object({
  version: small,
  url: z.string(),
  credential: z.object({ header: z.string(), value: z.string() }).nullable(),
});
export type TargetConfig = z.infer<typeof targetConfig>;

/** A mapping the proxy must re-read the request by; `shapes` are all template shapes of the instance. */
export const toolUpdate = z.object({
  id: z.string(),
  version: small,
  key: z.string(),
  pattern: z.string(),
  mapping: toolMapping,
  shapes: z.array(z.string()),
});
export type ToolUpdate = z.infer<typeof toolUpdate>;

const denialCode = z.enum(DENIAL_CODES.map(([code]) => code) as [DenialCode, ...DenialCode[]]);
const problemCode = z.enum(Object.keys(PROBLEMS) as [ProblemCode, ...ProblemCode[]]);

export const gatewayAnswer = z.discriminatedUnion('answer', [
  z.object({
    answer: z.literal('allow'),
    receipt_id: z.string(),
    account_id: z.string(),
    instance_id: z.string(),
    target: targetConfig.nullable(),
    rate: rateState,
  }),
  z.object({
    answer: z.literal('deny'),
    receipt_id: z.string(),
    code: denialCode,
    reason_text: z.string(),
    rate: rateState,
  }),
  z.object({
    answer: z.literal('escalate'),
    receipt_id: z.string(),
    account_id: z.string(),
    escalation_id: z.string(),
    expires_at: z.string(),
    created: z.boolean(),
    rate: rateState,
  }),
  z.object({ answer: z.literal('mapping'), tool: toolUpdate }),
  z.object({
    answer: z.literal('replay'),
    receipt_id: z.string(),
    stored: storedAnswer,
    rate: rateState,
  }),
  z.object({
    answer: z.literal('problem'),
    error: problemCode,
    detail: z.string(),
    receipt_id: z.string().nullable(),
    retry_after_s: small.nullable(),
    rate: rateState.nullable(),
  }),
]);
export type GatewayAnswer = z.infer<typeof gatewayAnswer>;

/** A verification that was decided: `body` is the JSON text of the answer, with status 200. */
export const verifyResult = z.object({
  answer: z.literal('result'),
  receipt_id: z.string(),
  body: z.string(),
  replayed: z.boolean(),
  rate: rateState,
});
export type VerifyResult = z.infer<typeof verifyResult>;

/** What a verification is answered. */
export type VerifyAnswer = VerifyResult | (GatewayAnswer & { readonly answer: 'problem' });

/** What a decision is answered, whichever way it came. */
export const decisionAnswer = z.union([gatewayAnswer, verifyResult]);
export type DecisionAnswer = GatewayAnswer | VerifyResult;

/** `retry_after_s` null: there was something in the bucket. A charge that could not be made is answered null. */
export const chargeAnswer = z.object({ rate: rateState, retry_after_s: small.nullable() });
export type ChargeAnswer = z.infer<typeof chargeAnswer>;

export const batchAnswer = z.object({
  asks: z.array(decisionAnswer),
  outcomes: z.array(z.boolean()),
  charges: z.array(chargeAnswer.nullable()),
});
export type BatchAnswer = z.infer<typeof batchAnswer>;

/** Holds until the escalation is answered or `timeout_ms` passed. */
export const escalationWait = z.object({
  account_id: z.string(),
  escalation_id: z.string(),
  timeout_ms: z.number().int().min(0).max(600_000),
});
export const escalationWaitAnswer = z.object({
  status: z.enum(['pending', 'approved', 'rejected', 'expired', 'used']),
  escalation_token: z.string().nullable(),
});
export type EscalationWaitAnswer = z.infer<typeof escalationWaitAnswer>;

/** The body that an escalation's card shows; refused unless its SHA-256 is the one that was bound. */
export const escalationBody = z.object({
  account_id: z.string(),
  escalation_id: z.string(),
  body: z.string(),
});

/** Paths of the internal listener, and the header that carries the shared secret. */
export const INTERNAL_BATCH_PATH = '/internal/batch';
export const INTERNAL_WAIT_PATH = '/internal/escalations/wait';
export const INTERNAL_BODY_PATH = '/internal/escalations/body';
export const INTERNAL_SECRET_HEADER = 'x-mandate-internal-secret';
