import type { ServerResponse } from 'node:http';
import { errors } from 'undici';
import { ProblemError } from '../../core/errors.ts';
import {
  AGENT_STALL_MS,
  CREDENTIAL_SCAN_MIN_BYTES,
  ONE_WRITE_MAX_BYTES,
  OUTCOME_HOLD_MS,
  SMALL_ANSWER_BYTES,
  STORED_ANSWER_MAX_BYTES,
} from '../../core/limits.ts';
import { TargetUnreachable } from '../../core/target-connection.ts';
import type { GatewayOutcome, StoredAnswer } from '../../core/wire.ts';
import { type AnswerFrame, frameHeaders, sendProblem } from '../http/answers.ts';
import { returnedHeaders } from './headers.ts';
import type { Target } from './targets.ts';

/** An allowed request on its way to its target. */
export interface ForwardRequest {
  readonly method: string;
  readonly path: string;
  readonly headers: string[];
  readonly body: Buffer | AsyncIterable<Buffer> | null;
  readonly tokenHash: string;
  readonly accountId: string;
  readonly receiptId: string;
  readonly frame: AnswerFrame;
  readonly keepAnswer: boolean;
}

/** Where outcomes are told (the decision client). */
export interface OutcomeSink {
  tell(outcome: GatewayOutcome, tokenHash: string): Promise<boolean>;
  tellLater(outcome: GatewayOutcome, tokenHash: string): void;
}

export type ForwardDone = (outcome: GatewayOutcome['outcome'], seconds: number) => void;

type Ending = Pick<GatewayOutcome, 'outcome' | 'cause'>;

const NO_BYTES = Buffer.alloc(0);

interface Controller {
  readonly rawHeaders?: unknown;
  abort(reason: Error): void;
  pause(): void;
  resume(): void;
}

/**
 * Sends an allowed request to its target and the answer back, then tells how it ended.
 *
 * Small answers go back in one piece, others as they come, with back-pressure. A released amount is given back, and an
 * idempotency key's answer is stored, before the agent has the end of the answer. Redirects are not followed. The
 * stored credential is looked for in what comes back, and an answer that holds it goes no further.
 * Whoever calls says when the agent left (`agentGone`). Source: contract §7.
 */
export function forward(
  target: Target,
  request: ForwardRequest,
  response: ServerResponse,
  sink: OutcomeSink,
  done: ForwardDone,
): { agentGone(): void } {
  const exchange = new Exchange(target, request, response, sink, done);
  target.pool.dispatch(
    {
      method: request.method as 'GET',
      path: request.path,
      headers: request.headers,
      body: request.body as Buffer | null,
    },
    exchange,
  );
  return exchange;
}

class Exchange {
  readonly #request: ForwardRequest;
  readonly #response: ServerResponse;
  readonly #sink: OutcomeSink;
  readonly #done: ForwardDone;
  readonly #credential: string | null;
  readonly #startedMs = performance.now();
  #controller: Controller | null = null;
  #status = 0;
  /** Names and values in turn. */
  #headers: string[] = [];
  #length: number | null = null;
  /** What is held back: all of an answer that must wait, or the last piece of one whose end must. */
  #held: Buffer[] = [];
  #heldBytes = 0;
  #streaming = false;
  /** The outcome was told while the body was still to come; until it is committed nothing goes to the agent. */
  #settled = false;
  #waiting = false;
  #complete = false;
  #kept: Buffer[] | null;
  #keptBytes = 0;
  #tail: Buffer = NO_BYTES;
  #ended = false;
  #stall: NodeJS.Timeout | null = null;

  constructor(target: Target, request: ForwardRequest, response: ServerResponse, sink: OutcomeSink, done: ForwardDone) {
    this.#request = request;
    this.#response = response;
    this.#sink = sink;
    this.#done = done;
    const value = target.config.credential?.value ?? '';
    this.#credential = value.length >= CREDENTIAL_SCAN_MIN_BYTES ? bare(value) : null;
    this.#kept = request.keepAnswer ? [] : null;
  }

