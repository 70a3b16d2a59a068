import { z } from 'zod';
import { isActionType, isCounterparty } from './action.ts';
import type { FieldProblem } from './errors.ts';
import { type FormFields, FormSyntaxProblem } from './form.ts';
import {
  type CompiledPointer,
  compilePointer,
  isJsonNumber,
  isJsonObject,
  isJsonPointer,
  type JsonNode,
  pointerStep,
} from './json.ts';
import { BODY_LIMIT_DEFAULT_BYTES, BODY_LIMIT_MAX_BYTES, VALUE_SOURCE_MAX_CHARACTERS } from './limits.ts';
import { AMOUNT_UNITS, type AmountUnit, currencyOfLower, isCurrency, minorUnits } from './money.ts';
import { pathSegment, type QueryParams, type ToolPattern } from './tool-name.ts';

/**
 * Where a value comes from: nowhere, a JSON Pointer into a JSON body (for forms, the field's name after the slash as it
 * is), a query parameter, a parameter of the path template, or a constant.
 */
export type ValueSource = 'none' | `/${string}` | `query:${string}` | `path:${string}` | `const:${string}`;

/** Codes as ISO 4217 writes them, or in lower case exactly, as some targets want them. */
export const CURRENCY_NOTATIONS = ['iso', 'iso_lower'] as const;
export type CurrencyNotation = (typeof CURRENCY_NOTATIONS)[number];

/** What a tool does, and where the values of a decision are in its requests (contract §7). */
export interface ToolMapping {
  action_type: string;
  amount: ValueSource;
  currency: ValueSource;
  counterparty: ValueSource;
  amount_unit: AmountUnit;
  currency_notation: CurrencyNotation;
  counterparty_optional: boolean;
  body_limit_bytes: number;
}

/** What a mapping says where nothing else is asked for (contract §7). */
export const DEFAULT_MAPPING_SOURCES = {
  amount: '/amount',
  currency: '/currency',
  counterparty: '/counterparty',
  amount_unit: 'major',
  currency_notation: 'iso',
  counterparty_optional: true,
  body_limit_bytes: BODY_LIMIT_DEFAULT_BYTES,
} as const satisfies Omit<ToolMapping, 'action_type'>;

const SOURCE = /^(?:none|\/.+|query:.+|path:[a-z_][a-z0-9_]*|const:.+)$/s;

function isValueSource(text: string): boolean {
  return SOURCE.test(text) && (text[0] !== '/' || isJsonPointer(text));
}

const sourceMessage =
  'must be none, a JSON Pointer such as /amount, query:<name>, path:<parameter> or const:<value>; "~" is written "~0"';
const valueSource = z
  .string()
  .max(VALUE_SOURCE_MAX_CHARACTERS)
  .pipe(z.custom<ValueSource>((text) => typeof text === 'string' && isValueSource(text), sourceMessage));
const actionType = z
  .string()
  .refine(isActionType, 'must be 1..128 characters: segments of a-z, 0-9, "_" and "-" joined by dots');
const bodyLimit = z.number().int().min(1).max(BODY_LIMIT_MAX_BYTES, `must be at most ${BODY_LIMIT_MAX_BYTES} bytes`);

/** A complete mapping, as it is stored and sent between the processes. */
export const toolMapping = z.strictObject({
  action_type: actionType,
  amount: valueSource,
  currency: valueSource,
  counterparty: valueSource,
  amount_unit: z.enum(AMOUNT_UNITS),
  currency_notation: z.enum(CURRENCY_NOTATIONS),
  counterparty_optional: z.boolean(),
  body_limit_bytes: bodyLimit,
});

/**
 * A mapping as a principal writes it: all but the action type has a default (DEFAULT_MAPPING_SOURCES).
 *
 * Where `amount` is `none`, currency and counterparty are `none` as well unless they are given.
 */
