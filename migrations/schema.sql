-- Generated from the migrations; do not edit.

CREATE OR REPLACE FUNCTION public.assert_unspent(p_accounts text, p_nonces text)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
begin
  if exists (
    select from unnest(list_of(p_accounts), list_of(p_nonces)) as n (account_id, nonce)
    join spent_nonces s on s.account_id = n.account_id and s.nonce_hash = decode(n.nonce, 'hex')
  ) then
    raise exception 'the facts of an account changed' using errcode = 'serialization_failure';
  end if;
end $function$
;

CREATE OR REPLACE FUNCTION public.days_of(p_account text, p_ats text[], p_mandates text[], p_decisions text[], p_codes text[], p_currencies text[], p_amounts bigint[])
 RETURNS TABLE(mandate_id text, day date, decision text, code text, decisions bigint, amount numeric)
 LANGUAGE sql
 STABLE
AS $function$
  select coalesce(n.mandate_id, ''), (n.at::timestamptz at time zone coalesce(m.time_zone, 'UTC'))::date, n.decision,
    coalesce(n.code, ''), count(*), coalesce(sum(n.amount) filter (where n.currency = m.currency), 0)
  from unnest(p_ats, p_mandates, p_decisions, p_codes, p_currencies, p_amounts)
    as n (at, mandate_id, decision, code, currency, amount)
  left join mandates m on m.account_id = p_account and m.mandate_id = n.mandate_id
  group by 1, 2, 3, 4
$function$
;

CREATE OR REPLACE FUNCTION public.db_clock()
 RETURNS timestamp with time zone
 LANGUAGE sql
 PARALLEL SAFE
AS $function$ select date_trunc('milliseconds', clock_timestamp()) $function$
;

CREATE OR REPLACE FUNCTION public.decision_facts(p_accounts text, p_instance_accounts text, p_instances text, p_tool_accounts text, p_tool_instances text, p_tool_keys text, p_receipt_accounts text, p_receipts text, p_key_accounts text, p_key_subjects text, p_keys text, p_token_accounts text, p_tokens text, OUT now_ms bigint, OUT heads json, OUT instances json, OUT tools json, OUT escalations json, OUT reservations json, OUT answers json, OUT grants json)
 RETURNS record
 LANGUAGE plpgsql
AS $function$
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
end $function$
;

CREATE OR REPLACE FUNCTION public.epoch_ms(at timestamp with time zone)
 RETURNS bigint
 LANGUAGE sql
 STABLE PARALLEL SAFE
AS $function$ select (extract(epoch from at) * 1000)::bigint $function$
;

CREATE OR REPLACE FUNCTION public.escalation_notified()
 RETURNS trigger
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'public', 'pg_temp'
AS $function$
begin
  perform record_notification(new.account_id,
    'escalation.' || case new.status when 'pending' then 'created' else new.status end, new.escalation_id,
    jsonb_build_object('escalation_id', new.escalation_id, 'mandate_id', new.mandate_id, 'subject_id', new.subject_id,
      'receipt_id', new.receipt_id, 'action', new.action, 'method', new.request -> 'method',
      'path', new.request -> 'path', 'tool', new.request -> 'tool', 'created_at', epoch_ms(new.created_at),
      'expires_at', epoch_ms(new.expires_at), 'decided_at', epoch_ms(new.decided_at), 'reason', new.reason));
  return null;
end $function$
;

CREATE OR REPLACE FUNCTION public.evidence_chain_problem(seq bigint, prev bytea, at text, hash bytea, leaf_hash bytea, before_seq bigint, before_hash bytea, before_at text, latest text)
 RETURNS text
 LANGUAGE sql
 IMMUTABLE
AS $function$
  select case
    when seq is distinct from before_seq + 1 then 'seq does not continue the chain'
    when prev is distinct from before_hash then 'prev is not the hash of the entry before'
    when at < before_at then 'time goes back'
    -- A clock that was set back does not stop an account: its time then stands still until the clock is back.
    when at > greatest(latest, before_at) then 'time is ahead of the database clock'
    when hash is distinct from leaf_hash then 'hash is not the hash of the entry'
  end
$function$
;

CREATE OR REPLACE FUNCTION public.evidence_continues_chain()
 RETURNS trigger
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'public', 'pg_temp'
AS $function$
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
end $function$
;

CREATE OR REPLACE FUNCTION public.evidence_form_problem(account_id text, kind text, at text, id text, body_bytes integer)
 RETURNS text
 LANGUAGE sql
 STABLE
AS $function$
  select case
    when account_id !~ '^acc_[0-9a-z]{26}$' then 'account is not an identifier'
    when kind !~ '^[a-z_]+([.][a-z_]+)*$' then 'kind is not a dotted name'
    when at !~ '^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}[.][0-9]{3}Z$' or rfc3339(at::timestamptz) <> at
      then 'at is not a canonical time'
    when id !~ '^[0-9a-z_]{30}$' then 'id is not an identifier'
    when body_bytes > 65536 then 'body is longer than 65536 bytes'
  end
$function$
;

CREATE OR REPLACE FUNCTION public.evidence_grow_tree(p_account text, p_size bigint)
 RETURNS bytea
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'public', 'pg_temp'
AS $function$
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
end $function$
;

CREATE OR REPLACE FUNCTION public.evidence_is_append_only()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
  raise exception 'evidence is append-only: % refused', tg_op using errcode = 'integrity_constraint_violation';
end $function$
;

CREATE OR REPLACE FUNCTION public.evidence_leaf_hash(account_id text, seq bigint, id text, kind text, at text, prev bytea, body text)
 RETURNS bytea
 LANGUAGE sql
 STABLE PARALLEL SAFE
AS $function$
  select sha256('\x00'::bytea || convert_to(
    '{"account":"' || account_id || '","at":"' || at || '","body":' || body || ',"id":"' || id || '","kind":"' || kind
    || '","prev":"' || encode(prev, 'hex') || '","seq":' || seq::text || '}', 'UTF8'))
$function$
;

CREATE OR REPLACE FUNCTION public.evidence_subject(body text)
 RETURNS text
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE
 SET search_path TO 'pg_catalog'
AS $function$
  select coalesce(
    substring(body from '"escalation_id":"(esc_[0-9a-z]{26})"'),
    substring(body from '"receipt_id":"(rcp_[0-9a-z]{26})"'),
    substring(body from '"mandate_id":"(mdt_[0-9a-z]{26})"'))
$function$
;

CREATE OR REPLACE FUNCTION public.evidence_subtree_is_of_entries()
 RETURNS trigger
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'public', 'pg_temp'
AS $function$
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
end $function$
;

CREATE OR REPLACE FUNCTION public.evidence_tile(p_account text, p_level integer, p_from bigint, p_width integer)
 RETURNS bytea
 LANGUAGE plpgsql
 STABLE
 SET search_path TO 'pg_catalog', 'public', 'pg_temp'
AS $function$
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
end $function$
;

CREATE OR REPLACE FUNCTION public.facts_changed()
 RETURNS trigger
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'public', 'pg_temp'
AS $function$
begin
  update account_heads set revision = revision + 1 where account_id in (select c.account_id from changed c);
  return null;
end $function$
;

CREATE OR REPLACE FUNCTION public.keep_mandate_version()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'public', 'pg_temp'
AS $function$
begin
  insert into mandate_versions (account_id, mandate_id, version, scope, currency, per_action, per_month,
    escalation_threshold, counterparties, agent_did, time_zone, valid_until, max_uses, digest, effective_at)
  values (new.account_id, new.mandate_id, new.version, new.scope, new.currency, new.per_action, new.per_month,
    new.escalation_threshold, new.counterparties, new.agent_did, new.time_zone, new.valid_until, new.max_uses,
    new.digest, new.changed_at);
  return null;
end $function$
;

CREATE OR REPLACE FUNCTION public.limit_changed()
 RETURNS trigger
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'public', 'pg_temp'
AS $function$
declare
  v_month date := date_trunc('month', db_clock() at time zone new.time_zone)::date;
  v_used bigint;
  v_level record;
begin
  select k.reserved + k.booked into v_used from mandate_months k
  where k.account_id = new.account_id and k.mandate_id = new.mandate_id and k.month = v_month;
  for v_level in
    select x.type, x.percent from (values ('limit.warning', 80, new.per_month - new.per_month / 5),
      ('limit.reached', 100, new.per_month)) as x (type, percent, minor)
    where new.per_month > 0 and v_used >= x.minor
  loop
    perform record_notification(new.account_id, v_level.type, new.mandate_id || to_char(v_month, ' YYYY-MM-DD'),
      jsonb_build_object('mandate_id', new.mandate_id, 'month', v_month, 'percent', v_level.percent, 'used', v_used,
        'limit', new.per_month, 'currency', new.currency));
  end loop;
  return null;
end $function$
;

CREATE OR REPLACE FUNCTION public.list_of(joined text)
 RETURNS text[]
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE
AS $function$ select string_to_array(joined, E'\x1f') $function$
;

CREATE OR REPLACE FUNCTION public.mandate_notified()
 RETURNS trigger
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'public', 'pg_temp'
AS $function$
declare
  v_from text;
begin
  if tg_op = 'UPDATE' then
    v_from := old.status;
  end if;
  perform record_notification(new.account_id,
    'mandate.' || case when new.status <> 'active' then new.status when v_from = 'suspended' then 'resumed'
      else 'activated' end, null,
    jsonb_build_object('mandate_id', new.mandate_id, 'version', new.version, 'from', v_from, 'to', new.status));
  return null;
