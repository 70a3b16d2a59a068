import { isActionType, scopeCovers } from './action.ts';
import type { RequestShape, ShapeField } from './request-shape.ts';
import {
  checkMapping,
  DEFAULT_MAPPING_SOURCES,
  type ToolMapping,
  toolMapping,
  type ValueSource,
} from './tool-mapping.ts';
import type { ToolPattern } from './tool-name.ts';

/** How much a suggestion rests on: `high` the usual name in its usual place, `low` a guess that must be looked at. */
export const CONFIDENCES = ['high', 'medium', 'low'] as const;
export type Confidence = (typeof CONFIDENCES)[number];

/** One value that is suggested, and why. */
export interface Suggested<T> {
  readonly value: T;
  readonly confidence: Confidence;
  readonly reason: string;
}

/** A mapping with a reason for each part of it. */
export interface MappingSuggestion {
  readonly action_type: Suggested<string>;
  readonly amount: Suggested<ValueSource>;
  readonly amount_unit: Suggested<ToolMapping['amount_unit']>;
  readonly currency: Suggested<ValueSource>;
  readonly counterparty: Suggested<ValueSource>;
  /** The same as it can be saved. */
  readonly mapping: ToolMapping;
}

/** What the mandate says that a suggestion goes by. */
export interface SuggestionMandate {
  readonly scope: readonly string[];
  readonly currency: string;
}

/**
 * Suggests how a tool is to be read, from the form of its requests alone: it knows no value.
 *
 * Always a mapping that can be saved (checkMapping finds nothing), whether or not it is a good one: the reasons say.
 * Where it cannot tell, it suggests what denies too much rather than what allows too much.
 */
export function suggestMapping(
  pattern: ToolPattern,
  shape: RequestShape | null,
  mandate: SuggestionMandate,
): MappingSuggestion {
  const fields = readable(pattern, shape);
  const amountField = bestOf(fields.filter(isNumeric(shape)), AMOUNT_NAMES);
  const amount = suggestAmount(pattern, shape, amountField);
  const read = amount.value !== 'none';
  const unit = suggestUnit(amountField?.field ?? null);
  const currency = read
    ? suggestCurrency(fields, amountField, mandate)
    : nothing('An action without an amount needs none.');
  const counterparty = suggestCounterparty(fields);
  const action = suggestAction(pattern, mandate);
  const suggested = { amount: amount.value, currency: currency.value, counterparty: counterparty.value };
  const mapping = {
    ...DEFAULT_MAPPING_SOURCES,
    ...suggested,
    action_type: action.value,
    amount_unit: unit.value,
  } satisfies ToolMapping;
  const whole = { action_type: action, amount, amount_unit: unit, currency, counterparty, mapping };
  return toolMapping.safeParse(mapping).success && checkMapping(mapping, pattern).length === 0 ? whole : plain(whole);
}

/** What is left where a source cannot be saved as it is: nothing is read, and the reason says so. */
function plain(suggestion: MappingSuggestion): MappingSuggestion {
  const none = nothing('The names in this request cannot be used in a mapping.');
  const sources = { amount: 'none', currency: 'none', counterparty: 'none' } as const;
  const mapping: ToolMapping = { ...suggestion.mapping, ...sources };
  return { ...suggestion, amount: none, currency: none, counterparty: none, mapping };
}

function nothing(reason: string, confidence: Confidence = 'low'): Suggested<'none'> {
  return { value: 'none', confidence, reason };
}

/** A field that may be read, by its own name and by the one it lies in; `source` is how a mapping names it. */
interface Candidate {
  readonly field: ShapeField;
  readonly source: ValueSource;
  readonly name: string;
  readonly parent: string;
  readonly depth: number;
}

interface Best extends Candidate {
  readonly rank: number;
}

/** Names in their usual spellings, without case and separators, the best first. */
const AMOUNT_NAMES = [
  ...['amount', 'amountminor', 'amountcents', 'amountincents', 'totalamount', 'transactionamount', 'paymentamount'],
  ...['instructedamount', 'total', 'grandtotal', 'totalprice', 'price', 'sum', 'amt', 'betrag', 'value', 'cents'],
];
const CURRENCY_NAMES = ['currency', 'currencycode', 'amountcurrency', 'currencyiso', 'ccy', 'waehrung', 'währung'];
const COUNTERPARTY_NAMES = [
  ...['counterparty', 'payee', 'recipient', 'beneficiary', 'creditor', 'merchant', 'supplier', 'vendor', 'destination'],
  ...['to', 'payeeid', 'recipientid', 'beneficiaryid', 'merchantid', 'supplierid', 'vendorid', 'destinationaccount'],
  ...['creditoriban', 'creditoraccount', 'toaccount', 'iban', 'empfaenger', 'empfänger'],
];
/** What names the party inside an object that stands for it. */
const PARTY_PARTS = ['id', 'iban', 'accountnumber', 'account', 'name', 'email'];
const MINOR_NAME = /cents?$|minor|incents/;

