import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { type Answer, asDecision, NoAnswer, problemOf, retryAfterMs } from './answers.ts';
import type {
  Consumption,
  ConsumptionRequest,
  Custodial,
  DenialCodes,
  Escalation,
  Execution,
  ExecutionRequest,
  MandateStatus,
  PresentRequest,
  VerifyRequest,
  VerifyResult,
} from './interface.ts';

export interface ClientOptions {
  /** `{base_url}` of the service; beyond this machine it should be https. */
  readonly url: string;
  /** `mak_…`; it is sent to this address only. */
  readonly apiKey: string;
  /** Times a request is sent at most. */
  readonly attempts?: number;
  /** Milliseconds that the pauses between them may take in all. A Retry-After beyond it ends the attempts. */
  readonly waitMaxMs?: number;
  /** Milliseconds that one attempt may take. */
  readonly timeoutMs?: number;
  /** Ends a pause early by rejecting; for tests. */
  readonly sleep?: (ms: number, signal?: AbortSignal) => Promise<void>;
}

export interface CallOptions {
  readonly signal?: AbortSignal;
}

export interface VerifyOptions extends CallOptions {
  /** Names this logical request; null sends none, and then nothing is retried. Without it a new one is made. */
  readonly idempotencyKey?: string | null;
}

export interface WaitOptions extends CallOptions {
  readonly pollMs?: number;
  /** An escalation ends by itself after 600 s. */
  readonly maxMs?: number;
}

const ATTEMPTS = 5;
const WAIT_MAX_MS = 30_000;
const TIMEOUT_MS = 10_000;
const BACKOFF_MS = 200;
const BACKOFF_MAX_MS = 5_000;
const POLL_MS = 2_000;
const ESCALATION_MAX_MS = 630_000;

/**
 * When a request may be sent again after it failed: `always` where a repeat has no second effect, `if_refused` where
 * only 429, 503 or a connection that was never made say that it had none, `never` where nothing names the request.
 */
type Repeat = 'always' | 'if_refused' | 'never';

interface Call {
  readonly method: 'GET' | 'POST';
  readonly path: string;
  readonly body?: object;
  readonly idempotencyKey?: string | null;
  readonly repeat: Repeat;
  readonly signal: AbortSignal | undefined;
}

/**
 * Calls the service, and decides nothing: whoever uses it acts only on `decision: "allow"`.
 *
 * Every method throws ServiceProblem for an answer that says why not, and NoAnswer where there is none that can be
 * relied on; in both cases nothing is allowed.
 */
export class MandateClient {
  readonly #url: string;
  readonly #apiKey: string;
  readonly #attempts: number;
  readonly #waitMaxMs: number;
  readonly #timeoutMs: number;
  readonly #sleep: (ms: number, signal?: AbortSignal) => Promise<void>;

  constructor(options: ClientOptions) {
    this.#url = options.url.replace(/\/+$/, '');
    this.#apiKey = options.apiKey;
    this.#attempts = options.attempts ?? ATTEMPTS;
    this.#waitMaxMs = options.waitMaxMs ?? WAIT_MAX_MS;
    this.#timeoutMs = options.timeoutMs ?? TIMEOUT_MS;
    this.#sleep = options.sleep ?? ((ms, signal) => delay(ms, undefined, signal === undefined ? {} : { signal }));
  }

  /** Path 1: the service signs the agent's intent with the key that it holds. Scope `agents:present`. */
  async present(body: PresentRequest, { signal }: CallOptions = {}): Promise<Custodial> {
    return this.#post<Custodial>('/api/v1/agents/present', body, 'always', signal);
  }

  /**
   * Asks whether an action may be done. Scope `verify`.
   *
   * The same key and body get the same answer, `replayed` says so. An answer with another decision than the three, or
   * with one that lacks its members, is NoAnswer.
   */
  async verify(body: VerifyRequest, { idempotencyKey, signal }: VerifyOptions = {}): Promise<VerifyResult> {
    const key = idempotencyKey === undefined ? randomUUID() : idempotencyKey;
    const repeat = key === null ? 'never' : 'always';
    const call = { method: 'POST', path: '/api/v1/verify', body, idempotencyKey: key, repeat, signal } as const;
    const { value, headers } = await this.#send(call);
    return { ...asDecision(value), replayed: headers.get('x-idempotent-replay') === 'true' };
  }

  /** Books the final amount of an allow; the same values again get the same answer. Scope `consumptions:write`. */
  async consume(body: ConsumptionRequest, { signal }: CallOptions = {}): Promise<Consumption> {
    return this.#post<Consumption>('/api/v1/consumptions', body, 'always', signal);
  }

  /** Reports how an allowed action went. Scope `executions:write`. */
  async execute(body: ExecutionRequest, { signal }: CallOptions = {}): Promise<Execution> {
    return this.#post<Execution>('/api/v1/executions', body, 'if_refused', signal);
  }

