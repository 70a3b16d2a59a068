import { z } from 'zod';
import { ProblemError } from '../../../core/errors.ts';
import { type MandateTerms, TERMINAL_STATES } from '../../../core/mandate.ts';
import { mandateChanges, type TermChange, type TermValue } from '../../../core/mandate-changes.ts';
import { changedTerms, changeMandate, uncoveredTools } from '../../mandates/change.ts';
import { type MandateChange, reasonText } from '../../mandates/input.ts';
import { unknownMandate } from '../../mandates/routes.ts';
import { type MandateRecord, readMandate } from '../../mandates/view.ts';
import { formValues } from '../form.ts';
import { type Fragment, type Html, html } from '../html.ts';
import { emptyForm, type FormState, form, textField } from '../parts/form-parts.ts';
import { statusName } from '../parts/mandate-status.ts';
import { minorOf, money } from '../parts/money.ts';
import { card, column, crumbs, heading, notice, table } from '../parts/page-parts.ts';
import { moment } from '../parts/time.ts';
import { wordingSeen, wordingView } from '../parts/wording.ts';
import { idOf } from '../path-id.ts';
import { FACTOR_FIELD, factorField, takeFactor } from '../session.ts';
import { type Answer, get, type PageAnswer, page, post, type SignedInVisit, seeOther } from '../visit.ts';
import { actionFields, conditionFields, foundActions, goButton, hiddenFields, limitFields } from './mandate-fields.ts';
import { replayCard } from './mandate-replay.ts';
import { carriedValues, readTerms, refusedTerms, TERM_FIELDS, valuesOf } from './mandate-terms.ts';
import { remarks } from './mandate-wizard.ts';

const MANDATES_PATH = '/console/mandates';
/** What a change may say; who acts and in which money cannot change. */
const STEPS = ['actions', 'limits', 'conditions'] as const;
const CARRIED = [...TERM_FIELDS, 'reason', 'version'];

type Values = Readonly<Record<string, string>>;

/** Changing a mandate: the form, what would change, what that would have done, and the new version. */
export const mandateEditPages = [
  get('/mandates/:id/edit', async (visit) => {
    const record = await changeable(visit);
    const values = { ...valuesOf(record.terms, visit.language), version: String(record.terms.version) };
    return formPage(visit, record, emptyForm(values));
  }),
  post('/mandates/:id/edit', edit),
];

async function edit(visit: SignedInVisit): Promise<Answer> {
  const record = await changeable(visit);
  const given = formValues(visit);
  const { currency, time_zone } = record.terms;
  const values: Values = { ...carriedValues(given), currency, time_zone };
  const go = given['go'] ?? '';
  if (go === 'back') return formPage(visit, record, emptyForm(values));
  const read = await readChange(visit, record, values);
  if (!read.ok) return formPage(visit, record, read.state, 422);
  if (go === 'save') return save(visit, record, values, read);
  const asked = go === 'replay' || go === 'replay-now' ? go : null;
  return diffPage(visit, record, values, read, { replay: asked });
}

/** The mandate of the path, where its terms can change still. */
async function changeable(visit: SignedInVisit): Promise<MandateRecord> {
  const { deps, session, words } = visit;
  const record = await readMandate(deps.sql, session.accountId, idOf(visit, 'mdt'));
  if (record === undefined) throw unknownMandate();
  if (!TERMINAL_STATES.some((state) => state === record.status)) return record;
  throw new ProblemError('conflict', words.wizard.edit.over(statusName(words, record.status)));
}

type ReadChange =
  | { readonly ok: true; readonly input: MandateChange; readonly after: MandateTerms; readonly changes: TermChange[] }
  | { readonly ok: false; readonly state: FormState };

