-- What a batch costs: the check of the chain looks at its entries once.

-- The usual statement (one account, one time, decisions and outcomes, each continuing the one before) is found right by
-- one aggregate over its entries. Where anything is otherwise, right or wrong, the checks of each entry decide and say
-- what is wrong, as before.
create or replace function evidence_continues_chain() returns trigger language plpgsql
  set search_path = pg_catalog, public, pg_temp as $$
declare
  v_latest text := rfc3339(db_clock());
  v_all record;
  v_before record;
  v_form text;
  v_wrong record;
begin
  -- The hashes are computed below `offset 0`, so that the bodies are not sorted along.
  select min(a.account_id) as account_id, min(a.at) as at, min(a.id) as id, max(a.body_bytes) as body_bytes,
    min(a.seq) as seq, min(a.account_id) = max(a.account_id) as one_account,
    min(a.at) = max(a.at) and bool_and(a.kind in ('decision', 'outcome')) and min(octet_length(a.id)) = 30
      and max(octet_length(a.id)) = 30 and string_agg(a.id, '') !~ '[^0-9a-z_]' as alike,
    -- Each hash is then 32 bytes long, each `prev` as well, so that both can be compared end to end.
    bool_and(a.hash = a.leaf_hash and octet_length(a.prev) = 32) and max(a.seq) - min(a.seq) = count(*) - 1 as whole,
    string_agg(a.prev, ''::bytea order by a.seq) as prevs, string_agg(a.hash, ''::bytea order by a.seq) as hashes
  into v_all
  from (
    select n.account_id, n.seq, n.id, n.kind, n.at, n.prev, n.hash, octet_length(n.body) as body_bytes,
      evidence_leaf_hash(n.account_id, n.seq, n.id, n.kind, n.at, n.prev, n.body) as leaf_hash
    from added n offset 0
  ) a;
  if not (v_all.one_account and v_all.alike)
    or evidence_form_problem(v_all.account_id, 'decision', v_all.at, v_all.id, v_all.body_bytes) is not null then
    select min(evidence_form_problem(a.account_id, a.kind, a.at, a.id, octet_length(a.body))) into v_form from added a;
    if v_form is not null then
      raise exception 'evidence refused: %', v_form using errcode = 'integrity_constraint_violation';
    end if;
  end if;

  if v_all.one_account then
    -- By these values, not by a join: only the one partition is opened.
    select p.seq, p.hash, p.at into v_before from evidence p
    where p.account_id = v_all.account_id and p.seq = v_all.seq - 1;
    if v_all.seq = 0 then
      select -1::bigint as seq, decode(repeat('00', 32), 'hex') as hash, '' as at into v_before;
    end if;
    if v_all.alike and v_all.whole and v_all.seq = v_before.seq + 1
      and v_all.prevs = v_before.hash || substr(v_all.hashes, 1, octet_length(v_all.hashes) - 32)
      and v_all.at >= v_before.at and v_all.at <= greatest(v_latest, v_before.at) then
      return null;
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
