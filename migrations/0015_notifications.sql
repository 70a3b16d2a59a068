-- Notifications: an outbox that is written with what it tells of, and the deliveries that are made from it.
--
-- Events are written by triggers on rare changes (and by one statement where a month's use crosses a share of its
-- limit), so in the very transaction of the change, whoever makes it. None of these tables is a fact of a decision.

-- A TypeID (UUIDv7 in Crockford base32) of this moment.
create function new_type_id(p_prefix text, p_at timestamptz) returns text language sql volatile parallel safe
  set search_path = pg_catalog, public, pg_temp as $$
  select p_prefix || '_' || string_agg(substr('0123456789abcdefghjkmnpqrstvwxyz',
    substring(b.bits from i * 5 + 1 for 5)::integer + 1, 1), '' order by i)
  from (
    select b'00' || ('x' || lpad(to_hex(epoch_ms(p_at)), 12, '0') || '7'
      || substr(replace(gen_random_uuid()::text, '-', ''), 14))::bit(128) as bits
  ) b cross join generate_series(0, 25) as i
$$;

-- `once`: what a type tells of at most once (an escalation, a mandate's month); null where each event is another one.
-- `payload` is the text that is sent, the same each time; it is made when the event is spread to those who want it.
create table notification_events (
  account_id text collate "C" not null,
  event_id text collate "C" not null check (event_id ~ '^evt_[0-9a-z]{26}$'),
  type text collate "C" not null check (type ~ '^[a-z_]+[.][a-z_]+$'),
  at timestamptz not null,
  once text collate "C",
  facts jsonb not null,
  payload text check (length(payload) <= 65536),
  spread_at timestamptz,
  primary key (account_id, event_id)
);

create unique index notification_events_once on notification_events (account_id, type, once);
create index notification_events_new on notification_events (at) where spread_at is null;
create index notification_events_age on notification_events (at);

-- A secret opens under the master key for this endpoint only; the previous one signs along until previous_until.
create table webhook_endpoints (
  account_id text collate "C" not null references accounts,
  endpoint_id text collate "C" not null check (endpoint_id ~ '^whk_[0-9a-z]{26}$'),
  name text not null check (length(name) between 1 and 200),
  url text not null check (length(url) <= 2048),
  events text[] not null check (cardinality(events) between 1 and 50),
  status text not null check (status in ('active', 'disabled')),
  disabled_cause text check (disabled_cause in ('person', 'failing', 'gone')),
  secret_sealed bytea not null,
  previous_sealed bytea,
  previous_until timestamptz,
  failing_since timestamptz,
  created_at timestamptz not null,
  changed_at timestamptz not null,
  primary key (account_id, endpoint_id),
  check ((status = 'disabled') = (disabled_cause is not null)),
  check ((previous_sealed is null) = (previous_until is null))
);

-- What an account wants by e-mail; without a row it is what control-plane/notifications/settings.ts says.
create table notification_settings (
  account_id text collate "C" primary key references accounts,
  mail boolean not null,
  mail_events text[] not null check (cardinality(mail_events) <= 50),
  recipients text[] not null check (cardinality(recipients) <= 5),
  language text not null check (language in ('en', 'de')),
  changed_at timestamptz not null
);

-- One row for each event and whoever is told of it (`target`: an endpoint, or an e-mail address). Whoever sends it
-- first moves `next_at` past the time that sending may take: a process that dies then leaves it to be sent again.
create table notification_deliveries (
  account_id text collate "C" not null,
  delivery_id text collate "C" not null check (delivery_id ~ '^dlv_[0-9a-z]{26}$'),
  event_id text collate "C" not null,
  channel text not null check (channel in ('webhook', 'mail')),
  target text collate "C" not null check (length(target) between 3 and 254),
  state text not null check (state in ('pending', 'delivered', 'dead')),
  attempts integer not null default 0 check (attempts >= 0),
  next_at timestamptz not null,
  not_after timestamptz,
  created_at timestamptz not null,
  settled_at timestamptz,
  last_status integer,
  last_error text check (length(last_error) <= 64),
  log jsonb not null default '[]',
  primary key (account_id, delivery_id),
  unique (account_id, event_id, target),
  foreign key (account_id, event_id) references notification_events on delete cascade,
  check ((state = 'pending') = (settled_at is null))
);

create index notification_deliveries_due on notification_deliveries (channel, next_at) where state = 'pending';
create index notification_deliveries_waiting on notification_deliveries (account_id, target) where state = 'pending';
create index notification_deliveries_target on notification_deliveries (account_id, target, delivery_id desc);

grant select, insert, update, delete on notification_events, webhook_endpoints, notification_deliveries to mandate_app;
grant select, insert, update on notification_settings to mandate_app;

-- Writes an event; again, or of the sandbox (which is nobody's), it does nothing.
create function record_notification(p_account_id text, p_type text, p_once text, p_facts jsonb) returns void
  language sql volatile set search_path = pg_catalog, public, pg_temp as $$
  insert into notification_events (account_id, event_id, type, at, once, facts)
  select p_account_id, new_type_id('evt', t.at), p_type, t.at, p_once, p_facts
  from (select db_clock() as at) t
  where not exists (select from sandbox s where s.account_id = p_account_id)
  on conflict do nothing
$$;

create function escalation_notified() returns trigger language plpgsql
  set search_path = pg_catalog, public, pg_temp as $$
begin
  perform record_notification(new.account_id,
    'escalation.' || case new.status when 'pending' then 'created' else new.status end, new.escalation_id,
    jsonb_build_object('escalation_id', new.escalation_id, 'mandate_id', new.mandate_id, 'subject_id', new.subject_id,
      'receipt_id', new.receipt_id, 'action', new.action, 'method', new.request -> 'method',
      'path', new.request -> 'path', 'tool', new.request -> 'tool', 'created_at', epoch_ms(new.created_at),
      'expires_at', epoch_ms(new.expires_at), 'decided_at', epoch_ms(new.decided_at), 'reason', new.reason));
  return null;
end $$;

create trigger escalation_created after insert on escalations
  for each row when (new.status = 'pending') execute function escalation_notified();
create trigger escalation_settled after update of status on escalations
  for each row when (old.status = 'pending' and new.status in ('approved', 'rejected', 'expired'))
  execute function escalation_notified();

create function mandate_notified() returns trigger language plpgsql
  set search_path = pg_catalog, public, pg_temp as $$
declare
  v_from text;
begin
  if tg_op = 'UPDATE' then
    v_from := old.status;
  end if;
  perform record_notification(new.account_id,
    'mandate.' || case when new.status <> 'active' then new.status when v_from = 'suspended' then 'resumed'
      else 'activated' end, null,
    jsonb_build_object('mandate_id', new.mandate_id, 'version', new.version, 'from', v_from, 'to', new.status));
  return null;
end $$;

create trigger mandate_opened after insert on mandates
  for each row when (new.status = 'active') execute function mandate_notified();
create trigger mandate_moved after update of status on mandates
  for each row when (old.status is distinct from new.status and new.status <> 'draft')
  execute function mandate_notified();

-- A limit that is lowered below what is used already is crossed as well; decisions tell of the rest.
create function limit_changed() returns trigger language plpgsql
  set search_path = pg_catalog, public, pg_temp as $$
declare
  v_month date := date_trunc('month', db_clock() at time zone new.time_zone)::date;
  v_used bigint;
  v_level record;
begin
  select k.reserved + k.booked into v_used from mandate_months k
  where k.account_id = new.account_id and k.mandate_id = new.mandate_id and k.month = v_month;
  for v_level in
    select x.type, x.percent from (values ('limit.warning', 80, new.per_month - new.per_month / 5),
      ('limit.reached', 100, new.per_month)) as x (type, percent, minor)
    where new.per_month > 0 and v_used >= x.minor
  loop
    perform record_notification(new.account_id, v_level.type, new.mandate_id || to_char(v_month, ' YYYY-MM-DD'),
      jsonb_build_object('mandate_id', new.mandate_id, 'month', v_month, 'percent', v_level.percent, 'used', v_used,
        'limit', new.per_month, 'currency', new.currency));
  end loop;
  return null;
end $$;

create trigger mandate_limit_changed after update of per_month on mandates
  for each row when (old.per_month is distinct from new.per_month) execute function limit_changed();

-- One event for all that a statement gave up on of one instance: a proxy that dies leaves many at once.
create function outcomes_notified() returns trigger language plpgsql
  set search_path = pg_catalog, public, pg_temp as $$
declare
  v_lost record;
begin
  for v_lost in
    select n.account_id, n.mandate_id, n.subject_id, count(*) as count, sum(n.amount)::bigint as amount,
      (array_agg(n.receipt_id order by n.receipt_id))[1:20] as receipts
    from changed n join before o on o.account_id = n.account_id and o.receipt_id = n.receipt_id
    where n.state = 'unknown' and o.state <> 'unknown'
    group by n.account_id, n.mandate_id, n.subject_id
  loop
    perform record_notification(v_lost.account_id, 'outcome.unknown', null,
      jsonb_build_object('mandate_id', v_lost.mandate_id, 'subject_id', v_lost.subject_id, 'count', v_lost.count,
        'amount', v_lost.amount, 'receipts', to_jsonb(v_lost.receipts)));
  end loop;
  return null;
end $$;

create trigger outcomes_lost after update on reservations referencing old table as before new table as changed
  for each statement execute function outcomes_notified();
