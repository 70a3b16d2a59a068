import { indexChain } from '../evidence/search-index.ts';
import type { JobsCore } from './job.ts';

/** Entries that one transaction takes in: some ten milliseconds. */
const INDEX_BATCH = 1_000;
/** Accounts that a round looks after: the next ones have their turn in the next. */
const ACCOUNTS_PER_ROUND = 20;
/** While chains grow, a round ends after so many milliseconds of work: their decisions go first. */
const BUSY_WORK_MS = 20;

/**
 * Takes what chains gained into the index that decisions are searched by.
 *
 * What it has not come to yet is found all the same (control-plane/evidence/search.ts), so it may take its time: where
 * chains grow as fast as it goes, it does one batch or two in each pause between rounds.
 */
export async function indexDecisions({ sql }: Pick<JobsCore, 'sql'>): Promise<boolean> {
  const behind = await sql<{ account_id: string; size: number }[]>`
    select h.account_id, h.size from account_heads h left join decision_positions p on p.account_id = h.account_id
    where h.size > coalesce(p.next_seq, 0) order by h.size - coalesce(p.next_seq, 0) desc limit ${ACCOUNTS_PER_ROUND}`;
  const startedAt = performance.now();
  let more = behind.length === ACCOUNTS_PER_ROUND;
  for (const { account_id: accountId, size } of behind) {
    const taken = await indexChain(sql, accountId, INDEX_BATCH);
    if (taken < INDEX_BATCH) continue;
    more = true;
    const [head] = await sql<{ size: number }[]>`select size from account_heads where account_id = ${accountId}`;
    const busy = head !== undefined && head.size > size;
    if (busy && performance.now() - startedAt > BUSY_WORK_MS) return false;
  }
  return more;
}
