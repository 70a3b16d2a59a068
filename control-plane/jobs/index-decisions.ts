import { LRUCache } from 'lru-cache';
import { indexChain } from '../evidence/search-index.ts';
import type { JobsCore } from './job.ts';

/** Entries that one transaction takes in: some eighty milliseconds of work. */
const INDEX_BATCH = 1_000;
/** Accounts that a round looks after: the next ones have their turn in the next. */
const ACCOUNTS_PER_ROUND = 20;
/** A chain that could not be taken in is left alone for so long: it would be the first one in each round. */
const LEFT_ALONE_MS = 60_000;
const LEFT_ALONE_MAX = 1_000;
/** A chain that grows by more entries a second is busy: its decisions go first, and a round ends with this batch. */
const BUSY_PER_SECOND = 1_000;

const leftAlone = new LRUCache<string, true>({ max: LEFT_ALONE_MAX, ttl: LEFT_ALONE_MS });

/**
 * Takes what chains gained into the index that decisions are searched by.
 *
 * What it has not come to yet is found all the same (control-plane/evidence/search.ts), so it may take its time: under
 * load it takes in one batch a round, a fiftieth of the time, and it goes on without a pause when that is over. One
 * account's failure does not keep the others from their turn: the first error is thrown after all had it.
 */
export async function indexDecisions({ sql }: Pick<JobsCore, 'sql'>): Promise<boolean> {
  const startedAt = performance.now();
  const behind = await sql<{ account_id: string; size: number }[]>`
    select h.account_id, h.size from account_heads h left join decision_positions p on p.account_id = h.account_id
    where h.size > coalesce(p.next_seq, 0) and h.account_id <> all (${[...leftAlone.keys()]}::text[])
    order by h.size - coalesce(p.next_seq, 0) desc limit ${ACCOUNTS_PER_ROUND}`;
  let more = behind.length === ACCOUNTS_PER_ROUND;
  const failures: unknown[] = [];
  for (const { account_id: accountId, size } of behind) {
    const taken = await indexChain(sql, accountId, INDEX_BATCH).catch((error: unknown) => {
      leftAlone.set(accountId, true);
      failures.push(error);
      return 0;
    });
    if (taken < INDEX_BATCH) continue;
    more = true;
    const [head] = await sql<{ size: number }[]>`select size from account_heads where account_id = ${accountId}`;
    const seconds = (performance.now() - startedAt) / 1000;
    if (head !== undefined && head.size - size > BUSY_PER_SECOND * seconds) {
      more = false;
      break;
    }
  }
  if (failures.length > 0) throw failures[0];
  return more;
}