  /** Limits of a mandate, its agent, and whom a presentation must name as verifier. Scope `mandates:read`. */
  async status(mandateId: string, { signal }: CallOptions = {}): Promise<MandateStatus> {
    return this.#get<MandateStatus>(`/api/v1/mandates/${encodeURIComponent(mandateId)}/status`, signal);
  }

  /** How an escalation stands, and once it is approved its token. Scope `verify`. */
  async escalation(id: string, { signal }: CallOptions = {}): Promise<Escalation> {
    return this.#get<Escalation>(`/api/v1/escalations/${encodeURIComponent(id)}`, signal);
  }

  /** Asks until a human has answered or the time is over, and returns what was found last. */
  async waitForEscalation(id: string, options: WaitOptions = {}): Promise<Escalation> {
    const { pollMs = POLL_MS, maxMs = ESCALATION_MAX_MS, signal } = options;
    for (let waited = 0; ; waited += pollMs) {
      const escalation = await this.escalation(id, signal === undefined ? {} : { signal });
      if (escalation.status !== 'pending' || waited + pollMs > maxMs) return escalation;
      await this.#sleep(pollMs, signal);
    }
  }

  /** The published table of denial codes. */
  async denialCodes({ signal }: CallOptions = {}): Promise<DenialCodes> {
    return this.#get<DenialCodes>('/api/v1/denial-codes', signal);
  }

  async #get<T extends object>(path: string, signal: AbortSignal | undefined): Promise<T> {
    return (await this.#send({ method: 'GET', path, repeat: 'always', signal })).value as T;
  }

  async #post<T extends object>(path: string, body: object, repeat: Repeat, signal?: AbortSignal): Promise<T> {
    return (await this.#send({ method: 'POST', path, body, repeat, signal })).value as T;
  }

  async #send(call: Call): Promise<Answer> {
    // Written once, so that a retry under the same key is the same body.
    const body = call.body === undefined ? null : JSON.stringify(call.body);
    let waited = 0;
    for (let attempt = 1; ; attempt += 1) {
      const outcome = await this.#attempt(call, body);
      if ('answer' in outcome) return outcome.answer;
      const pause = outcome.retryAfterMs ?? backoffMs(attempt);
      // A shorter pause than the service asked for would only be refused again.
      const again = outcome.again && attempt < this.#attempts && waited + pause <= this.#waitMaxMs;
      if (!again) throw outcome.failure;
      await this.#sleep(pause, call.signal);
      waited += pause;
    }
  }

  async #attempt(call: Call, body: string | null): Promise<Attempt> {
    const { method, path, idempotencyKey = null, repeat, signal } = call;
    const headers: Record<string, string> = { accept: 'application/json', authorization: `Bearer ${this.#apiKey}` };
    if (body !== null) headers['content-type'] = 'application/json';
    if (idempotencyKey !== null) headers['idempotency-key'] = idempotencyKey;
    const timeout = AbortSignal.timeout(this.#timeoutMs);
    let response: Response;
    let text: string;
    try {
      response = await fetch(`${this.#url}${path}`, {
        method,
        headers,
        body,
        // The key must not follow to another address.
        redirect: 'manual',
        signal: signal === undefined ? timeout : AbortSignal.any([signal, timeout]),
      });
      text = await response.text();
    } catch (cause) {
      signal?.throwIfAborted();
      const again = repeat === 'always' || (repeat === 'if_refused' && neverConnected(cause));
      return { failure: new NoAnswer(`${method} ${path} was not answered`, { cause }), again, retryAfterMs: null };
    }
    const { value, problem } = problemOf(response.status, text);
    if (problem === null) return { answer: { value, headers: response.headers } };
    const busy = response.status === 429 || response.status === 503;
    const wait = retryAfterMs(response.headers.get('retry-after'));
    return { failure: problem, again: busy && repeat !== 'never', retryAfterMs: wait };
  }
}

/** An answer, or why there is none, whether to send again, and after how long if the service said so. */
type Attempt =
  | { readonly answer: Answer }
  | { readonly failure: Error; readonly again: boolean; readonly retryAfterMs: number | null };

const NEVER_CONNECTED = new Set([
  'ECONNREFUSED',
  'ENOTFOUND',
  'EAI_AGAIN',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'UND_ERR_CONNECT_TIMEOUT',
]);

function neverConnected(error: unknown): boolean {
  const cause = error instanceof Error ? error.cause : undefined;
  return typeof cause === 'object' && cause !== null && 'code' in cause && NEVER_CONNECTED.has(String(cause.code));
}

/** Doubles from attempt to attempt, and differs from client to client, so that they do not come back together. */
function backoffMs(attempt: number): number {
  const most = Math.min(BACKOFF_MAX_MS, BACKOFF_MS * 2 ** (attempt - 1));
  return Math.round(most * (0.5 + Math.random() / 2));
}
