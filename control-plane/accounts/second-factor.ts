import type { Custody } from '../custody/custody.ts';
import type { CommandContext } from '../decisions/command.ts';
import type { RouteDependencies } from '../http/dependencies.ts';
import { lockAfter, lockedOut } from './lock-out.ts';
import { removeOtherFactors } from './other-factors.ts';
import { recoveryCodeHash } from './recovery-codes.ts';
import { renewSession, revokeSessions, type Session } from './sessions.ts';
import { newTotpSecret, totpStep } from './totp.ts';

/**
 * Where a factor is shown, each with a count and a lock of its own: whoever knows an address can lock its sign-in, and
 * must not lock what a person does who is signed in.
 */
export type FactorPlace = 'sign_in' | 'session';

const COUNTERS = {
  sign_in: { failures: 'failed_attempts', until: 'locked_until' },
  session: { failures: 'session_failed_attempts', until: 'session_locked_until' },
} as const satisfies Record<FactorPlace, object>;

/** What an account's second factor and its lock at one place are; times in Unix milliseconds. */
export interface FactorRow {
  readonly place: FactorPlace;
  readonly totp_sealed: Buffer;
  readonly totp_last_step: number;
  readonly failed_attempts: number;
  readonly locked: number | null;
}

/** A code that is right, not used up yet. */
export type RightCode =
  | { readonly factor: 'totp'; readonly step: number }
  | { readonly factor: 'recovery_code'; readonly hash: string };

/** Why an attempt failed, as evidence says it. */
export type FailedFactor = 'password' | 'code' | 'code_used' | 'passkey';

/** How a check of a factor ended: failures are values, so that counting them is committed. */
export type FactorVerdict<T> =
  | { readonly kind: 'right'; readonly value: T }
  | { readonly kind: 'wrong' }
  | { readonly kind: 'locked'; readonly untilMs: number; readonly nowMs: number };

/** Reads the second factor of a command's account, with the lock of that place; null where there is none. */
export async function readFactor({ sql, accountId }: CommandContext, place: FactorPlace): Promise<FactorRow | null> {
  const { failures, until } = COUNTERS[place];
  const [row] = await sql<FactorRow[]>`
    select ${place} as place, totp_sealed, totp_last_step, ${sql(failures)} as failed_attempts,
      epoch_ms(${sql(until)}) as locked
    from accounts where account_id = ${accountId}`;
  return row ?? null;
}

/** The verdict of a lock, or null where the account is not locked. */
export function lockOf(row: FactorRow, { nowMs }: CommandContext): FactorVerdict<never> | null {
  return row.locked !== null && row.locked > nowMs ? { kind: 'locked', untilMs: row.locked, nowMs } : null;
}

/**
 * Finds what a typed code is: six digits of the authenticator, or a recovery code that was not used. A TOTP step must
 * be after the last one used: a code works once (RFC 6238 §5.2).
 */
export async function findCode(
  custody: Custody,
  context: CommandContext,
  row: FactorRow,
  code: string,
): Promise<RightCode | 'code' | 'code_used'> {
  const { sql, accountId, nowMs } = context;
  const hash = recoveryCodeHash(accountId, code);
  if (hash !== null) {
    const [found] = await sql<{ used: boolean }[]>`
      select used_at is not null as used from recovery_codes
      where account_id = ${accountId} and code_hash = decode(${hash}, 'hex')`;
    if (found === undefined) return 'code';
    return found.used ? 'code_used' : { factor: 'recovery_code', hash };
  }
  const secret = custody.open(accountId, 'totp', accountId, row.totp_sealed).toString('utf8');
  const step = totpStep(secret, code.replaceAll(' ', ''), nowMs);
  if (step === null) return 'code';
  return step > row.totp_last_step ? { factor: 'totp', step } : 'code_used';
}

/** Uses a code up; the failures before it at that place are forgotten. */
export async function useCode(
  { sql, accountId, nowMs, append }: CommandContext,
  { place }: FactorRow,
  code: RightCode,
): Promise<void> {
  const { failures, until } = COUNTERS[place];
  await sql`update accounts set ${sql(failures)} = 0, ${sql(until)} = null where account_id = ${accountId}`;
  if (code.factor === 'totp') {
    await sql`update accounts set totp_last_step = ${code.step}::bigint where account_id = ${accountId}`;
    return;
  }
  await sql`
    update recovery_codes set used_at = ${nowMs}
    where account_id = ${accountId} and code_hash = decode(${code.hash}, 'hex')`;
  append('account.recovery_code_used', {});
}

