import type { IncomingHttpHeaders } from 'node:http';
import httpProxy from '@fastify/http-proxy';
import Fastify, { type FastifyInstance } from 'fastify';
import { ProblemError, problemDocument } from '../core/errors.ts';
import { newRequestId } from './http/answers.ts';

const BODY_MAX_BYTES = 1024 * 1024;

/** Where a request came from is said by this proxy alone: what the sender says about it stays here. */
function ownForwarding(headers: IncomingHttpHeaders, address: string | undefined): IncomingHttpHeaders {
  const kept = Object.entries(headers).filter(
    ([name]) => !/^(?:forwarded|x-forwarded-.*|x-real-ip|x-mandate-.*)$/.test(name),
  );
  return { ...Object.fromEntries(kept), 'x-forwarded-for': address ?? 'unknown' };
}

/** Everything but the gateway path: health, and `/api` and `/.well-known` passed through to the control plane. */
export async function passThrough(options: {
  readonly controlUrl: string;
  readonly ready: () => Promise<boolean>;
}): Promise<FastifyInstance> {
  const app = Fastify({ logger: false, bodyLimit: BODY_MAX_BYTES, genReqId: newRequestId });
  app.get('/healthz', (_request, reply) => reply.header('cache-control', 'no-store').send({ status: 'ok' }));
  app.get('/readyz', async (_request, reply) => {
    const ready = await options.ready();
    reply.header('cache-control', 'no-store').code(ready ? 200 : 503);
    return { status: ready ? 'ready' : 'control plane away' };
  });
  app.setNotFoundHandler((request, reply) => {
    const problem = new ProblemError('not_found', 'There is nothing at this path.');
    return reply
      .code(problem.status)
      .headers({ 'content-type': 'application/problem+json', 'cache-control': 'no-store', 'x-request-id': request.id })
      .send(JSON.stringify(problemDocument(problem, request.id)));
  });
  for (const prefix of ['/api', '/.well-known']) {
    await app.register(httpProxy, {
      upstream: options.controlUrl,
      prefix,
      rewritePrefix: prefix,
      replyOptions: {
        rewriteRequestHeaders: (request, headers) => ownForwarding(headers, request.raw.socket.remoteAddress),
        onError: (reply, { error }) => {
          const detail = 'No control plane answered.';
          const problem = new ProblemError('not_decidable', detail, { cause: error, retryAfterSeconds: 1 });
          const id = reply.request.id;
          reply
            .code(problem.status)
            .headers({ 'content-type': 'application/problem+json', 'cache-control': 'no-store', 'retry-after': '1' })
            .send(JSON.stringify(problemDocument(problem, id)));
        },
      },
    });
  }
  await app.ready();
  return app;
}
