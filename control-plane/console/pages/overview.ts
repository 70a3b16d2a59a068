import type { Sql } from '../../db/client.ts';
import { searchDecisions } from '../../evidence/search.ts';
import { currentSize, lastSignedTreeHead } from '../../evidence/tree-heads.ts';
import { type Fragment, type Html, html } from '../html.ts';
import { readNames } from '../names.ts';
import { barChart, columnChart } from '../parts/chart.ts';
import { codeMeaning, decisionTable, shownDecision } from '../parts/decision-parts.ts';
import { EVIDENCE_PATH } from '../parts/evidence-parts.ts';
import { money } from '../parts/money.ts';
import { wholeText } from '../parts/number.ts';
import { bar, buttonLink, card, column, facts, heading } from '../parts/page-parts.ts';
import { moment } from '../parts/time.ts';
import { type Answer, get, page, type SignedInVisit } from '../visit.ts';
import type { Spend, Tasks } from './overview-facts.ts';
import { type Figures, type Progress, readFigures, readProgress, readSpend, readTasks } from './overview-facts.ts';
import { type Latency, readLatency } from './overview-latency.ts';
import { stopNotice } from './stop.ts';

/** Decisions on the overview. */
const RECENT_SHOWN = 6;
/** Reasons on the overview. */
const CODES_SHOWN = 8;

/** The page after the sign-in. */
export const overviewPages = [get('/', overview)];

async function overview(visit: SignedInVisit): Promise<Answer> {
  const { words, deps, session } = visit;
  const { accountId } = session;
  const [progress, tasks, spend, figures, latency, recent, health] = await Promise.all([
    readProgress(deps.sql, accountId),
    readTasks(deps.sql, accountId),
    readSpend(deps.sql, accountId),
    readFigures(deps.sql, accountId),
    readLatency(deps.sql, accountId),
    recentCard(visit),
    healthCard(visit),
  ]);
  const stopLink = html`<a class="button danger" href="/console/stop">${words.stop.menu}</a>`;
  const body = column(
    heading(words.overview.title, words.overview.lead, progress.mandate ? stopLink : null),
    await stopNotice(visit),
    progress.allowed ? null : firstSteps(visit, progress),
    // Before anything was asked, the way there is all that there is to see.
    progress.seen ? whatHappened(visit, { tasks, spend, figures, latency }) : null,
    progress.seen || !anyTask(tasks) ? null : taskCard(visit, tasks),
    progress.seen ? recent : null,
    health,
  );
  return page('overview', words.overview.title, body);
}

interface Happened {
  readonly tasks: Tasks;
  readonly spend: readonly Spend[];
  readonly figures: Figures;
  readonly latency: Latency | null;
}

function whatHappened(visit: SignedInVisit, { tasks, spend, figures, latency }: Happened): Html[] {
  return [
    html`<div class="halves">${todayCard(visit, figures, latency)}${taskCard(visit, tasks)}</div>`,
    card(visit.words.overview.days, daysChart(visit, figures)),
    html`<div class="halves">${spendCard(visit, spend)}${denialCard(visit, figures)}</div>`,
  ];
}

function firstSteps({ words }: SignedInVisit, progress: Progress): Html {
  const { steps, start, startLead } = words.overview;
  const gateway = progress.instance_id === null ? '/console/gateways' : `/console/gateways/${progress.instance_id}`;
  const all = [
    [progress.mandate, steps.mandate, steps.mandateText, steps.mandateAction, '/console/mandates/new'],
    [progress.gateway, steps.gateway, steps.gatewayText, steps.gatewayAction, '/console/gateways/new'],
    [progress.seen, steps.seen, steps.seenText, steps.seenAction, gateway],
    [progress.mapped, steps.mapped, steps.mappedText, steps.mappedAction, `${gateway}/tools`],
    [progress.allowed, steps.allowed, steps.allowedText, steps.allowedAction, EVIDENCE_PATH],
  ] as const;
  const next = all.findIndex(([done]) => !done);
  const items = all.map(([done, title, text, action, path], at) => {
    // What comes later cannot be done yet: only the next step has a way to it.
    const link = done || at > next ? null : buttonLink(action, path, true);
    return html`<li class="${done ? 'done' : ''}"><div><h3>${title}</h3><p class="muted">${text}</p></div>${link}</li>`;
  });
  return card(start, html`<ol class="steps">${items}</ol>`, startLead);
}

