import { createHmac } from 'node:crypto';
import type { FastifyRequest } from 'fastify';
import { isLoopback } from '../../config/load.ts';
import { ProblemError } from '../../core/errors.ts';
import { sameHash } from '../../core/secret-token.ts';

/** The name of the field that every form of the console carries. */
export const CSRF_FIELD = 'csrf';

/** The token of the forms of one session (or of one visit, before the sign-in): it works with that cookie only. */
export function csrfToken(cookieSecret: string): string {
  return createHmac('sha256', cookieSecret).update('mandate-gateway/console/csrf/v1').digest('base64url');
}

/** Whether a form carries the token of this cookie. */
export function isCsrfToken(cookieSecret: string, given: string | undefined): boolean {
  return given !== undefined && sameHash(given, csrfToken(cookieSecret));
}

/**
 * The origins that the console is used at: the service's own; on plain HTTP at a loopback address also the other
 * spellings of this machine, since passkeys need `localhost`.
 */
export function ownOrigins(issuer: string): readonly string[] {
  const { origin, protocol, hostname, port } = new URL(issuer);
  if (protocol !== 'http:' || !isLoopback(hostname)) return [origin];
  const suffix = port === '' ? '' : `:${port}`;
  const spelt = ['localhost', '127.0.0.1', '[::1]'].map((host) => `http://${host}${suffix}`);
  return [...new Set([origin, ...spelt])];
}

/**
 * Refuses a post that was not sent by a page of ours: browsers say where it comes from in `Origin`, most of them also
 * in `Sec-Fetch-Site`; what is said must be right, and one that says nothing is refused.
 *
 * @throws ProblemError 403 `forbidden`
 */
export function refuseForeign(request: FastifyRequest, origins: readonly string[]): void {
  const { origin, 'sec-fetch-site': site } = request.headers;
  const sent = origin !== undefined && origins.includes(origin);
  if (sent && (site === undefined || site === 'same-origin')) return;
  const detail = `This form was not sent from the console. Open it at ${origins[0] ?? ''} and try again.`;
  throw new ProblemError('forbidden', detail);
}
