import { z } from 'zod';
import type { JsonMember, OpenApiDocument } from '../control-plane/api/openapi-document.ts';

/** What was answered: headers as node gives them, `body` the text. */
export interface GivenAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | readonly string[] | number | undefined>>;
  readonly body: string;
}

/** Prefixes of headers that an answer may have only where the document says so. */
const OWN_HEADERS = /^(?:x-ratelimit-|x-service-|x-idempotent-|x-request-id$|retry-after$|www-authenticate$)/;

/**
 * What of an answer is not as the document says: nothing, if all is well.
 *
 * `path` is that of the request, its query is not looked at. Beyond the document, which lets answers have further
 * members, none is accepted that it does not name: whatever is answered is to be described. The refusal of what the
 * document does not have must still be a problem document.
 */
export function answersAs(document: OpenApiDocument, method: string, path: string, answer: GivenAnswer): string[] {
  const operation = operationAt(document, method, path.split('?', 1)[0] ?? '');
  const { status, headers } = answer;
  if (operation === null) {
    const refused = problemsOf(document, anyProblem(), answer, method);
    return REFUSED_UNREAD.has(status) ? refused : [`${method} ${path} is not described, but answers ${status}`];
  }
  const responses = operation['responses'] as Readonly<Record<string, JsonMember>>;
  const own = answer.body.includes('"urn:mandate-gateway:problem:');
  const forwarded = headers['x-service-decision'] === 'allow' && !own;
  const found = forwarded && responses['default'] !== undefined ? responses['default'] : responses[status];
  if (found === undefined) {
    return status === 405
      ? problemsOf(document, anyProblem(), answer, method)
      : [`${method} ${path} does not document ${status}: ${answer.body.slice(0, 200)}`];
  }
  return problemsOf(document, referred(document, found), answer, method).map((one) => `${method} ${path}: ${one}`);
}

/** The operation of a request, or null; a path without parameters goes before one with them. */
function operationAt(document: OpenApiDocument, method: string, path: string): JsonMember | null {
  const entries = Object.entries(document.paths).sort(([a], [b]) => Number(a.includes('{')) - Number(b.includes('{')));
  for (const [template, item] of entries) {
    // What a gateway forwards to and the number of a tile may have slashes, which OpenAPI has no word for.
    const pattern = template
      .replaceAll('.', '\\.')
      .replace(/\{tool_path\}|\{tile_index\}/, '.+')
      .replaceAll(/\{\w+\}/g, '[^/]+');
    if (new RegExp(`^${pattern}$`).test(path)) return (item[method.toLowerCase()] as JsonMember | undefined) ?? null;
  }
  return null;
}

/** What may be said of a request that no operation is for. */
const REFUSED_UNREAD: ReadonlySet<number> = new Set([400, 404, 405, 429]);

function anyProblem(): JsonMember {
  const content = { 'application/problem+json': { schema: { $ref: '#/components/schemas/Problem' } } };
  const codes = ['malformed_request', 'ambiguous_path', 'not_found', 'method_not_allowed', 'rate_limited'];
  return { content, 'x-error-codes': codes, undocumented: true };
}

function problemsOf(document: OpenApiDocument, response: JsonMember, answer: GivenAnswer, method: string): string[] {
  const problems = response['undocumented'] === true ? [] : headerProblems(document, response, answer);
  const content = response['content'] as Readonly<Record<string, JsonMember>> | undefined;
  if (content === undefined || method.toLowerCase() === 'head') return problems;
  const type = String(answer.headers['content-type']).split(';', 1)[0] ?? '';
  const media = content[type];
  if (media === undefined) return [...problems, `the content type ${type} is not documented for ${answer.status}`];
  if (!/[/+]json$/.test(type)) return problems;
  const value: unknown = JSON.parse(answer.body);
  return [...problems, ...schemaProblems(document, media['schema'] as JsonMember, value), ...codes(response, answer)];
}

