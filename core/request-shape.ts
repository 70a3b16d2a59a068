import { z } from 'zod';
import { type FormFields, FormSyntaxProblem } from './form.ts';
import { isJsonNumber, isJsonObject, type JsonNode } from './json.ts';
import { VALUE_SOURCE_MAX_CHARACTERS } from './limits.ts';
import type { ReadInput } from './tool-mapping.ts';

/** Fields of a shape: enough to find an amount in any real request, few enough to store for each unmapped tool. */
export const SHAPE_FIELDS_MAX = 64;
/** Names of query parameters in a shape. */
export const SHAPE_QUERY_MAX = 32;
/** How deep a shape looks into a body: amounts lie near the top. */
export const SHAPE_DEPTH_MAX = 6;
/** Characters of one name; longer ones are data. */
export const SHAPE_NAME_MAX_CHARACTERS = 64;
/** Members that are looked at to find the fields: a body may hold a million of them. */
const VISITED_MAX = 512;

/** JSON's types, and JSON Schema's `integer`; `mixed` was seen as more than one of them. */
export const SHAPE_TYPES = [
  ...(['null', 'boolean', 'integer', 'number', 'string', 'array', 'object', 'mixed'] as const),
] as const;
export type ShapeType = (typeof SHAPE_TYPES)[number];

const name = z.string().min(1).max(SHAPE_NAME_MAX_CHARACTERS);

/**
 * What a request was made of, without any value: where its body's fields are, as a mapping would name them (a JSON
 * Pointer, for forms the name after a slash), and their types; the names of its query parameters; `more`: there was
 * more than this shows.
 */
export const requestShape = z.strictObject({
  body: z.enum(['json', 'form', 'none', 'opaque']),
  fields: z
    .array(z.strictObject({ at: z.string().max(VALUE_SOURCE_MAX_CHARACTERS), type: z.enum(SHAPE_TYPES) }))
    .max(SHAPE_FIELDS_MAX),
  query: z.array(name).max(SHAPE_QUERY_MAX),
  more: z.boolean(),
});
export type RequestShape = z.infer<typeof requestShape>;
export type ShapeField = RequestShape['fields'][number];

// Names that would lie to whoever reads them: controls, bidirectional overrides, what is invisible.
const UNSHOWABLE = /[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Zl}\p{Zp}]/u;
// Objects are also used as tables: account numbers, addresses and identifiers as names are values.
const VALUE_LIKE = /@|\d{5}|^\+?\d+$|[0-9a-f]{8}-[0-9a-f]{4}|^[A-Z]{2}\d{2}[A-Z0-9]{8}/i;

/** The shape of a request: names and types, bounded in number, depth and length; never a value. */
export function shapeOf({ body, queryParams }: Pick<ReadInput, 'body' | 'queryParams'>): RequestShape {
  const query = queryNames(queryParams);
  const found = body.kind === 'json' ? jsonFields(body.node) : body.kind === 'form' ? formFields(body.fields) : NOTHING;
  return { body: body.kind, fields: found.fields, query: query.names, more: found.more || query.more };
}

interface Found {
  readonly fields: ShapeField[];
  readonly more: boolean;
}

const NOTHING: Found = { fields: [], more: false };

/** What shapes of one tool have in common: every field of either, the newer one's body where they are of two kinds. */
export function mergeShapes(known: RequestShape, newer: RequestShape): RequestShape {
  if (known.body !== newer.body) return newer;
  const types = new Map(newer.fields.map((field) => [field.at, field.type]));
  for (const { at, type } of known.fields) types.set(at, mergeTypes(types.get(at), type));
  const fields = Array.from(types, ([at, type]): ShapeField => ({ at, type }));
  const query = [...new Set([...newer.query, ...known.query])];
  return {
    body: newer.body,
    fields: fields.slice(0, SHAPE_FIELDS_MAX),
    query: query.slice(0, SHAPE_QUERY_MAX),
    more: known.more || newer.more || fields.length > SHAPE_FIELDS_MAX || query.length > SHAPE_QUERY_MAX,
  };
}

function mergeTypes(one: ShapeType | undefined, other: ShapeType): ShapeType {
  if (one === undefined || one === other || one === 'null') return other;
  if (other === 'null') return one;
  const numeric = [one, other].every((type) => type === 'integer' || type === 'number');
  return numeric ? 'number' : 'mixed';
}

function isShown(text: string): boolean {
  return (
    text.length > 0 && text.length <= SHAPE_NAME_MAX_CHARACTERS && !UNSHOWABLE.test(text) && !VALUE_LIKE.test(text)
  );
}

function queryNames(params: ReadInput['queryParams']): { readonly names: string[]; readonly more: boolean } {
  let fields: FormFields;
  try {
    fields = params.fields();
  } catch (error) {
    if (error instanceof FormSyntaxProblem) return { names: [], more: true };
    throw error;
  }
  const names = [...fields.keys()].filter(isShown).slice(0, SHAPE_QUERY_MAX);
  return { names, more: names.length < fields.size };
}

function formFields(form: FormFields): Found {
  const names = [...form.keys()].filter(isShown).slice(0, SHAPE_FIELDS_MAX);
  return { fields: names.map((field) => ({ at: `/${field}`, type: 'string' })), more: names.length < form.size };
}

interface Place {
  readonly at: string;
  readonly node: JsonNode;
  readonly depth: number;
}

/** Level by level, so that what a bound leaves out is what lies deepest. */
function jsonFields(root: JsonNode): Found {
  const fields: ShapeField[] = [];
  const places: Place[] = [{ at: '', node: root, depth: 0 }];
  let [visited, more] = [0, false];
  for (const { at, node, depth } of places) {
    if (at !== '') fields.push({ at, type: typeOf(node) });
    if (fields.length === SHAPE_FIELDS_MAX) return { fields, more: more || places.at(-1)?.at !== at };
    for (const [token, value] of childrenOf(node)) {
      visited += 1;
      if (visited > VISITED_MAX) {
        more = true;
        break;
      }
      const below = `${at}/${token.replaceAll('~', '~0').replaceAll('/', '~1')}`;
      const fits = depth < SHAPE_DEPTH_MAX && below.length <= VALUE_SOURCE_MAX_CHARACTERS;
      if (fits && (Array.isArray(node) || isShown(token))) places.push({ at: below, node: value, depth: depth + 1 });
      else more = true;
    }
  }
  return { fields, more };
}

/** Of a list its first element: the others are like it, and a mapping cannot read them all. */
function* childrenOf(node: JsonNode): Generator<readonly [string, JsonNode]> {
  if (isJsonObject(node)) yield* node;
  else if (Array.isArray(node) && node.length > 0) yield ['0', node[0]!];
}

function typeOf(node: JsonNode): ShapeType {
  if (node === null) return 'null';
  if (typeof node === 'boolean') return 'boolean';
  if (typeof node === 'string') return 'string';
  if (isJsonNumber(node)) return /^-?\d+$/.test(node.text) ? 'integer' : 'number';
  return Array.isArray(node) ? 'array' : 'object';
}
