import { type Action, contextDigest } from '../../core/action.ts';
import {
  type DecisionFacts,
  type DecisionRequest,
  decide,
  PRESENTATION_SKEW_MS,
  type PresentationFacts,
  type Verdict,
} from '../../core/decide.ts';
import type { MandateStatus } from '../../core/mandate.ts';
import type { MatFacts } from '../../core/mat.ts';
import { presentationFacts } from '../../core/presentation.ts';
import { sameHash, secretHash } from '../../core/secret-token.ts';
import { newTypeId } from '../../core/type-id.ts';
import type { RateState, VerifyAsk } from '../../core/wire.ts';
import type { HeadState, KeyState, MandateState } from './account-facts.ts';
import {
  type AskContext,
  countUse,
  type DecidedVerification,
  type Owed,
  type Problem,
  problem,
  takeOnce,
  tooManyEscalations,
} from './ask.ts';
import { verificationBody } from './decision-body.ts';
import { escalationsFull, grantFacts, recordEscalation, standingFacts, useGrant } from './escalate.ts';
import { earlierAnswer, type KeyedRequest, keepKey } from './idempotency.ts';
import type { VerifyItem } from './items.ts';
import type { MandateVersion } from './versions.ts';

/** What approvals on paths 1 and 2 are bound to besides mandate and action: not a gateway instance. */
export const VERIFY_SUBJECT = 'verify';

/** The answer to an API key that is not one (any more). */
export const UNKNOWN_KEY: Problem = problem('unauthenticated', 'The API key is not valid.', null);

/**
 * Answers one POST /api/v1/verify under the lock of the account whose mandate it is: key, rate, scope, idempotency,
 * then `decide`, then what follows from the verdict. Nothing is recorded unless a verdict was reached.
 *
 * Source: contract §§3-6.
 */
export function answerVerifyAsk(context: AskContext, item: VerifyItem): DecidedVerification | Problem | Owed {
  const { facts } = context;
  const { ask } = item;
  const key = facts.keys.get(item.key.keyId);
  if (key === undefined || key.accountId !== item.key.accountId) return UNKNOWN_KEY;
  if (key.status !== 'active' || !sameHash(key.tokenHash, ask.token_hash)) return UNKNOWN_KEY;
  const bucket = takeOnce(context, item, key);
  if ('answer' in bucket) return bucket;
  const rate: RateState = [bucket.limit, bucket.remaining, bucket.resetSeconds];
  if (!bucket.allowed) {
    return problem('rate_limited', 'The rate of this API key is exceeded.', rate, null, bucket.retryAfterSeconds);
  }
  if (!key.scopes.includes('verify')) {
    return problem('insufficient_scope', 'This needs an API key with the scope verify.', rate);
  }
  const keyed = keyedRequest(key, ask);
  const earlier = keyed === null ? null : earlierAnswer(facts, keyed, rate);
  if (earlier?.answer === 'replay') return replayOf(context, earlier.receipt_id, earlier.stored.body ?? '', rate);
  if (earlier !== null) return earlier;
  const mandate = ask.presentation === null ? null : (facts.mandates.get(ask.presentation.mandate_id) ?? null);
  const version = mandate === null ? null : context.versions.mandate(mandate);
  const sandbox = facts.head.accountId === context.verifications.sandboxAccountId;
  return decided(context, { head: facts.head, key, keyed, mandate, version, sandbox, item, rate });
}

interface Case {
  readonly head: HeadState;
  readonly key: KeyState;
  readonly keyed: KeyedRequest | null;
  readonly mandate: MandateState | null;
  readonly version: MandateVersion | null;
  readonly sandbox: boolean;
  readonly item: VerifyItem;
  readonly rate: RateState;
}

/** Where a decision stands in the evidence, and when it was made. */
interface Recorded {
  readonly receiptId: string;
  readonly decidedAt: string;
  readonly ctx: string;
  readonly evidence: { readonly seq: number; readonly hash: string };
}

function keyedRequest({ keyId }: KeyState, ask: VerifyAsk): KeyedRequest | null {
  const { idempotency_key_hash: keyHash, request_digest: digest } = ask;
  return keyHash === null ? null : { subjectId: keyId, keyHash, digest };
}

