import { isAscii, isUtf8 } from 'node:buffer';
import { JSON_DEPTH_MAX, NAME_ECHO_MAX_CHARACTERS } from './limits.ts';

/** A JSON number by its source text, so that nothing is lost before somebody decides what it means. */
export interface JsonNumber {
  readonly kind: 'number';
  readonly text: string;
}
export type JsonArray = readonly JsonNode[];
/** A Map, so that `__proto__` is a name like any other. */
export type JsonObject = ReadonlyMap<string, JsonNode>;
export type JsonNode = null | boolean | string | JsonNumber | JsonArray | JsonObject;

/** Why a document is not strict JSON. */
export type JsonSyntaxCode =
  | 'bom'
  | 'invalid_utf8'
  | 'lone_surrogate'
  | 'duplicate_name'
  | 'depth'
  | 'number_not_exact'
  | 'trailing_data'
  | 'syntax';

/** A document was refused; `offset` counts UTF-16 code units of the decoded text (bytes where all of it is ASCII). */
export class JsonSyntaxProblem extends Error {
  override readonly name = 'JsonSyntaxProblem';
  readonly code: JsonSyntaxCode;
  readonly offset: number;

  constructor(code: JsonSyntaxCode, offset: number, message: string) {
    super(message);
    this.code = code;
    this.offset = offset;
  }
}

/**
 * Reads one JSON document and refuses whatever two parsers could read differently.
 *
 * Beyond the grammar of RFC 8259: no byte order mark, no invalid UTF-8, no lone surrogates, no member name twice in one
 * object (compared after unescaping), at most `JSON_DEPTH_MAX` levels, and no number that changes its value on the way
 * through an IEEE 754 double (the number's shortest decimal must be the number that was written).
 * Throws JsonSyntaxProblem; its message repeats nothing of the document but a member name, bounded and in ASCII.
 */
export function parseStrictJson(bytes: Uint8Array): JsonNode {
  return new StrictReader(decode(bytes)).document();
}

function decode(bytes: Uint8Array): string {
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (isAscii(buffer)) return buffer.toString('latin1');
  if (!isUtf8(buffer)) throw new JsonSyntaxProblem('invalid_utf8', 0, 'The document is not valid UTF-8.');
  const source = buffer.toString('utf8');
  if (buffer[0] === 0xef && buffer[1] === 0xbb && buffer[2] === 0xbf) {
    throw new JsonSyntaxProblem('bom', 0, 'The document starts with a byte order mark.');
  }
  return source;
}

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const COMMA = 0x2c;
const COLON = 0x3a;
const MINUS = 0x2d;
const ZERO = 0x30;
const NINE = 0x39;

// Empty ones share these: a body made of `{}` must not cost a hundred times its size.
const EMPTY_OBJECT: JsonObject = new Map();
const EMPTY_ARRAY: JsonArray = Object.freeze([]);

/** A number of at most this many characters and no exponent has at most 15 digits: every double keeps those. */
const SURELY_EXACT_CHARACTERS = 15;

class StrictReader {
  private readonly source: string;
  private at = 0;
  private depth = 0;

  constructor(source: string) {
    this.source = source;
  }

  document(): JsonNode {
    const node = this.value();
    this.space();
    if (this.at !== this.source.length) throw this.problem('trailing_data', 'Something follows the document.');
    return node;
  }

  private value(): JsonNode {
    this.space();
    if (this.at >= this.source.length) throw this.problem('syntax', 'The document ends where a value is expected.');
    switch (this.source.charCodeAt(this.at)) {
      case QUOTE:
        return this.string();
      case 0x7b:
        return this.object();
      case 0x5b:
        return this.array();
      case 0x74:
        return this.literal('true', true);
      case 0x66:
        return this.literal('false', false);
      case 0x6e:
        return this.literal('null', null);
      default:
        return this.number();
    }
  }

  private object(): JsonObject {
    this.enter();
    if (this.next() === 0x7d) {
      this.leave();
      return EMPTY_OBJECT;
    }
    const members = new Map<string, JsonNode>();
    for (;;) {
      if (this.next() !== QUOTE) throw this.problem('syntax', 'A member name in double quotes is expected.');
      const start = this.at;
      const name = this.string();
      if (this.next() !== COLON) throw this.problem('syntax', 'A colon is expected after a member name.');
      this.at += 1;
      const value = this.value();
      const before = members.size;
      members.set(name, value);
      if (members.size === before) {
        throw new JsonSyntaxProblem('duplicate_name', start, `The member name ${echoName(name)} occurs twice.`);
      }
      const end = this.next();
      if (end === 0x7d) break;
      if (end !== COMMA) throw this.problem('syntax', 'A comma or a closing brace is expected.');
      this.at += 1;
    }
    this.leave();
    return members;
  }

