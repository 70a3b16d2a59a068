import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { ProblemError } from '../../core/errors.ts';
import { secretHash } from '../../core/secret-token.ts';
import { type BucketState, TokenBuckets } from '../rate-limit/buckets.ts';
import { addressBucket, clientBucket, MANAGEMENT_RATE, type Rate } from '../rate-limit/classes.ts';
import { type BucketOperation, performOn } from '../rate-limit/operations.ts';
import { clientAddress } from './client-address.ts';
import { bearerToken } from './credential.ts';
import type { RouteDependencies } from './dependencies.ts';

const CREDENTIAL = /^(?:ses|mak|gwt)_[A-Za-z0-9_-]{43}$/;
/** The console has buckets of its own, and its assets others: a page brings several of them. */
const CONSOLE_PREFIX = '/console';

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

/** Probes are about one process, and must find it alive whatever else is away. */
const PROBE = 'probe';

const counts = new WeakMap<FastifyRequest, Counted>();

/**
 * Counts every request against one bucket, tells its state in `X-RateLimit-*`, and refuses where it is empty.
 *
 * A credential has its bucket once it was found valid ({@link countAgainstCredential}); one that is not counts for its
 * address ({@link countAgainstAddress}), so that invented credentials bring no new buckets. While the address's
 * bucket is empty, no credential is looked up that did not work before. Where buckets are shared and cannot be asked:
 * 503 `not_decidable`, but for probes, whose buckets are this process's own. Source: interface.md, Limits; contract §8.
 */
export function limitRates(
  app: FastifyInstance,
  deps: RouteDependencies,
  cookieToken: (request: FastifyRequest) => string | null = () => null,
): void {
  app.addHook('onRequest', async (request) => {
    const counted = await countOf(request, deps, isConsole(request) ? cookieToken(request) : bearerToken(request));
    counts.set(request, counted);
    if (!counted.state.allowed) throw refusal(deps, counted.state);
  });
}

/**
 * Counts a request whose credential is valid against that one's own bucket, by the rate it has now.
 *
 * @throws ProblemError 429 `rate_limited`
 */
export async function countAgainstCredential(
  request: FastifyRequest,
  deps: RouteDependencies,
  rate: Rate = deps.managementRate ?? MANAGEMENT_RATE,
): Promise<void> {
  const counted = counts.get(request);
  if (counted === undefined || counted.credential === null || counted.on === 'address') return;
  const kind = counted.on === 'credential' ? 'adjust' : 'take';
  const state = await performed(deps, { kind, key: counted.credential, rate });
  counts.set(request, { ...counted, on: 'credential', state });
  if (!state.allowed) throw refusal(deps, state);
}

/**
 * Counts a request whose credential is not valid here against its address.
 *
 * @throws ProblemError 429 `rate_limited`
 */
export async function countAgainstAddress(request: FastifyRequest, deps: RouteDependencies): Promise<void> {
  const counted = counts.get(request);
  if (counted === undefined || counted.on === 'address') return;
  const state = await takeAddress(deps, counted.address);
  counts.set(request, { ...counted, on: 'address', state });
  if (!state.allowed) throw refusal(deps, state);
}

/**
 * Counts a request against a further bucket that its address has for `purpose`, and tells that one's state from here on
 * where it is empty.
 *
 * @throws ProblemError 429 `rate_limited`
 */
export async function countPurpose(
  request: FastifyRequest,
  deps: RouteDependencies,
  purpose: string,
  rate: Rate,
): Promise<void> {
  const counted = counts.get(request);
  if (counted === undefined) throw new Error('this request was not counted');
  const key = clientBucket(purpose, counted.client);
  const [taken] = await asked(deps, [{ kind: 'take', key, rate }]);
  const state = present(taken);
  if (state.allowed) return;
  counts.set(request, { ...counted, state });
  throw refusal(deps, state);
}

/** Counts a request that no hook saw, since its address cannot even be read, and refuses where there were too many. */
export async function countUnread(request: FastifyRequest, deps: RouteDependencies): Promise<ProblemError | null> {
  const client = clientAddress(request, deps.internalSecretHash);
  const address = addressKey(request, client);
  const state = await takeAddress(deps, address);
  counts.set(request, { on: 'address', state, client, address, credential: null });
  return state.allowed ? null : refusal(deps, state);
}

