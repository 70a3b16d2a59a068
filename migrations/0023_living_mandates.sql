-- The mandates that are not over: how many an account has, and whom its stop hits, is found whatever the history.

create index mandates_living on mandates (account_id, mandate_id) where status in ('draft', 'active', 'suspended');
