import { LRUCache } from 'lru-cache';
import { Pool } from 'undici';
import {
  HEAD_MAX_BYTES,
  MAPPED_INSTANCES_MAX,
  TARGET_CONNECTIONS_MAX,
  TARGET_KEEP_ALIVE_MS,
  TARGET_POOLS_MAX,
} from '../../core/limits.ts';
import { type GuardOptions, guardedConnector } from '../../core/target-connection.ts';
import type { TargetConfig } from '../../core/wire.ts';

/** A target made ready: its connections, and the path under which its API lies (no trailing slash). */
export interface Target {
  readonly config: TargetConfig;
  readonly pool: Pool;
  readonly basePath: string;
}

export interface TargetsOptions extends GuardOptions {
  readonly timeoutMs: number;
}

/** A target that was sent with an allow before. */
export interface Prepared extends Omit<Target, 'pool'> {
  readonly origin: string;
}

function prepare(config: TargetConfig): Prepared {
  const url = new URL(config.url);
  const basePath = url.pathname === '/' ? '' : url.pathname.replace(/\/$/, '');
  return { config, origin: url.origin, basePath };
}

/** Connections to targets by origin, and the configuration of instances by token and version; both bounded. */
export class Targets {
  readonly #options: TargetsOptions;
  readonly #configs = new LRUCache<string, Prepared>({ max: MAPPED_INSTANCES_MAX });
  readonly #pools: LRUCache<string, Pool>;

  constructor(options: TargetsOptions) {
    this.#options = options;
    this.#pools = new LRUCache<string, Pool>({
      max: TARGET_POOLS_MAX,
      dispose: (pool) => {
        void pool.close();
      },
    });
  }

  /** The target of a token that is held; its version goes along with the ask. */
  held(tokenHash: string): Prepared | null {
    return this.#configs.get(tokenHash) ?? null;
  }

  /**
   * The target of an allow: the one that came with it, or else the one that was held when it was asked for.
   *
   * Answers may overtake each other, so that a newer version stays. Null where there is none that can be used.
   */
  of(tokenHash: string, sent: TargetConfig | null, held: Prepared | null): Target | null {
    const used = sent === null ? held : this.#learn(tokenHash, sent);
    if (used === null) return null;
    const { config, origin, basePath } = used;
    return { config, basePath, pool: this.#pool(origin) };
  }

  #learn(tokenHash: string, sent: TargetConfig): Prepared | null {
    if (!URL.canParse(sent.url)) return null;
    const prepared = prepare(sent);
    if ((this.#configs.get(tokenHash)?.config.version ?? 0) < sent.version) this.#configs.set(tokenHash, prepared);
    return prepared;
  }

  async close(): Promise<void> {
    await Promise.all([...this.#pools.values()].map((pool) => pool.destroy()));
  }

  #pool(origin: string): Pool {
    const known = this.#pools.get(origin);
    if (known !== undefined) return known;
    const connect = guardedConnector(this.#options) as unknown as NonNullable<Pool.Options['connect']>;
    const pool = new Pool(origin, {
      connect,
      connections: TARGET_CONNECTIONS_MAX,
      pipelining: 1,
      headersTimeout: this.#options.timeoutMs,
      bodyTimeout: this.#options.timeoutMs,
      keepAliveTimeout: TARGET_KEEP_ALIVE_MS,
      keepAliveMaxTimeout: TARGET_KEEP_ALIVE_MS,
      maxHeaderSize: HEAD_MAX_BYTES,
    });
    this.#pools.set(origin, pool);
    return pool;
  }
}
