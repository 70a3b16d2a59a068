import type { MappingSuggestion } from '../../../core/mapping-suggestion.ts';
import type { RequestShape } from '../../../core/request-shape.ts';
import type { ToolMapping, ValueSource } from '../../../core/tool-mapping.ts';
import type { ToolPattern } from '../../../core/tool-name.ts';
import { type Html, html } from '../html.ts';
import type { Words } from '../words.ts';

/** Characters of a name in a list; the page of the tool has it whole. */
const NAME_SHOWN_CHARACTERS = 96;
/** Fields of a shape that are listed: the page stays small whatever was sent. */
const FIELDS_SHOWN = 20;
const FIELD_SHOWN_CHARACTERS = 64;

// Controls, bidirectional marks, and what takes no room: they make a name look like another one.
const HIDDEN = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Co}\p{Cn}]/gu;

/** Foreign text with what cannot be seen written out (`⟨U+202E⟩`). */
export function shown(text: string): string {
  const code = (character: string) => (character.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, '0');
  return text.toWellFormed().replaceAll(HIDDEN, (character) => `⟨U+${code(character)}⟩`);
}

/** A tool's name in a list: its beginning and its end where it is long. */
export function toolLabel(name: string): Html {
  const text = shown(name);
  const half = NAME_SHOWN_CHARACTERS / 2;
  const short = text.length <= NAME_SHOWN_CHARACTERS ? text : `${text.slice(0, half)}…${text.slice(-half)}`;
  return html`<code class="tool" dir="ltr">${short}</code>`;
}

/** Lines with a button that copies them; `id` is unique on its page. */
export function copied(id: string, text: string, words: Words['shell']): Html {
  return html`<div class="stack"><pre id="${id}" tabindex="0" role="group" aria-label="${words.copy}">${text}</pre>
<div class="actions"><button type="button" class="button small" data-needs-script data-copy="${id}" data-copied="${
    words.copied
  }">${words.copy}</button></div></div>`;
}

/** What was seen of a tool's requests: names and types, behind a line that says how many. */
export function shapeDetails({ tools: text }: Words, shape: RequestShape | null): Html {
  if (shape === null) return html`<span class="muted small">${text.shapeNone}</span>`;
  if (shape.body === 'opaque') return html`<span class="muted small">${text.shapeOpaque}</span>`;
  const count = shape.fields.length + shape.query.length;
  if (count === 0) return html`<span class="muted small">${text.shapeEmpty}</span>`;
  const item = (name: string, type: string) => {
    const label = name.length > FIELD_SHOWN_CHARACTERS ? `${name.slice(0, FIELD_SHOWN_CHARACTERS)}…` : name;
    return html`<li><code dir="ltr">${shown(label)}</code> ${type}</li>`;
  };
  const all = [
    ...shape.fields.map(({ at, type }) => item(at, text.types[type])),
    ...shape.query.map((name) => item(name, text.inQuery)),
  ];
  const more = shape.more || all.length > FIELDS_SHOWN ? html`<li class="muted">${text.shapeMore}</li>` : null;
  return html`<details class="small"><summary>${text.shapeFields(count)}</summary><ul class="seen">${all.slice(
    0,
    FIELDS_SHOWN,
  )}${more}</ul></details>`;
}

/** Where a value comes from, in words. */
export function placeWords({ tools: { places } }: Words, source: ValueSource): string {
  if (source === 'none') return places.none;
  if (source.startsWith('/')) return places.body(shown(source));
  const colon = source.indexOf(':');
  const name = shown(source.slice(colon + 1));
  const kind = source.slice(0, colon);
  return kind === 'query' ? places.query(name) : kind === 'path' ? places.path(name) : places.const(name);
}

/** A mapping in sentences. */
export function mappingWords(words: Words, mapping: ToolMapping): string {
  const { tools: text } = words;
  const { action_type: action, amount, amount_unit: unit, currency, counterparty } = mapping;
  const party = counterparty === 'none' ? text.partyNone : text.partyIs(placeWords(words, counterparty));
  if (amount === 'none') return counterparty === 'none' ? text.free(action) : `${text.free(action)} ${party}`;
  const paid = text.paid(action, placeWords(words, amount), text.units[unit]);
  return `${paid} ${text.currencyIs(placeWords(words, currency))} ${party}`;
}

/** Why a mapping is suggested, part by part: the reasons of core/mapping-suggestion.ts in the reader's language. */
export function suggestionReasons(
  { tools: { reasons } }: Words,
  suggestion: MappingSuggestion,
  {
    pattern,
    shape,
    covered,
  }: { readonly pattern: ToolPattern; readonly shape: RequestShape | null; readonly covered: boolean },
) {
  const { action_type: action, amount, amount_unit: unit, currency, counterparty } = suggestion;
  const free = amount.value === 'none';
  const doubtful = unit.confidence === 'low' ? reasons.unitUnsure : reasons.unitDecimals;
  return {
    action: !covered
      ? reasons.actionOutside
      : action.confidence === 'low'
        ? reasons.actionNearest
        : reasons.actionCovered,
    amount: free
      ? noAmount(reasons, pattern, shape)
      : amount.confidence === 'high'
        ? reasons.amountUsual
        : reasons.amountLikely,
    unit: free ? reasons.unitNone : unit.value === 'minor' ? reasons.unitMinor : doubtful,
    currency: free
      ? reasons.currencyNone
      : currency.value.startsWith('const:')
        ? reasons.currencyMandate
        : reasons.currencyNamed,
    party: counterparty.value === 'none' ? reasons.partyNone : reasons.partyNamed,
  };
}

function noAmount(reasons: Words['tools']['reasons'], { method }: ToolPattern, shape: RequestShape | null): string {
  if (method === 'GET' || method === 'HEAD' || method === 'OPTIONS') return reasons.amountReads;
  if (shape === null) return reasons.amountUnseen;
  return shape.body === 'opaque' ? reasons.amountOpaque : reasons.amountMissing;
}
