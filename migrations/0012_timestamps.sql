-- What others said about tree heads: RFC 3161 timestamps and the cosignatures of witnesses. Beside the chain, not in
-- it: an entry for each would move the head that the next one is about, without end.

create table timestamps (
  account_id text collate "C" not null references accounts,
  size bigint not null check (size > 0),
  root bytea not null check (octet_length(root) = 32),
  -- The CMS ContentInfo in DER, as it was checked; everything else in this row stands in it.
  token bytea not null check (octet_length(token) between 1 and 65536),
  gen_time timestamptz not null,
  -- The subject of the authority's certificate.
  tsa text not null check (tsa ~ '^[ -~]{0,200}$'),
  -- Whether its certificate led to a trust anchor when it came.
  trusted boolean not null,
  stored_at timestamptz not null,
  primary key (account_id, size)
);

create table cosignatures (
  account_id text collate "C" not null references accounts,
  size bigint not null check (size > 0),
  -- The witness's key: its name, and the four bytes that its signature lines begin with.
  witness text not null check (length(witness) between 1 and 200),
  key_id bytea not null check (octet_length(key_id) = 4),
  root bytea not null check (octet_length(root) = 32),
  -- The line of a signed note (C2SP tlog-cosignature), its newline included: goes below the checkpoint as it is.
  line text not null check (line ~ E'^\u2014 [^ \n]+ [A-Za-z0-9+/=]+\n$' and length(line) <= 1000),
  cosigned_at timestamptz not null,
  stored_at timestamptz not null,
  primary key (account_id, size, witness)
);

do $$
declare
  v_table text;
begin
  foreach v_table in array array['timestamps', 'cosignatures'] loop
    execute format('create trigger evidence_append_only before update or delete or truncate on %I
      for each statement execute function evidence_is_append_only()', v_table);
    execute format('alter table %I enable always trigger evidence_append_only', v_table);
  end loop;
end $$;

grant select, insert on timestamps, cosignatures to mandate_app;

-- How far an account's tree heads were shown to the authority or to a witness, and when to go on. It proves nothing;
-- it keeps several control planes from doing the same at once.
create table publications (
  account_id text collate "C" not null references accounts,
  -- 'tsa', or 'witness ' and the name of its key.
  publisher text not null check (length(publisher) between 1 and 250),
  size bigint not null default 0 check (size >= 0),
  next_at timestamptz not null,
  primary key (account_id, publisher)
) with (fillfactor = 70);

grant select, insert, update on publications to mandate_app;
