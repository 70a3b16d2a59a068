-- What runs by the clock finds its work by these, whatever the history.

create index mandates_due on mandates (valid_until)
  where valid_until is not null and status in ('draft', 'active', 'suspended');
create index sessions_expiry on sessions (expires_at);

-- Entries of a kind that is rare among decisions and their outcomes; those two are not in it, so that the way of a
-- request does not pay for it.
create index evidence_rare_kinds on evidence (account_id, kind, seq) where kind not in ('decision', 'outcome');
