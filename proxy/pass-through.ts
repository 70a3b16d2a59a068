import type { IncomingHttpHeaders } from 'node:http';
import httpProxy from '@fastify/http-proxy';
import Fastify, { type FastifyInstance, type FastifyReply, type FastifyRequest } from 'fastify';
import { SCHEMALESS } from '../config/schemaless.ts';
import { ProblemError, problemDocument } from '../core/errors.ts';
import { CONSOLE_FORM_MAX_BYTES, PASS_THROUGH_CONNECTIONS_MAX } from '../core/limits.ts';
import { type ChargeAnswer, INTERNAL_SECRET_HEADER } from '../core/wire.ts';
import { newRequestId } from './http/answers.ts';

/** Nothing that is passed on takes more: the control plane would cut a larger body off while it is being sent. */
const BODY_MAX_BYTES = 256 * 1024;

/** Headers that two readers could take for different ones where they are repeated. */
const SINGLE_HEADERS = new Set(['authorization', 'idempotency-key']);

/** Where the pages for people are (docs/design/0020-where-the-console-is.md). */
const CONSOLE_PREFIX = '/console';

export interface PassThroughOptions {
  readonly controlUrl: string;
  /** Proves to the control plane that a request, and what is said about its sender, comes from a proxy. */
  readonly internalSecret: string;
  readonly ready: () => Promise<boolean>;
  /** Takes one request from the bucket of an address; null where no control plane answers. */
  readonly charge: (address: string) => Promise<ChargeAnswer | null>;
}

// Its default is to take any certificate: passwords and the proxies' secret would go to whoever answers. As an object,
// because the library's types do not know this option of its own.
const CLIENT: object = { tls: { rejectUnauthorized: true }, connections: PASS_THROUGH_CONNECTIONS_MAX };

/** Everything but the gateway path: health, and `/api`, `/.well-known` and the console passed to the control plane. */
export async function passThrough(options: PassThroughOptions): Promise<FastifyInstance> {
  const answer = (request: FastifyRequest, reply: FastifyReply, problem: ProblemError) =>
    answerProblem(options, request, reply, problem);
  /** For callers that wait for nothing: whatever goes wrong ends this connection and no more. */
  const answerAlone = (request: FastifyRequest, reply: FastifyReply, problem: ProblemError): void => {
    answer(request, reply, problem).then(undefined, () => reply.raw.destroy());
  };
  const app = Fastify({
    schemaController: SCHEMALESS,
    logger: false,
    bodyLimit: CONSOLE_FORM_MAX_BYTES,
    genReqId: newRequestId,
    frameworkErrors: (error, request, reply) => {
      answerAlone(request as FastifyRequest, reply as FastifyReply, problemOf(error));
    },
  });
  app.get('/healthz', (_request, reply) => reply.header('cache-control', 'no-store').send({ status: 'ok' }));
  app.get('/readyz', async (_request, reply) => {
    const ready = await options.ready();
    reply.header('cache-control', 'no-store').code(ready ? 200 : 503);
    return { status: ready ? 'ready' : 'control plane away' };
  });
  app.get('/', (_request, reply) => reply.header('cache-control', 'no-store').redirect(CONSOLE_PREFIX, 303));
  app.setNotFoundHandler((request, reply) =>
    answer(request, reply, new ProblemError('not_found', 'There is nothing at this path.')),
  );
  app.setErrorHandler((error, request, reply) => answer(request, reply, problemOf(error)));
  app.addHook('onRequest', async (request) => {
    addressOf(request);
    refuseAmbiguous(request);
    refuseLarge(request);
  });
  for (const prefix of ['/api', '/.well-known', CONSOLE_PREFIX]) {
    await app.register(httpProxy, {
      upstream: options.controlUrl,
      prefix,
      rewritePrefix: prefix,
      undici: CLIENT,
      replyOptions: {
        // Otherwise a GET that is answered 503 is repeated ten times at once, and counted as often.
        retryDelay: () => null,
        rewriteRequestHeaders: (request, headers) =>
          ownForwarding(headers, {
            'x-forwarded-for': addressOf(request),
            'x-forwarded-host': request.headers.host ?? '',
            [INTERNAL_SECRET_HEADER]: options.internalSecret,
          }),
        onError: (reply, { error }) => {
          const detail = 'No control plane answered.';
          const problem = new ProblemError('not_decidable', detail, { cause: error, retryAfterSeconds: 1 });
          answerAlone(reply.request as FastifyRequest, reply as FastifyReply, problem);
        },
      },
    });
  }
  await app.ready();
  return app;
}