  onRequestStart(controller: Controller): void {
    // One decision is one request: whatever a connection pool may do, it is not written a second time.
    if (this.#controller !== null) {
      controller.abort(new errors.InformationalError('never sent twice'));
      return;
    }
    this.#controller = controller;
  }

  onRequestUpgrade(controller: Controller): void {
    controller.abort(new errors.InformationalError('upgrades are refused'));
  }

  onResponseStart(controller: Controller, status: number): void {
    if (status < 200) return;
    this.#status = status;
    const raw = (controller.rawHeaders ?? []) as readonly (Buffer | string)[];
    const { headers, contentLength, leaks } = returnedHeaders(raw, this.#credential);
    this.#headers = headers;
    this.#length = contentLength;
    if (leaks) {
      this.#stopLeak(controller);
      return;
    }
    // Where the agent left before the target began to answer.
    if (this.#response.destroyed) {
      this.agentGone();
      return;
    }
    if (contentLength !== null && contentLength <= SMALL_ANSWER_BYTES) return;
    if (!this.#releases) this.#stream();
    else if (this.#kept === null) this.#settleFirst(controller);
  }

  onResponseData(controller: Controller, chunk: Buffer): void {
    if (this.#ended) return;
    if (this.#credential !== null && this.#holdsCredential(chunk)) {
      this.#stopLeak(controller);
      return;
    }
    this.#keep(chunk);
    if (!this.#streaming && !this.#response.destroyed) {
      this.#held.push(chunk);
      this.#heldBytes += chunk.length;
      if (this.#heldBytes > STORED_ANSWER_MAX_BYTES && !this.#waiting) this.#settleFirst(controller);
      return;
    }
    if (this.#response.destroyed) {
      if (this.#kept === null) this.#leave();
      return;
    }
    const next = this.#holdsEnd && this.#length !== null ? this.#swap(chunk) : chunk;
    if (next !== null && !this.#response.write(next)) this.#pause(controller);
  }

  onResponseEnd(): void {
    if (this.#ended) return;
    if (this.#waiting) {
      this.#complete = true;
      return;
    }
    this.#ended = true;
    if (this.#settled) {
      this.#finish();
      return;
    }
    const ending = endingOf(this.#status);
    this.#report(ending);
    if (this.#holdsEnd) {
      this.#told(ending).then(() => this.#finish());
    } else {
      this.#tellLater(ending);
      this.#finish();
    }
  }

  onResponseError(_controller: unknown, error: Error): void {
    if (this.#ended) return;
    this.#ended = true;
    if (this.#settled) return void this.#response.destroy();
    const [ending, problem] = failureOf(error, this.#controller !== null);
    this.#report(ending);
    if (this.#streaming) {
      // The agent must see that the answer broke off.
      this.#tellLater(ending, problem);
      this.#response.destroy();
      return;
    }
    this.#told(ending, problem).then(() => this.#refuse(problem));
  }

  /** Whether the reservation is given back, which the agent may not learn before it is so. */
  get #releases(): boolean {
    return this.#status >= 400 && this.#status < 500;
  }

  /** Whether the agent may not have the end before the outcome is committed. */
  get #holdsEnd(): boolean {
    return !this.#settled && (this.#request.keepAnswer || this.#releases);
  }

  /** Lets the target wait for an agent that reads slowly; one that does not read at all is let go. */
  #pause(controller: Controller): void {
    controller.pause();
    this.#response.once('drain', () => this.#resume());
    this.#stall = setTimeout(() => this.#response.destroy(), AGENT_STALL_MS).unref();
  }

  #resume(): void {
    if (this.#stall === null) return;
    clearTimeout(this.#stall);
    this.#stall = null;
    this.#controller?.resume();
  }

  /**
   * The agent left: an answer that comes is not read on, unless it is kept under a key for whoever repeats the request.
   *
   * Before the target has begun to answer nothing changes: how it ends has to be known.
   */
  agentGone(): void {
    if (this.#status === 0) return;
    this.#resume();
    if (!this.#ended && !this.#waiting && this.#kept === null) this.#leave();
  }

  /** Ends the answer that nobody reads: the target has answered, and its status says how. */
  #leave(): void {
    this.#ended = true;
    if (!this.#settled) {
      const ending = endingOf(this.#status);
      this.#report(ending);
      this.#tellLater(ending);
    }
    this.#controller?.abort(new errors.RequestAbortedError('the agent is gone'));
  }

  /** Commits the outcome by the status alone, and only then lets an answer through that is not to be held whole. */
  #settleFirst(controller: Controller): void {
    this.#settled = true;
    this.#waiting = true;
    controller.pause();
    const ending = endingOf(this.#status);
    this.#report(ending);
    this.#told(ending).then(() => {
      this.#waiting = false;
      if (this.#ended) return;
      if (this.#response.destroyed) return this.#leave();
      if (this.#complete) {
        this.#ended = true;
        return this.#finish();
      }
      this.#stream();
      for (const chunk of this.#held.splice(0)) this.#response.write(chunk);
      controller.resume();
    });
  }

  #stream(): void {
    this.#streaming = true;
    if (!this.#writeHead()) return;
    this.#response.flushHeaders();
  }

  /** Writes status and headers; false where that is not possible (any more). */
  #writeHead(): boolean {
    if (this.#response.destroyed || this.#response.headersSent) return false;
    const headers = frameHeaders(this.#request.frame);
    for (const part of this.#headers) headers.push(part);
    try {
      this.#response.writeHead(this.#status, headers);
      return true;
    } catch {
      // What the target's parser let through and ours does not: the agent sees a broken answer, not half of one.
      this.#response.destroy();
      return false;
    }
  }

  #finish(): void {
    this.#resume();
    if (!this.#streaming && !this.#writeHead()) return;
    if (this.#response.destroyed) return;
    const [only] = this.#held;
    if (only === undefined) this.#response.end();
    else if (this.#held.length > 1) this.#response.end(Buffer.concat(this.#held));
    // As text of the same bytes, head and body leave in one write instead of a gathered one.
    else if (only.length <= ONE_WRITE_MAX_BYTES) this.#response.end(only.toString('latin1'), 'latin1');
    else this.#response.end(only);
  }

  #refuse(problem: ProblemError): void {
    sendProblem(this.#response, problem, this.#request.frame);
  }

  #swap(chunk: Buffer): Buffer | null {
    const before = this.#held[0] ?? null;
    this.#held = [chunk];
    return before;
  }

  #keep(chunk: Buffer): void {
    if (this.#kept === null) return;
    this.#keptBytes += chunk.length;
    if (this.#keptBytes > STORED_ANSWER_MAX_BYTES) this.#kept = null;
    else this.#kept.push(chunk);
  }

  #holdsCredential(chunk: Buffer): boolean {
    const secret = this.#credential!;
    const seen = this.#tail.length === 0 ? chunk : Buffer.concat([this.#tail, chunk]);
    if (seen.includes(secret, 0, 'latin1')) return true;
    this.#tail = Buffer.from(seen.subarray(Math.max(0, seen.length - secret.length + 1)));
    return false;
  }

  /** An answer that holds the stored credential goes no further; what the target did is told by its status. */
  #stopLeak(controller: Controller): void {
    this.#ended = true;
    controller.abort(new errors.InformationalError('the answer holds the stored credential'));
    this.#kept = null;
    if (this.#settled) return void this.#response.destroy();
    const ending: Ending = { ...endingOf(this.#status), cause: 'target_invalid_answer' };
    this.#report(ending);
    const detail = "The target's answer repeats the stored credential and is not passed on.";
    const problem = new ProblemError('target_invalid_answer', detail);
    if (this.#streaming) {
      this.#tellLater(ending, problem);
      this.#response.destroy();
      return;
    }
    this.#told(ending, problem).then(() => this.#refuse(problem));
  }

  /** Resolves when the outcome is committed, or after a bounded time: then it is still told, only not waited for. */
  async #told(ending: Ending, problem?: ProblemError): Promise<void> {
    if (ending.outcome !== 'released' && !this.#request.keepAnswer) return this.#tellLater(ending, problem);
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise((resolve) => {
      timer = setTimeout(resolve, OUTCOME_HOLD_MS);
    });
    await Promise.race([this.#sink.tell(this.#outcome(ending, problem), this.#request.tokenHash), late]);
    clearTimeout(timer);
  }

  #tellLater(ending: Ending, problem?: ProblemError): void {
    this.#sink.tellLater(this.#outcome(ending, problem), this.#request.tokenHash);
  }

  #outcome(ending: Ending, problem?: ProblemError): GatewayOutcome {
    return {
      account_id: this.#request.accountId,
      receipt_id: this.#request.receiptId,
      outcome: ending.outcome,
      cause: ending.cause,
      target_status: this.#status === 0 ? null : this.#status,
      answer: this.#request.keepAnswer ? this.#stored(ending, problem) : null,
    };
  }

  #stored(ending: Ending, problem?: ProblemError): StoredAnswer | null {
    if (problem !== undefined) {
      // Where the target was never reached, the key is not used up and nothing is kept.
      if (ending.outcome === 'released') return null;
      const body = { error: problem.code, title: problem.message, status: problem.status, detail: problem.detail };
      const headers: [string, string][] = [['content-type', 'application/problem+json']];
      return { status: problem.status, headers, body: Buffer.from(JSON.stringify(body)).toString('base64') };
    }
    const body = this.#kept === null ? null : Buffer.concat(this.#kept).toString('base64');
    return { status: this.#status, headers: pairs(this.#headers), body };
  }

  #report(ending: Ending): void {
    this.#done(ending.outcome, (performance.now() - this.#startedMs) / 1000);
  }
}

/** What is secret of a credential's value: without the scheme that an Authorization header begins with. */
function bare(value: string): string {
  const secret = value.replace(/^(?:bearer|basic|token)\s+/i, '');
  return secret.length >= CREDENTIAL_SCAN_MIN_BYTES ? secret : value;
}

const BOOKED: Ending = { outcome: 'booked', cause: 'answered' };
const RELEASED: Ending = { outcome: 'released', cause: 'answered' };
const UNKNOWN: Ending = { outcome: 'unknown', cause: 'answered' };

function endingOf(status: number): Ending {
  if (status >= 200 && status < 400) return BOOKED;
  return status >= 400 && status < 500 ? RELEASED : UNKNOWN;
}

function pairs(flat: readonly string[]): [string, string][] {
  const headers: [string, string][] = [];
  for (let i = 0; i < flat.length; i += 2) headers.push([flat[i]!, flat[i + 1]!]);
  return headers;
}

/** `started`: the request was handed to an open connection; before that not a byte of it was written. */
function failureOf(error: Error, started: boolean): [Ending, ProblemError] {
  if (!started) {
    const ending: Ending = { outcome: 'released', cause: 'target_unreachable' };
    const detail = error instanceof TargetUnreachable ? error.message : 'No connection to the target came about.';
    return [ending, new ProblemError('target_unreachable', detail, { cause: error })];
  }
  if (error instanceof errors.HeadersTimeoutError || error instanceof errors.BodyTimeoutError) {
    const detail = 'The target did not answer in time; whether it acted is not known.';
    return [{ outcome: 'unknown', cause: 'target_timeout' }, new ProblemError('target_timeout', detail)];
  }
  if (error.name === 'HTTPParserError' || error instanceof errors.HeadersOverflowError) {
    const detail = 'The target answered with something that is not HTTP; whether it acted is not known.';
    return [{ outcome: 'unknown', cause: 'target_invalid_answer' }, new ProblemError('target_invalid_answer', detail)];
  }
  const detail = 'The connection to the target was lost; whether it acted is not known.';
  return [{ outcome: 'unknown', cause: 'target_lost' }, new ProblemError('target_lost', detail, { cause: error })];
}
