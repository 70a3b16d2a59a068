import type { FastifyRequest } from 'fastify';
import type { RouteDependencies } from '../http/dependencies.ts';
import { countPurpose } from '../http/rate-limit.ts';
import type { Rate } from '../rate-limit/classes.ts';

/** Attempts to sign in or up from one address: a person's mistakes, an office behind one address, and no more. */
const ATTEMPTS_RATE: Rate = { perSecond: 0.5, burst: 30 };

/**
 * Counts an attempt to sign in or up, at the console or by the CLI, against its address, besides what every request
 * costs: accounts have their locks, this is against who tries one password on many of them.
 *
 * @throws ProblemError 429 `rate_limited`
 */
export function countAttempt({
  request,
  deps,
}: {
  readonly request: FastifyRequest;
  readonly deps: RouteDependencies;
}): Promise<void> {
  return countPurpose(request, deps, 'sign-in', ATTEMPTS_RATE);
}