end $function$
;

CREATE OR REPLACE FUNCTION public.merkle_fold(p_hashes bytea)
 RETURNS bytea
 LANGUAGE plpgsql
 IMMUTABLE PARALLEL SAFE
 SET search_path TO 'pg_catalog'
AS $function$
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
end $function$
;

CREATE OR REPLACE FUNCTION public.ms_time(ms text)
 RETURNS timestamp with time zone
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE
AS $function$ select to_timestamp(ms::double precision / 1000) $function$
;

CREATE OR REPLACE FUNCTION public.new_type_id(p_prefix text, p_at timestamp with time zone)
 RETURNS text
 LANGUAGE sql
 PARALLEL SAFE
 SET search_path TO 'pg_catalog', 'public', 'pg_temp'
AS $function$
  select p_prefix || '_' || string_agg(substr('0123456789abcdefghjkmnpqrstvwxyz',
    substring(b.bits from i * 5 + 1 for 5)::integer + 1, 1), '' order by i)
  from (
    select b'00' || ('x' || lpad(to_hex(epoch_ms(p_at)), 12, '0') || '7'
      || substr(replace(gen_random_uuid()::text, '-', ''), 14))::bit(128) as bits
  ) b cross join generate_series(0, 25) as i
$function$
;

CREATE OR REPLACE FUNCTION public.open_sandbox(p_account_id text)
 RETURNS text
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'public', 'pg_temp'
AS $function$
declare
  v_account_id text;
begin
  -- Control planes that start together: the second one waits, and then finds what the first one made.
  lock table sandbox in share row exclusive mode;
  select s.account_id into v_account_id from sandbox s;
  if v_account_id is not null then
    return v_account_id;
  end if;
  insert into accounts (account_id, email, password_hash, totp_sealed, created_at)
  values (p_account_id, p_account_id || '@sandbox.invalid', '!', '', db_clock());
  insert into account_heads (account_id, at) values (p_account_id, db_clock());
  insert into sandbox (account_id, created_at) values (p_account_id, db_clock());
  return p_account_id;
end $function$
;

CREATE OR REPLACE FUNCTION public.outcomes_notified()
 RETURNS trigger
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'public', 'pg_temp'
AS $function$
declare
  v_lost record;
begin
  for v_lost in
    select n.account_id, n.mandate_id, n.subject_id, count(*) as count, sum(n.amount)::bigint as amount,
      (array_agg(n.receipt_id order by n.receipt_id))[1:20] as receipts
    from changed n join before o on o.account_id = n.account_id and o.receipt_id = n.receipt_id
    where n.state = 'unknown' and o.state <> 'unknown'
    group by n.account_id, n.mandate_id, n.subject_id
  loop
    perform record_notification(v_lost.account_id, 'outcome.unknown', null,
      jsonb_build_object('mandate_id', v_lost.mandate_id, 'subject_id', v_lost.subject_id, 'count', v_lost.count,
        'amount', v_lost.amount, 'receipts', to_jsonb(v_lost.receipts)));
  end loop;
  return null;
end $function$
;

CREATE OR REPLACE FUNCTION public.record_and_authorise(integer, bigint, text, text, text, text, text, text, text, text, text, text, text, text, text, text, integer, integer, text, text, text, text, text, text, text, text, text, text, text, bigint, integer, text, text, text, text, text, text, text, text, text, text, text, text, text, text, text, text, text, text, text, text, text, text, bigint, bigint)
 RETURNS bigint
 LANGUAGE plpgsql
AS $function$
declare
  v_now bigint;
begin
  v_now := record_decisions(
    $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24,
    $25, $26, $27, $28, $29, $30, $31, $32, $33, $34, $35, $36, $37, $38, $39, $40);
  perform record_authorisations(
    $41, $42, $43, $44, $45, $46, $47, $48, $49, $50, $51, $52, $53, $54, $55);
  return v_now;
end $function$
;

CREATE OR REPLACE FUNCTION public.record_authorisations(p_accounts text, p_receipts text, p_tokens text, p_mandates text, p_months text, p_keys text, p_amounts text, p_currencies text, p_types text, p_counterparties text, p_ctxs text, p_nonces text, p_nonce_ends text, p_now_ms bigint, p_due_ms bigint)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
begin
  insert into spent_nonces (account_id, nonce_hash, expires_at)
  select n.account_id, decode(n.nonce, 'hex'), ms_time(n.ends)
  from unnest(list_of(p_accounts), list_of(p_nonces), list_of(p_nonce_ends)) as n (account_id, nonce, ends);

  insert into authorisations (account_id, receipt_id, token_hash, mandate_id, month, key_id, amount, currency,
    action_type, counterparty, ctx, state, reserved_at, due_at)
  select n.account_id, n.receipt_id, decode(n.token, 'hex'), n.mandate_id, n.month::date, n.key_id, n.amount::bigint,
    n.currency, n.action_type, nullif(n.counterparty, ''), nullif(n.ctx, ''), 'reserved', ms_time(p_now_ms::text),
    ms_time((p_now_ms + p_due_ms)::text)
  from unnest(list_of(p_accounts), list_of(p_receipts), list_of(p_tokens), list_of(p_mandates), list_of(p_months),
    list_of(p_keys), list_of(p_amounts), list_of(p_currencies), list_of(p_types), list_of(p_counterparties),
    list_of(p_ctxs)) as n (account_id, receipt_id, token, mandate_id, month, key_id, amount, currency, action_type,
    counterparty, ctx);
end $function$
;

CREATE OR REPLACE FUNCTION public.record_decisions(p_heads integer, p_fresh_ms bigint, p_head_accounts text, p_head_befores text, p_head_revisions text, p_head_sizes text, p_head_hashes text, p_head_ats text, p_head_nows text, p_heads_of text, p_seqs text, p_ids text, p_kinds text, p_prevs text, p_hashes text, p_bodies text, p_month_count integer, p_months_new integer, p_month_accounts text, p_month_mandates text, p_months text, p_reserved text, p_booked text, p_allows text, p_hold_months text, p_hold_receipts text, p_hold_subjects text, p_hold_amounts text, p_hold_keys text, p_hold_due_ms bigint, p_gone integer, p_gone_heads text, p_gone_receipts text, p_unknown_heads text, p_unknown_receipts text, p_head_edges text, p_subtree_heads text, p_subtree_levels text, p_subtree_indexes text, p_subtree_hashes text)
 RETURNS bigint
 LANGUAGE plpgsql
AS $function$
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
end $function$
;

CREATE OR REPLACE FUNCTION public.record_notification(p_account_id text, p_type text, p_once text, p_facts jsonb)
 RETURNS void
 LANGUAGE sql
 SET search_path TO 'pg_catalog', 'public', 'pg_temp'
AS $function$
  insert into notification_events (account_id, event_id, type, at, once, facts)
  select p_account_id, new_type_id('evt', t.at), p_type, t.at, p_once, p_facts
  from (select db_clock() as at) t
  where not exists (select from sandbox s where s.account_id = p_account_id)
  on conflict do nothing
$function$
;

CREATE OR REPLACE FUNCTION public.rfc3339(moment timestamp with time zone)
 RETURNS text
 LANGUAGE sql
 STABLE PARALLEL SAFE
