import type { IncomingMessage } from 'node:http';
import { ProblemError } from '../../core/errors.ts';
import { DISCARDED_BODY_MAX_BYTES } from '../../core/limits.ts';
import { type BodyKind, contentKind } from '../../core/request-body.ts';
import { BodyMemory, type HeldBody } from './body-memory.ts';
import type { RequestHead } from './head.ts';

/**
 * What kind of body the headers announce.
 *
 * @throws ProblemError 415 for an encoding or a charset that would have to be undone first (contract §7)
 */
export function bodyKind(head: RequestHead): BodyKind {
  const encoding = head.contentEncoding?.trim().toLowerCase() ?? 'identity';
  if (encoding !== 'identity' && encoding !== '') {
    throw new ProblemError('unsupported_media_type', 'Send the body without Content-Encoding.');
  }
  if (head.transferEncoding === null && (head.contentLength === null || head.contentLength === '0')) return 'none';
  return contentKind(head.contentType);
}

/** The body could not be read to its end: the agent went away or broke the rules of HTTP. */
export class BodyAborted extends Error {
  override readonly name = 'BodyAborted';
}

/**
 * Reads and forgets what is left of a request that was answered already: a sender that is cut off while it sends may
 * never see its answer, and a connection whose body stays unread would hang. Bounded; beyond it the connection ends.
 */
export function discardRest(request: IncomingMessage): void {
  if (request.complete || request.destroyed) return;
  request.removeAllListeners('data');
  let size = 0;
  request.on('data', (chunk: Buffer) => {
    size += chunk.length;
    if (size > DISCARDED_BODY_MAX_BYTES) request.destroy();
  });
  request.resume();
}

/** Whoever waits for a body; one of the two is called, once. */
export interface BodyWaiter {
  readonly resolve: (body: Buffer | null) => void;
  readonly reject: (error: Error) => void;
}

/**
 * Reads a body as it comes. `read` is answered with all of it, or null as soon as it is larger than the limit; what was
 * read stays, so that reading can go on with a larger limit, or the rest can be streamed.
 */
export class BodyReader implements HeldBody {
  readonly owner: string;
  readonly #request: IncomingMessage;
  readonly #memory = new BodyMemory(this);
  readonly #chunks: Buffer[] = [];
  #size = 0;
  #limit = 0;
  #ended = false;
  #failed: Error | null = null;
  #released = false;
  #waiting: BodyWaiter | null = null;

  /** `owner`: the hash of the token or key that the request came with. */
  constructor(request: IncomingMessage, owner: string) {
    this.#request = request;
    this.owner = owner;
    request.on('data', this.#data);
    request.on('end', this.#end);
  }

  get size(): number {
    return this.#size;
  }

  read(limit: number, waiter: BodyWaiter): void {
    this.#limit = limit;
    this.#waiting = waiter;
    this.#progress();
    if (this.#waiting !== null) this.#request.resume();
  }

  /** The request is answered or its agent left: lets go of what was read; a read that still waits fails. */
  release(): void {
    if (this.#released) return;
    this.#released = true;
    this.#memory.release();
    this.#chunks.length = 0;
    this.#request.off('data', this.#data);
    if (this.#ended) return;
    this.#failed ??= new BodyAborted('the body ended too early');
    this.#progress();
  }

  /** Lets go of what was read, and of the request where nobody waits for it: its memory is wanted for others. */
  fail(error: ProblemError): void {
    this.#failed ??= error;
    this.#memory.release();
    this.#chunks.length = 0;
    this.#request.off('data', this.#data);
    this.#request.pause();
    this.#progress();
  }

  /** What was read so far, then the rest as it comes; nothing is read twice. */
  async *stream(): AsyncGenerator<Buffer> {
    this.#limit = Number.POSITIVE_INFINITY;
    if (this.#failed !== null) throw this.#failed;
    this.#request.off('data', this.#data);
    yield* this.#chunks;
    for await (const chunk of this.#request as AsyncIterable<Buffer>) yield chunk;
  }

  readonly #data = (chunk: Buffer): void => {
    this.#chunks.push(chunk);
    this.#size += chunk.length;
    this.#memory.grow(chunk.length);
    if (this.#failed !== null || this.#size <= this.#limit) return;
    this.#request.pause();
    this.#progress();
  };

  readonly #end = (): void => {
    this.#ended = true;
    this.#memory.whole();
    this.#progress();
  };

  /** Answers the read that waits, as soon as it can be. */
  #progress(): void {
    const waiting = this.#waiting;
    if (waiting === null) return;
    if (this.#failed === null && this.#size <= this.#limit && !this.#ended) return;
    this.#waiting = null;
    if (this.#failed !== null) waiting.reject(this.#failed);
    else if (this.#size > this.#limit) waiting.resolve(null);
    else waiting.resolve(this.#chunks.length === 1 ? this.#chunks[0]! : Buffer.concat(this.#chunks));
  }
}
