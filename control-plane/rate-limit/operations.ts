import { type BucketState, TokenBuckets } from './buckets.ts';
import type { Rate } from './classes.ts';

/**
 * Something done to the bucket of `key`: `take`, `peek` and `adjust` by a rate; `known` takes by the rate that the
 * bucket had last, if there is one; `give` gives one request back. See the methods of {@link TokenBuckets}.
 */
export type BucketOperation =
  | { readonly kind: 'take' | 'peek' | 'adjust'; readonly key: string; readonly rate: Rate }
  | { readonly kind: 'known' | 'give'; readonly key: string };

/** The state of a bucket, and the rate by which it was found. */
export interface RatedState {
  readonly state: BucketState;
  readonly rate: Rate;
}

/** Buckets that several control planes have in common. */
export interface SharedBuckets {
  /**
   * Does all operations, in order and in one round trip; null where there is no bucket (`known`, `give`).
   *
   * @throws RateLimitsAway where they cannot be done; they may have been done nevertheless
   */
  perform(operations: readonly BucketOperation[]): Promise<(RatedState | null)[]>;
  /** Buckets of this process alone, for what is only about it. */
  readonly own: TokenBuckets;
}

/** Buckets of this process, exact while each credential is used at one control plane, or such as several share. */
export type Buckets = TokenBuckets | SharedBuckets;

/** The buckets of several control planes cannot be asked: nothing may be let through. */
export class RateLimitsAway extends Error {
  override readonly name = 'RateLimitsAway';
  readonly code = 'RATE_LIMITS_AWAY';
}

/**
 * Does all operations, in order; null where there is no bucket.
 *
 * @throws RateLimitsAway
 */
export async function performOn(
  buckets: Buckets,
  operations: readonly BucketOperation[],
): Promise<(BucketState | null)[]> {
  if (buckets instanceof TokenBuckets) {
    const nowMs = performance.now();
    return operations.map((operation) => performOne(buckets, operation, nowMs));
  }
  return (await buckets.perform(operations)).map((found) => found?.state ?? null);
}

/** Does one operation in this process. */
export function performOne(buckets: TokenBuckets, operation: BucketOperation, nowMs: number): BucketState | null {
  const { key, kind } = operation;
  switch (kind) {
    case 'take':
      return buckets.take(key, operation.rate.perSecond, operation.rate.burst, nowMs);
    case 'peek':
      return buckets.peek(key, operation.rate.perSecond, operation.rate.burst, nowMs);
    case 'adjust':
      return buckets.adjust(key, operation.rate.perSecond, operation.rate.burst, nowMs);
    case 'known':
      return buckets.takeKnown(key, nowMs) ?? null;
    case 'give':
      return buckets.giveBack(key, nowMs) ?? null;
    default:
      throw new TypeError(`an operation that is not known: ${String(kind satisfies never)}`);
  }
}
