-- The mandates that are not over: how many an account has, and whom its stop hits, is found whatever the history.
create index mandates_living on mandates (account_id, mandate_id) where status in ('draft', 'active', 'suspended');

-- Where more deliveries are due than can be looked through, the accounts that have some are found one after another. An
-- expression, so that no plan made without statistics takes notification_deliveries_due for it.
create index notification_deliveries_turns
  on notification_deliveries (((channel || ' ' || account_id) collate "C"), next_at) where state = 'pending';

-- Who chose what they are told by mail could not choose this: another key to the account.
update notification_settings set mail_events = mail_events || 'account.passkey_added'::text where mail;
