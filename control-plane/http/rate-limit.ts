import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { ProblemError } from '../../core/errors.ts';
import { secretHash } from '../../core/secret-token.ts';
import type { BucketState } from '../rate-limit/buckets.ts';
import type { RouteDependencies } from './dependencies.ts';

/** The management class (interface.md, Limits). */
const MANAGEMENT_RATE = { perSecond: 10, burst: 20 } as const;

const CREDENTIAL = /^Bearer ((?:ses|mak|gwt)_[A-Za-z0-9_-]{43})$/i;

interface Counted {
  readonly state: BucketState;
  readonly onCredential: boolean;
}

const counts = new WeakMap<FastifyRequest, Counted>();

/**
 * Takes every request from a bucket, tells its state in `X-RateLimit-*`, and refuses where it is empty.
 *
 * A credential has its bucket once it was found valid ({@link countAgainstCredential}); what is presented before that
 * counts for its address, so that invented credentials bring no new buckets.
 */
export function limitRates(app: FastifyInstance, deps: RouteDependencies): void {
  app.addHook('onRequest', async (request) => {
    const known = credentialKey(request);
    const own = known === null ? undefined : deps.buckets.takeKnown(known, performance.now());
    const state = own ?? take(deps, addressKey(request));
    counts.set(request, { state, onCredential: own !== undefined });
    if (state.allowed) return;
    const { retryAfterSeconds } = state;
    throw new ProblemError('rate_limited', 'Too many requests; slow down.', { retryAfterSeconds });
  });
}

/** Gives a request's credential, now that it is known to be valid, its own bucket for the requests that follow. */
export function countAgainstCredential(request: FastifyRequest, deps: RouteDependencies): void {
  const key = credentialKey(request);
  if (key === null || counts.get(request)?.onCredential === true) return;
  counts.set(request, { state: take(deps, key), onCredential: true });
}

/** Sets the headers that tell the state of the request's bucket. */
export function tellRate(request: FastifyRequest, reply: FastifyReply): void {
  const state = counts.get(request)?.state;
  if (state === undefined) return;
  reply.headers({
    'x-ratelimit-limit': state.limit,
    'x-ratelimit-remaining': state.remaining,
    'x-ratelimit-reset': state.resetSeconds,
  });
}

function take(deps: RouteDependencies, key: string): BucketState {
  const { perSecond, burst } = deps.managementRate ?? MANAGEMENT_RATE;
  return deps.buckets.take(key, perSecond, burst, performance.now());
}

function credentialKey(request: FastifyRequest): string | null {
  const token = CREDENTIAL.exec(request.headers.authorization ?? '')?.[1];
  return token === undefined ? null : `management ${secretHash(token)}`;
}

/** Probes have their own: whoever shares an address with them must not make the process look dead. */
function addressKey(request: FastifyRequest): string {
  const probe = request.routeOptions.url === '/healthz' || request.routeOptions.url === '/readyz';
  return `${probe ? 'probe' : 'management'} ${request.ip}`;
}
