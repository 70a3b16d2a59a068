import { MONEY_MINOR_MAX } from '../../../core/limits.ts';
import type { MandateTerms } from '../../../core/mandate.ts';
import type { Sql } from '../../db/client.ts';
import { countDays, type DayCount, type FoundDecision, searchDecisions } from '../../evidence/search.ts';
import { unknownMandate } from '../../mandates/routes.ts';
import { credentialOf } from '../../mandates/status-routes.ts';
import { type MandateRecord, readMandate } from '../../mandates/view.ts';
import { type Fragment, type Html, html } from '../html.ts';
import { columnChart } from '../parts/chart.ts';
import { denialReason } from '../parts/decision-parts.ts';
import { statusBadge, verdictBadge } from '../parts/mandate-status.ts';
import { minorOf, money } from '../parts/money.ts';
import { bar, buttonLink, card, column, crumbs, emptyState, facts, heading, table } from '../parts/page-parts.ts';
import { moment } from '../parts/time.ts';
import { idOf } from '../path-id.ts';
import { type Answer, page, type SignedInVisit } from '../visit.ts';
import type { Words } from '../words.ts';
import { stepsFrom } from './mandate-steps.ts';

const MANDATES_PATH = '/console/mandates';
/** Days of the charts, today included. */
const CHART_DAYS = 30;
const DAY_MS = 86_400_000;
/** Decisions that the page names; the rest is in the evidence. */
const DECISIONS_SHOWN = 10;
/** Counterparties that the page names; the rest is behind a summary. */
const PARTIES_SHOWN = 12;

/** What a mandate allows, what was used of it, and what can be done with it. */
export async function mandatePage(visit: SignedInVisit): Promise<Answer> {
  const { words, deps, session } = visit;
  const text = words.mandates;
  const { accountId } = session;
  const record = await readMandate(deps.sql, accountId, idOf(visit, 'mdt'));
  if (record === undefined) throw unknownMandate();
  const { mandate_id: mandateId } = record.terms;
  const [unknown, charts, decisions] = await Promise.all([
    unknownOf(deps.sql, accountId, record),
    dayCharts(visit, record),
    searchDecisions(deps.sql, accountId, { mandateId }, { before: null, limit: DECISIONS_SHOWN }),
  ]);
  const body = column(
    crumbs(text.title, MANDATES_PATH),
    heading(record.name, html`${statusBadge(words, record.status)} <code>${mandateId}</code>`, actions(visit, record)),
    card(text.usage, monthUse(visit, record, unknown)),
    decisions.decisions.length === 0 ? null : html`<div class="spread">${charts}</div>`,
    decisionsCard(visit, decisions.decisions, record),
    html`<div class="spread">${card(text.terms, termsList(visit, record))}${credentialCard(visit, record)}</div>`,
  );
  return page('mandates', record.name, body);
}

/** GET /console/mandates/<id>/credential: the credential as a file; 404 unless the mandate is active. */
export async function credentialFile(visit: SignedInVisit): Promise<Answer> {
  const { deps, session, reply } = visit;
  const record = await readMandate(deps.sql, session.accountId, idOf(visit, 'mdt'));
  if (record === undefined || record.status !== 'active') throw unknownMandate();
  const credential = await credentialOf(deps, session.accountId, record);
  await reply
    .type('application/vc+jwt')
    .header('content-disposition', `attachment; filename="${record.terms.mandate_id}.jwt"`)
    .send(credential);
  return { kind: 'sent' };
}

function actions({ words }: SignedInVisit, { terms, status }: MandateRecord): Fragment {
  const text = words.mandates;
  const own = `${MANDATES_PATH}/${terms.mandate_id}`;
  const steps = stepsFrom(status);
  if (steps.length === 0) return null;
  const links = steps.map((step) => {
    const kind = step === 'revoke' ? 'button danger' : step === 'suspend' ? 'button' : 'button primary';
    return html`<a class="${kind}" href="${own}/${step}">${text.steps[step].label}</a>`;
  });
  return [buttonLink(text.edit, `${own}/edit`), links];
}

/** What is held for actions whose outcome nobody told: a part of what is reserved this month. */
async function unknownOf(sql: Sql, accountId: string, { terms, month }: MandateRecord): Promise<number> {
  const [row] = await sql<{ amount: number }[]>`
    select coalesce(sum(amount), 0)::bigint as amount from reservations
    where account_id = ${accountId} and mandate_id = ${terms.mandate_id} and state = 'unknown'
      and month = ${month}::text::date`;
  return Number(row?.amount ?? 0);
}

