import {
  type RequestShape,
  SHAPE_DEPTH_MAX,
  SHAPE_FIELDS_MAX,
  SHAPE_NAME_MAX_CHARACTERS,
  type ShapeField,
  type ShapeType,
} from './request-shape.ts';

/** Members, schemas and steps of references that all operations of a document are read from: some seconds of work. */
const MEMBERS_MAX = 2_000_000;

/** A parsed document, how much of it may still be looked at, and the bodies that were read of it. */
export interface OpenApiSource {
  readonly document: DocumentObject;
  left: number;
  readonly bodies: Map<unknown, BodyFields>;
}

type BodyFields = Pick<RequestShape, 'fields' | 'more'>;

/** A document that nothing was read from yet; `membersMax`: what may be looked at of it. */
export function openApiSource(document: DocumentObject, membersMax = MEMBERS_MAX): OpenApiSource {
  return { document, left: membersMax, bodies: new Map() };
}

/** An object of a parsed document. */
export type DocumentObject = Readonly<Record<string, unknown>>;

/** References that are followed one after another: a document may refer in circles. */
const REFERENCES_MAX = 32;
/** Steps of one reference: the way to a schema within a path of the document takes some twelve. */
const REFERENCE_STEPS_MAX = 32;
/** Types of one schema: there are seven. */
const TYPES_MAX = 16;
/** Schemas that one body is read from: `allOf` of references doubles with every level. */
const SCHEMAS_MAX = 2_000;

/** The member of an object, of its own; undefined for what it inherits and for anything that is no object. */
export function memberOf(value: unknown, name: string): unknown {
  if (typeof value !== 'object' || value === null || !Object.hasOwn(value, name)) return undefined;
  return (value as DocumentObject)[name];
}

/** The member where it is an object, else an empty one. */
export function objectOf(value: unknown, name: string): DocumentObject {
  const found = memberOf(value, name);
  return typeof found === 'object' && found !== null && !Array.isArray(found) ? (found as DocumentObject) : {};
}

/** The member where it is a list, else an empty one. */
export function listOf(value: unknown, name: string): readonly unknown[] {
  const found = memberOf(value, name);
  return Array.isArray(found) ? found : [];
}

/** The member where it is a text, else null. */
export function textOf(value: unknown, name: string): string | null {
  const found = memberOf(value, name);
  return typeof found === 'string' ? found : null;
}

/**
 * What a value is in the end, its references within the document followed; undefined for any other reference, and for
 * all of them once enough of the document was looked at.
 */
export function resolved(source: OpenApiSource, value: unknown): unknown {
  let at = value;
  for (let step = 0; step < REFERENCES_MAX; step++) {
    const reference = textOf(at, '$ref');
    if (reference === null) return at;
    if (source.left <= 0) return undefined;
    at = lookUp(source, reference);
  }
  return undefined;
}

/** `#/components/schemas/Payment`: within this document only, nothing is ever fetched (RFC 6901 §6). */
function lookUp(source: OpenApiSource, reference: string): unknown {
  if (!reference.startsWith('#/') || reference.length > 1_000) return undefined;
  const tokens = reference.slice(2).split('/');
  source.left -= tokens.length;
  if (tokens.length > REFERENCE_STEPS_MAX) return undefined;
  let at: unknown = source.document;
  for (const token of tokens) {
    at = memberOf(at, unescaped(token));
  }
  return at;
}

function unescaped(token: string): string {
  try {
    return decodeURIComponent(token).replaceAll('~1', '/').replaceAll('~0', '~');
  } catch {
    return token;
  }
}

interface Place {
  readonly at: string;
  readonly schema: unknown;
  readonly depth: number;
}

/** The fields that a schema describes, level by level, in the form of what is seen of real requests. */
export function schemaFields(source: OpenApiSource, schema: unknown, body: 'json' | 'form'): BodyFields {
  // Operations share their schemas; forms are rare.
  const found = body === 'json' ? resolved(source, schema) : undefined;
  const known = source.bodies.get(found);
  if (known !== undefined) return known;
  const fields = readFields(source, schema, body);
  if (found !== undefined) source.bodies.set(found, fields);
  return fields;
}

