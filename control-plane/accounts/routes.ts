import type { FastifyInstance } from 'fastify';
import { z } from 'zod';
import { accountOf, sessionOf } from '../admin/session.ts';
import type { RouteDependencies } from '../http/dependencies.ts';
import { readBody } from '../http/request.ts';
import { UnknownAddresses } from './lock-out.ts';
import { PASSWORD_MAX_CHARACTERS } from './password.ts';
import { revokeSession } from './sessions.ts';
import { signIn } from './sign-in.ts';
import { confirmSignUp, signUp } from './sign-up.ts';

/** RFC 5321 §4.5.3.1: an address has at most 254 characters. */
const EMAIL_MAX_CHARACTERS = 254;
/** Twice what a password may have: compatibility characters shrink when they are normalised. */
const PASSWORD_TEXT_MAX = PASSWORD_MAX_CHARACTERS * 2;
const TOTP_SECRET_TEXT_MAX = 256;
const SIGNUP_TOKEN_MAX = 2052;

const email = z
  .string('must be an e-mail address')
  .max(EMAIL_MAX_CHARACTERS, `must have at most ${EMAIL_MAX_CHARACTERS} characters`)
  .regex(/^[!-?A-~]+@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)*$/, 'must be an e-mail address')
  .transform((text) => text.toLowerCase());
const password = z.string('must be a string').max(PASSWORD_TEXT_MAX, 'is too long');
const code = z.string('must be a string').regex(/^[0-9]{6}$/, 'must be the six digits that your authenticator shows');

const signUpBody = z.strictObject({
  email,
  password,
  totp_secret: z.string('must be a string').max(TOTP_SECRET_TEXT_MAX, 'is too long').optional(),
});
const confirmBody = z.strictObject({
  signup_token: z.string('must be a string').max(SIGNUP_TOKEN_MAX, 'is too long'),
  totp_code: code,
});
const signInBody = z.strictObject({ email, password, totp_code: code });

interface AccountRow {
  readonly account_id: string;
  readonly email: string;
  readonly created: number;
  readonly size: number;
  readonly hash: string;
}

/** The routes of accounts and their sessions (docs/architecture.md, Admin API). */
export function registerAccountRoutes(app: FastifyInstance, deps: RouteDependencies): void {
  const unknown = new UnknownAddresses();
  app.post('/admin/signup', (request) => {
    const body = readBody(request, signUpBody);
    return signUp(deps, { email: body.email, password: body.password, totpSecret: body.totp_secret });
  });

  app.post('/admin/signup/confirm', async (request, reply) => {
    const body = readBody(request, confirmBody);
    return reply.code(201).send(await confirmSignUp(deps, body.signup_token, body.totp_code));
  });

  app.post('/admin/login', (request) => {
    const body = readBody(request, signInBody);
    return signIn(deps, unknown, { email: body.email, password: body.password, code: body.totp_code });
  });

  app.post('/admin/logout', async (request, reply) => {
    const { accountId, sessionId } = sessionOf(request);
    await deps.commands.command(accountId, (context) => revokeSession(context, sessionId));
    return reply.code(204).send();
  });

  app.get('/admin/account', async (request) => {
    const [row] = await deps.sql<AccountRow[]>`
      select a.account_id, a.email, epoch_ms(a.created_at) as created, h.size, encode(h.hash, 'hex') as hash
      from accounts a join account_heads h using (account_id) where account_id = ${accountOf(request)}`;
    if (row === undefined) throw new Error('a session belongs to no account');
    return {
      account_id: row.account_id,
      email: row.email,
      created_at: new Date(row.created).toISOString(),
      evidence: { size: row.size, hash: row.hash },
    };
  });
}
