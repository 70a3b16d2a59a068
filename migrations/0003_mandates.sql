-- Mandates, their months, and what is reserved against them. Money is in minor units of the mandate's currency.

create table mandates (
  account_id text collate "C" not null references accounts,
  mandate_id text collate "C" not null check (mandate_id ~ '^mdt_[0-9a-z]{26}$'),
  version integer not null default 1 check (version >= 1),
  name text not null check (length(name) between 1 and 200),
  status text not null check (status in ('draft', 'active', 'suspended', 'expired', 'consumed', 'revoked')),
  scope text[] not null check (cardinality(scope) between 1 and 100),
  currency char(3) not null check (currency ~ '^[A-Z]{3}$'),
  per_action bigint not null check (per_action between 0 and 1000000000000000),
  per_month bigint not null check (per_month between 0 and 1000000000000000),
  escalation_threshold bigint check (escalation_threshold between 0 and 1000000000000000),
  counterparties text[] not null default '{}' check (cardinality(counterparties) <= 1000),
  agent_did text not null default '',
  time_zone text not null default 'UTC',
  valid_until timestamptz,
  max_uses bigint check (max_uses >= 1),
  uses bigint not null default 0 check (uses >= 0),
  digest text not null,
  created_at timestamptz not null,
  changed_at timestamptz not null,
  primary key (account_id, mandate_id),
  check (max_uses is null or uses <= max_uses)
);

-- A month's use: `reserved` counts in full until it is booked or released (outcomes unknown stay in it).
create table mandate_months (
  account_id text collate "C" not null,
  mandate_id text collate "C" not null,
  month date not null check (month = date_trunc('month', month)),
  reserved bigint not null check (reserved >= 0),
  booked bigint not null check (booked >= 0),
  allows bigint not null check (allows >= 0),
  primary key (account_id, mandate_id, month)
) with (fillfactor = 70);

-- What is open: reserved before forwarding, gone from here once it is booked or released (the evidence keeps all of
-- it), 'unknown' until somebody finds out. So this stays small, whatever the history.
create table reservations (
  account_id text collate "C" not null,
  receipt_id text collate "C" not null,
  mandate_id text collate "C" not null,
  month date not null,
  path text not null check (path in ('gateway', 'verify')),
  subject_id text collate "C" not null,
  idempotency_key bytea check (octet_length(idempotency_key) = 32),
  amount bigint not null check (amount between 0 and 1000000000000000),
  state text not null check (state in ('reserved', 'unknown')),
  reserved_at timestamptz not null,
  due_at timestamptz not null,
  primary key (account_id, receipt_id)
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 10000);

-- No further index: the table holds only what is open, and each index would be paid for twice a request.

create table escalations (
  account_id text collate "C" not null,
  escalation_id text collate "C" not null check (escalation_id ~ '^esc_[0-9a-z]{26}$'),
  mandate_id text collate "C" not null,
  subject_id text collate "C" not null,
  ctx text not null,
  status text not null check (status in ('pending', 'approved', 'rejected', 'expired', 'used')),
  action jsonb not null,
  request jsonb,
  request_body bytea check (octet_length(request_body) <= 65536),
  receipt_id text collate "C" not null,
  created_at timestamptz not null,
  expires_at timestamptz not null,
  closes_at timestamptz not null,
  decided_at timestamptz,
  decided_by text,
  reason text check (length(reason) <= 500),
  token_hash bytea check (octet_length(token_hash) = 32),
  used_at timestamptz,
  primary key (account_id, escalation_id),
  check (status not in ('approved', 'used') or token_hash is not null),
  check ((status = 'used') = (used_at is not null))
);

-- closes_at: from then on the row no longer bears on decisions, so hot look-ups see a handful of rows at most.
create index escalations_live on escalations (account_id, mandate_id, closes_at);
create unique index escalations_one_pending on escalations (account_id, mandate_id, subject_id, ctx)
  where status = 'pending';
create unique index escalations_token on escalations (account_id, token_hash) where token_hash is not null;
create index escalations_due on escalations (expires_at) where status = 'pending';

grant select, insert, update on mandates, mandate_months, reservations, escalations to mandate_app;
grant delete on reservations to mandate_app;
