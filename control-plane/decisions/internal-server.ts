import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { ListenOptions } from 'node:net';
import { sameHash, secretHash } from '../../core/secret-token.ts';
import {
  type BatchAnswer,
  type BatchRequest,
  type ChargeAnswer,
  type DecisionAnswer,
  type DecisionAsk,
  type EscalationWaitAnswer,
  escalationBody,
  escalationWait,
  type GatewayOutcome,
  INTERNAL_BATCH_PATH,
  INTERNAL_BODY_PATH,
  INTERNAL_SECRET_HEADER,
  INTERNAL_WAIT_PATH,
  type RateState,
  type VerifyAsk,
} from '../../core/wire.ts';
import { type BucketState, TokenBuckets } from '../rate-limit/buckets.ts';
import { addressBucket, MANAGEMENT_RATE } from '../rate-limit/classes.ts';
import type { Buckets } from '../rate-limit/operations.ts';
import type { DecisionMetrics } from './account-facts.ts';
import { type DecidedVerification, type Problem, problem } from './ask.ts';
import { readBatchRequest } from './batch-request.ts';
import { UNAUTHENTICATED } from './gateway-ask.ts';
import type { Charged } from './items.ts';
import type { Lanes } from './lanes.ts';
import { addressLimited, answerCharged, type SharedChargeMeans } from './shared-charges.ts';
import type { TokenRoutes } from './token-routes.ts';
import { UNKNOWN_KEY } from './verify-ask.ts';

/** Largest message from a proxy, in bytes: a full batch of stored answers and long paths fits. */
export const INTERNAL_MESSAGE_MAX_BYTES = 96 * 1024 * 1024;
/** What escalations offer the proxy. */
export interface EscalationGate {
  wait(
    accountId: string,
    escalationId: string,
    timeoutMs: number,
    signal: AbortSignal,
  ): Promise<EscalationWaitAnswer | null>;
  storeBody(accountId: string, escalationId: string, body: Buffer): Promise<boolean>;
}

export interface InternalServerOptions {
  readonly listen: ListenOptions;
  readonly secret: string;
  readonly lanes: Lanes;
  readonly routes: TokenRoutes;
  readonly buckets: Buckets;
  readonly escalations: EscalationGate;
  /** Told of every API key that was found valid, and when (milliseconds, the database's time). */
  readonly keyUsed: (accountId: string, keyId: string, atMs: number) => void;
  /** Whose mandates anybody's API key may be verified with; null where there is no sandbox. */
  readonly sandboxAccountId: string | null;
  readonly metrics: DecisionMetrics;
  readonly logError: (error: unknown, message: string) => void;
}

export interface InternalServer {
  readonly server: Server;
  close(): Promise<void>;
}

/**
 * Starts the listener for proxies: batches of asks and outcomes, escalation waits and bodies (core/wire.ts).
 *
 * node:http, not Fastify: it is on the way of every request. Each message carries the shared secret.
 */
export async function startInternalServer(options: InternalServerOptions): Promise<InternalServer> {
  const expected = secretHash(options.secret);
  const server = createServer({ keepAliveTimeout: 60_000, maxHeaderSize: 8_192 }, (request, response) => {
    handle(options, expected, request, response).catch((error: unknown) => {
      options.logError(error, 'an internal request failed');
      send(response, 500, '{}');
    });
  });
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(options.listen, () => {
      server.off('error', reject);
      resolve();
    });
  });
  return {
    server,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeIdleConnections();
      }),
  };
}

async function handle(
  options: InternalServerOptions,
  expected: string,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const given = request.headers[INTERNAL_SECRET_HEADER];
  if (typeof given !== 'string' || !sameHash(secretHash(given), expected)) return send(response, 401, '{}');
  if (request.method === 'GET' && request.url === '/healthz') return send(response, 200, '{"status":"ok"}');
  if (request.method !== 'POST') return send(response, 405, '{}');
  const text = await readText(request);
  if (text === null) return send(response, 413, '{}');
  let message: unknown;
  try {
    message = JSON.parse(text);
  } catch {
    return send(response, 400, '{}');
  }
  switch (request.url) {
    case INTERNAL_BATCH_PATH:
      return answerBatch(options, message, response);
    case INTERNAL_WAIT_PATH:
      return answerWait(options, message, request, response);
    case INTERNAL_BODY_PATH:
      return answerBody(options, message, response);
    default:
      return send(response, 404, '{}');
  }
}

