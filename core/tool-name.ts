import { type FormFields, isMethodOverride, parseStrictFormText } from './form.ts';
import { TEMPLATE_PARAMS_MAX, TOOL_PATH_MAX_BYTES, TOOL_PATH_SEGMENTS_MAX, TOOL_QUERY_MAX_BYTES } from './limits.ts';

/** The methods that the gateway forwards, in upper case exactly; every other one is refused (contract §7). */
export const GATEWAY_METHODS = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'QUERY'] as const;
export type GatewayMethod = (typeof GATEWAY_METHODS)[number];

const METHODS: ReadonlySet<string> = new Set(GATEWAY_METHODS);

/** Whether the gateway forwards this method. */
export function isGatewayMethod(method: string): method is GatewayMethod {
  return METHODS.has(method);
}

/** Why a path is not canonical. */
export type ToolPathProblem =
  | 'too_long'
  | 'too_many_segments'
  | 'empty_segment'
  | 'dot_segment'
  | 'encoded_separator'
  | 'control_character'
  | 'backslash'
  | 'path_parameter'
  | 'not_ascii'
  | 'character_not_allowed'
  | 'invalid_percent_encoding'
  | 'not_canonical_encoding'
  | 'double_encoding'
  | 'invalid_utf8';

export type ToolPathReading =
  | { readonly ok: true; readonly path: string }
  | { readonly ok: false; readonly problem: ToolPathProblem; readonly message: string };

const PATH_PROBLEM_MESSAGES: Record<ToolPathProblem, string> = {
  too_long: `The path is longer than ${TOOL_PATH_MAX_BYTES} bytes.`,
  too_many_segments: `The path has more than ${TOOL_PATH_SEGMENTS_MAX} segments.`,
  empty_segment: 'The path has an empty segment (two slashes in a row, or one at an end).',
  dot_segment: 'The path has a segment "." or "..".',
  encoded_separator: 'The path holds a percent-encoded slash or backslash.',
  control_character: 'The path holds a control character.',
  backslash: 'The path holds a backslash.',
  path_parameter: 'The path holds a semicolon.',
  not_ascii: 'The path holds a byte that must be percent-encoded.',
  character_not_allowed: 'The path holds a character that must be percent-encoded.',
  invalid_percent_encoding: 'The path holds a "%" that two hexadecimal digits do not follow.',
  not_canonical_encoding: 'The path holds an escape in lower-case hexadecimal, or of a character that needs none.',
  double_encoding: 'The path is percent-encoded twice.',
  invalid_utf8: 'The path holds escapes that are not valid UTF-8.',
};

const UNRESERVED = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~';
const SUB_DELIMS = "!$&'()*+,=:@";

// One entry for each ASCII code unit: 0 refused, 1 may stand as it is, 2 may not be escaped either.
const PATH_CLASS = new Uint8Array(128);
for (const character of SUB_DELIMS) PATH_CLASS[character.charCodeAt(0)] = 1;
for (const character of UNRESERVED) PATH_CLASS[character.charCodeAt(0)] = 2;

const SLASH = 0x2f;
const PERCENT = 0x25;
const DOT = 0x2e;

/**
 * Reads the path of a request to the gateway: what follows `/api/gateway/http/` in `req.url`, without the query.
 *
 * The accepted path is the given text, without a leading slash; '' is the target's root. It is accepted only in the one
 * spelling that every server reads alike, so that `new URL('/' + path, origin).pathname` is `'/' + path` byte for byte:
 * RFC 3986 `pchar` without `;`, upper-case escapes of nothing unreserved, valid UTF-8, no separators, controls
 * or second encodings inside escapes, no dot segments, no empty segments (a trailing slash makes one). Source: contract
 * §7, RFC 3986 §§3.3 and 6.2.2, WHATWG URL.
 */
export function readToolPath(rawPath: string): ToolPathReading {
  const problem = pathProblem(rawPath);
  return problem === null
    ? { ok: true, path: rawPath }
    : { ok: false, problem, message: PATH_PROBLEM_MESSAGES[problem] };
}

