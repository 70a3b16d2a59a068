-- The console: where a session is used, when it last showed a second factor, recovery codes and passkeys.

alter table sessions
  add column kind text not null default 'cli' check (kind in ('cli', 'console')),
  add column user_agent text check (length(user_agent) <= 200),
  -- Never, unless it is said: what needs a fresh second factor is not open by omission.
  add column factor_at timestamptz not null default 'epoch';

-- 80 random bits each, so a plain SHA-256 is enough; one that was used stays, so that it is known to have been.
create table recovery_codes (
  account_id text collate "C" not null references accounts,
  code_hash bytea not null check (octet_length(code_hash) = 32),
  created_at timestamptz not null,
  used_at timestamptz,
  primary key (account_id, code_hash)
);

create table passkeys (
  account_id text collate "C" not null references accounts,
  passkey_id text collate "C" not null,
  credential_id bytea not null unique check (octet_length(credential_id) between 1 and 1023),
  public_key bytea not null check (octet_length(public_key) between 1 and 2048),
  counter bigint not null check (counter >= 0),
  transports text[] not null,
  name text not null check (length(name) between 1 and 200),
  backed_up boolean not null,
  created_at timestamptz not null,
  last_used_at timestamptz,
  primary key (account_id, passkey_id)
);

grant select, insert, update, delete on recovery_codes, passkeys to mandate_app;
