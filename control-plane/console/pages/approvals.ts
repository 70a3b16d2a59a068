import { hash } from 'node:crypto';
import { ProblemError } from '../../../core/errors.ts';
import { isTypeId } from '../../../core/type-id.ts';
import { type EscalationRecord, readEscalation, readEscalations } from '../../escalations/store.ts';
import { sendEvents } from '../events.ts';
import { attributes, type Fragment, type Html, html } from '../html.ts';
import { inertText } from '../parts/inert-text.ts';
import { badge, buttonLink, column, emptyState, heading, pager, type Tone, table } from '../parts/page-parts.ts';
import { moment } from '../parts/time.ts';
import { idOf } from '../path-id.ts';
import { APPROVALS_PATH } from '../paths.ts';
import { readPendingIds } from '../pending-watch.ts';
import { type Answer, get, page, post, type SignedInVisit } from '../visit.ts';
import { answer } from './approval-answer.ts';
import { amountOf, cardPage, countDown, decider, existing, reloadHint, sentence } from './approval-card.ts';

/** Pending escalations that one page shows; a mandate has 20 at most, and who has more answers these first. */
const PENDING_SHOWN_MAX = 50;
const HISTORY_PAGE = 30;
/** How often a browser without scripts looks again, in seconds: ten minutes are all there is. */
const REFRESH_SECONDS = 20;

const FILTERS = ['past', 'approved', 'used', 'rejected', 'expired'] as const;
type Filter = (typeof FILTERS)[number];

/** Escalations: what waits, what was answered, the card of one, and its answer. */
export const approvalPages = [
  get('/approvals', list),
  get('/approvals/events', listEvents),
  get('/approvals/:id', async (visit) => cardPage(visit, await existing(visit, idOf(visit, 'esc')))),
  post('/approvals/:id', answer),
  get('/approvals/:id/events', cardEvents),
  get('/approvals/:id/body', wholeBody),
];

async function list(visit: SignedInVisit): Promise<Answer> {
  const { words, deps, session } = visit;
  const text = words.approvals;
  const { filter, before } = historyWanted(visit);
  // Read first: what changes meanwhile has the page loaded once too often, and never once too little.
  const seen = fingerprint((await readPendingIds(deps.sql, [session.accountId])).get(session.accountId) ?? []);
  const [pending, past] = await Promise.all([
    readEscalations(deps.sql, session.accountId, { status: 'pending', limit: PENDING_SHOWN_MAX, bodies: false }),
    readEscalations(deps.sql, session.accountId, {
      ...{ status: filter, limit: HISTORY_PAGE + 1, bodies: false },
      ...(before === undefined ? {} : { before }),
    }),
  ]);
  // The first to end comes first.
  const waiting = pending.toSorted((a, b) => a.expiresAtMs - b.expiresAtMs).map((one) => waitingCard(visit, one));
  const body = html`<div data-live="${`${APPROVALS_PATH}/events?seen=${seen}`}">${column(
    heading(text.title, text.lead),
    waiting.length === 0
      ? emptyState(text.noneTitle, text.noneText)
      : html`<section class="stack" aria-label="${text.pendingTitle}">${waiting}</section>`,
    reloadHint(visit, APPROVALS_PATH),
    history(visit, filter, past, before !== undefined),
  )}</div>`;
  return page('approvals', text.title, body, { refreshSeconds: REFRESH_SECONDS });
}

function waitingCard(visit: SignedInVisit, record: EscalationRecord): Html {
  const text = visit.words.approvals;
  const path = `${APPROVALS_PATH}/${record.id}`;
  return html`<article class="card waiting-card"><p class="state">${badge('warn', text.statuses.pending)}${countDown(
    visit,
    record,
  )}</p><h2><a href="${path}">${headline(visit, record)}</a></h2><p>${sentence(visit, record)}</p>
<p class="muted small">${text.mandate}: ${inertText(record.mandateName)}</p>
<div class="actions">${buttonLink(text.look, path, true)}</div></article>`;
}

/** The amount and with whom: what it is about. */
function headline(visit: SignedInVisit, record: EscalationRecord): Fragment {
  const { counterparty } = record.action;
  const { to } = visit.words.approvals;
  const amount = html`<span class="number">${amountOf(visit, record)}</span>`;
  return counterparty === null ? amount : html`${amount} ${to} ${inertText(counterparty)}`;
}

