-- The sandbox: mandates that anybody can make, of one account that belongs to nobody and that nobody can sign in to.

-- Which account that is. The application cannot write it: what is swept below is chosen by this row.
create table sandbox (
  only_row boolean primary key default true check (only_row),
  account_id text collate "C" not null unique references accounts,
  created_at timestamptz not null
);

grant select on sandbox to mandate_app;

-- The agent secrets of sandbox mandates; what has a row here is what may be swept.
create table sandbox_mandates (
  account_id text collate "C" not null references sandbox (account_id),
  mandate_id text collate "C" not null,
  secret_hash bytea not null check (octet_length(secret_hash) = 32),
  created_at timestamptz not null,
  primary key (account_id, mandate_id),
  foreign key (account_id, mandate_id) references mandates
);

grant select, insert on sandbox_mandates to mandate_app;

-- The sandbox's account, made with this identifier where there is none yet. It is always a new account, so no real one
-- can become the sandbox; it has no password that could match and no second factor, without which no sign-in finds it.
create function open_sandbox(p_account_id text) returns text language plpgsql security definer
  set search_path = pg_catalog, public, pg_temp as $$
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
end $$;

-- Deletes what sandbox mandates that ended leave behind, and returns how many mandates went. Held keys go an hour after
-- the end, when no presentation that they signed is valid any more; the rest a day after it, when nothing can be booked
-- any more. Evidence stays. With the rights of the owner, because the application may delete no mandate: it takes no
-- account from its caller, and touches only rows of the sandbox's.
create function sweep_sandbox(p_limit integer) returns integer language plpgsql security definer
  set search_path = pg_catalog, public, pg_temp as $$
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
end $$;

revoke execute on function open_sandbox(text), sweep_sandbox(integer) from public;
grant execute on function open_sandbox(text), sweep_sandbox(integer) to mandate_app;
