import type { DecisionFilter } from '../../core/decision-search.ts';
import type { Sql } from '../db/client.ts';

/** Entries of the index that one look goes through: few first, since the newest ones often suffice. */
const LOOKS = [1_000, 10_000, 30_000, 30_000, 30_000, 30_000, 30_000];
export type Looks = readonly number[];
/** No further look is begun after so long: a page says how far it came rather than let a person wait. */
const LOOKS_MAX_MS = 20;
/** What a list of one value costs: each of its entries may lie on a page of its own, which holds so many entries. */
const ENTRIES_PER_PAGE = 25;
/** Matches of a range of amounts that are worth being fetched and put in order. */
const AMOUNTS_MAX = 3_000;

/** Columns whose values have their entries listed in the order of the chain, by an index each. */
const LISTED = ['subject_id', 'mandate_id', 'agent', 'code', 'decision'] as const;

interface Condition {
  readonly column: string;
  readonly operator: '=' | '>=' | '<=';
  readonly value: string | number;
}

/** From `from` on and below `to`, in the chain. */
interface Stretch {
  readonly from: number;
  readonly to: number;
}

/** Where matches are in the chain, the newest first; nothing of it is left to be seen from `seenTo` on. */
export interface Matches {
  readonly seqs: readonly number[];
  /** 0 where all was seen. */
  readonly seenTo: number;
}

/**
 * Finds decisions in the index: those below `before` in the chain that match, the newest first, at most `limit`.
 *
 * What one index lists is read from there. Several conditions are looked for in stretches of the chain, each by the
 * list that reaches furthest, until there are enough or LOOKS_MAX_MS is over: so the work is bounded also where nothing
 * matches, whatever the account's history. Source: docs/design/0033-search-in-bounded-looks.md.
 */
export async function findIndexed(
  sql: Sql,
  accountId: string,
  filter: DecisionFilter,
  { before, limit, looks = LOOKS }: { readonly before: number; readonly limit: number; readonly looks?: Looks },
): Promise<Matches> {
  // Only what is denied has a code.
  if (filter.code !== undefined && (filter.decision ?? 'deny') !== 'deny') return none;
  const search = new Search(sql, accountId, conditionsOf(filter));
  const range = await search.between(filter, before);
  if (range.from >= range.to) return none;
  const { conditions, lists } = search;
  const [only] = lists;
  if (conditions.length === 0 || (conditions.length === 1 && only !== undefined)) {
    return { seqs: await search.listed(only ?? null, range, limit), seenTo: 0 };
  }
  const within = await search.narrowed(range);
  return within.from >= within.to ? none : search.walk(within, { limit, looks });
}

const none: Matches = { seqs: [], seenTo: 0 };

function conditionsOf(filter: DecisionFilter): Condition[] {
  const { subjectId, mandateId, agent, decision, code, currency, minAmount, maxAmount } = filter;
  const all = [
    ['subject_id', '=', subjectId],
    ['mandate_id', '=', mandateId],
    ['agent', '=', agent],
    ['code', '=', code],
    ['decision', '=', decision],
    ['currency', '=', currency],
    ['amount', '>=', minAmount],
    ['amount', '<=', maxAmount],
  ] as const;
  return all.flatMap(([column, operator, value]) => (value === undefined ? [] : [{ column, operator, value }]));
}

/**
 * The statements of one search.
 *
 * Positions are compared as whole rows of an index and put in its order, which leaves the planner no other way than
 * that index: what is rare in all accounts may be frequent in one. Not prepared: a plan for all values would take none.
 */
class Search {
  readonly conditions: readonly Condition[];
  /** Those whose value has a list. */
  readonly lists: readonly Condition[];
  readonly #sql: Sql;
  readonly #accountId: string;

  constructor(sql: Sql, accountId: string, conditions: readonly Condition[]) {
    this.#sql = sql;
    this.#accountId = accountId;
    this.conditions = conditions;
    this.lists = conditions.filter(({ column }) => LISTED.some((one) => one === column));
  }