AS $function$ select to_char(moment at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') $function$
;

CREATE OR REPLACE FUNCTION public.sweep_sandbox(p_limit integer)
 RETURNS integer
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'public', 'pg_temp'
AS $function$
declare
  v_account_id text;
  v_ended text[];
begin
  select s.account_id into v_account_id from sandbox s;
  if v_account_id is null then
    return 0;
  end if;
  perform from account_heads h where h.account_id = v_account_id for no key update;

  delete from agent_keys k using sandbox_mandates s, mandates m
  where k.account_id = v_account_id and s.account_id = v_account_id and m.account_id = v_account_id
    and s.mandate_id = k.mandate_id and m.mandate_id = k.mandate_id
    and m.valid_until <= db_clock() - interval '1 hour';

  select coalesce(array_agg(x.mandate_id), '{}') into v_ended from (
    select m.mandate_id from sandbox_mandates s
    join mandates m on m.account_id = s.account_id and m.mandate_id = s.mandate_id
    where s.account_id = v_account_id and m.status in ('expired', 'consumed', 'revoked')
      and m.valid_until <= db_clock() - interval '1 day'
    order by m.valid_until limit p_limit
  ) x;
  -- What the job has not booked yet keeps its mandate until it has.
  v_ended := array(
    select e.mandate_id from unnest(v_ended) as e (mandate_id)
    except
    select a.mandate_id from authorisations a
    where a.account_id = v_account_id and a.mandate_id = any (v_ended) and a.state = 'reserved');
  if cardinality(v_ended) = 0 then
    return 0;
  end if;

  delete from executions e using authorisations a
  where e.account_id = v_account_id and a.account_id = v_account_id and a.receipt_id = e.receipt_id
    and a.mandate_id = any (v_ended);
  delete from authorisations where account_id = v_account_id and mandate_id = any (v_ended);
  delete from escalations where account_id = v_account_id and mandate_id = any (v_ended);
  delete from mandate_months where account_id = v_account_id and mandate_id = any (v_ended);
  delete from sandbox_mandates where account_id = v_account_id and mandate_id = any (v_ended);
  delete from mandates where account_id = v_account_id and mandate_id = any (v_ended);
  return cardinality(v_ended);
end $function$
;

CREATE OR REPLACE FUNCTION public.verify_facts(p_now_ms bigint, p_key_accounts text, p_keys text, p_mandate_accounts text, p_mandates text, p_nonce_accounts text, p_nonces text, p_token_accounts text, p_tokens text, OUT keys json, OUT mandates json, OUT escalations json, OUT nonces json, OUT authorisations json, OUT executions json)
 RETURNS record
 LANGUAGE plpgsql
AS $function$
declare
  v_now timestamptz := ms_time(p_now_ms::text);
begin
  if p_keys <> '' then
    select json_agg(json_build_array(
      k.account_id, k.key_id, encode(k.token_hash, 'hex'), k.scopes, k.status, k.verify_per_second, k.verify_burst))
      into keys
    from unnest(list_of(p_key_accounts), list_of(p_keys)) as asked (account_id, key_id)
    join api_keys k on k.account_id = asked.account_id and k.key_id = asked.key_id;
  end if;

  if p_mandates <> '' then
    select json_agg(json_build_array(
      m.account_id, m.mandate_id, m.version, m.status, m.uses,
      k.month, coalesce(u.reserved, 0), coalesce(u.booked, 0), u.month is not null,
      epoch_ms((k.month + interval '1 month') at time zone m.time_zone))) into mandates
    from unnest(list_of(p_mandate_accounts), list_of(p_mandates)) as asked (account_id, mandate_id)
    join mandates m on m.account_id = asked.account_id and m.mandate_id = asked.mandate_id
    join account_heads h on h.account_id = asked.account_id
    cross join lateral (
      select date_trunc('month', greatest(v_now, h.at) at time zone m.time_zone)::date as month
    ) k
    left join mandate_months u on u.account_id = m.account_id and u.mandate_id = m.mandate_id and u.month = k.month;

    select json_agg(json_build_array(
      e.account_id, e.escalation_id, e.mandate_id, e.subject_id, e.ctx, e.status,
      epoch_ms(e.created_at), epoch_ms(e.expires_at), epoch_ms(e.closes_at)) order by e.created_at) into escalations
    from unnest(list_of(p_mandate_accounts), list_of(p_mandates)) as asked (account_id, mandate_id)
    join escalations e
      on e.account_id = asked.account_id and e.mandate_id = asked.mandate_id and e.closes_at > v_now;
  end if;

  if p_nonces <> '' then
    select json_agg(json_build_array(n.account_id, encode(n.nonce_hash, 'hex'))) into nonces
    from unnest(list_of(p_nonce_accounts), list_of(p_nonces)) as asked (account_id, nonce)
    join spent_nonces n on n.account_id = asked.account_id and n.nonce_hash = decode(asked.nonce, 'hex');
  end if;

  if p_tokens <> '' then
    select json_agg(json_build_array(
      a.account_id, encode(a.token_hash, 'hex'), a.receipt_id, a.mandate_id, a.month, a.key_id, a.amount, a.currency,
      a.action_type, a.counterparty, a.ctx, a.state, a.booked, encode(a.consumption_digest, 'hex'),
      a.consumption_answer, u.reserved, u.booked, m.per_month)) into authorisations
    from unnest(list_of(p_token_accounts), list_of(p_tokens)) as asked (account_id, token)
    join authorisations a on a.account_id = asked.account_id and a.token_hash = decode(asked.token, 'hex')
    join mandate_months u on u.account_id = a.account_id and u.mandate_id = a.mandate_id and u.month = a.month
    join mandates m on m.account_id = a.account_id and m.mandate_id = a.mandate_id;

    select json_agg(json_build_array(
      a.account_id, encode(a.token_hash, 'hex'), e.outcome, encode(e.request_digest, 'hex'), e.answer)
      order by e.execution_id) into executions
    from unnest(list_of(p_token_accounts), list_of(p_tokens)) as asked (account_id, token)
    join authorisations a on a.account_id = asked.account_id and a.token_hash = decode(asked.token, 'hex')
    join executions e on e.account_id = a.account_id and e.receipt_id = a.receipt_id;
  end if;
end $function$
;

create table public.account_heads (
  account_id text collate "C" not null,
  size bigint default 0 not null,
  hash bytea default decode(repeat('00'::text, 32), 'hex'::text) not null,
  at timestamp with time zone not null,
  revision bigint default 0 not null,
  edge bytea default '\x'::bytea not null,
  constraint account_heads_edge_check CHECK (((octet_length(edge) = (32 * bit_count((size)::bit(64)))) AND (((size % (2)::bigint) = 0) OR (substr(edge, (octet_length(edge) - 31)) = hash)))),
  constraint account_heads_hash_check CHECK ((octet_length(hash) = 32)),
  constraint account_heads_size_check CHECK ((size >= 0)),
  constraint account_heads_account_id_fkey FOREIGN KEY (account_id) REFERENCES public.accounts(account_id),
  constraint account_heads_pkey PRIMARY KEY (account_id)
);

create table public.accounts (
  account_id text collate "C" not null,
  email text not null,
  password_hash text not null,
  totp_sealed bytea not null,
  totp_last_step bigint default 0 not null,
  second_factor_at timestamp with time zone,
  failed_attempts integer default 0 not null,
  locked_until timestamp with time zone,
  created_at timestamp with time zone not null,
  session_failed_attempts integer default 0 not null,
  session_locked_until timestamp with time zone,
  constraint accounts_account_id_check CHECK ((account_id ~ '^acc_[0-9a-hjkmnp-tv-z]{26}$'::text)),
  constraint accounts_email_check CHECK (((email = lower(email)) AND ((length(email) >= 3) AND (length(email) <= 254)))),
  constraint accounts_failed_attempts_check CHECK ((failed_attempts >= 0)),
  constraint accounts_session_failed_attempts_check CHECK ((session_failed_attempts >= 0)),
  constraint accounts_pkey PRIMARY KEY (account_id),
  constraint accounts_email_key UNIQUE (email)
);

create table public.agent_keys (
  account_id text collate "C" not null,
  mandate_id text collate "C" not null,
  did text not null,
  sealed bytea not null,
  created_at timestamp with time zone not null,
  constraint agent_keys_did_check CHECK ((did ~ '^did:key:z6Mk[1-9A-HJ-NP-Za-km-z]{44}$'::text)),
  constraint agent_keys_account_id_mandate_id_fkey FOREIGN KEY (account_id, mandate_id) REFERENCES public.mandates(account_id, mandate_id),
  constraint agent_keys_pkey PRIMARY KEY (account_id, mandate_id)
);

create table public.api_key_uses (
  account_id text collate "C" not null,
  key_id text collate "C" not null,
  last_used_at timestamp with time zone not null,
  constraint api_key_uses_account_id_key_id_fkey FOREIGN KEY (account_id, key_id) REFERENCES public.api_keys(account_id, key_id),
  constraint api_key_uses_pkey PRIMARY KEY (account_id, key_id)
) with (fillfactor=70);

create table public.api_keys (
  account_id text collate "C" not null,
  key_id text collate "C" not null,
  name text not null,
  token_hash bytea not null,
  scopes text[] not null,
  status text not null,
  verify_per_second integer default 100 not null,
  verify_burst integer default 500 not null,
  management_per_second integer default 10 not null,
  management_burst integer default 20 not null,
  created_at timestamp with time zone not null,
  revoked_at timestamp with time zone,
  constraint api_keys_check CHECK (((status = 'revoked'::text) = (revoked_at IS NOT NULL))),
  constraint api_keys_key_id_check CHECK ((key_id ~ '^key_[0-9a-z]{26}$'::text)),
  constraint api_keys_management_burst_check CHECK (((management_burst >= 1) AND (management_burst <= 1000000))),
  constraint api_keys_management_per_second_check CHECK (((management_per_second >= 1) AND (management_per_second <= 1000000))),
  constraint api_keys_name_check CHECK (((length(name) >= 1) AND (length(name) <= 200))),
  constraint api_keys_scopes_check CHECK ((((cardinality(scopes) >= 1) AND (cardinality(scopes) <= 6)) AND (scopes <@ ARRAY['agents:present'::text, 'verify'::text, 'consumptions:write'::text, 'executions:write'::text, 'mandates:read'::text, 'evidence:read'::text]))),
  constraint api_keys_status_check CHECK ((status = ANY (ARRAY['active'::text, 'revoked'::text]))),
  constraint api_keys_token_hash_check CHECK ((octet_length(token_hash) = 32)),
  constraint api_keys_verify_burst_check CHECK (((verify_burst >= 1) AND (verify_burst <= 1000000))),
  constraint api_keys_verify_per_second_check CHECK (((verify_per_second >= 1) AND (verify_per_second <= 1000000))),
  constraint api_keys_account_id_fkey FOREIGN KEY (account_id) REFERENCES public.accounts(account_id),
  constraint api_keys_pkey PRIMARY KEY (account_id, key_id)
);

create table public.authorisations (
  account_id text collate "C" not null,
  receipt_id text collate "C" not null,
  token_hash bytea not null,
  mandate_id text collate "C" not null,
  month date not null,
  key_id text collate "C" not null,
  amount bigint not null,
  currency character(3) not null,
  action_type text not null,
  counterparty text,
  ctx text,
  state text not null,
  booked bigint default 0 not null,
  consumption_digest bytea,
  consumption_answer text,
  reserved_at timestamp with time zone not null,
  due_at timestamp with time zone not null,
  constraint authorisations_action_type_check CHECK ((length(action_type) <= 128)),
  constraint authorisations_amount_check CHECK (((amount >= 0) AND (amount <= '1000000000000000'::bigint))),
  constraint authorisations_check CHECK (((booked >= 0) AND (booked <= amount))),
  constraint authorisations_check1 CHECK (((state = 'booked'::text) = (consumption_digest IS NOT NULL))),
  constraint authorisations_check2 CHECK (((consumption_digest IS NULL) = (consumption_answer IS NULL))),
  constraint authorisations_check3 CHECK (((state <> 'final'::text) OR (booked = amount))),
  constraint authorisations_check4 CHECK (((state = 'booked'::text) OR (state = 'final'::text) OR (booked = 0))),
  constraint authorisations_consumption_answer_check CHECK ((length(consumption_answer) <= 4096)),
  constraint authorisations_consumption_digest_check CHECK ((octet_length(consumption_digest) = 32)),
  constraint authorisations_counterparty_check CHECK ((length(counterparty) <= 256)),
  constraint authorisations_ctx_check CHECK (((length(ctx) = 72) AND starts_with(ctx, 'sha-256:'::text) AND (substr(ctx, 9) !~ '[^0-9a-f]'::text))),
  constraint authorisations_currency_check CHECK (((length(currency) = 3) AND (currency !~ '[^A-Z]'::text))),
  constraint authorisations_month_check CHECK ((date_part('day'::text, month) = (1)::double precision)),
  constraint authorisations_receipt_id_check CHECK (((length(receipt_id) = 30) AND (receipt_id ~ '^rcp_[0-9a-z]*$'::text))),
  constraint authorisations_state_check CHECK ((state = ANY (ARRAY['reserved'::text, 'booked'::text, 'released'::text, 'final'::text]))),
  constraint authorisations_token_hash_check CHECK ((octet_length(token_hash) = 32)),
  constraint authorisations_pkey PRIMARY KEY (account_id, receipt_id),
  constraint authorisations_account_id_token_hash_key UNIQUE (account_id, token_hash)
);

create table public.cosignatures (
  account_id text collate "C" not null,
  size bigint not null,
  witness text not null,
  key_id bytea not null,
  root bytea not null,
  line text not null,
  cosigned_at timestamp with time zone not null,
  stored_at timestamp with time zone not null,
  constraint cosignatures_key_id_check CHECK ((octet_length(key_id) = 4)),
  constraint cosignatures_line_check CHECK (((line ~ '^— [^ 
]+ [A-Za-z0-9+/=]+
$'::text) AND (length(line) <= 1000))),
  constraint cosignatures_root_check CHECK ((octet_length(root) = 32)),
  constraint cosignatures_size_check CHECK ((size > 0)),
  constraint cosignatures_witness_check CHECK (((length(witness) >= 1) AND (length(witness) <= 200))),
  constraint cosignatures_account_id_fkey FOREIGN KEY (account_id) REFERENCES public.accounts(account_id),
  constraint cosignatures_pkey PRIMARY KEY (account_id, size, witness)
);

create table public.decision_days (
  account_id text collate "C" not null,
  mandate_id text collate "C" not null,
  day date not null,
  decision text collate "C" not null,
  code text collate "C" not null,
  decisions bigint not null,
  amount numeric(40,0) not null,
  constraint decision_days_amount_check CHECK ((amount >= (0)::numeric)),
  constraint decision_days_decision_check CHECK ((decision = ANY (ARRAY['allow'::text, 'deny'::text, 'escalate'::text]))),
  constraint decision_days_decisions_check CHECK ((decisions >= 0)),
  constraint decision_days_pkey PRIMARY KEY (account_id, mandate_id, day, decision, code)
);

create table public.decision_positions (
  account_id text collate "C" not null,
  next_seq bigint default 0 not null,
  constraint decision_positions_next_seq_check CHECK ((next_seq >= 0)),
  constraint decision_positions_account_id_fkey FOREIGN KEY (account_id) REFERENCES public.accounts(account_id),
  constraint decision_positions_pkey PRIMARY KEY (account_id)
);

create table public.decision_search (
  account_id text collate "C" not null,
  seq bigint not null,
  at timestamp with time zone not null,
  subject_id text collate "C" not null,
  mandate_id text collate "C",
  agent text collate "C",
  decision text collate "C" not null,
  code text collate "C",
  currency character(3),
  amount bigint,
  constraint decision_search_decision_check CHECK ((decision = ANY (ARRAY['allow'::text, 'deny'::text, 'escalate'::text]))),
  constraint decision_search_pkey PRIMARY KEY (account_id, seq)
);

create table public.escalations (
  account_id text collate "C" not null,
  escalation_id text collate "C" not null,
  mandate_id text collate "C" not null,
  subject_id text collate "C" not null,
  ctx text not null,
  status text not null,
  action jsonb not null,
  request jsonb,
  request_body bytea,
  receipt_id text collate "C" not null,
  created_at timestamp with time zone not null,
  expires_at timestamp with time zone not null,
  closes_at timestamp with time zone not null,
  decided_at timestamp with time zone,
  decided_by text,
  reason text,
  token_hash bytea,
  used_at timestamp with time zone,
  constraint escalations_check CHECK (((status <> ALL (ARRAY['approved'::text, 'used'::text])) OR (token_hash IS NOT NULL))),
  constraint escalations_check1 CHECK (((status = 'used'::text) = (used_at IS NOT NULL))),
  constraint escalations_escalation_id_check CHECK ((escalation_id ~ '^esc_[0-9a-z]{26}$'::text)),
  constraint escalations_reason_check CHECK ((length(reason) <= 500)),
  constraint escalations_request_body_check CHECK ((octet_length(request_body) <= 65536)),
  constraint escalations_status_check CHECK ((status = ANY (ARRAY['pending'::text, 'approved'::text, 'rejected'::text, 'expired'::text, 'used'::text]))),
  constraint escalations_token_hash_check CHECK ((octet_length(token_hash) = 32)),
  constraint escalations_pkey PRIMARY KEY (account_id, escalation_id)
);

create table public.evidence (
  account_id text collate "C" not null,
  seq bigint not null,
  id text collate "C" not null,
  kind text collate "C" not null,
  at text collate "C" not null,
  prev bytea not null,
  hash bytea not null,
  body text not null,
  constraint evidence_pkey PRIMARY KEY (account_id, seq)
) partition by HASH (account_id);

create table public.evidence_p0 partition of public.evidence FOR VALUES WITH (modulus 8, remainder 0);

create table public.evidence_p1 partition of public.evidence FOR VALUES WITH (modulus 8, remainder 1);

create table public.evidence_p2 partition of public.evidence FOR VALUES WITH (modulus 8, remainder 2);

create table public.evidence_p3 partition of public.evidence FOR VALUES WITH (modulus 8, remainder 3);

create table public.evidence_p4 partition of public.evidence FOR VALUES WITH (modulus 8, remainder 4);

create table public.evidence_p5 partition of public.evidence FOR VALUES WITH (modulus 8, remainder 5);

create table public.evidence_p6 partition of public.evidence FOR VALUES WITH (modulus 8, remainder 6);

create table public.evidence_p7 partition of public.evidence FOR VALUES WITH (modulus 8, remainder 7);

create table public.evidence_subtrees (
  account_id text collate "C" not null,
  level smallint not null,
  index bigint not null,
  hash bytea not null,
  constraint evidence_subtrees_hash_check CHECK ((octet_length(hash) = 32)),
  constraint evidence_subtrees_index_check CHECK ((index >= 0)),
  constraint evidence_subtrees_level_check CHECK (((level >= 1) AND (level <= 6))),
  constraint evidence_subtrees_pkey PRIMARY KEY (account_id, level, index)
);

create table public.executions (
  account_id text collate "C" not null,
  execution_id text collate "C" not null,
  receipt_id text collate "C" not null,
  outcome text not null,
  request_digest bytea not null,
  answer text not null,
  reported_at timestamp with time zone not null,
  constraint executions_answer_check CHECK ((length(answer) <= 4096)),
  constraint executions_execution_id_check CHECK ((execution_id ~ '^exe_[0-9a-z]{26}$'::text)),
  constraint executions_outcome_check CHECK ((outcome = ANY (ARRAY['erfolgreich'::text, 'fehlgeschlagen'::text, 'teilweise'::text, 'abgebrochen'::text]))),
  constraint executions_request_digest_check CHECK ((octet_length(request_digest) = 32)),
  constraint executions_account_id_receipt_id_fkey FOREIGN KEY (account_id, receipt_id) REFERENCES public.authorisations(account_id, receipt_id),
  constraint executions_pkey PRIMARY KEY (account_id, receipt_id, execution_id)
);

create table public.gateway_instances (
  account_id text collate "C" not null,
  instance_id text collate "C" not null,
  mandate_id text collate "C" not null,
  name text not null,
  status text not null,
  target_url text not null,
  token_hash bytea not null,
  credential_header text,
  credential_sealed bytea,
  config_version integer default 1 not null,
  tools_version integer default 1 not null,
  template_shapes text[] default '{}'::text[] not null,
  unmapped_tools integer default 0 not null,
  rate_per_second integer default 100 not null,
  rate_burst integer default 500 not null,
  created_at timestamp with time zone not null,
  changed_at timestamp with time zone not null,
  constraint gateway_instances_check CHECK (((credential_header IS NULL) = (credential_sealed IS NULL))),
  constraint gateway_instances_instance_id_check CHECK ((instance_id ~ '^gwi_[0-9a-z]{26}$'::text)),
  constraint gateway_instances_name_check CHECK (((length(name) >= 1) AND (length(name) <= 200))),
  constraint gateway_instances_rate_burst_check CHECK (((rate_burst >= 1) AND (rate_burst <= 1000000))),
  constraint gateway_instances_rate_per_second_check CHECK (((rate_per_second >= 1) AND (rate_per_second <= 1000000))),
  constraint gateway_instances_status_check CHECK ((status = ANY (ARRAY['active'::text, 'disabled'::text]))),
  constraint gateway_instances_target_url_check CHECK ((length(target_url) <= 2048)),
  constraint gateway_instances_template_shapes_check CHECK ((cardinality(template_shapes) <= 64)),
  constraint gateway_instances_token_hash_check CHECK ((octet_length(token_hash) = 32)),
  constraint gateway_instances_unmapped_tools_check CHECK (((unmapped_tools >= 0) AND (unmapped_tools <= 500))),
  constraint gateway_instances_account_id_fkey FOREIGN KEY (account_id) REFERENCES public.accounts(account_id),
  constraint gateway_instances_account_id_mandate_id_fkey FOREIGN KEY (account_id, mandate_id) REFERENCES public.mandates(account_id, mandate_id),
  constraint gateway_instances_pkey PRIMARY KEY (account_id, instance_id)
);

create table public.idempotency_answers (
  account_id text collate "C" not null,
  subject_id text collate "C" not null,
  key_hash bytea not null,
  request_digest bytea not null,
  receipt_id text collate "C" not null,
  state text not null,
  status integer,
  headers jsonb,
  body bytea,
  created_at timestamp with time zone not null,
  expires_at timestamp with time zone not null,
  constraint idempotency_answers_body_check CHECK ((octet_length(body) <= 262144)),
  constraint idempotency_answers_check CHECK (((state <> 'answered'::text) OR (status IS NOT NULL))),
  constraint idempotency_answers_key_hash_check CHECK ((octet_length(key_hash) = 32)),
  constraint idempotency_answers_request_digest_check CHECK ((octet_length(request_digest) = 32)),
  constraint idempotency_answers_state_check CHECK ((state = ANY (ARRAY['in_flight'::text, 'answered'::text, 'unknown'::text]))),
  constraint idempotency_answers_status_check CHECK (((status >= 100) AND (status <= 599))),
  constraint idempotency_answers_pkey PRIMARY KEY (account_id, subject_id, key_hash)
);

create table public.installation (
  only_row boolean default true not null,
  master_key_check bytea not null,
  created_at timestamp with time zone not null,
  constraint installation_master_key_check_check CHECK ((octet_length(master_key_check) = 32)),
  constraint installation_only_row_check CHECK (only_row),
  constraint installation_pkey PRIMARY KEY (only_row)
);

create table public.late_outcomes (
  account_id text collate "C" not null,
  receipt_id text collate "C" not null,
  seq bigint not null,
  constraint late_outcomes_pkey PRIMARY KEY (account_id, receipt_id, seq)
);

create table public.log_keys (
  public_key bytea not null,
  sealed bytea not null,
  created_at timestamp with time zone not null,
  only_row boolean default true not null,
  constraint log_keys_only_row_check CHECK (only_row),
  constraint log_keys_public_key_check CHECK ((octet_length(public_key) = 32)),
  constraint log_keys_pkey PRIMARY KEY (public_key),
  constraint log_keys_only_row_key UNIQUE (only_row)
);

create table public.mandate_months (
  account_id text collate "C" not null,
  mandate_id text collate "C" not null,
  month date not null,
  reserved bigint not null,
  booked bigint not null,
  allows bigint not null,
  constraint mandate_months_allows_check CHECK ((allows >= 0)),
  constraint mandate_months_booked_check CHECK ((booked >= 0)),
  constraint mandate_months_month_check CHECK ((month = date_trunc('month'::text, (month)::timestamp with time zone))),
  constraint mandate_months_reserved_check CHECK ((reserved >= 0)),
  constraint mandate_months_pkey PRIMARY KEY (account_id, mandate_id, month)
) with (fillfactor=70);

create table public.mandate_versions (
  account_id text collate "C" not null,
  mandate_id text collate "C" not null,
  version integer not null,
  scope text[] not null,
  currency character(3) not null,
  per_action bigint not null,
  per_month bigint not null,
  escalation_threshold bigint,
  counterparties text[] not null,
  agent_did text not null,
  time_zone text not null,
  valid_until timestamp with time zone,
  max_uses bigint,
  digest text not null,
  effective_at timestamp with time zone not null,
  constraint mandate_versions_version_check CHECK ((version >= 1)),
  constraint mandate_versions_account_id_mandate_id_fkey FOREIGN KEY (account_id, mandate_id) REFERENCES public.mandates(account_id, mandate_id) ON DELETE CASCADE,
  constraint mandate_versions_pkey PRIMARY KEY (account_id, mandate_id, version)
);

create table public.mandates (
  account_id text collate "C" not null,
  mandate_id text collate "C" not null,
  version integer default 1 not null,
  name text not null,
  status text not null,
  scope text[] not null,
  currency character(3) not null,
  per_action bigint not null,
  per_month bigint not null,
  escalation_threshold bigint,
  counterparties text[] default '{}'::text[] not null,
  agent_did text default ''::text not null,
  time_zone text default 'UTC'::text not null,
  valid_until timestamp with time zone,
  max_uses bigint,
  uses bigint default 0 not null,
  digest text not null,
  created_at timestamp with time zone not null,
  changed_at timestamp with time zone not null,
  stopped boolean default false not null,
  constraint mandates_check CHECK (((max_uses IS NULL) OR (uses <= max_uses))),
  constraint mandates_counterparties_check CHECK ((cardinality(counterparties) <= 1000)),
  constraint mandates_currency_check CHECK ((currency ~ '^[A-Z]{3}$'::text)),
  constraint mandates_escalation_threshold_check CHECK (((escalation_threshold >= 0) AND (escalation_threshold <= '1000000000000000'::bigint))),
  constraint mandates_mandate_id_check CHECK ((mandate_id ~ '^mdt_[0-9a-z]{26}$'::text)),
  constraint mandates_max_uses_check CHECK ((max_uses >= 1)),
  constraint mandates_name_check CHECK (((length(name) >= 1) AND (length(name) <= 200))),
  constraint mandates_per_action_check CHECK (((per_action >= 0) AND (per_action <= '1000000000000000'::bigint))),
  constraint mandates_per_month_check CHECK (((per_month >= 0) AND (per_month <= '1000000000000000'::bigint))),
  constraint mandates_scope_check CHECK (((cardinality(scope) >= 1) AND (cardinality(scope) <= 100))),
  constraint mandates_status_check CHECK ((status = ANY (ARRAY['draft'::text, 'active'::text, 'suspended'::text, 'expired'::text, 'consumed'::text, 'revoked'::text]))),
  constraint mandates_uses_check CHECK ((uses >= 0)),
  constraint mandates_version_check CHECK ((version >= 1)),
  constraint mandates_account_id_fkey FOREIGN KEY (account_id) REFERENCES public.accounts(account_id),
  constraint mandates_pkey PRIMARY KEY (account_id, mandate_id)
);

create table public.notification_deliveries (
  account_id text collate "C" not null,
  delivery_id text collate "C" not null,
  event_id text collate "C" not null,
  channel text not null,
  target text collate "C" not null,
  state text not null,
  attempts integer default 0 not null,
  next_at timestamp with time zone not null,
  not_after timestamp with time zone,
  created_at timestamp with time zone not null,
  settled_at timestamp with time zone,
  last_status integer,
  last_error text,
  log jsonb default '[]'::jsonb not null,
  constraint notification_deliveries_attempts_check CHECK ((attempts >= 0)),
  constraint notification_deliveries_channel_check CHECK ((channel = ANY (ARRAY['webhook'::text, 'mail'::text]))),
  constraint notification_deliveries_check CHECK (((state = 'pending'::text) = (settled_at IS NULL))),
  constraint notification_deliveries_delivery_id_check CHECK ((delivery_id ~ '^dlv_[0-9a-z]{26}$'::text)),
  constraint notification_deliveries_last_error_check CHECK ((length(last_error) <= 64)),
  constraint notification_deliveries_state_check CHECK ((state = ANY (ARRAY['pending'::text, 'delivered'::text, 'dead'::text]))),
  constraint notification_deliveries_target_check CHECK (((length(target) >= 3) AND (length(target) <= 254))),
  constraint notification_deliveries_account_id_event_id_fkey FOREIGN KEY (account_id, event_id) REFERENCES public.notification_events(account_id, event_id) ON DELETE CASCADE,
  constraint notification_deliveries_pkey PRIMARY KEY (account_id, delivery_id),
  constraint notification_deliveries_account_id_event_id_target_key UNIQUE (account_id, event_id, target)
);

create table public.notification_events (
  account_id text collate "C" not null,
  event_id text collate "C" not null,
  type text collate "C" not null,
  at timestamp with time zone not null,
  once text collate "C",
  facts jsonb not null,
  payload text,
  spread_at timestamp with time zone,
  constraint notification_events_event_id_check CHECK ((event_id ~ '^evt_[0-9a-z]{26}$'::text)),
  constraint notification_events_payload_check CHECK ((length(payload) <= 65536)),
  constraint notification_events_type_check CHECK ((type ~ '^[a-z_]+[.][a-z_]+$'::text)),
  constraint notification_events_pkey PRIMARY KEY (account_id, event_id)
);

create table public.notification_settings (
  account_id text collate "C" not null,
  mail boolean not null,
  mail_events text[] not null,
  recipients text[] not null,
  language text not null,
  changed_at timestamp with time zone not null,
  constraint notification_settings_language_check CHECK ((language = ANY (ARRAY['en'::text, 'de'::text]))),
  constraint notification_settings_mail_events_check CHECK ((cardinality(mail_events) <= 50)),
  constraint notification_settings_recipients_check CHECK ((cardinality(recipients) <= 5)),
  constraint notification_settings_account_id_fkey FOREIGN KEY (account_id) REFERENCES public.accounts(account_id),
  constraint notification_settings_pkey PRIMARY KEY (account_id)
);

create table public.passkeys (
  account_id text collate "C" not null,
  passkey_id text collate "C" not null,
  credential_id bytea not null,
  public_key bytea not null,
  counter bigint not null,
  transports text[] not null,
  name text not null,
  backed_up boolean not null,
  created_at timestamp with time zone not null,
  last_used_at timestamp with time zone,
  constraint passkeys_counter_check CHECK ((counter >= 0)),
  constraint passkeys_credential_id_check CHECK (((octet_length(credential_id) >= 1) AND (octet_length(credential_id) <= 1023))),
  constraint passkeys_name_check CHECK (((length(name) >= 1) AND (length(name) <= 200))),
  constraint passkeys_public_key_check CHECK (((octet_length(public_key) >= 1) AND (octet_length(public_key) <= 2048))),
  constraint passkeys_account_id_fkey FOREIGN KEY (account_id) REFERENCES public.accounts(account_id),
  constraint passkeys_pkey PRIMARY KEY (account_id, passkey_id),
  constraint passkeys_credential_id_key UNIQUE (credential_id)
);

create table public.publications (
  account_id text collate "C" not null,
  publisher text not null,
  size bigint default 0 not null,
  next_at timestamp with time zone not null,
  constraint publications_publisher_check CHECK (((length(publisher) >= 1) AND (length(publisher) <= 250))),
  constraint publications_size_check CHECK ((size >= 0)),
  constraint publications_account_id_fkey FOREIGN KEY (account_id) REFERENCES public.accounts(account_id),
  constraint publications_pkey PRIMARY KEY (account_id, publisher)
) with (fillfactor=70);

create table public.recovery_codes (
  account_id text collate "C" not null,
  code_hash bytea not null,
  created_at timestamp with time zone not null,
  used_at timestamp with time zone,
  constraint recovery_codes_code_hash_check CHECK ((octet_length(code_hash) = 32)),
  constraint recovery_codes_account_id_fkey FOREIGN KEY (account_id) REFERENCES public.accounts(account_id),
  constraint recovery_codes_pkey PRIMARY KEY (account_id, code_hash)
);

create table public.reservations (
  account_id text collate "C" not null,
  receipt_id text collate "C" not null,
  mandate_id text collate "C" not null,
  month date not null,
  path text not null,
  subject_id text collate "C" not null,
  idempotency_key bytea,
  amount bigint not null,
  state text not null,
  reserved_at timestamp with time zone not null,
  due_at timestamp with time zone not null,
  unknown_at timestamp with time zone,
  cause text,
  target_status integer,
  constraint reservations_amount_check CHECK (((amount >= 0) AND (amount <= '1000000000000000'::bigint))),
  constraint reservations_cause_check CHECK ((length(cause) <= 64)),
  constraint reservations_idempotency_key_check CHECK ((octet_length(idempotency_key) = 32)),
  constraint reservations_path_check CHECK ((path = ANY (ARRAY['gateway'::text, 'verify'::text]))),
  constraint reservations_state_check CHECK ((state = ANY (ARRAY['reserved'::text, 'unknown'::text, 'settled_booked'::text, 'settled_released'::text]))),
  constraint reservations_target_status_check CHECK (((target_status >= 100) AND (target_status <= 599))),
  constraint reservations_pkey PRIMARY KEY (account_id, receipt_id)
) with (autovacuum_vacuum_scale_factor=0.02, autovacuum_vacuum_threshold=10000);

create table public.sandbox (
  only_row boolean default true not null,
  account_id text collate "C" not null,
  created_at timestamp with time zone not null,
  constraint sandbox_only_row_check CHECK (only_row),
  constraint sandbox_account_id_fkey FOREIGN KEY (account_id) REFERENCES public.accounts(account_id),
  constraint sandbox_pkey PRIMARY KEY (only_row),
  constraint sandbox_account_id_key UNIQUE (account_id)
);

create table public.sandbox_mandates (
  account_id text collate "C" not null,
  mandate_id text collate "C" not null,
  secret_hash bytea not null,
  created_at timestamp with time zone not null,
  constraint sandbox_mandates_secret_hash_check CHECK ((octet_length(secret_hash) = 32)),
  constraint sandbox_mandates_account_id_fkey FOREIGN KEY (account_id) REFERENCES public.sandbox(account_id),
  constraint sandbox_mandates_account_id_mandate_id_fkey FOREIGN KEY (account_id, mandate_id) REFERENCES public.mandates(account_id, mandate_id),
  constraint sandbox_mandates_pkey PRIMARY KEY (account_id, mandate_id)
);

create table public.schema_migrations (
  version integer not null,
  name text not null,
  checksum text not null,
  applied_at timestamp with time zone default now() not null,
  constraint schema_migrations_checksum_check CHECK ((checksum ~ '^[0-9a-f]{64}$'::text)),
  constraint schema_migrations_version_check CHECK ((version >= 1)),
  constraint schema_migrations_pkey PRIMARY KEY (version)
);

create table public.sessions (
  account_id text collate "C" not null,
  session_id text collate "C" not null,
  token_hash bytea not null,
  created_at timestamp with time zone not null,
  last_seen_at timestamp with time zone not null,
  expires_at timestamp with time zone not null,
  revoked_at timestamp with time zone,
  kind text default 'cli'::text not null,
  user_agent text,
  factor_at timestamp with time zone default '1970-01-01 00:00:00+00'::timestamp with time zone not null,
  constraint sessions_kind_check CHECK ((kind = ANY (ARRAY['cli'::text, 'console'::text]))),
  constraint sessions_token_hash_check CHECK ((octet_length(token_hash) = 32)),
  constraint sessions_user_agent_check CHECK ((length(user_agent) <= 200)),
  constraint sessions_account_id_fkey FOREIGN KEY (account_id) REFERENCES public.accounts(account_id),
  constraint sessions_pkey PRIMARY KEY (account_id, session_id)
);

create table public.signing_keys (
  kid text collate "C" not null,
  public_jwk jsonb not null,
  sealed bytea not null,
  status text not null,
  created_at timestamp with time zone not null,
  current_at timestamp with time zone,
  retired_at timestamp with time zone,
  constraint signing_keys_check CHECK (((status = 'next'::text) = (current_at IS NULL))),
  constraint signing_keys_check1 CHECK (((status = 'retired'::text) = (retired_at IS NOT NULL))),
  constraint signing_keys_check2 CHECK (((status = 'retired'::text) = (octet_length(sealed) = 29))),
  constraint signing_keys_kid_check CHECK ((kid ~ '^[A-Za-z0-9_-]{43}$'::text)),
  constraint signing_keys_status_check CHECK ((status = ANY (ARRAY['next'::text, 'current'::text, 'retired'::text]))),
  constraint signing_keys_pkey PRIMARY KEY (kid)
);

create table public.spent_nonces (
  account_id text collate "C" not null,
  nonce_hash bytea not null,
  expires_at timestamp with time zone not null,
  constraint spent_nonces_nonce_hash_check CHECK ((octet_length(nonce_hash) = 32)),
  constraint spent_nonces_pkey PRIMARY KEY (account_id, nonce_hash)
);

create table public.timestamps (
  account_id text collate "C" not null,
  size bigint not null,
  root bytea not null,
  token bytea not null,
  gen_time timestamp with time zone not null,
  tsa text not null,
  trusted boolean not null,
  stored_at timestamp with time zone not null,
  constraint timestamps_root_check CHECK ((octet_length(root) = 32)),
  constraint timestamps_size_check CHECK ((size > 0)),
  constraint timestamps_token_check CHECK (((octet_length(token) >= 1) AND (octet_length(token) <= 65536))),
  constraint timestamps_tsa_check CHECK ((tsa ~ '^[ -~]{0,200}$'::text)),
  constraint timestamps_account_id_fkey FOREIGN KEY (account_id) REFERENCES public.accounts(account_id),
  constraint timestamps_pkey PRIMARY KEY (account_id, size)
);

create table public.token_routes (
  token_hash bytea not null,
  kind text not null,
  account_id text collate "C" not null,
  subject_id text collate "C" not null,
  constraint token_routes_kind_check CHECK ((kind = ANY (ARRAY['gateway'::text, 'session'::text, 'api_key'::text]))),
  constraint token_routes_token_hash_check CHECK ((octet_length(token_hash) = 32)),
  constraint token_routes_pkey PRIMARY KEY (token_hash)
);

create table public.tool_sightings (
  account_id text collate "C" not null,
  instance_id text collate "C" not null,
  key text collate "C" not null,
  unmapped bigint default 0 not null,
  unreadable bigint default 0 not null,
  unreadable_reason text,
  first_at timestamp with time zone not null,
  last_at timestamp with time zone not null,
  shape jsonb,
  constraint tool_sightings_shape_check CHECK ((octet_length((shape)::text) <= 262144)),
  constraint tool_sightings_unmapped_check CHECK ((unmapped >= 0)),
  constraint tool_sightings_unreadable_check CHECK ((unreadable >= 0)),
  constraint tool_sightings_unreadable_reason_check CHECK ((length(unreadable_reason) <= 500)),
  constraint tool_sightings_account_id_instance_id_key_fkey FOREIGN KEY (account_id, instance_id, key) REFERENCES public.tools(account_id, instance_id, key) ON DELETE CASCADE,
  constraint tool_sightings_pkey PRIMARY KEY (account_id, instance_id, key)
);

create table public.tools (
  account_id text collate "C" not null,
  instance_id text collate "C" not null,
  key text collate "C" not null,
  tool_id text collate "C" not null,
  pattern text not null,
  shape text,
  state text not null,
  version integer default 1 not null,
  mapping jsonb,
  created_at timestamp with time zone not null,
  changed_at timestamp with time zone not null,
  constraint tools_check CHECK (((state = 'mapped'::text) = (mapping IS NOT NULL))),
  constraint tools_key_check CHECK ((length(key) <= 2200)),
  constraint tools_state_check CHECK ((state = ANY (ARRAY['unmapped'::text, 'mapped'::text, 'blocked'::text]))),
  constraint tools_tool_id_check CHECK ((tool_id ~ '^tol_[0-9a-z]{26}$'::text)),
  constraint tools_version_check CHECK ((version >= 1)),
  constraint tools_account_id_instance_id_fkey FOREIGN KEY (account_id, instance_id) REFERENCES public.gateway_instances(account_id, instance_id),
  constraint tools_pkey PRIMARY KEY (account_id, instance_id, key)
);

create table public.tree_heads (
  account_id text collate "C" not null,
  size bigint not null,
  root bytea not null,
  at text collate "C" not null,
  checkpoint text not null,
  receipt text not null,
  constraint tree_heads_at_check CHECK ((at ~ '^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}[.][0-9]{3}Z$'::text)),
  constraint tree_heads_checkpoint_check CHECK ((checkpoint <> ''::text)),
  constraint tree_heads_receipt_check CHECK ((receipt <> ''::text)),
  constraint tree_heads_root_check CHECK ((octet_length(root) = 32)),
  constraint tree_heads_size_check CHECK ((size >= 0)),
  constraint tree_heads_account_id_fkey FOREIGN KEY (account_id) REFERENCES public.accounts(account_id),
  constraint tree_heads_pkey PRIMARY KEY (account_id, size)
);

create table public.webhook_endpoints (
  account_id text collate "C" not null,
  endpoint_id text collate "C" not null,
  name text not null,
  url text not null,
  events text[] not null,
  status text not null,
  disabled_cause text,
  secret_sealed bytea not null,
  previous_sealed bytea,
  previous_until timestamp with time zone,
  failing_since timestamp with time zone,
  created_at timestamp with time zone not null,
  changed_at timestamp with time zone not null,
  constraint webhook_endpoints_check CHECK (((status = 'disabled'::text) = (disabled_cause IS NOT NULL))),
  constraint webhook_endpoints_check1 CHECK (((previous_sealed IS NULL) = (previous_until IS NULL))),
  constraint webhook_endpoints_disabled_cause_check CHECK ((disabled_cause = ANY (ARRAY['person'::text, 'failing'::text, 'gone'::text]))),
  constraint webhook_endpoints_endpoint_id_check CHECK ((endpoint_id ~ '^whk_[0-9a-z]{26}$'::text)),
  constraint webhook_endpoints_events_check CHECK (((cardinality(events) >= 1) AND (cardinality(events) <= 50))),
  constraint webhook_endpoints_name_check CHECK (((length(name) >= 1) AND (length(name) <= 200))),
  constraint webhook_endpoints_status_check CHECK ((status = ANY (ARRAY['active'::text, 'disabled'::text]))),
  constraint webhook_endpoints_url_check CHECK ((length(url) <= 2048)),
  constraint webhook_endpoints_account_id_fkey FOREIGN KEY (account_id) REFERENCES public.accounts(account_id),
  constraint webhook_endpoints_pkey PRIMARY KEY (account_id, endpoint_id)
);

CREATE INDEX authorisations_due ON public.authorisations USING btree (due_at) WHERE (state = 'reserved'::text);

CREATE INDEX decision_days_day ON public.decision_days USING btree (account_id, day);

CREATE INDEX decision_search_agent ON public.decision_search USING btree (account_id, agent, seq) WHERE (agent IS NOT NULL);

CREATE INDEX decision_search_amount ON public.decision_search USING btree (account_id, currency, amount) WHERE (amount IS NOT NULL);

CREATE INDEX decision_search_at ON public.decision_search USING btree (account_id, at);

CREATE INDEX decision_search_code ON public.decision_search USING btree (account_id, code, seq) WHERE (code IS NOT NULL);

CREATE INDEX decision_search_decision ON public.decision_search USING btree (account_id, decision, seq);

CREATE INDEX decision_search_mandate ON public.decision_search USING btree (account_id, mandate_id, seq) WHERE (mandate_id IS NOT NULL);

CREATE INDEX decision_search_subject ON public.decision_search USING btree (account_id, subject_id, seq);

CREATE INDEX escalations_due ON public.escalations USING btree (expires_at) WHERE (status = 'pending'::text);

CREATE INDEX escalations_live ON public.escalations USING btree (account_id, mandate_id, closes_at);

CREATE UNIQUE INDEX escalations_one_pending ON public.escalations USING btree (account_id, mandate_id, subject_id, ctx) WHERE (status = 'pending'::text);

CREATE UNIQUE INDEX escalations_token ON public.escalations USING btree (account_id, token_hash) WHERE (token_hash IS NOT NULL);

CREATE UNIQUE INDEX evidence_id ON ONLY public.evidence USING btree (account_id, id) WHERE (kind <> 'outcome'::text);

CREATE INDEX evidence_rare_kinds ON ONLY public.evidence USING btree (account_id, kind, seq) WHERE (kind <> ALL (ARRAY['decision'::text, 'outcome'::text]));

CREATE INDEX evidence_subjects ON ONLY public.evidence USING btree (account_id, public.evidence_subject(body), seq) WHERE (kind <> ALL (ARRAY['decision'::text, 'outcome'::text]));

CREATE INDEX idempotency_answers_expiry ON public.idempotency_answers USING btree (expires_at);

CREATE INDEX mandates_due ON public.mandates USING btree (valid_until) WHERE ((valid_until IS NOT NULL) AND (status = ANY (ARRAY['draft'::text, 'active'::text, 'suspended'::text])));

CREATE INDEX mandates_living ON public.mandates USING btree (account_id, mandate_id) WHERE (status = ANY (ARRAY['draft'::text, 'active'::text, 'suspended'::text]));

CREATE INDEX notification_deliveries_due ON public.notification_deliveries USING btree (channel, next_at) WHERE (state = 'pending'::text);

CREATE INDEX notification_deliveries_target ON public.notification_deliveries USING btree (account_id, target, delivery_id DESC);

CREATE INDEX notification_deliveries_turns ON public.notification_deliveries USING btree ((((channel || ' '::text) || account_id)), next_at) WHERE (state = 'pending'::text);

CREATE INDEX notification_deliveries_waiting ON public.notification_deliveries USING btree (account_id, target) WHERE (state = 'pending'::text);

CREATE INDEX notification_events_age ON public.notification_events USING btree (at);

CREATE INDEX notification_events_new ON public.notification_events USING btree (at) WHERE (spread_at IS NULL);

CREATE UNIQUE INDEX notification_events_once ON public.notification_events USING btree (account_id, type, once);

CREATE INDEX sessions_expiry ON public.sessions USING btree (expires_at);

CREATE UNIQUE INDEX signing_keys_current ON public.signing_keys USING btree (status) WHERE (status = 'current'::text);

CREATE UNIQUE INDEX signing_keys_next ON public.signing_keys USING btree (status) WHERE (status = 'next'::text);

CREATE INDEX spent_nonces_expiry ON public.spent_nonces USING btree (expires_at);

CREATE TRIGGER facts_deleted AFTER DELETE ON public.api_keys REFERENCING OLD TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION public.facts_changed();

CREATE TRIGGER facts_inserted AFTER INSERT ON public.api_keys REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION public.facts_changed();

CREATE TRIGGER facts_updated AFTER UPDATE ON public.api_keys REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION public.facts_changed();

CREATE TRIGGER evidence_append_only BEFORE DELETE OR UPDATE OR TRUNCATE ON public.cosignatures FOR EACH STATEMENT EXECUTE FUNCTION public.evidence_is_append_only(); -- enabled always

CREATE TRIGGER escalation_created AFTER INSERT ON public.escalations FOR EACH ROW WHEN ((new.status = 'pending'::text)) EXECUTE FUNCTION public.escalation_notified();

CREATE TRIGGER escalation_settled AFTER UPDATE OF status ON public.escalations FOR EACH ROW WHEN (((old.status = 'pending'::text) AND (new.status = ANY (ARRAY['approved'::text, 'rejected'::text, 'expired'::text])))) EXECUTE FUNCTION public.escalation_notified();

CREATE TRIGGER facts_deleted AFTER DELETE ON public.escalations REFERENCING OLD TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION public.facts_changed();

CREATE TRIGGER facts_inserted AFTER INSERT ON public.escalations REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION public.facts_changed();

CREATE TRIGGER facts_updated AFTER UPDATE ON public.escalations REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION public.facts_changed();

CREATE TRIGGER evidence_append_only BEFORE DELETE OR UPDATE OR TRUNCATE ON public.evidence FOR EACH STATEMENT EXECUTE FUNCTION public.evidence_is_append_only(); -- enabled always

CREATE TRIGGER evidence_chain AFTER INSERT ON public.evidence REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION public.evidence_continues_chain(); -- enabled always

CREATE TRIGGER evidence_append_only BEFORE DELETE OR UPDATE OR TRUNCATE ON public.evidence_p0 FOR EACH STATEMENT EXECUTE FUNCTION public.evidence_is_append_only(); -- enabled always

CREATE TRIGGER evidence_chain AFTER INSERT ON public.evidence_p0 REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION public.evidence_continues_chain(); -- enabled always

CREATE TRIGGER evidence_append_only BEFORE DELETE OR UPDATE OR TRUNCATE ON public.evidence_p1 FOR EACH STATEMENT EXECUTE FUNCTION public.evidence_is_append_only(); -- enabled always

CREATE TRIGGER evidence_chain AFTER INSERT ON public.evidence_p1 REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION public.evidence_continues_chain(); -- enabled always

CREATE TRIGGER evidence_append_only BEFORE DELETE OR UPDATE OR TRUNCATE ON public.evidence_p2 FOR EACH STATEMENT EXECUTE FUNCTION public.evidence_is_append_only(); -- enabled always

CREATE TRIGGER evidence_chain AFTER INSERT ON public.evidence_p2 REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION public.evidence_continues_chain(); -- enabled always

CREATE TRIGGER evidence_append_only BEFORE DELETE OR UPDATE OR TRUNCATE ON public.evidence_p3 FOR EACH STATEMENT EXECUTE FUNCTION public.evidence_is_append_only(); -- enabled always

CREATE TRIGGER evidence_chain AFTER INSERT ON public.evidence_p3 REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION public.evidence_continues_chain(); -- enabled always

CREATE TRIGGER evidence_append_only BEFORE DELETE OR UPDATE OR TRUNCATE ON public.evidence_p4 FOR EACH STATEMENT EXECUTE FUNCTION public.evidence_is_append_only(); -- enabled always

CREATE TRIGGER evidence_chain AFTER INSERT ON public.evidence_p4 REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION public.evidence_continues_chain(); -- enabled always

CREATE TRIGGER evidence_append_only BEFORE DELETE OR UPDATE OR TRUNCATE ON public.evidence_p5 FOR EACH STATEMENT EXECUTE FUNCTION public.evidence_is_append_only(); -- enabled always

CREATE TRIGGER evidence_chain AFTER INSERT ON public.evidence_p5 REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION public.evidence_continues_chain(); -- enabled always

CREATE TRIGGER evidence_append_only BEFORE DELETE OR UPDATE OR TRUNCATE ON public.evidence_p6 FOR EACH STATEMENT EXECUTE FUNCTION public.evidence_is_append_only(); -- enabled always

CREATE TRIGGER evidence_chain AFTER INSERT ON public.evidence_p6 REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION public.evidence_continues_chain(); -- enabled always

CREATE TRIGGER evidence_append_only BEFORE DELETE OR UPDATE OR TRUNCATE ON public.evidence_p7 FOR EACH STATEMENT EXECUTE FUNCTION public.evidence_is_append_only(); -- enabled always

CREATE TRIGGER evidence_chain AFTER INSERT ON public.evidence_p7 REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION public.evidence_continues_chain(); -- enabled always

CREATE TRIGGER evidence_append_only BEFORE DELETE OR UPDATE OR TRUNCATE ON public.evidence_subtrees FOR EACH STATEMENT EXECUTE FUNCTION public.evidence_is_append_only(); -- enabled always

CREATE TRIGGER evidence_subtree_check AFTER INSERT ON public.evidence_subtrees REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION public.evidence_subtree_is_of_entries(); -- enabled always

CREATE TRIGGER facts_deleted AFTER DELETE ON public.gateway_instances REFERENCING OLD TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION public.facts_changed();

CREATE TRIGGER facts_inserted AFTER INSERT ON public.gateway_instances REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION public.facts_changed();

CREATE TRIGGER facts_updated AFTER UPDATE ON public.gateway_instances REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION public.facts_changed();

CREATE TRIGGER facts_deleted AFTER DELETE ON public.mandates REFERENCING OLD TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION public.facts_changed();

CREATE TRIGGER facts_inserted AFTER INSERT ON public.mandates REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION public.facts_changed();

CREATE TRIGGER facts_updated AFTER UPDATE ON public.mandates REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION public.facts_changed();

CREATE TRIGGER keep_version AFTER INSERT OR UPDATE OF version ON public.mandates FOR EACH ROW EXECUTE FUNCTION public.keep_mandate_version();

CREATE TRIGGER mandate_limit_changed AFTER UPDATE OF per_month ON public.mandates FOR EACH ROW WHEN ((old.per_month IS DISTINCT FROM new.per_month)) EXECUTE FUNCTION public.limit_changed();

CREATE TRIGGER mandate_moved AFTER UPDATE OF status ON public.mandates FOR EACH ROW WHEN (((old.status IS DISTINCT FROM new.status) AND (new.status <> 'draft'::text))) EXECUTE FUNCTION public.mandate_notified();

CREATE TRIGGER mandate_opened AFTER INSERT ON public.mandates FOR EACH ROW WHEN ((new.status = 'active'::text)) EXECUTE FUNCTION public.mandate_notified();

CREATE TRIGGER outcomes_lost AFTER UPDATE ON public.reservations REFERENCING OLD TABLE AS before NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION public.outcomes_notified();

CREATE TRIGGER evidence_append_only BEFORE DELETE OR UPDATE OR TRUNCATE ON public.timestamps FOR EACH STATEMENT EXECUTE FUNCTION public.evidence_is_append_only(); -- enabled always

CREATE TRIGGER facts_deleted AFTER DELETE ON public.tools REFERENCING OLD TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION public.facts_changed();

CREATE TRIGGER facts_inserted AFTER INSERT ON public.tools REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION public.facts_changed();

CREATE TRIGGER facts_updated AFTER UPDATE ON public.tools REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION public.facts_changed();

CREATE TRIGGER tree_heads_append_only BEFORE DELETE OR UPDATE OR TRUNCATE ON public.tree_heads FOR EACH STATEMENT EXECUTE FUNCTION public.evidence_is_append_only(); -- enabled always

grant insert, select, update on public.account_heads to mandate_app;

grant insert, select, update on public.accounts to mandate_app;

grant insert, select on public.agent_keys to mandate_app;

grant insert, select, update on public.api_key_uses to mandate_app;

grant insert, select, update on public.api_keys to mandate_app;

grant insert, select, update on public.authorisations to mandate_app;

grant insert, select on public.cosignatures to mandate_app;

grant insert, select, update on public.decision_days to mandate_app;

grant insert, select, update on public.decision_positions to mandate_app;

grant insert, select on public.decision_search to mandate_app;

grant insert, select, update on public.escalations to mandate_app;

grant insert, select on public.evidence to mandate_app;

grant insert, select on public.evidence_subtrees to mandate_app;

grant insert, select on public.executions to mandate_app;

grant insert, select, update on public.gateway_instances to mandate_app;

grant delete, insert, select, update on public.idempotency_answers to mandate_app;

grant insert, select, update on public.installation to mandate_app;

grant insert, select on public.late_outcomes to mandate_app;

grant insert, select on public.log_keys to mandate_app;

grant insert, select, update on public.mandate_months to mandate_app;

grant select on public.mandate_versions to mandate_app;

grant insert, select, update on public.mandates to mandate_app;

grant delete, insert, select, update on public.notification_deliveries to mandate_app;

grant delete, insert, select, update on public.notification_events to mandate_app;

grant insert, select, update on public.notification_settings to mandate_app;

grant delete, insert, select, update on public.passkeys to mandate_app;

grant insert, select, update on public.publications to mandate_app;

grant delete, insert, select, update on public.recovery_codes to mandate_app;

grant delete, insert, select, update on public.reservations to mandate_app;

grant select on public.sandbox to mandate_app;

grant insert, select on public.sandbox_mandates to mandate_app;

grant select on public.schema_migrations to mandate_app;

grant delete, insert, select, update on public.sessions to mandate_app;

grant update on public.signing_keys (current_at) to mandate_app;

grant update on public.signing_keys (retired_at) to mandate_app;

grant update on public.signing_keys (sealed) to mandate_app;

grant update on public.signing_keys (status) to mandate_app;

grant insert, select on public.signing_keys to mandate_app;

grant delete, insert, select on public.spent_nonces to mandate_app;

grant insert, select on public.timestamps to mandate_app;

grant delete, insert, select on public.token_routes to mandate_app;

grant insert, select, update on public.tool_sightings to mandate_app;

grant delete, insert, select, update on public.tools to mandate_app;

grant insert, select on public.tree_heads to mandate_app;

grant delete, insert, select, update on public.webhook_endpoints to mandate_app;

grant execute only on function public.open_sandbox(text) to mandate_app;

grant execute only on function public.sweep_sandbox(integer) to mandate_app;
