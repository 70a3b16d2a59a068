import { MONEY_MINOR_MAX } from '../../../core/limits.ts';
import type { Sql } from '../../db/client.ts';
import { countDays, type DayCount } from '../../evidence/search.ts';

/** Days that the overview looks back on, today among them. */
export const DAYS_SHOWN = 14;
/** What ends within so many days is to be looked at. */
const SOON_DAYS = 14;
/** Rows of a list on the overview; whoever has more finds them on the page of the noun. */
const ROWS_MAX = 6;
/** Things that are counted one by one up to here; whoever has more is told that there are at least so many. */
const COUNTED_MAX = 1_000;
const DAY_MS = 86_400_000;

/** How far an account is on the way to its first allowed request. */
export interface Progress {
  readonly mandate: boolean;
  readonly gateway: boolean;
  readonly seen: boolean;
  readonly mapped: boolean;
  readonly allowed: boolean;
  /** The gateway instance whose page the next step is on. */
  readonly instance_id: string | null;
}

/** What a person should look at. */
export interface Tasks {
  readonly pending: number;
  readonly unknown: number;
  readonly idle: readonly { readonly id: string; readonly name: string }[];
  readonly unmapped: readonly { readonly id: string; readonly name: string; readonly tools: number }[];
  readonly ending: readonly { readonly id: string; readonly name: string; readonly at: number }[];
}

/** A mandate's month; amounts in minor units, `unknown` is part of `reserved`. */
export interface Spend {
  readonly mandate_id: string;
  readonly name: string;
  readonly currency: string;
  readonly per_month: number;
  readonly booked: number;
  readonly reserved: number;
  readonly unknown: number;
}

export async function readProgress(sql: Sql, accountId: string): Promise<Progress> {
  const [row] = await sql<Progress[]>`
    select exists (select from mandates where account_id = ${accountId} and status <> 'draft') as mandate,
      exists (select from gateway_instances where account_id = ${accountId}) as gateway,
      exists (select from evidence where account_id = ${accountId} and kind = 'decision') as seen,
      exists (select from tools where account_id = ${accountId} and state = 'mapped') as mapped,
      exists (select from mandate_months where account_id = ${accountId} and allows > 0) as allowed,
      (select instance_id from gateway_instances where account_id = ${accountId}
        order by unmapped_tools > 0 desc, instance_id desc limit 1) as instance_id`;
  if (row === undefined) throw new Error('a statement without conditions answers a row');
  return row;
}

export async function readTasks(sql: Sql, accountId: string): Promise<Tasks> {
  const [[counts], idle, unmapped, ending] = await Promise.all([
    sql<{ pending: number; unknown: number }[]>`
      select
        (select count(*) from (select from escalations where account_id = ${accountId} and status = 'pending'
          and expires_at > db_clock() limit ${COUNTED_MAX}) p) as pending,
        (select count(*) from (select from reservations where account_id = ${accountId} and state = 'unknown'
          limit ${COUNTED_MAX}) u) as unknown`,
    sql<{ id: string; name: string }[]>`
      select i.instance_id as id, i.name from gateway_instances i
      where i.account_id = ${accountId} and i.status = 'active' and not exists (
        select from tools t where t.account_id = i.account_id and t.instance_id = i.instance_id and t.state = 'mapped')
      order by i.instance_id desc limit ${ROWS_MAX}`,
    sql<{ id: string; name: string; tools: number }[]>`
      select instance_id as id, name, unmapped_tools as tools from gateway_instances
      where account_id = ${accountId} and status = 'active' and unmapped_tools > 0
      order by unmapped_tools desc, instance_id desc limit ${ROWS_MAX}`,
    sql<{ id: string; name: string; at: number }[]>`
      select mandate_id as id, name, valid_until as at from mandates
      where account_id = ${accountId} and status = 'active' and valid_until > db_clock()
        and valid_until < db_clock() + make_interval(days => ${SOON_DAYS}::integer)
      order by valid_until limit ${ROWS_MAX}`,
  ]);
  const idleIds = new Set(idle.map(({ id }) => id));
  return {
    pending: Number(counts?.pending ?? 0),
    unknown: Number(counts?.unknown ?? 0),
    idle,
    // A gateway without any mapping is named once.
    unmapped: unmapped.filter(({ id }) => !idleIds.has(id)),
    ending,
  };
}

