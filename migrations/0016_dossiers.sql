-- What a dossier is put together from is found by index, whatever the history.

-- Whom an entry is about: an escalation, else a receipt, else a mandate; null where it is about none of these. By
-- pattern and not by parsing, so that no text in a body can make an insert fail: a quote inside of a JSON string is
-- escaped, so that only a member can look like this.
create function evidence_subject(body text) returns text language sql immutable parallel safe
  set search_path = pg_catalog as $$
  select coalesce(
    substring(body from '"escalation_id":"(esc_[0-9a-z]{26})"'),
    substring(body from '"receipt_id":"(rcp_[0-9a-z]{26})"'),
    substring(body from '"mandate_id":"(mdt_[0-9a-z]{26})"'))
$$;

-- Of the kinds that are rare among decisions and outcomes, so that the way of a request does not pay for it. A decision
-- is found by its receipt, which is its identifier.
create index evidence_subjects on evidence (account_id, evidence_subject(body), seq)
  where kind not in ('decision', 'outcome');

-- Outcomes that were told a second or more after their decision. The others are not listed anywhere: they lie within a
-- second's entries behind their decision, and a row for each would be paid for by every request.
create table late_outcomes (
  account_id text collate "C" not null,
  receipt_id text collate "C" not null,
  seq bigint not null,
  primary key (account_id, receipt_id, seq)
);

insert into late_outcomes (account_id, receipt_id, seq)
select e.account_id, told.value ->> 'receipt_id', e.seq
from evidence e
cross join lateral json_array_elements(e.body::json -> 'outcomes') told
join evidence d on d.account_id = e.account_id and d.id = told.value ->> 'receipt_id' and d.kind <> 'outcome'
where e.kind = 'outcome' and e.at::timestamptz >= d.at::timestamptz + interval '1 second'
on conflict do nothing;

grant select, insert on late_outcomes to mandate_app;