function pathProblem(path: string): ToolPathProblem | null {
  if (path.length > TOOL_PATH_MAX_BYTES) return 'too_long';
  if (path.length === 0) return null;
  let segments = 0;
  let start = 0;
  let escapes = false;
  for (let at = 0; at <= path.length; at++) {
    const unit = at === path.length ? SLASH : path.charCodeAt(at);
    if (unit === SLASH) {
      const problem = segmentProblem(path, start, at);
      if (problem !== null) return problem;
      segments += 1;
      start = at + 1;
    } else if (unit === PERCENT) {
      const problem = escapeProblem(path, at);
      if (problem !== null) return problem;
      escapes = true;
      at += 2;
    } else if (unit > 0x7f || PATH_CLASS[unit] === 0) {
      return characterProblem(unit);
    }
  }
  if (segments > TOOL_PATH_SEGMENTS_MAX) return 'too_many_segments';
  return escapes ? decodedProblem(path) : null;
}

function segmentProblem(path: string, start: number, end: number): ToolPathProblem | null {
  const length = end - start;
  if (length === 0) return 'empty_segment';
  if (length > 2 || path.charCodeAt(start) !== DOT) return null;
  return length === 1 || path.charCodeAt(start + 1) === DOT ? 'dot_segment' : null;
}

function characterProblem(unit: number): ToolPathProblem {
  if (unit > 0x7f) return 'not_ascii';
  if (unit < 0x20 || unit === 0x7f) return 'control_character';
  if (unit === 0x5c) return 'backslash';
  return unit === 0x3b ? 'path_parameter' : 'character_not_allowed';
}

function escapeProblem(path: string, at: number): ToolPathProblem | null {
  const high = hexDigit(path.charCodeAt(at + 1));
  const low = hexDigit(path.charCodeAt(at + 2));
  if (high < 0 || low < 0) return 'invalid_percent_encoding';
  const byte = (high & 15) * 16 + (low & 15);
  if (byte === SLASH || byte === 0x5c) return 'encoded_separator';
  if (byte < 0x20 || byte === 0x7f) return 'control_character';
  if (byte === 0x3b) return 'path_parameter';
  if (high > 15 || low > 15 || (byte < 0x80 && PATH_CLASS[byte] === 2)) return 'not_canonical_encoding';
  const again = byte === PERCENT && hexDigit(path.charCodeAt(at + 3)) >= 0 && hexDigit(path.charCodeAt(at + 4)) >= 0;
  return again ? 'double_encoding' : null;
}

/** The value of a hexadecimal digit, with 16 added where it is in lower case; -1 for anything else. */
function hexDigit(unit: number): number {
  if (unit >= 0x30 && unit <= 0x39) return unit - 0x30;
  if (unit >= 0x41 && unit <= 0x46) return unit - 0x37;
  return unit >= 0x61 && unit <= 0x66 ? unit - 0x57 + 16 : -1;
}

const C1_CONTROL = /[\u0080-\u009f]/;

function decodedProblem(path: string): ToolPathProblem | null {
  try {
    return C1_CONTROL.test(decodeURIComponent(path)) ? 'control_character' : null;
  } catch {
    return 'invalid_utf8';
  }
}

// `:` and `%3A` are one to many servers and two to others; both are in use, so that names hold the plain one.
const PLAIN_ESCAPES = /%(?:2[1467-9A-C]|3[AD]|40)/g;

/**
 * The name of a tool, `http.<lower-case method>:/<path>`, for a path that readToolPath accepted.
 *
 * Escapes of `! $ & ' ( ) * + , = : @` are written plainly, so that no tool has two names; what is forwarded keeps the
 * spelling it came in. Source: contract §7.
 */
export function toolName(method: string, path: string): string {
  return `http.${method.toLowerCase()}:/${plainSpelling(path)}`;
}

/** A path with the escapes undone that toolName undoes. */
export function plainSpelling(path: string): string {
  if (!path.includes('%')) return path;
  return path.replace(PLAIN_ESCAPES, (hex) => String.fromCharCode(Number.parseInt(hex.slice(1), 16)));
}

/** Why a query is refused. */
export type QueryProblem = 'too_long' | 'character_not_allowed' | 'invalid_percent_encoding' | 'method_override';

export type QueryReading =
  | { readonly ok: true; readonly query: string; readonly params: QueryParams }
  | { readonly ok: false; readonly problem: QueryProblem; readonly message: string };

