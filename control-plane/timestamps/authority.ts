import { randomBytes } from 'node:crypto';
import type { X509 } from '../../core/certificate.ts';
import {
  TIMESTAMP_CLOCK_TOLERANCE_MS,
  TIMESTAMP_CONNECTIONS_MAX,
  TIMESTAMP_TOKEN_MAX_BYTES,
} from '../../core/limits.ts';
import type { ValidTimestamp } from '../../core/timestamp-token.ts';
import { Outgoing } from '../http/outgoing.ts';
import { BodyTooLarge, readBody, UNLIMITED_BY_CLIENT } from '../publishing/answer-body.ts';

/**
 * No timestamp was had. `away`: the authority did not answer, or not with an answer of the protocol, so others will
 * fail too; else it answered, and its answer was refused. The message is one sentence without secrets.
 */
export class TimestampFailure extends Error {
  override readonly name = 'TimestampFailure';
  readonly away: boolean;

  constructor(message: string, away: boolean, cause?: unknown) {
    super(message, { cause });
    this.away = away;
  }
}

export interface AuthorityOptions {
  readonly url: string;
  /** For the whole exchange, in milliseconds. */
  readonly timeoutMs: number;
  /** Certificates that may issue the authority's; none: any may, and the path is not checked. */
  readonly anchors: readonly X509[];
}

const QUERY_TYPE = 'application/timestamp-query';
const REPLY_TYPE = 'application/timestamp-reply';

/** A timestamping authority over HTTP (RFC 3161 §3.4), which is believed nothing that its token does not prove. */
export class TimestampAuthority {
  /** Host and port, for messages; the rest of the address may hold what others need not know. */
  readonly host: string;
  readonly #options: AuthorityOptions;
  readonly #outgoing: Outgoing;

  constructor(options: AuthorityOptions) {
    this.#options = options;
    this.host = new URL(options.url).host;
    this.#outgoing = new Outgoing({ ...UNLIMITED_BY_CLIENT, connections: TIMESTAMP_CONNECTIONS_MAX, pipelining: 1 });
  }

  /**
   * Asks for a timestamp over a SHA-256 digest (32 bytes) and checks the answer.
   *
   * @throws TimestampFailure
   */
  async stamp(digest: Uint8Array): Promise<ValidTimestamp> {
    const nonce = randomBytes(16);
    // Loaded where timestamps are used: what reads ASN.1 holds 20 MB.
    const { checkTimestampResponse, timestampRequest } = await import('../../core/timestamp-token.ts');
    const answer = await this.#ask(timestampRequest(digest, nonce));
    const clock = { nowMs: Date.now(), toleranceMs: TIMESTAMP_CLOCK_TOLERANCE_MS };
    const verdict = await checkTimestampResponse(answer, { digest, nonce, anchors: this.#options.anchors, clock });
    if (verdict.valid) return verdict;
    throw new TimestampFailure(`${this.host}: ${verdict.problem}`, false);
  }

  /** Ends its connections. */
  close(): Promise<void> {
    return this.#outgoing.close();
  }

  async #ask(query: Uint8Array): Promise<Uint8Array> {
    const signal = AbortSignal.timeout(this.#options.timeoutMs);
    try {
      const response = await this.#outgoing.post({
        url: this.#options.url,
        headers: { 'content-type': QUERY_TYPE, accept: REPLY_TYPE },
        body: Buffer.from(query),
        signal,
      });
      // Read also where it is refused, within the same bounds, so that the connection can be used again.
      const body = await readBody(response.body, TIMESTAMP_TOKEN_MAX_BYTES);
      const type = String(response.headers['content-type'] ?? '')
        .split(';', 1)[0]
        ?.trim()
        .toLowerCase();
      if (response.statusCode !== 200) throw this.#away(`answers with status ${response.statusCode}`);
      if (type !== REPLY_TYPE) throw this.#away(`answers with something else than ${REPLY_TYPE}`);
      return body;
    } catch (error) {
      if (error instanceof TimestampFailure) throw error;
      if (error instanceof BodyTooLarge) throw this.#away(`answers with ${error.message}`);
      const late = signal.aborted ? `did not answer within ${this.#options.timeoutMs} ms` : 'cannot be reached';
      throw this.#away(late, error);
    }
  }

  #away(what: string, cause?: unknown): TimestampFailure {
    return new TimestampFailure(`the timestamping authority at ${this.host} ${what}`, true, cause);
  }
}
