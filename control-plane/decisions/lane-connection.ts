import { connect, type Sql } from '../db/client.ts';
import { Unsettled } from '../db/unsettled.ts';

/** The connection was lost within the transaction; the database rolled it back, or its commit is not known. */
export class ConnectionLost extends Error {
  override readonly name = 'ConnectionLost';
}

/**
 * Hot statements are index look-ups in the order in which they are written, whatever the statistics say: tables that
 * were empty when a plan was made, or are full of dead rows, must not turn one into a scan.
 */
const FIXED_PLANS = {
  plan_cache_mode: 'force_generic_plan',
  join_collapse_limit: '1',
  enable_seqscan: 'off',
  enable_hashjoin: 'off',
  enable_mergejoin: 'off',
  jit: 'off',
};

/**
 * The one connection of a lane, with transactions whose statements are pipelined.
 *
 * A statement of a transaction never goes out on another connection than the one it began on: that would run it
 * outside the lock, and outside the transaction that was rolled back. Hence the count of connections, which is compared
 * before each sending, and hence {@link Unsettled}: the driver would send what it kept back on the next one.
 */
export class LaneConnection {
  readonly sql: Sql;
  readonly #unsettled = new Unsettled();
  #closed = 0;

  constructor(databaseUrl: string, name: string) {
    const sql = connect(databaseUrl, {
      max: 1,
      applicationName: name,
      keepConnections: true,
      settings: FIXED_PLANS,
      onClose: () => {
        this.#closed += 1;
        this.#unsettled.cancel();
      },
    });
    this.sql = this.#unsettled.watching(sql);
  }

  /** Which connection this is; compare with {@link assertSame} after an await. */
  get generation(): number {
    return this.#closed;
  }

  /** Throws {@link ConnectionLost} when the connection is no longer the one of `generation`. */
  assertSame(generation: number): void {
    if (this.#closed !== generation) throw new ConnectionLost('the connection was lost within a transaction');
  }

  /** The connection's `sql` for others' code: each statement is refused once the connection is another one. */
  guarded(generation: number): Sql {
    const check = () => this.assertSame(generation);
    return new Proxy(this.sql, {
      apply(target, self, args) {
        check();
        return Reflect.apply(target, self, args);
      },
      get(target, name) {
        if (name === 'unsafe') check();
        return Reflect.get(target, name, target);
      },
    });
  }

  /** Sends the statements and `commit` at once; resolves when all succeeded, else throws the first failure. */
  async finish(generation: number, send: (sql: Sql) => Promise<unknown>[]): Promise<unknown[]> {
    this.assertSame(generation);
    const sent = send(this.sql);
    sent.push(this.sql.unsafe('commit').execute());
    return this.#settled(generation, sent);
  }

  /**
   * Sends the statements as a transaction of their own, all at once; results and failures as {@link finish}.
   *
   * Several may be under way: they are executed in the order in which they were sent, and each ends by itself.
   */
  whole(single: boolean, send: (sql: Sql) => Promise<unknown>[]): Promise<unknown[]> {
    const generation = this.#closed;
    // One statement is a transaction by itself, and `begin` and `commit` would cost as much as a part of it.
    if (single) return this.#settled(generation, send(this.sql));
    const begun = this.sql.unsafe('begin').execute();
    let sent: Promise<unknown>[];
    try {
      sent = send(this.sql);
    } catch (error) {
      // What was begun ends: a later statement would be part of it, answered for and never committed.
      for (const statement of [begun, this.sql.unsafe('rollback').execute()]) statement.catch(() => {});
      throw error;
    }
    sent.push(begun, this.sql.unsafe('commit').execute());
    return this.#settled(generation, sent);
  }

  /** All results, or the first failure; a connection that was lost meanwhile is that failure. */
  async #settled(generation: number, sent: Promise<unknown>[]): Promise<unknown[]> {
    try {
      return await settled(sent);
    } catch (error) {
      if (this.#closed === generation) throw error;
      throw new ConnectionLost('the connection was lost within a transaction', { cause: error });
    }
  }

  /** Ends an open transaction without effect, if there still is one. */
  async rollback(generation: number): Promise<void> {
    if (this.#closed !== generation) return;
    try {
      await this.sql.unsafe('rollback');
    } catch {
      // A connection that cannot roll back is gone, and the database rolls back by itself.
    }
  }

  async close(): Promise<void> {
    await this.sql.end({ timeout: 5 });
  }
}

async function settled(sent: Promise<unknown>[]): Promise<unknown[]> {
  if (sent.length === 1) return [await sent[0]];
  const values: unknown[] = [];
  for (const result of await Promise.allSettled(sent)) {
    if (result.status === 'rejected') throw result.reason;
    values.push(result.value);
  }
  return values;
}