const QUERY_PROBLEM_MESSAGES: Record<QueryProblem, string> = {
  too_long: `The query is longer than ${TOOL_QUERY_MAX_BYTES} bytes.`,
  character_not_allowed: 'The query holds a character that must be percent-encoded.',
  invalid_percent_encoding: 'The query holds an escape that is not valid, or not valid UTF-8.',
  method_override: 'The query would override the method of the request.',
};

/** The parameters of a query, parsed when they are first asked for. */
export class QueryParams {
  private readonly query: string;
  private parsed: FormFields | null = null;

  constructor(query: string) {
    this.query = query;
  }

  /** The parameters, read as strictly as a form (core/form.ts): throws FormSyntaxProblem, also for a name twice. */
  fields(): FormFields {
    this.parsed ??= parseStrictFormText(this.query);
    return this.parsed;
  }
}

/**
 * Reads a query, without its `?`. What is accepted may be forwarded as it is; it stays so through `new URL()`.
 *
 * Refused: bytes outside visible ASCII, `" # ' < > \`, escapes that are not hexadecimal or not UTF-8, and parameters
 * that override the method. Anything more is only asked of queries that a mapping reads from (QueryParams).
 */
export function readQuery(raw: string): QueryReading {
  const problem = queryProblem(raw);
  return problem === null
    ? { ok: true, query: raw, params: new QueryParams(raw) }
    : { ok: false, problem, message: QUERY_PROBLEM_MESSAGES[problem] };
}

function queryProblem(query: string): QueryProblem | null {
  if (query.length === 0) return null;
  if (query.length > TOOL_QUERY_MAX_BYTES) return 'too_long';
  let escapes = false;
  for (let at = 0; at < query.length; at++) {
    const unit = query.charCodeAt(at);
    if (unit === PERCENT) escapes = true;
    else if (unit <= 0x20 || unit >= 0x7f || isRefusedInQuery(unit)) return 'character_not_allowed';
  }
  let decoded = query;
  if (escapes) {
    try {
      decoded = decodeURIComponent(query);
    } catch {
      return 'invalid_percent_encoding';
    }
  }
  return decoded.toLowerCase().includes('method') && overridesMethod(query) ? 'method_override' : null;
}

function isRefusedInQuery(unit: number): boolean {
  return unit === 0x22 || unit === 0x23 || unit === 0x27 || unit === 0x3c || unit === 0x3e || unit === 0x5c;
}

function overridesMethod(query: string): boolean {
  // Some servers also split at ";".
  for (const pair of query.split(/[&;]/)) {
    const equals = pair.indexOf('=');
    const name = equals < 0 ? pair : pair.slice(0, equals);
    if (isMethodOverride(decodeURIComponent(name).replace(/^[+ ]+/, ''))) return true;
  }
  return false;
}

/** One letter for each segment of a template: `l` literal, `p` parameter. `/orders/{id}/refund` has the shape `lpl`. */
export type Shape = string;

/** A parameter and the segment (counted from 0) that it stands for. */
export interface TemplateParam {
  readonly name: string;
  readonly segment: number;
}

/** A tool's name, or a template for many: `shape` is null for an exact name. */
export interface ToolPattern {
  readonly text: string;
  readonly method: GatewayMethod;
  readonly key: string;
  readonly shape: Shape | null;
  readonly params: readonly TemplateParam[];
}

export type ToolPatternReading =
  | { readonly ok: true; readonly pattern: ToolPattern }
  | { readonly ok: false; readonly message: string };

const METHOD_OF_PREFIX: ReadonlyMap<string, GatewayMethod> = new Map(
  GATEWAY_METHODS.map((method): [string, GatewayMethod] => [`http.${method.toLowerCase()}`, method]),
);
const PARAM = /^\{([a-z_][a-z0-9_]*)\}$/;

/**
 * Reads what a mapping is for: a tool's name (`http.post:/payments`) or a template (`http.post:/orders/{id}/refund`).
 *
 * A parameter is a whole segment, its name `[a-z_][a-z0-9_]*` and unique, at most TEMPLATE_PARAMS_MAX of them. `key` is
 * the pattern with its parameters' names erased (`http.post:/orders/{}/refund`); since paths refuse braces, the key of
 * a template is never the name of a tool.
 */