function readFields(source: OpenApiSource, schema: unknown, body: 'json' | 'form'): BodyFields {
  const types = new Map<string, ShapeType>();
  const places: Place[] = [{ at: '', schema, depth: 0 }];
  let budget = SCHEMAS_MAX;
  for (const { at, schema: given, depth } of places) {
    const parts = flatten(source, given, () => --budget > 0);
    if (at !== '') note(types, at, parts.map(typeOf));
    if (types.size > SHAPE_FIELDS_MAX || budget <= 0) return { fields: fieldsOf(types), more: true };
    if (depth >= SHAPE_DEPTH_MAX) continue;
    for (const part of parts) {
      if (source.left <= 0) return { fields: fieldsOf(types), more: true };
      const members = Object.entries(objectOf(part, 'properties'));
      source.left -= members.length;
      for (const [name, below] of members.slice(0, SCHEMAS_MAX)) {
        if (!isName(name, body)) continue;
        places.push({ at: placeOf(at, name, body), schema: below, depth: depth + 1 });
      }
      const items = memberOf(part, 'items');
      if (items !== undefined && body === 'json') places.push({ at: `${at}/0`, schema: items, depth: depth + 1 });
    }
    if (places.length > SCHEMAS_MAX) return { fields: fieldsOf(types), more: true };
  }
  return { fields: fieldsOf(types), more: false };
}

function fieldsOf(types: ReadonlyMap<string, ShapeType>): ShapeField[] {
  return Array.from(types, ([at, type]) => ({ at, type })).slice(0, SHAPE_FIELDS_MAX);
}

function isName(name: string, body: 'json' | 'form'): boolean {
  if (name.length === 0 || name.length > SHAPE_NAME_MAX_CHARACTERS) return false;
  return body === 'form' ? /^[A-Za-z0-9_-]+$/.test(name) : !/[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Zl}\p{Zp}]/u.test(name);
}

function placeOf(at: string, name: string, body: 'json' | 'form'): string {
  if (body === 'json') return `${at}/${name.replaceAll('~', '~0').replaceAll('/', '~1')}`;
  return at === '' ? `/${name}` : `${at}[${name}]`;
}

/** A schema with all that it is put together from; `spend` says whether there may be another one. */
function flatten(source: OpenApiSource, schema: unknown, spend: () => boolean, depth = 0): DocumentObject[] {
  if (source.left <= 0 || !spend() || depth > REFERENCES_MAX) return [];
  const found = resolved(source, schema);
  if (typeof found !== 'object' || found === null) return [];
  const parts = ['allOf', 'oneOf', 'anyOf'].flatMap((name) => listOf(found, name).slice(0, SCHEMAS_MAX));
  source.left -= 1 + parts.length;
  return [found as DocumentObject, ...parts.flatMap((part) => flatten(source, part, spend, depth + 1))];
}

const TYPES: ReadonlySet<string> = new Set(['boolean', 'integer', 'number', 'string', 'array', 'object', 'null']);

function typeOf(schema: DocumentObject): ShapeType | null {
  const given = memberOf(schema, 'type');
  const named = Array.isArray(given) ? given.slice(0, TYPES_MAX) : [given];
  const all = named.filter((one) => typeof one === 'string' && TYPES.has(one) && one !== 'null');
  if (all.length > 1) return 'mixed';
  if (all.length === 1) return all[0] as ShapeType;
  return memberOf(schema, 'properties') === undefined ? null : 'object';
}

/** Parts that say nothing of the type leave it to those that do. */
function note(types: Map<string, ShapeType>, at: string, found: readonly (ShapeType | null)[]): void {
  for (const type of found) {
    if (type === null) continue;
    const known = types.get(at);
    types.set(at, known === undefined || known === type ? type : 'mixed');
  }
  if (!types.has(at)) types.set(at, 'mixed');
}
