import type { Agent } from 'undici';
import {
  HEAD_MAX_BYTES,
  TARGET_KEEP_ALIVE_MS,
  WEBHOOK_ANSWER_MAX_BYTES,
  WEBHOOK_CONNECT_TIMEOUT_MS,
  WEBHOOK_TIMEOUT_MS,
  WEBHOOKS_IN_FLIGHT_MAX,
} from '../../core/limits.ts';
import type { Resolve } from '../../core/name-resolver.ts';
import { guardedConnector, TargetUnreachable } from '../../core/target-connection.ts';
import { Outgoing } from '../http/outgoing.ts';
import type { Attempt } from './deliveries.ts';
import { signedHeaders } from './signature.ts';

const USER_AGENT = 'mandate-gateway-webhooks/1';

/** A receiver that wants nothing any more. Source: Standard Webhooks 1.0, "Operational considerations". */
export const GONE = 410;

export interface WebhookSenderOptions {
  readonly allowPrivate: boolean;
  readonly timeoutMs?: number;
  readonly resolve?: Resolve;
}

export interface Message {
  readonly url: string;
  readonly id: string;
  readonly body: string;
  readonly keys: readonly Buffer[];
}

/**
 * Posts messages to receivers: every connection's address is checked, redirections are not followed, and of the answer
 * only the status counts; its body is not kept.
 */
export class WebhookSender {
  readonly #outgoing: Outgoing;
  readonly #timeoutMs: number;

  constructor({ allowPrivate, timeoutMs = WEBHOOK_TIMEOUT_MS, resolve }: WebhookSenderOptions) {
    const guard = { allowPrivate, connectTimeoutMs: Math.min(WEBHOOK_CONNECT_TIMEOUT_MS, timeoutMs) };
    const connect = guardedConnector(resolve === undefined ? guard : { ...guard, resolve });
    this.#timeoutMs = timeoutMs;
    this.#outgoing = new Outgoing({
      connect: connect as unknown as NonNullable<Agent.Options['connect']>,
      // Never the bound: many accounts may have their receivers at one host, and waiting here counts as its silence.
      connections: WEBHOOKS_IN_FLIGHT_MAX,
      pipelining: 1,
      headersTimeout: timeoutMs,
      bodyTimeout: timeoutMs,
      keepAliveTimeout: TARGET_KEEP_ALIVE_MS,
      keepAliveMaxTimeout: TARGET_KEEP_ALIVE_MS,
      maxHeaderSize: HEAD_MAX_BYTES,
    });
  }

  /** Sends a message once; never throws. `stop` ends it early, as a time-out does. */
  async send({ url, id, body, keys }: Message, stop: AbortSignal): Promise<Attempt> {
    // The receiver compares it with a clock of its own, so it is this machine's time and not the database's.
    const atSeconds = Math.floor(Date.now() / 1000);
    const signal = AbortSignal.any([stop, AbortSignal.timeout(this.#timeoutMs)]);
    try {
      const answer = await this.#outgoing.post({
        url,
        headers: {
          'content-type': 'application/json',
          'user-agent': USER_AGENT,
          ...signedHeaders({ id, atSeconds, body }, keys),
        },
        body,
        signal,
      });
      await answer.body.dump({ limit: WEBHOOK_ANSWER_MAX_BYTES, signal }).catch(() => {});
      return attemptOf(answer.statusCode);
    } catch (error) {
      return { error: reasonOf(error), status: null, final: false };
    }
  }

  /** Ends all connections. */
  async close(): Promise<void> {
    await this.#outgoing.close();
  }
}

function attemptOf(status: number): Attempt {
  if (status >= 200 && status < 300) return { error: null, status, final: false };
  if (status === GONE) return { error: 'gone', status, final: true };
  return { error: status >= 300 && status < 400 ? 'redirect' : 'refused', status, final: false };
}

/** The client's own time-outs, and those of the signal. */
const LATE = new Set(['HeadersTimeoutError', 'BodyTimeoutError', 'TimeoutError', 'AbortError']);

/** One word for the log of deliveries: what a receiver's side says must not get into it. */
function reasonOf(error: unknown): string {
  if (error instanceof TargetUnreachable) return 'unreachable';
  if (error instanceof Error && LATE.has(error.name)) return 'timeout';
  return 'broken';
}
