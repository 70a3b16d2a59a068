import { isActionType, scopeCovers } from '../../../core/action.ts';
import { actionTypeOf } from '../../../core/mapping-suggestion.ts';
import { AMOUNT_UNITS } from '../../../core/money.ts';
import type { RequestShape } from '../../../core/request-shape.ts';
import { CURRENCY_NOTATIONS, type ToolMapping } from '../../../core/tool-mapping.ts';
import type { ToolPattern } from '../../../core/tool-name.ts';
import { type Html, html } from '../html.ts';
import type { Words } from '../words.ts';
import { check, type FormState, selectField, textField } from './form-parts.ts';
import { shown } from './inert-text.ts';

/** What is chosen where the value is written by hand. */
const OTHER = 'other';
/** Choices of one list: a shape has 64 fields and 32 parameters at most. */
const CHOICES_MAX = 120;
/** Characters of a place in a list; who needs a longer one writes it by hand. */
const PLACE_MAX_CHARACTERS = 128;
const SOURCES = ['amount', 'currency', 'counterparty'] as const;
const VERBS = ['create', 'read', 'update', 'delete'] as const;

type Choice = readonly [value: string, label: string];

/** What the fields of a mapping are chosen from. */
export interface MappingChoices {
  readonly scope: readonly string[];
  readonly currency: string;
  readonly pattern: ToolPattern | null;
  readonly shape: RequestShape | null;
}

/** A mapping as the fields of its form have it. */
export function mappingValues(mapping: ToolMapping): Record<string, string> {
  const { counterparty_optional: optional, body_limit_bytes: limit, ...texts } = mapping;
  return { ...texts, body_limit_bytes: String(limit), ...(optional ? { counterparty_optional: 'on' } : {}) };
}

/** What the fields of a form say, as the admin API would be told it. */
export function mappingSaid(values: Readonly<Record<string, string>>): Record<string, unknown> {
  const chosen = (name: string) => {
    const value = values[name] ?? '';
    return value === OTHER ? (values[`${name}_other`] ?? '').trim() : value;
  };
  const limit = values['body_limit_bytes'] ?? '';
  return {
    action_type: chosen('action_type'),
    ...Object.fromEntries(SOURCES.map((name) => [name, chosen(name)])),
    ...(values['amount_unit'] === undefined ? {} : { amount_unit: values['amount_unit'] }),
    ...(values['currency_notation'] === undefined ? {} : { currency_notation: values['currency_notation'] }),
    counterparty_optional: values['counterparty_optional'] === 'on',
    ...(limit === '' ? {} : { body_limit_bytes: /^\d{1,9}$/.test(limit) ? Number(limit) : Number.NaN }),
  };
}

/** The fields of a mapping: lists fed by what was seen and what the mandate covers, and by hand what is not in them. */
export function mappingFields({ tools: text }: Words, given: FormState, choices: MappingChoices): Html {
  const state = withErrorsByHand(given);
  const actions = actionChoices(choices, text.other);
  const places = sourceChoices(text, choices);
  const pick = (name: string, label: string, list: readonly Choice[], hint?: string) =>
    selectField(state, name, { label, ...(hint === undefined ? {} : { hint }) }, withCurrent(state, name, list));
  const last = [OTHER, text.other] as const;
  const unsaid: Choice[] = state.values['amount'] === '' ? [['', '…']] : [];
  const amounts = [...unsaid, ['none', text.amountNone] as const, ...places, last];
  const currencies = [
    ['none', text.currencyNone],
    [`const:${choices.currency}`, text.places.const(choices.currency)],
    ...places,
    last,
  ] as const;
  const scope = choices.scope.slice(0, 12).join(', ') + (choices.scope.length > 12 ? ', …' : '');
  return html`${pick('action_type', text.action, actions, text.actionHint(scope))}
<div class="pair">${pick('amount', text.amount, amounts, text.amountHint)}
${pick(
  'amount_unit',
  text.amountUnit,
  AMOUNT_UNITS.map((unit) => [unit, text.unitChoices[unit]] as const),
)}</div>
<div class="pair">${pick('currency', text.currency, currencies)}
${pick(
  'currency_notation',
  text.currencyNotation,
  CURRENCY_NOTATIONS.map((one) => [one, text.notationChoices[one]] as const),
)}</div>
${pick('counterparty', text.party, [['none', text.partyNobody], ...places, last])}
${check(state, { name: 'counterparty_optional', label: text.partyOptional, hint: text.partyOptionalHint })}
${byHand(text, state)}`;
}

