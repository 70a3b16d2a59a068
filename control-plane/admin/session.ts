import type { FastifyInstance, FastifyRequest } from 'fastify';
import { ProblemError } from '../../core/errors.ts';
import { isSecretToken } from '../../core/secret-token.ts';
import { findSession, type LiveSession } from '../accounts/sessions.ts';
import { bearerToken } from '../http/credential.ts';
import type { RouteDependencies } from '../http/dependencies.ts';
import { countAgainstAddress, countAgainstCredential } from '../http/rate-limit.ts';

/** The routes of people who are not signed in yet; every other route below /admin needs a session. */
const OPEN_ROUTES: ReadonlySet<string> = new Set(['/admin/signup', '/admin/signup/confirm', '/admin/login']);

const sessions = new WeakMap<FastifyRequest, LiveSession>();

/** Lets a request to /admin pass with a live session only: 401 `unauthenticated` otherwise. */
export function requireSessions(app: FastifyInstance, deps: RouteDependencies): void {
  app.addHook('onRequest', async (request) => {
    const route = request.routeOptions.url;
    if (route === undefined || !route.startsWith('/admin/') || OPEN_ROUTES.has(route)) return;
    const token = bearerToken(request);
    const session = isSecretToken(token, 'ses') ? await findSession(deps.sql, token) : null;
    if (session === null) {
      await countAgainstAddress(request, deps);
      throw new ProblemError('unauthenticated', 'Sign in: this needs a valid session.');
    }
    sessions.set(request, session);
    await countAgainstCredential(request, deps);
  });
}

/** The account of a request that passed; throws where no session was required. */
export function accountOf(request: FastifyRequest): string {
  return sessionOf(request).accountId;
}

/** The session of a request that passed; throws where none was required. */
export function sessionOf(request: FastifyRequest): LiveSession {
  const session = sessions.get(request);
  if (session === undefined) throw new Error('this route has no session');
  return session;
}
