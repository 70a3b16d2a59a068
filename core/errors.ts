/**
 * The closed table of errors that answers may carry (RFC 9457 `error` members), each with its HTTP status and title.
 *
 * A denial is not an error: it is a value (`core/decide.ts`). Public text goes to `detail`; the internal `cause` is
 * logged and never answered.
 */
export const PROBLEMS = {
  malformed_json: [400, 'The body is not strict JSON'],
  malformed_form: [400, 'The body is not a strict form'],
  malformed_request: [400, 'The request is malformed'],
  ambiguous_path: [400, 'The path is not in its canonical form'],
  ambiguous_query: [400, 'The query is not in its canonical form'],
  repeated_header: [400, 'A header that must be single is repeated'],
  trailers_refused: [400, 'Trailers are not accepted'],
  unauthenticated: [401, 'No valid credential'],
  insufficient_scope: [403, 'The credential lacks a scope'],
  forbidden: [403, 'This is not allowed'],
  factor_required: [403, 'A fresh second factor is needed'],
  not_found: [404, 'Nothing is here'],
  method_not_allowed: [405, 'The method is not accepted here'],
  conflict: [409, 'The request conflicts with the present state'],
  idempotency_in_flight: [409, 'The first request under this idempotency key is still in flight'],
  idempotency_answer_too_large: [409, 'The stored answer was too large to keep'],
  exceeds_authorised_amount: [409, 'More than was authorised'],
  payload_too_large: [413, 'The body is too large'],
  unsupported_media_type: [415, 'The media type is not accepted'],
  invalid: [422, 'A field is invalid'],
  idempotency_mismatch: [422, 'Another request was sent under this idempotency key'],
  rate_limited: [429, 'Too many requests'],
  too_many_escalations: [429, 'Too many escalations are pending'],
  too_many_waiting: [429, 'Too many requests are held for an answer'],
  locked_out: [429, 'Too many failed attempts'],
  headers_too_large: [431, 'The headers are too large'],
  internal: [500, 'Something went wrong here'],
  target_unreachable: [502, 'The target could not be reached'],
  target_lost: [502, 'The connection to the target was lost'],
  target_invalid_answer: [502, 'The target answered with something that cannot be passed on'],
  outcome_unknown: [502, 'The outcome of the first request is not known'],
  not_decidable: [503, 'Nothing was decided'],
  timestamp_unavailable: [503, 'No timestamp could be had'],
  overloaded: [503, 'Too much work is waiting'],
  target_timeout: [504, 'The target did not answer in time'],
} as const satisfies Record<string, readonly [status: number, title: string]>;

/** A stable `error` code of an answer. */
export type ProblemCode = keyof typeof PROBLEMS;

/** One field of the request that cannot be accepted, and what to send instead. */
export interface FieldProblem {
  readonly field: string;
  readonly message: string;
}

/** An error with an answer: `code` picks status and title, `detail` is public, `cause` is for the log only. */
export class ProblemError extends Error {
  override readonly name = 'ProblemError';
  readonly code: ProblemCode;
  readonly detail: string;
  readonly fields: readonly FieldProblem[];
  readonly retryAfterSeconds: number | undefined;

  constructor(
    code: ProblemCode,
    detail: string,
    options: { cause?: unknown; fields?: readonly FieldProblem[]; retryAfterSeconds?: number } = {},
  ) {
    super(`${code}: ${detail}`, options.cause === undefined ? {} : { cause: options.cause });
    this.code = code;
    this.detail = detail;
    this.fields = options.fields ?? [];
    this.retryAfterSeconds = options.retryAfterSeconds;
  }

  /** The HTTP status of this error's answer. */
  get status(): number {
    return PROBLEMS[this.code][0];
  }
}

/** The members of an `application/problem+json` answer (RFC 9457 and contract §8). */
export interface ProblemDocument {
  type: string;
  title: string;
  status: number;
  detail: string;
  error: ProblemCode;
  request_id: string;
  fields?: readonly FieldProblem[];
}

/** Builds the public document of an error; `type` is a URN, so nobody is sent to a host that we do not run. */
export function problemDocument(problem: ProblemError, requestId: string): ProblemDocument {
  const [status, title] = PROBLEMS[problem.code];
  const document: ProblemDocument = {
    type: `urn:mandate-gateway:problem:${problem.code}`,
    title,
    status,
    detail: problem.detail,
    error: problem.code,
    request_id: requestId,
  };
  if (problem.fields.length > 0) document.fields = problem.fields;
  return document;
}
