-- What was seen of tools that could not be decided on, every version of a mandate's terms, which mandates the account's
-- stop suspended, and the index by which decisions are searched. None of it is read or written to decide.

-- How often requests of a tool were denied because it is unmapped or cannot be read, and of what form they were. Told
-- to people; nothing depends on it. One row a tool at most, so that what bounds tools bounds these.
create table tool_sightings (
  account_id text collate "C" not null,
  instance_id text collate "C" not null,
  key text collate "C" not null,
  unmapped bigint not null default 0 check (unmapped >= 0),
  unreadable bigint not null default 0 check (unreadable >= 0),
  unreadable_reason text check (length(unreadable_reason) <= 500),
  first_at timestamptz not null,
  last_at timestamptz not null,
  shape jsonb check (octet_length(shape::text) <= 262144),
  primary key (account_id, instance_id, key),
  foreign key (account_id, instance_id, key) references tools on delete cascade
);

grant select, insert, update on tool_sightings to mandate_app;

-- Every version of a mandate's terms, kept by the database itself whoever writes the mandate.
create table mandate_versions (
  account_id text collate "C" not null,
  mandate_id text collate "C" not null,
  version integer not null check (version >= 1),
  scope text[] not null,
  currency char(3) not null,
  per_action bigint not null,
  per_month bigint not null,
  escalation_threshold bigint,
  counterparties text[] not null,
  agent_did text not null,
  time_zone text not null,
  valid_until timestamptz,
  max_uses bigint,
  digest text not null,
  effective_at timestamptz not null,
  primary key (account_id, mandate_id, version),
  foreign key (account_id, mandate_id) references mandates on delete cascade
);

insert into mandate_versions
select account_id, mandate_id, version, scope, currency, per_action, per_month, escalation_threshold, counterparties,
  agent_did, time_zone, valid_until, max_uses, digest, created_at
from mandates;

create function keep_mandate_version() returns trigger language plpgsql security definer
  set search_path = pg_catalog, public, pg_temp as $$
begin
  insert into mandate_versions (account_id, mandate_id, version, scope, currency, per_action, per_month,
    escalation_threshold, counterparties, agent_did, time_zone, valid_until, max_uses, digest, effective_at)
  values (new.account_id, new.mandate_id, new.version, new.scope, new.currency, new.per_action, new.per_month,
    new.escalation_threshold, new.counterparties, new.agent_did, new.time_zone, new.valid_until, new.max_uses,
    new.digest, new.changed_at);
  return null;
end $$;

-- Of the version alone: the use of a mandate is counted in the same row, and pays nothing for this.
create trigger keep_version after insert or update of version on mandates
  for each row execute function keep_mandate_version();

grant select on mandate_versions to mandate_app;

-- Suspended by the account's stop, and so resumed with it; any step of the mandate's own takes it away.
alter table mandates add column stopped boolean not null default false;

-- Decisions by what people look for, and counted by day. A job fills both from the chain, up to `next_seq`: a decision
-- pays nothing for them, and both can be thrown away and filled again. Whatever is shown is read from the chain.
create table decision_positions (
  account_id text collate "C" primary key references accounts,
  next_seq bigint not null default 0 check (next_seq >= 0)
);

create table decision_search (
  account_id text collate "C" not null,
  seq bigint not null,
  at timestamptz not null,
  subject_id text collate "C" not null,
  mandate_id text collate "C",
  agent text collate "C",
  decision text collate "C" not null check (decision in ('allow', 'deny', 'escalate')),
  code text collate "C",
  currency char(3),
  amount bigint,
  primary key (account_id, seq)
);

create index decision_search_at on decision_search (account_id, at);
create index decision_search_subject on decision_search (account_id, subject_id, seq);
create index decision_search_mandate on decision_search (account_id, mandate_id, seq) where mandate_id is not null;
create index decision_search_agent on decision_search (account_id, agent, seq) where agent is not null;
create index decision_search_code on decision_search (account_id, code, seq) where code is not null;
create index decision_search_decision on decision_search (account_id, decision, seq);
create index decision_search_amount on decision_search (account_id, currency, amount) where amount is not null;

-- By the calendar day of the mandate's time zone; UTC where no mandate is known, whose `mandate_id` is empty. `amount`
-- sums what was asked for in the mandate's currency, in minor units: agents may ask for more than a bigint holds.
create table decision_days (
  account_id text collate "C" not null,
  mandate_id text collate "C" not null,
  day date not null,
  decision text collate "C" not null check (decision in ('allow', 'deny', 'escalate')),
  code text collate "C" not null,
  decisions bigint not null check (decisions >= 0),
  amount numeric(40, 0) not null check (amount >= 0),
  primary key (account_id, mandate_id, day, decision, code)
);

create index decision_days_day on decision_days (account_id, day);

-- Decisions of columns as the days count them. `p_amounts`: empty where there is none or not in a currency.
create function days_of(
  p_account text, p_ats text[], p_mandates text[], p_decisions text[], p_codes text[], p_currencies text[],
  p_amounts bigint[]
) returns table (mandate_id text, day date, decision text, code text, decisions bigint, amount numeric)
language sql stable as $$
  select coalesce(n.mandate_id, ''), (n.at::timestamptz at time zone coalesce(m.time_zone, 'UTC'))::date, n.decision,
    coalesce(n.code, ''), count(*), coalesce(sum(n.amount) filter (where n.currency = m.currency), 0)
  from unnest(p_ats, p_mandates, p_decisions, p_codes, p_currencies, p_amounts)
    as n (at, mandate_id, decision, code, currency, amount)
  left join mandates m on m.account_id = p_account and m.mandate_id = n.mandate_id
  group by 1, 2, 3, 4
$$;

grant select, insert, update on decision_positions, decision_days to mandate_app;
grant select, insert on decision_search to mandate_app;
