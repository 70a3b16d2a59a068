import { JSON_DEPTH_MAX } from './limits.ts';

/** A JSON value as plain JavaScript. */
export type JsonValue =
  | null
  | boolean
  | number
  | string
  | readonly JsonValue[]
  | { readonly [name: string]: JsonValue };

/** Why a value has no canonical form. */
export type JcsCode = 'number_not_finite' | 'lone_surrogate' | 'not_json' | 'depth';

/** A value has no canonical form; it is a mistake of the caller, and its message repeats nothing of the value. */
export class JcsProblem extends TypeError {
  override readonly name = 'JcsProblem';
  readonly code: JcsCode;

  constructor(code: JcsCode, message: string) {
    super(message);
    this.code = code;
  }
}

// Without any prototype an object cannot be compared with a number, and zod compares the `length` of whatever it gets.
const BARE: object = Object.freeze(Object.assign(Object.create(null), { [Symbol.toPrimitive]: () => Number.NaN }));

/** An empty object for names that others chose: it inherits no member that a name could meet. */
export function bareObject<T>(): { [name: string]: T } {
  return Object.create(BARE) as { [name: string]: T };
}

/**
 * The canonical text of a JSON value: members sorted by UTF-16 code units, no white space, ECMAScript numbers.
 *
 * Throws JcsProblem for what JSON cannot say: numbers that are not finite, lone surrogates, undefined, anything that is
 * not plain data, and more than JSON_DEPTH_MAX levels. Strings are not normalised. Source: RFC 8785.
 */
export function canonicalize(value: JsonValue): string {
  return textOf(value, 0);
}

/** The canonical text of a string; throws JcsProblem where it is not well-formed UTF-16 (RFC 8785 §3.2.2.2). */
export function canonicalString(text: string): string {
  if (!text.isWellFormed()) throw new JcsProblem('lone_surrogate', 'A string holds a lone surrogate.');
  return JSON.stringify(text);
}

function textOf(value: JsonValue, depth: number): string {
  switch (typeof value) {
    case 'string':
      return canonicalString(value);
    case 'number':
      if (!Number.isFinite(value)) throw new JcsProblem('number_not_finite', 'A number is not finite.');
      return JSON.stringify(value);
    case 'boolean':
      return value ? 'true' : 'false';
    case 'object':
      if (value === null) return 'null';
      if (depth === JSON_DEPTH_MAX) throw new JcsProblem('depth', `More than ${JSON_DEPTH_MAX} levels.`);
      return isArray(value) ? arrayText(value, depth + 1) : objectText(value, depth + 1);
    default:
      throw new JcsProblem('not_json', 'A value is not JSON.');
  }
}

function isArray(value: object): value is readonly JsonValue[] {
  return Array.isArray(value);
}

function arrayText(items: readonly JsonValue[], depth: number): string {
  let text = '[';
  for (let i = 0; i < items.length; i++) {
    if (i > 0) text += ',';
    text += textOf(items[i] as JsonValue, depth);
  }
  return `${text}]`;
}

function objectText(value: { readonly [name: string]: JsonValue }, depth: number): string {
  const prototype: unknown = Object.getPrototypeOf(value);
  if (prototype !== Object.prototype && prototype !== null && prototype !== BARE) {
    throw new JcsProblem('not_json', 'An object is not plain data.');
  }
  let text = '{';
  // The default order of sort() is that of UTF-16 code units, as RFC 8785 §3.2.3 asks.
  for (const name of Object.keys(value).sort()) {
    if (text.length > 1) text += ',';
    text += `${canonicalString(name)}:${textOf(value[name] as JsonValue, depth)}`;
  }
  return `${text}}`;
}