export function parseToolPattern(text: string): ToolPatternReading {
  const split = text.indexOf(':/');
  const method = METHOD_OF_PREFIX.get(text.slice(0, Math.max(split, 0)));
  if (split < 0 || method === undefined) {
    return refused(`A tool's name starts with http.<method>:/, the method one of ${methodList()}.`);
  }
  const params: TemplateParam[] = [];
  const path = text.slice(split + 2);
  const segments = path.split('/');
  for (const [segment, part] of segments.entries()) {
    if (!part.includes('{') && !part.includes('}')) continue;
    const name = PARAM.exec(part)?.[1];
    if (name === undefined) return refused('A parameter is a whole segment such as {order_id}.');
    if (params.some((known) => known.name === name)) return refused(`The parameter {${name}} occurs twice.`);
    // At once, since each further one is compared with all before it.
    if (params.length === TEMPLATE_PARAMS_MAX) {
      return refused(`A template has at most ${TEMPLATE_PARAMS_MAX} parameters.`);
    }
    params.push({ name, segment });
  }
  const taken = new Set(params.map((param) => param.segment));
  // A literal of the same standing is put in for each parameter, so that one rule decides about all paths.
  const literal = segments.map((part, segment) => (taken.has(segment) ? 'p' : part)).join('/');
  const reading = readToolPath(literal);
  if (!reading.ok) return refused(reading.message);
  const name = toolName(method, literal);
  if (params.length === 0) return { ok: true, pattern: { text, method, key: name, shape: null, params } };
  const shape = segments.map((_, segment) => (taken.has(segment) ? 'p' : 'l')).join('');
  return { ok: true, pattern: { text, method, key: erase(name, shape), shape, params } };
}

function methodList(): string {
  return GATEWAY_METHODS.map((method) => method.toLowerCase()).join(', ');
}

function refused(message: string): ToolPatternReading {
  return { ok: false, message };
}

/**
 * The keys under which a tool may be mapped, most specific first, among templates of these shapes.
 *
 * The exact name comes first, then fewer parameters before more, then the leftmost literal before a parameter.
 * Costs one key for each shape with as many segments as the name has.
 */
export function candidateKeys(name: string, shapes: readonly Shape[]): string[] {
  const keys = [name];
  if (shapes.length === 0) return keys;
  const count = segmentCount(name);
  const fitting = shapes.filter((shape) => shape.length === count);
  if (fitting.length > 1) fitting.sort(bySpecificity);
  for (const shape of fitting) keys.push(erase(name, shape));
  return keys;
}

/** Orders shapes of one length: fewer parameters first, then the leftmost literal. */
export function bySpecificity(a: Shape, b: Shape): number {
  const fewer = paramCount(a) - paramCount(b);
  if (fewer !== 0) return fewer;
  return a < b ? -1 : a === b ? 0 : 1;
}

function paramCount(shape: Shape): number {
  let count = 0;
  for (let at = 0; at < shape.length; at++) if (shape.charCodeAt(at) === 0x70) count += 1;
  return count;
}

function segmentCount(name: string): number {
  // The root has none: `:/` is all there is.
  if (name.endsWith('/')) return 0;
  let count = 0;
  for (let at = name.indexOf('/'); at >= 0; at = name.indexOf('/', at + 1)) count += 1;
  return count;
}

function erase(name: string, shape: Shape): string {
  let at = name.indexOf('/');
  let key = name.slice(0, at);
  for (let segment = 0; segment < shape.length; segment++) {
    const next = name.indexOf('/', at + 1);
    const end = next < 0 ? name.length : next;
    key += shape.charCodeAt(segment) === 0x70 ? '/{}' : name.slice(at, end);
    at = end;
  }
  return key;
}

/** One segment of a path that readToolPath accepted, decoded; undefined where the path has no such segment. */
export function pathSegment(path: string, segment: number): string | undefined {
  const part = path.split('/')[segment];
  if (part === undefined || part === '') return undefined;
  return part.includes('%') ? decodeURIComponent(part) : part;
}

/** The decoded values of a template's parameters in a path that it matches (without the leading slash). */
export function templateParams(pattern: ToolPattern, path: string): ReadonlyMap<string, string> {
  return new Map(pattern.params.map((param) => [param.name, pathSegment(path, param.segment) ?? '']));
}
