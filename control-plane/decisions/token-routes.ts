import { LRUCache } from 'lru-cache';
import type { Sql } from '../db/client.ts';

/** Whose a token is: `subjectId` is a gateway instance or an API key. It never changes; its validity is read live. */
export interface TokenRoute {
  readonly kind: 'gateway' | 'api_key';
  readonly accountId: string;
  readonly subjectId: string;
}

const ROUTES_MAX = 20_000;

/** Finds the account and subject of tokens by hash; remembers hits only, since a miss may become a hit. */
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
    const rows = await this.#sql<{ hash: string; kind: TokenRoute['kind']; account_id: string; subject_id: string }[]>`
      select encode(token_hash, 'hex') as hash, kind, account_id, subject_id from token_routes
      where token_hash in (select decode(h, 'hex') from unnest(${[...tokenHashes]}::text[]) as h)
        and kind in ('gateway', 'api_key')`;
    for (const { hash, kind, account_id: accountId, subject_id: subjectId } of rows) {
      this.#known.set(hash, { kind, accountId, subjectId });
    }
  }
}
