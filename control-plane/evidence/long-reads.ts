import { ProblemError } from '../../core/errors.ts';
import { LONG_READS_MAX, LONG_READS_OPEN_MAX, READER_PATIENCE_MS } from '../../core/limits.ts';
import type { RouteDependencies } from '../http/dependencies.ts';

/** A read of an account's whole chain that is under way. */
export interface LongRead {
  /** Does a part of the work, when it is its turn among all that are under way. */
  step<T>(work: () => Promise<T>): Promise<T>;
  /** Gives the account's place back, once however often it is called. */
  end(): void;
}

interface Open {
  /** Ends a read that waits for whoever takes its pages; null where nobody does. */
  readonly giveUp: (() => void) | null;
  /** For how long it waited for its reader in all, in milliseconds, and since when it does so now. */
  waitedMs: number;
  waitingSince: number | null;
}

/**
 * Reads of whole chains (exports, replays) that a control plane has under way: one an account, some in all, and few
 * that work at the same time. One that waits for its reader keeps nobody from working, and where all places are taken
 * the one that waited the longest is given up for whoever comes.
 */
export class LongReads {
  readonly #open = new Map<string, Open>();
  readonly #turns: (() => void)[] = [];
  readonly #now: () => number;
  #working = 0;

  constructor(now: () => number = () => performance.now()) {
    this.#now = now;
  }

  /**
   * Takes an account's place; `giveUp` where somebody takes the pages at a pace of their own.
   *
   * @throws ProblemError 409 `conflict` where the account has one under way, 503 `overloaded` where others have all
   */
  take(accountId: string, giveUp: (() => void) | null): LongRead {
    if (this.#open.has(accountId)) {
      throw new ProblemError('conflict', 'An export or a replay of this account is under way; wait until it is done.');
    }
    if (!this.#makeRoom(giveUp === null)) {
      const detail = 'Other accounts are exporting; try again in a moment.';
      throw new ProblemError('overloaded', detail, { retryAfterSeconds: 5 });
    }
    const own: Open = { giveUp, waitedMs: 0, waitingSince: null };
    this.#open.set(accountId, own);
    return {
      step: (work) => this.#step(own, work),
      end: () => {
        if (this.#open.get(accountId) === own) this.#open.delete(accountId);
      },
    };
  }

  /** Whether there is room for one more; those that nobody waits for have half of it at most. */
  #makeRoom(unattended: boolean): boolean {
    const all = [...this.#open];
    if (unattended && all.filter(([, { giveUp }]) => giveUp === null).length >= LONG_READS_MAX) return false;
    if (all.length < LONG_READS_OPEN_MAX) return true;
    const waited = ({ waitedMs, waitingSince }: Open) =>
      waitedMs + (waitingSince === null ? 0 : this.#now() - waitingSince);
    const [longest] = all.filter(([, one]) => one.giveUp !== null).sort(([, a], [, b]) => waited(b) - waited(a));
    if (longest === undefined || waited(longest[1]) < READER_PATIENCE_MS) return false;
    this.#open.delete(longest[0]);
    longest[1].giveUp?.();
    return true;
  }

  async #step<T>(own: Open, work: () => Promise<T>): Promise<T> {
    if (own.waitingSince !== null) own.waitedMs += this.#now() - own.waitingSince;
    own.waitingSince = null;
    if (this.#working < LONG_READS_MAX) this.#working += 1;
    else await new Promise<void>((resolve) => this.#turns.push(resolve));
    try {
      return await work();
    } finally {
      own.waitingSince = this.#now();
      // The turn passes on as it is: nobody who comes meanwhile gets in between.
      const next = this.#turns.shift();
      if (next === undefined) this.#working -= 1;
      else next();
    }
  }
}

const known = new WeakMap<RouteDependencies['commands'], LongReads>();

/** The long reads of a control plane: the same for all its routes and pages, which share what runs commands. */
export function longReads({ commands }: Pick<RouteDependencies, 'commands'>): LongReads {
  const reads = known.get(commands) ?? new LongReads();
  known.set(commands, reads);
  return reads;
}