/** The whole message, or null when it is too large. Plain events: an async iterator costs more than the parsing. */
function readText(request: IncomingMessage): Promise<string | null> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let size = 0;
    request.on('data', (chunk: Buffer) => {
      size += chunk.length;
      if (size > INTERNAL_MESSAGE_MAX_BYTES) resolve(null);
      else chunks.push(chunk);
    });
    request.on('end', () => resolve(Buffer.concat(chunks).toString('utf8')));
    request.on('error', reject);
  });
}

function send(response: ServerResponse, status: number, body: string): void {
  if (response.headersSent || response.destroyed) return;
  const length = Buffer.byteLength(body);
  response.writeHead(status, { 'content-type': 'application/json', 'content-length': length });
  response.end(body);
}

async function answerBatch(options: InternalServerOptions, message: unknown, response: ServerResponse): Promise<void> {
  const arrivedMs = performance.now();
  let batch: BatchRequest;
  try {
    batch = readBatchRequest(message);
  } catch (error) {
    options.logError(error, 'a batch that does not parse');
    return send(response, 400, '{}');
  }
  await findRoutes(options, batch);
  const { buckets } = options;
  const answer =
    buckets instanceof TokenBuckets
      ? await submitBatch(options, buckets, batch, arrivedMs)
      : await submitCharged(options, { ...chargeMeans(options, arrivedMs), shared: buckets }, batch);
  send(response, 200, JSON.stringify(answer));
}

async function findRoutes({ routes, logError }: InternalServerOptions, batch: BatchRequest): Promise<void> {
  const unknown = new Set<string>();
  for (const { token_hash } of batch.asks) if (routes.known(token_hash) === undefined) unknown.add(token_hash);
  for (const { token_hash } of batch.charges) {
    if (token_hash !== null && routes.known(token_hash) === undefined) unknown.add(token_hash);
  }
  if (unknown.size === 0) return;
  try {
    await routes.find(unknown);
  } catch (error) {
    logError(error, 'tokens could not be looked up');
    throw error;
  }
}

/** With buckets of this process, which answer at once. */
function submitBatch(
  options: InternalServerOptions,
  buckets: TokenBuckets,
  batch: BatchRequest,
  arrivedMs: number,
): Promise<BatchAnswer> {
  const answer: BatchAnswer = {
    asks: new Array<DecisionAnswer>(batch.asks.length),
    outcomes: new Array<boolean>(batch.outcomes.length),
    charges: batch.charges.map(({ token_hash, address }) => charge(options, buckets, token_hash, address)),
  };
  let waiting = batch.asks.length + batch.outcomes.length;
  if (waiting === 0) return Promise.resolve(answer);
  return new Promise((resolve) => {
    const settled = () => {
      waiting -= 1;
      if (waiting === 0) resolve(answer);
    };
    batch.outcomes.forEach((outcome, i) => {
      submitOutcome(options, outcome, (written) => {
        answer.outcomes[i] = written;
        settled();
      });
    });
    batch.asks.forEach((ask, i) => {
      submitAsk(options, ask, { arrivedMs }, (one) => {
        answer.asks[i] = withAddressRate(options, buckets, ask, one);
        settled();
      });
    });
  });
}

/** With shared buckets: outcomes are written whether those can be asked or not. */
async function submitCharged(
  options: InternalServerOptions,
  means: SharedChargeMeans,
  batch: BatchRequest,
): Promise<BatchAnswer> {
  const written = batch.outcomes.map(
    (outcome) => new Promise<boolean>((resolve) => submitOutcome(options, outcome, resolve)),
  );
  const { asks, charges } = await answerCharged(means, batch);
  return { asks, charges, outcomes: await Promise.all(written) };
}

function chargeMeans(options: InternalServerOptions, arrivedMs: number): Omit<SharedChargeMeans, 'shared'> {
  const { routes, metrics } = options;
  return {
    known: (tokenHash, path) => {
      const kind = routes.known(tokenHash)?.kind;
      return path === null ? kind !== undefined : kind === (path === 'gateway' ? 'gateway' : 'api_key');
    },
    submit: (ask, charged, reply) => submitAsk(options, ask, { arrivedMs, ...charged }, reply),
    rateLimited: (rateClass) => metrics.rateLimited(rateClass),
  };
}

function submitOutcome({ lanes }: InternalServerOptions, outcome: GatewayOutcome, answer: (written: boolean) => void) {
  lanes.submit({ kind: 'outcome', accountId: outcome.account_id, outcome, answer });
}

