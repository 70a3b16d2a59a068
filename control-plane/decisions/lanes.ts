import { ProblemError } from '../../core/errors.ts';
import type { EvidenceKind } from '../../core/evidence.ts';
import { canonicalize, type JsonValue } from '../../core/jcs.ts';
import { edgeOf, hashesOf } from '../../core/merkle-tree.ts';
import { newTypeId } from '../../core/type-id.ts';
import type { Sql } from '../db/client.ts';
import type { HeadState } from './account-facts.ts';
import { type BatchDependencies, type BatchLane, type Flight, refuse, runOnRead, sendAhead } from './batch.ts';
import { CarriedFacts } from './carried-facts.ts';
import type { CommandContext, CommandOptions, CommandRunner } from './command.ts';
import { FactReader } from './facts.ts';
import type { CommandItem, HotItem, LaneItem } from './items.ts';
import { LaneConnection } from './lane-connection.ts';
import { Recording } from './record.ts';

/** Lanes of a control plane where nobody says otherwise. */
export const LANES_DEFAULT = 4;
/** Most items in one transaction: enough to amortise a commit, few enough to keep it within milliseconds. */
export const BATCH_MAX = 256;
/**
 * Batches on their way to the database: one is executed while the next is decided; more would only be smaller ones.
 */
const FLIGHTS_MAX = 2;
/** A further batch starts when this many items wait, and half as many as are under way: else it waits and grows. */
const AHEAD_ITEMS_MIN = 24;
/** Most items that may wait on a lane, and of one account: beyond that work is refused, not remembered. */
export const LANE_QUEUE_MAX = 8_192;
export const ACCOUNT_QUEUE_MAX = 4_096;

export interface LanesOptions extends BatchDependencies {
  readonly databaseUrl: string;
  readonly lanes?: number;
  readonly batchMax?: number;
}

/**
 * The only way an account's state changes: decisions and outcomes in batches, everything else as commands.
 *
 * An account always has the same lane; a lane runs one transaction at a time, and what arrives meanwhile is its next
 * batch. Accounts on a lane take turns, each in its order of arrival. Source: design §2.3, §2.4.
 */
export class Lanes implements CommandRunner {
  readonly #lanes: Lane[];
  #closing = false;

  constructor(options: LanesOptions) {
    const count = options.lanes ?? LANES_DEFAULT;
    this.#lanes = Array.from({ length: count }, (_, number) => new Lane(options, number));
  }

  /** Queues asks and outcomes; each is answered through its own `answer`, always, and refused when there is no room. */
  submit(item: HotItem): void {
    if (this.#closing) refuse(item, 'The control plane is shutting down.');
    else if (!this.#laneOf(item.accountId).push(item)) refuse(item, 'Too much work is waiting.');
  }

  command<T>(
    accountId: string,
    run: (context: CommandContext) => Promise<T>,
    options: CommandOptions = {},
  ): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      const item: CommandItem = {
        kind: 'command',
        accountId,
        run: (connection) => runCommand(connection, accountId, run, options).then(resolve, reject),
        refuse: reject,
      };
      if (this.#closing || !this.#laneOf(accountId).push(item)) {
        const detail = 'Too much work is waiting; try again.';
        reject(new ProblemError('overloaded', detail, { retryAfterSeconds: 1 }));
      }
    });
  }

  /** How many items wait on all lanes. */
  get depth(): number {
    return this.#lanes.reduce((sum, lane) => sum + lane.depth, 0);
  }

  /** Refuses new work, finishes what was accepted, closes the connections. */
  async close(): Promise<void> {
    this.#closing = true;
    await Promise.all(this.#lanes.map((lane) => lane.close()));
  }

  #laneOf(accountId: string): Lane {
    // The tail of a TypeID is random, so its last characters spread accounts evenly.
    let sum = 0;
    for (let i = accountId.length - 6; i < accountId.length; i++) sum = (sum * 31 + accountId.charCodeAt(i)) >>> 0;
    return this.#lanes[sum % this.#lanes.length]!;
  }
}

class Lane {
  readonly #options: LanesOptions;
  readonly #connection: LaneConnection;
  readonly #carried = new CarriedFacts();
  readonly #means: BatchLane;
  readonly #accounts = new Map<string, LaneItem[]>();
  readonly #batchMax: number;
  readonly #flights: Flight[] = [];
  readonly #refused: Flight[] = [];
  #depth = 0;
  #running: Promise<void> | null = null;
  #enough: (() => void) | null = null;

  constructor(options: LanesOptions, number: number) {
    this.#options = options;
    this.#batchMax = options.batchMax ?? BATCH_MAX;
    this.#connection = new LaneConnection(options.databaseUrl, `mandate lane ${number}`);
    this.#means = { connection: this.#connection, reader: new FactReader(), carried: this.#carried };
  }

  get depth(): number {
    return this.#depth;
  }

