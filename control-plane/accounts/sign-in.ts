import { ProblemError } from '../../core/errors.ts';
import type { Sql } from '../db/client.ts';
import type { CommandContext } from '../decisions/command.ts';
import type { RouteDependencies } from '../http/dependencies.ts';
import { lockedOut, type UnknownAddresses } from './lock-out.ts';
import { verifyPassword } from './password.ts';
import { countFailure, type FactorVerdict, findCode, lockOf, readFactor, useCode } from './second-factor.ts';
import { CLI_ORIGIN, createSession, type SessionAnswer, type SessionOrigin } from './sessions.ts';

/** `code`: six digits of the authenticator, or a recovery code. */
export interface Credentials {
  readonly email: string;
  readonly password: string;
  readonly code: string;
}

/**
 * Signs a person in with both factors.
 *
 * Whether the address, the password or the code was wrong cannot be told from the answer. A code works once: its step
 * must be after the last one used, which is compared and moved under the account's head lock. After some failures in a
 * row the account is locked, whatever is presented then; an address without an account locks the same way.
 *
 * @throws ProblemError 401 `unauthenticated`, 429 `locked_out`, 503 `overloaded`
 */
export async function signIn(
  deps: RouteDependencies,
  unknown: UnknownAddresses,
  credentials: Credentials,
  origin: SessionOrigin = CLI_ORIGIN,
): Promise<SessionAnswer> {
  const { email, password, code } = credentials;
  const { account, nowMs } = await findAccount(deps.sql, email);
  // Before the work of hashing: a locked account must not be a way to keep the machine busy.
  if (account === null) unknown.refuseLocked(email, nowMs);
  else if (account.lockedMs !== null && account.lockedMs > nowMs) throw lockedOut(account.lockedMs, nowMs);
  const right = await verifyPassword(password, account?.passwordHash ?? null);
  if (account === null) {
    // Again: attempts that were many at once are no more here than the lock allows.
    unknown.refuseLocked(email, nowMs);
    unknown.count(email, nowMs);
    throw refused();
  }
  const verdict = await deps.commands.command(account.accountId, (context) =>
    judge(deps, context, { right, code, origin }),
  );
  switch (verdict.kind) {
    case 'right':
      unknown.forget(email);
      return verdict.value;
    case 'wrong':
      throw refused();
    case 'locked':
      throw lockedOut(verdict.untilMs, verdict.nowMs);
    default:
      return verdict satisfies never;
  }
}

interface FoundAccount {
  readonly accountId: string;
  readonly passwordHash: string;
  readonly lockedMs: number | null;
}

async function findAccount(sql: Sql, email: string): Promise<{ account: FoundAccount | null; nowMs: number }> {
  const [row] = await sql<{ id: string | null; password_hash: string; locked: number | null; now: number }[]>`
    select a.account_id as id, a.password_hash, epoch_ms(a.locked_until) as locked, epoch_ms(db_clock()) as now
    from (values (1)) as always left join accounts a on a.email = ${email} and a.second_factor_at is not null`;
  if (row === undefined) throw new Error('the database told no time');
  const { id, password_hash: passwordHash, locked: lockedMs, now: nowMs } = row;
  return { account: id === null ? null : { accountId: id, passwordHash, lockedMs }, nowMs };
}

interface Attempt {
  /** Whether the password is. */
  readonly right: boolean;
  readonly code: string;
  readonly origin: SessionOrigin;
}

async function judge(
  deps: RouteDependencies,
  context: CommandContext,
  { right, code, origin }: Attempt,
): Promise<FactorVerdict<SessionAnswer>> {
  const row = await readFactor(context, 'sign_in');
  if (row === null) return { kind: 'wrong' };
  // Attempts that started before the lock did must not get past it by being many at once.
  const locked = lockOf(row, context);
  if (locked !== null) return locked;
  const found = await findCode(deps.custody, context, row, code);
  if (!right || typeof found === 'string') {
    await countFailure(context, row, right && typeof found === 'string' ? found : 'password');
    return { kind: 'wrong' };
  }
  await useCode(context, row, found);
  return { kind: 'right', value: await createSession(context, origin) };
}

function refused(): ProblemError {
  return new ProblemError('unauthenticated', 'The e-mail address, the password or the code is not right.');
}
