import { LRUCache } from 'lru-cache';
import { ProblemError } from '../../core/errors.ts';

/** Failures in a row that an account is allowed before it is locked. */
export const FAILURES_MAX = 5;
/** The first lock; each further failure doubles it up to the longest. */
export const LOCK_FIRST_MS = 30_000;
export const LOCK_LONGEST_MS = 15 * 60_000;
/** Each cost its sender a request of a scarce bucket, and us a hash; the least recent is forgotten first. */
const UNKNOWN_ADDRESSES_MAX = 10_000;

/** How long an account is locked after this many failures in a row, in milliseconds; 0: not at all. */
export function lockAfter(failures: number): number {
  if (failures < FAILURES_MAX) return 0;
  return Math.min(LOCK_LONGEST_MS, LOCK_FIRST_MS * 2 ** Math.min(failures - FAILURES_MAX, 16));
}

/** The 429 of an account that is locked until then. */
export function lockedOut(untilMs: number, nowMs: number): ProblemError {
  const retryAfterSeconds = Math.max(1, Math.ceil((untilMs - nowMs) / 1000));
  return new ProblemError('locked_out', 'Too many attempts failed; wait before the next one.', { retryAfterSeconds });
}

interface Failures {
  readonly count: number;
  readonly lockedUntilMs: number;
}

/**
 * Counts failures at addresses that no account has, so that they lock like the others: a lock tells nobody that there
 * is an account. In this process only, since nothing is at stake but the difference.
 */
export class UnknownAddresses {
  readonly #failures = new LRUCache<string, Failures>({ max: UNKNOWN_ADDRESSES_MAX });

  /** @throws ProblemError 429 `locked_out` */
  refuseLocked(email: string, nowMs: number): void {
    const until = this.#failures.get(email)?.lockedUntilMs ?? 0;
    if (until > nowMs) throw lockedOut(until, nowMs);
  }

  /** Counts one more failure. */
  count(email: string, nowMs: number): void {
    const count = (this.#failures.get(email)?.count ?? 0) + 1;
    const lockMs = lockAfter(count);
    // Others that are under way may have begun a moment before: without a lock there is nothing to compare with.
    this.#failures.set(email, { count, lockedUntilMs: lockMs === 0 ? 0 : nowMs + lockMs });
  }

  /** The address has an account now. */
  forget(email: string): void {
    this.#failures.delete(email);
  }
}