/** The code of a problem must be one that the response names, under its own status and request. */
function codes(response: JsonMember, { status, headers, body }: GivenAnswer): string[] {
  const allowed = response['x-error-codes'] as readonly string[] | undefined;
  if (allowed === undefined) return [];
  const problem = JSON.parse(body) as Readonly<Record<string, unknown>>;
  return [
    ...(allowed.includes(String(problem['error'])) ? [] : [`${problem['error']} is not documented for ${status}`]),
    ...(problem['status'] === status ? [] : [`the problem says ${problem['status']}, the answer ${status}`]),
    ...(problem['request_id'] === headers['x-request-id'] ? [] : ['the problem has another request id']),
  ];
}

function headerProblems(document: OpenApiDocument, response: JsonMember, { status, headers }: GivenAnswer): string[] {
  const documented = Object.entries(response['headers'] as Readonly<Record<string, JsonMember>>);
  const named = new Set(documented.map(([name]) => name.toLowerCase()));
  const problems = Object.keys(headers)
    .filter((name) => OWN_HEADERS.test(name) && headers[name] !== undefined && !named.has(name))
    .map((name) => `the header ${name} is not documented for ${status}`);
  for (const [name, header] of documented) {
    const { required, schema } = referred(document, header);
    const value = headers[name.toLowerCase()];
    if (value === undefined) {
      if (required === true) problems.push(`the header ${name} is missing from ${status}`);
      continue;
    }
    const shown = (schema as JsonMember)['type'] === 'integer' ? Number(value) : String(value);
    problems.push(...schemaProblems(document, schema as JsonMember, shown).map((one) => `header ${name}: ${one}`));
  }
  return problems;
}

/** What a reference leads to, or the thing itself. */
function referred(document: OpenApiDocument, member: JsonMember): JsonMember {
  const reference = member['$ref'];
  if (typeof reference !== 'string') return member;
  let found: unknown = document;
  for (const name of reference.slice(2).split('/')) found = (found as JsonMember)[name];
  return found as JsonMember;
}

const validators = new WeakMap<OpenApiDocument, Map<string, z.ZodType>>();

/** What of a value is not as a schema of the document says; objects that the document leaves open are closed. */
export function schemaProblems(document: OpenApiDocument, schema: JsonMember, value: unknown): string[] {
  const known = validators.get(document) ?? new Map<string, z.ZodType>();
  validators.set(document, known);
  const key = JSON.stringify(schema);
  const validator = known.get(key) ?? validatorOf(document, schema);
  known.set(key, validator);
  const parsed = validator.safeParse(value);
  return parsed.success ? [] : parsed.error.issues.map(issueText);
}

function issueText(issue: z.core.$ZodIssue): string {
  const at = issue.path.join('.') || '(whole)';
  const inner = issue.code === 'invalid_union' ? issue.errors.flat().map(issueText) : [];
  return `${at}: ${issue.message}${inner.length === 0 ? '' : ` (${inner.join('; ')})`}`;
}

function validatorOf(document: OpenApiDocument, schema: JsonMember): z.ZodType {
  const $defs = closed(document.components.schemas);
  return z.fromJSONSchema({ ...closed(schema), $defs } as Parameters<typeof z.fromJSONSchema>[0], {
    registry: z.registry(),
  });
}

/** A copy whose references lead to `$defs`, and whose objects accept the members only that they name. */
function closed<T>(value: T): T {
  if (Array.isArray(value)) return value.map(closed) as T;
  if (typeof value !== 'object' || value === null) return value;
  const copy: Record<string, unknown> = {};
  for (const [name, member] of Object.entries(value)) {
    const reference = name === '$ref' && typeof member === 'string';
    copy[name] = reference ? member.replace('#/components/schemas/', '#/$defs/') : closed(member);
  }
  const named = typeof copy['properties'] === 'object' && copy['type'] === 'object';
  return (named && copy['additionalProperties'] === undefined ? { ...copy, additionalProperties: false } : copy) as T;
}
