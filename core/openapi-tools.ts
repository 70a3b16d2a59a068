import { isActionType } from './action.ts';
import { TOOL_PATH_SEGMENTS_MAX } from './limits.ts';
import { type MappingSuggestion, type SuggestionMandate, suggestMapping } from './mapping-suggestion.ts';
import {
  type DocumentObject,
  listOf,
  memberOf,
  type OpenApiSource,
  objectOf,
  openApiSource,
  resolved,
  schemaFields,
  textOf,
} from './openapi-schema.ts';
import { OpenApiProblem } from './openapi-text.ts';
import { type RequestShape, SHAPE_NAME_MAX_CHARACTERS, SHAPE_QUERY_MAX } from './request-shape.ts';
import { GATEWAY_METHODS, parseToolPattern, type ToolPattern } from './tool-name.ts';

/** Operations of one document: large public APIs have a thousand. */
export const OPENAPI_OPERATIONS_MAX = 2_000;
/** What an operation says about the action that it is, where its author wants to say it. */
const ACTION_TYPE_MEMBER = 'x-mandate-action-type';
const SUMMARY_MAX_CHARACTERS = 120;

/** An operation of a document as a tool of an instance. Its schemas are read when they are first asked for. */
export interface OpenApiTool {
  readonly name: string;
  readonly summary: string | null;
  /** Whether the document itself says which action it is. */
  readonly declared: boolean;
  readonly shape: RequestShape;
  readonly suggestion: MappingSuggestion;
}

/** An operation that cannot be a tool, and why. */
export interface SkippedOperation {
  readonly operation: string;
  readonly reason: string;
}

export interface OpenApiReading {
  readonly title: string | null;
  readonly tools: readonly OpenApiTool[];
  readonly skipped: readonly SkippedOperation[];
}

export interface OpenApiOptions {
  /** What stands before every path, from the target's address on: '' or `/v1`. */
  readonly basePath: string;
  readonly mandate: SuggestionMandate;
  /** Members, schemas and steps of references that may be looked at: a microsecond or two each; else 2,000,000. */
  readonly membersMax?: number;
}

/**
 * The tools that an OpenAPI 3.0 or 3.1 document describes, each with a suggested mapping.
 *
 * `$ref` is followed within the document only. Whatever the document holds, it takes bounded work: what is beyond a
 * bound, or cannot be a tool's name, is skipped and named. Throws OpenApiProblem for what is no such document.
 */
export function readOpenApi(document: unknown, options: OpenApiOptions): OpenApiReading {
  const { basePath, mandate } = options;
  assertOpenApi(document);
  const source = openApiSource(document, options.membersMax);
  const tools: OpenApiTool[] = [];
  const skipped: SkippedOperation[] = [];
  const names = new Map<string, string>();
  for (const { method, path, item, operation } of operationsOf(source)) {
    const what = `${method} ${printablePath(path)}`;
    const skip = (reason: string): void => void skipped.push({ operation: what, reason });
    if (tools.length + skipped.length >= OPENAPI_OPERATIONS_MAX) {
      skip(`The document has more than ${OPENAPI_OPERATIONS_MAX} operations: split it.`);
      break;
    }
    const pattern = patternOf(method, basePath + path);
    if (typeof pattern === 'string') {
      skip(pattern);
      continue;
    }
    const known = names.get(pattern.key);
    if (known !== undefined) {
      skip(`It stands for the same requests as ${known}.`);
      continue;
    }
    names.set(pattern.key, what);
    tools.push(toolOf(source, { pattern, item, operation }, mandate));
  }
  return {
    title: textOf(objectOf(document, 'info'), 'title')?.slice(0, SUMMARY_MAX_CHARACTERS) ?? null,
    tools,
    skipped,
  };
}

/** The path of the document's first server, '' where it has none: what its paths are relative to. */
export function serverPath(document: unknown): string {
  const [server] = listOf(document, 'servers');
  const url = textOf(server, 'url') ?? '';
  const path = URL.canParse(url, 'http://server.invalid') ? new URL(url, 'http://server.invalid').pathname : '';
  return path.replace(/\/+$/, '');
}

function assertOpenApi(document: unknown): asserts document is DocumentObject {
  const version = textOf(document, 'openapi');
  if (version !== null && /^3\.[01](?:\.|$)/.test(version)) return;
  if (memberOf(document, 'swagger') !== undefined) {
    throw new OpenApiProblem('The document is Swagger 2.0: convert it to OpenAPI 3 first.');
  }
  const what = version === null ? 'It has no member "openapi"' : 'Its version is another one';
  throw new OpenApiProblem(`The document is not OpenAPI 3.0 or 3.1. ${what}.`);
}

interface Operation {
  readonly method: string;
  readonly path: string;
  readonly item: unknown;
  readonly operation: unknown;
}

