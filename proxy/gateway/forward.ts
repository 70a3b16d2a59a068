import type { ServerResponse } from 'node:http';
import { errors } from 'undici';
import { ProblemError } from '../../core/errors.ts';
import {
  CREDENTIAL_SCAN_MIN_BYTES,
  OUTCOME_HOLD_MS,
  SMALL_ANSWER_BYTES,
  STORED_ANSWER_MAX_BYTES,
} from '../../core/limits.ts';
import type { GatewayOutcome, StoredAnswer } from '../../core/wire.ts';
import { type AnswerFrame, frameHeaders, sendProblem } from './answers.ts';
import { returnedHeaders } from './headers.ts';
import { TargetUnreachable } from './target-guard.ts';
import type { Target } from './targets.ts';

/** An allowed request on its way to its target. */
export interface ForwardRequest {
  readonly method: string;
  readonly path: string;
  readonly headers: string[];
  readonly body: Buffer | AsyncIterable<Buffer> | null;
  readonly accountId: string;
  readonly receiptId: string;
  readonly frame: AnswerFrame;
  readonly keepAnswer: boolean;
}

/** Where outcomes are told (the decision client). */
export interface OutcomeSink {
  tell(outcome: GatewayOutcome): Promise<boolean>;
  tellLater(outcome: GatewayOutcome): void;
}

export type ForwardDone = (outcome: GatewayOutcome['outcome'], seconds: number) => void;

type Ending = Pick<GatewayOutcome, 'outcome' | 'cause'>;

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
 * stored credential is looked for in what comes back, and an answer that holds it goes no further. Source: contract §7.
 */
