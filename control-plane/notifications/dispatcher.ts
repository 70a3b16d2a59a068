import { setTimeout as delay } from 'node:timers/promises';
import { LRUCache } from 'lru-cache';
import {
  IN_FLIGHT_RESERVED_SHARE,
  MAILS_IN_FLIGHT_MAX,
  SLOW_ACCOUNTS_MAX,
  SLOW_DELIVERY_MS,
  SLOW_REMEMBERED_MS,
  SPREAD_BATCH,
  WEBHOOKS_IN_FLIGHT_MAX,
} from '../../core/limits.ts';
import type { Custody } from '../custody/custody.ts';
import type { Sql } from '../db/client.ts';
import type { CommandRunner } from '../decisions/command.ts';
import { type Attempt, busyWith, type Claimed, claim, release, settle } from './deliveries.ts';
import { disableFailing, noteArrival, noteFailure } from './endpoint-health.ts';
import type { MailSender } from './mail-sender.ts';
import { mailText } from './mail-text.ts';
import { type Channel, spreadEvents } from './spread.ts';
import { GONE, type WebhookSender } from './webhook-sender.ts';

/** What became of a notification: one attempt (`delivered`, `failed`), or all of it (`dead`, `suppressed`). */
export type NotificationResult = 'delivered' | 'failed' | 'dead' | 'suppressed';

export interface DispatcherOptions {
  readonly sql: Sql;
  readonly commands: CommandRunner;
  readonly custody: Custody;
  readonly webhooks: WebhookSender;
  /** null where no SMTP server is set: then nobody is told by e-mail. */
  readonly mails: MailSender | null;
  /** Where a person signs in: what links in mails begin with. */
  readonly baseUrl: string;
  readonly count: (channel: Channel, result: NotificationResult) => void;
  readonly logError: (error: unknown, message: string) => void;
}

const IN_FLIGHT_MAX: Readonly<Record<Channel, number>> = { webhook: WEBHOOKS_IN_FLIGHT_MAX, mail: MAILS_IN_FLIGHT_MAX };

/**
 * Tells accounts what happened: spreads events to those who want them, and sends what is due.
 *
 * At least once: a delivery is claimed for a time, sent, and settled; whoever dies in between leaves it to be sent
 * again under the same identifier. Any number of control planes share the work. In no order: retries overtake.
 */
export class Dispatcher {
  readonly #options: DispatcherOptions;
  readonly #inFlight = new Map<Claimed, Promise<void>>();
  readonly #slow = new LRUCache<string, number>({ max: SLOW_ACCOUNTS_MAX, ttl: SLOW_REMEMBERED_MS });
  readonly #starting = new Map<Channel, Promise<void>>();
  readonly #again = new Set<Channel>();
  readonly #stopping = new AbortController();
  #closing = false;

  constructor(options: DispatcherOptions) {
    this.#options = options;
  }

