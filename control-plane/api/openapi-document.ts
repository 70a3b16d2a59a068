import { invalidFields } from '../../core/body-value.ts';
import { PROBLEMS, type ProblemCode, ProblemError, problemDocument } from '../../core/errors.ts';
import { jsonSchemas } from './document-schemas.ts';
import type { Access, DocumentMethod, HeaderName, Operation, OperationAnswer, Parameter } from './operation.ts';
import { OPERATIONS } from './operations.ts';

/** A value of a JSON document. */
export type JsonMember = { readonly [name: string]: unknown };

/** The version of the document; that of the API is part of its paths. */
const DOCUMENT_VERSION = '1.0.0';

const TAGS = {
  Decisions: 'Obtain a presentation, verify it, act only on allow.',
  Bookings: 'What an allowed action cost, and how it went.',
  Mandates: 'How a mandate stands.',
  Evidence: 'What was recorded, as a transparency log of the account that asks.',
  Sandbox: 'The same without an account, for a day.',
  Gateway: 'Requests that the mandate decides about on their way to the target.',
  Service: 'Keys, and this description.',
} as const;

const DESCRIPTION = `Decides whether an automated agent may act under a mandate: allow, deny or escalate.

Bodies are strict JSON: no duplicate members, no unknown ones, amounts as plain decimals. A denial is an answer, not an
error; errors are problem documents (RFC 9457) with a stable code. Answers may get further members within a version.`;

/** What each header says. */
const HEADERS: Readonly<Record<string, { readonly description: string; readonly schema: JsonMember }>> = {
  'Cache-Control': { description: 'Nothing is to be kept.', schema: { type: 'string', const: 'no-store' } },
  'X-Request-Id': { description: 'What the log calls this request.', schema: { type: 'string', minLength: 1 } },
  'X-RateLimit-Limit': { description: 'The burst of the bucket.', schema: { type: 'integer', minimum: 0 } },
  'X-RateLimit-Remaining': { description: 'What is left in the bucket.', schema: { type: 'integer', minimum: 0 } },
  'X-RateLimit-Reset': { description: 'Seconds until the bucket is full.', schema: { type: 'integer', minimum: 0 } },
  'X-Idempotent-Replay': { description: 'This is the first answer again.', schema: { type: 'string', const: 'true' } },
  'Retry-After': { description: 'Seconds to wait.', schema: { type: 'integer', minimum: 0 } },
  'WWW-Authenticate': { description: 'What is missing (RFC 6750).', schema: { type: 'string', pattern: '^Bearer' } },
  'X-Service-Decision': { description: 'What was decided.', schema: { enum: ['allow', 'deny', 'escalate'] } },
  'X-Service-Receipt': { description: 'The receipt of the decision.', schema: { type: 'string', pattern: '^rcp_' } },
};
const ALWAYS = ['Cache-Control', 'X-Request-Id'] as const;
/** Every answer has them but those of a proxy that could ask no control plane. */
const RATE = ['X-RateLimit-Limit', 'X-RateLimit-Remaining', 'X-RateLimit-Reset'] as const;
const CHALLENGED: ReadonlySet<number> = new Set([401, 403]);
/** Below it nothing failed here: the state of the bucket is known. */
const FAILED_STATUS = 500;

/**
 * The OpenAPI 3.1 document of the public API, made from the schemas that the server validates with.
 *
 * `serviceUrl` is the service's address, without a slash at its end. Source: contract §8, OpenAPI 3.1.1.
 */