function todayCard({ words, language }: SignedInVisit, { days, amounts }: Figures, latency: Latency | null): Html {
  const text = words.overview;
  const today = days.at(-1);
  const figures = (['allow', 'deny', 'escalate'] as const).map((decision) => {
    const sums = amounts
      .filter((one) => one.decision === decision && one.minor > 0)
      .map(({ minor, currency }) => html`<span class="small">${money(language, minor, currency)}</span>`);
    const label = words.evidence.decisions[decision];
    return html`<div><dt>${label}</dt><dd>${wholeText(language, today?.[decision] ?? 0)}${sums}</dd></div>`;
  });
  const any = today !== undefined && today.allow + today.deny + today.escalate > 0;
  const ms = (value: number) => new Intl.NumberFormat(language, { maximumFractionDigits: 0 }).format(value);
  const answers =
    latency === null ? null : text.latency(ms(latency.half), ms(latency.most), wholeText(language, latency.count));
  const shown = html`<div class="stack"><dl class="figures">${figures}</dl>${
    answers === null ? null : html`<p class="small">${answers}</p>`
  }</div>`;
  return card(text.today, shown, any ? text.todayLead : text.todayNone);
}

function anyTask({ pending, unknown, idle, unmapped, ending }: Tasks): boolean {
  return pending + unknown + idle.length + unmapped.length + ending.length > 0;
}

function taskCard({ words, language }: SignedInVisit, tasks: Tasks): Html {
  const text = words.overview;
  const count = (number: number) => wholeText(language, number);
  const task = (said: Fragment, action: string, path: string) =>
    html`<li class="task"><span>${said}</span><a class="button small" href="${path}">${action}</a></li>`;
  const { pending, unknown, idle, unmapped, ending } = tasks;
  const items = [
    ...(pending > 0
      ? [task(text.waitingText(count(pending), pending === 1), text.waitingAction, '/console/approvals')]
      : []),
    ...(unknown > 0
      ? [task(text.unknownText(count(unknown), unknown === 1), text.unknownAction, '/console/reconcile')]
      : []),
    ...idle.map(({ id, name }) => task(text.idleText(name), text.gatewayAction, `/console/gateways/${id}/tools`)),
    ...unmapped.map(({ id, name, tools }) => {
      const said = text.unmappedText(name, count(tools), tools === 1);
      return task(said, text.gatewayAction, `/console/gateways/${id}/tools`);
    }),
    ...ending.map(({ id, name, at }) => {
      const said = html`${text.endingText(name)} ${moment(language, at)}`;
      return task(said, text.endingAction, `/console/mandates/${id}`);
    }),
  ];
  if (items.length === 0) return card(text.waiting, html`<p class="muted">${text.waitingNone}</p>`);
  return card(text.waiting, html`<ul class="plain-list">${items}</ul>`);
}

function daysChart(visit: SignedInVisit, { days }: Figures): Html {
  const { words, language } = visit;
  const { decisions } = words.evidence;
  const form = new Intl.DateTimeFormat(language === 'en' ? 'en-GB' : language, {
    ...{ day: 'numeric', month: 'short', timeZone: 'UTC' },
  });
  return columnChart(visit, {
    caption: words.overview.daysCaption,
    axis: words.overview.day,
    series: [
      { label: decisions.allow, tone: 'good' },
      { label: decisions.escalate, tone: 'warn' },
      { label: decisions.deny, tone: 'bad' },
    ],
    points: days.map(({ day, allow, escalate, deny }) => {
      return { label: form.format(Date.parse(day)), values: [allow, escalate, deny] };
    }),
    format: (value) => wholeText(language, value),
  });
}

