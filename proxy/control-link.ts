import { Pool } from 'undici';
import { CONTROL_ANSWER_MAX_BYTES } from '../core/limits.ts';
import { INTERNAL_SECRET_HEADER } from '../core/wire.ts';

/** The control plane did not answer; `sent` false: the message did not reach it, so another one may be asked. */
export class ControlPlaneAway extends Error {
  override readonly name = 'ControlPlaneAway';
  readonly sent: boolean;

  constructor(message: string, sent: boolean, cause?: unknown) {
    super(message, { cause });
    this.sent = sent;
  }
}

export interface ControlAnswer {
  readonly status: number;
  readonly text: string;
}

const NEVER_SENT = new Set([
  'ECONNREFUSED',
  'ENOENT',
  'ENOTFOUND',
  'EAI_AGAIN',
  'EHOSTUNREACH',
  'UND_ERR_CONNECT_TIMEOUT',
]);
const CONNECTIONS_MAX = 1_100;
const CONNECT_TIMEOUT_MS = 1_000;

/** The kept-alive connections to one control plane: `unix:/path`, `http://host:port` or `https://host:port`. */
export class ControlLink {
  readonly address: string;
  readonly #pool: Pool;
  readonly #headers: string[];

  constructor(address: string, secret: string) {
    this.address = address;
    const socketPath = address.startsWith('unix:') ? address.slice('unix:'.length) : null;
    this.#pool = new Pool(socketPath === null ? address : 'http://localhost', {
      connections: CONNECTIONS_MAX,
      pipelining: 1,
      connect: socketPath === null ? { timeout: CONNECT_TIMEOUT_MS } : { socketPath, timeout: CONNECT_TIMEOUT_MS },
      headersTimeout: 0,
      bodyTimeout: 0,
      keepAliveTimeout: 30_000,
    });
    this.#headers = ['content-type', 'application/json', INTERNAL_SECRET_HEADER, secret];
  }

  /** Sends one message; rejects with {@link ControlPlaneAway} when there is no whole answer within `timeoutMs`. */
  post(path: string, body: string, timeoutMs: number, signal?: AbortSignal): Promise<ControlAnswer> {
    return this.#dispatch('POST', path, body, timeoutMs, signal);
  }

  /** Whether the control plane answers. */
  async alive(timeoutMs: number): Promise<boolean> {
    try {
      return (await this.#dispatch('GET', '/healthz', null, timeoutMs)).status === 200;
    } catch {
      return false;
    }
  }

  async close(): Promise<void> {
    await this.#pool.destroy();
  }

  #dispatch(
    method: 'GET' | 'POST',
    path: string,
    body: string | null,
    timeoutMs: number,
    signal?: AbortSignal,
  ): Promise<ControlAnswer> {
    return new Promise((resolve, reject) => {
      const exchange = new Exchange(resolve, reject, timeoutMs, signal);
      this.#pool.dispatch({ method, path, headers: this.#headers, body }, exchange);
    });
  }
}

interface Controller {
  abort(reason: Error): void;
}

class Exchange {
  readonly #resolve: (answer: ControlAnswer) => void;
  readonly #reject: (error: ControlPlaneAway) => void;
  readonly #timer: NodeJS.Timeout;
  readonly #signal: AbortSignal | undefined;
  readonly #chunks: Buffer[] = [];
  #controller: Controller | null = null;
  #aborted: Error | null = null;
  #status = 0;
  #size = 0;

  constructor(
    resolve: (answer: ControlAnswer) => void,
    reject: (error: ControlPlaneAway) => void,
    timeoutMs: number,
    signal?: AbortSignal,
  ) {
    this.#resolve = resolve;
    this.#reject = reject;
    this.#timer = setTimeout(() => this.#abort('the control plane did not answer in time'), timeoutMs);
    this.#signal = signal;
    signal?.addEventListener('abort', this.#gone, { once: true });
    if (signal?.aborted) this.#gone();
  }

  readonly #gone = (): void => this.#abort('nobody waits for this any more');

  #abort(message: string): void {
    this.#aborted = new Error(message);
    this.#controller?.abort(this.#aborted);
    this.#end();
    this.#reject(new ControlPlaneAway(message, true));
  }

  #end(): void {
    clearTimeout(this.#timer);
    this.#signal?.removeEventListener('abort', this.#gone);
  }

  onRequestStart(controller: Controller): void {
    this.#controller = controller;
    if (this.#aborted !== null) controller.abort(this.#aborted);
  }

  onResponseStart(_controller: Controller, status: number): void {
    this.#status = status;
  }

  onResponseData(controller: Controller, chunk: Buffer): void {
    this.#size += chunk.length;
    if (this.#size > CONTROL_ANSWER_MAX_BYTES) controller.abort(new Error('the answer is too large'));
    else this.#chunks.push(chunk);
  }

  onResponseEnd(): void {
    this.#end();
    const [first] = this.#chunks;
    const whole = this.#chunks.length === 1 && first !== undefined ? first : Buffer.concat(this.#chunks);
    this.#resolve({ status: this.#status, text: whole.toString('utf8') });
  }

  onResponseError(_controller: unknown, error: Error): void {
    this.#end();
    const code = 'code' in error ? String(error.code) : '';
    this.#reject(new ControlPlaneAway('the control plane is away', !NEVER_SENT.has(code), error));
  }
}
