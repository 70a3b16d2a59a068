import {
  DELIVERY_ATTEMPTS_MAX,
  DELIVERY_CLAIM_MS,
  DELIVERY_LOG_MAX,
  DELIVERY_RETRY_FACTOR,
  DELIVERY_RETRY_FIRST_MS,
  DELIVERY_RETRY_JITTER,
  DELIVERY_RETRY_MAX_MS,
  DUE_ACCOUNTS_MAX,
  DUE_LOOK_MAX,
  DUE_LOOK_PER_ACCOUNT_MAX,
  IN_FLIGHT_PER_ACCOUNT_MAX,
  IN_FLIGHT_PER_RECEIVER_MAX,
} from '../../core/limits.ts';
import type { Sql } from '../db/client.ts';
import type { Channel } from './spread.ts';

/** A delivery that is ours to send until its claim ends; `attempts` counts this one. */
export interface Claimed {
  readonly account_id: string;
  readonly delivery_id: string;
  readonly event_id: string;
  readonly type: string;
  readonly payload: string;
  readonly channel: Channel;
  readonly target: string;
  readonly attempts: number;
  /** Whether its use has ended meanwhile. */
  readonly late: boolean;
  /** The endpoint as it is now; null where it is gone, and for e-mail. */
  readonly url: string | null;
  readonly status: 'active' | 'disabled' | null;
  readonly secret_sealed: Buffer | null;
  readonly previous_sealed: Buffer | null;
  readonly language: 'en' | 'de' | null;
}

/**
 * How an attempt ended: `error` null means that it arrived. `status` is the receiver's answer (HTTP or SMTP), if there
 * was one; `final`: another attempt would end the same way.
 */
export interface Attempt {
  readonly error: string | null;
  readonly status: number | null;
  readonly final: boolean;
}

/** What this process has under way, and what the accounts that slowed it down lately took of its time. */
export interface Busy {
  /** Deliveries in flight of each account. */
  readonly accounts: ReadonlyMap<string, number>;
  /** Receivers (`account target`) that have anything in flight. */
  readonly receivers: readonly string[];
  /** Milliseconds of sending. */
  readonly slow: ReadonlyMap<string, number>;
}

/** Who is busy with what is in flight. */
export function busyWith(
  flying: readonly Pick<Claimed, 'account_id' | 'target'>[],
  slow: ReadonlyMap<string, number>,
): Busy {
  const ofAccount = Map.groupBy(flying, (one) => one.account_id);
  return {
    accounts: new Map(Array.from(ofAccount, ([account, own]) => [account, own.length])),
    receivers: [...new Set(flying.map(({ account_id: account, target }) => `${account} ${target}`))],
    slow,
  };
}

/**
 * Claims up to `free` due deliveries of a channel: at most a few of each receiver and account, and none of receivers
 * that are `busy`. Each account's first comes before anybody's second, that of one that was quick before that of one
 * that was slow, then what is due the longest; the last `reserved` are for accounts that have nothing in flight.
 *
 * A claim is a time: until it ends nobody else sends the delivery, and then somebody does unless it was settled.
 */
export async function claim(
  sql: Sql,
  channel: Channel,
  { free, reserved, busy }: { readonly free: number; readonly reserved: number; readonly busy: Busy },
): Promise<Claimed[]> {
  return await sql<Claimed[]>`
    with recursive due as materialized (
      select account_id, delivery_id, target, next_at from notification_deliveries
      where state = 'pending' and channel = ${channel} and next_at <= (select db_clock())
      order by next_at limit ${DUE_LOOK_MAX}),
    accounts (key, next_at, place) as (
      select ${`${channel} `}::text collate "C", null::timestamptz, 0
      where (select count(*) from due) = ${DUE_LOOK_MAX}
      union all
      select n.key, n.next_at, a.place + 1 from accounts a cross join lateral (
        select (d.channel || ' ' || d.account_id) collate "C" as key, d.next_at from notification_deliveries d
        where d.state = 'pending' and (d.channel || ' ' || d.account_id) collate "C" > a.key
          and (d.channel || ' ' || d.account_id) collate "C" < ${`${channel}!`}
        order by 1, d.next_at limit 1) n
      where a.place < ${DUE_ACCOUNTS_MAX}),
    look as (
      select * from due where not exists (select from accounts)
      union all
      select n.* from accounts a cross join lateral (
        select d.account_id, d.delivery_id, d.target, d.next_at from notification_deliveries d
        where d.state = 'pending' and (d.channel || ' ' || d.account_id) collate "C" = a.key
          and d.next_at <= (select db_clock())
        order by d.next_at limit ${DUE_LOOK_PER_ACCOUNT_MAX}) n
      where a.next_at <= (select db_clock())),
    flying as (select * from unnest(${[...busy.accounts.keys()]}::text[], ${[...busy.accounts.values()]}::integer[])
      as f (account_id, count)),
    slow as (select * from unnest(${[...busy.slow.keys()]}::text[], ${[...busy.slow.values()]}::float8[])
      as s (account_id, ms)),
    placed as (
      select x.account_id, x.delivery_id, x.next_at,
        row_number() over (partition by x.account_id, x.target order by x.next_at) as of_receiver,
        coalesce(f.count, 0) + row_number() over (partition by x.account_id order by x.next_at) as of_account,
        coalesce(s.ms, 0) as slow_ms
      from look x left join flying f on f.account_id = x.account_id left join slow s on s.account_id = x.account_id
      where x.account_id || ' ' || x.target <> all (${[...busy.receivers]}::text[])),
    turns as materialized (
      select *, row_number() over (order by of_account, slow_ms, next_at) as turn from placed
      where of_receiver <= ${IN_FLIGHT_PER_RECEIVER_MAX} and of_account <= ${IN_FLIGHT_PER_ACCOUNT_MAX}),
    taken as (
      select d.account_id, d.delivery_id from turns s
      join notification_deliveries d on d.account_id = s.account_id and d.delivery_id = s.delivery_id
      where (s.of_account = 1 or s.turn <= ${free - reserved})
        and d.state = 'pending' and d.next_at <= (select db_clock())
      order by s.turn limit ${free} for update of d skip locked),
    claimed as (
      update notification_deliveries d set attempts = d.attempts + 1,
        next_at = db_clock() + ${DELIVERY_CLAIM_MS}::integer * interval '1 millisecond'
      from taken where d.account_id = taken.account_id and d.delivery_id = taken.delivery_id
      returning d.account_id, d.delivery_id, d.event_id, d.channel, d.target, d.attempts, d.not_after)
    select c.account_id, c.delivery_id, c.event_id, c.channel, c.target, c.attempts, e.type, e.payload,
      coalesce(c.not_after <= db_clock(), false) as late, w.url, w.status, w.secret_sealed, s.language,
      case when w.previous_until > db_clock() then w.previous_sealed end as previous_sealed
    from claimed c
    join notification_events e on e.account_id = c.account_id and e.event_id = c.event_id
    left join webhook_endpoints w on w.account_id = c.account_id and w.endpoint_id = c.target
    left join notification_settings s on s.account_id = c.account_id`;
}

