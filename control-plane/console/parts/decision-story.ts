import type { StoredEntry } from '../../../core/evidence.ts';
import type { MandateTerms } from '../../../core/mandate.ts';
import type { RecordedDecision } from '../../../core/recorded-decision.ts';
import { type Fragment, type Html, html } from '../html.ts';
import type { Names } from '../names.ts';
import type { Language, Words } from '../words.ts';
import { amountText, codeMeaning, decisionBadge } from './decision-parts.ts';
import { entryFacts, kindWords } from './entry-parts.ts';
import { EVIDENCE_PATH } from './evidence-parts.ts';
import { money } from './money.ts';
import { bar, card, facts } from './page-parts.ts';
import { moment } from './time.ts';

interface Reader {
  readonly words: Words;
  readonly language: Language;
}

type Row = readonly [name: string, value: Fragment];

const rows = (all: readonly (Row | null)[]): Row[] => all.filter((one) => one !== null);
const code = (text: string): Html => html`<code>${text}</code>`;

/** Whether nothing was read since nobody has said how. */
function isUnmapped(body: RecordedDecision): boolean {
  return body.path === 'gateway' && body.tool?.state === 'unmapped';
}

/** What was asked, by whom and through what. */
export function askedCard(
  { words, language }: Reader,
  body: RecordedDecision,
  terms: MandateTerms | null,
  names: Names,
): Html {
  const text = words.evidence;
  const { action } = body;
  const asked =
    action === null
      ? null
      : {
          type: action.type,
          amount: action.amount,
          currency: action.currency ?? null,
          counterparty: action.counterparty ?? null,
        };
  return card(
    text.asked,
    facts(
      rows([
        [text.action, asked === null ? (isUnmapped(body) ? text.unmapped : text.noAction) : code(asked.type)],
        asked === null ? null : [text.amount, amountText(language, asked, terms?.currency ?? null)],
        asked?.counterparty ? [text.counterparty, asked.counterparty] : null,
        ...(body.path === 'gateway' ? gatewayRows(words, body, names) : verifyRows(words, body, names)),
        body.ctx === undefined ? null : [text.context, code(body.ctx)],
        body.idempotency_key === undefined ? null : [text.idempotency, code(body.idempotency_key)],
      ]),
    ),
  );
}

function gatewayRows({ evidence: text }: Words, body: RecordedDecision & { path: 'gateway' }, names: Names) {
  const { request, tool, instance } = body;
  const query = request.query === '' ? '' : `?${request.query}`;
  return rows([
    [text.request, code(`${request.method} ${request.path}${query}`)],
    [text.byGateway, named(names, instance)],
    tool === undefined ? null : [text.tool, code(tool.key)],
    tool?.unreadable === undefined ? null : [text.toolUnreadable, tool.unreadable],
  ]);
}

const METHOD_MAX_CHARACTERS = 200;

function verifyRows({ evidence: text }: Words, body: RecordedDecision & { path: 'verify' }, names: Names) {
  const document = body.presentation.document as { readonly proof?: { readonly verificationMethod?: unknown } };
  const method = document?.proof?.verificationMethod;
  const signer = typeof method === 'string' ? (method.split('#')[0] ?? '').slice(0, METHOD_MAX_CHARACTERS) : null;
  return rows([
    [text.byKey, named(names, body.key)],
    signer === null ? null : [text.signedBy, code(signer)],
    body.sandbox === true ? [text.sandbox, '✓'] : null,
  ]);
}

function named(names: Names, id: string): Fragment {
  const known = names.get(id);
  if (known === undefined) return code(id);
  return known.path === null ? known.name : html`<a href="${known.path}">${known.name}</a>`;
}

/** What was decided, and why. */
export function decidedCard({ words, language }: Reader, body: RecordedDecision): Html {
  const text = words.evidence;
  const { decision, code: denied, reason_text: said, grant, escalation } = body;
  const why = {
    allow: grant === undefined ? text.allowedText : text.grantedText,
    escalate: text.escalatedText,
    deny: denied === undefined ? '' : (codeMeaning(words, denied) ?? denied),
  }[decision];
  return card(
    text.decided,
    facts(
      rows([
        [text.decidedAs, decisionBadge(words, decision)],
        [
          denied === undefined ? text.why : text.codeMeans,
          html`${why}${denied === undefined ? null : [' ', code(denied)]}`,
        ],
        said === undefined ? null : [text.said, language === 'en' ? said : html`<span lang="en">${said}</span>`],
        escalation === undefined ? null : [text.escalationUntil, moment(language, Date.parse(escalation.expires_at))],
      ]),
    ),
  );
}

/** The mandate as the decision found it; `wording` is what its terms say in plain sentences. */
export function mandateCard(
  { words }: Reader,
  body: RecordedDecision,
  stood: { readonly terms: MandateTerms | null; readonly wording: string | null },
  names: Names,
): Html {
  const { terms, wording } = stood;
  const text = words.evidence;
  const { mandate } = body;
  if (mandate === undefined) return card(text.stood, html`<p class="muted">${text.stoodNone}</p>`);
  return card(
    text.stood,
    html`${facts(
      rows([
        [text.mandate, named(names, mandate.id)],
        [words.mandates.status, words.mandates.statuses[mandate.status]],
        [words.mandates.version, text.stoodVersion(mandate.version)],
        // Uses are counted only where there is a limit for them.
        terms === null || terms.max_uses === null ? null : [text.stoodUses, String(mandate.uses)],
      ]),
    )}${wording === null ? null : html`<p class="wording">${wording}</p>`}
<p class="small muted">${text.digest}: ${code(mandate.digest)}</p>`,
  );
}

