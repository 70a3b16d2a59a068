import type { Verdict } from '../../core/decide.ts';
import { type EvidenceKind, entryHash } from '../../core/evidence.ts';
import { newTypeId } from '../../core/type-id.ts';
import type { GatewayOutcome } from '../../core/wire.ts';
import type { Sql } from '../db/client.ts';
import type { HeadState, MonthState } from './account-facts.ts';
import type { AppendedEntry } from './command.ts';

/** Joins a column for `list_of()`: identifiers and JSON text cannot hold U+001F. */
export function joined(values: readonly (string | number)[]): string {
  return values.join('\u001f');
}

interface MonthChange {
  readonly accountId: string;
  readonly mandateId: string;
  readonly month: string;
  readonly isNew: boolean;
  reserved: number;
  booked: number;
  allows: number;
}

interface Statement {
  readonly text: string;
  readonly params: readonly (string | number | Buffer | null)[];
}

/** Outcomes in one entry; a body of so many stays well below what an entry may hold. */
const OUTCOMES_PER_ENTRY_MAX = 128;

/** How long a reservation waits for its outcome before it counts as unknown, in milliseconds. */
export const RESERVATION_DUE_MS = 15 * 60_000;

/** How old the time of a decision on carried facts may be when it is written, in milliseconds. */
const FRESH_MS = 1_000;

const RECORD = `select record_decisions(${Array.from({ length: 38 }, (_, i) => `$${i + 1}`).join(', ')}) as now_ms`;

/** Collects what a batch or a command changes and writes it with one call, evidence first. */
export class Recording {
  readonly #confirmed: ReadonlySet<HeadState>;
  readonly #outcomes = new Map<HeadState, string[]>();
  readonly #entries: string[][] = [[], [], [], [], [], [], [], []];
  readonly #heads = new Map<string, HeadState>();
  readonly #months = new Map<string, MonthChange>();
  readonly #holds: (string | number)[][] = [[], [], [], [], [], [], [], []];
  readonly #gone: [string[], string[]] = [[], []];
  readonly #unknown: [string[], string[]] = [[], []];
  readonly #statements: Statement[] = [];
  #changesFacts = false;
  readonly kinds: EvidenceKind[] = [];
  /** What the metrics hear of once it is committed. */
  readonly verdicts: [Verdict['decision'], string][] = [];
  readonly outcomes: GatewayOutcome['outcome'][] = [];

  /** `confirm`: heads whose facts were carried over, for the database to compare with what it has. */
  constructor(confirm: Iterable<HeadState> = []) {
    this.#confirmed = new Set(confirm);
    for (const head of this.#confirmed) this.#heads.set(head.accountId, head);
  }

  /** Whether one statement says it all. */
  get single(): boolean {
    return this.#statements.length === 0;
  }

  /** Whether it changes facts that carry a revision, so that what is in memory is not what is stored then. */
  get changesFacts(): boolean {
    return this.#changesFacts;
  }

  /**
   * Appends an outcome (JCS text). Outcomes that follow each other share an entry: they are as many as the decisions,
   * and an entry costs far more than a line in one.
   */
  outcome(head: HeadState, text: string): void {
    const waiting = this.#outcomes.get(head);
    if (waiting === undefined) this.#outcomes.set(head, [text]);
    else if (waiting.push(text) >= OUTCOMES_PER_ENTRY_MAX) this.#appendOutcomes(head);
  }

  #appendOutcomes(head: HeadState): void {
    const waiting = this.#outcomes.get(head);
    if (waiting === undefined) return;
    this.#outcomes.delete(head);
    this.append(head, 'outcome', newTypeId('evt', head.nowMs), `{"outcomes":[${waiting.join(',')}]}`);
  }