/**
 * Where a request came from is said by this proxy alone: what the sender says about it stays here. What it calls
 * hop-by-hop is gone before, so it cannot have these headers removed.
 */
function ownForwarding(headers: IncomingHttpHeaders, own: Readonly<Record<string, string>>): IncomingHttpHeaders {
  const kept = Object.entries(headers).filter(
    ([name]) => !/^(?:forwarded|x-forwarded-.*|x-real-ip|x-mandate-.*)$/.test(name),
  );
  return { ...Object.fromEntries(kept), ...own };
}

/** What is passed on has one spelling of its path and one value of each header that decides whose request it is. */
function refuseAmbiguous({ raw }: FastifyRequest): void {
  const { rawHeaders, url = '' } = raw;
  const seen = new Set<string>();
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const name = rawHeaders[i]?.toLowerCase() ?? '';
    if (!SINGLE_HEADERS.has(name)) continue;
    if (seen.has(name)) throw new ProblemError('repeated_header', `Send one ${name} header.`);
    seen.add(name);
  }
  // The way on resolves dot segments: a path that begins with /api must not end up beside it.
  const path = url.split('?', 1)[0] ?? '';
  if (/[\\]|\/\/|%2f|%5c/i.test(path) || path.split('/').some((part) => /^(?:\.|%2e){1,2}$/i.test(part))) {
    throw new ProblemError('ambiguous_path', 'Send the path in its canonical form.');
  }
}

/** By what is announced: a body is not read here, it is passed on as it comes. */
function refuseLarge({ headers, url }: FastifyRequest): void {
  const maxBytes = url.startsWith(`${CONSOLE_PREFIX}/`) ? CONSOLE_FORM_MAX_BYTES : BODY_MAX_BYTES;
  if (Number(headers['content-length'] ?? '0') <= maxBytes) return;
  throw new ProblemError('payload_too_large', `The body may have at most ${maxBytes} bytes.`);
}

/** Answers what is answered here; it costs its sender one request, as everything does. */
async function answerProblem(
  options: PassThroughOptions,
  request: FastifyRequest,
  reply: FastifyReply,
  wrong: ProblemError,
): Promise<FastifyReply> {
  let problem = wrong;
  const charged = await options.charge(addressOf(request)).catch(() => null);
  if (charged !== null) {
    const [limit, remaining, reset] = charged.rate;
    reply.headers({ 'x-ratelimit-limit': limit, 'x-ratelimit-remaining': remaining, 'x-ratelimit-reset': reset });
    if (charged.retry_after_s !== null) {
      const retryAfterSeconds = charged.retry_after_s;
      problem = new ProblemError('rate_limited', 'The rate of requests is exceeded.', { retryAfterSeconds });
    }
  }
  if (problem.retryAfterSeconds !== undefined) reply.header('retry-after', problem.retryAfterSeconds);
  return reply
    .code(problem.status)
    .headers({ 'content-type': 'application/problem+json', 'cache-control': 'no-store', 'x-request-id': request.id })
    .send(JSON.stringify(problemDocument(problem, request.id)));
}

function problemOf(error: unknown): ProblemError {
  if (error instanceof ProblemError) return error;
  const status = error instanceof Error && 'statusCode' in error ? error.statusCode : 500;
  if (status === 413) return new ProblemError('payload_too_large', 'The body is larger than this API accepts.');
  if (status === 415) return new ProblemError('unsupported_media_type', 'Send application/json.');
  if (typeof status === 'number' && status < 500) {
    return new ProblemError('malformed_request', 'The request cannot be read.', { cause: error });
  }
  return new ProblemError('internal', 'Something went wrong here; nothing more is known.', { cause: error });
}

interface Arrived {
  readonly raw: { readonly socket: { readonly remoteAddress?: string | undefined } | null };
}

const addresses = new WeakMap<Arrived['raw'], string>();

/** Where a request comes from, as it was when it arrived: one whose body broke off has no socket any more. */
function addressOf({ raw }: Arrived): string {
  const known = addresses.get(raw);
  if (known !== undefined) return known;
  const address = raw.socket?.remoteAddress ?? 'unknown';
  addresses.set(raw, address);
  return address;
}