function folded(name: string): string {
  return name.toLowerCase().replaceAll(/[^\p{L}\p{N}]/gu, '');
}

/** The fields that a mapping could name: none of a GET, none in lists, whose other elements nobody would read. */
function readable(pattern: ToolPattern, shape: RequestShape | null): Candidate[] {
  if (shape === null) return [];
  const query = shape.query.map((name): Candidate => candidate({ at: name, type: 'string' }, `query:${name}`, [name]));
  if (pattern.method === 'GET' || pattern.method === 'HEAD') return query;
  const lists = shape.fields.filter(({ type }) => type === 'array').map(({ at }) => `${at}/`);
  const own = shape.fields.filter(({ at }) => !lists.some((list) => at.startsWith(list)));
  const parts = (at: string) =>
    shape.body === 'form'
      ? at
          .slice(1)
          .split(/[[\].]+/)
          .filter(Boolean)
      : at.slice(1).split('/');
  return [...own.map((field) => candidate(field, field.at as ValueSource, parts(field.at))), ...query];
}

function candidate(field: ShapeField, source: ValueSource, parts: readonly string[]): Candidate {
  const [name, parent] = [folded(parts.at(-1) ?? ''), folded(parts.at(-2) ?? '')];
  return { field, source, name, parent, depth: parts.length };
}

/** JSON amounts must be numbers; forms and queries have nothing but text. */
function isNumeric(shape: RequestShape | null): (one: Candidate) => boolean {
  return ({ field, source }) =>
    field.type === 'integer' ||
    field.type === 'number' ||
    (field.type === 'string' && (shape?.body === 'form' || source.startsWith('query:')));
}

function bestOf(candidates: readonly Candidate[], names: readonly string[]): Best | null {
  let best: Best | null = null;
  for (const one of candidates) {
    const own = names.indexOf(one.name);
    // {"amount": {"value": 12.5, "currency": "EUR"}} is as usual as {"amount": 12.5}.
    const rank = (one.name === 'value' || one.name === 'total') && names.indexOf(one.parent) === 0 ? 0 : own;
    if (rank < 0) continue;
    if (best === null || one.depth < best.depth - 1 || (one.depth <= best.depth + 1 && rank < best.rank)) {
      best = { ...one, rank };
    }
  }
  return best;
}

function suggestAmount(pattern: ToolPattern, shape: RequestShape | null, best: Best | null): Suggested<ValueSource> {
  if (best !== null) {
    const confidence = best.rank === 0 ? 'high' : best.rank < 8 ? 'medium' : 'low';
    return { value: best.source, confidence, reason: `${best.source} is a number with the name of an amount.` };
  }
  if (pattern.method === 'GET' || pattern.method === 'HEAD' || pattern.method === 'OPTIONS') {
    return nothing(`A ${pattern.method} reads: nothing in it looks like an amount.`, 'high');
  }
  if (shape === null) return nothing('No request of this tool was seen since its form is kept.');
  if (shape.body === 'opaque')
    return nothing('The body is neither JSON nor a form, so that nothing can be read from it.');
  const asText = shape.fields.some(({ at, type }) => type === 'string' && AMOUNT_NAMES.includes(folded(at)));
  return asText && shape.body === 'json'
    ? nothing('What looks like an amount is a text; of JSON only numbers are read as amounts.')
    : nothing('No field looks like an amount: such requests would count as 0. Look whether they cost something.');
}

function suggestUnit(field: ShapeField | null): MappingSuggestion['amount_unit'] {
  if (field === null) return { value: 'major', confidence: 'high', reason: 'There is no amount.' };
  if (MINOR_NAME.test(folded(field.at))) {
    return { value: 'minor', confidence: 'high', reason: 'Its name says that it counts the smallest unit.' };
  }
  if (field.type === 'number') {
    return { value: 'major', confidence: 'high', reason: 'It may have decimals, so that it is in the main unit.' };
  }
  const reason =
    'Whole numbers may count cents: then choose minor. As major they are read a hundred times too large, which denies.';
  return { value: 'major', confidence: 'low', reason };
}