/** The month of the mandate before the decision and after it; nothing where no mandate was found. */
export function monthCard({ words, language }: Reader, body: RecordedDecision, terms: MandateTerms | null): Fragment {
  const { month, decision, action } = body;
  if (month === undefined || terms === null) return null;
  const text = words.evidence;
  const { per_month: limit, currency } = terms;
  const took = decision === 'allow' ? (action?.amount ?? 0) : 0;
  const side = (label: string, booked: number, reserved: number): Html => {
    const amount = (minor: number) => money(language, minor, currency);
    const parts = [
      { kind: 'booked', amount: booked, label: words.mandates.booked(amount(booked)) },
      { kind: 'reserved', amount: reserved, label: words.mandates.reserved(amount(reserved)) },
    ] as const;
    const used = text.monthOf(amount(booked + reserved), amount(limit));
    return html`<div class="shared-bar"><div><strong>${label}</strong><span class="number">${used}</span></div>${bar(
      limit,
      parts,
    )}</div>`;
  };
  return card(text.month(month.month.slice(0, 7)), [
    side(text.monthBefore, month.booked, month.reserved),
    side(text.monthAfter, month.booked, month.reserved + took),
  ]);
}

/** An escalation that a decision is about. */
export interface EscalationShown {
  readonly id: string;
  /** Whether the decision asked for it itself. */
  readonly own: boolean;
  /** The receipt of the decision that asked for it. */
  readonly openedBy: string | null;
  readonly answered: StoredEntry | null;
}

/** Who was asked, and what they answered. */
export function escalationCard(reader: Reader, escalations: readonly EscalationShown[]): Html {
  const text = reader.words.evidence;
  if (escalations.length === 0) return card(text.escalation, html`<p class="muted">${text.escalationNone}</p>`);
  const items = escalations.map(({ own, openedBy, answered }) => {
    const opened = own
      ? text.escalationOwn
      : openedBy === null
        ? null
        : html`${text.escalationEarlier} <a href="${`${EVIDENCE_PATH}/${openedBy}`}"><code>${openedBy}</code></a>`;
    return html`<li>${opened === null ? null : html`<p>${opened}</p>`}${
      answered === null ? html`<p>${text.escalationWaits}</p>` : answerOf(reader, answered)
    }</li>`;
  });
  return card(text.escalation, html`<ul class="plain-list">${items}</ul>`);
}

function answerOf({ words, language }: Reader, entry: StoredEntry): Html {
  const { reason } = JSON.parse(entry.body) as { readonly reason?: unknown };
  const why = typeof reason === 'string' && reason !== '' ? html` <q>${reason}</q>` : null;
  const link = html`<a href="${`${EVIDENCE_PATH}/entries/${entry.id}`}">${kindWords(words, entry.kind)}</a>`;
  return html`<p>${moment(language, Date.parse(entry.at))}: ${link}${why}</p>`;
}

/** What the rest of the page says. */
const TOLD_ALREADY = { receipt_id: null, mandate_id: null, instance: null, month: null } as const;

/** What was booked, reported and answered of it, in order. */
export function eventsCard(
  reader: Reader,
  { receiptId, decision }: { readonly receiptId: string; readonly decision: RecordedDecision['decision'] },
  events: readonly StoredEntry[],
  currency: string | null,
): Html {
  const { words, language } = reader;
  const text = words.evidence;
  if (events.length === 0) {
    return card(text.events, html`<p class="muted">${decision === 'allow' ? text.eventsNone : text.eventsDenied}</p>`);
  }
  const items = events.map((entry) => {
    const value = eventOf(entry, receiptId);
    const said = outcomeWords(words, entry.kind, value);
    const link =
      entry.kind === 'outcome'
        ? kindWords(words, entry.kind)
        : html`<a href="${`${EVIDENCE_PATH}/entries/${entry.id}`}">${kindWords(words, entry.kind)}</a>`;
    const more = entryFacts(
      reader,
      { currency, ...value, ...(said === null ? {} : { outcome: null }), ...TOLD_ALREADY },
      new Map(),
    );
    return html`<li><p>${moment(language, Date.parse(entry.at))}: ${link}</p>${
      said === null ? null : html`<p>${said}</p>`
    }<p class="small">${more}</p></li>`;
  });
  return card(text.events, html`<ol class="plain-list">${items}</ol>`);
}

type Body = Readonly<Record<string, unknown>>;

/** What an entry says of a receipt: one of outcomes holds those of a batch. */
function eventOf({ kind, body }: StoredEntry, receiptId: string): Body {
  const value = JSON.parse(body) as Body;
  const { outcomes } = value as { readonly outcomes?: readonly Body[] };
  if (kind !== 'outcome' || outcomes === undefined) return value;
  return outcomes.find((one) => one['receipt_id'] === receiptId) ?? {};
}

function outcomeWords({ evidence }: Words, kind: string, value: Body): string | null {
  const outcome = value['outcome'];
  const known = kind === 'outcome' && typeof outcome === 'string' && Object.hasOwn(evidence.outcomes, outcome);
  return known ? evidence.outcomes[outcome as keyof Words['evidence']['outcomes']] : null;
}
