import { ProblemError } from '../../../core/errors.ts';
import { type MandateRecord, readMandates } from '../../mandates/view.ts';
import { type Html, html } from '../html.ts';
import { money } from '../parts/money.ts';
import {
  badge,
  bar,
  buttonLink,
  card,
  column,
  crumbs,
  emptyState,
  facts,
  heading,
  type Tone,
  table,
} from '../parts/page-parts.ts';
import { moment } from '../parts/time.ts';
import { idOf } from '../path-id.ts';
import { type Answer, get, page, type SignedInVisit } from '../visit.ts';
import type { Language, Words } from '../words.ts';

const MANDATES_PATH = '/console/mandates';

/** Mandates: the list, and what one of them allows. */
export const mandatePages = [get('/mandates', list), get('/mandates/:id', one)];

type Status = keyof Words['mandates']['statuses'];
const TONES: Readonly<Record<Status, Tone>> = {
  draft: 'info',
  active: 'good',
  suspended: 'warn',
  revoked: 'bad',
  expired: 'plain',
  consumed: 'plain',
};

async function list(visit: SignedInVisit): Promise<Answer> {
  const { words, deps, session } = visit;
  const text = words.mandates;
  const records = await readMandates(deps.sql, session.accountId, null);
  const create = buttonLink(text.create, `${MANDATES_PATH}/new`, true);
  const body =
    records.length === 0
      ? column(heading(text.title, text.lead), emptyState(text.emptyTitle, text.emptyText, create))
      : column(heading(text.title, text.lead, create), mandatesTable(visit, records));
  return page('mandates', text.title, body);
}

function mandatesTable({ words, language }: SignedInVisit, records: readonly MandateRecord[]): Html {
  const text = words.mandates;
  const rows = records.map((record) => {
    const { terms } = record;
    const limit = money(language, terms.per_month, terms.currency);
    const used = money(language, record.booked + record.reserved, terms.currency);
    return [
      html`<a href="${MANDATES_PATH}/${terms.mandate_id}">${record.name}</a>`,
      statusBadge(words, record.status),
      html`<span class="small">${terms.scope.slice(0, 3).join(', ')}${terms.scope.length > 3 ? ', …' : null}</span>`,
      html`<span class="number">${money(language, terms.per_action, terms.currency)}</span>`,
      html`${usageBar(words, language, record, false)}<span class="small">${text.ofLimit(used, limit)}</span>`,
    ];
  });
  const columns = [
    { label: text.name, kind: 'main' },
    { label: text.status },
    { label: text.actions },
    { label: text.perAction },
    { label: text.month },
  ] as const;
  return table(text.title, columns, rows);
}

async function one(visit: SignedInVisit): Promise<Answer> {
  const { words, deps, session, language } = visit;
  const text = words.mandates;
  const [record] = await readMandates(deps.sql, session.accountId, idOf(visit, 'mdt'));
  if (record === undefined) throw new ProblemError('not_found', 'There is no such mandate.');
  const body = column(
    crumbs(text.title, MANDATES_PATH),
    heading(record.name, html`${statusBadge(words, record.status)} <code>${record.terms.mandate_id}</code>`),
    card(
      text.usage,
      html`${usageBar(words, language, record, true)}<p class="muted small">${text.resets}: ${moment(
        language,
        record.resets_at,
      )}</p>`,
    ),
    card(text.terms, termsList(visit, record)),
  );
  return page('mandates', record.name, body);
}

function termsList({ words, language }: SignedInVisit, record: MandateRecord): Html {
  const text = words.mandates;
  const { terms } = record;
  const amount = (minor: number) => money(language, minor, terms.currency);
  const parties = terms.counterparties.length === 0 ? text.anyone : terms.counterparties.join(', ');
  return facts([
    [text.actions, terms.scope.map((entry) => html`<code>${entry}</code> `)],
    [text.perAction, amount(terms.per_action)],
    [text.perMonth, amount(terms.per_month)],
    [text.threshold, terms.escalation_threshold === null ? text.thresholdNone : amount(terms.escalation_threshold)],
    [text.counterparties, parties],
    [text.agent, terms.agent_did === '' ? text.agentCustody : html`<code>${terms.agent_did}</code>`],
    [text.validUntil, terms.valid_until === null ? text.noEnd : moment(language, Date.parse(terms.valid_until))],
    [text.uses, terms.max_uses === null ? String(record.uses) : text.usesOf(record.uses, terms.max_uses)],
    [text.timeZone, terms.time_zone],
    [text.version, String(terms.version)],
    [text.created, moment(language, record.created_at)],
    [text.changed, moment(language, record.changed_at)],
  ]);
}

/** The month of a mandate as a bar against its limit. */
function usageBar(words: Words, language: Language, record: MandateRecord, legend: boolean): Html {
  const { terms, booked, reserved } = record;
  const text = words.mandates;
  const amount = (minor: number) => money(language, minor, terms.currency);
  const left = Math.max(0, terms.per_month - booked - reserved);
  const drawn = bar(terms.per_month, [
    { kind: 'booked', amount: booked, label: legend ? text.booked(amount(booked)) : '' },
    { kind: 'reserved', amount: reserved, label: legend ? text.reserved(amount(reserved)) : '' },
  ]);
  return legend ? html`${drawn}<p>${text.remaining(amount(left))}</p>` : drawn;
}

function statusBadge({ mandates }: Words, status: string): Html {
  const known = Object.hasOwn(TONES, status) ? (status as Status) : null;
  return known === null ? badge('plain', status) : badge(TONES[known], mandates.statuses[known]);
}
