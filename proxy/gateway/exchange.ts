import { hash } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { ProblemError } from '../../core/errors.ts';
import { type BodyKind, parseBody } from '../../core/request-body.ts';
import type { RequestShape } from '../../core/request-shape.ts';
import { secretHash } from '../../core/secret-token.ts';
import { needsBody, type RequestBody } from '../../core/tool-mapping.ts';
import { isGatewayMethod, type QueryParams, readQuery, readToolPath, toolName } from '../../core/tool-name.ts';
import { BodyAborted, BodyReader, type BodyWaiter, bodyKind } from '../http/body.ts';
import {
  addressOf,
  bearerSecret,
  escalationTokenHash,
  idempotencyKeyHash,
  type RequestHead,
  readHead,
} from '../http/head.ts';
import type { HeldMapping } from './mappings.ts';
import type { Prepared } from './targets.ts';

const EMPTY_SHA256 = hash('sha256', '', 'hex');
const NO_BYTES = Buffer.alloc(0);

/** A request as it came; `exchange` once it is read and counted. */
export interface Arrival {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly requestId: string;
  readonly prefix: string;
  exchange: Exchange | null;
}

/** One request as far as it was read; the parts that are not final are filled in on the way. */
export interface Exchange {
  readonly prefix: string;
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly requestId: string;
  readonly head: RequestHead;
  readonly tokenHash: string;
  readonly address: string;
  readonly method: string;
  readonly path: string;
  readonly query: string;
  readonly queryParams: QueryParams;
  readonly name: string;
  readonly kind: BodyKind;
  /** Made when the body is first read: what is refused before that costs nothing. */
  reader: BodyReader | null;
  readonly keyHash: string | null;
  escalationHash: string | null;
  /** The whole body; null while it is not read, or when it streams. */
  bytes: Buffer | null;
  body: RequestBody;
  streams: boolean;
  /** What was told of its form, where the tool may be one that nothing is known of. */
  shape: RequestShape | null;
  /** The target that was held when it was last asked. */
  heldTarget: Prepared | null;
  /** The request on its way to the target. */
  forwarding: { agentGone(): void } | null;
  /** When a request that prefers to wait is answered at last, in milliseconds of the monotonic clock. */
  waitUntilMs: number | null;
}

/** Reads all of a request but its body; @throws ProblemError with what is wrong with it. */
export function readExchange({ request, response, requestId, prefix }: Arrival): Exchange {
  const method = request.method ?? '';
  if (request.httpVersionMajor !== 1) throw new ProblemError('malformed_request', 'HTTP/1.1 is spoken here.');
  if (!isGatewayMethod(method)) throw new ProblemError('method_not_allowed', 'This method is not forwarded.');
  const url = request.url ?? '';
  const mark = url.indexOf('?');
  const path = readToolPath(url.slice(prefix.length, mark < 0 ? undefined : mark));
  if (!path.ok) throw new ProblemError('ambiguous_path', path.message);
  const query = readQuery(mark < 0 ? '' : url.slice(mark + 1));
  if (!query.ok) throw new ProblemError('ambiguous_query', query.message);
  if (mark === url.length - 1 && mark >= 0)
    throw new ProblemError('ambiguous_query', 'The query is empty: leave out the ?.');
  const head = readHead(request.rawHeaders);
  if (head.repeated !== null) throw new ProblemError('repeated_header', `The header ${head.repeated} is repeated.`);
  if (head.trailer) throw new ProblemError('trailers_refused', 'Send the request without trailers.');
  const token = bearerSecret(head.authorization, 'gwt');
  if (token === null) {
    throw new ProblemError(
      'unauthenticated',
      'Send `Authorization: Bearer gwt_…` with the token of a gateway instance.',
    );
  }
  const kind = bodyKind(head);
  return {
    prefix,
    request,
    response,
    requestId,
    head,
    tokenHash: secretHash(token),
    address: addressOf(request),
    method,
    path: path.path,
    query: query.query,
    queryParams: query.params,
    name: toolName(method, path.path),
    kind,
    reader: null,
    keyHash: idempotencyKeyHash(head.idempotencyKey),
    escalationHash: escalationTokenHash(head.escalationToken),
    bytes: null,
    body: { kind: 'none' },
    streams: false,
    shape: null,
    heldTarget: null,
    forwarding: null,
    waitUntilMs: null,
  };
}

/** Answers with the whole body, or null where it is larger than `limit`; at once where that is known already. */
export function bodyWithin(exchange: Exchange, limit: number, waiter: BodyWaiter): void {
  const { head, kind, request, response } = exchange;
  if (kind === 'none') {
    waiter.resolve(NO_BYTES);
  } else if (response.destroyed) {
    waiter.reject(new BodyAborted('the agent is gone'));
  } else if (head.contentLength !== null && Number(head.contentLength) > limit) {
    waiter.resolve(null);
  } else {
    exchange.reader ??= new BodyReader(request, exchange.tokenHash);
    exchange.reader.read(limit, waiter);
  }
}

/** Keeps the whole body, parsed; @throws ProblemError where it is not what its headers say. */
export function takeBody(exchange: Exchange, bytes: Buffer): void {
  refuseTrailers(exchange);
  exchange.bytes = bytes;
  exchange.body = parseBody(exchange.kind, bytes);
}

/** Reads a body that is larger than what is read unasked, or has it stream, as the mapping says. */
export async function takeLargeBody(exchange: Exchange, mapping: HeldMapping): Promise<void> {
  const limit = mapping.compiled.mapping.body_limit_bytes;
  const bytes = await new Promise<Buffer | null>((resolve, reject) => {
    bodyWithin(exchange, limit, { resolve, reject });
  });
  if (bytes !== null) return takeBody(exchange, bytes);
  refuseTrailers(exchange);
  if (exchange.kind !== 'opaque' || needsBody(mapping.compiled.mapping)) {
    throw new ProblemError('payload_too_large', `The body may have at most ${limit} bytes here.`);
  }
  if (exchange.keyHash !== null) {
    const detail = 'An Idempotency-Key cannot be used with a body that streams: a repeat could not be compared.';
    throw new ProblemError('malformed_request', detail);
  }
  exchange.reader ??= new BodyReader(exchange.request, exchange.tokenHash);
  exchange.streams = true;
  exchange.body = { kind: 'opaque' };
}

function refuseTrailers({ request }: Exchange): void {
  if (request.rawTrailers.length === 0) return;
  throw new ProblemError('trailers_refused', 'Send the request without trailers.');
}

/** The SHA-256 of the whole body in lower-case hex; null where it is not read. */
export function bodyDigest(exchange: Exchange): string | null {
  if (exchange.bytes === null) return null;
  return exchange.bytes.length === 0 ? EMPTY_SHA256 : hash('sha256', exchange.bytes, 'hex');
}