export function forward(
  target: Target,
  request: ForwardRequest,
  response: ServerResponse,
  sink: OutcomeSink,
  done: ForwardDone,
): void {
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
  #headers: [string, string][] = [];
  #length: number | null = null;
  /** What is held back: all of a small answer, or the last piece of one whose end must wait. */
  #held: Buffer[] = [];
  #heldBytes = 0;
  #streaming = false;
  #kept: Buffer[] | null;
  #keptBytes = 0;
  #tail = Buffer.alloc(0);
  #ended = false;

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
    this.#response.on('close', this.#agentGone);
    if (contentLength === null || contentLength > SMALL_ANSWER_BYTES) this.#stream();
  }

  onResponseData(controller: Controller, chunk: Buffer): void {
    if (this.#ended) return;
    if (this.#credential !== null && this.#holdsCredential(chunk)) {
      this.#stopLeak(controller);
      return;
    }
    this.#keep(chunk);
    if (!this.#streaming) {
      this.#held.push(chunk);
      this.#heldBytes += chunk.length;
      return;
    }
    const next = this.#holdsEnd && this.#length !== null ? this.#swap(chunk) : chunk;
    if (next === null || this.#response.destroyed) return;
    if (!this.#response.write(next)) {
      controller.pause();
      this.#response.once('drain', this.#resume);
    }
  }

  onResponseEnd(): void {
    if (this.#ended) return;
    this.#ended = true;
    const ending = endingOf(this.#status);
    if (!this.#holdsEnd) {
      this.#sink.tellLater(this.#outcome(ending));
      this.#finish();
    } else {
      void this.#told(ending).then(() => this.#finish());
    }
    this.#report(ending);
  }

  onResponseError(_controller: unknown, error: Error): void {
    if (this.#ended) return;
    this.#ended = true;
    if (this.#status !== 0) {
      this.#cutShort();
      return;
    }
    const [ending, problem] = failureOf(error);
    this.#report(ending);
    const { frame } = this.#request;
    void this.#told(ending, problem).then(() => sendProblem(this.#response, problem, frame));
  }

  /** Whether the agent may not have the end before the outcome is committed. */
  get #holdsEnd(): boolean {
    return this.#request.keepAnswer || (this.#status >= 400 && this.#status < 500);
  }

  readonly #resume = (): void => this.#controller?.resume();

  /** The agent left while the answer came: nothing more is read, and the target has answered. */
  readonly #agentGone = (): void => {
    if (this.#ended) return;
    this.#ended = true;
    const ending = endingOf(this.#status);
    this.#report(ending);
    this.#sink.tellLater(this.#outcome(ending));
    this.#controller?.abort(new errors.RequestAbortedError('the agent is gone'));
  };

  #stream(): void {
    this.#streaming = true;
    if (this.#response.destroyed || this.#response.headersSent) return;
    this.#response.writeHead(this.#status, this.#head());
    this.#response.flushHeaders();
  }

  #head(): string[] {
    const headers = frameHeaders(this.#request.frame);
    for (const [name, value] of this.#headers) headers.push(name, value);
    return headers;
  }

  #finish(): void {
    this.#response.off('close', this.#agentGone);
    if (this.#response.destroyed) return;
    if (!this.#streaming) {
      this.#response.writeHead(this.#status, this.#head());
    }
    const [only] = this.#held;
    if (only === undefined) this.#response.end();
    else this.#response.end(this.#held.length === 1 ? only : Buffer.concat(this.#held, this.#heldBytes));
  }

  #swap(chunk: Buffer): Buffer | null {
    const before = this.#held[0] ?? null;
    this.#held = [chunk];
    this.#heldBytes = chunk.length;
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
    this.#response.off('close', this.#agentGone);
    const ending: Ending = { ...endingOf(this.#status), cause: 'target_invalid_answer' };
    this.#report(ending);
    controller.abort(new errors.InformationalError('the answer holds the stored credential'));
    this.#kept = null;
    if (this.#streaming) {
      this.#sink.tellLater(this.#outcome(ending));
      this.#response.destroy();
      return;
    }
    const detail = "The target's answer repeats the stored credential and is not passed on.";
    const problem = new ProblemError('target_invalid_answer', detail);
    void this.#told(ending, problem).then(() => sendProblem(this.#response, problem, this.#request.frame));
  }

  /** The target broke off in the middle of its answer: the agent must see that, and the outcome is not known. */
  #cutShort(): void {
    this.#response.off('close', this.#agentGone);
    const ending: Ending = { outcome: 'unknown', cause: 'target_lost' };
    this.#report(ending);
    const problem = new ProblemError('target_lost', "The target's answer broke off.");
    if (this.#streaming) {
      this.#sink.tellLater(this.#outcome(ending, problem));
      this.#response.destroy();
      return;
    }
    void this.#told(ending, problem).then(() => sendProblem(this.#response, problem, this.#request.frame));
  }

  /** Resolves when the outcome is committed, or after a bounded time: then it is still told, only not waited for. */
  async #told(ending: Ending, problem?: ProblemError): Promise<void> {
    const outcome = this.#outcome(ending, problem);
    if (ending.outcome !== 'released' && !this.#request.keepAnswer) {
      this.#sink.tellLater(outcome);
      return;
    }
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise((resolve) => {
      timer = setTimeout(resolve, OUTCOME_HOLD_MS);
    });
    await Promise.race([this.#sink.tell(outcome), late]);
    clearTimeout(timer);
  }

  #outcome(ending: Ending, problem?: ProblemError): GatewayOutcome {
    return {
      account_id: this.#request.accountId,
      receipt_id: this.#request.receiptId,
      ...ending,
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
    return { status: this.#status, headers: this.#headers, body };
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

function endingOf(status: number): Ending {
  if (status >= 200 && status < 400) return { outcome: 'booked', cause: 'answered' };
  if (status >= 400 && status < 500) return { outcome: 'released', cause: 'answered' };
  return { outcome: 'unknown', cause: 'answered' };
}

function failureOf(error: Error): [Ending, ProblemError] {
  if (error instanceof TargetUnreachable) {
    const ending: Ending = { outcome: 'released', cause: 'target_unreachable' };
    return [ending, new ProblemError('target_unreachable', error.message, { cause: error })];
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
