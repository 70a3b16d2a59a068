import type { Sql } from '../control-plane/db/client.ts';
import { MANDATE_TERMS_COLUMNS, mandateTerms } from '../control-plane/mandates/terms.ts';
import { canonicalize } from '../core/jcs.ts';
import { mandateDigest } from '../core/mandate.ts';
import type { SeededAccount } from './seed.ts';

/** Days that the decisions are spread over, the last of them now. */
const DAYS = 30;

/**
 * What a filled account has besides its mandate, its instance and its key: a second mandate with an instance of its
 * own, two agents, and two decisions in the midst of all whose mandate, instance, agent, code, currency and amount
 * nothing else has.
 */
export interface Filled {
  readonly mandates: readonly [string, string];
  readonly instances: readonly [string, string];
  readonly keyId: string;
  readonly agents: readonly [string, string];
  readonly rare: { readonly mandateId: string; readonly instanceId: string; readonly agent: string };
}

const AGENT = 'did:key:z6MkmP4hk7UzsFHqEFyGZpUJ3Bxz2n7WnGzqY5t3';
const RARE_CODE = 'MD-401';

/** What is searched for to find the one decision that is unlike all others. */
export const RARE = { code: RARE_CODE, amount: '1234.56', currency: 'CHF' } as const;

/** What a fill of this account is named by; the same every time. */
export function filledOf(account: SeededAccount, keyId: string): Filled {
  const id = (prefix: string, end: string): string => prefix.padEnd(30 - end.length, '0') + end;
  return {
    mandates: [account.mandateId, id('mdt_', '2')],
    instances: [account.instanceId, id('gwi_', '2')],
    keyId,
    agents: [`${AGENT}${'a'.repeat(8)}`, `${AGENT}${'b'.repeat(8)}`],
    rare: { mandateId: id('mdt_', '3'), instanceId: id('gwi_', '3'), agent: `${AGENT}${'c'.repeat(8)}` },
  };
}

/**
 * Begins an account's chain with its mandate and `count` decisions as gateways and verifications write them, and
 * indexes them; the triggers are off only while this runs.
 *
 * Of ten decisions seven are allowed, two denied and one escalated; of three, two are of the first mandate; of five,
 * one is a verification. The oldest twentieth is of larger amounts (from 200), and half of it was denied by MD-203, as
 * nothing was later: matches that are far from where a search begins.
 */
export async function fillDecisions(sql: Sql, account: SeededAccount, filled: Filled, count: number): Promise<void> {
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
  const list = (values: readonly string[]): string => `array[${values.map(text).join(', ')}]`;
  const { mandates, instances, agents, rare, keyId } = filled;
  const given = [
    text(account.accountId),
    list([...instances, rare.instanceId]),
    list([...mandates, rare.mandateId]),
    list([...agents, rare.agent]),
    ...[keyId, account.toolId, mandateDigest(terms), created].map(text),
  ];
  await sql.unsafe(`call fill_decisions(${given.join(', ')}, ${count}, ${DAYS})`);
  for (const part of parts) await sql.unsafe(`alter table ${part} enable always trigger evidence_chain`);
  await index(sql, account.accountId, count);
  await sql.unsafe('vacuum analyze');
}

const PROCEDURE = `create or replace procedure fill_decisions(p_account text, p_instances text[], p_mandates text[],
    p_agents text[], p_key text, p_tool text, p_digest text, p_created text, p_count bigint, p_days integer)
  language plpgsql as $$
  declare
    v_prev bytea := decode(repeat('00', 32), 'hex');
    v_end timestamptz := db_clock();
    v_codes text[] := '{MD-302,MD-303,MD-304,MD-501,MD-502}';
    v_body text; v_at text; v_id text; v_kind text; v_code text; v_hash bytea; v_decision text; v_currency text;
    v_amount bigint; v_whose integer; v_agent integer; v_old boolean;
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
          v_old := i * 20 < p_count;
          v_decision := case i % 10 when 7 then 'deny' when 8 then 'deny' when 9 then 'escalate' else 'allow' end;
          v_amount := i * 37 % 9000 + case when v_old then 20000 else 100 end;
          v_currency := case i % 50 when 1 then 'USD' else 'EUR' end;
          v_whose := case i % 3 when 0 then 2 else 1 end;
          v_agent := 1 + i / 5 % 2;
          if v_old and i % 2 = 0 then v_decision := 'deny'; end if;
          v_code := case when v_decision <> 'deny' then null when v_old and i % 2 = 0 then 'MD-203'
            else v_codes[1 + i / 10 % 5] end;
          if i in (p_count / 2 + 1, p_count / 2 + 2) then
            v_decision := 'deny'; v_code := '${RARE_CODE}'; v_amount := 123456; v_currency := 'CHF'; v_whose := 3;
            v_agent := 3;
          end if;
          v_body := '{"action":{"amount":' || v_amount || ',"counterparty":"shop-' || i % 500
            || '","currency":"' || v_currency || '","type":"payments.create"}'
            || coalesce(',"code":"' || v_code || '"', '')
            || ',"ctx":"sha-256:' || repeat('a', 64) || '","decision":"' || v_decision || '","denial_code_version":1'
            || case when i % 5 = 2 then ',"key":"' || p_key else ',"instance":"' || p_instances[v_whose] end || '"'
            || ',"mandate":{"digest":"' || p_digest || '","id":"' || p_mandates[v_whose]
            || '","status":"active","uses":' || i || ',"version":1}'
            || ',"month":{"booked":100000,"month":"2026-01-01","reserved":0}'
            || case when i % 5 = 2 then ',"path":"verify","presentation":{"document":{"proof":{"verificationMethod":"'
                || p_agents[v_agent] || '"}}}' else ',"path":"gateway"' end
            || case when v_code is null then '' else ',"reason_text":"It was refused for the sake of this bench."' end
            || case when i % 5 = 2 then ',"request_sha256":"' || repeat('b', 64) || '"}'
               else ',"request":{"bindable":true,"body_sha256":"' || repeat('b', 64)
                || '","method":"POST","path":"/payments","query":""},"tool":{"id":"' || p_tool
                || '","key":"http.post:/payments","state":"mapped","version":1}}' end;
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
    select account_id, seq, at::timestamptz, coalesce(b ->> 'instance', b ->> 'key'), b -> 'mandate' ->> 'id',
      b #>> '{presentation,document,proof,verificationMethod}', b ->> 'decision',
      b ->> 'code', b -> 'action' ->> 'currency', (b -> 'action' ->> 'amount')::bigint
    from (select account_id, seq, at, body::json as b from evidence
      where account_id = ${accountId} and kind = 'decision') e`;
  await sql`
    insert into decision_days (account_id, mandate_id, day, decision, code, decisions, amount)
    select account_id, mandate_id, (at at time zone 'UTC')::date, decision, coalesce(code, ''), count(*), sum(amount)
    from decision_search where account_id = ${accountId} group by 1, 2, 3, 4, 5`;
  await sql`insert into decision_positions (account_id, next_seq) values (${accountId}, ${count + 1})`;
}
