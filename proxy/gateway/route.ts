import type { IncomingMessage, ServerResponse } from 'node:http';
import { LRUCache } from 'lru-cache';
import { ProblemError } from '../../core/errors.ts';
import {
  BODY_LIMIT_DEFAULT_BYTES,
  CARD_BODY_MAX_BYTES,
  IN_FLIGHT_MAX,
  IN_FLIGHT_PER_TOKEN_MAX,
  MAPPED_INSTANCES_MAX,
  MAPPING_ROUNDS_MAX,
  SMALL_BODY_MAX_BYTES,
  WAITING_REQUESTS_MAX,
} from '../../core/limits.ts';
import { secretHash } from '../../core/secret-token.ts';
import { type Reading, readValues } from '../../core/tool-mapping.ts';
import type { GatewayAnswer, GatewayAsk, GatewayOutcome, ToolUpdate } from '../../core/wire.ts';
import { ControlPlaneAway } from '../control-link.ts';
import type { DecisionClient } from '../decision-client.ts';
import type { AskWaiter } from '../decision-lane.ts';
import { type AnswerFrame, newRequestId, sendDeny, sendEscalate, sendReplay, sendUndecided } from '../http/answers.ts';
import { BodyAborted } from '../http/body.ts';
import { type Answerable, answerFailure } from '../http/failure.ts';
import type { ProxyMetrics } from '../metrics.ts';
import {
  type Arrival,
  bodyDigest,
  bodyWithin,
  type Exchange,
  readExchange,
  takeBody,
  takeLargeBody,
} from './exchange.ts';
import { type ForwardRequest, forward } from './forward.ts';
import { forwardedHeaders, preferredWait } from './headers.ts';
import type { HeldMapping, Mappings } from './mappings.ts';
import { Shapes } from './shapes.ts';
import type { Target, Targets } from './targets.ts';

/** The prefix of the gateway path (interface.md). */
const GATEWAY_PREFIX = '/api/gateway/http/';
/** Paths of this service itself; no target is reached under them without the prefix. */
const OWN_PATHS = ['/api/', '/.well-known/', '/healthz', '/readyz'];

/**
 * What precedes the target's path in a request's URL, or null when the request is not for the gateway.
 *
 * Besides the prefix there is the root: client libraries that know only a host, and no base path, reach the gateway
 * with a gateway token on any path that is not the service's own (docs/design/0001-gateway-at-the-root.md).
 */
export function gatewayPrefix(request: IncomingMessage): string | null {
  const url = request.url ?? '';
  if (url.startsWith(GATEWAY_PREFIX)) return GATEWAY_PREFIX;
  const own = !url.startsWith('/') || OWN_PATHS.some((path) => url.startsWith(path));
  return !own && /^bearer gwt_/i.test(request.headers.authorization ?? '') ? '/' : null;
}

export interface GatewayDependencies {
  readonly decisions: DecisionClient;
  readonly mappings: Mappings;
  readonly targets: Targets;
  readonly metrics: ProxyMetrics;
  readonly decisionTimeoutMs: number;
  readonly batchMax: number;
  readonly logError: (error: unknown, message: string) => void;
}

function ignore(): void {}

/** The gateway: decides about every request that {@link gatewayPrefix} names, forwards only on allow (contract §7). */
export class Gateway {
  readonly #deps: GatewayDependencies;
  readonly #perToken = new Map<string, number>();
  readonly #shapes = new Shapes();
  /** Tokens that were answered as their account's own, so that more of their bodies is read. */
  readonly #vouched = new LRUCache<string, true>({ max: MAPPED_INSTANCES_MAX });
  #inFlight = 0;
  #waiting = 0;

  constructor(dependencies: GatewayDependencies) {
    this.#deps = dependencies;
  }

  /** How many requests are being answered. */
  get inFlight(): number {
    return this.#inFlight;
  }

