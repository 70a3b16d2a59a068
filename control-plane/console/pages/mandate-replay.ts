import { ProblemError } from '../../../core/errors.ts';
import { MONEY_MINOR_MAX } from '../../../core/limits.ts';
import type { MandateTerms } from '../../../core/mandate.ts';
import type { ReplayChanges } from '../../../core/replay.ts';
import { longReads } from '../../evidence/long-reads.ts';
import { replayable, replayMandate } from '../../mandates/replay.ts';
import { type Fragment, type Html, html } from '../html.ts';
import { columnChart } from '../parts/chart.ts';
import { verdictBadge } from '../parts/mandate-status.ts';
import { minorOf, money } from '../parts/money.ts';
import { card, notice, table } from '../parts/page-parts.ts';
import { moment } from '../parts/time.ts';
import type { SignedInVisit } from '../visit.ts';

/** Decisions that would change which a page names. */
const CHANGES_SHOWN = 20;
const DAY_MS = 86_400_000;

type Replayed = Awaited<ReturnType<typeof replayMandate>>;

/** What the decisions of last month (or of this one so far) would have been under new terms. */
export async function replayCard(
  visit: SignedInVisit,
  before: MandateTerms,
  after: MandateTerms,
  thisMonth: boolean,
): Promise<Html> {
  const text = visit.words.wizard.edit;
  try {
    return card(text.replayTitle, body(visit, await replayed(visit, before, after, thisMonth)));
  } catch (error) {
    if (!(error instanceof ProblemError)) throw error;
    if (error.code === 'invalid') return notice('warn', text.tooLong);
    if (error.code === 'conflict' || error.code === 'overloaded') return notice('warn', text.busy);
    throw error;
  }
}

async function replayed(
  { deps, session, reply }: SignedInVisit,
  { mandate_id: mandateId }: MandateTerms,
  after: MandateTerms,
  thisMonth: boolean,
): Promise<Replayed> {
  const { accountId } = session;
  const { scope, per_action, per_month, escalation_threshold, counterparties } = after;
  const changes: ReplayChanges = { scope, per_action, per_month, escalation_threshold, counterparties };
  const found = await replayable(deps.sql, accountId, mandateId);
  const [from, to] = thisMonth ? [found.monthBegan, found.now] : [found.lastMonthBegan, found.monthBegan];
  const read = longReads(deps).take(accountId, null);
  const gone = new AbortController();
  reply.raw.once('close', () => gone.abort());
  try {
    const asked = { accountId, mandateId, changes, from, to, changesMax: CHANGES_SHOWN };
    return await replayMandate(deps.sql, asked, found, { read, signal: gone.signal });
  } finally {
    read.end();
  }
}

function body(visit: SignedInVisit, told: Replayed): Fragment {
  const { words, language } = visit;
  const text = words.wizard.edit;
  const { from, to } = told.period;
  const period = html`<p class="muted small">${text.replayPeriod(dayName(from), dayName(to))}</p>`;
  const unreplayed = told.unreplayed === 0 ? null : notice('warn', text.unreplayed(told.unreplayed));
  if (told.decisions === 0) return [period, html`<p>${text.replayNone}</p>`, unreplayed];
  const said = told.changed === 0 ? text.replaySame(told.decisions) : text.replayChanged(told.changed, told.decisions);
  const amount = (major: number | null) =>
    major === null ? text.manyMoney : money(language, minorOf(major, told.currency), told.currency);
  const sum = text.replaySum(amount(told.allowed.recorded), amount(told.allowed.replayed));
  return [
    period,
    html`<p><strong>${said}</strong> ${sum}</p>`,
    unreplayed,
    chart(visit, told),
    told.changed === 0 ? null : [countsTable(visit, told, amount), changesTable(visit, told, amount)],
  ];
}

function chart(visit: SignedInVisit, { currency, days, period }: Replayed): Html {
  const text = visit.words.wizard.edit;
  const minor = (major: number | null) => (major === null ? MONEY_MINOR_MAX : minorOf(major, currency));
  const known = new Map(days.map((day) => [day.day, day]));
  const points = daysBetween(period.from, period.to).map((day) => {
    const { recorded = 0, replayed: would = 0 } = known.get(day) ?? {};
    return { label: day.slice(8), values: [minor(recorded), minor(would)] };
  });
  const compact = new Intl.NumberFormat(visit.language, { notation: 'compact', maximumFractionDigits: 1 });
  return columnChart(visit, {
    caption: text.replayChart(currency),
    axis: visit.words.mandates.day,
    series: [
      { label: text.replayWas, tone: 'plain' },
      { label: text.replayWould, tone: 'accent' },
    ],
    points,
    format: (value) => money(visit.language, value, currency),
    short: (value) => compact.format(value / minorOf(1, currency)),
    beside: true,
  });
}

type AmountText = (major: number | null) => string;

function countsTable({ words }: SignedInVisit, { counts }: Replayed, amount: AmountText): Html {
  const text = words.wizard.edit;
  const moved = counts.filter(({ recorded: was, replayed: would }) => {
    return was.decision !== would.decision || was.code !== would.code;
  });
  const rows = moved.map(({ recorded: was, replayed: would, count, amount: sum }) => [
    verdictBadge(words, was.decision, was.code),
    verdictBadge(words, would.decision, would.code),
    html`<span class="number">${count}</span>`,
    html`<span class="number">${amount(sum)}</span>`,
  ]);
  const columns = [
    { label: text.replayWas },
    { label: text.replayWould },
    { label: text.replayCount, kind: 'end' },
    { label: text.replayAmount, kind: 'end' },
  ] as const;
  return html`<h3>${text.replayCounts}</h3>${table(text.replayCounts, columns, rows)}`;
}

function changesTable({ words, language }: SignedInVisit, { changes }: Replayed, amount: AmountText): Html {
  const text = words.wizard.edit;
  const rows = changes.map((one) => [
    html`<a href="/console/evidence/${one.receipt_id}">${moment(language, Date.parse(one.at))}</a>`,
    html`<code class="type">${one.type ?? '–'}</code>${
      one.counterparty === null
        ? null
        : html`<br><span
class="small muted">${one.counterparty}</span>`
    }`,
    html`<span class="number">${one.amount === null ? '–' : amount(one.amount)}</span>`,
    verdictBadge(words, one.recorded.decision, one.recorded.code),
    verdictBadge(words, one.replayed.decision, one.replayed.code),
  ]);
  const { mandates } = words;
  const columns = [
    { label: mandates.when, kind: 'main' },
    { label: mandates.action },
    { label: text.replayAmount },
    { label: text.replayWas },
    { label: text.replayWould },
  ] as const;
  return html`<h3>${text.replayFirst}</h3>${table(text.replayFirst, columns, rows)}`;
}

function daysBetween(from: string, to: string): string[] {
  const [begin, end] = [Date.parse(from.slice(0, 10)), Date.parse(to)];
  const days: string[] = [];
  for (let at = begin; at < end; at += DAY_MS) days.push(new Date(at).toISOString().slice(0, 10));
  return days;
}

function dayName(at: string): string {
  return `${at.slice(0, 16).replace('T', ' ')} UTC`;
}
