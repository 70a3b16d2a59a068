import { newTypeId } from '../../core/type-id.ts';
import type { Sql } from '../db/client.ts';

/**
 * The account that all sandbox mandates belong to, made at the first start.
 *
 * Nobody can sign in to it. Control planes that start together get the same one. Source: docs/design/0009-sandbox.md.
 */
export async function openSandbox(sql: Sql): Promise<string> {
  const [found] = await sql<{ account_id: string | null; now_ms: number }[]>`
    select (select account_id from sandbox) as account_id, epoch_ms(db_clock()) as now_ms`;
  if (found === undefined) throw new Error('the database told no time');
  if (found.account_id !== null) return found.account_id;
  const [made] = await sql<{ account_id: string }[]>`
    select open_sandbox(${newTypeId('acc', found.now_ms)}) as account_id`;
  if (made === undefined) throw new Error('the database made no account for the sandbox');
  return made.account_id;
}
