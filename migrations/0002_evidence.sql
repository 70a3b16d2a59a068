-- Evidence: one hash chain an account. An entry is {account, at, body, id, kind, prev, seq}; its hash is the RFC 6962
-- leaf hash SHA-256(0x00 || JCS(entry)). `body` is stored as its JCS text, and every other member is a string without
-- anything to escape, so the canonical entry is rebuilt from the columns byte for byte.

create table evidence (
  account_id text collate "C" not null check (account_id ~ '^acc_[0-9a-z]{26}$'),
  seq bigint not null check (seq >= 0),
  id text collate "C" not null check (id ~ '^[a-z]{3}_[0-9a-z]{26}$'),
  kind text collate "C" not null check (kind ~ '^[a-z_]+(\.[a-z_]+)*$'),
  at timestamptz not null check (at = date_trunc('milliseconds', at)),
  prev bytea not null check (octet_length(prev) = 32),
  hash bytea not null check (octet_length(hash) = 32),
  body text not null check (length(body) <= 65536),
  primary key (account_id, seq)
) partition by hash (account_id);

create table evidence_p0 partition of evidence for values with (modulus 8, remainder 0);
create table evidence_p1 partition of evidence for values with (modulus 8, remainder 1);
create table evidence_p2 partition of evidence for values with (modulus 8, remainder 2);
create table evidence_p3 partition of evidence for values with (modulus 8, remainder 3);
create table evidence_p4 partition of evidence for values with (modulus 8, remainder 4);
create table evidence_p5 partition of evidence for values with (modulus 8, remainder 5);
create table evidence_p6 partition of evidence for values with (modulus 8, remainder 6);
create table evidence_p7 partition of evidence for values with (modulus 8, remainder 7);

create unique index evidence_id on evidence (account_id, id);

create function evidence_leaf_hash(
  account_id text, seq bigint, id text, kind text, at timestamptz, prev bytea, body text
) returns bytea language sql stable parallel safe as $$
  select sha256('\x00'::bytea || convert_to(
    '{"account":"' || account_id || '","at":"' || to_char(at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')
    || '","body":' || body || ',"id":"' || id || '","kind":"' || kind || '","prev":"' || encode(prev, 'hex')
    || '","seq":' || seq || '}', 'UTF8'))
$$;

-- Refuses whatever does not continue the chain. It judges against the chain itself, not against the head row, so a
-- wrong head cannot make a wrong entry pass.
create function evidence_continues_chain() returns trigger language plpgsql as $$
declare
  wrong record;
begin
  select x.account_id, x.seq, x.problem into wrong from (
    select n.account_id, n.seq, case
        when n.seq > 0 and coalesce(n.before_hash, p.hash) is null then 'seq does not continue the chain'
        when n.before_seq is not null and n.before_seq <> n.seq - 1 then 'seq does not continue the chain'
        when n.prev <> case when n.seq = 0 then decode(repeat('00', 32), 'hex')
          else coalesce(n.before_hash, p.hash) end then 'prev is not the hash of the entry before'
        when n.at < coalesce(n.before_at, p.at) then 'time goes back'
        -- A clock that was set back does not stop an account: its time then stands still until the clock is there again.
        when n.at > greatest(clock_limit.latest, coalesce(n.before_at, p.at))
          then 'time is ahead of the database clock'
        when n.hash <> evidence_leaf_hash(n.account_id, n.seq, n.id, n.kind, n.at, n.prev, n.body)
          then 'hash is not the hash of the entry'
      end as problem
    from (
      select a.*, lag(a.hash) over w as before_hash, lag(a.seq) over w as before_seq, lag(a.at) over w as before_at
      from added a window w as (partition by a.account_id order by a.seq)
    ) n
    cross join (select db_clock() as latest) clock_limit
    left join evidence p on n.before_seq is null and p.account_id = n.account_id and p.seq = n.seq - 1
  ) x where x.problem is not null order by x.account_id, x.seq limit 1;
  if found then
    raise exception 'evidence refused: entry % of account %: %', wrong.seq, wrong.account_id, wrong.problem
      using errcode = 'integrity_constraint_violation';
  end if;
  return null;
end $$;

create function evidence_is_append_only() returns trigger language plpgsql as $$
begin
  raise exception 'evidence is append-only: % refused', tg_op using errcode = 'integrity_constraint_violation';
end $$;

-- Statement triggers do not descend to partitions, so each partition carries its own.
do $$
declare
  part text;
begin
  foreach part in array array['evidence', 'evidence_p0', 'evidence_p1', 'evidence_p2', 'evidence_p3',
    'evidence_p4', 'evidence_p5', 'evidence_p6', 'evidence_p7']
  loop
    execute format('create trigger evidence_chain after insert on %I referencing new table as added
      for each statement execute function evidence_continues_chain()', part);
    execute format('create trigger evidence_append_only before update or delete or truncate on %I
      for each statement execute function evidence_is_append_only()', part);
    execute format('alter table %I enable always trigger evidence_chain', part);
    execute format('alter table %I enable always trigger evidence_append_only', part);
  end loop;
end $$;

grant select, insert on evidence to mandate_app;
