import { LIVING_MANDATES_MAX } from '../../core/limits.ts';
import { type MandateTerms, mandateDigest } from '../../core/mandate.ts';
import { decimalOf } from '../../core/money.ts';
import type { Sql } from '../db/client.ts';
import { LISTED_TERMS_COLUMNS, type ListedTerms, listedTerms, MANDATE_TERMS_COLUMNS, mandateTerms } from './terms.ts';

/** Mandates of one page of a list: what a person looks through, and some milliseconds of work. */
export const MANDATES_PAGE = 50;

interface MandateState {
  readonly name: string;
  readonly status: string;
  readonly uses: number;
  readonly created_at: number;
  readonly changed_at: number;
  readonly month: string;
  readonly reserved: number;
  readonly booked: number;
  readonly resets_at: number;
  /** When it was read, in milliseconds of the database's clock. */
  readonly read_at: number;
}

/** A row of `mandates` as the routes work with it. */
export interface MandateRecord extends MandateState {
  readonly terms: MandateTerms;
}

/** The same as lists have it. */
export interface ListedMandate extends MandateState {
  readonly terms: ListedTerms;
  readonly digest: string;
  readonly counterparty_count: number;
}

/** Some mandates of an account; `next` is the one to go on after, null where there are no more. */
export interface MandatePage {
  readonly mandates: readonly ListedMandate[];
  readonly next: string | null;
}

type Row = Readonly<Record<string, unknown>> & MandateState;

/**
 * A mandate of an account with its current month, or undefined where there is none. One whose time is over is expired
 * from that moment on, whenever it is written.
 */
export async function readMandate(sql: Sql, accountId: string, id: string): Promise<MandateRecord | undefined> {
  const [row] = await sql.unsafe<Row[]>(mandatesSql(MANDATE_TERMS_COLUMNS, 'mandate_id = $2'), [accountId, id]);
  return row && { ...stateOf(row), terms: mandateTerms(row) };
}

/** The mandates of an account, the newest first: a page of them, from the one after `after` on. */
export async function listMandates(sql: Sql, accountId: string, after: string | null): Promise<MandatePage> {
  // One more than the page tells whether there is another.
  const where = `($2::text is null or mandate_id < $2) order by mandate_id desc limit ${MANDATES_PAGE + 1}`;
  const columns = `${LISTED_TERMS_COLUMNS}, cardinality(counterparties) as counterparty_count, digest`;
  const rows = await sql.unsafe<(Row & { digest: string; counterparty_count: number })[]>(mandatesSql(columns, where), [
    accountId,
    after,
  ]);
  const mandates = rows.slice(0, MANDATES_PAGE).map((row) => {
    const { digest, counterparty_count } = row;
    return { ...stateOf(row), terms: listedTerms(row), digest, counterparty_count };
  });
  return { mandates, next: rows.length > MANDATES_PAGE ? (mandates.at(-1)?.terms.mandate_id ?? null) : null };
}

/** The names of these mandates of an account. */
export async function mandateNames(
  sql: Sql,
  accountId: string,
  ids: readonly string[],
): Promise<ReadonlyMap<string, string>> {
  const rows = await sql<{ mandate_id: string; name: string }[]>`
    select mandate_id, name from mandates
    where account_id = ${accountId} and mandate_id = any(${[...new Set(ids)]}::text[])`;
  return new Map(rows.map(({ mandate_id: id, name }) => [id, name]));
}

/** Mandates that a person may put something under: those that are not over, the newest first. */
export async function usableMandates(
  sql: Sql,
  accountId: string,
): Promise<readonly { readonly mandate_id: string; readonly name: string }[]> {
  return sql`
    select mandate_id, name from mandates
    where account_id = ${accountId} and status in ('draft', 'active', 'suspended')
      and (valid_until is null or valid_until > db_clock())
    order by mandate_id desc limit ${LIVING_MANDATES_MAX}`;
}

function mandatesSql(columns: string, where: string): string {
  return `select m.*, k.month::text as month, coalesce(u.reserved, 0) as reserved, coalesce(u.booked, 0) as booked,
      (k.month + interval '1 month') at time zone m.time_zone as resets_at, epoch_ms(db_clock()) as read_at
    from (select ${columns}, account_id, name, uses, created_at, changed_at,
        case when status in ('draft', 'active', 'suspended') and valid_until <= db_clock() then 'expired'
          else status end as status
      from mandates where account_id = $1 and ${where}) m
    cross join lateral (select date_trunc('month', db_clock() at time zone m.time_zone)::date as month) k
    left join mandate_months u on u.account_id = m.account_id and u.mandate_id = m.mandate_id and u.month = k.month
    order by m.mandate_id desc`;
}

function stateOf(row: Row): MandateState {
  return {
    name: row.name,
    status: row.status,
    uses: Number(row.uses),
    created_at: row.created_at,
    changed_at: row.changed_at,
    month: row.month,
    reserved: Number(row.reserved),
    booked: Number(row.booked),
    resets_at: row.resets_at,
    read_at: Number(row.read_at),
  };
}

/** A mandate as the admin API answers it: amounts are JSON numbers in major units, times RFC 3339 UTC. */
export function mandateView(record: MandateRecord) {
  const { terms } = record;
  return viewOf(record, terms, { counterparties: terms.counterparties }, mandateDigest(terms));
}

/** The same in a list, where `counterparty_count` stands for the counterparties. */
export function listedView({ terms, digest, counterparty_count, ...state }: ListedMandate) {
  return viewOf(state, terms, { counterparty_count }, digest);
}

function viewOf<T extends object>(state: MandateState, terms: ListedTerms, counterparties: T, digest: string) {
  const money = (minor: number): number => decimalOf(minor, terms.currency);
  return {
    mandate_id: terms.mandate_id,
    version: terms.version,
    name: state.name,
    status: state.status,
    scope: terms.scope,
    currency: terms.currency,
    amount_limit_per_action: money(terms.per_action),
    amount_limit_per_month: money(terms.per_month),
    escalation_threshold: terms.escalation_threshold === null ? null : money(terms.escalation_threshold),
    ...counterparties,
    agent_did: terms.agent_did,
    time_zone: terms.time_zone,
    valid_until: terms.valid_until,
    max_uses: terms.max_uses,
    uses: state.uses,
    digest,
    created_at: new Date(state.created_at).toISOString(),
    changed_at: new Date(state.changed_at).toISOString(),
    usage: {
      month: state.month.slice(0, 7),
      booked: money(state.booked),
      reserved: money(state.reserved),
      remaining: money(Math.max(0, terms.per_month - state.booked - state.reserved)),
      resets_at: new Date(state.resets_at).toISOString(),
    },
  };
}
