import type { RouteDependencies } from '../http/dependencies.ts';
import { lockedOut } from './lock-out.ts';
import { removeOtherFactors } from './other-factors.ts';
import { hashPassword, verifyPassword } from './password.ts';
import { countFailure, lockOf, readFactor } from './second-factor.ts';
import { renewSession, revokeSessions, type Session } from './sessions.ts';

/** `removeOthers`: whether the account's passkeys and recovery codes end as well. */
export interface PasswordChange {
  readonly present: string;
  readonly next: string;
  readonly removeOthers: boolean;
}

/**
 * Changes the password of a session that has just shown a second factor; every other session ends. Returns the
 * session's new token, or null where `present` is not the password, which counts towards the account's lock for
 * sessions.
 *
 * @throws ProblemError 429 `locked_out`, 503 `overloaded`
 */
export async function changePassword(
  deps: Pick<RouteDependencies, 'commands' | 'sql'>,
  session: Session,
  { present, next, removeOthers }: PasswordChange,
): Promise<string | null> {
  const { accountId, sessionId } = session;
  const [row] = await deps.sql<{ password_hash: string }[]>`
    select password_hash from accounts where account_id = ${accountId}`;
  const right = await verifyPassword(present, row?.password_hash ?? null);
  const hash = right ? await hashPassword(next) : '';
  const verdict = await deps.commands.command(accountId, async (context) => {
    const factor = await readFactor(context, 'session');
    if (factor === null) return null;
    const locked = lockOf(factor, context);
    if (locked !== null) return locked;
    if (!right) {
      await countFailure(context, factor, 'password');
      return null;
    }
    // Before anything else: a session that was ended meanwhile changes nothing any more.
    const token = await renewSession(context, sessionId);
    if (token === null) return null;
    const changed = await context.sql`
      update accounts set password_hash = ${hash}
      where account_id = ${accountId} and password_hash = ${row?.password_hash ?? ''} returning account_id`;
    // Somebody else changed it since it was compared.
    if (changed.length === 0) return null;
    context.append('account.password_changed', {});
    if (removeOthers) await removeOtherFactors(context);
    await revokeSessions(context, sessionId, 'password_changed');
    return token;
  });
  if (verdict === null || typeof verdict === 'string') return verdict;
  if (verdict.kind === 'locked') throw lockedOut(verdict.untilMs, verdict.nowMs);
  return null;
}