function submitAsk(
  options: InternalServerOptions,
  ask: DecisionAsk,
  { arrivedMs, ...charged }: Charged & { readonly arrivedMs: number; readonly bucket?: BucketState },
  reply: (answer: DecisionAnswer) => void,
): void {
  const { lanes, routes } = options;
  const route = routes.known(ask.token_hash);
  const deadlineMs = arrivedMs + ask.budget_ms;
  if (ask.path === 'gateway') {
    if (route?.kind === 'gateway') {
      const { accountId, subjectId: instanceId } = route;
      lanes.submit({ kind: 'ask', accountId, instanceId, ask, deadlineMs, answer: reply, ...charged });
    } else {
      reply(UNAUTHENTICATED);
    }
    return;
  }
  if (route?.kind !== 'api_key') {
    reply(UNKNOWN_KEY);
    return;
  }
  const key = { accountId: route.accountId, keyId: route.subjectId };
  const accountId = ownerOf(options, ask) ?? route.accountId;
  const answer = (one: DecidedVerification | Problem): void => {
    if (one.answer === 'result') options.keyUsed(key.accountId, key.keyId, one.keyUsedAtMs);
    reply(written(options, one));
  };
  lanes.submit({ kind: 'verify', accountId, key, ask, deadlineMs, answer, ...charged });
}

/** The sandbox where a presentation is for it: its mandates are verified with anybody's key; null otherwise. */
function ownerOf(
  { sandboxAccountId }: InternalServerOptions,
  { problem: wrong, presentation }: VerifyAsk,
): string | null {
  return wrong === null && presentation?.verifier === sandboxAccountId ? sandboxAccountId : null;
}

/** The answer of a committed decision, with its MAT; never throws. */
function written(options: InternalServerOptions, decided: DecidedVerification | Problem): DecisionAnswer {
  if (decided.answer === 'problem') return decided;
  const { receiptId: receipt_id, replayed, rate, text } = decided;
  try {
    return { answer: 'result', receipt_id, body: text(), replayed, rate };
  } catch (error) {
    options.logError(error, 'a decision could not be signed');
    return problem('not_decidable', 'The decision is recorded but could not be signed.', rate, receipt_id, 1);
  }
}

/** Whoever shows no valid token is limited by address. */
function withAddressRate(
  { metrics }: InternalServerOptions,
  buckets: TokenBuckets,
  ask: DecisionAsk,
  answer: DecisionAnswer,
): DecisionAnswer {
  if (answer.answer !== 'problem' || answer.error !== 'unauthenticated') return answer;
  return addressLimited(answer, takeAddress(buckets, ask.address), () => metrics.rateLimited('management'));
}

function takeAddress(buckets: TokenBuckets, address: string): BucketState {
  const { perSecond, burst } = MANAGEMENT_RATE;
  return buckets.take(addressBucket(address), perSecond, burst, performance.now());
}

/** A malformed request still costs its sender one request; an instance's own limits are not known without its lock. */
function charge(
  { routes }: InternalServerOptions,
  buckets: TokenBuckets,
  tokenHash: string | null,
  address: string,
): ChargeAnswer {
  const known = tokenHash === null ? undefined : routes.known(tokenHash);
  const bucket =
    (known === undefined || tokenHash === null ? undefined : buckets.takeKnown(tokenHash, performance.now())) ??
    takeAddress(buckets, address);
  const rate: RateState = [bucket.limit, bucket.remaining, bucket.resetSeconds];
  return { rate, retry_after_s: bucket.allowed ? null : bucket.retryAfterSeconds };
}

async function answerWait(
  options: InternalServerOptions,
  message: unknown,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const parsed = escalationWait.safeParse(message);
  if (!parsed.success) return send(response, 400, '{}');
  const gone = new AbortController();
  response.once('close', () => gone.abort());
  if (request.destroyed) gone.abort();
  const { account_id, escalation_id, timeout_ms } = parsed.data;
  const answer = await options.escalations.wait(account_id, escalation_id, timeout_ms, gone.signal);
  if (answer === null) return send(response, 404, '{}');
  send(response, 200, JSON.stringify(answer));
}

async function answerBody(options: InternalServerOptions, message: unknown, response: ServerResponse): Promise<void> {
  const parsed = escalationBody.safeParse(message);
  if (!parsed.success) return send(response, 400, '{}');
  const { account_id, escalation_id, body } = parsed.data;
  const stored = await options.escalations.storeBody(account_id, escalation_id, Buffer.from(body, 'base64'));
  send(response, stored ? 200 : 409, '{}');
}
