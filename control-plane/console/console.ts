import { randomBytes } from 'node:crypto';
import type { FastifyError, FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { ProblemError } from '../../core/errors.ts';
import { FormSyntaxProblem, parseStrictForm } from '../../core/form.ts';
import { isSecretToken } from '../../core/secret-token.ts';
import type { UnknownAddresses } from '../accounts/lock-out.ts';
import { findConsoleSession } from '../accounts/sessions.ts';
import type { RouteDependencies } from '../http/dependencies.ts';
import { problemOf } from '../http/problems.ts';
import { countAgainstAddress, countAgainstCredential } from '../http/rate-limit.ts';
import { registerAssets } from './assets.ts';
import type { Cookies } from './cookies.ts';
import { CSRF_FIELD, csrfToken, isCsrfToken, ownOrigins, refuseForeign } from './csrf.ts';
import { errorPage } from './errors.ts';
import { renderPage, type ShellFacts } from './layout.ts';
import { ASSETS_PREFIX, CONSOLE_PREFIX, LOGIN_PATH } from './paths.ts';
import { PendingWatch } from './pending-watch.ts';
import { CONSOLE_ROUTES } from './routes.ts';
import { securityHeaders } from './security-headers.ts';
import {
  type Answer,
  type ConsoleDependencies,
  type ConsoleRoute,
  ElsewhereFirst,
  type Flash,
  type PageAnswer,
  type SignedInVisit,
  type Theme,
  type Visit,
} from './visit.ts';
import { languageOf, wordsOf } from './words.ts';

/** 256 bits that bind the forms of somebody who is not signed in to their browser. */
const VISIT_BYTES = 32;
const FLASH = /^[a-z]+\.[a-z_]+$/;

const visits = new WeakMap<FastifyRequest, Visit>();

/** The pages of the console below `/console`, and `/`, which leads there (docs/console.md). */
export async function registerConsole(
  app: FastifyInstance,
  deps: RouteDependencies,
  means: { readonly unknownAddresses: UnknownAddresses; readonly cookies: Cookies },
): Promise<void> {
  const origins = ownOrigins(deps.issuer);
  const pending = new PendingWatch(deps);
  const full: ConsoleDependencies = { ...deps, ...means, origins, streams: new Map(), pending };
  const secure = new URL(deps.issuer).protocol === 'https:';
  for (const path of ['/', `${CONSOLE_PREFIX}/`]) {
    app.get(path, { config: { public: true } }, async (_request, reply) => reply.redirect(CONSOLE_PREFIX, 303));
  }
  app.addHook('preClose', async () => {
    for (const stream of full.streams.keys()) stream.end();
  });
  await app.register(async (scope) => {
    readForms(scope);
    scope.addHook('onRequest', async (request, reply) => {
      securityHeaders(reply, secure);
      if (request.url.startsWith(ASSETS_PREFIX)) return;
      if (request.method === 'POST') refuseForeign(request, full.origins);
      visits.set(request, await visitOf(full, request, reply));
    });
    scope.setErrorHandler((error: FastifyError, request, reply) => answerError(full, error, request, reply));
    registerAssets(scope);
    for (const route of CONSOLE_ROUTES) registerPage(scope, full, route);
    // Whatever has no page: in the console's own frame, and after its hooks.
    scope.all(`${CONSOLE_PREFIX}/*`, async () => {
      throw new ProblemError('not_found', 'There is nothing at this path.');
    });
  });
}

/** Bodies are strict forms and nothing else. */
function readForms(scope: FastifyInstance): void {
  scope.removeAllContentTypeParsers();
  scope.addContentTypeParser(
    'application/x-www-form-urlencoded',
    { parseAs: 'buffer' },
    async (_request: unknown, body: Buffer) => parseStrictForm(body),
  );
}

function registerPage(scope: FastifyInstance, deps: ConsoleDependencies, route: ConsoleRoute): void {
  const url = route.path === '/' ? CONSOLE_PREFIX : `${CONSOLE_PREFIX}${route.path}`;
  scope.route({
    method: route.method,
    url,
    ...('bodyLimitBytes' in route ? { bodyLimit: route.bodyLimitBytes } : {}),
    handler: async (request, reply) => {
      const visit = visits.get(request);
      if (visit === undefined) throw new Error('a page without its hooks');
      checkForm(route, visit);
      const answer = route.access === 'open' ? await route.answer(visit) : await signedIn(route, visit);
      return sendAnswer(deps, visit, reply, answer);
    },
  });
}

/** A form has the token of its session; who has none any more is asked to sign in instead. */
function checkForm({ access, method }: ConsoleRoute, { request, session, secret }: Visit): void {
  if (method !== 'POST') return;
  if (access === 'signed-in' && session === null) throw new ElsewhereFirst(LOGIN_PATH);
  const given = (request.body as ReadonlyMap<string, string> | undefined)?.get(CSRF_FIELD);
  if (isCsrfToken(secret.value, given)) return;
  throw new ProblemError('forbidden', 'The form lacks the token of this session.');
}

async function signedIn(route: ConsoleRoute & { access: 'signed-in' }, visit: Visit): Promise<Answer> {
  if (isSignedIn(visit)) return route.answer(visit);
  const { method, url } = visit.request;
  const next = method === 'GET' ? `?next=${encodeURIComponent(url)}` : '';
  throw new ElsewhereFirst(`${LOGIN_PATH}${next}`);
}

function isSignedIn(visit: Visit): visit is SignedInVisit {
  return visit.session !== null;
}

async function visitOf(deps: ConsoleDependencies, request: FastifyRequest, reply: FastifyReply): Promise<Visit> {
  const token = deps.cookies.read(request, 'session');
  const session = isSecretToken(token, 'ses') ? await findConsoleSession(deps.sql, token) : null;
  if (session !== null && token !== null) {
    await countAgainstCredential(request, deps);
    return newVisit(deps, request, reply, { session, secret: token });
  }
  if (token !== null) {
    await countAgainstAddress(request, deps);
    deps.cookies.clear(reply, 'session');
  }
  const known = deps.cookies.read(request, 'visit');
  const secret = known ?? randomBytes(VISIT_BYTES).toString('base64url');
  if (known === null && request.method === 'GET') deps.cookies.set(reply, 'visit', secret);
  return newVisit(deps, request, reply, { session: null, secret });
}

function newVisit(
  deps: ConsoleDependencies,
  request: FastifyRequest,
  reply: FastifyReply,
  { session, secret: value }: { readonly session: Visit['session']; readonly secret: string },
): Visit {
  const { cookies } = deps;
  const language = languageOf(request, cookies.read(request, 'language'));
  const [theme, flash] = [cookies.read(request, 'theme'), cookies.read(request, 'flash')];
  const secret = { value };
  return {
    request,
    reply,
    deps,
    language,
    words: wordsOf(language),
    theme: theme === 'light' || theme === 'dark' ? (theme satisfies Theme) : null,
    secret,
    get csrf() {
      return csrfToken(secret.value);
    },
    flash: flash !== null && FLASH.test(flash) ? (flash as Flash) : null,
    session,
  };
}

async function sendAnswer(
  deps: ConsoleDependencies,
  visit: Visit,
  reply: FastifyReply,
  answer: Answer,
): Promise<FastifyReply> {
  switch (answer.kind) {
    case 'page':
      return sendPage(
        visit,
        reply,
        answer,
        visit.session === null ? null : await shellFacts(deps, visit.session.accountId),
      );
    case 'redirect':
      if (answer.flash !== null) deps.cookies.set(reply, 'flash', answer.flash);
      return reply.redirect(answer.to, 303);
    case 'json':
      return reply.code(answer.status).type('application/json; charset=utf-8').send(JSON.stringify(answer.body));
    case 'sent':
      return reply;
    default:
      return answer satisfies never;
  }
}

function sendPage(visit: Visit, reply: FastifyReply, answer: PageAnswer, shell: ShellFacts | null): FastifyReply {
  if (visit.flash !== null) visit.deps.cookies.clear(reply, 'flash');
  return reply
    .code(answer.status)
    .type('text/html; charset=utf-8')
    .send(renderPage(visit, answer, shell));
}

/** A page may be the only one that ever shows a secret: what only decorates its frame must not keep it back. */
async function shellFacts({ sql, logError }: ConsoleDependencies, accountId: string): Promise<ShellFacts> {
  const [row] = await sql<{ pending: number }[]>`
    select count(*) as pending from escalations
    where account_id = ${accountId} and status = 'pending' and expires_at > db_clock()`.catch((error: unknown) => {
    logError(error, 'the number of pending approvals could not be read');
    return [];
  });
  return { pendingApprovals: Number(row?.pending ?? 0) };
}

/** 422 and the statuses below it say something of the request; those above of what the service can bear. */
const LAST_ASKED_IN_VAIN = 422;

async function answerError(
  deps: ConsoleDependencies,
  error: unknown,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<FastifyReply> {
  if (error instanceof ElsewhereFirst) return reply.redirect(error.to, 303);
  const problem = consoleProblem(error);
  if (problem.code === 'internal' || problem.code === 'not_decidable') {
    deps.logError(error, `request ${request.id} failed`);
  }
  if (problem.retryAfterSeconds !== undefined) reply.header('retry-after', problem.retryAfterSeconds);
  securityHeaders(reply, new URL(deps.issuer).protocol === 'https:');
  // A request that was refused before its session was looked up is shown what everybody may see.
  const visit = visits.get(request) ?? newVisit(deps, request, reply, { session: null, secret: '' });
  const { session } = visit;
  // What a person asked for in vain is told within the frame that they came from; more than that may not be there.
  const within = session === null || problem.status > LAST_ASKED_IN_VAIN ? null : session.accountId;
  const shell = within === null ? null : await shellFacts(deps, within).catch(() => null);
  const shown = shell === null ? { ...visit, session: null } : visit;
  return sendPage(shown, reply, errorPage(shown, problem), shell);
}

function consoleProblem(error: unknown): ProblemError {
  if (error instanceof FormSyntaxProblem) return new ProblemError('malformed_form', error.message, { cause: error });
  return problemOf(error);
}