function* operationsOf(source: OpenApiSource): Generator<Operation> {
  for (const [path, given] of Object.entries(objectOf(source.document, 'paths'))) {
    if (!path.startsWith('/')) continue;
    const item = resolved(source, given);
    for (const method of GATEWAY_METHODS) {
      const operation = memberOf(item, method.toLowerCase());
      if (typeof operation === 'object' && operation !== null) yield { method, path, item, operation };
    }
  }
}

function printablePath(path: string): string {
  return path.slice(0, 200).replaceAll(/[^ -~]/g, '?');
}

/** The template of a path, its parameters named as templates name them; a text says why there is none. */
function patternOf(method: string, path: string): ToolPattern | string {
  const taken = new Set<string>();
  const parts = path.slice(1).split('/');
  // Names are found by trying: not for a path that has too many of them anyway.
  if (parts.length > TOOL_PATH_SEGMENTS_MAX) return `The path has more than ${TOOL_PATH_SEGMENTS_MAX} segments.`;
  const renamed = parts.map((part) => {
    const name = /^\{([^{}]+)\}$/.exec(part)?.[1];
    if (name === undefined) return part;
    const free = freeName(taken, name);
    taken.add(free);
    return `{${free}}`;
  });
  const reading = parseToolPattern(`http.${method.toLowerCase()}:/${renamed.join('/')}`);
  return reading.ok ? reading.pattern : reading.message;
}

/** `petId` is `pet_id`. */
function freeName(taken: ReadonlySet<string>, name: string): string {
  const snake = name
    .slice(0, SHAPE_NAME_MAX_CHARACTERS)
    .replaceAll(/([a-z0-9])([A-Z])/g, '$1_$2')
    .toLowerCase()
    .replaceAll(/[^a-z0-9_]/g, '_');
  const base = /^[a-z_]/.test(snake) ? snake : `p_${snake}`;
  for (let number = 1; ; number++) {
    const free = number === 1 ? base : `${base}_${number}`;
    if (!taken.has(free)) return free;
  }
}

function toolOf(
  source: OpenApiSource,
  { pattern, item, operation }: { readonly pattern: ToolPattern; readonly item: unknown; readonly operation: unknown },
  mandate: SuggestionMandate,
): OpenApiTool {
  const given = textOf(operation, ACTION_TYPE_MEMBER);
  const declared = given !== null && isActionType(given);
  const summary = (textOf(operation, 'summary') ?? textOf(operation, 'operationId'))?.slice(0, SUMMARY_MAX_CHARACTERS);
  let shape: RequestShape | undefined;
  let suggestion: MappingSuggestion | undefined;
  // Whoever shows some operations of a document must not pay for the schemas of all.
  return {
    name: pattern.text,
    summary: summary ?? null,
    declared,
    get shape() {
      shape ??= { ...bodyShape(source, operation), query: queryNames(source, item, operation) };
      return shape;
    },
    get suggestion() {
      if (suggestion !== undefined) return suggestion;
      const guessed = suggestMapping(pattern, this.shape, mandate);
      suggestion = declared ? withAction(guessed, given) : guessed;
      return suggestion;
    },
  };
}

/** A suggestion for another action than was guessed. */
export function withAction(suggestion: MappingSuggestion, type: string): MappingSuggestion {
  const action_type = { value: type, confidence: 'high', reason: 'It was given.' } as const;
  return { ...suggestion, action_type, mapping: { ...suggestion.mapping, action_type: type } };
}

function bodyShape(source: OpenApiSource, operation: unknown): Omit<RequestShape, 'query'> {
  const content = objectOf(resolved(source, memberOf(operation, 'requestBody')), 'content');
  const media = Object.keys(content);
  source.left -= media.length;
  // What was not looked at any more must not pass for nothing.
  if (source.left <= 0) return { body: 'json', fields: [], more: true };
  if (media.length === 0) return { body: 'none', fields: [], more: false };
  const json = media.find((type) => /^(?:application|text)\/(?:[a-z0-9.+-]+\+)?json\b/i.test(type));
  const form = media.find((type) => /^application\/x-www-form-urlencoded\b/i.test(type));
  const kind = json === undefined ? (form === undefined ? 'opaque' : 'form') : 'json';
  if (kind === 'opaque') return { body: 'opaque', fields: [], more: false };
  const schema = memberOf(objectOf(content, json ?? form ?? ''), 'schema');
  return { body: kind, ...schemaFields(source, schema, kind) };
}

function queryNames(source: OpenApiSource, item: unknown, operation: unknown): string[] {
  const all = [...listOf(item, 'parameters'), ...listOf(operation, 'parameters')].slice(0, OPENAPI_OPERATIONS_MAX);
  source.left -= all.length;
  const names = (source.left > 0 ? all : []).flatMap((given) => {
    const parameter = resolved(source, given);
    const name = textOf(parameter, 'name') ?? '';
    const fits = name.length <= SHAPE_NAME_MAX_CHARACTERS && /^[!-~]+$/.test(name);
    return textOf(parameter, 'in') === 'query' && fits ? [name] : [];
  });
  return [...new Set(names)].slice(0, SHAPE_QUERY_MAX);
}
