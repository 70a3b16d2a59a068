-- Gateway instances, their tools, and the answers kept for idempotency keys.

create table gateway_instances (
  account_id text collate "C" not null references accounts,
  instance_id text collate "C" not null check (instance_id ~ '^gwi_[0-9a-z]{26}$'),
  mandate_id text collate "C" not null,
  name text not null check (length(name) between 1 and 200),
  status text not null check (status in ('active', 'disabled')),
  target_url text not null check (length(target_url) <= 2048),
  token_hash bytea not null check (octet_length(token_hash) = 32),
  credential_header text,
  credential_sealed bytea,
  config_version integer not null default 1,
  tools_version integer not null default 1,
  template_shapes text[] not null default '{}' check (cardinality(template_shapes) <= 64),
  unmapped_tools integer not null default 0 check (unmapped_tools between 0 and 500),
  rate_per_second integer not null default 100 check (rate_per_second between 1 and 1000000),
  rate_burst integer not null default 500 check (rate_burst between 1 and 1000000),
  created_at timestamptz not null,
  changed_at timestamptz not null,
  primary key (account_id, instance_id),
  foreign key (account_id, mandate_id) references mandates,
  check ((credential_header is null) = (credential_sealed is null))
);

-- `key` is the tool's name, or its template with the parameters' names erased (http.post:/orders/{}/refund).
create table tools (
  account_id text collate "C" not null,
  instance_id text collate "C" not null,
  key text collate "C" not null check (length(key) <= 2200),
  tool_id text collate "C" not null check (tool_id ~ '^tol_[0-9a-z]{26}$'),
  pattern text not null,
  shape text,
  state text not null check (state in ('unmapped', 'mapped', 'blocked')),
  version integer not null default 1 check (version >= 1),
  mapping jsonb,
  created_at timestamptz not null,
  changed_at timestamptz not null,
  primary key (account_id, instance_id, key),
  foreign key (account_id, instance_id) references gateway_instances,
  check ((state = 'mapped') = (mapping is not null))
);

create table idempotency_answers (
  account_id text collate "C" not null,
  subject_id text collate "C" not null,
  key_hash bytea not null check (octet_length(key_hash) = 32),
  request_digest bytea not null check (octet_length(request_digest) = 32),
  receipt_id text collate "C" not null,
  state text not null check (state in ('in_flight', 'answered', 'unknown')),
  status integer check (status between 100 and 599),
  headers jsonb,
  body bytea check (octet_length(body) <= 262144),
  created_at timestamptz not null,
  expires_at timestamptz not null,
  primary key (account_id, subject_id, key_hash),
  check (state <> 'answered' or status is not null)
);

create index idempotency_answers_expiry on idempotency_answers (expires_at);

grant select, insert, update on gateway_instances, tools to mandate_app;
grant delete on tools to mandate_app;
grant select, insert, update, delete on idempotency_answers to mandate_app;