  /** One round: starts what may be started without waiting for its end; returns whether there may be more. */
  async round(): Promise<boolean> {
    const { sql, mails, count, logError } = this.#options;
    const suppressed = (channel: Channel): void => count(channel, 'suppressed');
    const spread = await spreadEvents(sql, { mail: mails !== null, suppressed, logError });
    await Promise.all([this.#start('webhook'), this.#start('mail')]);
    return spread === SPREAD_BATCH;
  }

  /** Waits until nothing is in flight: what was started, and what its end let start. */
  async idle(): Promise<void> {
    while (this.#inFlight.size + this.#starting.size > 0) {
      await Promise.allSettled([...this.#inFlight.values(), ...this.#starting.values()]);
    }
  }

  /** Takes nothing new, gives what is in flight `timeoutMs` to end, and hands the rest back. */
  async close(timeoutMs: number): Promise<void> {
    this.#closing = true;
    const patience = new AbortController();
    await Promise.race([this.idle(), delay(timeoutMs, undefined, { signal: patience.signal }).catch(() => {})]);
    patience.abort();
    this.#stopping.abort();
    await this.idle();
    await this.#options.webhooks.close();
    this.#options.mails?.close();
  }

  /** Claims what there is room for, one claim at a time; asked meanwhile, it looks once more. */
  #start(channel: Channel): Promise<void> {
    const running = this.#starting.get(channel);
    if (running !== undefined) {
      this.#again.add(channel);
      return running;
    }
    const claiming = (async () => {
      do {
        this.#again.delete(channel);
        await this.#claim(channel);
      } while (this.#again.has(channel));
    })().finally(() => this.#starting.delete(channel));
    this.#starting.set(channel, claiming);
    return claiming;
  }

  async #claim(channel: Channel): Promise<void> {
    const { sql, logError } = this.#options;
    const flying = [...this.#inFlight.keys()].filter((one) => one.channel === channel);
    const free = IN_FLIGHT_MAX[channel] - flying.length;
    if (free <= 0 || this.#closing) return;
    const reserved = Math.floor(IN_FLIGHT_MAX[channel] / IN_FLIGHT_RESERVED_SHARE);
    const busy = busyWith(flying, new Map(this.#slow.entries()));
    const claimed = await claim(sql, channel, { free, reserved, busy });
    for (const one of claimed) {
      const done = this.#deliver(one)
        .finally(() => this.#inFlight.delete(one))
        // Its receiver has room again, and may have more to get.
        .then(() => this.#start(channel))
        .catch((error: unknown) => logError(error, `after the delivery ${one.delivery_id}`));
      this.#inFlight.set(one, done);
    }
  }

  async #deliver(claimed: Claimed): Promise<void> {
    const { sql, count } = this.#options;
    const started = performance.now();
    const attempt = await this.#attempt(claimed);
    this.#noteTime(claimed, performance.now() - started);
    if (attempt.error !== null && this.#stopping.signal.aborted) return await release(sql, claimed);
    const state = await settle(sql, claimed, attempt, performance.now() - started);
    if (state !== null) count(claimed.channel, state === 'pending' ? 'failed' : state);
    if (claimed.channel === 'webhook' && claimed.status === 'active') await this.#noteHealth(claimed, attempt, state);
  }

  #noteTime({ account_id: accountId }: Claimed, ms: number): void {
    if (ms >= SLOW_DELIVERY_MS) this.#slow.set(accountId, (this.#slow.get(accountId) ?? 0) + ms);
  }

  async #attempt(claimed: Claimed): Promise<Attempt> {
    if (claimed.late) return givenUp('too_late');
    return claimed.channel === 'mail' ? await this.#mail(claimed) : await this.#post(claimed);
  }

  async #mail({ delivery_id, type, target, payload, language }: Claimed): Promise<Attempt> {
    const { mails, baseUrl, logError } = this.#options;
    if (mails === null) return givenUp('no_smtp');
    const attempt = await mails.send({ to: target, id: delivery_id, ...mailText(payload, language ?? 'en', baseUrl) });
    if (attempt.error !== null)
      logError(new Error(`SMTP: ${attempt.error}, ${attempt.status}`), `a mail about ${type}`);
    return attempt;
  }

  async #post({ account_id, event_id, target, payload, ...endpoint }: Claimed): Promise<Attempt> {
    const { custody, webhooks } = this.#options;
    const { url, status, secret_sealed, previous_sealed } = endpoint;
    if (url === null || secret_sealed === null) return givenUp('endpoint_deleted');
    if (status !== 'active') return givenUp('endpoint_disabled');
    const sealed = previous_sealed === null ? [secret_sealed] : [secret_sealed, previous_sealed];
    const keys: Buffer[] = [];
    try {
      for (const one of sealed) keys.push(custody.open(account_id, 'webhook', target, one));
    } catch (error) {
      for (const key of keys) key.fill(0);
      this.#options.logError(error, `the secret of ${target} cannot be opened`);
      // Not for good: the operator may have started with another master key.
      return { error: 'secret_unreadable', status: null, final: false };
    }
    try {
      return await webhooks.send({ url, id: event_id, body: payload, keys }, this.#stopping.signal);
    } finally {
      for (const key of keys) key.fill(0);
    }
  }

  async #noteHealth(claimed: Claimed, { error, status }: Attempt, state: string | null): Promise<void> {
    const { sql, commands } = this.#options;
    const { account_id: accountId, target: endpointId } = claimed;
    if (error === null) return await noteArrival(sql, accountId, endpointId);
    await noteFailure(sql, accountId, endpointId);
    if (state === 'dead') await disableFailing(commands, accountId, { endpointId, gone: status === GONE });
  }
}

function givenUp(error: string): Attempt {
  return { error, status: null, final: true };
}