export const toolMappingInput = z
  .strictObject({
    action_type: actionType,
    amount: valueSource.default(DEFAULT_MAPPING_SOURCES.amount),
    currency: valueSource.optional(),
    counterparty: valueSource.optional(),
    amount_unit: z.enum(AMOUNT_UNITS).default(DEFAULT_MAPPING_SOURCES.amount_unit),
    currency_notation: z.enum(CURRENCY_NOTATIONS).default(DEFAULT_MAPPING_SOURCES.currency_notation),
    counterparty_optional: z.boolean().default(DEFAULT_MAPPING_SOURCES.counterparty_optional),
    body_limit_bytes: bodyLimit.default(DEFAULT_MAPPING_SOURCES.body_limit_bytes),
  })
  .transform((given): ToolMapping => {
    const free = given.amount === 'none';
    return {
      ...given,
      currency: given.currency ?? (free ? 'none' : DEFAULT_MAPPING_SOURCES.currency),
      counterparty: given.counterparty ?? (free ? 'none' : DEFAULT_MAPPING_SOURCES.counterparty),
    };
  });

const FIELDS = ['amount', 'currency', 'counterparty'] as const;
type ReadField = (typeof FIELDS)[number];

/** Whether anything is read from the body; if not, the body may stream by unread. */
export function needsBody(mapping: ToolMapping): boolean {
  return FIELDS.some((field) => mapping[field].startsWith('/'));
}

/**
 * Reports what could never be read, when the mapping is saved rather than by denying for ever; empty when all is well.
 *
 * Expects a mapping that `toolMapping` accepts.
 */
export function checkMapping(mapping: ToolMapping, pattern: ToolPattern): FieldProblem[] {
  const problems: FieldProblem[] = [];
  for (const field of FIELDS) {
    const message = sourceProblem(mapping[field], pattern) ?? constProblem(mapping, field);
    if (message !== null) problems.push({ field, message });
  }
  if (mapping.amount !== 'none' && mapping.currency === 'none') {
    problems.push({ field: 'currency', message: 'must say where the currency of the amount is, e.g. const:EUR' });
  }
  const [amount, currency] = [constOf(mapping.amount), constOf(mapping.currency)];
  if (amount !== null && problems.length === 0) {
    // Without a constant currency the strictest one shows whether the text can be an amount at all.
    const code = currency === null ? null : currencyOf(currency, mapping.currency_notation);
    const reading = minorUnits(amount, code ?? 'KWD', mapping.amount_unit);
    if (!reading.ok) problems.push({ field: 'amount', message: `has an unusable constant. ${reading.message}` });
  }
  return problems;
}

function sourceProblem(source: ValueSource, pattern: ToolPattern): string | null {
  if (source.startsWith('/') && (pattern.method === 'GET' || pattern.method === 'HEAD')) {
    return `cannot be read from the body of a ${pattern.method}; use query:<name>, path:<parameter>, const: or none`;
  }
  if (!source.startsWith('path:')) return null;
  const name = source.slice('path:'.length);
  if (pattern.params.some((param) => param.name === name)) return null;
  return `names the path parameter {${name}}, which ${pattern.text} does not have`;
}

function constProblem(mapping: ToolMapping, field: ReadField): string | null {
  const text = constOf(mapping[field]);
  if (text === null || field === 'amount') return null;
  if (field === 'currency') {
    if (currencyOf(text, mapping.currency_notation) !== null) return null;
    return 'has a constant that is not an ISO 4217 code in the notation of the mapping';
  }
  return isCounterparty(text.normalize('NFC')) ? null : 'has a constant that is not a counterparty';
}

function constOf(source: ValueSource): string | null {
  return source.startsWith('const:') ? source.slice('const:'.length) : null;
}

function currencyOf(text: string, notation: CurrencyNotation): string | null {
  if (notation === 'iso_lower') return currencyOfLower(text);
  return isCurrency(text) ? text : null;
}

type CompiledSource =
  | { readonly from: 'none' }
  | { readonly from: 'body'; readonly text: string; readonly pointer: CompiledPointer; readonly field: string }
  | { readonly from: 'query'; readonly text: string; readonly name: string }
  | { readonly from: 'path'; readonly text: string; readonly segment: number }
  | { readonly from: 'const'; readonly value: string };