/** Counts one more failure in a row at a place, and locks the account there where there were too many. */
export async function countFailure(
  { sql, accountId, nowMs, append }: CommandContext,
  { place, failed_attempts: before }: FactorRow,
  factor: FailedFactor,
): Promise<void> {
  const failures = before + 1;
  const lockMs = lockAfter(failures);
  const untilMs = lockMs === 0 ? null : nowMs + lockMs;
  const columns = COUNTERS[place];
  // Counting further than the longest lock needs would change nothing.
  await sql`
    update accounts set ${sql(columns.failures)} = least(${failures}::bigint, 1000)::integer,
      ${sql(columns.until)} = ${untilMs}
    where account_id = ${accountId}`;
  append('session.refused', {
    reason: factor,
    place,
    failures,
    locked_until: untilMs === null ? null : new Date(untilMs).toISOString(),
  });
}

/**
 * Runs `effect` in a command once a code that was typed in a session was found right, and uses the code up with it. A
 * wrong code counts towards the account's lock for sessions, which is like that of the sign-in.
 *
 * @throws ProblemError 429 `locked_out`
 */
export async function withCode<T>(
  deps: Pick<RouteDependencies, 'commands' | 'custody'>,
  accountId: string,
  code: string,
  effect: (context: CommandContext, code: RightCode) => Promise<T>,
): Promise<FactorVerdict<T>> {
  const verdict = await deps.commands.command<FactorVerdict<T>>(accountId, async (context) => {
    const row = await readFactor(context, 'session');
    if (row === null) return { kind: 'wrong' };
    const locked = lockOf(row, context);
    if (locked !== null) return locked;
    const found = await findCode(deps.custody, context, row, code);
    if (typeof found === 'string') {
      await countFailure(context, row, found);
      return { kind: 'wrong' };
    }
    await useCode(context, row, found);
    return { kind: 'right', value: await effect(context, found) };
  });
  if (verdict.kind === 'locked') throw lockedOut(verdict.untilMs, verdict.nowMs);
  return verdict;
}

/**
 * Confirms a session with a code: its second factor is fresh from now on, and it has a new token, which is returned.
 * Null where the code is wrong or the session ended meanwhile.
 *
 * @throws ProblemError 429 `locked_out`
 */
export async function confirmSession(
  deps: Pick<RouteDependencies, 'commands' | 'custody'>,
  session: Session,
  code: string,
): Promise<string | null> {
  const verdict = await withCode(deps, session.accountId, code, async (context, { factor }) => {
    const token = await renewSession(context, session.sessionId);
    if (token !== null) context.append('session.confirmed', { session_id: session.sessionId, factor });
    return token;
  });
  return verdict.kind === 'right' ? verdict.value : null;
}

/** A second factor that is set up and not confirmed yet lives this long. */
export const SETUP_LIFE_MS = 15 * 60_000;

interface Setup {
  readonly secret: string;
  readonly expiresMs: number;
}

/** Begins another TOTP secret for an account; it is stored nowhere until it is confirmed, `sealed` carries it. */
export function newSetup(custody: Custody, accountId: string, nowMs: number): { secret: string; sealed: string } {
  const secret = newTotpSecret();
  const setup: Setup = { secret, expiresMs: nowMs + SETUP_LIFE_MS };
  const sealed = custody.seal(accountId, 'console', 'totp-setup', Buffer.from(JSON.stringify(setup), 'utf8'));
  return { secret, sealed: sealed.toString('base64url') };
}

/** The secret of a setup, or null where it is not this account's or its time is over. */
export function openSetup(custody: Custody, accountId: string, sealed: string, nowMs: number): string | null {
  try {
    const text = custody.open(accountId, 'console', 'totp-setup', Buffer.from(sealed, 'base64url')).toString('utf8');
    const { secret, expiresMs } = JSON.parse(text) as Setup;
    return expiresMs > nowMs ? secret : null;
  } catch {
    return null;
  }
}

/**
 * Puts a new TOTP secret in the place of the account's once it shows its first code; every other session ends, and with
 * `removeOthers` the account's passkeys and recovery codes do. The caller has seen a fresh second factor. Returns the
 * session's new token, or null for a wrong code.
 */
export async function replaceTotp(
  deps: Pick<RouteDependencies, 'commands' | 'custody'>,
  session: Session,
  { secret, code, removeOthers }: { readonly secret: string; readonly code: string; readonly removeOthers: boolean },
): Promise<string | null> {
  const { accountId, sessionId } = session;
  return deps.commands.command(accountId, async (context) => {
    const step = totpStep(secret, code.replaceAll(' ', ''), context.nowMs);
    if (step === null) return null;
    // Before anything else: a session that was ended meanwhile changes nothing any more.
    const token = await renewSession(context, sessionId);
    if (token === null) return null;
    const sealed = deps.custody.seal(accountId, 'totp', accountId, Buffer.from(secret, 'utf8'));
    await context.sql`
      update accounts set totp_sealed = ${sealed}, totp_last_step = ${step}::bigint, second_factor_at = ${context.nowMs}
      where account_id = ${accountId}`;
    context.append('account.second_factor', { kind: 'totp' });
    if (removeOthers) await removeOtherFactors(context);
    await revokeSessions(context, sessionId, 'second_factor_changed');
    return token;
  });
}
