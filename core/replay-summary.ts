import { MONEY_MINOR_MAX } from './limits.ts';
import { decimalOf } from './money.ts';
import type { ReplayDecision, ReplayedDecision, ReplayVerdict } from './replay.ts';

/** Decisions that went from one verdict to another: how many, and the sum of their amounts (minor units). */
export interface ReplayCount {
  readonly recorded: ReplayVerdict;
  readonly replayed: ReplayVerdict;
  count: number;
  amount: bigint;
}

/** What was allowed on a day (UTC) and what would have been, in minor units. */
export interface ReplayDay {
  recorded: bigint;
  replayed: bigint;
}

/** Adds up a replay: verdicts against verdicts, days, and the first decisions that change. Holds no more than that. */
export class ReplaySummary {
  readonly #changesMax: number;
  readonly #counts = new Map<string, ReplayCount>();
  readonly #days = new Map<string, ReplayDay>();
  readonly changes: ReplayedDecision[] = [];
  decisions = 0;
  changed = 0;

  constructor(changesMax: number) {
    this.#changesMax = changesMax;
  }

  add(one: ReplayedDecision): void {
    const { recorded, replayed, changed } = one;
    const amount = BigInt(one.amount ?? 0);
    const key = [recorded.decision, recorded.code, replayed.decision, replayed.code].join(' ');
    const count = this.#counts.get(key) ?? { recorded, replayed, count: 0, amount: 0n };
    count.count += 1;
    count.amount += amount;
    this.#counts.set(key, count);
    this.#addDay(one, amount);
    this.decisions += 1;
    if (!changed) return;
    this.changed += 1;
    if (this.changes.length < this.#changesMax) this.changes.push(one);
  }

  #addDay({ at, recorded, replayed }: ReplayedDecision, amount: bigint): void {
    const name = at.slice(0, 10);
    const day = this.#days.get(name) ?? { recorded: 0n, replayed: 0n };
    if (recorded.decision === 'allow') day.recorded += amount;
    if (replayed.decision === 'allow') day.replayed += amount;
    this.#days.set(name, day);
  }

  /** As an answer: amounts are JSON numbers in major units, null where they are more than an amount may be. */
  view(currency: string) {
    const money = (minor: bigint): number | null =>
      minor > BigInt(MONEY_MINOR_MAX) ? null : decimalOf(Number(minor), currency);
    const allowed = (side: 'recorded' | 'replayed'): number | null =>
      money(this.#days.values().reduce((sum, day) => sum + day[side], 0n));
    const counts = [...this.#counts.values()].sort((a, b) => b.count - a.count);
    return {
      decisions: this.decisions,
      changed: this.changed,
      allowed: { recorded: allowed('recorded'), replayed: allowed('replayed') },
      counts: counts.map(({ recorded, replayed, count, amount }) => ({
        ...{ recorded: nameOf(recorded), replayed: nameOf(replayed), count, amount: money(amount) },
      })),
      days: Array.from(this.#days, ([day, { recorded, replayed }]) => ({
        ...{ day, recorded: money(recorded), replayed: money(replayed) },
      })),
      changes: this.changes.map(({ changed: _, receiptId, amount, ...one }) => ({
        ...{ receipt_id: receiptId, ...one, amount: amount === null ? null : money(BigInt(amount)) },
      })),
    };
  }
}

function nameOf({ decision, code }: ReplayVerdict): {
  readonly decision: ReplayDecision;
  readonly code: string | null;
} {
  return { decision, code };
}