/** A mapping made ready for many requests. */
export interface CompiledMapping {
  readonly mapping: ToolMapping;
  readonly amount: CompiledSource;
  readonly currency: CompiledSource;
  readonly counterparty: CompiledSource;
}

/** Compiles a mapping that checkMapping found nothing wrong with; throws RangeError where that is not so. */
export function compileMapping(mapping: ToolMapping, pattern: ToolPattern): CompiledMapping {
  return {
    mapping,
    amount: compileSource(mapping.amount, pattern),
    currency: compileSource(mapping.currency, pattern),
    counterparty: compileSource(mapping.counterparty, pattern),
  };
}

function compileSource(source: ValueSource, pattern: ToolPattern): CompiledSource {
  if (source === 'none') return { from: 'none' };
  if (source.startsWith('/')) {
    return { from: 'body', text: source, pointer: compilePointer(source), field: source.slice(1) };
  }
  const colon = source.indexOf(':');
  const name = source.slice(colon + 1);
  switch (source.slice(0, colon)) {
    case 'query':
      return { from: 'query', text: source, name };
    case 'const':
      return { from: 'const', value: name };
    case 'path': {
      const param = pattern.params.find((known) => known.name === name);
      if (param === undefined) throw new RangeError('the mapping names a path parameter that the template lacks');
      return { from: 'path', text: source, segment: param.segment };
    }
    default:
      throw new RangeError('the mapping names a source that is not known');
  }
}

/** A body as far as it was read: `none` is empty, `opaque` is of a content type that is not parsed. */
export type RequestBody =
  | { readonly kind: 'json'; readonly node: JsonNode }
  | { readonly kind: 'form'; readonly fields: FormFields }
  | { readonly kind: 'none' }
  | { readonly kind: 'opaque' };

/** What values are read from: the canonical path without its leading slash, the query, and the body. */
export interface ReadInput {
  readonly path: string;
  readonly queryParams: QueryParams;
  readonly body: RequestBody;
}

/** The values of a request, or the first that cannot be read; the message repeats nothing of the request. */
export type Reading =
  | {
      readonly ok: true;
      readonly amount_minor: number;
      readonly currency: string | null;
      readonly counterparty: string | null;
    }
  | { readonly ok: false; readonly field: ReadField; readonly message: string };

class Unreadable {
  readonly message: string;

  constructor(message: string) {
    this.message = message;
  }
}

/**
 * Reads amount, currency and counterparty of a request as its mapping says.
 *
 * An amount in JSON must be a number, read from its digits; currency and counterparty must be strings. Names that
 * differ from a mapped one only in case make the request unreadable: many targets take either for the other.
 * The currency comes back in upper case, the counterparty in NFC. Source: contract §§1, 2 and 7.
 */
export function readValues(compiled: CompiledMapping, input: ReadInput): Reading {
  const { mapping } = compiled;
  const amount = readAmountText(compiled.amount, input);
  if (amount instanceof Unreadable) return unreadable('amount', amount);
  const currency = readCurrency(compiled.currency, input, mapping.currency_notation);
  if (currency instanceof Unreadable) return unreadable('currency', currency);
  let minor = 0;
  if (amount !== null) {
    if (currency === null) return unreadable('currency', new Unreadable('The mapping names no currency.'));
    const reading = minorUnits(amount, currency, mapping.amount_unit);
    if (!reading.ok) return unreadable('amount', new Unreadable(reading.message));
    minor = reading.minor;
  }
  const counterparty = readCounterparty(compiled.counterparty, input, mapping.counterparty_optional);
  if (counterparty instanceof Unreadable) return unreadable('counterparty', counterparty);
  return { ok: true, amount_minor: minor, currency, counterparty };
}

function unreadable(field: ReadField, { message }: Unreadable): Reading {
  return { ok: false, field, message };
}

