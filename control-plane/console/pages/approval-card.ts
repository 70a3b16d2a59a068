import { ProblemError } from '../../../core/errors.ts';
import { type EscalationRecord, readEscalation } from '../../escalations/store.ts';
import { type MandateRecord, readMandate } from '../../mandates/view.ts';
import { type Fragment, type Html, html } from '../html.ts';
import { emptyForm, type FormState } from '../parts/form-parts.ts';
import { inertText } from '../parts/inert-text.ts';
import { money } from '../parts/money.ts';
import { badge, bar, buttonLink, card, column, crumbs, facts, notice } from '../parts/page-parts.ts';
import { moment } from '../parts/time.ts';
import { APPROVALS_PATH } from '../paths.ts';
import { type PageAnswer, page, type SignedInVisit } from '../visit.ts';
import { answerForm } from './approval-form.ts';
import { requestCard } from './approval-request.ts';

/** What the evidence of the decision says besides the escalation; empty where it cannot be read. */
interface AskedBy {
  readonly keyId: string | null;
  readonly keyName: string | null;
  readonly mandateVersion: number | null;
}

interface CardFacts {
  readonly record: EscalationRecord;
  readonly mandate: MandateRecord | null;
  readonly askedBy: AskedBy;
}

/** An escalation of the visitor's account; @throws ProblemError 404 */
export async function existing({ deps, session }: SignedInVisit, id: string): Promise<EscalationRecord> {
  const found = await readEscalation(deps.sql, session.accountId, id);
  if (found === null) throw new ProblemError('not_found', 'There is no such escalation.');
  return found;
}

/** The card: all that an approval binds and what it would do, and the form that answers while there is time. */
export async function cardPage(
  visit: SignedInVisit,
  record: EscalationRecord,
  more: { readonly state?: FormState; readonly status?: number; readonly above?: Fragment } = {},
): Promise<PageAnswer> {
  const { words, deps, session } = visit;
  const text = words.approvals;
  const [mandate, askedBy, passkeys] = await Promise.all([
    readMandate(deps.sql, session.accountId, record.mandateId),
    readAskedBy(visit, record),
    deps.sql`select from passkeys where account_id = ${session.accountId} limit 1`,
  ]);
  const known: CardFacts = { record, mandate: mandate ?? null, askedBy };
  const path = `${APPROVALS_PATH}/${record.id}`;
  const { status = 200, state = emptyForm(), above = null } = more;
  const parts = [summary(visit, known), monthCard(visit, known), requestCard(visit, record), whoCard(visit, known)];
  const cards = html`<div class="column tight">${parts}</div>`;
  const body =
    record.status === 'pending'
      ? html`<div class="approval" data-live="${`${path}/events`}"><div class="notice warn" data-stale hidden>
<strong>${text.stale}</strong><div><a href="${path}">${text.staleReload}</a></div></div>
${column(crumbs(text.title, APPROVALS_PATH), cards, reloadHint(visit, path))}
${answerForm(visit, record.id, { state, above, passkeys: passkeys.length > 0 })}</div>`
      : column(crumbs(text.title, APPROVALS_PATH), above, outcome(visit, record), cards);
  // Nothing that an agent wrote: a tab's name shows what it holds, and turns as it says.
  return page('approvals', `${amountOf(visit, record)} · ${text.title}`, body, { status, scripts: ['passkeys'] });
}

function summary(visit: SignedInVisit, known: CardFacts): Html {
  const { record } = known;
  const text = visit.words.approvals;
  const pending = record.status === 'pending';
  const { counterparty, type } = record.action;
  const { request } = record;
  const called =
    request === null ? null : html`<br><code class="small">${inertText(`${request.method} ${request.path}`)}</code>`;
  const state = pending
    ? html`<p class="state">${badge('warn', text.statuses.pending)}${countDown(visit, record)}</p>`
    : null;
  return html`<section class="card summary">${state}<h1><span class="number">${amountOf(visit, record)}</span>${
    counterparty === null ? null : html` <span class="party">${text.to} ${inertText(counterparty)}</span>`
  }</h1><p>${sentence(visit, record)}</p>${facts([
    [text.action, html`<code>${inertText(type)}</code>${called}`],
    [text.mandate, html`<a href="/console/mandates/${record.mandateId}">${inertText(record.mandateName)}</a>`],
    [text.why, whyAsked(visit, known)],
  ])}</section>`;
}

/** What an agent wants, as a sentence. */
export function sentence(visit: SignedInVisit, record: EscalationRecord): Html {
  const text = visit.words.approvals;
  const { action, instanceName, mandateName } = record;
  const who = instanceName === null ? text.agentOf(mandateName) : text.gateway(instanceName);
  return inertText(text.wants(who, action.type, amountOf(visit, record), action.counterparty ?? ''));
}

/** The amount with its currency, or that there is none. */
export function amountOf({ language, words }: SignedInVisit, { action }: EscalationRecord): string {
  return action.currency === null ? words.approvals.noAmount : money(language, action.amount, action.currency);
}

function whyAsked(visit: SignedInVisit, { record, mandate, askedBy }: CardFacts): Html {
  const text = visit.words.approvals;
  const amount = amountOf(visit, record);
  const terms = mandate?.terms;
  const threshold = terms?.escalation_threshold ?? null;
  const same = terms !== undefined && askedBy.mandateVersion === terms.version && threshold !== null;
  if (!same) return inertText(text.whyThen(amount, record.mandateName));
  return inertText(text.whyAmount(amount, money(visit.language, threshold, terms.currency), record.mandateName));
}

