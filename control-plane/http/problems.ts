import type { FastifyReply, FastifyRequest } from 'fastify';
import { ProblemError, problemDocument } from '../../core/errors.ts';
import { JsonSyntaxProblem } from '../../core/json.ts';
import { isUnavailable } from '../db/client.ts';
import { errorCode } from '../db/database-error.ts';
import type { RouteDependencies } from './dependencies.ts';

/** How long to wait before asking again while the database is away. */
const DATABASE_RETRY_SECONDS = 1;

/** The answer to whatever a route or Fastify itself threw; the cause goes to the log only. */
export function problemOf(error: unknown): ProblemError {
  if (error instanceof ProblemError) return error;
  if (error instanceof JsonSyntaxProblem) {
    return new ProblemError('malformed_json', `${error.message} (at ${error.offset})`, { cause: error });
  }
  switch (errorCode(error)) {
    case 'FST_ERR_CTP_BODY_TOO_LARGE':
      return new ProblemError('payload_too_large', 'The body is larger than this API accepts.');
    case 'FST_ERR_CTP_INVALID_MEDIA_TYPE':
      return new ProblemError('unsupported_media_type', 'Send application/json.');
    case 'FST_ERR_CTP_INVALID_CONTENT_LENGTH':
    case 'FST_ERR_BAD_URL':
    case 'FST_ERR_MAX_PARAM_LENGTH':
    case 'FST_ERR_PARAM_NOT_SCALAR':
      return new ProblemError('malformed_request', 'The request cannot be read.', { cause: error });
    default:
  }
  if (isUnavailable(error)) {
    const detail = 'The database is away for the moment; nothing was changed that was not answered.';
    return new ProblemError('not_decidable', detail, { cause: error, retryAfterSeconds: DATABASE_RETRY_SECONDS });
  }
  return new ProblemError('internal', 'Something went wrong here; it was logged under the request id.', {
    cause: error,
  });
}

/** Sends the problem of an error, and logs what is ours to mend. */
export function answerProblem(
  deps: RouteDependencies,
  error: unknown,
  request: FastifyRequest,
  reply: FastifyReply,
): FastifyReply {
  const problem = problemOf(error);
  if (problem.code === 'internal' || problem.code === 'not_decidable') {
    deps.logError(error, `request ${request.id} failed`);
  }
  if (problem.retryAfterSeconds !== undefined) reply.header('retry-after', problem.retryAfterSeconds);
  const challenge = challengeOf(problem, request);
  if (challenge !== null) reply.header('www-authenticate', challenge);
  return reply
    .code(problem.status)
    .type('application/problem+json')
    .serializer((body: unknown) => JSON.stringify(body))
    .send(problemDocument(problem, request.id));
}

/** What `WWW-Authenticate` says (RFC 6750 §3): no error where nothing was shown, else whether a scope would help. */
function challengeOf({ code }: ProblemError, request: FastifyRequest): string | null {
  if (code !== 'unauthenticated' && code !== 'insufficient_scope') return null;
  const realm = 'Bearer realm="mandate-gateway"';
  if (code === 'insufficient_scope') {
    return `${realm}, error="insufficient_scope", scope="${request.routeOptions.config.scope ?? ''}"`;
  }
  return request.headers.authorization === undefined ? realm : `${realm}, error="invalid_token"`;
}
