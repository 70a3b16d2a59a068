-- What the service signs with (ES256). One key is current; the next is published before anything is signed with it;
-- retired ones stay for those who check what they signed.

-- `sealed` opens under the master key for this `kid` only, which is the thumbprint of `public_jwk`: a public key that
-- somebody else wrote here is found out. Retired, it seals nothing any more (29 bytes: version, nonce and tag): the
-- private key is gone from here for good, and that the service made the key can still be told.
create table signing_keys (
  kid text collate "C" primary key check (kid ~ '^[A-Za-z0-9_-]{43}$'),
  public_jwk jsonb not null,
  sealed bytea not null,
  status text not null check (status in ('next', 'current', 'retired')),
  created_at timestamptz not null,
  current_at timestamptz,
  retired_at timestamptz,
  check ((status = 'next') = (current_at is null)),
  check ((status = 'retired') = (retired_at is not null)),
  check ((status = 'retired') = (octet_length(sealed) = 29))
);

create unique index signing_keys_current on signing_keys (status) where status = 'current';
create unique index signing_keys_next on signing_keys (status) where status = 'next';

grant select, insert, update (sealed, status, current_at, retired_at) on signing_keys to mandate_app;