  /** Time in a chain never goes back, so that a range of time is a range of entries, found at its two ends. */
  async between({ fromMs, toMs }: DecisionFilter, before: number): Promise<Stretch> {
    const firstAt = async (ms: number): Promise<number> => {
      const rows = await this.#sql<{ seq: number }[]>`
        select seq from decision_search where account_id = ${this.#accountId} and at >= ${new Date(ms)}
        order by at, seq limit 1`;
      return rows[0]?.seq ?? before;
    };
    const from = fromMs === undefined ? 0 : await firstAt(fromMs);
    const to = toMs === undefined ? before : await firstAt(toMs);
    return { from, to: Math.min(to, before) };
  }

  /** The newest entries of a list, or of all. */
  async listed(list: Condition | null, range: Stretch, limit: number): Promise<number[]> {
    const given = new Values();
    const rows = await this.#rows<{ seq: number }>(
      `select seq ${this.#entries(given, list, range)} limit ${given.add(limit)}`,
      given,
    );
    return rows.map(({ seq }) => seq);
  }

  /** The part of a range where there is anything of each list. */
  async narrowed(range: Stretch): Promise<Stretch> {
    if (this.lists.length === 0) return range;
    const given = new Values();
    const ends = this.lists.flatMap((list) => [
      `(select seq ${this.#entries(given, list, range)} limit 1)`,
      `(select seq ${this.#entries(given, list, range, 'asc')} limit 1)`,
    ]);
    const [row] = await this.#rows<{ ends: string }>(`select concat_ws(',', ${ends.join(', ')}) as ends`, given);
    const found = (row?.ends ?? '').split(',').map(Number);
    // Nulls are left out.
    if (found.length < ends.length) return { from: 0, to: 0 };
    const newest = found.filter((_, at) => at % 2 === 0);
    const oldest = found.filter((_, at) => at % 2 === 1);
    return { from: Math.max(range.from, ...oldest), to: Math.min(range.to, Math.min(...newest) + 1) };
  }

  /** All matches by their amounts, where few entries have such ones; null where it is not that easy. */
  async #byAmount(range: Stretch, limit: number): Promise<number[] | null> {
    const value = (column: string, operator: string) =>
      this.conditions.find((one) => one.column === column && one.operator === operator)?.value;
    const [currency, least, most] = [value('currency', '='), value('amount', '>='), value('amount', '<=')];
    if (currency === undefined || (least === undefined && most === undefined)) return null;
    const few = (given: Values): string => {
      const lead = `${given.add(this.#accountId)}, ${given.add(currency)}`;
      return `from decision_search
        where (account_id, currency, amount) >= (${lead}, ${given.add(least ?? 0)}::bigint)
          and (account_id, currency, amount) <= (${lead}, ${given.add(most ?? Number.MAX_SAFE_INTEGER)}::bigint)
          and amount is not null
        order by account_id, currency, amount limit ${given.add(AMOUNTS_MAX + 1)}`;
    };
    const counted = new Values();
    const [count] = await this.#rows<{ all: number }>(
      `select count(*) as all from (select amount ${few(counted)}) d`,
      counted,
    );
    if (count === undefined || Number(count.all) > AMOUNTS_MAX) return null;
    const given = new Values();
    const rows = await this.#rows<{ seq: number }>(
      `select seq from (select * ${few(given)}) d where ${this.#hits(given, range)}
      order by seq desc limit ${given.add(limit)}`,
      given,
    );
    return rows.map(({ seq }) => seq);
  }

  /** Goes down the chain stretch by stretch. */
  async walk(range: Stretch, { limit, looks }: { readonly limit: number; readonly looks: Looks }): Promise<Matches> {
    const started = performance.now();
    const seqs: number[] = [];
    let { to } = range;
    for (const [at, look] of looks.entries()) {
      const few = at === 1 ? await this.#byAmount({ from: range.from, to }, limit - seqs.length) : null;
      if (few !== null) return { seqs: [...seqs, ...few], seenTo: 0 };
      const { list, from } = await this.#furthest({ from: range.from, to }, look);
      seqs.push(...(await this.#matching(list, { from, to }, limit - seqs.length)));
      if (seqs.length >= limit) return { seqs, seenTo: seqs.at(-1) ?? from };
      if (from <= range.from) return { seqs, seenTo: 0 };
      to = from;
      if (performance.now() - started > LOOKS_MAX_MS) break;
    }
    return { seqs, seenTo: to };
  }

  /** The list, or all entries (null), that leads furthest down from the end of a range for the cost of a look. */
  async #furthest(range: Stretch, look: number): Promise<{ readonly list: Condition | null; readonly from: number }> {
    const plain = { list: null, from: Math.max(range.from, range.to - look) };
    if (this.lists.length === 0 || plain.from === range.from) return plain;
    const given = new Values();
    const entries = Math.ceil(look / ENTRIES_PER_PAGE);
    const reaches = this.lists.map(
      (list) => `(select seq ${this.#entries(given, list, range)} offset ${given.add(entries)} limit 1)`,
    );
    const [row] = await this.#rows<{ reaches: string }>(
      `select concat_ws(',', ${reaches.map((one) => `coalesce(${one}, -1)`).join(', ')}) as reaches`,
      given,
    );
    const ways = (row?.reaches ?? '').split(',').map((reach, at) => {
      // Below the last entry of a list there is nothing of it: -1.
      return { list: this.lists[at] ?? null, from: Math.max(range.from, Number(reach) + 1) };
    });
    return ways.reduce<{ list: Condition | null; from: number }>(
      (best, way) => (way.from < best.from ? way : best),
      plain,
    );
  }

  async #matching(list: Condition | null, range: Stretch, limit: number): Promise<number[]> {
    const given = new Values();
    // The inner limit, which the stretch never reaches, keeps the conditions from choosing another index.
    const rows = await this.#rows<{ seq: number }>(
      `select seq from (
        select seq, subject_id, mandate_id, agent, code, decision, currency, amount
        ${this.#entries(given, list, range)} limit ${given.add(range.to - range.from)}
      ) d where ${this.#hits(given, range)} order by seq desc limit ${given.add(limit)}`,
      given,
    );
    return rows.map(({ seq }) => seq);
  }

  /** Entries of a list within a range in the order of their index. */
  #entries(given: Values, list: Condition | null, { from, to }: Stretch, order: 'asc' | 'desc' = 'desc'): string {
    const columns = ['account_id', ...(list === null ? [] : [list.column]), 'seq'];
    const lead = [this.#accountId, ...(list === null ? [] : [list.value])].map((value) => given.add(value)).join(', ');
    const known = list === null ? '' : ` and ${list.column} is not null`;
    return `from decision_search where (${columns.join(', ')}) >= (${lead}, ${given.add(from)}::bigint)
      and (${columns.join(', ')}) < (${lead}, ${given.add(to)}::bigint)${known}
      order by ${columns.map((column) => `${column} ${order}`).join(', ')}`;
  }

  #hits(given: Values, { from, to }: Stretch): string {
    const all = this.conditions.map(({ column, operator, value }) => `d.${column} ${operator} ${given.add(value)}`);
    return [`d.seq >= ${given.add(from)}`, `d.seq < ${given.add(to)}`, ...all].join(' and ');
  }

  async #rows<Row extends object>(text: string, given: Values): Promise<Row[]> {
    return [...(await this.#sql.unsafe<Row[]>(text, given.list))];
  }
}

/** The values of a statement; adding one gives its place. */
class Values {
  readonly list: (string | number)[] = [];

  add(value: string | number): string {
    return `$${this.list.push(value)}`;
  }
}
