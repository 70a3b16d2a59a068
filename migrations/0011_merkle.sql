-- The Merkle tree of each account's chain (RFC 6962 §2.1), whose leaves are the hashes of the entries. The leaves are
-- the evidence itself; above them the root of every complete subtree of 256, 65,536, … entries has a row, which makes
-- the rows of one level the tiles of C2SP tlog-tiles; the right edge stands in the head. Nothing else is stored.

-- `edge`: the roots of the tree's largest complete subtrees from left to right, one for each 1 in the binary size.
alter table account_heads add column edge bytea not null default '';

create table evidence_subtrees (
  account_id text collate "C" not null,
  -- The subtree has 256^level entries, the first of them is number index * 256^level.
  level smallint not null check (level between 1 and 6),
  index bigint not null check (index >= 0),
  hash bytea not null check (octet_length(hash) = 32),
  primary key (account_id, level, index)
);

-- The root over 2^n hashes that stand one behind the other. A loop, which here takes half the time of an aggregate.
create function merkle_fold(p_hashes bytea) returns bytea language plpgsql immutable parallel safe
  set search_path = pg_catalog as $$
declare
  v_hashes bytea := p_hashes;
  v_above bytea;
begin
  while octet_length(v_hashes) > 32 loop
    v_above := '';
    for n in 0 .. octet_length(v_hashes) / 64 - 1 loop
      v_above := v_above || sha256('\x01'::bytea || substr(v_hashes, 64 * n + 1, 64));
    end loop;
    v_hashes := v_above;
  end loop;
  return v_hashes;
end $$;

-- The roots of the subtrees of 256^level entries, p_from and the next, one behind the other; level 0 are the leaves.
-- Fewer than asked for where they are not there. It names its search path for the reason the chain's trigger has.
create function evidence_tile(p_account text, p_level integer, p_from bigint, p_width integer) returns bytea
  language plpgsql stable set search_path = pg_catalog, public, pg_temp as $$
declare
  v_hashes bytea;
begin
  if p_level = 0 then
    select string_agg(e.hash, ''::bytea order by e.seq) into v_hashes from evidence e
    where e.account_id = p_account and e.seq >= p_from and e.seq < p_from + p_width;
  else
    select string_agg(s.hash, ''::bytea order by s.index) into v_hashes from evidence_subtrees s
    where s.account_id = p_account and s.level = p_level and s.index >= p_from and s.index < p_from + p_width;
  end if;
  return coalesce(v_hashes, '');
end $$;

-- Refuses a subtree that is not the root of what is stored below it. The right edge is what it was computed from, so
-- a wrong edge goes no further than to the next full 256 entries. Costs one entry in 256 a fifth of a millisecond.
create function evidence_subtree_is_of_entries() returns trigger language plpgsql
  set search_path = pg_catalog, public, pg_temp as $$
declare
  v_added record;
  v_below bytea;
begin
  for v_added in select a.account_id, a.level, a.index, a.hash from added a loop
    v_below := evidence_tile(v_added.account_id, v_added.level - 1, v_added.index * 256, 256);
    if octet_length(v_below) <> 8192 or merkle_fold(v_below) <> v_added.hash then
      raise exception 'evidence refused: subtree % of level % of account % is not the root of what is below it',
        v_added.index, v_added.level, v_added.account_id using errcode = 'integrity_constraint_violation';
    end if;
  end loop;
  return null;
end $$;

create trigger evidence_subtree_check after insert on evidence_subtrees referencing new table as added
  for each statement execute function evidence_subtree_is_of_entries();
create trigger evidence_append_only before update or delete or truncate on evidence_subtrees
  for each statement execute function evidence_is_append_only();
alter table evidence_subtrees enable always trigger evidence_subtree_check;
alter table evidence_subtrees enable always trigger evidence_append_only;

-- Adds the subtrees that an account's entries complete and that are not there, and returns the edge of the first
-- p_size entries: for entries that were written without their tree.
create function evidence_grow_tree(p_account text, p_size bigint) returns bytea language plpgsql
  set search_path = pg_catalog, public, pg_temp as $$
declare
  v_edge bytea := '';
  v_at bigint := 0;
  v_unit bigint := 256;
