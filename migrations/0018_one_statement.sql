-- A batch with verifications is one statement as well: a transaction by itself, without `begin` and `commit`.

-- `record_decisions` with its parameters, then `record_authorisations` with its own; returns the time.
create function record_and_authorise(
  integer, bigint, text, text, text, text, text, text, text, text, text, text, text, text, text, text, integer,
  integer, text, text, text, text, text, text, text, text, text, text, text, bigint, integer, text, text, text, text,
  text, text, text, text, text,
  text, text, text, text, text, text, text, text, text, text, text, text, text, bigint, bigint
) returns bigint language plpgsql as $$
declare
  v_now bigint;
begin
  v_now := record_decisions(
    $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24,
    $25, $26, $27, $28, $29, $30, $31, $32, $33, $34, $35, $36, $37, $38, $39, $40);
  perform record_authorisations(
    $41, $42, $43, $44, $45, $46, $47, $48, $49, $50, $51, $52, $53, $54, $55);
  return v_now;
end $$;

-- It was looked up, and its mandate's row locked, once for each verification. `record_decisions` refuses a month that
-- is not there, a month has its mandate, and mandates are never deleted (the sandbox's go with their authorisations).
alter table authorisations drop constraint authorisations_account_id_mandate_id_fkey;
