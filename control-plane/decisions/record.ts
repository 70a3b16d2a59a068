import type { Verdict } from '../../core/decide.ts';
import { type EvidenceKind, entryHash } from '../../core/evidence.ts';
import { OUTCOME_LATE_MS } from '../../core/limits.ts';
import { appendLeaf } from '../../core/merkle.ts';
import { edgeHashes, TILE_HEIGHT } from '../../core/merkle-tree.ts';
import type { RequestShape } from '../../core/request-shape.ts';
import { newTypeId, typeIdTimeMs } from '../../core/type-id.ts';
import type { DecisionPath, GatewayOutcome } from '../../core/wire.ts';
import type { Sql } from '../db/client.ts';
import type { AuthorisationState, HeadState, MonthState } from './account-facts.ts';
import { joined } from './columns.ts';
import type { AppendedEntry } from './command.ts';

/** A request that was denied because its tool is unmapped or it could not be read: `unreadable` says why then. */
export interface Sighting {
  readonly accountId: string;
  readonly instanceId: string;
  /** Of the tool, as the database names it. */
  readonly key: string;
  readonly atMs: number;
  readonly unreadable: string | null;
  readonly shape: RequestShape | null;
}

interface MonthChange {
  readonly accountId: string;
  readonly mandateId: string;
  readonly month: string;
  readonly isNew: boolean;
  /** Its place among the months, from 1: what reservations call it. */
  readonly place: number;
  reserved: number;
  booked: number;
  allows: number;
}

interface Statement {
  readonly text: string;
  readonly params: readonly (string | number | Buffer | null)[];
}

/** A reservation before it is written; `keyHash`: of the idempotency key it was made under, in hex. */
export interface Hold {
  readonly accountId: string;
  readonly receiptId: string;
  readonly mandateId: string;
  readonly month: string;
  readonly subjectId: string;
  readonly amount: number;
  readonly keyHash: string | null;
}

/** What an allow on path 1 or 2 reserves; hashes are hex, `nonceEndsMs` is when the presentation has expired anyway. */
export interface Authorisation
  extends Pick<
    AuthorisationState,
    'accountId' | 'receiptId' | 'mandateId' | 'month' | 'keyId' | 'amount' | 'currency' | 'actionType' | 'counterparty'
  > {
  readonly ctx: string;
  readonly tokenHash: string;
  readonly nonceHash: string;
  readonly nonceEndsMs: number;
}

/** Outcomes in one entry; a body of so many stays well below what an entry may hold. */
const OUTCOMES_PER_ENTRY_MAX = 128;

/** How long a reservation waits for its outcome before it counts as unknown, in milliseconds. */
export const RESERVATION_DUE_MS = 15 * 60_000;

/** How long an authorisation waits to be booked before it counts in full for good, in milliseconds (contract §5). */
export const AUTHORISATION_DUE_MS = 24 * 60 * 60_000;

/** How old the time of a decision on carried facts may be when it is written, in milliseconds. */
const FRESH_MS = 1_000;

const RECORD_PARAMS = 40;
const AUTHORISE_PARAMS = 15;
const places = (count: number): string => Array.from({ length: count }, (_, i) => `$${i + 1}`).join(', ');
const RECORD = `select record_decisions(${places(RECORD_PARAMS)}) as now_ms`;
const RECORD_AND_AUTHORISE = `select record_and_authorise(${places(RECORD_PARAMS + AUTHORISE_PARAMS)}) as now_ms`;

/** Outcomes of an account that will be one entry, and the receipts among them that are told late. */
interface WaitingOutcomes {
  readonly texts: string[];
  readonly late: string[];
}

/** By which a dossier finds those that do not lie close behind their decision (docs/design/0017). */
const LATE = `insert into late_outcomes (account_id, receipt_id, seq)
  select n.account_id, n.receipt_id, n.seq::bigint
  from unnest(list_of($1), list_of($2), list_of($3)) as n (account_id, receipt_id, seq)
  on conflict do nothing`;

