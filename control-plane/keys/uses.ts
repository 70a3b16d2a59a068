import { API_KEY_USES_WAITING_MAX, JOB_BATCH } from '../../core/limits.ts';
import type { Sql } from '../db/client.ts';

interface Use {
  readonly accountId: string;
  readonly keyId: string;
  atMs: number;
}

/**
 * Which API keys were used, until it is written: no request waits for that, and none has a transaction for it.
 *
 * What is noted and not written yet is lost with the process; it is shown to people and nothing depends on it.
 */
export class KeyUses {
  #waiting = new Map<string, Use>();

  /** Notes a use at the database's time (Unix milliseconds). Beyond the bound it is left out; the next one counts. */
  note(accountId: string, keyId: string, atMs: number): void {
    const known = this.#waiting.get(keyId);
    if (known !== undefined) known.atMs = Math.max(known.atMs, atMs);
    else if (this.#waiting.size < API_KEY_USES_WAITING_MAX) this.#waiting.set(keyId, { accountId, keyId, atMs });
  }

  /**
   * Writes the oldest of what was noted, at most {@link JOB_BATCH} keys; returns whether there is more. On a failure
   * they are kept for the next time.
   */
  async flush(sql: Sql): Promise<boolean> {
    // In the order of the primary key, so that replicas that write the same keys wait for each other in one direction.
    const uses = [...this.#waiting.values()].slice(0, JOB_BATCH).sort(byKey);
    if (uses.length === 0) return false;
    for (const { keyId } of uses) this.#waiting.delete(keyId);
    try {
      await sql`
        insert into api_key_uses as u (account_id, key_id, last_used_at)
        select n.account_id, n.key_id, n.at from unnest(
          ${uses.map((use) => use.accountId)}::text[], ${uses.map((use) => use.keyId)}::text[],
          ${uses.map((use) => new Date(use.atMs).toISOString())}::text[]::timestamptz[]
        ) as n (account_id, key_id, at)
        join api_keys k on k.account_id = n.account_id and k.key_id = n.key_id
        on conflict (account_id, key_id) do update set last_used_at = excluded.last_used_at
        where u.last_used_at < excluded.last_used_at`;
    } catch (error) {
      for (const { accountId, keyId, atMs } of uses) this.note(accountId, keyId, atMs);
      throw error;
    }
    return this.#waiting.size > 0;
  }
}

function byKey(a: Use, b: Use): number {
  const [left, right] = [`${a.accountId} ${a.keyId}`, `${b.accountId} ${b.keyId}`];
  return left < right ? -1 : Number(left > right);
}
