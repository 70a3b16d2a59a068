/** What a bucket says after a request was taken from it (or refused). */
export interface BucketState {
  readonly allowed: boolean;
  /** The burst: how many requests a full bucket holds. */
  readonly limit: number;
  readonly remaining: number;
  /** Whole seconds until the bucket is full again. */
  readonly resetSeconds: number;
  /** Whole seconds until the next request is allowed; 0 when this one was. */
  readonly retryAfterSeconds: number;
}

interface Bucket {
  tokens: number;
  atMs: number;
  rate: number;
  burst: number;
}

/** Most buckets kept; full ones are forgotten first, since a new bucket is full anyway. */
export const BUCKETS_MAX = 200_000;

/**
 * Token buckets by key, exact within this process; refill is continuous on the monotonic clock that the caller passes.
 *
 * Source: interface.md, Limits; contract §8.
 */
export class TokenBuckets {
  readonly #buckets = new Map<string, Bucket>();

  /** Takes one request from the bucket of `key`, which refills at `rate` a second up to `burst`. */
  take(key: string, rate: number, burst: number, nowMs: number): BucketState {
    const bucket = this.#refilled(key, rate, burst, nowMs);
    const allowed = bucket.tokens >= 1;
    if (allowed) bucket.tokens -= 1;
    return stateOf(bucket, allowed);
  }

  /** Whether a request would be allowed; nothing is taken or changed, and no bucket is made. */
  peek(key: string, rate: number, burst: number, nowMs: number): BucketState {
    const known = this.#buckets.get(key);
    const tokens = known === undefined ? burst : refill(known, rate, burst, nowMs);
    return stateOf({ tokens, rate, burst }, tokens >= 1);
  }

  /** Gives a bucket from which a request was just taken the limits that it should have been taken with. */
  adjust(key: string, rate: number, burst: number, nowMs: number): BucketState {
    const bucket = this.#refilled(key, rate, burst, nowMs);
    bucket.tokens = Math.min(burst, bucket.tokens + 1) - 1;
    return stateOf(bucket, true);
  }

  /** Gives back a request that was taken and then not served; a bucket that is not there is full. */
  giveBack(key: string, nowMs: number): BucketState | undefined {
    const known = this.#buckets.get(key);
    if (known === undefined) return undefined;
    const bucket = this.#refilled(key, known.rate, known.burst, nowMs);
    bucket.tokens = Math.min(bucket.burst, bucket.tokens + 1);
    return stateOf(bucket, true);
  }

  /** Takes one request from a bucket that was used before, with its limits then; undefined where there is none. */
  takeKnown(key: string, nowMs: number): BucketState | undefined {
    const bucket = this.#buckets.get(key);
    return bucket === undefined ? undefined : this.take(key, bucket.rate, bucket.burst, nowMs);
  }

  #refilled(key: string, rate: number, burst: number, nowMs: number): Bucket {
    const known = this.#buckets.get(key);
    if (known === undefined) {
      if (this.#buckets.size >= BUCKETS_MAX) this.#forget(nowMs);
      const bucket = { tokens: burst, atMs: nowMs, rate, burst };
      this.#buckets.set(key, bucket);
      return bucket;
    }
    known.tokens = refill(known, rate, burst, nowMs);
    known.atMs = Math.max(known.atMs, nowMs);
    known.rate = rate;
    known.burst = burst;
    return known;
  }

  #forget(nowMs: number): void {
    for (const [key, bucket] of this.#buckets) {
      const elapsed = nowMs - bucket.atMs;
      if (bucket.tokens + (elapsed * bucket.rate) / 1000 >= bucket.burst) this.#buckets.delete(key);
    }
    // All in use: the least recently made goes, so that memory stays bounded whatever addresses are forged.
    if (this.#buckets.size >= BUCKETS_MAX) this.#buckets.delete(this.#buckets.keys().next().value!);
  }
}

/** What a bucket holds by now. */
function refill({ tokens, atMs }: Bucket, rate: number, burst: number, nowMs: number): number {
  return Math.min(burst, tokens + (Math.max(0, nowMs - atMs) * rate) / 1000);
}

/** What a bucket with so many `tokens` (whole and parts) that refills at `rate` a second up to `burst` says. */
export function stateOf(
  { tokens, rate, burst }: { readonly tokens: number; readonly rate: number; readonly burst: number },
  allowed: boolean,
): BucketState {
  return {
    allowed,
    limit: burst,
    remaining: Math.floor(tokens),
    resetSeconds: Math.ceil((burst - tokens) / rate),
    retryAfterSeconds: allowed ? 0 : Math.max(1, Math.ceil((1 - tokens) / rate)),
  };
}
