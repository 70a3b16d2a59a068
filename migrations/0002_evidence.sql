-- Evidence: one hash chain an account. An entry is {account, at, body, id, kind, prev, seq}; its hash is the RFC 6962
-- leaf hash SHA-256(0x00 || JCS(entry)). `body` is stored as its JCS text, `at` as its RFC 3339 text (UTC, with
-- milliseconds), and every other member is a string without anything to escape, so the canonical entry is rebuilt from
-- the columns byte for byte: what is stored is what was hashed. The columns' form is checked by the trigger, for a
-- whole statement at once, because a CHECK for each row and column costs more than the insert.

create table evidence (
  account_id text collate "C" not null,
  seq bigint not null,
  id text collate "C" not null,
  kind text collate "C" not null,
  at text collate "C" not null,
  prev bytea not null,
  hash bytea not null,
  body text not null,
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

-- Outcomes are found through the decision they belong to.
create unique index evidence_id on evidence (account_id, id) where kind <> 'outcome';

-- Stable, as convert_to() is: an SQL function that claims more than what it calls is not inlined, and costs four times
-- as much.
create function evidence_leaf_hash(
  account_id text, seq bigint, id text, kind text, at text, prev bytea, body text
) returns bytea language sql stable parallel safe as $$
  select sha256('\x00'::bytea || convert_to(
    '{"account":"' || account_id || '","at":"' || at || '","body":' || body || ',"id":"' || id || '","kind":"' || kind
    || '","prev":"' || encode(prev, 'hex') || '","seq":' || seq::text || '}', 'UTF8'))
$$;

create function rfc3339(moment timestamptz) returns text language sql stable parallel safe
  as $$ select to_char(moment at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') $$;

-- What is wrong with the form of an entry, or null.
create function evidence_form_problem(account_id text, kind text, at text, id text, body_bytes integer)
  returns text language sql stable as $$
  select case
    when account_id !~ '^acc_[0-9a-z]{26}$' then 'account is not an identifier'
    when kind !~ '^[a-z_]+([.][a-z_]+)*$' then 'kind is not a dotted name'
    when at !~ '^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}[.][0-9]{3}Z$' or rfc3339(at::timestamptz) <> at
      then 'at is not a canonical time'
    when id !~ '^[0-9a-z_]{30}$' then 'id is not an identifier'
    when body_bytes > 65536 then 'body is longer than 65536 bytes'
  end
$$;

-- What keeps an entry from following the one before it in its chain, or null. Before the first: -1, 32 zero bytes, ''.
create function evidence_chain_problem(
  seq bigint, prev bytea, at text, hash bytea, leaf_hash bytea,
  before_seq bigint, before_hash bytea, before_at text, latest text
) returns text language sql immutable as $$
  select case
    when seq is distinct from before_seq + 1 then 'seq does not continue the chain'
    when prev is distinct from before_hash then 'prev is not the hash of the entry before'
    when at < before_at then 'time goes back'
    -- A clock that was set back does not stop an account: its time then stands still until the clock is back.
    when at > greatest(latest, before_at) then 'time is ahead of the database clock'
    when hash is distinct from leaf_hash then 'hash is not the hash of the entry'
  end
$$;

-- Refuses whatever does not continue the chain. It judges against the chain itself, not against the head row, so a
-- wrong head cannot make a wrong entry pass. It names its search path, because otherwise a temporary table of the
-- session that inserts would be found before the real one and could lend a false entry before.
create function evidence_continues_chain() returns trigger language plpgsql
  set search_path = pg_catalog, public, pg_temp as $$
declare
  v_latest text := rfc3339(db_clock());
  v_all record;
  v_before record;
  v_form text;
  v_wrong record;
begin
  -- The usual statement has one account and one time: what all its entries share is looked at once.
  select min(a.account_id) as account_id, min(a.at) as at, min(a.id) as id, max(octet_length(a.body)) as body_bytes,
    min(a.seq) as seq, min(a.account_id) = max(a.account_id) as one_account,
    min(a.at) = max(a.at) and bool_and(a.kind in ('decision', 'outcome')) and min(octet_length(a.id)) = 30
      and max(octet_length(a.id)) = 30 and string_agg(a.id, '') !~ '[^0-9a-z_]' as alike into v_all
  from added a;
  if not (v_all.one_account and v_all.alike)
    or evidence_form_problem(v_all.account_id, 'decision', v_all.at, v_all.id, v_all.body_bytes) is not null then
    select min(evidence_form_problem(a.account_id, a.kind, a.at, a.id, octet_length(a.body))) into v_form from added a;
    if v_form is not null then
      raise exception 'evidence refused: %', v_form using errcode = 'integrity_constraint_violation';
    end if;
  end if;

  -- The hashes are computed below `offset 0`, so that the bodies are not sorted along.
  if v_all.one_account then
    -- By these values, not by a join: only the one partition is opened.
    select p.seq, p.hash, p.at into v_before from evidence p
    where p.account_id = v_all.account_id and p.seq = v_all.seq - 1;
    if v_all.seq = 0 then
      select -1::bigint as seq, decode(repeat('00', 32), 'hex') as hash, '' as at into v_before;
    end if;
    select x.account_id, x.seq, x.problem into v_wrong from (
      select n.account_id, n.seq, evidence_chain_problem(n.seq, n.prev, n.at, n.hash, n.leaf_hash,
        lag(n.seq, 1, v_before.seq) over w, lag(n.hash, 1, v_before.hash) over w, lag(n.at, 1, v_before.at) over w,
        v_latest) as problem
      from (
        select a.account_id, a.seq, a.prev, a.at, a.hash,
          evidence_leaf_hash(a.account_id, a.seq, a.id, a.kind, a.at, a.prev, a.body) as leaf_hash
        from added a offset 0
      ) n window w as (order by n.seq)
    ) x where x.problem is not null order by x.seq limit 1;
  else
    select x.account_id, x.seq, x.problem into v_wrong from (
      select n.account_id, n.seq, evidence_chain_problem(n.seq, n.prev, n.at, n.hash, n.leaf_hash,
        coalesce(n.before_seq, p.seq), coalesce(n.before_hash, p.hash), coalesce(n.before_at, p.at),
        v_latest) as problem
      from (
        select h.*, lag(h.hash) over w as before_hash, lag(h.seq) over w as before_seq, lag(h.at) over w as before_at
        from (
          select a.account_id, a.seq, a.prev, a.at, a.hash,
            evidence_leaf_hash(a.account_id, a.seq, a.id, a.kind, a.at, a.prev, a.body) as leaf_hash
          from added a offset 0
        ) h window w as (partition by h.account_id order by h.seq)
      ) n
      -- Only for the first of each account: the filter on `n` alone keeps the others from being looked up.
      left join lateral (
        select e.seq, e.hash, e.at from evidence e
        where n.before_seq is null and e.account_id = n.account_id and e.seq = n.seq - 1
        union all
        select -1, decode(repeat('00', 32), 'hex'), '' where n.before_seq is null and n.seq = 0
      ) p on true
    ) x where x.problem is not null order by x.account_id, x.seq limit 1;
  end if;
  if v_wrong.problem is not null then
    raise exception 'evidence refused: entry % of account %: %', v_wrong.seq, v_wrong.account_id, v_wrong.problem
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