  /** Answers one request; never throws. */
  handle(request: IncomingMessage, response: ServerResponse, prefix: string): void {
    const arrival: Arrival = { request, response, requestId: newRequestId(), prefix, exchange: null };
    this.#inFlight += 1;
    response.on('close', () => this.#closed(arrival.exchange));
    // A socket that breaks while an answer is written is the agent's affair.
    response.on('error', ignore);
    this.#step(arrival, () => this.#start(arrival));
  }

  /**
   * Takes one step towards an answer; what goes wrong in it is answered as well.
   *
   * The usual way (a body that fits, a mapping that is current) is walked in callbacks: that the steps follow each
   * other without promises saves more than any of them costs.
   */
  #step(arrival: Answerable, step: () => void | Promise<void>): void {
    try {
      step()?.catch((error: unknown) => this.#fail(arrival, error));
    } catch (error) {
      void this.#fail(arrival, error);
    }
  }

  /** The request is answered, or its agent left. */
  #closed(exchange: Exchange | null): void {
    this.#inFlight -= 1;
    if (exchange === null) return;
    const { tokenHash, reader, forwarding } = exchange;
    const left = (this.#perToken.get(tokenHash) ?? 1) - 1;
    if (left > 0) this.#perToken.set(tokenHash, left);
    else this.#perToken.delete(tokenHash);
    reader?.release();
    forwarding?.agentGone();
  }

  #start(arrival: Arrival): void {
    if (this.#inFlight > IN_FLIGHT_MAX) {
      throw new ProblemError('overloaded', 'This proxy has too many requests in flight.', { retryAfterSeconds: 1 });
    }
    const exchange = readExchange(arrival);
    this.#countToken(exchange);
    // What is counted, and only that, is let go of when the response closes.
    arrival.exchange = exchange;
    const mapping = this.#deps.mappings.find(exchange.tokenHash, exchange.name);
    bodyWithin(exchange, this.#unasked(exchange, mapping), {
      resolve: (bytes) => this.#step(exchange, () => this.#bodyRead(exchange, mapping, bytes)),
      reject: (error) => void this.#fail(exchange, error),
    });
  }

  /** Bytes that are read before anything is asked: few for a token that no answer has vouched for here. */
  #unasked({ tokenHash }: Exchange, mapping: HeldMapping | null): number {
    if (mapping !== null) return mapping.compiled.mapping.body_limit_bytes;
    const vouched = this.#deps.targets.held(tokenHash) !== null || this.#vouched.has(tokenHash);
    return vouched ? BODY_LIMIT_DEFAULT_BYTES : SMALL_BODY_MAX_BYTES;
  }

  #bodyRead(exchange: Exchange, mapping: HeldMapping | null, bytes: Buffer | null): void | Promise<void> {
    if (bytes === null) return this.#answerLarge(exchange);
    takeBody(exchange, bytes);
    this.#decide(exchange, mapping, {
      resolve: (answer) => this.#step(exchange, () => this.#answered(exchange, answer)),
      reject: (error) => void this.#fail(exchange, error),
    });
  }

  #answered(exchange: Exchange, answer: GatewayAnswer): void | Promise<void> {
    return answer.answer === 'mapping' ? this.#answerAgain(exchange, answer.tool) : this.#settle(exchange, answer);
  }

  async #answerAgain(exchange: Exchange, tool: ToolUpdate): Promise<void> {
    return this.#settle(exchange, await this.#ask(exchange, this.#learn(exchange, tool), MAPPING_ROUNDS_MAX - 1));
  }

  /**
   * Answers a request with a body larger than what is read unasked, or than a mapping allows that may be an old one:
   * what the mapping says now decides whether it is read, streamed or refused.
   */
  async #answerLarge(exchange: Exchange): Promise<void> {
    const answer = await this.#decided(exchange, null);
    if (answer.answer !== 'mapping') return this.#settle(exchange, answer);
    const mapping = this.#deps.mappings.learn(exchange.tokenHash, answer.tool);
    await takeLargeBody(exchange, mapping);
    return this.#settle(exchange, await this.#ask(exchange, mapping));
  }

  /** Bounds what one token may have in flight, until the request is answered. */
  #countToken({ tokenHash }: Exchange): void {
    const count = this.#perToken.get(tokenHash) ?? 0;
    if (count >= IN_FLIGHT_PER_TOKEN_MAX) {
      throw new ProblemError('overloaded', 'This token has too many requests in flight.', { retryAfterSeconds: 1 });
    }
    this.#perToken.set(tokenHash, count + 1);
  }

  /** Asks until the values were read by the current mapping. */
  async #ask(exchange: Exchange, first: HeldMapping | null, rounds = MAPPING_ROUNDS_MAX): Promise<GatewayAnswer> {
    let mapping = first;
    for (let round = 0; round < rounds; round++) {
      const answer = await this.#decided(exchange, mapping);
      if (answer.answer !== 'mapping') return answer;
      mapping = this.#learn(exchange, answer.tool);
    }
    throw new ControlPlaneAway('the mapping changed faster than it could be read by', true);
  }

  #learn(exchange: Exchange, tool: ToolUpdate): HeldMapping {
    const mapping = this.#deps.mappings.learn(exchange.tokenHash, tool);
    const limit = mapping.compiled.mapping.body_limit_bytes;
    if (exchange.bytes !== null && exchange.kind !== 'opaque' && exchange.bytes.length > limit) {
      throw new ProblemError('payload_too_large', `The body may have at most ${limit} bytes here.`);
    }
    return mapping;
  }

  #decided(exchange: Exchange, mapping: HeldMapping | null): Promise<GatewayAnswer> {
    return new Promise((resolve, reject) => this.#decide(exchange, mapping, { resolve, reject }));
  }

  /** Asks once, with the values as this mapping reads them; without one only which mapping there is. */
  #decide(exchange: Exchange, mapping: HeldMapping | null, waiter: AskWaiter): void {
    // What is held now goes along as a version: an answer without a target means this one, whatever is held by then.
    exchange.heldTarget = this.#deps.targets.held(exchange.tokenHash);
    const reading = mapping === null ? null : read(exchange, mapping);
    const ask: GatewayAsk = {
      path: 'gateway',
      token_hash: exchange.tokenHash,
      address: exchange.address,
      name: exchange.name,
      tool: mapping === null ? null : { id: mapping.id, version: mapping.version },
      reading,
      request: {
        method: exchange.method,
        path: `/${exchange.path}`,
        query: exchange.query,
        body_sha256: bodyDigest(exchange),
      },
      bindable: !exchange.streams && exchange.bytes !== null,
      idempotency_key_hash: exchange.keyHash,
      escalation_token_hash: exchange.escalationHash,
      config_version: exchange.heldTarget?.config.version ?? 0,
      budget_ms: this.#deps.decisionTimeoutMs,
    };
    const shape = reading === null || !reading.ok ? this.#shapes.due(exchange) : null;
    this.#deps.decisions.ask(shape === null ? ask : { ...ask, shape }, waiter);
  }

  #settle(exchange: Exchange, answer: GatewayAnswer): void | Promise<void> {
    const { response, requestId } = exchange;
    switch (answer.answer) {
      case 'allow':
        return this.#forward(exchange, answer);
      case 'deny': {
        this.#vouched.set(exchange.tokenHash, true);
        if (answer.code === 'MD-501' || answer.code === 'MD-502') this.#shapes.denied(exchange);
        const frame: AnswerFrame = { requestId, rate: answer.rate, receiptId: answer.receipt_id, decision: 'deny' };
        return sendDeny(response, answer.code, answer.reason_text, frame);
      }
      case 'escalate':
        this.#vouched.set(exchange.tokenHash, true);
        return this.#escalate(exchange, answer);
      case 'replay': {
        const frame: AnswerFrame = { requestId, rate: answer.rate, receiptId: answer.receipt_id, decision: 'allow' };
        return sendReplay(response, answer.stored, frame, exchange.method === 'HEAD');
      }
      case 'problem':
        return sendUndecided(response, answer, requestId);
      case 'mapping':
        throw new ControlPlaneAway('a mapping is not an answer', true);
      default:
        throw new ControlPlaneAway(`an answer that is not known: ${JSON.stringify(answer satisfies never)}`, true);
    }
  }

  #forward(exchange: Exchange, answer: GatewayAnswer & { answer: 'allow' }): void {
    const { decisions, targets, metrics } = this.#deps;
    const { response, tokenHash } = exchange;
    let ready: { readonly target: Target; readonly request: ForwardRequest };
    try {
      const target = targets.of(tokenHash, answer.target, exchange.heldTarget);
      if (target === null) throw new ControlPlaneAway('the target is not known here', true);
      if (response.destroyed) throw new BodyAborted('the agent is gone');
      ready = { target, request: forwardRequest(exchange, target, answer) };
    } catch (error) {
      decisions.tellLater(notForwarded(answer), tokenHash);
      throw error;
    }
    exchange.forwarding = forward(ready.target, ready.request, response, decisions, metrics.forwarded);
  }

  async #escalate(exchange: Exchange, answer: GatewayAnswer & { answer: 'escalate' }): Promise<void> {
    const { response, requestId, bytes, head } = exchange;
    const { decisions } = this.#deps;
    if (answer.created && bytes !== null && bytes.length > 0 && bytes.length <= CARD_BODY_MAX_BYTES) {
      await decisions.storeBody(answer.account_id, answer.escalation_id, bytes).catch((error: unknown) => {
        this.#deps.logError(error, 'the body of an escalated request could not be stored for its card');
      });
    }
    const seconds = preferredWait(head.prefer);
    exchange.waitUntilMs ??= performance.now() + seconds * 1000;
    const leftMs = Math.floor(exchange.waitUntilMs - performance.now());
    if (seconds > 0 && leftMs > 0 && exchange.escalationHash === null) {
      const next = await this.#wait(exchange, answer, Math.min(leftMs + 1, seconds * 1000));
      if (next !== null) return this.#settle(exchange, next);
    }
    const escalation = { id: answer.escalation_id, expires_at: answer.expires_at };
    sendEscalate(response, escalation, {
      requestId,
      rate: answer.rate,
      receiptId: answer.receipt_id,
      decision: 'escalate',
    });
  }

  /** Holds the request until a human answered; null when nobody did in the time the agent gave. */
  async #wait(
    exchange: Exchange,
    answer: GatewayAnswer & { answer: 'escalate' },
    timeoutMs: number,
  ): Promise<GatewayAnswer | null> {
    if (this.#waiting >= WAITING_REQUESTS_MAX) {
      throw new ProblemError('too_many_waiting', 'Too many requests are held here; repeat it without Prefer: wait.');
    }
    const gone = new AbortController();
    const left = (): void => gone.abort();
    exchange.response.once('close', left);
    this.#waiting += 1;
    try {
      const { account_id, escalation_id } = answer;
      const told = await this.#deps.decisions.wait(account_id, escalation_id, timeoutMs, gone.signal);
      if (told === null || told.status === 'pending' || gone.signal.aborted) return null;
      const token = told.escalation_token;
      exchange.escalationHash = token === null ? null : secretHash(token);
      return await this.#ask(exchange, this.#deps.mappings.find(exchange.tokenHash, exchange.name));
    } finally {
      this.#waiting -= 1;
      exchange.response.off('close', left);
    }
  }

  #fail(answerable: Answerable, error: unknown): Promise<void> {
    return answerFailure(this.#deps, answerable, 'gwt', error);
  }
}