function readAmountText(source: CompiledSource, input: ReadInput): string | null | Unreadable {
  if (source.from === 'none') return null;
  const found = lookUp(source, input);
  if (found instanceof Unreadable) return found;
  if (found === undefined) return missing(source);
  if (source.from === 'body' && input.body.kind === 'json') {
    return isJsonNumber(found) ? found.text : new Unreadable(`The value at ${source.text} is not a JSON number.`);
  }
  return typeof found === 'string' ? found : missing(source);
}

function readCurrency(
  source: CompiledSource,
  input: ReadInput,
  notation: CurrencyNotation,
): string | null | Unreadable {
  if (source.from === 'none') return null;
  const found = lookUp(source, input);
  if (found instanceof Unreadable) return found;
  if (found === undefined) return missing(source);
  const code = typeof found === 'string' ? currencyOf(found, notation) : null;
  if (code !== null) return code;
  const spelling = notation === 'iso' ? 'upper' : 'lower';
  return new Unreadable(`The value${placeOf(source)} is not an ISO 4217 code in ${spelling} case.`);
}

function readCounterparty(source: CompiledSource, input: ReadInput, optional: boolean): string | null | Unreadable {
  if (source.from === 'none') return null;
  const found = lookUp(source, input);
  if (found instanceof Unreadable) return found;
  if (found === undefined || found === null) return optional ? null : missing(source);
  const text = typeof found === 'string' ? found.normalize('NFC') : '';
  if (isCounterparty(text)) return text;
  return new Unreadable(`The value${placeOf(source)} is not a counterparty: 1 to 256 characters, no controls.`);
}

function missing(source: CompiledSource): Unreadable {
  return new Unreadable(`The request has no value${placeOf(source)}.`);
}

function placeOf(source: CompiledSource): string {
  return 'text' in source ? ` at ${source.text}` : '';
}

/** The value at a source; undefined where there is none. Only JSON bodies yield anything but strings. */
function lookUp(source: CompiledSource, input: ReadInput): JsonNode | undefined | Unreadable {
  switch (source.from) {
    case 'none':
      return undefined;
    case 'const':
      return source.value;
    case 'path':
      return pathSegment(input.path, source.segment);
    case 'query':
      return lookUpQuery(source.name, input.queryParams);
    case 'body':
      return lookUpBody(source, input.body);
    default:
      return unknownSource(source);
  }
}

function unknownSource(source: never): Unreadable {
  return new Unreadable(`The mapping is not understood: ${String(source)}.`);
}

function lookUpQuery(name: string, params: QueryParams): string | undefined | Unreadable {
  let fields: FormFields;
  try {
    fields = params.fields();
  } catch (error) {
    if (error instanceof FormSyntaxProblem) return new Unreadable(`The query cannot be read: ${error.message}`);
    throw error;
  }
  return hasTwin(fields, name) ? twin(`query:${name}`) : fields.get(name);
}

function lookUpBody(
  source: Extract<CompiledSource, { from: 'body' }>,
  body: RequestBody,
): JsonNode | undefined | Unreadable {
  switch (body.kind) {
    case 'json': {
      let node: JsonNode | undefined = body.node;
      for (const token of source.pointer) {
        if (node === undefined) return undefined;
        if (isJsonObject(node) && hasTwin(node, token)) return twin(source.text);
        node = pointerStep(node, token);
      }
      return node;
    }
    case 'form':
      return hasTwin(body.fields, source.field) ? twin(source.text) : body.fields.get(source.field);
    case 'none':
      return undefined;
    case 'opaque':
      return new Unreadable(`The body is neither JSON nor a form, so that ${source.text} cannot be read.`);
    default:
      return unknownSource(body);
  }
}

function twin(place: string): Unreadable {
  return new Unreadable(`Beside ${place} there is a name that differs only in upper and lower case.`);
}

/** Whether a name equals `name` but for case: Go's and .NET's readers among others take one for the other. */
function hasTwin(names: ReadonlyMap<string, unknown>, name: string): boolean {
  for (const other of names.keys()) {
    if (other.length === name.length && other !== name && foldCase(other) === foldCase(name)) return true;
  }
  return false;
}

function foldCase(name: string): string {
  return name.toUpperCase().toLowerCase();
}