function monthUse({ words, language }: SignedInVisit, record: MandateRecord, unknown: number): Html {
  const { terms, booked, reserved } = record;
  const text = words.mandates;
  const amount = (minor: number) => money(language, minor, terms.currency);
  const waiting = Math.max(0, reserved - unknown);
  const left = terms.per_month - booked - reserved;
  const parts = [
    { kind: 'booked', amount: booked, label: text.booked(amount(booked)) },
    { kind: 'reserved', amount: waiting, label: text.reserved(amount(waiting)) },
    ...(unknown === 0 ? [] : [{ kind: 'unknown', amount: unknown, label: text.unknown(amount(unknown)) } as const]),
  ] as const;
  const resets = text.resetsIn(momentIn(language, record.resets_at, terms.time_zone), terms.time_zone);
  return html`<p><strong class="number">${text.ofLimit(amount(booked + reserved), amount(terms.per_month))}</strong></p>
${bar(terms.per_month, parts)}<p>${left < 0 ? text.over(amount(-left)) : text.remaining(amount(left))}
<span class="muted small">${resets}</span></p>${
    unknown === 0 ? null : html`<p class="muted small">${text.unknownHint}</p>`
  }`;
}

/** A moment in a zone that is not the reader's: a month ends by its mandate's. */
function momentIn(language: string, ms: number, timeZone: string): string {
  const options = { dateStyle: 'medium', timeStyle: 'short', timeZone } as const;
  return new Intl.DateTimeFormat(language === 'en' ? 'en-GB' : language, options).format(ms);
}

async function dayCharts(visit: SignedInVisit, record: MandateRecord): Promise<Fragment> {
  const { words, language, deps, session } = visit;
  const text = words.mandates;
  const { mandate_id: mandateId, currency, time_zone: timeZone } = record.terms;
  const days = lastDays(record.read_at, timeZone);
  const [from = '', to = ''] = [days[0], days.at(-1)];
  const counts = await countDays(deps.sql, session.accountId, { from, to, mandateId });
  const sum = (day: string, decision: string, value: (one: DayCount) => number) =>
    counts.days.filter((one) => one.day === day && one.decision === decision).reduce((all, one) => all + value(one), 0);
  const compact = new Intl.NumberFormat(language, { notation: 'compact', maximumFractionDigits: 1 });
  const amounts = columnChart(visit, {
    caption: text.chartAllowed(currency),
    axis: text.day,
    series: [{ label: text.amount, tone: 'accent' }],
    points: days.map((day) => ({ label: dayLabel(language, day), values: [sum(day, 'allow', minorCount)] })),
    format: (value) => money(language, Math.min(value, MONEY_MINOR_MAX), currency),
    short: (value) => compact.format(value / minorOf(1, currency)),
  });
  const counted = columnChart(visit, {
    caption: text.chartCounts,
    axis: text.day,
    series: [
      { label: text.verdicts.allow, tone: 'good' },
      { label: text.verdicts.escalate, tone: 'warn' },
      { label: text.verdicts.deny, tone: 'bad' },
    ],
    points: days.map((day) => {
      const values = ['allow', 'escalate', 'deny'].map((one) => sum(day, one, ({ decisions }) => Number(decisions)));
      return { label: dayLabel(language, day), values };
    }),
    format: (value) => new Intl.NumberFormat(language).format(value),
  });
  const late = counts.uncountedFrom === null ? null : html`<p class="muted small">${text.uncounted}</p>`;
  return [html`<section class="card">${amounts}${late}</section>`, html`<section class="card">${counted}</section>`];
}

function minorCount({ amount }: DayCount): number {
  const minor = BigInt(amount);
  return minor > BigInt(MONEY_MINOR_MAX) ? MONEY_MINOR_MAX : Number(minor);
}

/** The last days of the mandate's own calendar, the oldest first. */
function lastDays(nowMs: number, timeZone: string): string[] {
  const today = new Intl.DateTimeFormat('en-CA', { timeZone, dateStyle: 'short' }).format(nowMs);
  const noon = Date.parse(`${today}T12:00:00Z`);
  return Array.from({ length: CHART_DAYS }, (_, at) => {
    return new Date(noon - (CHART_DAYS - 1 - at) * DAY_MS).toISOString().slice(0, 10);
  });
}

function dayLabel(language: string, day: string): string {
  const options = { day: 'numeric', month: 'short', timeZone: 'UTC' } as const;
  return new Intl.DateTimeFormat(language === 'en' ? 'en-GB' : language, options).format(Date.parse(day));
}

