-- Accounts, their sessions, and the one table that routes a presented secret to its account.

-- The service's only clock, in whole milliseconds; tests that move time replace this function.
create function db_clock() returns timestamptz
  language sql volatile parallel safe
  as $$ select date_trunc('milliseconds', clock_timestamp()) $$;

-- Which master key sealed this database's secrets: a start with another key is refused instead of failing later.
create table installation (
  only_row boolean primary key default true check (only_row),
  master_key_check bytea not null check (octet_length(master_key_check) = 32),
  created_at timestamptz not null
);

create table accounts (
  account_id text collate "C" primary key check (account_id ~ '^acc_[0-9a-hjkmnp-tv-z]{26}$'),
  email text not null unique check (email = lower(email) and length(email) between 3 and 254),
  password_hash text not null,
  totp_sealed bytea not null,
  totp_last_step bigint not null default 0,
  second_factor_at timestamptz,
  failed_attempts integer not null default 0 check (failed_attempts >= 0),
  locked_until timestamptz,
  created_at timestamptz not null
);

create table sessions (
  account_id text collate "C" not null references accounts,
  session_id text collate "C" not null,
  token_hash bytea not null check (octet_length(token_hash) = 32),
  created_at timestamptz not null,
  last_seen_at timestamptz not null,
  expires_at timestamptz not null,
  revoked_at timestamptz,
  primary key (account_id, session_id)
);

-- Finds the account of a secret by its SHA-256. It authenticates nothing: whether the secret is still valid is
-- read from the account's own rows every time.
create table token_routes (
  token_hash bytea primary key check (octet_length(token_hash) = 32),
  kind text not null check (kind in ('gateway', 'session', 'api_key')),
  account_id text collate "C" not null,
  subject_id text collate "C" not null
);

-- One row an account: the end of its evidence chain, and the only lock (FOR NO KEY UPDATE) for its state. Whatever
-- decisions are made from changes it: decisions and outcomes by `hash`, the rest by `revision` (see facts_changed).
create table account_heads (
  account_id text collate "C" primary key references accounts,
  size bigint not null default 0 check (size >= 0),
  hash bytea not null default decode(repeat('00', 32), 'hex') check (octet_length(hash) = 32),
  at timestamptz not null,
  revision bigint not null default 0
);

-- Moves the revision of the accounts whose rows changed, whoever changed them and by what means.
create function facts_changed() returns trigger language plpgsql
  set search_path = pg_catalog, public, pg_temp as $$
begin
  update account_heads set revision = revision + 1 where account_id in (select c.account_id from changed c);
  return null;
end $$;

grant select, insert, update on installation, accounts, sessions, account_heads to mandate_app;
grant delete on sessions to mandate_app;
grant select, insert, delete on token_routes to mandate_app;