begin
  for v_level in 1 .. 6 loop
    exit when v_unit > p_size;
    insert into evidence_subtrees (account_id, level, index, hash)
    select p_account, v_level, n, merkle_fold(evidence_tile(p_account, v_level - 1, n * 256, 256))
    from generate_series(coalesce((select max(s.index) + 1 from evidence_subtrees s
      where s.account_id = p_account and s.level = v_level), 0), p_size / v_unit - 1) n;
    v_unit := v_unit * 256;
  end loop;
  for v_bit in reverse 62 .. 0 loop
    continue when p_size & (1::bigint << v_bit) = 0;
    v_edge := v_edge || merkle_fold(
      evidence_tile(p_account, v_bit / 8, v_at >> (v_bit / 8 * 8), 1 << (v_bit % 8)));
    v_at := v_at + (1::bigint << v_bit);
  end loop;
  return v_edge;
end $$;

update account_heads set edge = evidence_grow_tree(account_id, size) where size > 0;

alter table account_heads add constraint account_heads_edge_check check (
  octet_length(edge) = 32 * bit_count(size::bit(64))
  -- The last leaf of a tree of odd size stands alone.
  and (size % 2 = 0 or substr(edge, octet_length(edge) - 31) = hash)
);

-- Tree heads that were signed: what the service has said about an account's evidence, and may never contradict.
create table tree_heads (
  account_id text collate "C" not null references accounts,
  size bigint not null check (size >= 0),
  root bytea not null check (octet_length(root) = 32),
  at text collate "C" not null check (at ~ '^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}[.][0-9]{3}Z$'),
  -- The signed note (C2SP tlog-checkpoint), and the same as an ES256 token.
  checkpoint text not null check (checkpoint <> ''),
  receipt text not null check (receipt <> ''),
  primary key (account_id, size)
);

create trigger tree_heads_append_only before update or delete or truncate on tree_heads
  for each statement execute function evidence_is_append_only();
alter table tree_heads enable always trigger tree_heads_append_only;

-- The Ed25519 key that checkpoints are signed with, sealed under the master key for this very public key.
create table log_keys (
  public_key bytea primary key check (octet_length(public_key) = 32),
  sealed bytea not null,
  created_at timestamptz not null,
  only_row boolean not null default true unique check (only_row)
);

grant select, insert on evidence_subtrees, tree_heads, log_keys to mandate_app;

-- Locks the heads of the accounts (in one order, so that two control planes cannot deadlock), then reads what their
-- asks and outcomes depend on. Volatile: each statement sees what was committed before the lock was granted.
-- Cost: index look-ups per distinct account, instance, tool, receipt, key and token of the batch.
create or replace function decision_facts(
  p_accounts text,
  p_instance_accounts text, p_instances text,
  p_tool_accounts text, p_tool_instances text, p_tool_keys text,
  p_receipt_accounts text, p_receipts text,
  p_key_accounts text, p_key_subjects text, p_keys text,
  p_token_accounts text, p_tokens text,
  out now_ms bigint, out heads json, out instances json, out tools json, out escalations json,
  out reservations json, out answers json, out grants json
) language plpgsql as $$
declare
  v_now timestamptz;
