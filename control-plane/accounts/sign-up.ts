import { invalidFields } from '../../core/body-value.ts';
import { ProblemError } from '../../core/errors.ts';
import { newTypeId } from '../../core/type-id.ts';
import type { Sql } from '../db/client.ts';
import { errorCode } from '../db/database-error.ts';
import type { CommandContext } from '../decisions/command.ts';
import type { RouteDependencies } from '../http/dependencies.ts';
import { databaseTime } from './database-time.ts';
import { hashPassword, passwordProblem } from './password.ts';
import { newRecoveryCodes } from './recovery-codes.ts';
import { CLI_ORIGIN, createSession, type SessionAnswer, type SessionOrigin } from './sessions.ts';
import { newTotpSecret, otpauthUri, readTotpSecret, totpStep } from './totp.ts';

/** Time to set up an authenticator app and type its first code. */
export const SIGNUP_LIFE_MS = 15 * 60_000;

const UNIQUE_VIOLATION = '23505';
const TOKEN = /^sgn_[A-Za-z0-9_-]{1,2048}$/;

/** What a signup token carries, sealed: until its second factor is confirmed an account is stored nowhere. */
interface Signup {
  readonly accountId: string;
  readonly email: string;
  readonly passwordHash: string;
  readonly secret: string;
  readonly expiresMs: number;
}

/** What the person needs to set up the second factor. */
export interface SignupAnswer {
  readonly signup_token: string;
  readonly totp: { readonly secret: string; readonly otpauth_uri: string };
}

/**
 * Begins an account. The answer is the same whether the address has one already.
 *
 * @throws ProblemError 422 `invalid` for a password or secret that cannot be used, 503 `overloaded`
 */
export async function signUp(
  deps: RouteDependencies,
  wanted: { readonly email: string; readonly password: string; readonly totpSecret: string | undefined },
): Promise<SignupAnswer> {
  const { email, password } = wanted;
  const problem = passwordProblem(password, email);
  if (problem !== null) throw invalidFields([{ field: 'password', message: problem }]);
  const secret = wanted.totpSecret === undefined ? newTotpSecret() : readTotpSecret(wanted.totpSecret);
  if (secret === null) {
    throw invalidFields([{ field: 'totp_secret', message: 'must be base32 (A-Z and 2-7) of at least 16 bytes' }]);
  }
  const passwordHash = await hashPassword(password);
  const nowMs = await databaseTime(deps.sql);
  const accountId = newTypeId('acc', nowMs);
  const signup: Signup = { accountId, email, passwordHash, secret, expiresMs: nowMs + SIGNUP_LIFE_MS };
  const sealed = deps.custody.seal('', 'signup', '', Buffer.from(JSON.stringify(signup), 'utf8'));
  return {
    signup_token: `sgn_${sealed.toString('base64url')}`,
    totp: { secret, otpauth_uri: otpauthUri(email, secret) },
  };
}

/**
 * Makes the account of a signup token whose second factor shows its first code, and signs its person in.
 *
 * @throws ProblemError 422 `invalid` (token expired or not ours, wrong code), 409 `conflict` where the address or this
 *   token has an account already
 */
export async function confirmSignUp(deps: RouteDependencies, token: string, code: string): Promise<SessionAnswer> {
  return openAccount(deps, token, code, (context) => createSession(context, CLI_ORIGIN));
}

/**
 * The same at the console, with the account's first recovery codes.
 *
 * @throws ProblemError as {@link confirmSignUp}
 */
export async function confirmConsoleSignUp(
  deps: RouteDependencies,
  token: string,
  code: string,
  origin: SessionOrigin,
): Promise<{ readonly session: SessionAnswer; readonly recoveryCodes: readonly string[] }> {
  return openAccount(deps, token, code, async (context) => {
    const recoveryCodes = await newRecoveryCodes(context);
    return { session: await createSession(context, origin), recoveryCodes };
  });
}

/** What a person still has to set up, from a signup token; null where it is not ours or its time is over. */
export async function pendingSignUp(
  deps: RouteDependencies,
  token: string,
): Promise<{ readonly email: string; readonly secret: string; readonly otpauthUri: string } | null> {
  const signup = openSignup(deps, token);
  if (signup === null || signup.expiresMs <= (await databaseTime(deps.sql))) return null;
  const { email, secret } = signup;
  return { email, secret, otpauthUri: otpauthUri(email, secret) };
}

async function openAccount<T>(
  deps: RouteDependencies,
  token: string,
  code: string,
  finish: (context: CommandContext) => Promise<T>,
): Promise<T> {
  const signup = openSignup(deps, token);
  const nowMs = await databaseTime(deps.sql);
  if (signup === null || signup.expiresMs <= nowMs) {
    throw invalidFields([{ field: 'signup_token', message: 'is not valid any more; sign up again' }]);
  }
  const step = totpStep(signup.secret, code, nowMs);
  if (step === null)
    throw invalidFields([{ field: 'totp_code', message: 'is not the present code of this second factor' }]);
  try {
    return await deps.commands.command(
      signup.accountId,
      async (context) => {
        context.append('account.created', { email: signup.email });
        context.append('account.second_factor', { kind: 'totp' });
        return finish(context);
      },
      { open: (sql, now) => insertAccount(deps, sql, signup, step, now.nowMs) },
    );
  } catch (error) {
    if (errorCode(error) !== UNIQUE_VIOLATION) throw error;
    throw new ProblemError('conflict', 'There is an account with this e-mail address; sign in.', { cause: error });
  }
}

async function insertAccount(
  { custody }: RouteDependencies,
  sql: Sql,
  { accountId, email, passwordHash, secret }: Signup,
  step: number,
  nowMs: number,
): Promise<void> {
  const sealed = custody.seal(accountId, 'totp', accountId, Buffer.from(secret, 'utf8'));
  await sql`
    insert into accounts
      (account_id, email, password_hash, totp_sealed, totp_last_step, second_factor_at, created_at)
    values (${accountId}, ${email}, ${passwordHash}, ${sealed}, ${step}::bigint, ${nowMs}, ${nowMs})`;
  await sql`insert into account_heads (account_id, at) values (${accountId}, ${nowMs})`;
}

function openSignup({ custody }: RouteDependencies, token: string): Signup | null {
  if (!TOKEN.test(token)) return null;
  try {
    const sealed = Buffer.from(token.slice(4), 'base64url');
    return JSON.parse(custody.open('', 'signup', '', sealed).toString('utf8')) as Signup;
  } catch {
    return null;
  }
}
