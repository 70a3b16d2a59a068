-- What the service signs with (ES256): one key is current, retired ones stay for those who check what they signed.

create table signing_keys (
  kid text collate "C" primary key check (kid ~ '^[A-Za-z0-9_-]{43}$'),
  public_jwk jsonb not null,
  sealed bytea not null,
  status text not null check (status in ('next', 'current', 'retired')),
  created_at timestamptz not null,
  current_at timestamptz,
  retired_at timestamptz,
  check ((status = 'next') = (current_at is null)),
  check ((status = 'retired') = (retired_at is not null))
);

create unique index signing_keys_current on signing_keys (status) where status = 'current';
create unique index signing_keys_next on signing_keys (status) where status = 'next';

grant select, insert, update on signing_keys to mandate_app;
