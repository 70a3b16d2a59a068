import { ProblemError } from '../../core/errors.ts';
import { LONG_READS_MAX } from '../../core/limits.ts';
import type { RouteDependencies } from '../http/dependencies.ts';

/** Reads of whole chains (exports, replays) that a control plane has under way: one an account, a few in all. */
export class LongReads {
  readonly #accounts = new Set<string>();

  /**
   * Takes an account's turn; the returned function gives it back, once however often it is called.
   *
   * @throws ProblemError 409 `conflict` where the account has one under way, 503 `overloaded` where others have all
   */
  take(accountId: string): () => void {
    if (this.#accounts.has(accountId)) {
      throw new ProblemError('conflict', 'An export or a replay of this account is under way; wait until it is done.');
    }
    if (this.#accounts.size >= LONG_READS_MAX) {
      const detail = 'Other accounts are exporting; try again in a moment.';
      throw new ProblemError('overloaded', detail, { retryAfterSeconds: 5 });
    }
    this.#accounts.add(accountId);
    let taken = true;
    return () => {
      if (taken) this.#accounts.delete(accountId);
      taken = false;
    };
  }
}

const known = new WeakMap<RouteDependencies['commands'], LongReads>();

/** The long reads of a control plane: the same for all its routes and pages, which share what runs commands. */
export function longReads({ commands }: Pick<RouteDependencies, 'commands'>): LongReads {
  const reads = known.get(commands) ?? new LongReads();
  known.set(commands, reads);
  return reads;
}
