import { type DecisionSummary, decisionSummaries } from '../../core/decision-search.ts';
import type { StoredEntry } from '../../core/evidence.ts';
import type { Sql, TransactionSql } from '../db/client.ts';

/** Entries of a chain in the form that a summary is made of. */
type Entry = Pick<StoredEntry, 'seq' | 'id' | 'at' | 'body'>;

/**
 * Takes up to `batch` entries of an account's chain into the search index and the days' counts, from where it stands.
 *
 * One transaction moves the position and writes what it stands for, so that whoever dies in it has done nothing, and no
 * entry is counted twice. Returns how many entries it took; 0 where all were, or another replica is at it.
 */
export async function indexChain(sql: Sql, accountId: string, batch: number): Promise<number> {
  return sql.begin(async (tx) => {
    await tx`insert into decision_positions (account_id) values (${accountId}) on conflict do nothing`;
    const [position] = await tx<{ next_seq: number }[]>`
      select next_seq from decision_positions where account_id = ${accountId} for update skip locked`;
    if (position === undefined) return 0;
    const from = position.next_seq;
    const [range] = await tx<{ last: number | null }[]>`
      select max(seq) as last from (select seq from evidence where account_id = ${accountId} and seq >= ${from}
        and seq < ${from + batch}) e`;
    const last = range?.last ?? null;
    if (last === null) return 0;
    const entries = await tx<Entry[]>`
      select seq, id, at, body from evidence where account_id = ${accountId} and seq between ${from} and ${last}
        and kind = 'decision' order by seq`;
    const summaries = decisionSummaries(entries);
    if (summaries.length > 0) await write(tx, accountId, summaries);
    await tx`update decision_positions set next_seq = ${last + 1} where account_id = ${accountId}`;
    return last + 1 - from;
  });
}

async function write(tx: TransactionSql, accountId: string, summaries: readonly DecisionSummary[]): Promise<void> {
  const columns = columnsOf(summaries);
  await tx`
    insert into decision_search (account_id, seq, at, subject_id, mandate_id, agent, decision, code, currency, amount)
    select ${accountId}, n.* from unnest(${columns.seq}::text[]::bigint[], ${columns.at}::text[]::timestamptz[],
      ${columns.subject}::text[], ${columns.mandate}::text[], ${columns.agent}::text[], ${columns.decision}::text[],
      ${columns.code}::text[], ${columns.currency}::text[], ${columns.amount}::text[]::bigint[]) as n`;
  await tx`
    insert into decision_days as d (account_id, mandate_id, day, decision, code, decisions, amount)
    select ${accountId}, n.* from days_of(${accountId}, ${columns.at}::text[], ${columns.mandate}::text[],
      ${columns.decision}::text[], ${columns.code}::text[], ${columns.currency}::text[],
      ${columns.amount}::text[]::bigint[]) as n
    on conflict (account_id, mandate_id, day, decision, code) do update set
      decisions = d.decisions + excluded.decisions, amount = d.amount + excluded.amount`;
}

/** Summaries as the lists that a statement takes. */
export function columnsOf(summaries: readonly DecisionSummary[]) {
  const column = (of: (one: DecisionSummary) => string | null): string[] => summaries.map(of) as string[];
  return {
    seq: column(({ seq }) => String(seq)),
    at: column(({ atMs }) => new Date(atMs).toISOString()),
    subject: column(({ subjectId }) => subjectId),
    mandate: column(({ mandateId }) => mandateId),
    agent: column(({ agent }) => agent),
    decision: column(({ decision }) => decision),
    code: column(({ code }) => code),
    currency: column(({ currency }) => currency),
    amount: column(({ amount }) => (amount === null ? null : String(amount))),
  };
}