async function readChange(visit: SignedInVisit, { terms }: MandateRecord, values: Values): Promise<ReadChange> {
  const { errors, input: typed } = await readTerms(visit, values, STEPS);
  const version = z.coerce.number().int().min(1).safeParse(values['version']);
  const reason = (values['reason'] ?? '').trim();
  const wrongReason = reason !== '' && !reasonText.safeParse(reason).success;
  const all = {
    ...errors,
    ...(wrongReason ? { reason: visit.words.mandates.reasonProblem } : {}),
  };
  // A zone that no form offers cannot be wrong here: it is the mandate's own.
  const { time_zone: _zone, ...wrong } = all as Record<string, string>;
  if (Object.keys(wrong).length > 0) return { ok: false, state: { values, errors: wrong } };
  const { currency: _c, time_zone: _z, name: _n, agent_did: _d, valid_until, activate: _a, ...rest } = typed;
  const before = valuesOf(terms, visit.language);
  const kept = before['valid_day'] === values['valid_day'] && before['valid_time'] === values['valid_time'];
  const input: MandateChange = {
    ...rest,
    // Seconds are not on the form; who leaves the end alone keeps it exactly.
    ...(kept ? {} : { valid_until: valid_until ?? null }),
    ...(reason === '' ? {} : { reason }),
    version: version.success ? version.data : 0,
  };
  try {
    const after = { ...changedTerms(terms, input, visit.session.nowMs), version: terms.version + 1 };
    return { ok: true, input, after, changes: mandateChanges(terms, after) };
  } catch (error) {
    return { ok: false, state: refusedTerms(visit, values, error) };
  }
}

async function save(
  visit: SignedInVisit,
  record: MandateRecord,
  values: Values,
  read: ReadChange & { ok: true },
): Promise<Answer> {
  const { deps, session, words } = visit;
  const { edit: text, wordingStale } = words.wizard;
  const given = formValues(visit);
  const { version } = record.terms;
  if (read.input.version !== version) {
    const above = notice('warn', text.stale(version));
    return diffPage(visit, record, { ...values, version: String(version) }, read, { status: 409, above });
  }
  if (read.changes.length === 0) return diffPage(visit, record, values, read, { status: 422 });
  const wording = wordingSeen(given, read.after);
  if (wording === null) {
    return diffPage(visit, record, values, read, { status: 409, above: notice('warn', wordingStale) });
  }
  if (!(await takeFactor(visit, given[FACTOR_FIELD]))) {
    const errors = { [FACTOR_FIELD]: words.mandates.factorProblem };
    return diffPage(visit, record, values, read, { status: 422, errors });
  }
  const { mandate_id: id } = record.terms;
  try {
    const input = { ...read.input, wording };
    await deps.commands.command(session.accountId, (context) => changeMandate(context, id, input));
    return seeOther(`${MANDATES_PATH}/${id}`, 'mandates.changed');
  } catch (error) {
    if (!(error instanceof ProblemError) || error.code !== 'conflict') {
      return formPage(visit, record, refusedTerms(visit, values, error), 422);
    }
    // Somebody was faster: what they left is compared with, and nothing that was typed is lost.
    const now = await changeable(visit);
    const again = { ...values, version: String(now.terms.version) };
    const reread = await readChange(visit, now, again);
    if (!reread.ok) return formPage(visit, now, reread.state, 409);
    return diffPage(visit, now, again, reread, { status: 409, above: notice('warn', text.stale(now.terms.version)) });
  }
}

async function formPage(
  visit: SignedInVisit,
  record: MandateRecord,
  state: FormState,
  status = 200,
): Promise<PageAnswer> {
  const { words, deps, session } = visit;
  const { names, leads, edit: text } = words.wizard;
  const { terms } = record;
  const found = await foundActions(deps.sql, session.accountId);
  const own = `${MANDATES_PATH}/${terms.mandate_id}`;
  const fields = [
    hiddenFields(state.values, ['version']),
    html`<h2>${names.actions}</h2><p class="muted">${leads.actions}</p>`,
    actionFields(visit, state, found),
    html`<hr><h2>${names.limits}</h2>`,
    limitFields(visit, state, true),
    html`<hr><h2>${names.conditions}</h2>`,
    conditionFields(visit, state),
    html`<hr>`,
    textField(state, 'reason', { label: words.mandates.reason, hint: words.mandates.reasonHint, maxlength: 500 }),
    html`<div class="actions">${goButton('review', text.submit, 'primary')}</div>`,
  ];
  const body = column(
    crumbs(record.name, own),
    heading(text.title(record.name), text.lead),
    html`<section class="card">${form(visit, `${own}/edit`, fields)}</section>`,
  );
  return page('mandates', text.title(record.name), body, { status });
}

