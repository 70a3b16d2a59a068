import { NEW_AGENT_KEYS_BURST, NEW_AGENT_KEYS_PER_SECOND } from '../../core/limits.ts';

/** How many keys may be checked anew, a second and at once. */
export interface NewKeysRate {
  readonly perSecond: number;
  readonly burst: number;
}

const RATE: NewKeysRate = { perSecond: NEW_AGENT_KEYS_PER_SECOND, burst: NEW_AGENT_KEYS_BURST };

/**
 * Bounds the checks of agents' keys that were not seen before: anybody can make up keys, and whose they are is known
 * only after the check. Agents that were seen before are not kept waiting.
 */
export class NewKeys {
  readonly #rate: NewKeysRate;
  #left: number;
  #atMs = 0;

  constructor(rate: NewKeysRate = RATE) {
    this.#rate = rate;
    this.#left = rate.burst;
  }

  /** Whether one more may be checked now (monotonic milliseconds). */
  take(nowMs: number): boolean {
    const { perSecond, burst } = this.#rate;
    this.#left = Math.min(burst, this.#left + ((nowMs - this.#atMs) / 1000) * perSecond);
    this.#atMs = nowMs;
    if (this.#left < 1) return false;
    this.#left -= 1;
    return true;
  }
}
