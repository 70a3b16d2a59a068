-- Paths 1 and 2: what an allow of POST /api/v1/verify reserved, and what became of it.

-- Kept for good: a dispute asks for it by its receipt. `token_hash` is the SHA-256 of the consumption token.
create table authorisations (
  account_id text collate "C" not null,
  receipt_id text collate "C" not null check (receipt_id ~ '^rcp_[0-9a-z]{26}$'),
  token_hash bytea not null check (octet_length(token_hash) = 32),
  mandate_id text collate "C" not null,
  month date not null check (month = date_trunc('month', month)),
  key_id text collate "C" not null,
  amount bigint not null check (amount between 0 and 1000000000000000),
  currency char(3) not null check (currency ~ '^[A-Z]{3}$'),
  action_type text not null check (length(action_type) <= 128),
  counterparty text check (length(counterparty) <= 256),
  ctx text check (ctx ~ '^sha-256:[0-9a-f]{64}$'),
  state text not null check (state in ('reserved', 'booked', 'released', 'final')),
  booked bigint not null default 0 check (booked between 0 and amount),
  consumption_digest bytea check (octet_length(consumption_digest) = 32),
  consumption_answer text check (length(consumption_answer) <= 4096),
  reserved_at timestamptz not null,
  due_at timestamptz not null,
  primary key (account_id, receipt_id),
  unique (account_id, token_hash),
  foreign key (account_id, mandate_id) references mandates,
  check ((state = 'booked') = (consumption_digest is not null)),
  check ((consumption_digest is null) = (consumption_answer is null)),
  check (state <> 'final' or booked = amount),
  check (state = 'booked' or state = 'final' or booked = 0)
);

-- Only what may still be booked: what the job looks through.
create index authorisations_due on authorisations (due_at) where state = 'reserved';

-- Nonces that an allow spent, until their presentation has expired anyway. The hash covers the mandate as well, so that
-- no agent can spend another's nonce.
create table spent_nonces (
  account_id text collate "C" not null,
  nonce_hash bytea not null check (octet_length(nonce_hash) = 32),
  expires_at timestamptz not null,
  primary key (account_id, nonce_hash)
);

create index spent_nonces_expiry on spent_nonces (expires_at);

-- What was reported of an allowed action; several reports of one receipt follow each other.
create table executions (
  account_id text collate "C" not null,
  execution_id text collate "C" not null check (execution_id ~ '^exe_[0-9a-z]{26}$'),
  receipt_id text collate "C" not null,
  outcome text not null check (outcome in ('erfolgreich', 'fehlgeschlagen', 'teilweise', 'abgebrochen')),
  request_digest bytea not null check (octet_length(request_digest) = 32),
  answer text not null check (length(answer) <= 4096),
  reported_at timestamptz not null,
  primary key (account_id, receipt_id, execution_id),
  foreign key (account_id, receipt_id) references authorisations
);

grant select, insert, update on authorisations to mandate_app;
grant select, insert, delete on spent_nonces to mandate_app;
grant select, insert on executions to mandate_app;

-- What verifications and bookings depend on, read after `decision_facts`, under its locks and at its time: what is
-- decided at one moment does not count in the month of another.
-- Cost: index look-ups per distinct key, mandate, nonce and consumption token of the batch.
create function verify_facts(
  p_now_ms bigint,
  p_key_accounts text, p_keys text,
  p_mandate_accounts text, p_mandates text,
  p_nonce_accounts text, p_nonces text,
  p_token_accounts text, p_tokens text,
  out keys json, out mandates json, out escalations json, out nonces json, out authorisations json,
  out executions json
) language plpgsql as $$
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
end $$;

-- Writes the allows of a batch of verifications, after `record_decisions` and in its transaction. A nonce that is spent
-- already fails it all: then nothing was decided.
create function record_authorisations(
  p_accounts text, p_receipts text, p_tokens text, p_mandates text, p_months text, p_keys text, p_amounts text,
  p_currencies text, p_types text, p_counterparties text, p_ctxs text,
  p_nonces text, p_nonce_ends text, p_now_ms bigint, p_due_ms bigint
) returns void language plpgsql as $$
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
end $$;

-- Fails where one of these nonces is spent: what was decided on carried facts took them for unspent.
create function assert_unspent(p_accounts text, p_nonces text) returns void language plpgsql as $$
begin
  if exists (
    select from unnest(list_of(p_accounts), list_of(p_nonces)) as n (account_id, nonce)
    join spent_nonces s on s.account_id = n.account_id and s.nonce_hash = decode(n.nonce, 'hex')
  ) then
    raise exception 'the facts of an account changed' using errcode = 'serialization_failure';
  end if;
end $$;

-- Path 1: the agent's key, made with its mandate and sealed by the control plane. It is never shown and never changes.
create table agent_keys (
  account_id text collate "C" not null,
  mandate_id text collate "C" not null,
  did text not null check (did ~ '^did:key:z6Mk[1-9A-HJ-NP-Za-km-z]{44}$'),
  sealed bytea not null,
  created_at timestamptz not null,
  primary key (account_id, mandate_id),
  foreign key (account_id, mandate_id) references mandates
);

grant select, insert on agent_keys to mandate_app;