function spendCard({ words, language }: SignedInVisit, spend: readonly Spend[]): Html {
  const text = words.overview;
  if (spend.length === 0) return card(text.spend, html`<p class="muted">${text.spendNone}</p>`);
  const items = spend.map(({ mandate_id, name, currency, per_month, booked, reserved, unknown }) => {
    const amount = (minor: number) => money(language, Number(minor), currency);
    const open = Math.max(0, reserved - unknown);
    const drawn = bar(per_month, [
      { kind: 'booked', amount: booked, label: words.mandates.booked(amount(booked)) },
      { kind: 'reserved', amount: open, label: open === 0 ? '' : words.mandates.reserved(amount(open)) },
      { kind: 'unknown', amount: unknown, label: unknown === 0 ? '' : text.unknown(amount(unknown)) },
    ]);
    const used = text.spendOf(amount(booked + reserved), amount(per_month));
    return html`<li class="shared-bar"><div><a href="${`/console/mandates/${mandate_id}`}">${name}</a>
<span class="number small">${used}</span></div>${drawn}</li>`;
  });
  const more = html`<div class="actions">${buttonLink(text.allMandates, '/console/mandates')}</div>`;
  return card(text.spend, html`<ul class="plain-list">${items}</ul>${more}`, text.spendLead);
}

function denialCard({ words, language }: SignedInVisit, { codes }: Figures): Html {
  const text = words.overview;
  if (codes.length === 0) return card(text.denials, html`<p class="muted">${text.denialsNone}</p>`);
  const rows = codes.slice(0, CODES_SHOWN).map(({ code, count }) => ({
    label: html`<a href="${`${EVIDENCE_PATH}?code=${code}`}">${codeMeaning(words, code) ?? code}</a>
<code class="small muted">${code}</code>`,
    amount: count,
    text: wholeText(language, count),
  }));
  return card(text.denials, barChart(text.denialsCaption, 'bad', rows));
}

async function recentCard(visit: SignedInVisit): Promise<Html> {
  const { words, deps, session } = visit;
  const text = words.overview;
  const page = { before: null, limit: RECENT_SHOWN };
  const { decisions } = await searchDecisions(deps.sql, session.accountId, {}, page);
  if (decisions.length === 0) return card(text.recent, html`<p class="muted">${text.recentNone}</p>`);
  const shown = decisions.map(shownDecision);
  const ids = shown.map(({ mandateId }) => mandateId);
  const names = await readNames(deps.sql, session.accountId, ids);
  const all = html`<div class="actions">${buttonLink(text.recentAll, EVIDENCE_PATH)}</div>`;
  return card(text.recent, [decisionTable(visit, shown, names), all]);
}

async function healthCard({ words, language, deps, session }: SignedInVisit): Promise<Html> {
  const text = words.overview;
  const [size, head, stamped] = await Promise.all([
    currentSize(deps.sql, session.accountId),
    lastSignedTreeHead(deps.sql, session.accountId),
    lastStamp(deps.sql, session.accountId),
  ]);
  const rows: (readonly [string, Fragment])[] = [
    [text.healthEntries, wholeText(language, size)],
    [text.healthHead, head === null ? text.healthHeadNone : moment(language, Date.parse(head.at))],
    [text.healthStamp, stamped === null ? text.healthStampNone : moment(language, stamped)],
  ];
  const more = html`<div class="actions">${buttonLink(text.healthAction, `${EVIDENCE_PATH}/log`)}</div>`;
  return card(text.health, [facts(rows), more]);
}

async function lastStamp(sql: Sql, accountId: string): Promise<number | null> {
  const [row] = await sql<{ gen_time: number }[]>`
    select gen_time from timestamps where account_id = ${accountId} order by size desc limit 1`;
  return row?.gen_time ?? null;
}
