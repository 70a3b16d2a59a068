import { MONEY_MINOR_MAX } from '../../../core/limits.ts';
import { isCurrency } from '../../../core/money.ts';
import { type Fragment, type Html, html } from '../html.ts';
import type { Names } from '../names.ts';
import type { Language, Words } from '../words.ts';
import { money } from './money.ts';
import { moment } from './time.ts';

type Body = Readonly<Record<string, unknown>>;

interface Reader {
  readonly words: Words;
  readonly language: Language;
}

/** Characters of one value that a list shows; the entry itself has all of them. */
const VALUE_MAX_CHARACTERS = 200;
const AMOUNTS: ReadonlySet<string> = new Set(['amount', 'final_amount', 'executed_amount', 'released']);
const TIMES: ReadonlySet<string> = new Set(['valid_until', 'locked_until', 'closes_at']);

/** What happened, in words; an entry of a kind that is not known here is called by its kind. */
export function kindWords({ entries }: Words, kind: string): string {
  return Object.hasOwn(entries.kinds, kind) ? entries.kinds[kind as keyof Words['entries']['kinds']] : kind;
}

/** Who did what an entry of this kind is about. */
export function actorWords({ entries: { actors } }: Words, kind: string, body: Body): string {
  if (/\.(?:expired|consumed|lapsed)$/.test(kind)) return actors.service;
  if (/^(?:consumption|execution|tool\.discovered|outcome$)/.test(kind)) return actors.software;
  if (kind === 'webhook.disabled' && body['cause'] !== 'person') return actors.service;
  if (kind === 'session.refused') return actors.unknown;
  const by = body['exported_by'];
  if (typeof by === 'string' && by.startsWith('key_')) return actors.software;
  return actors.person;
}

/** What an entry says besides its kind: the members that people read, each with its name. */
export function entryFacts(visit: Reader, body: Body, names: Names): Html | null {
  const { members } = visit.words.entries;
  const parts = Object.entries(members).flatMap(([name, label]) => {
    const shown = memberValue(visit, name, body, names);
    return shown === null ? [] : [html`<span class="muted">${label}:</span> ${shown}`];
  });
  return parts.length === 0 ? null : html`${parts.map((part, at) => (at === 0 ? part : html` · ${part}`))}`;
}

function memberValue({ words, language }: Reader, name: string, body: Body, names: Names): Fragment {
  const value = body[name];
  if (typeof value === 'number') return numberText(language, name, value, body);
  if (typeof value !== 'string' || value === '') return null;
  if (TIMES.has(name) && !Number.isNaN(Date.parse(value))) return moment(language, Date.parse(value));
  if (/^rcp_[0-9a-z]{26}$/.test(value)) return html`<a href="/console/evidence/${value}"><code>${value}</code></a>`;
  const own = ownWord(words, name, value, body);
  if (own !== null) return own;
  const known = names.get(value);
  if (known !== undefined) return known.path === null ? known.name : html`<a href="${known.path}">${known.name}</a>`;
  return value.length > VALUE_MAX_CHARACTERS ? `${value.slice(0, VALUE_MAX_CHARACTERS)}…` : value;
}

/** A word of the service's own, in the reader's language. */
function ownWord({ entries: { values } }: Words, name: string, value: string, body: Body): string | null {
  if (!Object.hasOwn(values, name)) return null;
  // Only sessions have reasons of the service's own; any other is what a person wrote.
  if (name === 'reason' && body['session_id'] === undefined && body['place'] === undefined) return null;
  const all: Readonly<Record<string, string>> = values[name as keyof typeof values];
  return Object.hasOwn(all, value) ? (all[value] ?? null) : null;
}

function numberText(language: Language, name: string, value: number, body: Body): string {
  const currency = body['currency'];
  const isMoney = AMOUNTS.has(name) && Number.isSafeInteger(value) && value >= 0 && value <= MONEY_MINOR_MAX;
  return isMoney && typeof currency === 'string' && isCurrency(currency)
    ? money(language, value, currency)
    : String(value);
}

/** The identifiers in an entry that may have names. */
export function idsOf(body: Body): string[] {
  return ['mandate_id', 'instance', 'instance_id', 'key_id', 'exported_by'].flatMap((name) => {
    const value = body[name];
    return typeof value === 'string' ? [value] : [];
  });
}
