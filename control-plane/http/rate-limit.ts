import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { ProblemError } from '../../core/errors.ts';
import { secretHash } from '../../core/secret-token.ts';
import type { BucketState } from '../rate-limit/buckets.ts';
import { addressBucket, MANAGEMENT_RATE, type Rate } from '../rate-limit/classes.ts';
import { clientAddress } from './client-address.ts';
import type { RouteDependencies } from './dependencies.ts';
import { networkOf } from './network.ts';

const CREDENTIAL = /^Bearer ((?:ses|mak|gwt)_[A-Za-z0-9_-]{43})$/i;

/** How a request was counted. `open`: what it shows may turn out to be a credential, so nothing was taken yet. */
interface Counted {
  readonly on: 'credential' | 'address' | 'open';
  readonly state: BucketState;
  readonly client: string;
  /** The bucket of the address. */
  readonly address: string;
  /** The bucket of the credential; null where none is shown or the route takes none. */
  readonly credential: string | null;
}

const counts = new WeakMap<FastifyRequest, Counted>();

/**
 * Counts every request against one bucket, tells its state in `X-RateLimit-*`, and refuses where it is empty.
 *
 * A credential has its bucket once it was found valid ({@link countAgainstCredential}); one that is not counts for its
 * address ({@link countAgainstAddress}), so that invented credentials bring no new buckets. While the address's
 * bucket is empty, no credential is looked up that did not work before. Source: interface.md, Limits; contract §8.
 */
export function limitRates(app: FastifyInstance, deps: RouteDependencies): void {
  app.addHook('onRequest', async (request) => {
    const counted = countOf(request, deps);
    counts.set(request, counted);
    if (!counted.state.allowed) throw refusal(deps, counted.state);
  });
}

/**
 * Counts a request whose credential is valid against that one's own bucket, by the rate it has now.
 *
 * @throws ProblemError 429 `rate_limited`
 */
export function countAgainstCredential(
  request: FastifyRequest,
  deps: RouteDependencies,
  rate: Rate = deps.managementRate ?? MANAGEMENT_RATE,
): void {
  const counted = counts.get(request);
  if (counted === undefined || counted.credential === null || counted.on === 'address') return;
  const { buckets } = deps;
  const [key, nowMs] = [counted.credential, performance.now()];
  const { perSecond, burst } = rate;
  const state =
    counted.on === 'credential'
      ? buckets.adjust(key, perSecond, burst, nowMs)
      : buckets.take(key, perSecond, burst, nowMs);
  counts.set(request, { ...counted, on: 'credential', state });
  if (!state.allowed) throw refusal(deps, state);
}

/**
 * Counts a request whose credential is not valid here against its address.
 *
 * @throws ProblemError 429 `rate_limited`
 */
export function countAgainstAddress(request: FastifyRequest, deps: RouteDependencies): void {
  const counted = counts.get(request);
  if (counted === undefined || counted.on === 'address') return;
  const state = takeAddress(deps, counted.address);
  counts.set(request, { ...counted, on: 'address', state });
  if (!state.allowed) throw refusal(deps, state);
}

/**
 * Counts a request against a further bucket that its address has for `purpose`, and tells that one's state from here on
 * where it is empty. An IPv6 address counts as its network: whoever has one has them all.
 *
 * @throws ProblemError 429 `rate_limited`
 */
export function countPurpose(request: FastifyRequest, deps: RouteDependencies, purpose: string, rate: Rate): void {
  const counted = counts.get(request);
  if (counted === undefined) throw new Error('this request was not counted');
  const key = `${purpose} ${networkOf(counted.client)}`;
  const state = deps.buckets.take(key, rate.perSecond, rate.burst, performance.now());
  if (state.allowed) return;
  counts.set(request, { ...counted, state });
  throw refusal(deps, state);
}

/** Counts a request that no hook saw, since its address cannot even be read, and refuses where there were too many. */
export function countUnread(request: FastifyRequest, deps: RouteDependencies): ProblemError | null {
  const client = clientAddress(request, deps.internalSecretHash);
  const address = addressKey(request, client);
  const state = takeAddress(deps, address);
  counts.set(request, { on: 'address', state, client, address, credential: null });
  return state.allowed ? null : refusal(deps, state);
}

/** Sets the headers that tell the state of the request's bucket; what is still open is taken from the address's. */
export function tellRate(request: FastifyRequest, reply: FastifyReply, deps: RouteDependencies): void {
  const counted = counts.get(request);
  if (counted === undefined) return;
  const refused = counted.on === 'open' && !counted.state.allowed;
  const state = counted.on === 'open' && !refused ? takeAddress(deps, counted.address) : counted.state;
  reply.headers({
    'x-ratelimit-limit': state.limit,
    'x-ratelimit-remaining': state.remaining,
    'x-ratelimit-reset': state.resetSeconds,
  });
}

function countOf(request: FastifyRequest, deps: RouteDependencies): Counted {
  const nowMs = performance.now();
  const client = clientAddress(request, deps.internalSecretHash);
  const address = addressKey(request, client);
  const credential = request.routeOptions.config.public === true ? null : credentialKey(request);
  if (credential === null) return { on: 'address', state: takeAddress(deps, address), client, address, credential };
  const own = deps.buckets.takeKnown(credential, nowMs);
  if (own !== undefined) return { on: 'credential', state: own, client, address, credential };
  const { perSecond, burst } = deps.managementRate ?? MANAGEMENT_RATE;
  return { on: 'open', state: deps.buckets.peek(address, perSecond, burst, nowMs), client, address, credential };
}

function takeAddress({ buckets, managementRate = MANAGEMENT_RATE }: RouteDependencies, address: string): BucketState {
  return buckets.take(address, managementRate.perSecond, managementRate.burst, performance.now());
}

function refusal(deps: RouteDependencies, { retryAfterSeconds }: BucketState): ProblemError {
  deps.rateLimited?.('management');
  return new ProblemError('rate_limited', 'Too many requests; slow down.', { retryAfterSeconds });
}

function credentialKey(request: FastifyRequest): string | null {
  const token = CREDENTIAL.exec(request.headers.authorization ?? '')?.[1];
  return token === undefined ? null : `management ${secretHash(token)}`;
}

/**
 * The public API shares the bucket of an address with the gateway. The admin API has its own, so that nobody who shares
 * an address with agents is kept from signing in; probes as well, so that nobody makes the process look dead.
 */
function addressKey(request: FastifyRequest, address: string): string {
  const route = request.routeOptions?.url ?? request.url;
  if (route === '/healthz' || route === '/readyz') return `probe ${address}`;
  return route.startsWith('/admin/') ? `admin ${address}` : addressBucket(address);
}