function suggestCurrency(
  fields: readonly Candidate[],
  amount: Best | null,
  { currency }: SuggestionMandate,
): Suggested<ValueSource> {
  const texts = fields.filter(({ field }) => field.type === 'string');
  const beside = texts.filter((one) => amount !== null && one.parent === amount.parent && one.depth === amount.depth);
  const best = bestOf(beside, CURRENCY_NAMES) ?? bestOf(texts, CURRENCY_NAMES);
  if (best === null) {
    const reason = `No field names a currency: every amount would be taken for ${currency}, the mandate's.`;
    return { value: `const:${currency}`, confidence: 'low', reason };
  }
  const confidence = beside.includes(texts.find(({ source }) => source === best.source)!) ? 'high' : 'medium';
  return { value: best.source, confidence, reason: `${best.source} is a text with the name of a currency.` };
}

function suggestCounterparty(fields: readonly Candidate[]): Suggested<ValueSource> {
  const texts = fields.filter(({ field }) => field.type === 'string');
  const direct = bestOf(texts, COUNTERPARTY_NAMES);
  if (direct !== null) {
    const confidence = direct.rank < 9 ? 'high' : 'medium';
    return { value: direct.source, confidence, reason: `${direct.source} has the name of who is paid.` };
  }
  const inside = texts.filter(({ parent }) => COUNTERPARTY_NAMES.includes(parent));
  const part = bestOf(inside, PARTY_PARTS);
  if (part === null) return nothing('No field looks like who the action is with.', 'medium');
  return { value: part.source, confidence: 'medium', reason: `${part.source} says who is paid.` };
}

const VERBS: Readonly<Record<string, string>> = {
  ...{ GET: 'read', HEAD: 'read', OPTIONS: 'read', QUERY: 'read', POST: 'create' },
  ...{ PUT: 'update', PATCH: 'update', DELETE: 'delete' },
};
const NOT_NOUNS = /^(?:api|rest|v\d+(?:\.\d+)*|\d{4}-\d{2}(?:-\d{2})?|services?)$/i;

/** What a request does: `POST /v1/payments` is payments.create, `POST /orders/{id}/refund` is orders.refund. */
export function actionTypeOf(pattern: ToolPattern): string {
  const parts = pattern.text.slice(pattern.text.indexOf(':/') + 2).split('/');
  const parameters = new Set(pattern.params.map(({ segment }) => segment));
  const isNoun = (part: string, at: number) =>
    part !== '' && !parameters.has(at) && !isIdentifier(part) && !NOT_NOUNS.test(part);
  const nouns = parts.flatMap((part, at) => (isNoun(part, at) ? [{ name: actionSegment(part), at }] : []));
  const named = nouns.filter(({ name }) => name !== '');
  const verb = VERBS[pattern.method] ?? 'call';
  const [first, last] = [named[0], named.at(-1)];
  if (first === undefined || last === undefined) return `requests.${verb}`;
  // A word behind an identifier says what is done to it.
  const deed = pattern.method === 'POST' && last !== first && last.at > first.at + 1;
  const type = deed ? `${named.at(-2)?.name ?? first.name}.${last.name}` : `${last.name}.${verb}`;
  return isActionType(type) ? type : `requests.${verb}`;
}

function actionSegment(part: string): string {
  const plain = part.includes('%') ? '' : part;
  return plain
    .toLowerCase()
    .replaceAll(/[^a-z0-9_-]/g, '_')
    .slice(0, 48);
}

/** Whether a path segment names one thing rather than a kind: numbers, UUIDs, hex, ids such as ord_9f3K2x. */
export function isIdentifier(part: string): boolean {
  if (/^\d+$/.test(part)) return true;
  if (/^[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}$/i.test(part) || /^[0-9a-f]{12,}$/i.test(part)) return true;
  if (/^[a-z]{1,8}_[A-Za-z0-9]{6,}$/.test(part) && /\d/.test(part)) return true;
  return (
    /^[A-Za-z0-9_-]{8,}$/.test(part) &&
    /\d/.test(part) &&
    /[A-Za-z]/.test(part) &&
    (part.match(/\d/g)?.length ?? 0) >= 3
  );
}

function suggestAction(pattern: ToolPattern, { scope }: SuggestionMandate): Suggested<string> {
  const guess = actionTypeOf(pattern);
  if (scopeCovers(scope, guess)) {
    return { value: guess, confidence: 'high', reason: "Method and path say so, and the mandate's scope covers it." };
  }
  const last = guess.slice(guess.indexOf('.') + 1);
  const exact = scope.filter((entry) => isActionType(entry));
  const alike = exact.find((entry) => entry.endsWith(`.${last}`));
  if (alike !== undefined && last !== 'read') {
    return {
      value: alike,
      confidence: 'low',
      reason: `The mandate's scope does not cover ${guess}; this is the nearest.`,
    };
  }
  const reason = `Method and path say so, but the mandate's scope does not cover it: ${scope.slice(0, 5).join(', ')}.`;
  return { value: guess, confidence: 'low', reason };
}