function decided(context: AskContext, given: Case): DecidedVerification | Problem {
  const { head, key, mandate, version, sandbox, rate } = given;
  const { ask } = given.item;
  const action: Action = ask.action;
  const ctx = contextDigest(action);
  const request: DecisionRequest = {
    action: {
      type: action.type,
      amount: action.amount_minor,
      currency: action.currency,
      counterparty: action.counterparty ?? null,
    },
    ctx,
    escalation_token_given: ask.escalation_token_hash !== null,
    bindable: true,
  };
  const grant = ask.escalation_token_hash === null ? undefined : context.facts.grants.get(ask.escalation_token_hash);
  const facts = decisionFacts(context, given, request);
  const verdict = decide(facts, request);
  const opens = verdict.decision === 'escalate' && verdict.standing === null;
  if (opens && mandate !== null && escalationsFull(context.facts, mandate)) return tooManyEscalations(rate);
  const receiptId = newTypeId('rcp', head.nowMs);
  const escalation = escalationOf(context, given, { request, verdict, receiptId });
  const body = verificationBody({
    ...{ facts, request, verdict, ask, sandbox, keyId: key.keyId, mandateDigest: version?.digest ?? '' },
    escalation: escalation === null ? null : { id: escalation.id, expires_at: escalation.expires_at },
    decidedBy: grant?.decidedBy ?? null,
  });
  const { seq, at } = context.recording.append(head, 'decision', receiptId, body);
  const recorded: Recorded = { receiptId, decidedAt: at, ctx, evidence: { seq, hash: head.hash } };
  context.recording.verdicts.push(['verify', verdict.decision, verdict.decision === 'deny' ? verdict.code : 'none']);
  if (verdict.decision !== 'allow' && facts.presentation?.nonce_spent === false && ask.presentation !== null) {
    // An allow spends it, which the database refuses where it is spent; here only the code would be another.
    context.recording.assumeUnspent(head.accountId, ask.presentation.nonce_hash);
  }
  const token = verdict.decision === 'allow' ? context.verifications.consumptionToken(receiptId) : null;
  if (verdict.decision === 'allow' && token !== null) {
    reserve(context, given, { amount: verdict.amount, token, recorded });
    if (verdict.escalation_id !== null) useGrant(context, grant, verdict.escalation_id);
  }
  return answered(context, given, { recorded, token, result: resultOf(given, verdict, recorded, escalation) });
}

function escalationOf(
  context: AskContext,
  { head, mandate }: Case,
  given: { readonly request: DecisionRequest; readonly verdict: Verdict; readonly receiptId: string },
): { readonly id: string; readonly expires_at: string } | null {
  const { request, verdict, receiptId } = given;
  if (verdict.decision !== 'escalate') return null;
  if (mandate === null) throw new Error('an action without a mandate cannot escalate');
  const { standing } = verdict;
  const subject = { mandate, subjectId: VERIFY_SUBJECT };
  const { id, expires_at } = recordEscalation(context, {
    ...subject,
    ...{ head, decision: request, ctx: request.ctx, request: null, receiptId, standing },
  });
  return { id, expires_at };
}

function decisionFacts(context: AskContext, given: Case, request: DecisionRequest): DecisionFacts {
  const { head, mandate, version, item } = given;
  const { ask } = item;
  const subject = mandate === null ? null : { mandate, subjectId: VERIFY_SUBJECT };
  const grant = ask.escalation_token_hash === null ? undefined : context.facts.grants.get(ask.escalation_token_hash);
  const { month = '', reserved = 0, booked = 0 } = mandate?.month ?? {};
  return {
    now_ms: head.nowMs,
    account_id: head.accountId,
    mandate:
      mandate === null || version === null
        ? null
        : { ...version.terms, status: mandate.status as MandateStatus, uses: mandate.uses },
    month: { month, reserved, booked },
    presentation: presentedFacts(context, given, request),
    tool: null,
    grant: grantFacts(grant, VERIFY_SUBJECT),
    standing: subject === null ? null : standingFacts(context.facts, subject, request.ctx),
    undecidable: null,
  };
}

function presentedFacts(context: AskContext, given: Case, request: DecisionRequest): PresentationFacts {
  const { problem: wrong, presentation } = given.item.ask;
  if (presentation === null) {
    const findings = { signature_problem: null, expected_signer: null, nonce_spent: false };
    return presentationFacts({ problem: wrong ?? 'It is not a presentation.' }, findings);
  }
  // A sandbox presentation may be signed before anybody knows for what (contract §3).
  const ctx = presentation.ctx ?? (given.sandbox ? request.ctx : null);
  return presentationFacts(
    { ...presentation, ctx, problem: null },
    {
      signature_problem: wrong,
      expected_signer: given.version?.signer ?? null,
      nonce_spent: context.facts.spentNonces.has(presentation.nonce_hash),
    },
  );
}

/** An allow as it is kept: what it reserves, and the token that names it. */
interface Reserving {
  readonly amount: number;
  readonly token: string;
  readonly recorded: Recorded;
}

