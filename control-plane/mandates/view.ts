import { type MandateTerms, mandateDigest } from '../../core/mandate.ts';
import { decimalOf } from '../../core/money.ts';
import type { Sql } from '../db/client.ts';
import { MANDATE_TERMS_COLUMNS, mandateTerms } from './terms.ts';

/** A row of `mandates` as the routes work with it. */
export interface MandateRecord {
  readonly terms: MandateTerms;
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

/**
 * The mandates of an account, the newest first, or the one of an id, with their current month. One whose time is over
 * is expired from that moment on, whenever it is written.
 */
export async function readMandates(sql: Sql, accountId: string, id: string | null): Promise<MandateRecord[]> {
  const rows = await sql.unsafe<(Omit<MandateRecord, 'terms'> & Record<string, unknown>)[]>(
    `select m.*, k.month::text as month, coalesce(u.reserved, 0) as reserved, coalesce(u.booked, 0) as booked,
       (k.month + interval '1 month') at time zone m.time_zone as resets_at, epoch_ms(db_clock()) as read_at
     from (select ${MANDATE_TERMS_COLUMNS}, account_id, name, uses, created_at, changed_at,
         case when status in ('draft', 'active', 'suspended') and valid_until <= db_clock() then 'expired'
           else status end as status
       from mandates where account_id = $1 and ($2::text is null or mandate_id = $2)) m
     cross join lateral (select date_trunc('month', db_clock() at time zone m.time_zone)::date as month) k
     left join mandate_months u on u.account_id = m.account_id and u.mandate_id = m.mandate_id and u.month = k.month
     order by m.mandate_id desc limit 1000`,
    [accountId, id],
  );
  return rows.map((row) => ({
    terms: mandateTerms(row),
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
  }));
}

/** A mandate as the admin API answers it: amounts are JSON numbers in major units, times RFC 3339 UTC. */
export function mandateView(record: MandateRecord) {
  const { terms } = record;
  const money = (minor: number): number => decimalOf(minor, terms.currency);
  return {
    mandate_id: terms.mandate_id,
    version: terms.version,
    name: record.name,
    status: record.status,
    scope: terms.scope,
    currency: terms.currency,
    amount_limit_per_action: money(terms.per_action),
    amount_limit_per_month: money(terms.per_month),
    escalation_threshold: terms.escalation_threshold === null ? null : money(terms.escalation_threshold),
    counterparties: terms.counterparties,
    agent_did: terms.agent_did,
    time_zone: terms.time_zone,
    valid_until: terms.valid_until,
    max_uses: terms.max_uses,
    uses: record.uses,
    digest: mandateDigest(terms),
    created_at: new Date(record.created_at).toISOString(),
    changed_at: new Date(record.changed_at).toISOString(),
    usage: {
      month: record.month.slice(0, 7),
      booked: money(record.booked),
      reserved: money(record.reserved),
      remaining: money(Math.max(0, terms.per_month - record.booked - record.reserved)),
      resets_at: new Date(record.resets_at).toISOString(),
    },
  };
}