/** An allow that went nowhere: nothing was sent, so its amount is given back. */
function notForwarded({ account_id, receipt_id }: GatewayAnswer & { answer: 'allow' }): GatewayOutcome {
  return {
    account_id,
    receipt_id,
    outcome: 'released',
    cause: 'not_forwarded',
    target_status: null,
    answer: null,
  };
}

/** The request to the target, built afresh; its line holds the very bytes that were checked. */
function forwardRequest(
  exchange: Exchange,
  target: Target,
  answer: GatewayAnswer & { answer: 'allow' },
): ForwardRequest {
  const { request, requestId, head } = exchange;
  if (!exchange.streams && exchange.bytes === null) throw new ControlPlaneAway('allowed before it was read', true);
  const line = `${target.basePath}/${exchange.path}${exchange.query === '' ? '' : `?${exchange.query}`}`;
  const given = request.url!.slice(exchange.prefix.length - 1);
  if (line !== `${target.basePath}${given}`) throw new Error('the path to forward is not the path that was checked');
  const length = exchange.streams ? null : exchange.bytes!.length;
  const hasBody = length === null || length > 0 || head.contentLength !== null;
  return {
    method: exchange.method,
    path: line,
    headers: forwardedHeaders(request.rawHeaders, head.hopByHop, {
      receiptId: answer.receipt_id,
      credential: target.config.credential,
      contentLength: announcedLength(exchange, length, hasBody),
    }),
    body: exchange.streams ? exchange.reader!.stream() : hasBody ? exchange.bytes : null,
    tokenHash: exchange.tokenHash,
    accountId: answer.account_id,
    receiptId: answer.receipt_id,
    frame: { requestId, rate: answer.rate, receiptId: answer.receipt_id, decision: 'allow' },
    keepAnswer: exchange.keyHash !== null,
  };
}

function read(exchange: Exchange, mapping: HeldMapping): Reading {
  const { path, queryParams, body } = exchange;
  return readValues(mapping.compiled, { path, queryParams, body });
}

function announcedLength(exchange: Exchange, length: number | null, hasBody: boolean): number | null {
  if (length !== null) return hasBody ? length : null;
  return exchange.head.contentLength === null ? null : Number(exchange.head.contentLength);
}