/** The pause after this many attempts, in milliseconds; `random` from 0 (inclusive) to 1 (exclusive). */
export function retryDelayMs(attempts: number, random: number): number {
  const pause = Math.min(DELIVERY_RETRY_FIRST_MS * DELIVERY_RETRY_FACTOR ** (attempts - 1), DELIVERY_RETRY_MAX_MS);
  return Math.round(pause * (1 + DELIVERY_RETRY_JITTER * (2 * random - 1)));
}

export type DeliveryState = 'pending' | 'delivered' | 'dead';

/**
 * Writes how an attempt ended, and returns what the delivery is then; null where it was settled by somebody else
 * meanwhile, or claimed anew and so not ours any more. What arrived has arrived, whoever's turn it is.
 */
export async function settle(
  sql: Sql,
  claimed: Claimed,
  { error, status, final }: Attempt,
  tookMs: number,
): Promise<DeliveryState | null> {
  const delay = retryDelayMs(claimed.attempts, Math.random());
  const entry = JSON.stringify({ attempt: claimed.attempts, status, error, latency_ms: Math.round(tookMs) });
  const ends = final || claimed.attempts >= DELIVERY_ATTEMPTS_MAX;
  const [row] = await sql<{ state: DeliveryState }[]>`
    update notification_deliveries d set state = n.state, next_at = n.next_at, last_status = ${status},
      settled_at = case when n.state = 'pending' then null else db_clock() end, last_error = ${error},
      log = (case when jsonb_array_length(d.log) >= ${DELIVERY_LOG_MAX} then d.log - 0 else d.log end)
        || jsonb_build_array(jsonb_build_object('at', rfc3339(db_clock())) || ${entry}::text::jsonb)
    from (
      select x.next_at, case when ${error}::text is null then 'delivered'
        when ${ends} or x.next_at > x.not_after then 'dead' else 'pending' end as state
      from (
        select not_after, db_clock() + ${delay}::integer * interval '1 millisecond' as next_at
        from notification_deliveries
        where account_id = ${claimed.account_id} and delivery_id = ${claimed.delivery_id}) x
    ) n
    where d.account_id = ${claimed.account_id} and d.delivery_id = ${claimed.delivery_id} and d.state = 'pending'
      and (${error}::text is null or d.attempts = ${claimed.attempts})
    returning d.state`;
  return row?.state ?? null;
}

/** Gives claims back that were not used, so that another process need not wait for their end. */
export async function release(sql: Sql, { account_id, delivery_id, attempts }: Claimed): Promise<void> {
  await sql`update notification_deliveries set next_at = db_clock(), attempts = attempts - 1
    where account_id = ${account_id} and delivery_id = ${delivery_id} and state = 'pending' and attempts = ${attempts}`;
}

/** How many deliveries and events wait, and how long the oldest of those that are due has, in seconds. */
export async function queueState(sql: Sql): Promise<{ readonly depth: number; readonly oldestSeconds: number }> {
  const [row] = await sql<{ depth: number; oldest_ms: number }[]>`
    select (select count(*) from notification_deliveries where state = 'pending')
        + (select count(*) from notification_events where spread_at is null) as depth,
      coalesce(epoch_ms(db_clock()) - least(
        (select min(epoch_ms(created_at)) from notification_deliveries where state = 'pending'),
        (select min(epoch_ms(at)) from notification_events where spread_at is null)), 0) as oldest_ms`;
  return { depth: Number(row?.depth ?? 0), oldestSeconds: Math.max(0, Number(row?.oldest_ms ?? 0)) / 1000 };
}
