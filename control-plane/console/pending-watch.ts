import type { Sql } from '../db/client.ts';

/** How often what is pending is looked for, in milliseconds: nobody notices it, and one query serves all pages. */
const LOOK_EVERY_MS = 1_000;

/** Told every now and then which escalations of an account wait for an answer, in their order. */
export type ToldPending = (ids: readonly string[]) => void;

/** The escalations of these accounts that wait for an answer, in the order in which they were made. */
export async function readPendingIds(sql: Sql, accountIds: readonly string[]): Promise<Map<string, string[]>> {
  const rows = await sql<{ account_id: string; ids: string[] }[]>`
    select account_id, array_agg(escalation_id order by escalation_id) as ids from escalations
    where account_id = any (${[...accountIds]}::text[]) and status = 'pending' and expires_at > db_clock()
    group by account_id`;
  return new Map(rows.map(({ account_id, ids }) => [account_id, ids]));
}

/**
 * Looks for pending escalations while somebody wants to know: with one query for all pages of this control plane,
 * whoever made or answered the escalation, wherever that was.
 */
export class PendingWatch {
  readonly #deps: { readonly sql: Sql; readonly logError: (error: unknown, message: string) => void };
  readonly #watchers = new Map<ToldPending, string>();
  #timer: NodeJS.Timeout | null = null;
  #looking = false;

  constructor({ sql, logError }: { sql: Sql; logError: (error: unknown, message: string) => void }) {
    this.#deps = { sql, logError };
  }

  /** Tells `told` from now on; the returned function ends that. */
  watch(accountId: string, told: ToldPending): () => void {
    this.#watchers.set(told, accountId);
    this.#timer ??= setInterval(() => void this.#look(), LOOK_EVERY_MS);
    return () => {
      this.#watchers.delete(told);
      if (this.#watchers.size > 0 || this.#timer === null) return;
      clearInterval(this.#timer);
      this.#timer = null;
    };
  }

  async #look(): Promise<void> {
    if (this.#looking) return;
    this.#looking = true;
    try {
      const found = await readPendingIds(this.#deps.sql, [...new Set(this.#watchers.values())]);
      for (const [told, accountId] of [...this.#watchers]) told(found.get(accountId) ?? []);
    } catch (error) {
      // The pages stay as they are: the next look, or a reload, tells them.
      this.#deps.logError(error, 'pending escalations could not be looked for');
    }
    this.#looking = false;
  }
}
