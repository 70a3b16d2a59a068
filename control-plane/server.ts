import { randomUUID } from 'node:crypto';
import Fastify, { type FastifyInstance, type FastifyReply, type FastifyRequest } from 'fastify';
import { SCHEMALESS } from '../config/schemaless.ts';
import { bodyValue } from '../core/body-value.ts';
import { ProblemError } from '../core/errors.ts';
import { parseStrictJson } from '../core/json.ts';
import { UnknownAddresses } from './accounts/lock-out.ts';
import { registerAccountRoutes } from './accounts/routes.ts';
import { requireSessions } from './admin/session.ts';
import { requireApiKeys } from './api/api-keys.ts';
import { registerConsole } from './console/console.ts';
import { Cookies } from './console/cookies.ts';
import type { RouteDependencies } from './http/dependencies.ts';
import { answerProblem } from './http/problems.ts';
import { countUnread, limitRates, tellRate } from './http/rate-limit.ts';

/** The largest body of this API is a tool mapping, a few KiB. */
const ADMIN_BODY_MAX_BYTES = 256 * 1024;
/** A client that sends its request slower than this is no client, in milliseconds. */
const REQUEST_TIMEOUT_MS = 30_000;
const PARAM_MAX_CHARACTERS = 64;

/** Adds a noun's routes. */
export type RegisterRoutes = (app: FastifyInstance, deps: RouteDependencies) => void | Promise<void>;

/**
 * Builds the admin API, the console and the public API: accounts and sessions, then the nouns of `register`; nothing
 * listens yet.
 *
 * Every answer has `Cache-Control: no-store`, `X-Request-Id` and `X-RateLimit-*`; every error is problem+json
 * (RFC 9457, contract §8). Bodies are strict JSON whose numbers keep their digits (`DecimalText`). Routes below
 * `/admin/` have a live session, found with `accountOf(request)`; routes below `/api/` have a live API key with their
 * declared scope, found with `apiKeyOf(request)`.
 */
export async function buildServer(
  deps: RouteDependencies,
  register: readonly RegisterRoutes[] = [],
): Promise<FastifyInstance> {
  const app = Fastify({
    schemaController: SCHEMALESS,
    bodyLimit: ADMIN_BODY_MAX_BYTES,
    requestTimeout: REQUEST_TIMEOUT_MS,
    routerOptions: { maxParamLength: PARAM_MAX_CHARACTERS },
    exposeHeadRoutes: false,
    genReqId: () => randomUUID(),
    requestIdHeader: false,
    frameworkErrors: (error, request, reply) => {
      void answerUnread(deps, request as unknown as FastifyRequest, reply, error);
    },
  });
  readStrictJson(app);
  app.addHook('onSend', async (request, reply) => {
    // Assets of the console alone have names that say what they hold, and may be kept.
    if (!reply.hasHeader('cache-control')) reply.header('cache-control', 'no-store');
    reply.header('x-request-id', request.id);
    await tellRate(request, reply, deps);
  });
  const cookies = new Cookies(deps.issuer);
  limitRates(app, deps, (request) => cookies.read(request, 'session'));
  requireSessions(app, deps);
  requireApiKeys(app, deps);
  app.setErrorHandler((error, request, reply) => answerProblem(deps, error, request, reply));
  answerUnknownRoutes(app);
  registerHealthRoutes(app, deps);
  const unknownAddresses = new UnknownAddresses();
  registerAccountRoutes(app, deps, unknownAddresses);
  await registerConsole(app, deps, { unknownAddresses, cookies });
  for (const one of register) await one(app, deps);
  return app;
}

/** A request that no hook saw, since its address cannot even be read. */
async function answerUnread(
  deps: RouteDependencies,
  request: FastifyRequest,
  reply: FastifyReply,
  error: unknown,
): Promise<void> {
  reply.headers({ 'cache-control': 'no-store', 'x-request-id': request.id });
  const refused = await countUnread(request, deps).catch((away: unknown) => away);
  await tellRate(request, reply, deps);
  answerProblem(deps, refused ?? error, request, reply);
}

function readStrictJson(app: FastifyInstance): void {
  app.removeAllContentTypeParsers();
  app.addContentTypeParser('application/json', { parseAs: 'buffer' }, async (_request: unknown, body: Buffer) =>
    body.length === 0 ? undefined : bodyValue(parseStrictJson(body)),
  );
}

/** 405 with `Allow` where the path has other methods, else 404. */
function answerUnknownRoutes(app: FastifyInstance): void {
  const routes: { readonly path: RegExp; readonly method: string }[] = [];
  app.addHook('onRoute', ({ url, method }) => {
    const path = new RegExp(
      `^${url
        .replaceAll(/[.+*?()[\]{}|^$\\]/g, '\\$&')
        .replaceAll(/:\w+/g, '[^/]+')
        .replace('\\*', '.+')}$`,
    );
    for (const one of [method].flat()) routes.push({ path, method: one });
  });
  app.setNotFoundHandler((request, reply) => {
    const path = request.url.split('?', 1)[0] ?? '';
    const allowed = [...new Set(routes.filter((route) => route.path.test(path)).map((route) => route.method))];
    if (allowed.length === 0) throw new ProblemError('not_found', 'There is nothing at this path.');
    reply.header('allow', allowed.join(', '));
    throw new ProblemError('method_not_allowed', `This path accepts ${allowed.join(', ')}.`);
  });
}

function registerHealthRoutes(app: FastifyInstance, { sql }: RouteDependencies): void {
  app.get('/healthz', async () => ({ status: 'ok' }));
  app.get('/readyz', async () => {
    await sql`select from schema_migrations limit 1`;
    return { status: 'ready' };
  });
}
