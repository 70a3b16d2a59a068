import type { Sql } from '../control-plane/db/client.ts';
import { MANDATE_TERMS_COLUMNS, mandateTerms } from '../control-plane/mandates/terms.ts';
import { canonicalize } from '../core/jcs.ts';
import { mandateDigest } from '../core/mandate.ts';
import type { SeededAccount } from './seed.ts';

/** Days that the decisions are spread over, the last of them now. */
const DAYS = 30;

/**
 * Begins an account's chain with its mandate and `count` decisions as a gateway's are written, and indexes them; the
 * triggers are off only while this runs. Of ten decisions seven are allowed, two denied and one escalated.
 */
export async function fillDecisions(sql: Sql, account: SeededAccount, count: number): Promise<void> {
  await sql.unsafe(PROCEDURE);
  const parts = ['evidence', ...Array.from({ length: 8 }, (_, i) => `evidence_p${i}`)];
  for (const part of parts) await sql.unsafe(`alter table ${part} disable trigger evidence_chain`);
  const [row] = await sql.unsafe(`select ${MANDATE_TERMS_COLUMNS} from mandates where mandate_id = $1`, [
    account.mandateId,
  ]);
  const terms = mandateTerms(row as Record<string, unknown>);
  const complete = { ...terms, scope: [...terms.scope], counterparties: [...terms.counterparties] };
  const created = canonicalize({ terms: complete, digest: mandateDigest(terms), name: 'bench' });
  const text = (value: string): string => `'${value.replaceAll("'", "''")}'`;
  const given = [
    account.accountId,
    account.instanceId,
    account.mandateId,
    account.toolId,
    mandateDigest(terms),
    created,
  ];
  await sql.unsafe(`call fill_decisions(${given.map(text).join(', ')}, ${count}, ${DAYS})`);
  for (const part of parts) await sql.unsafe(`alter table ${part} enable always trigger evidence_chain`);
  await index(sql, account.accountId, count);
  await sql.unsafe('vacuum analyze');
}

const PROCEDURE = `create or replace procedure fill_decisions(p_account text, p_instance text, p_mandate text,
    p_tool text, p_digest text, p_created text, p_count bigint, p_days integer) language plpgsql as $$
  declare
    v_prev bytea := decode(repeat('00', 32), 'hex');
    v_end timestamptz := db_clock();
    v_codes text[] := '{MD-302,MD-303,MD-304,MD-501,MD-502}';
    v_body text; v_at text; v_id text; v_kind text; v_code text; v_hash bytea;
    v_chunk bigint := 20000; v_from bigint := 0;
    v_prevs bytea[]; v_hashes bytea[]; v_ids text[]; v_bodies text[]; v_ats text[]; v_kinds text[];
  begin
    while v_from <= p_count loop
      v_prevs := '{}'; v_hashes := '{}'; v_ids := '{}'; v_bodies := '{}'; v_ats := '{}'; v_kinds := '{}';
      for i in v_from .. least(v_from + v_chunk - 1, p_count) loop
        v_at := rfc3339(v_end - make_interval(secs => (p_count - i)::float8 * p_days * 86400 / p_count));
        if i = 0 then
          v_kind := 'mandate.created'; v_id := 'evt_' || lpad('0', 26, '0'); v_body := p_created;
        else
          v_kind := 'decision'; v_id := 'rcp_' || lpad(i::text, 26, '0');
          v_code := case when i % 10 in (7, 8) then v_codes[1 + i / 10 % 5] end;
          v_body := '{"action":{"amount":' || (i * 37 % 9000 + 100) || ',"counterparty":"shop-' || i % 500
            || '","currency":"EUR","type":"payments.create"}' || coalesce(',"code":"' || v_code || '"', '')
            || ',"ctx":"sha-256:' || repeat('a', 64) || '","decision":"'
            || case when v_code is not null then 'deny' when i % 10 = 9 then 'escalate' else 'allow' end
            || '","denial_code_version":1,"instance":"' || p_instance || '","mandate":{"digest":"' || p_digest
            || '","id":"' || p_mandate || '","status":"active","uses":' || i || ',"version":1}'
            || ',"month":{"booked":100000,"month":"2026-01-01","reserved":0},"path":"gateway"'
            || case when v_code is null then '' else ',"reason_text":"It was refused for the sake of this bench."' end
            || ',"request":{"bindable":true,"body_sha256":"' || repeat('b', 64)
            || '","method":"POST","path":"/payments","query":""},"tool":{"id":"' || p_tool
            || '","key":"http.post:/payments","state":"mapped","version":1}}';
        end if;
        v_hash := evidence_leaf_hash(p_account, i, v_id, v_kind, v_at, v_prev, v_body);
        v_prevs := v_prevs || v_prev; v_hashes := v_hashes || v_hash; v_ids := v_ids || v_id;
        v_bodies := v_bodies || v_body; v_ats := v_ats || v_at; v_kinds := v_kinds || v_kind;
        v_prev := v_hash;
      end loop;
      insert into evidence (account_id, seq, id, kind, at, prev, hash, body)
      select p_account, v_from + n - 1, i, k, t, p, h, b
      from unnest(v_prevs, v_hashes, v_ids, v_bodies, v_ats, v_kinds) with ordinality as u (p, h, i, b, t, k, n);
      v_from := v_from + v_chunk;
      commit;
    end loop;
    update account_heads set size = p_count + 1, hash = v_prev, at = v_end,
      edge = evidence_grow_tree(p_account, p_count + 1) where account_id = p_account;
  end $$`;

/** The index that the job would fill in some minutes. */
async function index(sql: Sql, accountId: string, count: number): Promise<void> {
  await sql`
    insert into decision_search (account_id, seq, at, subject_id, mandate_id, agent, decision, code, currency, amount)
    select account_id, seq, at::timestamptz, b ->> 'instance', b -> 'mandate' ->> 'id', null, b ->> 'decision',
      b ->> 'code', b -> 'action' ->> 'currency', (b -> 'action' ->> 'amount')::bigint
    from (select account_id, seq, at, body::json as b from evidence
      where account_id = ${accountId} and kind = 'decision') e`;
  await sql`
    insert into decision_days (account_id, mandate_id, day, decision, code, decisions, amount)
    select account_id, mandate_id, (at at time zone 'UTC')::date, decision, coalesce(code, ''), count(*), sum(amount)
    from decision_search where account_id = ${accountId} group by 1, 2, 3, 4, 5`;
  await sql`insert into decision_positions (account_id, next_seq) values (${accountId}, ${count + 1})`;
}
