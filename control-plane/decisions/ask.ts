import type { ProblemCode } from '../../core/errors.ts';
import type { MatFacts } from '../../core/mat.ts';
import { newTypeId } from '../../core/type-id.ts';
import type { GatewayAnswer, RateState } from '../../core/wire.ts';
import { noteMonthUse } from '../notifications/month-use.ts';
import { type BucketState, TokenBuckets } from '../rate-limit/buckets.ts';
import type { Rate } from '../rate-limit/classes.ts';
import type { Buckets } from '../rate-limit/operations.ts';
import type { AccountFacts, DecisionMetrics, MandateState } from './account-facts.ts';
import { PENDING_ESCALATIONS_MAX } from './escalate.ts';
import type { Recording } from './record.ts';
import type { VersionCache } from './versions.ts';

/** What asks are decided with; one object an account and batch. */
export interface AskContext {
  readonly facts: AccountFacts;
  readonly recording: Recording;
  readonly versions: VersionCache;
  readonly buckets: Buckets;
  readonly metrics: DecisionMetrics;
  readonly verifications: VerificationMeans;
  readonly monotonicMs: number;
}

/** What verifications need of the rest of the control plane. */
export interface VerificationMeans {
  /** The consumption token of a receipt: the same whenever it is asked for, so that only its hash need be stored. */
  readonly consumptionToken: (receiptId: string) => string;
  readonly signMat: (facts: MatFacts) => string;
  /** The account whose mandates anybody's API key may be verified with; null where there is no sandbox. */
  readonly sandboxAccountId: string | null;
}

/** An answer that is no decision. */
export type Problem = GatewayAnswer & { readonly answer: 'problem' };

/**
 * A verification that was decided; its answer is given only when it is committed.
 *
 * `text` writes the answer. `sign` signs the MAT that belongs to it ahead of that, while the database is at work.
 */
export interface DecidedVerification {
  readonly answer: 'result';
  readonly receiptId: string;
  readonly replayed: boolean;
  /** The database's time at which its API key was found valid, in milliseconds. */
  readonly keyUsedAtMs: number;
  readonly rate: RateState;
  /** Never throws. */
  readonly sign: () => void;
  /** Throws where the MAT cannot be signed. */
  readonly text: () => string;
}

export function problem(
  error: ProblemCode,
  detail: string,
  rate: RateState | null,
  receiptId: string | null = null,
  retryAfterSeconds: number | null = null,
): Problem {
  return { answer: 'problem', error, detail, receipt_id: receiptId, retry_after_s: retryAfterSeconds, rate };
}

export function tooManyEscalations(rate: RateState): Problem {
  const detail = `${PENDING_ESCALATIONS_MAX} escalations of this mandate wait for an answer; answer those first.`;
  return problem('too_many_escalations', detail, rate, null, 60);
}

/** No answer: the ask must be charged by this rate first, in buckets that nobody can wait for under the lock. */
export interface Owed {
  readonly answer: 'owed';
  readonly rate: Rate;
}

/** What is known of an ask's bucket; `chargedBy`: by which rate, where shared buckets were asked before the lock. */
export interface ChargedItem {
  readonly ask: { readonly token_hash: string };
  bucket?: BucketState;
  readonly chargedBy?: Rate;
}

/**
 * What the bucket of a credential says, asked once a request however often it is decided anew.
 *
 * Shared buckets were asked before the ask came here, by the rate that they knew; where it is another one, it is owed.
 */
export function takeOnce(
  context: AskContext,
  item: ChargedItem,
  { ratePerSecond, rateBurst }: { readonly ratePerSecond: number; readonly rateBurst: number },
): BucketState | Owed {
  const { buckets } = context;
  if (!(buckets instanceof TokenBuckets)) {
    const { bucket, chargedBy } = item;
    if (bucket !== undefined && chargedBy?.perSecond === ratePerSecond && chargedBy.burst === rateBurst) return bucket;
    return { answer: 'owed', rate: { perSecond: ratePerSecond, burst: rateBurst } };
  }
  if (item.bucket !== undefined) return item.bucket;
  const bucket = buckets.take(item.ask.token_hash, ratePerSecond, rateBurst, context.monotonicMs);
  if (!bucket.allowed) context.metrics.rateLimited('verify');
  item.bucket = bucket;
  return bucket;
}

/**
 * Counts an allow of `amount`, which its month holds already: tells of what it uses up of the month, and where the
 * mandate permits only so many, the last one consumes it.
 */
export function countUse(
  { facts: { head }, recording, versions }: AskContext,
  mandate: MandateState,
  amount: number,
): void {
  const { terms } = versions.mandate(mandate);
  noteMonthUse(recording, mandate, terms, amount);
  const max = terms.max_uses;
  if (max === null) return;
  mandate.uses += 1;
  if (mandate.uses >= max) {
    mandate.status = 'consumed';
    const body = `{"mandate_id":"${mandate.mandateId}","uses":${mandate.uses},"version":${mandate.version}}`;
    recording.append(head, 'mandate.consumed', newTypeId('evt', head.nowMs), body);
  }
  recording.change(
    'update mandates set uses = $3, status = $4, changed_at = ms_time($5) where account_id = $1 and mandate_id = $2',
    [head.accountId, mandate.mandateId, String(mandate.uses), mandate.status, String(head.nowMs)],
  );
}