/** The month before and after a yes, as bars of one scale; nothing once it was answered. */
function monthCard(visit: SignedInVisit, { record }: CardFacts): Fragment {
  if (record.status !== 'pending') return null;
  const { words, language } = visit;
  const text = words.approvals;
  const { month, mandateCurrency, action } = record;
  const { booked, reserved, limit } = month;
  const amount = (minor: number) => money(language, minor, mandateCurrency);
  const after = booked + reserved + action.amount;
  const scale = Math.max(limit, after);
  const held = [
    { kind: 'booked', amount: booked, label: text.booked(amount(booked)) },
    { kind: 'reserved', amount: reserved, label: text.reserved(amount(reserved)) },
  ] as const;
  const added = { kind: 'added', amount: action.amount, label: text.added(amount(action.amount)) } as const;
  const said =
    after > limit
      ? notice('bad', text.aboveText(amount(after - limit), amount(limit)))
      : html`<p>${text.afterText(amount(limit - after), amount(limit))}</p>`;
  return card(
    text.monthTitle,
    html`<div class="months"><h3>${text.now}</h3>${bar(scale, held)}<h3>${text.after}</h3>${bar(scale, [
      ...held.map((part) => ({ ...part, label: '' })),
      added,
    ])}</div>${said}`,
  );
}

function whoCard({ words, language }: SignedInVisit, { record, mandate, askedBy }: CardFacts): Html {
  const text = words.approvals;
  const did = mandate?.terms.agent_did ?? '';
  const { instanceName, subjectId } = record;
  const instance: readonly [string, Fragment] = [
    text.instance,
    html`${inertText(instanceName ?? '')}<br><code class="small">${subjectId}</code>`,
  ];
  const key: readonly [string, Fragment] = [
    text.key,
    html`${askedBy.keyName === null ? null : html`${inertText(askedBy.keyName)}<br>`}<code class="small">${
      askedBy.keyId
    }</code>`,
  ];
  return card(
    text.whoTitle,
    facts([
      [text.agent, did === '' ? text.agentCustody : html`<code class="small">${did}</code>`],
      ...(instanceName === null ? [] : [instance]),
      ...(askedBy.keyId === null ? [] : [key]),
      [text.asked, moment(language, record.createdAtMs)],
      [text.ends, moment(language, record.expiresAtMs)],
      [text.escalation, html`<code class="small">${record.id}</code>`],
      [text.receipt, html`<code class="small">${record.receiptId}</code>`],
    ]),
  );
}

/** What became of it: who, what and when. */
function outcome(visit: SignedInVisit, record: EscalationRecord): Html {
  const { words, language } = visit;
  const text = words.approvals;
  const { status, decidedAtMs, closesAtMs, usedAtMs, reason } = record;
  const rows: (readonly [string, Fragment])[] = [];
  const at = (name: string, ms: number | null) => {
    if (ms !== null) rows.push([name, moment(language, ms)]);
  };
  at(text.outcomeAt, decidedAtMs);
  if (status === 'expired') at(text.expiredAt, record.expiresAtMs);
  if (status === 'approved') at(text.usableUntil, closesAtMs);
  if (status === 'rejected') at(text.heldUntil, closesAtMs);
  at(text.usedAt, usedAtMs);
  if (reason !== null && reason !== '') rows.push([text.reason, inertText(reason, { lines: true })]);
  const told = html`${facts(rows)}<p>${saidNext(visit, status)}</p>`;
  const tone = status === 'rejected' ? 'bad' : status === 'expired' ? 'warn' : 'good';
  const who = decider(visit, record);
  const said = status === 'pending' || status === 'expired' ? text.outcome.expired : text.outcome[status](who);
  const actions = html`<div class="actions">${buttonLink(text.back, APPROVALS_PATH)}</div>`;
  return html`<div class="stack" role="status">${notice(tone, said, told)}${actions}</div>`;
}

function saidNext({ words }: SignedInVisit, status: EscalationRecord['status']): string | null {
  const text = words.approvals;
  if (status === 'approved') return text.approvedText;
  if (status === 'rejected') return text.rejectedText;
  return status === 'expired' ? text.expiredText : null;
}

/** Who answered: the person of this account by their address, anybody else as it was recorded. */
export function decider({ session }: SignedInVisit, { decidedBy }: EscalationRecord): string {
  return decidedBy === session.accountId ? session.email : (decidedBy ?? '');
}

/** The time that is left, counted down by a script. */
export function countDown({ session, words }: SignedInVisit, { expiresAtMs }: EscalationRecord): Html {
  const left = Math.max(0, expiresAtMs - session.nowMs);
  const seconds = Math.ceil(left / 1000);
  const clock = `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, '0')}`;
  return html`<span class="time-left"><span class="number" role="timer" data-countdown="${left}">${clock}</span> ${
    words.approvals.left
  }</span>`;
}

/** For browsers without scripts: what the page shows grows old. */
export function reloadHint({ words }: SignedInVisit, path: string): Html {
  const text = words.approvals;
  return html`<p class="muted small" data-without-script>${text.reloadHint} <a href="${path}">${text.reload}</a></p>`;
}

async function readAskedBy({ deps, session }: SignedInVisit, { receiptId }: EscalationRecord): Promise<AskedBy> {
  const [row] = await deps.sql<{ body: string; key_name: string | null }[]>`
    select e.body, k.name as key_name from evidence e
    left join api_keys k on k.account_id = e.account_id and k.key_id = (e.body::jsonb ->> 'key')
    where e.account_id = ${session.accountId} and e.id = ${receiptId} and e.kind <> 'outcome'`;
  if (row === undefined) return { keyId: null, keyName: null, mandateVersion: null };
  const { key, mandate } = JSON.parse(row.body) as {
    readonly key?: string;
    readonly mandate?: { readonly version?: number };
  };
  return { keyId: key ?? null, keyName: row.key_name, mandateVersion: mandate?.version ?? null };
}
