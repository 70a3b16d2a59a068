import { z } from 'zod';
import { ProblemError } from '../../../core/errors.ts';
import { isTypeId } from '../../../core/type-id.ts';
import { reasonText } from '../../mandates/input.ts';
import { decisionOf } from '../../reconciliation/decision-text.ts';
import { readUnknown, SETTLEMENTS, settle, type UnknownOutcome } from '../../reconciliation/store.ts';
import { readForm } from '../form.ts';
import { type Fragment, type Html, html } from '../html.ts';
import { check, emptyForm, type FormState, form, submit, textArea } from '../parts/form-parts.ts';
import { inertText } from '../parts/inert-text.ts';
import { money } from '../parts/money.ts';
import {
  buttonLink,
  card,
  column,
  crumbs,
  emptyState,
  facts,
  heading,
  notice,
  pager,
  table,
} from '../parts/page-parts.ts';
import { radioGroup } from '../parts/radio-group.ts';
import { moment } from '../parts/time.ts';
import { idOf } from '../path-id.ts';
import { type Answer, get, type PageAnswer, page, post, type SignedInVisit, seeOther } from '../visit.ts';

const RECONCILE_PATH = '/console/reconcile';
const LIST_PAGE = 50;
const REASON_MAX_CHARACTERS = 500;

/** Outcomes that nobody knows: the list, and a person's word on one of them. */
export const reconcilePages = [
  get('/reconcile', list),
  get('/reconcile/:id', async (visit) => settlePage(visit, await oneUnknown(visit), emptyForm())),
  post('/reconcile/:id', settleOne),
];

async function list(visit: SignedInVisit): Promise<Answer> {
  const { words, deps, session, request } = visit;
  const text = words.reconcile;
  const { after: given } = request.query as { readonly after?: unknown };
  const after = isTypeId(given, 'rcp') ? given : null;
  const found = await readUnknown(deps.sql, session.accountId, { after, limit: LIST_PAGE + 1 });
  const shown = found.slice(0, LIST_PAGE);
  const last = shown.at(-1);
  const next =
    found.length > LIST_PAGE && last !== undefined
      ? { label: text.next, path: `${RECONCILE_PATH}?after=${last.receipt_id}` }
      : null;
  const body =
    shown.length === 0
      ? column(heading(text.title, text.lead), emptyState(text.emptyTitle, text.emptyText))
      : column(
          heading(text.title, text.lead),
          unknownTable(visit, shown),
          pager(after === null ? null : { label: text.first, path: RECONCILE_PATH }, next),
        );
  return page('reconcile', text.title, body);
}

function unknownTable(visit: SignedInVisit, found: readonly UnknownOutcome[]): Html {
  const { words, language } = visit;
  const text = words.reconcile;
  const rows = found.map((one) => {
    const { action, request } = decisionOf(one);
    const amount = money(language, one.amount, one.currency);
    const party = typeof action?.counterparty === 'string' ? inertText(action.counterparty) : null;
    return [
      html`<a href="${RECONCILE_PATH}/${one.receipt_id}"><span class="number">${amount}</span></a>${
        party === null ? null : html`<br><span class="small">${party}</span>`
      }`,
      html`<code class="small">${called(request)}</code>`,
      inertText(one.mandate_name),
      html`<span class="small">${knownOf(visit, one)}</span>`,
      moment(language, one.reserved_at),
      html`<div class="actions"><a class="button small" href="${RECONCILE_PATH}/${one.receipt_id}">${
        text.settle
      }<span class="hidden"> ${amount}</span></a></div>`,
    ];
  });
  const columns = [
    { label: text.what, kind: 'main' },
    { label: text.request },
    { label: text.mandate },
    { label: text.known },
    { label: text.decided },
    { label: '', kind: 'end' },
  ] as const;
  return table(text.title, columns, rows);
}

function called(request: Readonly<Record<string, unknown>> | undefined): Fragment {
  return request === undefined ? null : inertText(`${request['method']} ${request['path']}`);
}

function knownOf({ words }: SignedInVisit, { cause, target_status: status }: UnknownOutcome): string {
  const text = words.reconcile;
  const { causes } = text;
  const known = cause !== null && Object.hasOwn(causes, cause) ? causes[cause as keyof typeof causes] : null;
  const why = known ?? (cause === null ? text.causeNone : text.causeOther(cause));
  return status === null ? why : `${why} ${text.targetStatus(status)}`;
}

