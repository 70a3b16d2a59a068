import type { Logger } from '../../config/log.ts';
import { PUBLISH_AT_ONCE, PUBLISH_CLAIM_MARGIN_MS, PUBLISH_RETRY_MS } from '../../core/limits.ts';
import type { Sql } from '../db/client.ts';
import { Publications } from './publications.ts';
import type { SignedHead, TreeHeads } from './tree-heads.ts';

/** Why a head was not published: the whole publisher is out of order, or it is about this account only. */
export interface PublishFailure {
  readonly whole: boolean;
}

/** Somebody outside who is shown tree heads. */
export interface Publisher {
  /** Its name in `publications`, and in the log. */
  readonly name: string;
  /** The longest that one publishing takes, in milliseconds. */
  readonly longestMs: number;
  publish(head: SignedHead): Promise<void>;
  /** What an error of `publish` means; null: it is none of the publisher's, and is thrown on. */
  failureOf(error: unknown): PublishFailure | null;
}

export interface HeadPublisherOptions {
  readonly sql: Sql;
  readonly heads: TreeHeads;
  readonly publisher: Publisher;
  /** Between two publishings of one account, in milliseconds. */
  readonly intervalMs: number;
  readonly log: Logger;
}

/**
 * Publishes new tree heads in rounds, account by account; several control planes share the work.
 *
 * After a failure of the publisher it pauses, so that a service that is away is asked once in PUBLISH_RETRY_MS.
 */
export class HeadPublisher {
  readonly #options: HeadPublisherOptions;
  readonly #publications: Publications;
  #waiting: readonly string[] = [];
  #more = false;
  #pausedUntil = 0;
  #away = false;

  constructor(options: HeadPublisherOptions) {
    this.#options = options;
    this.#publications = new Publications(options.sql, options.publisher.name);
  }

  /** One round: a few heads at once. Returns whether there may be more to do now. */
  async round(): Promise<boolean> {
    if (performance.now() < this.#pausedUntil) return false;
    if (this.#waiting.length === 0) {
      const { accounts, more } = await this.#publications.due();
      [this.#waiting, this.#more] = [accounts, more];
    }
    const turn = this.#waiting.slice(0, PUBLISH_AT_ONCE);
    this.#waiting = this.#waiting.slice(turn.length);
    const ended = await Promise.allSettled(turn.map((accountId) => this.#publish(accountId)));
    const failed = ended.find((one) => one.status === 'rejected');
    if (failed !== undefined) throw failed.reason;
    if (performance.now() < this.#pausedUntil) return false;
    return this.#waiting.length > 0 || this.#more;
  }

  async #publish(accountId: string): Promise<void> {
    const { heads, publisher, intervalMs } = this.#options;
    if (!(await this.#publications.claim(accountId, publisher.longestMs + PUBLISH_CLAIM_MARGIN_MS))) return;
    try {
      const head = await heads.current(accountId);
      if (head.size > 0) await publisher.publish(head);
      await this.#publications.ended(accountId, head.size, intervalMs);
      this.#noted(false, null);
    } catch (error) {
      const failure = publisher.failureOf(error);
      await this.#publications.ended(accountId, null, Math.min(PUBLISH_RETRY_MS, intervalMs));
      if (failure === null) throw error;
      if (failure.whole) {
        this.#pausedUntil = performance.now() + Math.min(PUBLISH_RETRY_MS, intervalMs);
        this.#noted(true, error);
      } else {
        const text = 'a tree head could not be published: compare what both have seen of this account';
        this.#options.log.error({ err: error, account_id: accountId, publisher: publisher.name }, text);
      }
    }
  }

  /** Says once that the publisher fails and once that it is back. */
  #noted(away: boolean, error: unknown): void {
    const { log, publisher } = this.#options;
    if (away === this.#away) return;
    this.#away = away;
    const about = { publisher: publisher.name };
    if (away) log.error({ err: error, ...about }, 'tree heads cannot be published; it is tried again every minute');
    else log.warn(about, 'tree heads are published again');
  }
}