  private array(): JsonArray {
    this.enter();
    if (this.next() === 0x5d) {
      this.leave();
      return EMPTY_ARRAY;
    }
    // An empty array grows by 17 places at its first push, which a body of many small arrays would multiply.
    const items: JsonNode[] = [this.value()];
    for (let end = this.next(); end !== 0x5d; end = this.next()) {
      if (end !== COMMA) throw this.problem('syntax', 'A comma or a closing bracket is expected.');
      this.at += 1;
      items.push(this.value());
    }
    this.leave();
    return items;
  }

  private string(): string {
    const { source, at: open } = this;
    let escaped = false;
    for (let at = open + 1; at < source.length; at++) {
      const unit = source.charCodeAt(at);
      if (unit === QUOTE) {
        this.at = at + 1;
        // Every escape has been checked, so that the engine's own reader may resolve them.
        return escaped ? (JSON.parse(source.slice(open, at + 1)) as string) : source.slice(open + 1, at);
      }
      if (unit === BACKSLASH) {
        escaped = true;
        at = this.escape(at);
      } else if (unit < 0x20) {
        throw new JsonSyntaxProblem('syntax', at, 'A control character stands in a string without an escape.');
      }
    }
    throw new JsonSyntaxProblem('syntax', source.length, 'The document ends inside a string.');
  }

  /** Checks the escape whose backslash is at `at`; returns where its last character is. */
  private escape(at: number): number {
    const kind = this.source.charCodeAt(at + 1);
    if (kind !== 0x75) {
      if (isShortEscape(kind)) return at + 1;
      throw new JsonSyntaxProblem('syntax', at, 'There is no such escape in JSON.');
    }
    const unit = this.hex4(at + 2);
    if (unit < 0xd800 || unit > 0xdfff) return at + 5;
    const paired =
      unit < 0xdc00 && this.source.charCodeAt(at + 6) === BACKSLASH && this.source.charCodeAt(at + 7) === 0x75;
    const low = paired ? this.hex4(at + 8) : 0;
    if (low < 0xdc00 || low > 0xdfff) {
      throw new JsonSyntaxProblem('lone_surrogate', at, 'A surrogate is escaped without its other half.');
    }
    return at + 11;
  }

  private hex4(at: number): number {
    let unit = 0;
    for (let i = at; i < at + 4; i++) {
      const digit = hexDigit(this.source.charCodeAt(i));
      if (digit < 0) throw new JsonSyntaxProblem('syntax', i, 'A \\u escape needs four hexadecimal digits.');
      unit = unit * 16 + digit;
    }
    return unit;
  }

  private number(): JsonNumber {
    const { source, at: start } = this;
    if (source.charCodeAt(start) === MINUS) this.at += 1;
    const first = source.charCodeAt(this.at);
    if (!isDigit(first)) throw this.problem('syntax', 'A value is expected.');
    if (first === ZERO) this.at += 1;
    else this.digits();
    if (source.charCodeAt(this.at) === 0x2e) {
      this.at += 1;
      this.digits();
    }
    const mark = source.charCodeAt(this.at);
    const exponent = mark === 0x65 || mark === 0x45;
    if (exponent) {
      this.at += 1;
      const sign = source.charCodeAt(this.at);
      if (sign === 0x2b || sign === MINUS) this.at += 1;
      this.digits();
    }
    const text = source.slice(start, this.at);
    if ((exponent || text.length > SURELY_EXACT_CHARACTERS) && !survivesDouble(text)) {
      throw new JsonSyntaxProblem('number_not_exact', start, 'A number cannot be read exactly.');
    }
    return { kind: 'number', text };
  }

  private digits(): void {
    const start = this.at;
    while (isDigit(this.source.charCodeAt(this.at))) this.at += 1;
    if (this.at === start) throw this.problem('syntax', 'A digit is expected.');
  }

  private literal<T extends boolean | null>(text: string, value: T): T {
    if (!this.source.startsWith(text, this.at)) throw this.problem('syntax', 'A value is expected.');
    this.at += text.length;
    return value;
  }

  /** Moves past white space and returns the code unit there (NaN at the end). */
  private next(): number {
    this.space();
    return this.source.charCodeAt(this.at);
  }

  private space(): void {
    const { source } = this;
    let { at } = this;
    for (; at < source.length; at++) {
      const unit = source.charCodeAt(at);
      if (unit !== 0x20 && unit !== 0x0a && unit !== 0x0d && unit !== 0x09) break;
    }
    this.at = at;
  }

