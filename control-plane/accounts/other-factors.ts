import type { CommandContext } from '../decisions/command.ts';

/**
 * Removes within a command what else signs an account in: its passkeys and its recovery codes. For whoever changes a
 * password or an authenticator because somebody else had been in.
 */
export async function removeOtherFactors({ sql, accountId, append }: CommandContext): Promise<void> {
  const gone = await sql<{ passkey_id: string }[]>`
    delete from passkeys where account_id = ${accountId} returning passkey_id`;
  for (const { passkey_id } of gone) append('account.passkey_removed', { passkey_id });
  const codes = await sql`delete from recovery_codes where account_id = ${accountId} returning code_hash`;
  if (codes.length > 0) append('account.recovery_codes', { count: 0 });
}