interface DiffOptions {
  readonly replay?: 'replay' | 'replay-now' | null;
  readonly status?: number;
  readonly above?: Fragment;
  readonly errors?: FormState['errors'];
}

async function diffPage(
  visit: SignedInVisit,
  record: MandateRecord,
  values: Values,
  { after, changes }: ReadChange & { ok: true },
  { replay = null, status = 200, above = null, errors = {} }: DiffOptions = {},
): Promise<PageAnswer> {
  const { words, deps, session } = visit;
  const { edit: text } = words.wizard;
  const { mandate_id: id } = record.terms;
  const own = `${MANDATES_PATH}/${id}`;
  const carried = hiddenFields(values, CARRIED);
  const uncovered = await uncoveredTools(deps.sql, session.accountId, after);
  const nothing = changes.length === 0;
  const confirm = form(visit, `${own}/edit`, [
    carried,
    wordingView(visit, after),
    factorField(visit, { values: {}, errors }),
    html`<div class="actions">${goButton('save', text.save, 'primary')}${goButton('back', text.goBack)}</div>`,
  ]);
  const back = form(visit, `${own}/edit`, [carried, html`<div class="actions">${goButton('back', text.goBack)}</div>`]);
  const again = form(visit, `${own}/edit`, [
    carried,
    html`<div class="actions">${goButton('replay', text.replay)}${goButton('replay-now', text.replayNow)}</div>`,
  ]);
  const replayed = replay === null ? null : await replayCard(visit, record.terms, after, replay === 'replay-now');
  const body = column(
    crumbs(record.name, own),
    heading(text.diffTitle, record.name),
    above,
    remarks(words, after),
    nothing ? notice('info', text.none) : changesTable(visit, changes, record.terms.currency),
    uncovered.length === 0 ? null : uncoveredNotice(text.uncovered, uncovered),
    nothing ? back : [replayed, card(text.replay, again, text.replayLead), card(words.mandates.words, confirm)],
  );
  return page('mandates', `${text.diffTitle}: ${record.name}`, body, { status });
}

function uncoveredNotice(title: string, patterns: readonly string[]): Html {
  return notice('warn', title, html`<ul>${patterns.map((one) => html`<li><code>${one}</code></li>`)}</ul>`);
}

/** What differs, term by term. */
export function changesTable(visit: SignedInVisit, changes: readonly TermChange[], currency: string): Html {
  const { edit: text } = visit.words.wizard;
  const rows = changes.map(({ field, before, after }) => [
    termName(visit, field),
    html`<span class="was">${termValue(visit, field, before, currency)}</span>`,
    html`<span class="will">${termValue(visit, field, after, currency)}</span>`,
  ]);
  return table(
    text.diffTitle,
    [{ label: text.term, kind: 'main' }, { label: text.before }, { label: text.after }],
    rows,
  );
}

function termName({ words }: SignedInVisit, field: string): string {
  const names: Readonly<Record<string, string>> = words.wizard.edit.fields;
  return names[field] ?? field;
}

const AMOUNTS = new Set(['amount_limit_per_action', 'amount_limit_per_month', 'escalation_threshold']);

function termValue({ words, language }: SignedInVisit, field: string, value: TermValue, currency: string): Fragment {
  if (value === null || value === '') return words.wizard.edit.nothing;
  if (typeof value === 'number' && AMOUNTS.has(field)) return money(language, minorOf(value, currency), currency);
  if (typeof value === 'number') return String(value);
  if (field === 'valid_until' && typeof value === 'string') return moment(language, Date.parse(value));
  if (typeof value === 'string') return value;
  if (value.length === 0) return words.mandates.anyone;
  return html`<ul class="plain">${value.map((one) => html`<li><code>${one}</code></li>`)}</ul>`;
}