/** Sets the headers that tell the state of the request's bucket; what is still open is taken from the address's. */
export async function tellRate(request: FastifyRequest, reply: FastifyReply, deps: RouteDependencies): Promise<void> {
  const counted = counts.get(request);
  if (counted === undefined) return;
  const refused = counted.on === 'open' && !counted.state.allowed;
  const untaken = counted.on === 'open' && !refused;
  // Whatever is answered stands by now: a state that cannot be read any more is not told.
  const state = untaken ? await takeAddress(deps, counted.address).catch(() => null) : counted.state;
  if (state === null) return;
  reply.headers({
    'x-ratelimit-limit': state.limit,
    'x-ratelimit-remaining': state.remaining,
    'x-ratelimit-reset': state.resetSeconds,
  });
}

async function countOf(request: FastifyRequest, deps: RouteDependencies, token: string | null): Promise<Counted> {
  const client = clientAddress(request, deps.internalSecretHash);
  const address = addressKey(request, client);
  const credential = request.routeOptions.config.public === true ? null : credentialKey(token);
  if (credential === null) {
    return { on: 'address', state: await takeAddress(deps, address), client, address, credential };
  }
  const rate = deps.managementRate ?? MANAGEMENT_RATE;
  const [own, open] = await asked(deps, [
    { kind: 'known', key: credential },
    { kind: 'peek', key: address, rate },
  ]);
  if (own !== null && own !== undefined) return { on: 'credential', state: own, client, address, credential };
  return { on: 'open', state: present(open), client, address, credential };
}

function takeAddress(deps: RouteDependencies, key: string): Promise<BucketState> {
  return performed(deps, { kind: 'take', key, rate: deps.managementRate ?? MANAGEMENT_RATE });
}

async function performed(deps: RouteDependencies, operation: BucketOperation): Promise<BucketState> {
  const [state] = await asked(deps, [operation]);
  return present(state);
}

/** Does the operations; 503 `not_decidable` where the buckets are shared and cannot be asked. */
async function asked(
  { buckets }: RouteDependencies,
  operations: readonly BucketOperation[],
): Promise<(BucketState | null)[]> {
  const probe = operations.some(({ key }) => key.startsWith(`${PROBE} `));
  const where = probe && !(buckets instanceof TokenBuckets) ? buckets.own : buckets;
  try {
    return await performOn(where, operations);
  } catch (error) {
    const detail = 'The rate limits cannot be read for the moment; nothing was done.';
    throw new ProblemError('not_decidable', detail, { cause: error, retryAfterSeconds: 1 });
  }
}

function present(state: BucketState | null | undefined): BucketState {
  if (state === null || state === undefined) throw new TypeError('a bucket without a state');
  return state;
}

function refusal(deps: RouteDependencies, { retryAfterSeconds }: BucketState): ProblemError {
  deps.rateLimited?.('management');
  return new ProblemError('rate_limited', 'Too many requests; slow down.', { retryAfterSeconds });
}

function credentialKey(token: string | null): string | null {
  return token !== null && CREDENTIAL.test(token) ? `management ${secretHash(token)}` : null;
}

/** Whether a request is for the console, whose credential is a cookie. */
function isConsole({ url }: FastifyRequest): boolean {
  return url === CONSOLE_PREFIX || url.startsWith(`${CONSOLE_PREFIX}/`) || url.startsWith(`${CONSOLE_PREFIX}?`);
}

/**
 * The public API shares the bucket of an address with the gateway. The admin API has its own, so that nobody who shares
 * an address with agents is kept from signing in; probes as well, so that nobody makes the process look dead.
 */
function addressKey(request: FastifyRequest, address: string): string {
  const route = request.routeOptions?.url ?? request.url;
  if (route === '/healthz' || route === '/readyz') return clientBucket(PROBE, address);
  if (route.startsWith(`${CONSOLE_PREFIX}/assets/`)) return clientBucket('assets', address);
  if (route.startsWith(CONSOLE_PREFIX) || route === '/') return clientBucket('console', address);
  return route.startsWith('/admin/') ? clientBucket('admin', address) : addressBucket(address);
}
