import { formatDidKey } from '../../core/did-key.ts';
import { newSeed, SigningKey } from '../../core/ed25519.ts';
import type { Sql } from '../db/client.ts';
import type { CommandContext } from '../decisions/command.ts';
import type { Custody } from './custody.ts';

/**
 * Makes the key that signs for a mandate's agent on path 1, sealed, in the transaction that makes the mandate.
 *
 * It never leaves the control plane, and its did:key is not shown (contract §3). Source: contract §§1, 3.
 */
export async function createAgentKey(context: CommandContext, custody: Custody, mandateId: string): Promise<void> {
  const { sql, accountId, now } = context;
  const seed = newSeed();
  const did = formatDidKey(new SigningKey(seed).publicKey);
  const sealed = custody.seal(accountId, 'agent', mandateId, seed);
  seed.fill(0);
  await sql`insert into agent_keys (account_id, mandate_id, did, sealed, created_at)
    values (${accountId}, ${mandateId}, ${did}, ${sealed}, ${now})`;
}

/** Opens the held key of a mandate for one use; null where the mandate has none. */
export async function openAgentKey(
  sql: Sql,
  custody: Custody,
  { accountId, mandateId }: { readonly accountId: string; readonly mandateId: string },
): Promise<SigningKey | null> {
  const [row] = await sql<{ sealed: Buffer }[]>`
    select sealed from agent_keys where account_id = ${accountId} and mandate_id = ${mandateId}`;
  if (row === undefined) return null;
  const seed = custody.open(accountId, 'agent', mandateId, row.sealed);
  try {
    return new SigningKey(seed);
  } finally {
    seed.fill(0);
  }
}