/** Collects what a batch or a command changes and writes it with one call, evidence first. */
export class Recording {
  readonly #confirmed: ReadonlySet<HeadState>;
  readonly #heads = new Map<string, HeadState>();
  readonly #outcomes = new Map<HeadState, WaitingOutcomes>();
  readonly #entries = {
    head: [] as HeadState[],
    seq: [] as number[],
    id: [] as string[],
    prev: [] as string[],
    hash: [] as string[],
    body: [] as string[],
  };
  readonly #subtrees = { head: [] as HeadState[], level: [] as number[], index: [] as number[], hash: [] as string[] };
  readonly #months = new Map<string, MonthChange>();
  readonly #holds = {
    month: [] as number[],
    receipt: [] as string[],
    subject: [] as string[],
    amount: [] as number[],
    key: [] as string[],
    keyed: false,
  };
  readonly #gone = { head: [] as HeadState[], receipt: [] as string[] };
  readonly #unknown = { head: [] as HeadState[], receipt: [] as string[] };
  readonly #authorisations: Authorisation[] = [];
  #authorisedAtMs = 0;
  readonly #assumed = { account: [] as string[], nonce: [] as string[] };
  readonly #late = { account: [] as string[], receipt: [] as string[], seq: [] as number[], waiting: 0 };
  readonly #statements: Statement[] = [];
  #changesFacts = false;
  readonly kinds: EvidenceKind[] = [];
  /** What the metrics hear of once it is committed. */
  readonly verdicts: [DecisionPath, Verdict['decision'], string][] = [];
  readonly outcomes: GatewayOutcome['outcome'][] = [];
  /** Requests that were denied because nothing could be read from them. */
  readonly sightings: Sighting[] = [];

  /** `confirm`: heads whose facts were carried over, for the database to compare with what it has. */
  constructor(confirm: Iterable<HeadState> = []) {
    this.#confirmed = new Set(confirm);
    for (const head of this.#confirmed) this.#heads.set(head.accountId, head);
  }

  /** Whether one statement says it all. */
  get single(): boolean {
    const { receipt, waiting } = this.#late;
    if (receipt.length + waiting > 0) return false;
    return this.#statements.length === 0 && this.#assumed.nonce.length === 0;
  }

  /** Whether it changes facts that carry a revision, so that what is in memory is not what is stored then. */
  get changesFacts(): boolean {
    return this.#changesFacts;
  }

  /**
   * Appends an outcome (JCS text) of a receipt. Outcomes that follow each other share an entry: they are as many as the
   * decisions, and an entry costs far more than a line in one.
   */
  outcome(head: HeadState, receiptId: string, text: string): void {
    const waiting = this.#outcomes.get(head) ?? { texts: [], late: [] };
    this.#outcomes.set(head, waiting);
    if (head.nowMs - typeIdTimeMs(receiptId) >= OUTCOME_LATE_MS) {
      waiting.late.push(receiptId);
      this.#late.waiting += 1;
    }
    if (waiting.texts.push(text) >= OUTCOMES_PER_ENTRY_MAX) this.#appendOutcomes(head);
  }

  #appendOutcomes(head: HeadState): void {
    const waiting = this.#outcomes.get(head);
    if (waiting === undefined) return;
    this.#outcomes.delete(head);
    const { texts, late } = waiting;
    const { seq } = this.append(head, 'outcome', newTypeId('evt', head.nowMs), `{"outcomes":[${texts.join(',')}]}`);
    for (const receiptId of late) {
      this.#late.account.push(head.accountId);
      this.#late.receipt.push(receiptId);
      this.#late.seq.push(seq);
    }
    this.#late.waiting -= late.length;
  }

  /** Appends an entry whose body is JCS text to the head's chain and moves the head. */
  append(head: HeadState, kind: EvidenceKind, id: string, body: string): AppendedEntry {
    if (this.#outcomes.size > 0) this.#appendOutcomes(head);
    const entry = { account: head.accountId, seq: head.size, id, kind, at: head.now, prev: head.hash, body };
    const columns = this.#entries;
    columns.head.push(head);
    columns.seq.push(entry.seq);
    columns.id.push(id);
    columns.prev.push(entry.prev);
    columns.body.push(body);
    head.hash = entryHash(entry);
    columns.hash.push(head.hash);
    this.#grow(head);
    head.size += 1;
    this.#heads.set(head.accountId, head);
    this.kinds.push(kind);
    return { id, seq: entry.seq, at: entry.at };
  }

  /** Adds the head's last entry to its tree, and the subtrees that the tiles of the levels above the leaves hold. */
  #grow(head: HeadState): void {
    const subtrees = this.#subtrees;
    head.edge = appendLeaf(head.edge, head.size, head.hash, ({ level, index }, hash) => {
      if (level % TILE_HEIGHT !== 0) return;
      subtrees.head.push(head);
      subtrees.level.push(level / TILE_HEIGHT);
      subtrees.index.push(index);
      subtrees.hash.push(hash);
    });
  }

  /** Adds to a month's sums (minor units, negative to take away); `seen` undefined: it was not read, and is stored. */
  month(
    where: { accountId: string; mandateId: string; month: string },
    seen: MonthState | undefined,
    change: { reserved: number; booked: number; allows: number },
  ): void {
    const known = this.#monthChange(where, seen);
    known.reserved += change.reserved;
    known.booked += change.booked;
    known.allows += change.allows;
  }

  #monthChange(where: { accountId: string; mandateId: string; month: string }, seen?: MonthState): MonthChange {
    const { accountId, mandateId, month } = where;
    const key = `${mandateId} ${month}`;
    let change = this.#months.get(key);
    if (change === undefined) {
      const isNew = seen?.stored === false;
      const place = this.#months.size + 1;
      change = { accountId, mandateId, month, isNew, place, reserved: 0, booked: 0, allows: 0 };
      this.#months.set(key, change);
      if (seen !== undefined) seen.stored = true;
    }
    return change;
  }

  /** Inserts a reservation, whose amount {@link month} was told. */
  hold(hold: Hold): void {
    const columns = this.#holds;
    columns.month.push(this.#monthChange(hold).place);
    columns.receipt.push(hold.receiptId);
    columns.subject.push(hold.subjectId);
    columns.amount.push(hold.amount);
    columns.key.push(hold.keyHash ?? '');
    if (hold.keyHash !== null) columns.keyed = true;
  }

  /** Inserts an authorisation, whose amount {@link month} was told, and spends its nonce. */
  authorise(authorisation: Authorisation, nowMs: number): void {
    this.#authorisations.push(authorisation);
    this.#authorisedAtMs = Math.max(this.#authorisedAtMs, nowMs);
  }

  /** Has the database confirm that a nonce is unspent, where that is not a fact that was just read. */
  assumeUnspent(accountId: string, nonceHash: string): void {
    if (this.#confirmed.size === 0) return;
    this.#assumed.account.push(accountId);
    this.#assumed.nonce.push(nonceHash);
  }

  /** Settles a reservation: booked in full or released (it is then gone), or unknown (it stays). */
  settle(head: HeadState, receiptId: string, state: 'booked' | 'released' | 'unknown'): void {
    const settled = state === 'unknown' ? this.#unknown : this.#gone;
    settled.head.push(head);
    settled.receipt.push(receiptId);
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
    if (this.#authorisations.length > 0) {
      const params = [...this.#params(), ...this.#authoriseParams()];
      sent.push(sql.unsafe(RECORD_AND_AUTHORISE, params, { prepare: true }).execute());
    } else if (this.#heads.size > 0) {
      sent.push(sql.unsafe(RECORD, this.#params(), { prepare: true }).execute());
    }
    if (this.#assumed.nonce.length > 0) {
      const params = [joined(this.#assumed.account), joined(this.#assumed.nonce)];
      sent.push(sql.unsafe('select assert_unspent($1, $2)', params, { prepare: true }).execute());
    }
    if (this.#late.receipt.length > 0) {
      const params = [joined(this.#late.account), joined(this.#late.receipt), joined(this.#late.seq)];
      sent.push(sql.unsafe(LATE, params, { prepare: true }).execute());
    }
    for (const { text, params } of this.#statements) {
      sent.push(sql.unsafe(text, [...params], { prepare: true }).execute());
    }
    return sent;
  }

  #params(): (string | number | null)[] {
    // In the order in which the locks are taken, so that two control planes cannot deadlock.
    const heads = [...this.#heads.values()].sort((a, b) => (a.accountId < b.accountId ? -1 : 1));
    const confirmed = this.#confirmed;
    const placeOf = new Map(heads.map((head, i) => [head, i + 1]));
    const placesOf = (column: readonly HeadState[]) => joined(column.map((head) => placeOf.get(head)!));
    const entries = this.#entries;
    return [
      heads.length,
      confirmed.size > 0 ? FRESH_MS : null,
      joined(heads.map((head) => head.accountId)),
      joined(heads.map((head) => head.before)),
      joined(heads.map((head) => (confirmed.has(head) ? head.revision : ''))),
      joined(heads.map((head) => head.size)),
      joined(heads.map((head) => head.hash)),
      joined(heads.map((head) => head.nowMs)),
      joined(heads.map((head) => head.now)),
      placesOf(entries.head),
      joined(entries.seq),
      joined(entries.id),
      joined(this.kinds),
      joined(entries.prev),
      joined(entries.hash),
      joined(entries.body),
      ...this.#monthParams(),
      joined(this.#holds.month),
      joined(this.#holds.receipt),
      joined(this.#holds.subject),
      joined(this.#holds.amount),
      this.#holds.keyed ? joined(this.#holds.key) : '',
      RESERVATION_DUE_MS,
      this.#gone.receipt.length,
      placesOf(this.#gone.head),
      joined(this.#gone.receipt),
      placesOf(this.#unknown.head),
      joined(this.#unknown.receipt),
      joined(heads.map((head) => edgeHashes(head.edge).join(''))),
      placesOf(this.#subtrees.head),
      joined(this.#subtrees.level),
      joined(this.#subtrees.index),
      joined(this.#subtrees.hash),
    ];
  }

  #monthParams(): (string | number)[] {
    const months = [...this.#months.values()];
    return [
      months.length,
      months.filter((change) => change.isNew).length,
      joined(months.map((change) => change.accountId)),
      joined(months.map((change) => change.mandateId)),
      joined(months.map((change) => change.month)),
      joined(months.map((change) => change.reserved)),
      joined(months.map((change) => change.booked)),
      joined(months.map((change) => change.allows)),
    ];
  }

  #authoriseParams(): (string | number)[] {
    const all = this.#authorisations;
    const column = (of: (one: Authorisation) => string | number) => joined(all.map(of));
    return [
      column((one) => one.accountId),
      column((one) => one.receiptId),
      column((one) => one.tokenHash),
      column((one) => one.mandateId),
      column((one) => one.month),
      column((one) => one.keyId),
      column((one) => one.amount),
      column((one) => one.currency),
      column((one) => one.actionType),
      column((one) => one.counterparty ?? ''),
      column((one) => one.ctx),
      column((one) => one.nonceHash),
      column((one) => one.nonceEndsMs),
      this.#authorisedAtMs,
      AUTHORISATION_DUE_MS,
    ];
  }
}
