import { type EvidenceKind, entryHash } from '../../core/evidence.ts';
import { newTypeId } from '../../core/type-id.ts';
import type { Sql } from '../db/client.ts';
import type { HeadState } from './batch-state.ts';
import type { AppendedEntry } from './command.ts';

/** Joins a column for `list_of()`: identifiers and JSON text cannot hold U+001F. */
export function joined(values: readonly (string | number)[]): string {
  return values.join('\u001f');
}

interface MonthChange {
  readonly accountId: string;
  readonly mandateId: string;
  readonly month: string;
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

const RECORD = `select record_decisions(${Array.from({ length: 30 }, (_, i) => `$${i + 1}`).join(', ')})`;

/** Collects what a batch or a command changes and writes it with one call, evidence first. */
export class Recording {
  readonly #outcomes = new Map<HeadState, string[]>();
  readonly #entries: string[][] = [[], [], [], [], [], [], [], []];
  readonly #heads = new Map<string, HeadState>();
  readonly #months = new Map<string, MonthChange>();
  readonly #holds: (string | number)[][] = [[], [], [], [], [], [], [], []];
  readonly #settles: string[][] = [[], [], []];
  readonly #statements: Statement[] = [];
  readonly kinds: EvidenceKind[] = [];

  /** Whether there is nothing to write. */
  get empty(): boolean {
    return this.kinds.length === 0 && this.#statements.length === 0 && this.#outcomes.size === 0;
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

  /** Adds to a month's sums (minor units, negative to take away). */
  month(
    accountId: string,
    mandateId: string,
    month: string,
    change: { reserved: number; booked: number; allows: number },
  ): void {
    const key = `${mandateId} ${month}`;
    const known = this.#months.get(key);
    if (known === undefined) {
      this.#months.set(key, { accountId, mandateId, month, ...change });
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
    const columns = this.#settles;
    columns[0]!.push(accountId);
    columns[1]!.push(receiptId);
    columns[2]!.push(state);
  }

  /** Adds a statement for what happens rarely; it runs after the hot writes in the same transaction. */
  statement(text: string, params: Statement['params']): void {
    this.#statements.push({ text, params });
  }

  /** Sends everything at once; the promises settle in order and the first failure aborts the transaction. */
  send(sql: Sql): Promise<unknown>[] {
    const sent: Promise<unknown>[] = [];
    for (const head of [...this.#outcomes.keys()]) this.#appendOutcomes(head);
    if (this.kinds.length > 0) sent.push(sql.unsafe(RECORD, this.#params(), { prepare: true }).execute());
    for (const { text, params } of this.#statements) {
      sent.push(sql.unsafe(text, [...params], { prepare: true }).execute());
    }
    return sent;
  }

  #params(): (string | number)[] {
    const heads = [...this.#heads.values()];
    const months = [...this.#months.values()];
    return [
      ...this.#entries.map(joined),
      joined(heads.map((head) => head.accountId)),
      joined(heads.map((head) => head.size)),
      joined(heads.map((head) => head.hash)),
      joined(heads.map((head) => head.nowMs)),
      joined(months.map((change) => change.accountId)),
      joined(months.map((change) => change.mandateId)),
      joined(months.map((change) => change.month)),
      joined(months.map((change) => change.reserved)),
      joined(months.map((change) => change.booked)),
      joined(months.map((change) => change.allows)),
      ...this.#holds.slice(0, 7).map(joined),
      RESERVATION_DUE_MS,
      joined(this.#holds[7]!),
      ...this.#settles.map(joined),
    ];
  }
}