function historyWanted({ request }: SignedInVisit): { filter: Filter; before: string | undefined } {
  const { status, before } = request.query as { readonly status?: unknown; readonly before?: unknown };
  const filter = FILTERS.find((one) => one === status) ?? 'past';
  return { filter, before: isTypeId(before, 'esc') ? before : undefined };
}

function history(visit: SignedInVisit, filter: Filter, found: readonly EscalationRecord[], later: boolean): Html {
  const text = visit.words.approvals;
  const shown = found.slice(0, HISTORY_PAGE);
  const address = (before: string | null) =>
    `${APPROVALS_PATH}?status=${filter}${before === null ? '' : `&before=${before}`}`;
  const choices = FILTERS.map((one) => {
    const given = { href: `${APPROVALS_PATH}?status=${one}`, 'aria-current': one === filter ? 'true' : null };
    return html`<a class="button small" ${attributes(given)}>${text.filters[one]}</a>`;
  });
  const last = shown.at(-1);
  const more = found.length > HISTORY_PAGE && last !== undefined;
  return html`<section class="stack"><h2>${text.historyTitle}</h2>
<nav class="choices" aria-label="${text.filter}">${choices}</nav>
${shown.length === 0 ? html`<p class="muted">${text.historyNone}</p>` : historyTable(visit, shown)}
${pager(
  later ? { label: text.newest, path: address(null) } : null,
  more ? { label: text.older, path: address(last.id) } : null,
)}</section>`;
}

const TONES: Readonly<Record<EscalationRecord['status'], Tone>> = {
  pending: 'warn',
  approved: 'good',
  used: 'good',
  rejected: 'bad',
  expired: 'plain',
};

function historyTable(visit: SignedInVisit, found: readonly EscalationRecord[]): Html {
  const { words, language } = visit;
  const text = words.approvals;
  const rows = found.map((record) => [
    html`<a href="${APPROVALS_PATH}/${record.id}">${headline(visit, record)}</a>`,
    html`<code class="small">${inertText(record.action.type)}</code>`,
    inertText(record.mandateName),
    badge(TONES[record.status], text.statuses[record.status]),
    record.decidedBy === null ? text.nobody : decider(visit, record),
    moment(language, record.decidedAtMs ?? record.expiresAtMs),
  ]);
  const columns = [
    { label: text.what, kind: 'main' },
    { label: text.action },
    { label: text.mandate },
    { label: text.status },
    { label: text.answeredBy },
    { label: text.when },
  ] as const;
  return table(text.historyTitle, columns, rows);
}

/** A short name for which escalations a page showed as waiting. */
function fingerprint(ids: readonly string[]): string {
  return hash('sha256', ids.join(), 'hex').slice(0, 16);
}

async function listEvents(visit: SignedInVisit): Promise<Answer> {
  let { seen } = visit.request.query as { readonly seen?: unknown };
  return sendEvents(visit, (send) =>
    visit.deps.pending.watch(visit.session.accountId, (ids) => {
      const now = fingerprint(ids);
      if (now === seen) return;
      seen = now;
      send('changed', { pending: ids.length });
    }),
  );
}

async function cardEvents(visit: SignedInVisit): Promise<Answer> {
  const { id } = await existing(visit, idOf(visit, 'esc'));
  let told = false;
  return sendEvents(visit, (send) =>
    visit.deps.pending.watch(visit.session.accountId, (ids) => {
      if (told || ids.includes(id)) return;
      told = true;
      send('changed', {});
    }),
  );
}

/** The body as the gateway got it, for a person to read or keep; browsers neither render nor run it. */
async function wholeBody(visit: SignedInVisit): Promise<Answer> {
  const record = await readEscalation(visit.deps.sql, visit.session.accountId, idOf(visit, 'esc'));
  if (record === null || record.requestBody === null) throw new ProblemError('not_found', 'No body is kept.');
  visit.reply
    .header('content-disposition', `attachment; filename="${record.id}.txt"`)
    .header('cache-control', 'no-store')
    .type('text/plain; charset=utf-8')
    .send(record.requestBody);
  return { kind: 'sent' };
}