begin
  select json_agg(json_build_array(h.account_id, h.size, encode(h.hash, 'hex'), epoch_ms(h.at), h.revision,
    encode(h.edge, 'hex'))) into heads
  from (
    select * from account_heads where account_id = any (list_of(p_accounts)) order by account_id for no key update
  ) h;
  v_now := db_clock();
  now_ms := epoch_ms(v_now);

  if p_instances <> '' then
    select json_agg(json_build_array(
      i.account_id, i.instance_id, i.status, encode(i.token_hash, 'hex'), i.config_version, i.template_shapes,
      i.unmapped_tools, i.rate_per_second, i.rate_burst, m.mandate_id, m.version, m.status, m.uses,
      k.month, coalesce(u.reserved, 0), coalesce(u.booked, 0), u.month is not null,
      epoch_ms((k.month + interval '1 month') at time zone m.time_zone))) into instances
    from unnest(list_of(p_instance_accounts), list_of(p_instances)) as asked (account_id, instance_id)
    join gateway_instances i on i.account_id = asked.account_id and i.instance_id = asked.instance_id
    join mandates m on m.account_id = i.account_id and m.mandate_id = i.mandate_id
    join account_heads h on h.account_id = asked.account_id
    cross join lateral (
      select date_trunc('month', greatest(v_now, h.at) at time zone m.time_zone)::date as month
    ) k
    left join mandate_months u on u.account_id = m.account_id and u.mandate_id = m.mandate_id and u.month = k.month;

    select json_agg(json_build_array(
      e.account_id, e.escalation_id, e.mandate_id, e.subject_id, e.ctx, e.status,
      epoch_ms(e.created_at), epoch_ms(e.expires_at), epoch_ms(e.closes_at)) order by e.created_at) into escalations
    from unnest(list_of(p_instance_accounts), list_of(p_instances)) as asked (account_id, instance_id)
    join gateway_instances i on i.account_id = asked.account_id and i.instance_id = asked.instance_id
    join escalations e on e.account_id = i.account_id and e.mandate_id = i.mandate_id and e.closes_at > v_now;
  end if;

  if p_tool_keys <> '' then
    select json_agg(json_build_array(t.account_id, t.instance_id, t.key, t.tool_id, t.state, t.version)) into tools
    from unnest(list_of(p_tool_accounts), list_of(p_tool_instances), list_of(p_tool_keys))
      as asked (account_id, instance_id, key)
    join tools t on t.account_id = asked.account_id and t.instance_id = asked.instance_id and t.key = asked.key;
  end if;

  if p_receipts <> '' then
    select json_agg(json_build_array(
      r.account_id, r.receipt_id, r.mandate_id, r.month, r.subject_id, r.amount, r.state,
      encode(r.idempotency_key, 'hex'))) into reservations
    from unnest(list_of(p_receipt_accounts), list_of(p_receipts)) as asked (account_id, receipt_id)
    join reservations r on r.account_id = asked.account_id and r.receipt_id = asked.receipt_id
    where r.path = 'gateway';
  end if;

  if p_keys <> '' then
    select json_agg(json_build_array(
      a.subject_id, encode(a.key_hash, 'hex'), encode(a.request_digest, 'hex'), a.receipt_id, a.state, a.status,
      a.headers, translate(encode(a.body, 'base64'), E'\n', ''), a.account_id)) into answers
    from unnest(list_of(p_key_accounts), list_of(p_key_subjects), list_of(p_keys))
      as asked (account_id, subject_id, key)
    join idempotency_answers a on a.account_id = asked.account_id and a.subject_id = asked.subject_id
      and a.key_hash = decode(asked.key, 'hex') and a.expires_at > v_now;
  end if;

  if p_tokens <> '' then
    select json_agg(json_build_array(
      e.account_id, encode(e.token_hash, 'hex'), e.escalation_id, e.mandate_id, e.subject_id, e.ctx, e.status,
      epoch_ms(e.closes_at), e.decided_by)) into grants
    from unnest(list_of(p_token_accounts), list_of(p_tokens)) as asked (account_id, token)
    join escalations e on e.account_id = asked.account_id and e.token_hash = decode(asked.token, 'hex');
  end if;
end $$;

drop function record_decisions(integer, bigint, text, text, text, text, text, text, text, text, text, text, text, text,
  text, text, integer, integer, text, text, text, text, text, text, text, text, text, text, text, bigint, integer, text,
  text, text, text);

-- Writes a batch: heads and entries of the chains, subtrees that are now complete, months, reservations and their
-- settlements; returns the time.
--
-- What it is told was decided either on facts read under the lock that this transaction holds, or (where a head's
-- revision is given) on facts of an earlier transaction: then the head must still be as that one left it, and the time
-- it was decided at not older than p_fresh_ms. Where anything is not as it was seen to be, nothing is written and the
-- transaction fails: with serialization_failure, it may be decided anew.
create function record_decisions(
  p_heads integer, p_fresh_ms bigint,
  p_head_accounts text, p_head_befores text, p_head_revisions text, p_head_sizes text, p_head_hashes text,
  p_head_ats text, p_head_nows text,
  p_heads_of text, p_seqs text, p_ids text, p_kinds text, p_prevs text, p_hashes text, p_bodies text,
  p_month_count integer, p_months_new integer, p_month_accounts text, p_month_mandates text, p_months text,
  p_reserved text, p_booked text, p_allows text,
  p_hold_months text, p_hold_receipts text, p_hold_subjects text, p_hold_amounts text, p_hold_keys text,
  p_hold_due_ms bigint,
  p_gone integer, p_gone_heads text, p_gone_receipts text, p_unknown_heads text, p_unknown_receipts text,
  p_head_edges text, p_subtree_heads text, p_subtree_levels text, p_subtree_indexes text, p_subtree_hashes text
) returns bigint language plpgsql as $$
declare
  v_time timestamptz := db_clock();
  v_now bigint := epoch_ms(v_time);
  -- Entries and reservations name these by their place, so that they are sent once.
  v_accounts text[] := list_of(p_head_accounts);
  v_nows text[] := list_of(p_head_nows);
  v_month_accounts text[] := list_of(p_month_accounts);
  v_mandates text[] := list_of(p_month_mandates);
  v_months text[] := list_of(p_months);
  v_rows integer;
