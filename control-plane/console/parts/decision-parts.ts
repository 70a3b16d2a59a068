import { DECISION_KINDS, type DecisionKind } from '../../../core/decision-search.ts';
import { MONEY_MINOR_MAX } from '../../../core/limits.ts';
import { isCurrency } from '../../../core/money.ts';
import type { FoundDecision } from '../../evidence/search.ts';
import { type Fragment, type Html, html } from '../html.ts';
import type { Names } from '../names.ts';
import type { Language, Words } from '../words.ts';
import { inertText } from './inert-text.ts';
import { money } from './money.ts';
import { badge, type Tone, table } from './page-parts.ts';
import { moment } from './time.ts';

/** What of a decision's evidence a list shows; null where the entry does not say it. */
export interface ShownDecision {
  readonly receiptId: string;
  readonly atMs: number;
  readonly decision: DecisionKind | null;
  readonly code: string | null;
  readonly mandateId: string | null;
  readonly action: ShownAction | null;
  /** The kind of request, cut to what a list has room for. */
  readonly tool: string | null;
}

export interface ShownAction {
  readonly type: string;
  /** Minor units. */
  readonly amount: number | null;
  readonly currency: string | null;
  readonly counterparty: string | null;
}

/** Characters of a tool where a decision has no action: what a line can hold. */
const TOOL_SHOWN_CHARACTERS = 120;

type Body = Readonly<Record<string, unknown>>;

/** Reads what it can of an entry: one that is written otherwise is still shown. */
export function shownDecision({ id, at, body }: FoundDecision): ShownDecision {
  const value = JSON.parse(body) as Body;
  const decision = DECISION_KINDS.find((kind) => kind === value['decision']) ?? null;
  const mandate = value['mandate'] as Body | null | undefined;
  const action = value['action'] as Body | null | undefined;
  return {
    receiptId: id,
    atMs: Date.parse(at),
    decision,
    code: textOf(value['code']),
    tool: textOf((value['tool'] as Body | null | undefined)?.['key'])?.slice(0, TOOL_SHOWN_CHARACTERS) ?? null,
    mandateId: textOf(mandate?.['id']),
    action:
      action === null || action === undefined
        ? null
        : {
            type: textOf(action['type']) ?? '',
            amount: typeof action['amount'] === 'number' ? action['amount'] : null,
            currency: textOf(action['currency']),
            counterparty: textOf(action['counterparty']),
          },
  };
}

function textOf(value: unknown): string | null {
  return typeof value === 'string' ? value : null;
}

const TONES: Readonly<Record<DecisionKind, Tone>> = { allow: 'good', deny: 'bad', escalate: 'warn' };

/** The decision as a word with a colour. */
export function decisionBadge({ evidence }: Words, decision: DecisionKind | null): Html {
  return decision === null ? badge('plain', '?') : badge(TONES[decision], evidence.decisions[decision]);
}

/** An amount of an action; `other`: the mandate's currency, which counts where the request names none. */
export function amountText(language: Language, action: ShownAction | null, other: string | null): string | null {
  if (action === null || action.amount === null) return null;
  const currency = action.currency ?? other;
  const { amount } = action;
  const known = currency !== null && isCurrency(currency) && Number.isSafeInteger(amount);
  if (known && amount >= 0 && amount <= MONEY_MINOR_MAX) return money(language, amount, currency);
  // What cannot be an amount is shown as it was written.
  return `${amount} ${currency ?? ''}`.trim();
}

/** What a denial code means, for people; null for one that is not known here. */
export function codeMeaning({ denials }: Words, code: string): string | null {
  return Object.hasOwn(denials, code) ? denials[code as keyof Words['denials']] : null;
}

/** Codes whose reason says what exactly is wrong with the request, which no word of ours can. */
const REASONS_IN_DETAIL: ReadonlySet<string> = new Set(['MD-101', 'MD-502']);

/** Why something was denied: the reason where its English is the reader's language, else what the code means. */
export function denialReason({ words, language }: Told, code: string | null, reason: string): Fragment {
  const meaning = code === null || language === 'en' ? null : codeMeaning(words, code);
  const said = html`<span lang="en">${reason}</span>`;
  if (meaning === null) return language === 'en' ? reason : said;
  return REASONS_IN_DETAIL.has(code ?? '') ? html`${meaning} <span class="small muted">${said}</span>` : meaning;
}

interface Told {
  readonly words: Words;
  readonly language: Language;
}

/** A denial code with what it means; nothing where there is none. */
export function codeWords(words: Words, code: string | null): Fragment {
  if (code === null) return null;
  return html`<span class="small">${codeMeaning(words, code)} <code class="nowrap">${code}</code></span>`;
}

/** Why something was not allowed at once that was no denial. */
function whyNot(words: Words, decision: DecisionKind | null): Fragment {
  return decision === 'escalate' ? html`<span class="small">${words.mandates.aboveThreshold}</span>` : '–';
}

/** Decisions as rows; each leads to its page. */
export function decisionTable(
  { words, language }: { readonly words: Words; readonly language: Language },
  decisions: readonly ShownDecision[],
  names: Names,
): Html {
  const text = words.evidence;
  const rows = decisions.map((one) => {
    const mandate = one.mandateId === null ? undefined : names.get(one.mandateId);
    const counterparty = one.action?.counterparty ?? null;
    const unread = one.tool === null ? text.noAction : inertText(one.tool);
    return [
      html`<a href="/console/evidence/${one.receiptId}">${one.action?.type || unread}</a>${
        counterparty === null ? null : html`<br><span class="small muted">${counterparty}</span>`
      }`,
      decisionBadge(words, one.decision),
      html`<span class="number">${amountText(language, one.action, mandate?.currency ?? null) ?? '–'}</span>`,
      html`<span class="small name">${mandate?.name ?? one.mandateId ?? '–'}</span>`,
      one.code === null ? whyNot(words, one.decision) : codeWords(words, one.code),
      html`<span class="small nowrap">${moment(language, one.atMs)}</span>`,
    ];
  });
  const columns = [
    { label: text.action, kind: 'main' },
    { label: text.decision },
    { label: text.amount },
    { label: text.under },
    { label: text.why },
    { label: text.when },
  ] as const;
  return table(text.caption, columns, rows);
}
