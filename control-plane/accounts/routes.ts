import type { FastifyInstance } from 'fastify';
import { z } from 'zod';
import { accountOf, sessionOf } from '../admin/session.ts';
import type { RouteDependencies } from '../http/dependencies.ts';
import { readBody } from '../http/request.ts';
import { countAttempt } from './attempts.ts';
import { emailInput, passwordInput, SIGNUP_TOKEN_MAX, TOTP_SECRET_TEXT_MAX, totpCodeInput } from './input.ts';
import type { UnknownAddresses } from './lock-out.ts';
import { revokeSession } from './sessions.ts';
import { signIn } from './sign-in.ts';
import { confirmSignUp, signUp } from './sign-up.ts';

const signUpBody = z.strictObject({
  email: emailInput,
  password: passwordInput,
  totp_secret: z.string('must be a string').max(TOTP_SECRET_TEXT_MAX, 'is too long').optional(),
});
const confirmBody = z.strictObject({
  signup_token: z.string('must be a string').max(SIGNUP_TOKEN_MAX, 'is too long'),
  totp_code: totpCodeInput,
});
const signInBody = z.strictObject({ email: emailInput, password: passwordInput, totp_code: totpCodeInput });

interface AccountRow {
  readonly account_id: string;
  readonly email: string;
  readonly created: number;
  readonly size: number;
  readonly hash: string;
}

/** The routes of accounts and their sessions (docs/architecture.md, Admin API). */
export function registerAccountRoutes(app: FastifyInstance, deps: RouteDependencies, unknown: UnknownAddresses): void {
  app.post('/admin/signup', async (request) => {
    const body = readBody(request, signUpBody);
    await countAttempt({ request, deps });
    return signUp(deps, { email: body.email, password: body.password, totpSecret: body.totp_secret });
  });

  app.post('/admin/signup/confirm', async (request, reply) => {
    const body = readBody(request, confirmBody);
    return reply.code(201).send(await confirmSignUp(deps, body.signup_token, body.totp_code));
  });

  app.post('/admin/login', async (request) => {
    const body = readBody(request, signInBody);
    await countAttempt({ request, deps });
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
