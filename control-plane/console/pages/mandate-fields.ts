import { MINOR_DIGITS } from '../../../core/iso-4217.ts';
import { suggestMapping } from '../../../core/mapping-suggestion.ts';
import { requestShape } from '../../../core/request-shape.ts';
import { parseToolPattern } from '../../../core/tool-name.ts';
import type { Sql } from '../../db/client.ts';
import { type Fragment, type Html, html } from '../html.ts';
import { checkGroup, type FormState, selectField, textArea, textField } from '../parts/form-parts.ts';
import { facts } from '../parts/page-parts.ts';
import { radioGroup } from '../parts/radio-group.ts';
import type { SignedInVisit } from '../visit.ts';
import type { Language } from '../words.ts';
import { scopeEntries, TIME_ZONES } from './mandate-terms.ts';

/** Tools that a picker looks at, and what it offers of them. */
const TOOLS_MAX = 500;
const OFFERED_MAX = 60;
/** Nothing that a suggestion could lean on: there is no mandate yet. */
const NO_MANDATE = { scope: [], currency: 'EUR' } as const;

/** An action type that was found, and what it stands for. */
export interface FoundAction {
  readonly type: string;
  readonly gateway: string;
  /** The tool that would be mapped to it; null where one is. */
  readonly tool: string | null;
}

/** The action types of the tools that the account's gateways have seen: mapped ones, then what could be. */
export async function foundActions(sql: Sql, accountId: string): Promise<FoundAction[]> {
  const rows = await sql<{ name: string; pattern: string; action_type: string | null; shape: unknown }[]>`
    select i.name, t.pattern, t.mapping ->> 'action_type' as action_type, s.shape
    from tools t join gateway_instances i on i.account_id = t.account_id and i.instance_id = t.instance_id
    left join tool_sightings s on s.account_id = t.account_id and s.instance_id = t.instance_id and s.key = t.key
    where t.account_id = ${accountId} and t.state <> 'blocked'
    order by t.state = 'unmapped', i.name, t.pattern limit ${TOOLS_MAX}`;
  const found = new Map<string, FoundAction>();
  for (const { name: gateway, pattern, action_type: mapped, shape } of rows) {
    const type = mapped ?? suggestedType(pattern, shape);
    if (type === null || found.has(type)) continue;
    found.set(type, { type, gateway, tool: mapped === null ? pattern : null });
  }
  return [...found.values()].slice(0, OFFERED_MAX);
}

function suggestedType(pattern: string, shape: unknown): string | null {
  const reading = parseToolPattern(pattern);
  if (!reading.ok) return null;
  const seen = requestShape.safeParse(shape);
  return suggestMapping(reading.pattern, seen.success ? seen.data : null, NO_MANDATE).action_type.value;
}

/** Who acts. */
export function agentFields({ words: { wizard: text } }: SignedInVisit, state: FormState): Fragment {
  return [
    textField(state, 'name', { label: text.name, hint: text.nameHint, required: true, maxlength: 200 }),
    radioGroup(state, 'agent_kind', text.agentKind, [
      { value: 'custody', label: text.custody, hint: text.custodyHint },
      { value: 'own', label: text.own, hint: text.ownHint },
    ]),
    textField(state, 'agent_did', { label: text.did, hint: text.didHint, code: true, maxlength: 200 }),
  ];
}

