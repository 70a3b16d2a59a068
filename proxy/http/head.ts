import type { IncomingMessage } from 'node:http';
import { ProblemError } from '../../core/errors.ts';
import { isSecretToken, secretHash } from '../../core/secret-token.ts';

/** What a request's headers say about it; `repeated` names one that two parsers could read differently. */
export class RequestHead {
  repeated: string | null = null;
  host: string | null = null;
  authorization: string | null = null;
  contentType: string | null = null;
  contentLength: string | null = null;
  contentEncoding: string | null = null;
  transferEncoding: string | null = null;
  idempotencyKey: string | null = null;
  escalationToken: string | null = null;
  prefer: string | null = null;
  trailer = false;
  /** Lower-case names that `Connection` lists. */
  hopByHop: Set<string> | null = null;

  /** Takes one header in, by its lower-case name. */
  take(name: string, value: string): void {
    switch (name) {
      case 'host':
        this.host = this.#single(name, this.host, value);
        break;
      case 'authorization':
        this.authorization = this.#single(name, this.authorization, value);
        break;
      case 'content-type':
        this.contentType = this.#single(name, this.contentType, value);
        break;
      case 'content-length':
        this.contentLength = this.#single(name, this.contentLength, value);
        break;
      case 'content-encoding':
        this.contentEncoding = this.#single(name, this.contentEncoding, value);
        break;
      case 'transfer-encoding':
        this.transferEncoding = this.#single(name, this.transferEncoding, value);
        break;
      case 'idempotency-key':
        this.idempotencyKey = this.#single(name, this.idempotencyKey, value);
        break;
      case 'x-service-escalation-token':
        this.escalationToken = this.#single(name, this.escalationToken, value);
        break;
      case 'prefer':
        this.prefer = this.prefer === null ? value : `${this.prefer}, ${value}`;
        break;
      case 'trailer':
        this.trailer = true;
        break;
      case 'connection':
        this.hopByHop = listed(value, this.hopByHop);
        break;
    }
  }

  /** The value of a header that may occur once. */
  #single(name: string, known: string | null, value: string): string {
    if (known !== null) this.repeated = name;
    return known ?? value;
  }
}

/** Reads a request's raw headers in one pass. */
export function readHead(raw: readonly string[]): RequestHead {
  const head = new RequestHead();
  for (let i = 0; i < raw.length; i += 2) head.take(raw[i]!.toLowerCase(), raw[i + 1]!);
  return head;
}

/** The lower-case names that a Connection header lists, added to those that are known. */
export function listed(value: string, known: Set<string> | null): Set<string> | null {
  const plain = value.toLowerCase();
  if (plain === 'keep-alive' || plain === 'close') return known;
  const names = known ?? new Set<string>();
  for (const name of plain.split(',')) names.add(name.trim());
  return names;
}

/** The secret of an Authorization header, or null when it is not exactly `Bearer` and a secret of this kind. */
export function bearerSecret(authorization: string | null, prefix: 'gwt' | 'mak'): string | null {
  if (authorization === null || !/^bearer /i.test(authorization)) return null;
  const token = authorization.slice('Bearer '.length);
  return isSecretToken(token, prefix) ? token : null;
}

const IDEMPOTENCY_KEY = /^[\x21-\x7e]{1,255}$/;

/** The SHA-256 of an idempotency key in hex; @throws ProblemError for what cannot be one (contract §8). */
export function idempotencyKeyHash(key: string | null): string | null {
  if (key === null) return null;
  if (!IDEMPOTENCY_KEY.test(key)) {
    throw new ProblemError('malformed_request', 'An Idempotency-Key is 1 to 255 visible ASCII characters.');
  }
  return secretHash(key);
}

/** The SHA-256 in hex by which an escalation token is looked up. */
export function escalationTokenHash(token: string | null): string | null {
  if (token === null) return null;
  // A token that cannot be one is unknown, which is a decision (MD-402) and not a malformed request.
  return isSecretToken(token, 'etk') ? secretHash(token) : secretHash(`not a token: ${token}`);
}

/** Where a request comes from. */
export function addressOf(request: IncomingMessage): string {
  return request.socket.remoteAddress ?? 'unknown';
}
