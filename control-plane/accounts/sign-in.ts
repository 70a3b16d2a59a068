import { ProblemError } from '../../core/errors.ts';
import type { AdminDependencies } from '../admin/dependencies.ts';
import type { CommandContext } from '../decisions/command.ts';
import { verifyPassword } from './password.ts';
import { createSession, type SessionAnswer } from './sessions.ts';
import { totpStep } from './totp.ts';

/** Failures in a row that an account is allowed before it is locked. */
export const FAILURES_MAX = 5;
/** The first lock; each further failure doubles it up to the longest. */
export const LOCK_FIRST_MS = 30_000;
export const LOCK_LONGEST_MS = 15 * 60_000;

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
 * must be after the last one used, which is compared and moved under the account's head lock. After `FAILURES_MAX`
 * failures in a row the account is locked, whatever is presented then.
 *
 * @throws ProblemError 401 `unauthenticated`, 429 `locked_out`, 503 `overloaded`
 */
export async function signIn(deps: AdminDependencies, credentials: Credentials): Promise<SessionAnswer> {
  const [account] = await deps.sql<{ account_id: string; password_hash: string; locked: number | null; now: number }[]>`
    select account_id, password_hash, epoch_ms(locked_until) as locked, epoch_ms(db_clock()) as now
    from accounts where email = ${credentials.email} and second_factor_at is not null`;
  // Before the work of hashing: a locked account must not be a way to keep the machine busy.
  if (account !== undefined && account.locked !== null && account.locked > account.now) {
    throw lockedOut(account.locked, account.now);
  }
  const right = await verifyPassword(credentials.password, account?.password_hash ?? null);
  if (account === undefined) throw refused();
  const verdict = await deps.commands.command(account.account_id, (context) =>
    judge(deps, context, right, credentials.code),
  );
  switch (verdict.kind) {
    case 'signed_in':
      return verdict.answer;
    case 'refused':
      throw refused();
    case 'locked':
      throw lockedOut(verdict.untilMs, verdict.nowMs);
    default:
      return verdict satisfies never;
  }
}

interface SecondFactor {
  readonly totp_sealed: Buffer;
  readonly totp_last_step: number;
  readonly failed_attempts: number;
  readonly locked: number | null;
}

async function judge(deps: AdminDependencies, context: CommandContext, right: boolean, code: string): Promise<Verdict> {
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

/** How long an account is locked after this many failures in a row, in milliseconds; 0: not at all. */
export function lockAfter(failures: number): number {
  if (failures < FAILURES_MAX) return 0;
  return Math.min(LOCK_LONGEST_MS, LOCK_FIRST_MS * 2 ** Math.min(failures - FAILURES_MAX, 16));
}

function refused(): ProblemError {
  return new ProblemError('unauthenticated', 'The e-mail address, the password or the code is not right.');
}

function lockedOut(untilMs: number, nowMs: number): ProblemError {
  const retryAfterSeconds = Math.max(1, Math.ceil((untilMs - nowMs) / 1000));
  return new ProblemError('locked_out', 'Too many attempts failed; wait before the next one.', { retryAfterSeconds });
}
