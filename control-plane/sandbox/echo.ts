import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { ProblemError } from '../../core/errors.ts';
import { SANDBOX_ECHO_MAX_BYTES } from '../../core/limits.ts';
import { SECRET_PREFIXES } from '../../core/secret-token.ts';

/** Names of headers that may hold a credential; too many is harmless, one too few is not. */
const CREDENTIAL_NAME =
  /auth|cookie|token|secret|passw|credential|session|signature|api[-_]?key|(?<!^idempotency-)key$/;
/** What this service itself gave out as a secret, wherever it stands. */
const OWN_SECRET = new RegExp(`(?:${SECRET_PREFIXES.join('|')})_[A-Za-z0-9_-]{43}`);
/** What proxies on the way say, this service's own among them (its hosts have names of their own): nobody sent that. */
const OF_THE_WAY =
  /^(?:host|connection|keep-alive|transfer-encoding|forwarded|via|x-forwarded-.*|x-real-ip|x-mandate-.*)$/;
const MASK = '***';

/** What the echo answers: what it received and nothing else. */
export interface Echo {
  readonly method: string;
  readonly path: string;
  /** What follows the question mark, as it was sent; empty where there is none. */
  readonly query: string;
  /** By lower-case name; credentials are `***`. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
  readonly body_encoding: 'utf-8' | 'base64';
}

/**
 * `/api/sandbox/echo`: a neutral target that reports what it received, whatever the method and the content type.
 *
 * It stores nothing and has no other effect. Bodies above SANDBOX_ECHO_MAX_BYTES are 413. Source: contract §8.
 */
export function registerEcho(app: FastifyInstance): void {
  app.register(async (scope) => {
    scope.removeAllContentTypeParsers();
    // Left unread: Fastify reads no body for some methods, and here every method is alike.
    scope.addContentTypeParser('*', (_request, _payload, done) => done(null));
    scope.route({
      method: scope.supportedMethods,
      url: '/api/sandbox/echo',
      config: { public: true },
      handler: async (request, reply) => {
        const body = await readBytes(request, reply);
        return reply.header('x-content-type-options', 'nosniff').send(echoOf(request, body));
      },
    });
  });
}

function echoOf(request: FastifyRequest, bytes: Buffer): Echo {
  const [path = '', ...query] = request.url.split('?');
  const headers: Record<string, string> = Object.create(null);
  for (const [name, value] of Object.entries(request.headers)) {
    if (value === undefined || OF_THE_WAY.test(name)) continue;
    const text = [value].flat().join(', ');
    headers[name] = CREDENTIAL_NAME.test(name) || OWN_SECRET.test(text) ? MASK : text;
  }
  return { method: request.method, path, query: query.join('?'), headers, ...textOf(bytes) };
}

function textOf(bytes: Buffer): Pick<Echo, 'body' | 'body_encoding'> {
  try {
    const body = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
    return { body, body_encoding: 'utf-8' };
  } catch {
    return { body: bytes.toString('base64'), body_encoding: 'base64' };
  }
}

async function readBytes({ raw }: FastifyRequest, reply: FastifyReply): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let size = 0;
  try {
    // The stream outlives a refusal: one that is destroyed takes the answer with it.
    for await (const chunk of raw.iterator({ destroyOnReturn: false }) as AsyncIterable<Buffer>) {
      size += chunk.length;
      if (size > SANDBOX_ECHO_MAX_BYTES) break;
      chunks.push(chunk);
    }
  } catch (error) {
    throw new ProblemError('malformed_request', 'The body ended too early.', { cause: error });
  }
  if (size <= SANDBOX_ECHO_MAX_BYTES) return Buffer.concat(chunks);
  // The rest is not read, so nothing else can follow on this connection.
  reply.header('connection', 'close');
  throw new ProblemError('payload_too_large', `The echo takes at most ${SANDBOX_ECHO_MAX_BYTES} bytes.`);
}
