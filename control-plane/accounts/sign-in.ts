import { ProblemError } from '../../core/errors.ts';
import type { Sql } from '../db/client.ts';
import type { CommandContext } from '../decisions/command.ts';
import type { RouteDependencies } from '../http/dependencies.ts';
import { lockAfter, lockedOut, type UnknownAddresses } from './lock-out.ts';
import { verifyPassword } from './password.ts';
import { createSession, type SessionAnswer } from './sessions.ts';
import { totpStep } from './totp.ts';

export interface Credentials {
  readonly email: string;
  readonly password: string;
  readonly code: string;
}

type Verdict =
  | { readonly kind: 'signed_in'; readonly answer: SessionAnswer }
  | { readonly kind: 'refused' }
  | { readonly kind: 'locked'; readonly untilMs: number; readonly nowMs: number };

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
  const verdict = await deps.commands.command(account.accountId, (context) => judge(deps, context, right, code));
  switch (verdict.kind) {
    case 'signed_in':
      unknown.forget(email);
      return verdict.answer;
    case 'refused':
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

interface SecondFactor {
  readonly totp_sealed: Buffer;
  readonly totp_last_step: number;
  readonly failed_attempts: number;
  readonly locked: number | null;
}

async function judge(deps: RouteDependencies, context: CommandContext, right: boolean, code: string): Promise<Verdict> {
  const { sql, accountId, nowMs } = context;
  const [row] = await sql<SecondFactor[]>`
    select totp_sealed, totp_last_step, failed_attempts, epoch_ms(locked_until) as locked
    from accounts where account_id = ${accountId}`;
  if (row === undefined) return { kind: 'refused' };
  // Attempts that started before the lock did must not get past it by being many at once.
  if (row.locked !== null && row.locked > nowMs) return { kind: 'locked', untilMs: row.locked, nowMs };
  const secret = deps.custody.open(accountId, 'totp', accountId, row.totp_sealed).toString('utf8');
  const step = totpStep(secret, code, nowMs);
  const fresh = step !== null && step > row.totp_last_step;
  if (!right || !fresh) {
    await countFailure(context, row.failed_attempts + 1, right ? (step === null ? 'code' : 'code_used') : 'password');
    return { kind: 'refused' };
  }
  await sql`
    update accounts set totp_last_step = ${step}::bigint, failed_attempts = 0, locked_until = null
    where account_id = ${accountId}`;
  return { kind: 'signed_in', answer: await createSession(context) };
}

async function countFailure(
  { sql, accountId, nowMs, append }: CommandContext,
  failures: number,
  factor: 'password' | 'code' | 'code_used',
): Promise<void> {
  const lockMs = lockAfter(failures);
  const untilMs = lockMs === 0 ? null : nowMs + lockMs;
  // Counting further than the longest lock needs would change nothing.
  await sql`
    update accounts set failed_attempts = least(${failures}::bigint, 1000)::integer, locked_until = ${untilMs}
    where account_id = ${accountId}`;
  append('session.refused', {
    reason: factor,
    failures,
    locked_until: untilMs === null ? null : new Date(untilMs).toISOString(),
  });
}

function refused(): ProblemError {
  return new ProblemError('unauthenticated', 'The e-mail address, the password or the code is not right.');
}
