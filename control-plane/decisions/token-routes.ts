import { LRUCache } from 'lru-cache';
import type { Sql } from '../db/client.ts';

/** Whose a gateway token is. It never changes for a token; whether the token is still valid is read live. */
export interface TokenRoute {
  readonly accountId: string;
  readonly instanceId: string;
}

const ROUTES_MAX = 100_000;

/** Finds the account and instance of gateway tokens by hash; remembers hits only, since a miss may become a hit. */
export class TokenRoutes {
  readonly #known = new LRUCache<string, TokenRoute>({ max: ROUTES_MAX });
  readonly #sql: Sql;

  constructor(sql: Sql) {
    this.#sql = sql;
  }

  /** The route of a hash (hex) that was found before. */
  known(tokenHash: string): TokenRoute | undefined {
    return this.#known.get(tokenHash);
  }

  /** Looks up hashes that are not known yet, in one query. */
  async find(tokenHashes: ReadonlySet<string>): Promise<void> {
    if (tokenHashes.size === 0) return;
    const rows = await this.#sql<{ hash: string; account_id: string; subject_id: string }[]>`
      select encode(token_hash, 'hex') as hash, account_id, subject_id from token_routes
      where token_hash in (select decode(h, 'hex') from unnest(${[...tokenHashes]}::text[]) as h) and kind = 'gateway'`;
    for (const row of rows) this.#known.set(row.hash, { accountId: row.account_id, instanceId: row.subject_id });
  }
}
