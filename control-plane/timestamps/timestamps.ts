import { ProblemError } from '../../core/errors.ts';
import type { ValidTimestamp } from '../../core/timestamp-token.ts';
import type { Sql } from '../db/client.ts';
import { type TimestampAuthority, TimestampFailure } from './authority.ts';

/** What a timestamp is of: the root (hex) of an account's tree of `size` entries. */
export interface StampedHead {
  readonly accountId: string;
  readonly size: number;
  readonly root: string;
}

/** A stored timestamp: the RFC 3161 token in DER, and what stands in it. */
export interface StoredTimestamp extends StampedHead {
  readonly token: Buffer;
  /** RFC 3339, UTC, milliseconds. */
  readonly genTime: string;
  readonly tsa: string;
  /** Whether its certificate led to a trust anchor of the configuration when it came. */
  readonly trusted: boolean;
}

/** How an attempt ended; the label of the metric. */
export type TimestampResult = 'stored' | 'refused' | 'away';

/** A timestamp, or a sentence for people that says why there is none. */
export type TimestampNow =
  | { readonly timestamp: StoredTimestamp; readonly why: null }
  | { readonly timestamp: null; readonly why: string };

export interface TimestampsOptions {
  readonly sql: Sql;
  /** null: none is configured, or the mode is off. */
  readonly authority: TimestampAuthority | null;
  readonly required: boolean;
  readonly counted: (result: TimestampResult) => void;
}

interface Row {
  readonly account_id: string;
  readonly size: number;
  readonly root: string;
  readonly token: Buffer;
  readonly gen_time: number;
  readonly tsa: string;
  readonly trusted: boolean;
}

/**
 * RFC 3161 timestamps of tree heads; a head has at most one, the first.
 *
 * The token is over the root itself: it is a SHA-256 already, so everybody can compare the two by eye.
 * Source: contract §10; docs/design/0014-timestamps-beside-the-chain.md.
 */
export class Timestamps {
  readonly #options: TimestampsOptions;

  constructor(options: TimestampsOptions) {
    this.#options = options;
  }

  /** Whether timestamps are asked for at all. */
  get on(): boolean {
    return this.#options.authority !== null;
  }

  /**
   * The timestamp of a head: the stored one, else one that is asked for now.
   *
   * Where timestamps are required, there is one or an error; else the answer says why there is none.
   *
   * @throws ProblemError `timestamp_unavailable` (503) where they are required and none can be had
   */
  async timestampNow(head: StampedHead): Promise<TimestampNow> {
    try {
      if (head.size === 0) return { timestamp: null, why: 'There is no entry yet that could be timestamped.' };
      if (!this.on) return { timestamp: null, why: 'No timestamping authority is configured here.' };
      return { timestamp: await this.stamp(head), why: null };
    } catch (error) {
      if (!(error instanceof TimestampFailure)) throw error;
      const why = error.away
        ? 'The timestamping authority does not answer at present.'
        : 'The timestamping authority answered with a timestamp that does not hold.';
      if (!this.#options.required) return { timestamp: null, why };
      throw new ProblemError('timestamp_unavailable', `${why} Nothing was exported; try again later.`, {
        cause: error,
        retryAfterSeconds: RETRY_AFTER_S,
      });
    }
  }

  /**
   * As {@link timestampNow}, for those who deal with the failure.
   *
   * @throws TimestampFailure, TypeError where there is no authority, Error where a head of this size and another root
   *   has a timestamp: then this log is not the one that was stamped
   */
  async stamp(head: StampedHead): Promise<StoredTimestamp> {
    const { authority, counted } = this.#options;
    const stored = await this.find(head);
    if (stored !== null) return stored;
    if (authority === null) throw new TypeError('there is no timestamping authority');
    let fresh: ValidTimestamp;
    try {
      fresh = await authority.stamp(Buffer.from(head.root, 'hex'));
    } catch (error) {
      if (error instanceof TimestampFailure) counted(error.away ? 'away' : 'refused');
      throw error;
    }
    await this.#store(head, fresh);
    counted('stored');
    const kept = await this.find(head);
    if (kept === null) throw new Error('a timestamp that was stored is not there');
    return kept;
  }

  /** The stored timestamp of a head, or null. Throws Error where it is of another root. */
  async find({ accountId, size, root }: StampedHead): Promise<StoredTimestamp | null> {
    const [row] = await this.#options.sql<Row[]>`
      select account_id, size, encode(root, 'hex') as root, token, gen_time, tsa, trusted from timestamps
      where account_id = ${accountId} and size = ${size}`;
    if (row === undefined) return null;
    if (row.root !== root) {
      throw new Error(`account ${accountId}: the tree of ${size} entries is not the one that was timestamped`);
    }
    return read(row);
  }

  /** The latest stored timestamp of an account whose head has at most `size` entries, or null. */
  async latest(accountId: string, size: number): Promise<StoredTimestamp | null> {
    const [row] = await this.#options.sql<Row[]>`
      select account_id, size, encode(root, 'hex') as root, token, gen_time, tsa, trusted from timestamps
      where account_id = ${accountId} and size <= ${size} order by size desc limit 1`;
    return row === undefined ? null : read(row);
  }

  async #store({ accountId, size, root }: StampedHead, { token, genTimeMs, tsa, checked }: ValidTimestamp) {
    await this.#options.sql`
      insert into timestamps (account_id, size, root, token, gen_time, tsa, trusted, stored_at)
      values (${accountId}, ${size}, decode(${root}, 'hex'), ${Buffer.from(token)}, ${genTimeMs}, ${tsa},
        ${checked.includes('chain')}, db_clock())
      on conflict (account_id, size) do nothing`;
  }
}

const RETRY_AFTER_S = 30;

function read({ account_id: accountId, gen_time, ...row }: Row): StoredTimestamp {
  return { accountId, ...row, genTime: new Date(gen_time).toISOString() };
}