/** The unknown outcome of the path; one that is known by now, or never was there, is 404. */
async function oneUnknown(visit: SignedInVisit): Promise<UnknownOutcome> {
  const { deps, session } = visit;
  const only = idOf(visit, 'rcp');
  const [found] = await readUnknown(deps.sql, session.accountId, { after: null, only, limit: 1 });
  if (found === undefined) throw new ProblemError('not_found', 'There is no such unknown outcome.');
  return found;
}

function settlePage(visit: SignedInVisit, found: UnknownOutcome, state: FormState, status = 200): PageAnswer {
  const { words, language } = visit;
  const text = words.reconcile;
  const amount = money(language, found.amount, found.currency);
  const fields = [
    radioGroup(state, 'outcome', text.outcome, [
      { value: 'booked', label: text.booked, hint: text.bookedHint(amount) },
      { value: 'released', label: text.released, hint: text.releasedHint(amount) },
    ]),
    textArea(state, 'reason', {
      label: text.reason,
      hint: text.reasonHint,
      required: true,
      maxlength: REASON_MAX_CHARACTERS,
      rows: 3,
    }),
    html`<div class="field">${check(state, { name: 'confirmed', label: text.confirm })}${
      state.errors['confirmed'] === undefined ? null : html`<p class="wrong">${state.errors['confirmed']}</p>`
    }</div>`,
    submit(text.submit),
  ];
  const title = text.settleTitle(amount);
  const body = column(
    crumbs(text.title, RECONCILE_PATH),
    heading(title, text.settleLead),
    html`<div class="tight">${card(text.known, knownFacts(visit, found))}</div>`,
    html`<section class="card">${form(visit, `${RECONCILE_PATH}/${found.receipt_id}`, fields)}</section>`,
  );
  return page('reconcile', title, body, { status });
}

function knownFacts(visit: SignedInVisit, found: UnknownOutcome): Html {
  const { words, language } = visit;
  const text = words.reconcile;
  const { action, request } = decisionOf(found);
  const { query, body_sha256: digest } = request ?? {};
  const code = (value: unknown): Fragment =>
    typeof value === 'string' && value !== '' ? html`<code>${inertText(value)}</code>` : '–';
  return html`<p>${knownOf(visit, found)}</p>${facts([
    [text.request, html`<code>${called(request)}${query ? inertText(`?${query}`) : null}</code>`],
    [text.action, code(action?.type)],
    [text.counterparty, typeof action?.counterparty === 'string' ? inertText(action.counterparty) : '–'],
    [text.mandate, html`<a href="/console/mandates/${found.mandate_id}">${inertText(found.mandate_name)}</a>`],
    [text.instance, found.instance_name === null ? code(found.instance_id) : inertText(found.instance_name)],
    [text.decided, moment(language, found.reserved_at)],
    [text.since, found.unknown_at === null ? '–' : moment(language, found.unknown_at)],
    [text.month, String(found.month).slice(0, 7)],
    [text.bodyDigest, code(digest)],
    [text.receipt, code(found.receipt_id)],
    [text.evidence, found.seq === null ? '–' : String(found.seq)],
  ])}`;
}

async function settleOne(visit: SignedInVisit): Promise<Answer> {
  const { words, deps, session } = visit;
  const text = words.reconcile;
  const receiptId = idOf(visit, 'rcp');
  const schema = z.strictObject({
    outcome: z.enum(SETTLEMENTS, text.outcomeProblem),
    reason: z
      .string(text.reasonProblem)
      .trim()
      .transform((given) => given.replaceAll(/\s+/g, ' '))
      .refine((given) => reasonText.safeParse(given).success, text.reasonProblem),
    confirmed: z.literal('on', text.confirmProblem),
  });
  const read = readForm(visit, schema);
  try {
    if (!read.ok) return settlePage(visit, await oneUnknown(visit), read.state, 422);
    const { outcome, reason } = read.value;
    await deps.commands.command(session.accountId, (context) =>
      settle(context, receiptId, { outcome, reason, settledBy: session.accountId }),
    );
    return seeOther(RECONCILE_PATH, outcome === 'booked' ? 'reconcile.booked' : 'reconcile.released');
  } catch (error) {
    if (!(error instanceof ProblemError) || error.code !== 'conflict') throw error;
    const back = html`<div class="actions">${buttonLink(text.back, RECONCILE_PATH)}</div>`;
    const body = column(heading(text.goneTitle), notice('warn', text.goneText), back);
    return page('reconcile', text.goneTitle, body, { status: 409 });
  }
}