function byHand(text: Words['tools'], state: FormState): Html {
  const open = ['action_type', ...SOURCES].some((name) => state.values[name] === OTHER);
  const field = (name: string, label: string, maxlength = 512) =>
    textField(state, name, { label, code: true, maxlength });
  const inner = html`<p class="hint muted small">${text.otherHint}</p>
<div class="pair">${field('action_type_other', text.actionOther, 128)}${field('amount_other', text.amountOther)}
${field('currency_other', text.currencyOther)}${field('counterparty_other', text.partyOther)}
${textField(state, 'body_limit_bytes', { label: text.bodyLimit, inputmode: 'numeric', maxlength: 9 })}</div>`;
  const wrong = [...SOURCES, 'action_type'].some((name) => state.errors[`${name}_other`] !== undefined);
  return open || wrong || state.errors['body_limit_bytes'] !== undefined
    ? html`<details class="more" open><summary>${text.otherLegend}</summary><div class="stack">${inner}</div></details>`
    : html`<details class="more"><summary>${text.otherLegend}</summary><div class="stack">${inner}</div></details>`;
}

/** An error of what was written by hand stands beside where it was written. */
function withErrorsByHand({ values, errors }: FormState): FormState {
  const moved = Object.entries(errors).map(([name, message]) => {
    return [values[name] === OTHER ? `${name}_other` : name, message] as const;
  });
  return { values, errors: Object.fromEntries(moved) };
}

/** A list with what the form holds in it, even where it was never seen. */
function withCurrent(state: FormState, name: string, list: readonly Choice[]): readonly Choice[] {
  const current = state.values[name];
  if (current === undefined || current === '' || list.some(([value]) => value === current)) return list;
  return [[current, shown(current)], ...list];
}

/** What the mandate covers: its own entries, and for a wildcard what method and path suggest below it. */
function actionChoices({ scope, pattern }: MappingChoices, other: string): readonly Choice[] {
  const guess = pattern === null ? 'requests.call' : actionTypeOf(pattern);
  const last = guess.slice(guess.indexOf('.') + 1);
  const below = scope.flatMap((entry) => {
    if (!entry.endsWith('.*')) return [entry];
    const prefix = entry.slice(0, -1);
    return [...new Set([last, ...VERBS])].map((verb) => `${prefix}${verb}`);
  });
  const covered = [guess, ...below].filter((type) => isActionType(type) && scopeCovers(scope, type));
  const types = [...new Set(covered)].slice(0, CHOICES_MAX);
  return [['', '…'], ...types.map((type) => [type, type] as const), [OTHER, other]];
}

/** Where a value could stand: what was seen of the body (none of a GET is read), the address, the path. */
function sourceChoices(text: Words['tools'], { pattern, shape }: MappingChoices): readonly Choice[] {
  const bodyless = pattern?.method === 'GET' || pattern?.method === 'HEAD';
  const fields = bodyless ? [] : (shape?.fields ?? []).filter(({ type }) => type !== 'object' && type !== 'array');
  const params = pattern?.params ?? [];
  return [
    ...fields.map(({ at, type }) => [at, `${shown(at)} (${text.types[type]})`] as const),
    ...(shape?.query ?? []).map((name) => [`query:${name}`, text.places.query(shown(name))] as const),
    ...params.map(({ name }) => [`path:${name}`, text.places.path(name)] as const),
  ]
    .filter(([place]) => place.length <= PLACE_MAX_CHARACTERS)
    .slice(0, CHOICES_MAX);
}