/** The active mandates that used most of their month. */
export async function readSpend(sql: Sql, accountId: string): Promise<Spend[]> {
  const rows = await sql<Spend[]>`
    select m.mandate_id, m.name, m.currency, m.per_month, coalesce(u.booked, 0) as booked,
      coalesce(u.reserved, 0) as reserved,
      coalesce((select sum(r.amount) from reservations r where r.account_id = m.account_id and r.state = 'unknown'
        and r.mandate_id = m.mandate_id and r.month = k.month), 0)::bigint as unknown
    from mandates m
    cross join lateral (select date_trunc('month', db_clock() at time zone m.time_zone)::date as month) k
    left join mandate_months u on u.account_id = m.account_id and u.mandate_id = m.mandate_id and u.month = k.month
    where m.account_id = ${accountId} and m.status = 'active'
    order by (coalesce(u.booked, 0) + coalesce(u.reserved, 0))::numeric / greatest(m.per_month, 1) desc,
      m.mandate_id desc
    limit ${ROWS_MAX}`;
  return [...rows];
}

/** Decisions of one day. */
export interface DayFigures {
  /** The calendar day, `YYYY-MM-DD`. */
  readonly day: string;
  readonly allow: number;
  readonly deny: number;
  readonly escalate: number;
}

export interface Figures {
  /** The oldest first; the last one is today. */
  readonly days: readonly DayFigures[];
  /** Today's sums in minor units, by decision and currency. */
  readonly amounts: readonly { readonly decision: string; readonly currency: string; readonly minor: number }[];
  /** Denials of all these days, the most frequent first. */
  readonly codes: readonly { readonly code: string; readonly count: number }[];
}

/** What was decided in the last days; a day is that of each mandate's own time zone. */
export async function readFigures(sql: Sql, accountId: string): Promise<Figures> {
  const [clock] = await sql<{ now: number }[]>`select epoch_ms(db_clock()) as now`;
  const now = Number(clock?.now ?? 0);
  // A day more at each end, since it is another day already or still somewhere.
  const range = { from: dayOf(now - DAYS_SHOWN * DAY_MS), to: dayOf(now + DAY_MS), mandateId: null };
  const { days } = await countDays(sql, accountId, range);
  const zones = await zonesOf(sql, accountId, days);
  const today = dayOf(now);
  const ago = ({ mandate_id, day }: DayCount) =>
    Math.round((Date.parse(zones.get(mandate_id)?.today ?? today) - Date.parse(day)) / DAY_MS);
  const recent = days.map((one) => ({ ...one, ago: ago(one) })).filter((one) => one.ago >= 0 && one.ago < DAYS_SHOWN);
  const countOf = (at: number, decision: string) =>
    recent.reduce((sum, one) => sum + (one.ago === at && one.decision === decision ? Number(one.decisions) : 0), 0);
  const amounts = new Map<string, bigint>();
  const codes = new Map<string, number>();
  for (const one of recent) {
    const currency = zones.get(one.mandate_id)?.currency;
    if (one.ago === 0 && currency !== undefined) {
      const key = `${one.decision} ${currency}`;
      amounts.set(key, (amounts.get(key) ?? 0n) + BigInt(one.amount));
    }
    if (one.code !== '') codes.set(one.code, (codes.get(one.code) ?? 0) + Number(one.decisions));
  }
  return {
    days: Array.from({ length: DAYS_SHOWN }, (_, at) => {
      const back = DAYS_SHOWN - 1 - at;
      const [allow, deny, escalate] = ['allow', 'deny', 'escalate'].map((decision) => countOf(back, decision));
      return { day: dayOf(now - back * DAY_MS), allow: allow ?? 0, deny: deny ?? 0, escalate: escalate ?? 0 };
    }),
    amounts: Array.from(amounts, ([key, minor]) => {
      const [decision = '', currency = ''] = key.split(' ');
      return { decision, currency, minor: Number(minor < MONEY_MINOR_MAX ? minor : BigInt(MONEY_MINOR_MAX)) };
    }),
    codes: Array.from(codes, ([code, count]) => ({ code, count })).sort((a, b) => b.count - a.count),
  };
}

async function zonesOf(sql: Sql, accountId: string, days: readonly DayCount[]) {
  const ids = [...new Set(days.map(({ mandate_id }) => mandate_id))];
  const rows = await sql<{ mandate_id: string; currency: string; today: string }[]>`
    select mandate_id, currency, (db_clock() at time zone time_zone)::date::text as today from mandates
    where account_id = ${accountId} and mandate_id = any (${ids}::text[])`;
  return new Map(rows.map(({ mandate_id, ...rest }) => [mandate_id, rest]));
}

function dayOf(ms: number): string {
  return new Date(ms).toISOString().slice(0, 10);
}
