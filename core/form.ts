import { isAscii } from 'node:buffer';
import { echoName } from './json.ts';
import { FORM_FIELDS_MAX, FORM_NAME_PARTS_MAX } from './limits.ts';

/** Why a form is not read. */
export type FormSyntaxCode =
  | 'not_ascii'
  | 'raw_character'
  | 'empty_pair'
  | 'no_value'
  | 'no_name'
  | 'invalid_encoding'
  | 'invalid_name'
  | 'nul'
  | 'duplicate_name'
  | 'ambiguous_name'
  | 'method_override'
  | 'too_many_fields';

/** A form was refused; `offset` is where its pair starts, in bytes. */
export class FormSyntaxProblem extends Error {
  override readonly name = 'FormSyntaxProblem';
  readonly code: FormSyntaxCode;
  readonly offset: number;

  constructor(code: FormSyntaxCode, offset: number, message: string) {
    super(message);
    this.code = code;
    this.offset = offset;
  }
}

/** The fields of a form by their decoded names, as they are: `items[0]` is a name, not a list. */
export type FormFields = ReadonlyMap<string, string>;

/**
 * Reads an `application/x-www-form-urlencoded` body and refuses whatever two servers could read differently.
 *
 * What is accepted means what the WHATWG URL standard says it means. Refused beyond that: bytes outside visible ASCII
 * (charset is a guess), a raw `;` (a separator to some), pairs that are empty, nameless or without `=`, escapes that
 * are not hexadecimal or not UTF-8, NUL, names with spaces or control characters or with brackets that are not
 * `name[part][part]`, a name twice, names that PHP folds into one (`a.b`, `a_b`), a name that is a value and a
 * container at once (`a`, `a[b]`), method override fields, and more than FORM_FIELDS_MAX fields (common servers drop
 * the rest). An empty body has no fields. Throws FormSyntaxProblem.
 */
export function parseStrictForm(bytes: Uint8Array): FormFields {
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (!isAscii(buffer)) throw new FormSyntaxProblem('not_ascii', 0, 'The form holds bytes that must be escaped.');
  return parseStrictFormText(buffer.toString('latin1'));
}

/** The same for text that is at hand, such as a query; see parseStrictForm. */
export function parseStrictFormText(source: string): FormFields {
  const fields = new Map<string, string>();
  if (source.length === 0) return fields;
  checkCharacters(source);
  let folds = false;
  for (let start = 0; start <= source.length; ) {
    const found = source.indexOf('&', start);
    const end = found < 0 ? source.length : found;
    const equals = source.indexOf('=', start);
    if (end === start) throw new FormSyntaxProblem('empty_pair', start, 'The form has an empty pair.');
    if (equals < 0 || equals > end) throw new FormSyntaxProblem('no_value', start, 'A field of the form has no "=".');
    if (equals === start) throw new FormSyntaxProblem('no_name', start, 'A field of the form has no name.');
    const name = decodePart(source.slice(start, equals), start);
    const value = decodePart(source.slice(equals + 1, end), start);
    if (checkName(name, start)) folds = true;
    if (value.includes('\0')) throw new FormSyntaxProblem('nul', start, 'A field of the form holds a NUL.');
    const before = fields.size;
    if (before === FORM_FIELDS_MAX) {
      throw new FormSyntaxProblem('too_many_fields', start, `The form has more than ${FORM_FIELDS_MAX} fields.`);
    }
    fields.set(name, value);
    if (fields.size === before) {
      throw new FormSyntaxProblem('duplicate_name', start, `The field ${echoName(name)} occurs twice.`);
    }
    start = end + 1;
  }
  if (folds) checkFolding(fields);
  return fields;
}

function checkCharacters(source: string): void {
  for (let at = 0; at < source.length; at++) {
    const unit = source.charCodeAt(at);
    if (unit > 0x20 && unit < 0x7f && unit !== 0x3b) continue;
    throw new FormSyntaxProblem('raw_character', at, 'The form holds a character that must be escaped.');
  }
}

function decodePart(text: string, offset: number): string {
  const spaced = text.includes('+') ? text.replaceAll('+', ' ') : text;
  if (!spaced.includes('%')) return spaced;
  try {
    return decodeURIComponent(spaced);
  } catch {
    throw new FormSyntaxProblem('invalid_encoding', offset, 'The form holds an escape that is not valid UTF-8.');
  }
}

/** Refuses names that are read differently by servers; returns whether the name could fold into another one. */
function checkName(name: string, offset: number): boolean {
  let depth = 0;
  let parts = 0;
  let folds = false;
  for (let at = 0; at < name.length; at++) {
    const unit = name.charCodeAt(at);
    // Brackets: `[` opens only after a name or a `]`, and nothing but `[` may follow a `]`.
    const afterGroup = at > 0 && name.charCodeAt(at - 1) === 0x5d;
    const opens = unit === 0x5b;
    const closes = unit === 0x5d;
    const bracketsOff = opens ? depth !== 0 || at === 0 : closes ? depth !== 1 : afterGroup;
    if (bracketsOff || unit <= 0x20 || (unit >= 0x7f && unit <= 0xa0)) {
      throw new FormSyntaxProblem('invalid_name', offset, `The field name ${echoName(name)} is ambiguous.`);
    }
    if (opens) {
      depth = 1;
      parts += 1;
    }
    if (closes) depth = 0;
    if (opens || unit === 0x2e) folds = true;
  }
  if (depth !== 0 || parts > FORM_NAME_PARTS_MAX) {
    throw new FormSyntaxProblem('invalid_name', offset, `The field name ${echoName(name)} is ambiguous.`);
  }
  if (isMethodOverride(name)) {
    throw new FormSyntaxProblem('method_override', offset, `The field ${echoName(name)} would override the method.`);
  }
  return folds;
}

const METHOD_OVERRIDES = new Set(['_method', '_httpmethod', '$httpmethod', 'x-http-method', 'x-http-method-override']);
const METHOD_OVERRIDE_MAX_CHARACTERS = 22;

/** Whether servers take a query parameter or form field of this name for the request's method. */
export function isMethodOverride(name: string): boolean {
  return name.length <= METHOD_OVERRIDE_MAX_CHARACTERS && METHOD_OVERRIDES.has(name.toLowerCase());
}

function checkFolding(fields: FormFields): void {
  const folded = new Set<string>();
  for (const name of fields.keys()) {
    const open = name.indexOf('[');
    const base = open < 0 ? name : name.slice(0, open);
    folded.add(open < 0 ? base.replaceAll('.', '_') : base.replaceAll('.', '_') + name.slice(open));
  }
  if (folded.size !== fields.size) {
    throw new FormSyntaxProblem('ambiguous_name', 0, 'Two fields of the form are the same name to some servers.');
  }
  for (const name of folded) {
    for (let open = name.indexOf('['); open >= 0; open = name.indexOf('[', open + 1)) {
      if (!folded.has(name.slice(0, open))) continue;
      const message = `The field ${echoName(name.slice(0, open))} is a value and a container at once.`;
      throw new FormSyntaxProblem('ambiguous_name', 0, message);
    }
  }
}
