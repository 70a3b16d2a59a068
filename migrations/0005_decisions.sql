-- The two statements of the hot path. Lists come in as one text a column, joined by the unit separator (U+001F), which
-- no identifier and no JSON text can hold: far cheaper to send and read than thousands of bind values.

create function list_of(joined text) returns text[] language sql immutable parallel safe
  as $$ select string_to_array(joined, E'\x1f') $$;

-- These two are declared stable, as what they call is: an SQL function that claims more is not inlined.
create function epoch_ms(at timestamptz) returns bigint language sql stable parallel safe
  as $$ select (extract(epoch from at) * 1000)::bigint $$;

-- Locks the heads of the accounts (in one order, so that two control planes cannot deadlock), then reads what their
-- asks and outcomes depend on. Volatile: each statement sees what was committed before the lock was granted.
-- Cost: index look-ups per distinct account, instance, tool, receipt, key and token of the batch.
create function decision_facts(
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
  select json_agg(json_build_array(h.account_id, h.size, encode(h.hash, 'hex'), epoch_ms(h.at), h.revision)) into heads
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

create function ms_time(ms text) returns timestamptz language sql immutable parallel safe
  as $$ select to_timestamp(ms::double precision / 1000) $$;

-- Writes a batch: heads and entries of the chains, months, reservations and their settlements; returns the time.
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
  p_gone integer, p_gone_heads text, p_gone_receipts text, p_unknown_heads text, p_unknown_receipts text
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
  update account_heads h set size = n.size::bigint, hash = decode(n.hash, 'hex'), at = ms_time(n.at)
  from unnest(v_accounts, list_of(p_head_befores), list_of(p_head_revisions), list_of(p_head_sizes),
    list_of(p_head_hashes), list_of(p_head_ats)) as n (account_id, before, revision, size, hash, at)
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

-- Facts that are not in the chain's head: a change to them, even by hand, is seen by the next decision.
do $$
declare
  kept text;
begin
  foreach kept in array array['mandates', 'gateway_instances', 'tools', 'escalations'] loop
    execute format('create trigger facts_inserted after insert on %I referencing new table as changed
      for each statement execute function facts_changed()', kept);
    execute format('create trigger facts_updated after update on %I referencing new table as changed
      for each statement execute function facts_changed()', kept);
    execute format('create trigger facts_deleted after delete on %I referencing old table as changed
      for each statement execute function facts_changed()', kept);
  end loop;
end $$;
