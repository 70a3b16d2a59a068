import { createClient } from '@redis/client';
import {
  RATE_LIMIT_CALL_OPERATIONS,
  RATE_LIMIT_RECONNECT_MAX_MS,
  RATE_LIMIT_START_MS,
  RATE_LIMIT_TIMEOUT_MS,
  RATE_LIMIT_WAITING_MAX,
} from '../../core/limits.ts';
import { BUCKET_SCRIPT, BUCKET_SCRIPT_SHA1, readScriptAnswer, scriptArguments } from './bucket-script.ts';
import { TokenBuckets } from './buckets.ts';
import { type BucketOperation, type RatedState, RateLimitsAway, type SharedBuckets } from './operations.ts';

const RECONNECT_FIRST_MS = 25;
/** After it fell silent, the store is left alone so long: a connection to a stopped process opens at once. */
const SILENCE_PAUSE_MS = 100;
/** A connection on which nothing at all was heard for so long is given up, in milliseconds. */
const SOCKET_IDLE_MS = 5_000;
const PING_MS = 2_000;

export interface RedisBucketsOptions {
  /** `redis://` or `rediss://`, with user, password and database where there are any. */
  readonly url: string;
  /** Told once when the store is lost and once when it is back; errors hold no secrets. */
  readonly onChange: (away: boolean, error: unknown) => void;
}

type Client = ReturnType<typeof connectTo>;

/**
 * Token buckets in Redis or Valkey (5 or newer), exact over all control planes that use the same one, by its clock.
 *
 * One script does what `TokenBuckets` does, so nothing comes between reading and writing a bucket. Where the store
 * does not answer within `RATE_LIMIT_TIMEOUT_MS`, or answers something else, nothing is allowed; the connection is made
 * anew for as long as it takes. What waits is bounded. Source: contract §8; docs/design/0011-shared-rate-limits.md.
 */
export class RedisBuckets implements SharedBuckets {
  readonly own = new TokenBuckets();
  readonly #options: RedisBucketsOptions;
  #client: Client;
  #waiting = 0;
  #away = false;
  #closed = false;
  #pause: NodeJS.Timeout | null = null;

  /** Connects, and waits for the connection a moment, not longer: the store may come later. */
  static async open(options: RedisBucketsOptions): Promise<RedisBuckets> {
    const buckets = new RedisBuckets(options);
    await buckets.#firstConnected();
    return buckets;
  }

  constructor(options: RedisBucketsOptions) {
    this.#options = options;
    this.#client = this.#connect();
  }

  async perform(operations: readonly BucketOperation[]): Promise<(RatedState | null)[]> {
    return (await this.performTimed(operations)).flatMap(({ found }) => found);
  }

  /** The same, by call of the script, each with the time of the store (Unix milliseconds). */
  async performTimed(
    operations: readonly BucketOperation[],
  ): Promise<{ readonly atMs: number; readonly found: (RatedState | null)[] }[]> {
    const calls: (readonly BucketOperation[])[] = [];
    for (let i = 0; i < operations.length; i += RATE_LIMIT_CALL_OPERATIONS) {
      calls.push(operations.slice(i, i + RATE_LIMIT_CALL_OPERATIONS));
    }
    if (this.#waiting + operations.length > RATE_LIMIT_WAITING_MAX) {
      throw new RateLimitsAway('too much waits for the store of the rate limits');
    }
    const client = this.#client;
    return this.#inTime(client, Promise.all(calls.map((call) => this.#call(client, call))));
  }

  /**
   * What the store drops when its memory is full; null where it does not say.
   *
   * @throws RateLimitsAway
   */
  async evictionPolicy(): Promise<string | null> {
    const client = this.#client;
    const text = this.#inTime(client, client.sendCommand(['INFO', 'memory']));
    const info = await text.catch((error: unknown) => {
      throw new RateLimitsAway('the store of the rate limits does not tell its memory', { cause: error });
    });
    return /^maxmemory_policy:([a-z-]+)/m.exec(String(info))?.[1] ?? null;
  }

  /** Ends the connection; what waits is refused. */
  close(): void {
    this.#closed = true;
    if (this.#pause !== null) clearTimeout(this.#pause);
    this.#client.destroy();
  }

  async #call(client: Client, operations: readonly BucketOperation[]) {
    this.#waiting += operations.length;
    try {
      const values = scriptArguments(operations);
      const answer = await client.sendCommand(['EVALSHA', BUCKET_SCRIPT_SHA1, ...values]).catch((error: unknown) => {
        if (!(error instanceof Error && error.message.startsWith('NOSCRIPT'))) throw error;
        return client.sendCommand(['EVAL', BUCKET_SCRIPT, ...values]);
      });
      const read = readScriptAnswer(answer, operations.length);
      if (read === null) throw new TypeError('the store of the rate limits answered something else');
      this.#noteBack(client);
      return read;
    } catch (error) {
      this.#noteAway(client, error);
      throw new RateLimitsAway('the rate limits cannot be read', { cause: error });
    } finally {
      this.#waiting -= operations.length;
    }
  }

  /** The answer, unless it takes too long: then the connection is given up with all that waits on it. */
  #inTime<T>(client: Client, work: Promise<T>): Promise<T> {
    const { promise, resolve, reject } = Promise.withResolvers<T>();
    const timer = setTimeout(() => {
      const silent = new RateLimitsAway('the store of the rate limits does not answer');
      this.#noteAway(client, silent);
      reject(silent);
      this.#renew(client);
    }, RATE_LIMIT_TIMEOUT_MS);
    work.then(resolve, reject).finally(() => clearTimeout(timer));
    return promise;
  }

  #renew(silent: Client): void {
    if (this.#client !== silent || this.#pause !== null || this.#closed) return;
    silent.destroy();
    this.#pause = setTimeout(() => {
      this.#pause = null;
      this.#client = this.#connect();
    }, SILENCE_PAUSE_MS);
  }

  #connect(): Client {
    const client = connectTo(this.#options.url);
    client.on('error', (error: unknown) => this.#noteAway(client, error));
    // Every failed attempt is an 'error' as well, and is followed by the next until the client is destroyed.
    client.connect().catch(() => {});
    return client;
  }

  async #firstConnected(): Promise<void> {
    const client = this.#client;
    if (client.isReady) return;
    const { promise, resolve } = Promise.withResolvers<void>();
    const timer = setTimeout(resolve, RATE_LIMIT_START_MS);
    client.once('ready', resolve);
    await promise;
    clearTimeout(timer);
    client.off('ready', resolve);
  }

  #noteAway(client: Client, error: unknown): void {
    if (this.#away || this.#closed || client !== this.#client) return;
    this.#away = true;
    this.#options.onChange(true, error);
  }

  #noteBack(client: Client): void {
    if (!this.#away || this.#closed || client !== this.#client) return;
    this.#away = false;
    this.#options.onChange(false, null);
  }
}

function connectTo(url: string) {
  return createClient({
    url,
    RESP: 2,
    disableOfflineQueue: true,
    disableClientInfo: true,
    maintNotifications: 'disabled',
    commandsQueueMaxLength: RATE_LIMIT_WAITING_MAX,
    pingInterval: PING_MS,
    // Each call has a time-out of its own, which a timer for each command would only double.
    commandOptions: { timeout: 0 },
    socket: {
      connectTimeout: RATE_LIMIT_TIMEOUT_MS * 4,
      socketTimeout: SOCKET_IDLE_MS,
      reconnectStrategy: (retries) =>
        Math.min(RECONNECT_FIRST_MS * 2 ** Math.min(retries, 10), RATE_LIMIT_RECONNECT_MAX_MS),
    },
  });
}
