import type { Sql } from '../db/client.ts';

/** What an identifier is called, and where its page is; `currency` is a mandate's. */
export interface Named {
  readonly name: string;
  readonly currency: string | null;
  readonly path: string | null;
}
export type Names = ReadonlyMap<string, Named>;

/** The names of mandates, gateway instances and API keys of an account; what it has not is left out. */
export async function readNames(sql: Sql, accountId: string, ids: readonly (string | null)[]): Promise<Names> {
  const asked = [...new Set(ids.filter((id) => id !== null))];
  if (asked.length === 0) return new Map();
  const rows = await sql<{ id: string; name: string; currency: string | null }[]>`
    select mandate_id as id, name, currency::text as currency from mandates
      where account_id = ${accountId} and mandate_id = any (${asked}::text[])
    union all
    select instance_id, name, null from gateway_instances
      where account_id = ${accountId} and instance_id = any (${asked}::text[])
    union all
    select key_id, name, null from api_keys
      where account_id = ${accountId} and key_id = any (${asked}::text[])`;
  return new Map(rows.map(({ id, name, currency }) => [id, { name, currency, path: pathOf(id) }]));
}

function pathOf(id: string): string | null {
  if (id.startsWith('mdt_')) return `/console/mandates/${id}`;
  return id.startsWith('gwi_') ? `/console/gateways/${id}` : null;
}
