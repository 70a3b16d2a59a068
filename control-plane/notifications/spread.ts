import { DELIVERIES_WAITING_MAX, ESCALATION_MAILS_PER_HOUR, MAILS_PER_HOUR, SPREAD_BATCH } from '../../core/limits.ts';
import { newTypeId } from '../../core/type-id.ts';
import type { Sql, TransactionSql } from '../db/client.ts';
import { payloadOf, type StoredEvent, uselessAfter } from './payload.ts';
import { type NotificationSettings, readSettings } from './settings.ts';

export type Channel = 'webhook' | 'mail';

interface EventRow extends StoredEvent {
  readonly mandate_name: string | null;
  readonly currency: string | null;
  readonly instance_name: string | null;
  readonly now_ms: number;
}

interface Delivery {
  readonly event: EventRow;
  readonly channel: Channel;
  readonly target: string;
}

interface Spreading {
  /** Whether there is a way to send e-mail. */
  readonly mail: boolean;
  readonly suppressed: (channel: Channel) => void;
  readonly logError: (error: unknown, message: string) => void;
}

/**
 * Makes deliveries of what happened, for those who want it now; returns how many events that were.
 *
 * Several control planes share the events. An event whose payload cannot be made is logged and told to nobody.
 */
export async function spreadEvents(sql: Sql, options: Spreading): Promise<number> {
  return await sql.begin(async (tx) => {
    const events = await tx<EventRow[]>`
      select e.account_id, e.event_id, e.type, e.at, e.facts, m.name as mandate_name, m.currency,
        i.name as instance_name, epoch_ms(db_clock()) as now_ms
      from notification_events e
      left join mandates m on m.account_id = e.account_id and m.mandate_id = e.facts ->> 'mandate_id'
      left join gateway_instances i on i.account_id = e.account_id and i.instance_id = e.facts ->> 'subject_id'
      where e.spread_at is null order by e.at limit ${SPREAD_BATCH} for update of e skip locked`;
    if (events.length === 0) return 0;
    const payloads = new Map(events.map((event) => [event, payloadText(event, options)]));
    const wanted = await deliveriesOf(
      tx,
      events.filter((event) => payloads.get(event) !== null),
      options,
    );
    await tx`
      update notification_events e set payload = n.payload, spread_at = db_clock()
      from unnest(${events.map((one) => one.account_id)}::text[], ${events.map((one) => one.event_id)}::text[],
        ${events.map((one) => payloads.get(one) ?? null)}::text[]) as n (account_id, event_id, payload)
      where e.account_id = n.account_id and e.event_id = n.event_id`;
    await insertDeliveries(tx, wanted);
    return events.length;
  });
}

function payloadText(event: EventRow, { logError }: Spreading): string | null {
  const { mandate_name: name, currency, instance_name: instance } = event;
  const mandate = name === null || currency === null ? null : { name, currency };
  try {
    return JSON.stringify(payloadOf(event, { mandate, instance }));
  } catch (error) {
    logError(error, `the notification ${event.event_id} cannot be told`);
    return null;
  }
}

async function deliveriesOf(
  tx: TransactionSql,
  events: readonly EventRow[],
  { mail, suppressed }: Spreading,
): Promise<Delivery[]> {
  const accounts = [...new Set(events.map((event) => event.account_id))];
  const endpoints = await readEndpoints(tx, accounts);
  const settings: ReadonlyMap<string, NotificationSettings> = mail
    ? await readSettings(tx as unknown as Sql, accounts)
    : new Map();
  const mails = await mailsOfHour(tx, settings);
  const deliveries: Delivery[] = [];
  for (const event of events) {
    for (const endpoint of endpoints.filter((one) => one.account_id === event.account_id)) {
      if (!endpoint.events.includes(event.type)) continue;
      endpoint.waiting += 1;
      if (endpoint.waiting > DELIVERIES_WAITING_MAX) suppressed('webhook');
      else deliveries.push({ event, channel: 'webhook', target: endpoint.endpoint_id });
    }
    for (const target of addressesFor(event, settings.get(event.account_id))) {
      const key = `${event.account_id} ${target}`;
      const sent = mails.get(key) ?? 0;
      if (sent >= (event.type.startsWith('escalation.') ? ESCALATION_MAILS_PER_HOUR : MAILS_PER_HOUR)) {
        suppressed('mail');
        continue;
      }
      mails.set(key, sent + 1);
      deliveries.push({ event, channel: 'mail', target });
    }
  }
  return deliveries;
}

function addressesFor(event: EventRow, settings: NotificationSettings | undefined): readonly string[] {
  if (settings === undefined || !settings.mail) return [];
  if (!(settings.mail_events as readonly string[]).includes(event.type)) return [];
  return [settings.email, ...settings.recipients];
}

interface Subscribed {
  readonly account_id: string;
  readonly endpoint_id: string;
  readonly events: readonly string[];
  waiting: number;
}

async function readEndpoints(tx: TransactionSql, accounts: readonly string[]): Promise<Subscribed[]> {
  return await tx<Subscribed[]>`
    select w.account_id, w.endpoint_id, w.events, (select count(*) from (
      select from notification_deliveries d
      where d.account_id = w.account_id and d.target = w.endpoint_id and d.state = 'pending'
      limit ${DELIVERIES_WAITING_MAX}) x) as waiting
    from webhook_endpoints w where w.account_id = any (${[...accounts]}::text[]) and w.status = 'active'`;
}

/** How many e-mails each address was sent within the hour, as far as that matters. */
async function mailsOfHour(
  tx: TransactionSql,
  settings: ReadonlyMap<string, NotificationSettings>,
): Promise<Map<string, number>> {
  const addresses = [...settings].flatMap(([accountId, { email, recipients }]) =>
    [email, ...recipients].map((target) => [accountId, target] as const),
  );
  if (addresses.length === 0) return new Map();
  const rows = await tx<{ account_id: string; target: string; sent: number }[]>`
    select a.account_id, a.target, (select count(*) from (
      select d.created_at from notification_deliveries d
      where d.account_id = a.account_id and d.target = a.target
      order by d.delivery_id desc limit ${ESCALATION_MAILS_PER_HOUR}) x
      where x.created_at > db_clock() - interval '1 hour') as sent
    from unnest(${addresses.map(([account]) => account)}::text[], ${addresses.map(([, target]) => target)}::text[])
      as a (account_id, target)`;
  return new Map(rows.map(({ account_id, target, sent }) => [`${account_id} ${target}`, Number(sent)]));
}

async function insertDeliveries(tx: TransactionSql, deliveries: readonly Delivery[]): Promise<void> {
  if (deliveries.length === 0) return;
  const column = (of: (one: Delivery) => string): string[] => deliveries.map(of);
  await tx`
    insert into notification_deliveries (account_id, delivery_id, event_id, channel, target, state, next_at, not_after,
      created_at)
    select n.account_id, n.delivery_id, n.event_id, n.channel, n.target, 'pending', db_clock(),
      ms_time(nullif(n.not_after, '')), db_clock()
    from unnest(${column(({ event }) => event.account_id)}::text[],
      ${column(({ event }) => newTypeId('dlv', event.now_ms))}::text[],
      ${column(({ event }) => event.event_id)}::text[], ${column(({ channel }) => channel)}::text[],
      ${column(({ target }) => target)}::text[],
      ${column(({ event, channel }) => (channel === 'mail' ? String(uselessAfter(event) ?? '') : ''))}::text[])
      as n (account_id, delivery_id, event_id, channel, target, not_after)
    on conflict do nothing`;
}
