import { PUBLISH_ACCOUNTS } from '../../core/limits.ts';
import type { Sql } from '../db/client.ts';

/** Which accounts' heads are to be shown to one publisher, and how far that has come. */
export class Publications {
  readonly #sql: Sql;
  readonly #publisher: string;
  /** Where the next look begins: the work of a look does not grow with the number of accounts. */
  #after = '';

  constructor(sql: Sql, publisher: string) {
    this.#sql = sql;
    this.#publisher = publisher;
  }

  /** Accounts whose head moved and whose turn it is, of the next PUBLISH_ACCOUNTS; `more`: there are further ones. */
  async due(): Promise<{ readonly accounts: readonly string[]; readonly more: boolean }> {
    const rows = await this.#sql<{ account_id: string; due: boolean }[]>`
      select h.account_id, h.size > coalesce(p.size, 0) and coalesce(p.next_at <= db_clock(), true) as due
      from (select account_id, size from account_heads where account_id > ${this.#after}
        order by account_id limit ${PUBLISH_ACCOUNTS}) h
      left join publications p on p.account_id = h.account_id and p.publisher = ${this.#publisher}
      order by h.account_id`;
    const more = rows.length === PUBLISH_ACCOUNTS;
    this.#after = more ? (rows.at(-1)?.account_id ?? '') : '';
    return { accounts: rows.filter(({ due }) => due).map((row) => row.account_id), more };
  }

  /** Takes the account's turn for `claimMs`; false where another control plane has it. */
  async claim(accountId: string, claimMs: number): Promise<boolean> {
    const { count } = await this.#sql`
      insert into publications as p (account_id, publisher, next_at)
      values (${accountId}, ${this.#publisher}, db_clock() + ${claimMs}::integer * interval '1 millisecond')
      on conflict (account_id, publisher) do update set next_at = excluded.next_at where p.next_at <= db_clock()`;
    return count === 1;
  }

  /** Ends the turn: the next one comes after `pauseMs`; `size`: what is published now, null where nothing was. */
  async ended(accountId: string, size: number | null, pauseMs: number): Promise<void> {
    await this.#sql`
      update publications set size = greatest(size, ${size ?? 0}),
        next_at = db_clock() + ${pauseMs}::integer * interval '1 millisecond'
      where account_id = ${accountId} and publisher = ${this.#publisher}`;
  }
}