begin
  update account_heads h set size = n.size::bigint, hash = decode(n.hash, 'hex'), at = ms_time(n.at),
    edge = coalesce(decode(n.edge, 'hex'), '')
  from unnest(v_accounts, list_of(p_head_befores), list_of(p_head_revisions), list_of(p_head_sizes),
    list_of(p_head_hashes), list_of(p_head_ats), list_of(p_head_edges))
    as n (account_id, before, revision, size, hash, at, edge)
  where h.account_id = n.account_id and h.hash = decode(n.before, 'hex')
    and (coalesce(n.revision, '') = ''
      or h.revision = n.revision::bigint and n.at::bigint between v_now - p_fresh_ms and v_now);
  get diagnostics v_rows = row_count;
  if v_rows <> p_heads then
    raise exception 'the facts of an account changed' using errcode = 'serialization_failure';
  end if;

  if p_ids <> '' then
    insert into evidence (account_id, seq, id, kind, at, prev, hash, body)
    select v_accounts[e.head::integer], e.seq::bigint, e.id, e.kind, v_nows[e.head::integer], decode(e.prev, 'hex'),
      decode(e.hash, 'hex'), e.body
    from unnest(list_of(p_heads_of), list_of(p_seqs), list_of(p_ids), list_of(p_kinds), list_of(p_prevs),
      list_of(p_hashes), list_of(p_bodies)) as e (head, seq, id, kind, prev, hash, body);
  end if;

  if p_subtree_hashes <> '' then
    insert into evidence_subtrees (account_id, level, index, hash)
    select v_accounts[s.head::integer], s.level::smallint, s.index::bigint, decode(s.hash, 'hex')
    from unnest(list_of(p_subtree_heads), list_of(p_subtree_levels), list_of(p_subtree_indexes),
      list_of(p_subtree_hashes)) as s (head, level, index, hash);
  end if;

  if p_month_count > 0 then
    if p_months_new > 0 then
      insert into mandate_months (account_id, mandate_id, month, reserved, booked, allows)
      select n.account_id, n.mandate_id, n.month::date, 0, 0, 0
      from unnest(v_month_accounts, v_mandates, v_months) as n (account_id, mandate_id, month)
      on conflict do nothing;
    end if;
    update mandate_months k set reserved = k.reserved + n.reserved::bigint, booked = k.booked + n.booked::bigint,
      allows = k.allows + n.allows::bigint
    from unnest(v_month_accounts, v_mandates, v_months, list_of(p_reserved), list_of(p_booked), list_of(p_allows))
      as n (account_id, mandate_id, month, reserved, booked, allows)
    join mandates m on m.account_id = n.account_id and m.mandate_id = n.mandate_id
    where k.account_id = n.account_id and k.mandate_id = n.mandate_id and k.month = n.month::date
      and (n.reserved::bigint + n.booked::bigint <= 0
        or k.reserved + k.booked + n.reserved::bigint + n.booked::bigint <= m.per_month);
    get diagnostics v_rows = row_count;
    if v_rows <> p_month_count then
      raise exception 'refused: a month is not there, or would hold more than its mandate allows'
        using errcode = 'integrity_constraint_violation';
    end if;
  end if;

  if p_hold_receipts <> '' then
    insert into reservations (account_id, receipt_id, mandate_id, month, path, subject_id, idempotency_key, amount,
      state, reserved_at, due_at)
    select v_month_accounts[n.month::integer], n.receipt_id, v_mandates[n.month::integer],
      v_months[n.month::integer]::date, 'gateway', n.subject_id, decode(nullif(n.key, ''), 'hex'), n.amount::bigint,
      'reserved', v_time, v_time + p_hold_due_ms * interval '1 millisecond'
    from unnest(list_of(p_hold_months), list_of(p_hold_receipts), list_of(p_hold_subjects), list_of(p_hold_amounts),
      list_of(p_hold_keys)) as n (month, receipt_id, subject_id, amount, key);
  end if;

  if p_gone > 0 then
    delete from reservations r
    using unnest(list_of(p_gone_heads), list_of(p_gone_receipts)) as n (head, receipt_id)
    where r.account_id = v_accounts[n.head::integer] and r.receipt_id = n.receipt_id;
    get diagnostics v_rows = row_count;
    if v_rows <> p_gone then
      raise exception 'a reservation that is settled is not there' using errcode = 'serialization_failure';
    end if;
  end if;

  if p_unknown_receipts <> '' then
    update reservations r set state = 'unknown'
    from unnest(list_of(p_unknown_heads), list_of(p_unknown_receipts)) as n (head, receipt_id)
    where r.account_id = v_accounts[n.head::integer] and r.receipt_id = n.receipt_id;
  end if;
  return v_now;
end $$;