export function openApiDocument(serviceUrl: string) {
  const shared = new SharedResponses();
  const paths: Record<string, JsonMember> = {};
  for (const operation of OPERATIONS) paths[operation.path] = pathItem(operation, shared);
  return {
    openapi: '3.1.1',
    info: { title: 'Mandate Gateway', version: DOCUMENT_VERSION, description: DESCRIPTION },
    jsonSchemaDialect: 'https://json-schema.org/draft/2020-12/schema',
    servers: [{ url: serviceUrl, description: 'This service' }],
    tags: Object.entries(TAGS).map(([name, description]) => ({ name, description })),
    security: [],
    paths,
    components: {
      schemas: jsonSchemas(),
      responses: shared.responses,
      headers: headerComponents(),
      securitySchemes: {
        apiKey: { type: 'http', scheme: 'bearer', bearerFormat: 'mak_…', description: 'An API key with the scope.' },
        gatewayToken: { type: 'http', scheme: 'bearer', bearerFormat: 'gwt_…', description: "An instance's token." },
      },
    },
  };
}
export type OpenApiDocument = ReturnType<typeof openApiDocument>;

function pathItem(operation: Operation, shared: SharedResponses): JsonMember {
  const { methods, parameters = [] } = operation;
  const inPath = parameters.filter((parameter) => parameter.in === 'path');
  const item: Record<string, unknown> = inPath.length === 0 ? {} : { parameters: inPath.map(parameterOf) };
  for (const method of methods) item[method] = operationOf(operation, method, shared);
  return item;
}

/** Bodies of these mean something (RFC 9110 §9.3). */
const WITH_BODY: ReadonlySet<DocumentMethod> = new Set(['post', 'put', 'patch']);

function operationOf(operation: Operation, method: DocumentMethod, shared: SharedResponses): JsonMember {
  const { methods, id, tag, summary, description, access, parameters = [], body } = operation;
  const others = parameters.filter((parameter) => parameter.in !== 'path');
  return {
    tags: [tag],
    operationId: methods.length === 1 ? id : `${id}${method[0]?.toUpperCase()}${method.slice(1)}`,
    summary,
    description: `${description}${scopeText(access)}`,
    security: securityOf(access),
    ...(others.length === 0 ? {} : { parameters: others.map(parameterOf) }),
    ...(body === undefined || !WITH_BODY.has(method)
      ? {}
      : { requestBody: { required: body.schema !== 'any', content: { [body.type]: mediaType(body) } } }),
    responses: responsesOf(operation, method, shared),
  };
}

function scopeText(access: Access): string {
  if (access.kind !== 'key') return '';
  return ` The API key needs the scope ${access.scope}.`;
}

function securityOf(access: Access): JsonMember[] {
  switch (access.kind) {
    case 'public':
      return [];
    case 'gateway':
      return [{ gatewayToken: [] }];
    case 'key':
      return [{ apiKey: [access.scope] }, ...(access.gatewayToken ? [{ gatewayToken: [] }] : [])];
    default:
      throw new Error(`an access that is not known: ${String(access satisfies never)}`);
  }
}

function parameterOf({ name, in: place, required, description, schema, example }: Parameter): JsonMember {
  return { name, in: place, required, description, schema, example };
}

/** What no schema of ours describes; bytes are what their media type says (OpenAPI 3.1.1, Working with Binary Data). */
const UNNAMED: Readonly<Record<string, JsonMember>> = { any: {}, text: { type: 'string' }, bytes: {} };

function mediaType({ schema, examples }: { readonly schema: string; readonly examples: JsonMember }): JsonMember {
  const shown = Object.entries(examples).map(([name, value]) => [name, { value }]);
  return {
    schema: UNNAMED[schema] ?? { $ref: `#/components/schemas/${schema}` },
    ...(shown.length === 0 ? {} : { examples: Object.fromEntries(shown) }),
  };
}

function responsesOf(operation: Operation, method: DocumentMethod, shared: SharedResponses): JsonMember {
  const responses: Record<string, unknown> = {};
  for (const answer of operation.answers) responses[answer.status] = answerOf(answer, method);
  const byStatus = Map.groupBy(operation.problems, (code) => PROBLEMS[code][0]);
  for (const [status, codes] of [...byStatus].sort(([a], [b]) => a - b))
    responses[status] = shared.of(status, codes, operation.access);
  return responses;
}

