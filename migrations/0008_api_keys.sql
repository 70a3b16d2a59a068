-- API keys: what software of an account shows at /api/v1. A key keeps its secret for life; a new secret is a new key.

create table api_keys (
  account_id text collate "C" not null references accounts,
  key_id text collate "C" not null check (key_id ~ '^key_[0-9a-z]{26}$'),
  name text not null check (length(name) between 1 and 200),
  token_hash bytea not null check (octet_length(token_hash) = 32),
  scopes text[] not null check (cardinality(scopes) between 1 and 6 and scopes <@ array['agents:present', 'verify',
    'consumptions:write', 'executions:write', 'mandates:read', 'evidence:read']),
  status text not null check (status in ('active', 'revoked')),
  verify_per_second integer not null default 100 check (verify_per_second between 1 and 1000000),
  verify_burst integer not null default 500 check (verify_burst between 1 and 1000000),
  management_per_second integer not null default 10 check (management_per_second between 1 and 1000000),
  management_burst integer not null default 20 check (management_burst between 1 and 1000000),
  created_at timestamptz not null,
  revoked_at timestamptz,
  primary key (account_id, key_id),
  check ((status = 'revoked') = (revoked_at is not null))
);

-- When a key was last used, for people to look at. Apart from the key: no decision depends on it, so it must not move
-- the account's revision.
create table api_key_uses (
  account_id text collate "C" not null,
  key_id text collate "C" not null,
  last_used_at timestamptz not null,
  primary key (account_id, key_id),
  foreign key (account_id, key_id) references api_keys
) with (fillfactor = 70);

grant select, insert, update on api_keys, api_key_uses to mandate_app;

-- Facts that are not in the chain's head: a change to them, even by hand, is seen by the next decision.
create trigger facts_inserted after insert on api_keys referencing new table as changed
  for each statement execute function facts_changed();
create trigger facts_updated after update on api_keys referencing new table as changed
  for each statement execute function facts_changed();
create trigger facts_deleted after delete on api_keys referencing old table as changed
  for each statement execute function facts_changed();