  push(item: LaneItem): boolean {
    const queue = this.#accounts.get(item.accountId);
    if (this.#depth >= LANE_QUEUE_MAX || (queue?.length ?? 0) >= ACCOUNT_QUEUE_MAX) return false;
    if (queue === undefined) this.#accounts.set(item.accountId, [item]);
    else queue.push(item);
    this.#depth += 1;
    // Started in a microtask, so that everything of one arriving batch is queued before the first is taken.
    if (this.#running === null) this.#running = Promise.resolve().then(() => this.#run());
    else if (this.#mayStart) this.#enough?.();
    return true;
  }

  async close(): Promise<void> {
    while (this.#running !== null) await this.#running;
    await this.#connection.close();
  }

  async #run(): Promise<void> {
    try {
      while (this.#depth + this.#flights.length + this.#refused.length > 0) {
        if (this.#refused.length > 0) await this.#land();
        else if (!this.#mayStart) await this.#change();
        else await this.#start();
      }
    } finally {
      this.#running = null;
    }
  }

  /** Whether the next batch may be decided now: none is under way, or enough waits to be worth a second. */
  get #mayStart(): boolean {
    if (this.#flights.length === 0) return this.#depth > 0;
    if (this.#flights.length >= FLIGHTS_MAX || this.#depth < AHEAD_ITEMS_MIN) return false;
    return this.#depth * 2 >= this.#flights[0]!.items.length;
  }

  /** Waits until a batch has landed or enough waits for the next. */
  #change(): Promise<void> {
    return new Promise<void>((resolve) => {
      this.#enough = resolve;
      void this.#flights[0]!.landed.then(() => resolve());
    }).then(() => {
      this.#enough = null;
    });
  }

  async #start(): Promise<void> {
    this.#options.metrics.laneDepth(this.#depth);
    const next = this.#take();
    if (!Array.isArray(next)) {
      await this.#land();
      this.#carried.drop(next.accountId);
      await next.run(this.#connection);
    } else if (next.length > 0 && !this.#send(next)) {
      await this.#land();
      if (!this.#send(next)) await this.#runOnRead(next);
    }
  }

  #send(items: readonly HotItem[]): boolean {
    const flight = sendAhead(this.#means, this.#options, items);
    if (flight === null) return false;
    this.#flights.push(flight);
    void flight.landed.then((how) => {
      this.#flights.splice(this.#flights.indexOf(flight), 1);
      if (how === 'refused') this.#refused.push(flight);
    });
    return true;
  }

  /** Runs a batch alone; those whose time was over meanwhile are refused, for nobody waits for them. */
  async #runOnRead(items: readonly HotItem[]): Promise<void> {
    const alive = this.#alive(items);
    if (alive.length > 0) await runOnRead(this.#means, this.#options, alive);
  }

  /** Waits until nothing is under way, and runs again what was refused, in its order. */
  async #land(): Promise<void> {
    await Promise.all(this.#flights.map(({ landed }) => landed));
    for (const { items } of this.#refused.splice(0)) await this.#runOnRead(items);
  }

  /** A command that stands first, or a batch in which the accounts have equal shares. */
  #take(): HotItem[] | CommandItem {
    const first = this.#accounts.entries().next().value;
    if (first === undefined) throw new Error('a lane ran without work');
    const [accountId, queue] = first;
    const item = queue[0]!;
    if (item.kind === 'command') {
      this.#shift(accountId, queue, 1);
      return item;
    }
    const batch: HotItem[] = [];
    const share = Math.max(1, Math.ceil(this.#batchMax / this.#accounts.size));
    for (const [account, waiting] of [...this.#accounts]) {
      if (batch.length >= this.#batchMax) break;
      let taken = 0;
      for (const one of waiting) {
        if (one.kind === 'command' || taken >= share || batch.length >= this.#batchMax) break;
        batch.push(one);
        taken += 1;
      }
      if (taken > 0) this.#shift(account, waiting, taken);
    }
    return this.#alive(batch);
  }

  /** Takes `count` items off an account's queue and moves the account to the end of the turn. */
  #shift(accountId: string, queue: LaneItem[], count: number): void {
    this.#depth -= count;
    this.#accounts.delete(accountId);
    if (queue.length > count) this.#accounts.set(accountId, queue.slice(count));
  }

  #alive(batch: readonly HotItem[]): HotItem[] {
    const now = performance.now();
    return batch.filter((item) => {
      if (item.kind === 'outcome' || item.deadlineMs > now) return true;
      refuse(item, 'The time for this decision was over before its turn came.');
      return false;
    });
  }
}

async function runCommand<T>(
  connection: LaneConnection,
  accountId: string,
  run: (context: CommandContext) => Promise<T>,
  { open }: CommandOptions,
): Promise<T> {
  await connection.sql.unsafe('begin');
  const generation = connection.generation;
  const sql = connection.guarded(generation);
  try {
    if (open !== undefined) {
      const [clock] = await sql<{ now_ms: number }[]>`select epoch_ms(db_clock()) as now_ms`;
      const nowMs = clock!.now_ms;
      await open(sql, { nowMs, now: new Date(nowMs).toISOString() });
    }
    const head = await lockHead(sql, accountId);
    const recording = new Recording();
    const context: CommandContext = {
      sql,
      accountId,
      nowMs: head.nowMs,
      now: head.now,
      append: (kind: EvidenceKind, body: { readonly [name: string]: JsonValue }, id?: string) =>
        recording.append(head, kind, id ?? newTypeId('evt', head.nowMs), canonicalize(body as JsonValue)),
    };
    const result = await run(context);
    await connection.finish(generation, (one) => recording.send(one));
    return result;
  } catch (error) {
    await connection.rollback(generation);
    throw error;
  }
}

async function lockHead(sql: Sql, accountId: string): Promise<HeadState> {
  await sql`select from account_heads where account_id = ${accountId} for no key update`;
  const rows = await sql<{ size: number; hash: string; edge: string; at_ms: number; now_ms: number }[]>`
    select size, encode(hash, 'hex') as hash, encode(edge, 'hex') as edge, epoch_ms(at) as at_ms,
      epoch_ms(db_clock()) as now_ms
    from account_heads where account_id = ${accountId}`;
  const row = rows[0];
  if (row === undefined) throw new ProblemError('not_found', 'There is no such account.');
  const nowMs = Math.max(row.now_ms, row.at_ms);
  const { size, hash } = row;
  const edge = edgeOf(size, hashesOf(row.edge));
  return { accountId, nowMs, now: new Date(nowMs).toISOString(), size, hash, edge, before: hash, revision: 0 };
}