/** What the agent may do: boxes for what was found, and a field for everything else. */
export function actionFields(visit: SignedInVisit, state: FormState, found: readonly FoundAction[]): Fragment {
  const text = visit.words.wizard;
  const offered = new Set(found.map(({ type }) => type));
  const named = scopeEntries(state.values);
  const ticks = named.filter((entry) => offered.has(entry)).map((entry): [string, string] => [`pick[${entry}]`, 'on']);
  const values = {
    ...Object.fromEntries(ticks),
    more: named.filter((entry) => !offered.has(entry)).join('\n'),
  };
  // The error of the whole scope stands where the fault was typed, or above the boxes where nothing was.
  const { scope: wrong } = state.errors;
  const shown: FormState = { values, errors: wrong === undefined ? {} : { more: wrong } };
  const boxes = found.map(({ type, gateway, tool }) => ({
    name: `pick[${type}]`,
    label: html`<code>${type}</code>`,
    hint: tool === null ? text.foundAt(gateway) : `${text.foundAt(gateway)}, ${text.suggested(tool)}`,
  }));
  return [
    found.length === 0
      ? html`<p class="muted">${text.foundNone}</p>`
      : checkGroup({ ...shown, errors: {} }, 'found', text.found, boxes),
    textArea(shown, 'more', { label: text.more, hint: text.moreHint, code: true, rows: 4 }),
    html`<details class="behind"><summary>${text.wildcards}</summary><p class="muted small">${text.wildcardsText}</p>
</details>`,
  ];
}

/** How much. `fixed`: currency and zone of a mandate that there is. */
export function limitFields(visit: SignedInVisit, state: FormState, fixed: boolean): Fragment {
  const { language, words } = visit;
  const text = words.wizard;
  const amount = (name: string, label: string, hint: string) =>
    textField(state, name, { label, hint, inputmode: 'decimal', required: name !== 'threshold', maxlength: 32 });
  return [
    html`<div class="pair">${amount('per_action', text.perAction, text.amountHint)}${amount(
      'per_month',
      text.perMonth,
      text.amountHint,
    )}</div>`,
    amount('threshold', text.threshold, text.thresholdHint),
    fixed ? fixedFields(visit, state) : unitFields(visit, state, language),
  ];
}

function fixedFields({ words: { wizard: text } }: SignedInVisit, { values }: FormState): Html {
  return html`${facts([
    [text.currency, values['currency'] ?? ''],
    [text.zone, values['time_zone'] ?? ''],
  ])}<p class="muted small">${text.fixed}</p>`;
}

function unitFields({ words: { wizard: text } }: SignedInVisit, state: FormState, language: Language): Html {
  const names = new Intl.DisplayNames(language, { type: 'currency' });
  const currencies = [...MINOR_DIGITS.keys()].sort().map((code): [string, string] => {
    const name = names.of(code);
    return [code, name === undefined || name === code ? code : `${code} – ${name}`];
  });
  const zones = [...TIME_ZONES].map((zone): [string, string] => [zone, zone]);
  return html`<div class="pair">${selectField(
    state,
    'currency',
    { label: text.currency, hint: text.currencyHint },
    currencies,
  )}${selectField(state, 'time_zone', { label: text.zone, hint: text.zoneHint }, zones)}</div>`;
}

/** With whom, until when, how often. */
export function conditionFields({ words: { wizard: text } }: SignedInVisit, state: FormState): Fragment {
  const zone = state.values['time_zone'] ?? 'UTC';
  return [
    textArea(state, 'counterparties', { label: text.counterparties, hint: text.counterpartiesHint, rows: 4 }),
    html`<div class="pair">${textField(state, 'valid_day', {
      label: text.untilDay,
      hint: text.untilDayHint(zone),
      type: 'date',
    })}${textField(state, 'valid_time', { label: text.untilTime, hint: text.untilTimeHint, maxlength: 5 })}</div>`,
    textField(state, 'max_uses', { label: text.uses, hint: text.usesHint, inputmode: 'numeric', maxlength: 10 }),
  ];
}

/** Values that a page carries along without showing them. */
export function hiddenFields(values: Readonly<Record<string, string>>, names: Iterable<string>): Html {
  const fields = [...names].flatMap((name) => {
    const value = values[name];
    return value === undefined ? [] : [html`<input type="hidden" name="${name}" value="${value}">`];
  });
  return html`${fields}`;
}

/** A button that says where the form goes on to. */
export function goButton(value: string, label: string, kind = ''): Html {
  return html`<button type="submit" class="button ${kind}" name="go" value="${value}">${label}</button>`;
}