  /** Appends an entry whose body is JCS text to the head's chain and moves the head. */
  append(head: HeadState, kind: EvidenceKind, id: string, body: string): AppendedEntry {
    if (this.#outcomes.size > 0) this.#appendOutcomes(head);
    const seq = head.size;
    const entry = { account: head.accountId, seq, id, kind, at: head.now, prev: head.hash, body };
    const entryHashHex = entryHash(entry);
    const columns = this.#entries;
    columns[0]!.push(head.accountId);
    columns[1]!.push(String(seq));
    columns[2]!.push(id);
    columns[3]!.push(kind);
    columns[4]!.push(head.now);
    columns[5]!.push(head.hash);
    columns[6]!.push(entryHashHex);
    columns[7]!.push(body);
    head.size = seq + 1;
    head.hash = entryHashHex;
    this.#heads.set(head.accountId, head);
    this.kinds.push(kind);
    return { id, seq, at: head.now };
  }

  /** Adds to a month's sums (minor units, negative to take away); `seen` undefined: it was not read, and is stored. */
  month(
    where: { accountId: string; mandateId: string; month: string },
    seen: MonthState | undefined,
    change: { reserved: number; booked: number; allows: number },
  ): void {
    const { accountId, mandateId, month } = where;
    const key = `${mandateId} ${month}`;
    const known = this.#months.get(key);
    if (known === undefined) {
      this.#months.set(key, { accountId, mandateId, month, isNew: seen?.stored === false, ...change });
      if (seen !== undefined) seen.stored = true;
      return;
    }
    known.reserved += change.reserved;
    known.booked += change.booked;
    known.allows += change.allows;
  }

  /** Inserts a reservation. */
  hold(hold: {
    accountId: string;
    receiptId: string;
    mandateId: string;
    month: string;
    subjectId: string;
    amount: number;
    nowMs: number;
    keyHash: string | null;
  }): void {
    const columns = this.#holds;
    columns[0]!.push(hold.accountId);
    columns[1]!.push(hold.receiptId);
    columns[2]!.push(hold.mandateId);
    columns[3]!.push(hold.month);
    columns[4]!.push(hold.subjectId);
    columns[5]!.push(hold.amount);
    columns[6]!.push(hold.nowMs);
    columns[7]!.push(hold.keyHash ?? '');
  }

  /** Settles a reservation: booked in full or released (it is then gone), or unknown (it stays). */
  settle(accountId: string, receiptId: string, state: 'booked' | 'released' | 'unknown'): void {
    const [accounts, receipts] = state === 'unknown' ? this.#unknown : this.#gone;
    accounts.push(accountId);
    receipts.push(receiptId);
  }

  /** Adds a statement for what happens rarely; it runs after the hot writes in the same transaction. */
  statement(text: string, params: Statement['params']): void {
    this.#statements.push({ text, params });
  }

  /** Adds a statement that changes facts: what is in memory of them is not used again. */
  change(text: string, params: Statement['params']): void {
    this.#changesFacts = true;
    this.#statements.push({ text, params });
  }

  /** Sends everything at once; the promises settle in order and the first failure aborts the transaction. */
  send(sql: Sql): Promise<unknown>[] {
    const sent: Promise<unknown>[] = [];
    for (const head of [...this.#outcomes.keys()]) this.#appendOutcomes(head);
    if (this.#heads.size > 0) sent.push(sql.unsafe(RECORD, this.#params(), { prepare: true }).execute());
    for (const { text, params } of this.#statements) {
      sent.push(sql.unsafe(text, [...params], { prepare: true }).execute());
    }
    return sent;
  }

  #params(): (string | number | null)[] {
    // In the order in which the locks are taken, so that two control planes cannot deadlock.
    const heads = [...this.#heads.values()].sort((a, b) => (a.accountId < b.accountId ? -1 : 1));
    const months = [...this.#months.values()];
    const confirmed = this.#confirmed;
    return [
      heads.length,
      confirmed.size > 0 ? FRESH_MS : null,
      joined(heads.map((head) => head.accountId)),
      joined(heads.map((head) => head.before)),
      joined(heads.map((head) => (confirmed.has(head) ? head.revision : ''))),
      joined(heads.map((head) => head.size)),
      joined(heads.map((head) => head.hash)),
      joined(heads.map((head) => head.nowMs)),
      ...this.#entries.map(joined),
      months.length,
      months.filter((change) => change.isNew).length,
      joined(months.map((change) => change.accountId)),
      joined(months.map((change) => change.mandateId)),
      joined(months.map((change) => change.month)),
      joined(months.map((change) => change.reserved)),
      joined(months.map((change) => change.booked)),
      joined(months.map((change) => change.allows)),
      ...this.#holds.slice(0, 7).map(joined),
      RESERVATION_DUE_MS,
      joined(this.#holds[7]!),
      this.#gone[1].length,
      ...this.#gone.map(joined),
      ...this.#unknown.map(joined),
    ];
  }
}