function decisionsCard(visit: SignedInVisit, decisions: readonly FoundDecision[], record: MandateRecord): Html {
  const { words, language } = visit;
  const text = words.mandates;
  if (decisions.length === 0) {
    const gateway = `/console/gateways/new?mandate=${record.terms.mandate_id}`;
    const next = record.status === 'active' ? buttonLink(words.overview.steps.gateway, gateway, true) : null;
    return emptyState(text.decisions, text.decisionsNone, next);
  }
  const rows = decisions.map(({ id, at, body }) => {
    const told = decisionOf(body);
    const link = html`<a href="/console/evidence/${id}">${moment(language, Date.parse(at))}</a>`;
    const { amount, currency } = told;
    const cost = amount === null || currency === null ? '–' : money(language, amount, currency);
    return [
      link,
      verdictBadge(words, told.decision, told.code),
      html`<code class="type">${told.type ?? '–'}</code>${
        told.counterparty === null
          ? null
          : html`<br><span
class="small muted">${told.counterparty}</span>`
      }`,
      html`<span class="number">${cost}</span>`,
      told.reason === null ? whyDecided(words, told) : denialReason(visit, told.code, told.reason),
    ];
  });
  const columns = [
    { label: text.when, kind: 'main' },
    { label: text.decision },
    { label: text.action },
    { label: text.amount },
    { label: text.why },
  ] as const;
  const all = html`<a href="${`/console/evidence?mandate=${record.terms.mandate_id}`}">${text.decisionsAll}</a>`;
  return html`<section class="stack"><h2>${text.decisions}</h2>${table(text.decisions, columns, rows)}
<p>${all}</p></section>`;
}

interface ToldDecision {
  readonly decision: string;
  readonly code: string | null;
  readonly reason: string | null;
  readonly type: string | null;
  readonly counterparty: string | null;
  readonly amount: number | null;
  readonly currency: string | null;
  /** Whether a person had approved it. */
  readonly granted: boolean;
}

/** What a decision's evidence says of itself; what agents sent stands in it as it came. */
function decisionOf(body: string): ToldDecision {
  const value = JSON.parse(body) as Readonly<Record<string, unknown>>;
  const action = (value['action'] ?? {}) as Readonly<Record<string, unknown>>;
  const text = (one: unknown) => (typeof one === 'string' ? one : null);
  const amount = action['amount'];
  const exact = typeof amount === 'number' && amount >= 0 && amount <= MONEY_MINOR_MAX;
  return {
    decision: text(value['decision']) ?? '',
    code: text(value['code']),
    reason: text(value['reason_text']),
    type: text(action['type']),
    counterparty: text(action['counterparty']),
    amount: exact ? amount : null,
    currency: text(action['currency']),
    granted: value['grant'] !== undefined,
  };
}

/** Why something was decided that has no reason of its own, since it is no denial. */
function whyDecided({ mandates: text }: Words, { decision, granted }: ToldDecision): string {
  if (decision === 'escalate') return text.aboveThreshold;
  return granted ? text.granted : text.within;
}

function credentialCard({ words }: SignedInVisit, { terms, status }: MandateRecord): Html {
  const text = words.mandates;
  const own = `${MANDATES_PATH}/${terms.mandate_id}`;
  const body =
    status === 'active'
      ? html`<p class="muted">${text.credentialLead}</p>
<div class="actions"><a class="button" href="${own}/credential" download>${text.credential}</a></div>`
      : html`<p class="muted">${text.credentialNone}</p>`;
  const versions = html`<p><a href="${own}/versions">${text.versions}</a></p>`;
  return html`<div class="stack">${card(text.versionOf(terms.version), html`${body}${versions}`)}</div>`;
}

function termsList({ words, language }: SignedInVisit, record: MandateRecord): Html {
  const text = words.mandates;
  const { terms } = record;
  const amount = (minor: number) => money(language, minor, terms.currency);
  return facts([
    [text.actions, terms.scope.map((entry) => html`<code>${entry}</code> `)],
    [text.perAction, amount(terms.per_action)],
    [text.perMonth, amount(terms.per_month)],
    [text.threshold, terms.escalation_threshold === null ? text.thresholdNone : amount(terms.escalation_threshold)],
    [text.counterparties, partiesOf(text.anyone, terms)],
    [text.agent, terms.agent_did === '' ? text.agentCustody : html`<code>${terms.agent_did}</code>`],
    [text.validUntil, terms.valid_until === null ? text.noEnd : moment(language, Date.parse(terms.valid_until))],
    [text.uses, terms.max_uses === null ? text.usesAny : text.usesOf(record.uses, terms.max_uses)],
    [text.timeZone, terms.time_zone],
    [text.created, moment(language, record.created_at)],
    [text.changed, moment(language, record.changed_at)],
  ]);
}

function partiesOf(anyone: string, { counterparties }: MandateTerms): Fragment {
  if (counterparties.length === 0) return anyone;
  const [shown, rest] = [counterparties.slice(0, PARTIES_SHOWN), counterparties.slice(PARTIES_SHOWN)];
  const more =
    rest.length === 0
      ? null
      : html`<details class="behind"><summary>+ ${rest.length}</summary>${rest.join(', ')}
</details>`;
  return html`${shown.join(', ')}${more}`;
}