function answerOf({ description, content, also, headers = [] }: OperationAnswer, method: DocumentMethod): JsonMember {
  return {
    description,
    headers: headersOf([...ALWAYS, ...RATE, ...headers]),
    ...(content === null || method === 'head'
      ? {}
      : {
          content: {
            [content.type]: mediaType(content),
            ...(also === undefined ? {} : { [also.type]: mediaType({ ...also, examples: {} }) }),
          },
        }),
  };
}

type KnownHeader = HeaderName | (typeof ALWAYS)[number] | (typeof RATE)[number];

/** References to headers; where the service failed, the state of the bucket may be unknown. */
function headersOf(names: readonly KnownHeader[], status = 200): JsonMember {
  const unsure: ReadonlySet<string> = new Set(status < FAILED_STATUS ? [] : RATE);
  const entries = names.map((name) => {
    return [name, unsure.has(name) ? { ...HEADERS[name], required: false } : { $ref: `#/components/headers/${name}` }];
  });
  return Object.fromEntries(entries);
}

function headerComponents(): JsonMember {
  const always: ReadonlySet<string> = new Set([...ALWAYS, ...RATE]);
  const entries = Object.entries(HEADERS).map(([name, { description, schema }]) => {
    return [name, { description, required: always.has(name), schema }];
  });
  return Object.fromEntries(entries);
}

/** The problem responses: many operations have the same ones, so each is written once and referred to. */
class SharedResponses {
  readonly responses: Record<string, JsonMember> = {};
  readonly #names = new Map<string, string>();

  /** A reference to the response of a status that may be any of these problems. */
  of(status: number, codes: readonly ProblemCode[], access: Access): JsonMember {
    const sorted = [...codes].sort();
    const gateway = access.kind === 'gateway';
    const key = `${gateway} ${sorted.join(' ')}`;
    const known = this.#names.get(key);
    const name = known ?? `Problem${status}${this.#suffix(status)}`;
    if (known === undefined) {
      this.#names.set(key, name);
      this.responses[name] = problemResponse(status, sorted, gateway ? OF_DECISION : []);
    }
    return { $ref: `#/components/responses/${name}` };
  }

  /** Nothing for the first of a status, then -2, -3, … */
  #suffix(status: number): string {
    const before = Object.keys(this.responses).filter((name) => name.startsWith(`Problem${status}`)).length;
    return before === 0 ? '' : `-${before + 1}`;
  }
}

/** What the gateway had decided, or recorded, before something went wrong. */
const OF_DECISION = ['X-Service-Decision', 'X-Service-Receipt'] as const;

function problemResponse(status: number, codes: readonly ProblemCode[], also: readonly HeaderName[]): JsonMember {
  const retries = status === 429 || status === FAILED_STATUS + 3;
  const more: HeaderName[] = [
    ...(retries ? (['Retry-After'] as const) : []),
    ...(CHALLENGED.has(status) ? (['WWW-Authenticate'] as const) : []),
    ...also,
  ];
  return {
    description: codes.map((code) => `${code}: ${PROBLEMS[code][1]}`).join('; '),
    headers: headersOf([...ALWAYS, ...RATE, ...more], status),
    content: {
      'application/problem+json': mediaType({
        schema: 'Problem',
        examples: Object.fromEntries(codes.map((code) => [code, exampleProblem(code)])),
      }),
    },
    'x-error-codes': codes,
  };
}

function exampleProblem(code: ProblemCode): unknown {
  const field = { field: 'action.amount.value', message: 'must be a JSON number' };
  const problem = code === 'invalid' ? invalidFields([field]) : new ProblemError(code, `${PROBLEMS[code][1]}.`);
  return problemDocument(problem, '0b6c8f1e-3c59-4a06-9f0e-5d0b7a1f2c3d');
}
