import { ProblemError } from '../../core/errors.ts';
import { SANDBOX_LIFE_MS, SANDBOX_MANDATES_MAX, SANDBOX_USES_MAX } from '../../core/limits.ts';
import { newSecretToken, sameHash, secretHash } from '../../core/secret-token.ts';
import type { Custody } from '../custody/custody.ts';
import type { Sql } from '../db/client.ts';
import type { CommandContext } from '../decisions/command.ts';
import { mandateInput } from '../mandates/input.ts';
import { insertMandate } from '../mandates/routes.ts';
import type { SandboxMandateInput } from './input.ts';

/** How long to wait where the sandbox is full: some mandates end every few minutes then. */
const FULL_RETRY_SECONDS = 300;

/** A sandbox mandate as it is answered, once, to whoever made it. */
export interface SandboxMandate {
  readonly mandate_id: string;
  readonly agent_secret: string;
  readonly status: 'active';
  readonly expires_at: string;
}

/**
 * Makes an active mandate of the sandbox, with a held key and an agent secret of which only the hash is stored.
 *
 * @throws ProblemError 503 `overloaded` where the sandbox is full, 422 `invalid`
 */
export async function createSandboxMandate(
  context: CommandContext,
  custody: Custody,
  input: SandboxMandateInput,
): Promise<SandboxMandate> {
  const { sql, accountId } = context;
  const [kept] = await sql<{ count: number }[]>`
    select count(*) as count from sandbox_mandates where account_id = ${accountId}`;
  if (kept === undefined || kept.count >= SANDBOX_MANDATES_MAX) {
    const detail = 'The sandbox is full at present.';
    throw new ProblemError('overloaded', detail, { retryAfterSeconds: FULL_RETRY_SECONDS });
  }
  const expiresAt = new Date(context.nowMs + SANDBOX_LIFE_MS).toISOString();
  const mandateId = await insertMandate(context, custody, {
    ...mandateInput.parse({ ...input, name: 'Sandbox mandate', activate: true }),
    valid_until: expiresAt,
    max_uses: SANDBOX_USES_MAX,
  });
  const secret = newSecretToken('ags');
  await sql`insert into sandbox_mandates (account_id, mandate_id, secret_hash, created_at)
    values (${accountId}, ${mandateId}, decode(${secretHash(secret)}, 'hex'), ${context.now})`;
  return { mandate_id: mandateId, agent_secret: secret, status: 'active', expires_at: expiresAt };
}

/** What a secret is compared with where there is no such mandate: the hash of nothing that could be sent. */
const NOBODYS = '0'.repeat(64);

/**
 * Passes where this is the secret of the mandate's agent and the mandate still lives.
 *
 * @throws ProblemError 404 `not_found`, whether the mandate or its secret is the wrong one; 409 `conflict` where its
 *   time is over or it was used as often as it may be
 */
export async function requireAgentSecret(
  sql: Sql,
  shown: { readonly accountId: string; readonly mandateId: string; readonly secret: string },
): Promise<void> {
  const { accountId, mandateId, secret } = shown;
  const [row] = await sql<{ hash: string; status: string; over: boolean }[]>`
    select encode(s.secret_hash, 'hex') as hash, m.status, m.valid_until <= db_clock() as over
    from sandbox_mandates s join mandates m on m.account_id = s.account_id and m.mandate_id = s.mandate_id
    where s.account_id = ${accountId} and s.mandate_id = ${mandateId}`;
  if (!sameHash(secretHash(secret), row?.hash ?? NOBODYS) || row === undefined) {
    throw new ProblemError('not_found', 'There is no sandbox mandate with this id and this agent secret.');
  }
  if (row.over) throw new ProblemError('conflict', 'The sandbox mandate has expired: make a new one.');
  if (row.status !== 'active') {
    throw new ProblemError('conflict', `The sandbox mandate is ${row.status}: make a new one.`);
  }
}
