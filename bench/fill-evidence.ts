import type { Sql } from '../control-plane/db/client.ts';
import type { SeededAccount } from './seed.ts';

/** Continues the account's chain in SQL with entries like a decision's; the trigger is off only while this runs. */
export async function fillEvidence(sql: Sql, account: SeededAccount, count: number): Promise<void> {
  await sql.unsafe(`create or replace procedure fill_evidence(p_account text, p_count bigint) language plpgsql as $$
    declare
      v_prev bytea := decode(repeat('00', 32), 'hex');
      v_body text := '{"filler":"' || repeat('x', 800) || '"}';
      v_at text := rfc3339(db_clock());
      v_id text;
      v_hash bytea;
      v_chunk bigint := 20000;
      v_from bigint := 0;
      v_prevs bytea[]; v_hashes bytea[]; v_ids text[];
    begin
      while v_from < p_count loop
        v_prevs := '{}'; v_hashes := '{}'; v_ids := '{}';
        for i in v_from .. least(v_from + v_chunk, p_count) - 1 loop
          v_id := 'rcp_' || lpad(i::text, 26, '0');
          v_hash := evidence_leaf_hash(p_account, i, v_id, 'decision', v_at, v_prev, v_body);
          v_prevs := v_prevs || v_prev; v_hashes := v_hashes || v_hash; v_ids := v_ids || v_id;
          v_prev := v_hash;
        end loop;
        insert into evidence (account_id, seq, id, kind, at, prev, hash, body)
        select p_account, v_from + n - 1, i, 'decision', v_at, p, h, v_body
        from unnest(v_prevs, v_hashes, v_ids) with ordinality as u (p, h, i, n);
        v_from := least(v_from + v_chunk, p_count);
        commit;
      end loop;
      update account_heads set size = p_count, hash = v_prev, edge = evidence_grow_tree(p_account, p_count)
      where account_id = p_account;
    end $$`);
  const parts = ['evidence', ...Array.from({ length: 8 }, (_, i) => `evidence_p${i}`)];
  for (const part of parts) await sql.unsafe(`alter table ${part} disable trigger evidence_chain`);
  await sql.unsafe(`call fill_evidence('${account.accountId}', ${count})`);
  for (const part of parts) await sql.unsafe(`alter table ${part} enable always trigger evidence_chain`);
  await sql.unsafe('vacuum analyze evidence');
}