function reserve(context: AskContext, given: Case, { amount, token, recorded }: Reserving): void {
  const { receiptId, ctx } = recorded;
  const { head, mandate, key, item } = given;
  const { presentation, action } = item.ask;
  if (mandate === null || presentation === null) throw new Error('allowed without a mandate or a presentation');
  const { mandateId, month } = mandate;
  const where = { accountId: head.accountId, mandateId, month: month.month };
  context.recording.month(where, month, { reserved: amount, booked: 0, allows: 1 });
  month.reserved += amount;
  context.recording.authorise(
    {
      ...where,
      receiptId,
      tokenHash: secretHash(token),
      keyId: key.keyId,
      amount,
      currency: action.currency,
      actionType: action.type,
      counterparty: action.counterparty,
      ctx,
      nonceHash: presentation.nonce_hash,
      nonceEndsMs: presentation.expires_at_ms + PRESENTATION_SKEW_MS,
    },
    head.nowMs,
  );
  context.facts.spentNonces.add(presentation.nonce_hash);
  countUse(context, mandate, amount);
}

/** The members of an answer besides the secrets and the MAT, in their order (interface.md, "Verify result"). */
type Result = { readonly decision: Verdict['decision'] } & Readonly<Record<string, unknown>>;

function resultOf(
  given: Case,
  verdict: Verdict,
  { receiptId, decidedAt, ctx, evidence }: Recorded,
  escalation: { readonly id: string; readonly expires_at: string } | null,
): Result {
  const receipt = { receipt_id: receiptId, decided_at: decidedAt, ctx, evidence };
  switch (verdict.decision) {
    case 'deny':
      return { decision: 'deny', reasons: [verdict.code], reason_text: verdict.reason_text, receipt };
    case 'escalate':
      return { decision: 'escalate', escalation, receipt };
    case 'allow': {
      const { ask, deadlineMs } = given.item;
      const latencyMs = Math.round((performance.now() - deadlineMs + ask.budget_ms) * 1000) / 1000;
      return { decision: 'allow', receipt, ...(given.sandbox ? { latency_ms: latencyMs } : {}) };
    }
    default:
      throw new Error(`a verdict that is not known: ${String(verdict satisfies never)}`);
  }
}

/** The answer as it is given, and kept for the idempotency key if there is one: kept ones are signed at once. */
function answered(
  context: AskContext,
  given: Case,
  { recorded, token, result }: { readonly recorded: Recorded; readonly token: string | null; readonly result: Result },
): DecidedVerification {
  const { receiptId } = recorded;
  const facts = token === null ? null : matFacts(given, recorded);
  let signed: string | null = null;
  const mat = (): string | null => {
    if (facts !== null) signed ??= context.verifications.signMat(facts);
    return signed;
  };
  if (given.keyed !== null) keepKey(context, given.keyed, receiptId, JSON.stringify({ result, mat: mat() }));
  const sign = (): void => {
    try {
      mat();
    } catch {
      // Tried again, and told, when the answer is written.
    }
  };
  const { rate, head } = given;
  const text = (): string => textOf(result, token, mat());
  return { answer: 'result', receiptId, replayed: false, keyUsedAtMs: head.nowMs, rate, sign, text };
}

function matFacts({ head, mandate, version, item }: Case, recorded: Recorded): MatFacts {
  if (mandate === null || version === null) throw new Error('allowed without a mandate');
  const { receiptId, ctx, evidence } = recorded;
  return {
    ...{ accountId: head.accountId, mandateId: mandate.mandateId, mandateDigest: version.digest, receiptId },
    ...{ decidedAtMs: head.nowMs, decision: 'allow', ctx, action: item.ask.action, evidence },
  };
}

/** The same text as the first answer: secrets are derived again, the MAT is the one that was signed then. */
function replayOf(context: AskContext, receiptId: string, stored: string, rate: RateState): DecidedVerification {
  const kept = JSON.parse(Buffer.from(stored, 'base64').toString('utf8')) as { result: Result; mat: string | null };
  const token = kept.result.decision === 'allow' ? context.verifications.consumptionToken(receiptId) : null;
  const text = textOf(kept.result, token, kept.mat);
  const keyUsedAtMs = context.facts.head.nowMs;
  return { answer: 'result', receiptId, replayed: true, keyUsedAtMs, rate, sign: () => {}, text: () => text };
}

function textOf({ decision, ...rest }: Result, token: string | null, mat: string | null): string {
  const secret = token === null ? {} : { consumption_token: token };
  return JSON.stringify({ decision, ...secret, ...rest, ...(mat === null ? {} : { mat_compact: mat }) });
}