  private enter(): void {
    this.depth += 1;
    if (this.depth > JSON_DEPTH_MAX) {
      throw this.problem('depth', `Arrays and objects are nested deeper than ${JSON_DEPTH_MAX} levels.`);
    }
    this.at += 1;
  }

  private leave(): void {
    this.depth -= 1;
    this.at += 1;
  }

  private problem(code: JsonSyntaxCode, message: string): JsonSyntaxProblem {
    return new JsonSyntaxProblem(code, this.at, message);
  }
}

function isDigit(unit: number): boolean {
  return unit >= ZERO && unit <= NINE;
}

function isShortEscape(unit: number): boolean {
  switch (unit) {
    case QUOTE:
    case BACKSLASH:
    case 0x2f:
    case 0x62:
    case 0x66:
    case 0x6e:
    case 0x72:
    case 0x74:
      return true;
    default:
      return false;
  }
}

function hexDigit(unit: number): number {
  if (isDigit(unit)) return unit - ZERO;
  const lower = unit | 0x20;
  return lower >= 0x61 && lower <= 0x66 ? lower - 0x57 : -1;
}

/** Whether the shortest decimal of the double that `text` (a JSON number) reads as is the same number. */
function survivesDouble(text: string): boolean {
  const double = Number(text);
  return Number.isFinite(double) && decimalKey(text) === decimalKey(String(double));
}

/** One spelling for each decimal value, its sign aside: the digits between the outer zeros, and their power of ten. */
function decimalKey(text: string): string {
  const unsigned = text.charCodeAt(0) === MINUS ? text.slice(1) : text;
  const lower = unsigned.indexOf('e');
  const mark = lower >= 0 ? lower : unsigned.indexOf('E');
  const mantissa = mark < 0 ? unsigned : unsigned.slice(0, mark);
  const exponent = mark < 0 ? 0 : Number(unsigned.slice(mark + 1));
  const point = mantissa.indexOf('.');
  const digits = point < 0 ? mantissa : mantissa.slice(0, point) + mantissa.slice(point + 1);
  const scale = point < 0 ? 0 : mantissa.length - point - 1;
  let first = 0;
  while (digits.charCodeAt(first) === ZERO) first += 1;
  if (first === digits.length) return '0';
  let end = digits.length;
  while (digits.charCodeAt(end - 1) === ZERO) end -= 1;
  return `${digits.slice(first, end)}e${exponent - scale + digits.length - end}`;
}

/** A name for a message: quoted, bounded, and in printable ASCII whatever it holds. */
export function echoName(name: string): string {
  const shown = name.length > NAME_ECHO_MAX_CHARACTERS ? `${name.slice(0, NAME_ECHO_MAX_CHARACTERS)}…` : name;
  return JSON.stringify(shown).replace(/[^ -~]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`);
}

/** Whether a node is a number. */
export function isJsonNumber(node: JsonNode | undefined): node is JsonNumber {
  return typeof node === 'object' && node !== null && 'kind' in node;
}

/** Whether a node is an object. */
export function isJsonObject(node: JsonNode | undefined): node is JsonObject {
  return node instanceof Map;
}

/** A JSON Pointer's reference tokens, unescaped. */
export type CompiledPointer = readonly string[];

const POINTER = /^(?:\/(?:[^~/]|~[01])*)*$/u;

/** Whether `text` is a JSON Pointer: empty, or tokens that each start with `/` (RFC 6901 §3). */
export function isJsonPointer(text: string): boolean {
  return POINTER.test(text);
}

/** Splits a JSON Pointer into its tokens; throws RangeError where `isJsonPointer` is false (RFC 6901 §4). */
export function compilePointer(text: string): CompiledPointer {
  if (!isJsonPointer(text)) throw new RangeError('not a JSON Pointer');
  return text
    .split('/')
    .slice(1)
    .map((token) => (token.includes('~') ? token.replaceAll('~1', '/').replaceAll('~0', '~') : token));
}

const ARRAY_INDEX = /^(?:0|[1-9][0-9]{0,8})$/;

/** The node that one token of a pointer leads to, or undefined where there is none (RFC 6901 §4). */
export function pointerStep(node: JsonNode, token: string): JsonNode | undefined {
  if (node instanceof Map) return (node as JsonObject).get(token);
  return Array.isArray(node) && ARRAY_INDEX.test(token) ? (node as JsonArray)[Number(token)] : undefined;
}

/** The node that a pointer leads to, or undefined where there is none. */
export function jsonPointer(node: JsonNode, pointer: string | CompiledPointer): JsonNode | undefined {
  let at: JsonNode | undefined = node;
  for (const token of typeof pointer === 'string' ? compilePointer(pointer) : pointer) {
    if (at === undefined) return undefined;
    at = pointerStep(at, token);
  }
  return at;
}
