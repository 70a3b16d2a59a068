import { scopeCovers } from '../../../core/action.ts';
import { fieldProblems, invalidFields } from '../../../core/body-value.ts';
import { ProblemError } from '../../../core/errors.ts';
import { type MappingSuggestion, type SuggestionMandate, suggestMapping } from '../../../core/mapping-suggestion.ts';
import type { RequestShape } from '../../../core/request-shape.ts';
import { GATEWAY_METHODS, parseToolPattern, type ToolPattern } from '../../../core/tool-name.ts';
import type { GatewayRecord } from '../../gateways/store.ts';
import { mapTools, readTool, type ToolRecord, toolInput, wantedTool } from '../../gateways/tool-store.ts';
import { readShape, readSuggestionMandate, readSuggestions } from '../../gateways/tool-suggestions.ts';
import { trialBody, trialVersions, tryRequest } from '../../gateways/tool-trial.ts';
import { formValues, refusedForm, stateOfRefusal } from '../form.ts';
import { type Fragment, type Html, html } from '../html.ts';
import { denialReason } from '../parts/decision-parts.ts';
import { emptyForm, type FormState, form, selectField, textArea, textField } from '../parts/form-parts.ts';
import { shown } from '../parts/inert-text.ts';
import { mappingFields, mappingSaid, mappingValues } from '../parts/mapping-form.ts';
import { minorOf, money } from '../parts/money.ts';
import { badge, card, column, crumbs, facts, heading, notice } from '../parts/page-parts.ts';
import { shapeDetails, suggestionReasons } from '../parts/tool-parts.ts';
import { serviceText } from '../service-text.ts';
import { type Answer, get, type PageAnswer, page, post, type SignedInVisit, seeOther } from '../visit.ts';
import { blockButton, isAmountUnseen, toolsPath, unmapButton } from './gateway-tools.ts';
import { GATEWAYS_PATH, gatewayOf } from './gateways.ts';

const NAME_MAX_CHARACTERS = 4_096;
/** Characters of a body to try out; the trial's own bound is higher, this is what a person pastes. */
const TRY_BODY_MAX_CHARACTERS = 100_000;
const TRY_PREFIX = 'try_';

/** How one tool is read: a form that is tried out before it is saved. */
export const toolMappingPages = [
  get('/gateways/:id/tools/edit', async (visit) => {
    const gateway = await gatewayOf(visit);
    const { name } = visit.request.query as { readonly name?: unknown };
    const subject = await subjectOf(visit, gateway, typeof name === 'string' ? name : '');
    return editPage(visit, gateway, { subject, state: emptyForm(firstValues(subject)) });
  }),
  post('/gateways/:id/tools/map', map),
];

/** The tool that a page is about, and what is known of it. */
interface Subject {
  readonly name: string;
  readonly pattern: ToolPattern | null;
  readonly record: ToolRecord | null;
  readonly shape: RequestShape | null;
  readonly mandate: SuggestionMandate;
  readonly suggestion: MappingSuggestion | null;
}

async function subjectOf(visit: SignedInVisit, gateway: GatewayRecord, name: string): Promise<Subject> {
  const { sql } = visit.deps;
  const { accountId } = visit.session;
  const { instance_id: id } = gateway;
  const mandate = await readSuggestionMandate(sql, accountId, gateway.mandate_id);
  const reading = parseToolPattern(name.slice(0, NAME_MAX_CHARACTERS));
  if (!reading.ok) return { name, pattern: null, record: null, shape: null, mandate, suggestion: null };
  const { pattern } = reading;
  const record = (await readTool(sql, accountId, id, pattern.key)) ?? null;
  const seen = await readShape(sql, accountId, id, pattern.key);
  const shape = seen ?? (pattern.shape === null ? null : await mergedShape(visit, id, pattern));
  const suggestion = suggestMapping(pattern, shape, mandate);
  return { name: pattern.text, pattern, record, shape, mandate, suggestion };
}

/** A template that was only suggested so far has the shape of the tools that it would stand for. */
async function mergedShape(visit: SignedInVisit, id: string, pattern: ToolPattern): Promise<RequestShape | null> {
  const { templates } = await readSuggestions(visit.deps.sql, visit.session.accountId, id);
  return templates.find(({ name }) => name === pattern.text)?.shape ?? null;
}

/** The form of a tool as it is first shown: as it is mapped, else as is suggested; and a request to try it on. */
function firstValues({ name, pattern, record, shape, mandate, suggestion }: Subject): Record<string, string> {
  const mapping = record?.mapping ?? suggestion?.mapping;
  const values = mapping === undefined ? { counterparty_optional: 'on' } : mappingValues(mapping);
  const covered = mapping === undefined || scopeCovers(mandate.scope, mapping.action_type);
  const path = pattern === null ? '/' : name.slice(name.indexOf(':') + 1);
  return {
    ...values,
    ...(covered ? {} : { action_type: '' }),
    // What a body costs that nobody has seen is for a person to say.
    ...(mapping === suggestion?.mapping && isAmountUnseen(name, shape) ? { amount: '' } : {}),
    name,
    try_method: pattern?.method ?? 'POST',
    try_path: path.replaceAll(/\{[^{}]*\}/g, '1'),
    try_type: shape?.body === 'form' ? 'application/x-www-form-urlencoded' : 'application/json',
    try_body: shape === null ? '' : sampleBody(shape, mandate.currency),
  };
}

/** A body with the fields that were seen and values that nobody sent. */
function sampleBody({ body, fields }: RequestShape, currency: string): string {
  const value = (at: string, type: string) => {
    if (type === 'integer') return 1;
    if (type === 'number') return 1.5;
    if (type === 'boolean') return false;
    return /curr|ccy|waehr|währ/i.test(at) ? currency : type === 'string' || type === 'mixed' ? 'example' : null;
  };
  // What lies deeper is the reader's to write: a sample shows the way.
  const top = fields.filter(({ at }) => !at.slice(1).includes('/')).slice(0, 20);
  const entries = top.map(
    ({ at, type }) => [at.slice(1).replaceAll('~1', '/').replaceAll('~0', '~'), at, type] as const,
  );
  if (body === 'form')
    return new URLSearchParams(entries.map(([key, at]) => [key, String(value(at, 'string'))])).toString();
  if (body !== 'json') return '';
  return JSON.stringify(Object.fromEntries(entries.map(([key, at, type]) => [key, value(at, type)])), null, 2);
}

type Trial = Awaited<ReturnType<typeof tryRequest>>;

interface EditedTool {
  readonly subject: Subject;
  readonly state: FormState;
  readonly trial?: Trial;
  readonly status?: number;
}

function editPage(
  visit: SignedInVisit,
  gateway: GatewayRecord,
  { subject, state, trial, status }: EditedTool,
): PageAnswer {
  const { words } = visit;
  const { tools: text } = words;
  const { instance_id: id } = gateway;
  const { pattern, record, shape } = subject;
  const named = pattern === null || state.errors['name'] !== undefined;
  const options = { label: text.name, hint: text.nameHint, code: true, required: true, maxlength: NAME_MAX_CHARACTERS };
  const fields: Fragment = [
    named ? textField(state, 'name', options) : html`<input type="hidden" name="name" value="${subject.name}">`,
    mappingFields(words, state, { ...subject.mandate, pattern, shape }),
    trialFields(words, state),
    html`<div class="actions"><button type="submit" class="button primary" name="do" value="save">${text.save}</button>
</div>`,
  ];
  const body = column(
    crumbs(text.titleOf(shown(gateway.name)), toolsPath(id, record?.state)),
    heading(text.editTitle, text.editLead),
    trial === undefined ? null : html`<div role="status">${trialResult(visit, trial)}</div>`,
    pattern === null ? null : about(words, subject),
    html`<section class="card">${form(visit, `${GATEWAYS_PATH}/${id}/tools/map`, fields)}</section>`,
    record === null ? null : decide(visit, id, record),
  );
  return page('gateways', text.editTitle, body, { status: status ?? 200 });
}

/** What is known of the tool, and why what stands in the form is suggested. */
function about(words: SignedInVisit['words'], { name, pattern, record, shape, suggestion, mandate }: Subject): Html {
  const { tools: text } = words;
  const state = record?.state ?? 'unmapped';
  const tone = state === 'mapped' ? 'good' : state === 'blocked' ? 'bad' : 'info';
  const why = record?.mapping !== undefined && record.mapping !== null ? null : suggestion;
  const covered = suggestion !== null && scopeCovers(mandate.scope, suggestion.action_type.value);
  const reasons = why === null || pattern === null ? null : suggestionReasons(words, why, { pattern, shape, covered });
  const listed = facts([
    [text.stateNow, badge(tone, words.gateways.toolCounts[state])],
    [text.shape, shapeDetails(words, shape)],
  ]);
  const because =
    reasons === null
      ? null
      : html`<h3>${text.why}</h3>${facts([
          [text.action, reasons.action],
          [text.amount, reasons.amount],
          [text.amountUnit, reasons.unit],
          [text.currency, reasons.currency],
          [text.party, reasons.party],
        ])}`;
  return html`<section class="card"><header><h2><code dir="ltr">${shown(name)}</code></h2></header>
${listed}${because}</section>`;
}

function trialFields({ tools: text }: SignedInVisit['words'], state: FormState): Html {
  const methods = GATEWAY_METHODS.map((method) => [method, method] as const);
  const types = ['application/json', 'application/x-www-form-urlencoded'].map((type) => [type, type] as const);
  return html`<fieldset class="field trial"><legend>${text.trial}</legend><div class="stack">
<p class="hint">${text.trialLead}</p>
<div class="pair">${selectField(state, 'try_method', { label: text.tryMethod }, methods)}
${selectField(state, 'try_type', { label: text.tryType }, types)}</div>
${textField(state, 'try_path', { label: text.tryPath, hint: text.tryPathHint, code: true, maxlength: 12_000 })}
${textArea(state, 'try_body', { label: text.tryBody, code: true, rows: 6, maxlength: TRY_BODY_MAX_CHARACTERS })}
<div class="actions"><button type="submit" class="button" name="do" value="try">${text.trySubmit}</button></div>
</div></fieldset>`;
}

/** What would become of the request, and why. */
function trialResult({ words, language }: SignedInVisit, trial: Trial): Html {
  const { tools: text } = words;
  const { decision, code, action } = trial;
  const title =
    decision === 'allow'
      ? text.would.allow
      : decision === 'escalate'
        ? text.would.escalate
        : text.would.deny(code ?? '');
  const amount = (value: number, currency: string) =>
    currency === '' ? String(value) : money(language, minorOf(value, currency), currency);
  const month = ({ booked, reserved }: Trial['before']) =>
    trial.month_limit === null
      ? ''
      : text.ofMonth(amount(booked + reserved, trial.currency), amount(trial.month_limit, trial.currency));
  const read =
    action === null
      ? text.nothingRead
      : html`<code>${action.type}</code>${
          action.amount === null ? null : ` · ${amount(action.amount.value, action.amount.currency)}`
        }`;
  const list = facts([
    [text.readAs, read],
    ...(typeof action?.counterparty === 'string'
      ? [[text.with, html`<bdi>${shown(action.counterparty)}</bdi>`] as const]
      : []),
    ...(trial.month_limit === null
      ? []
      : [[text.monthBefore, month(trial.before)] as const, [text.monthAfter, month(trial.after)] as const]),
  ]);
  const why =
    code === null
      ? text.wouldBecause[decision === 'escalate' ? decision : 'allow']
      : denialReason({ words, language }, code, shown(trial.reason));
  return notice(
    decision === 'allow' ? 'good' : decision === 'escalate' ? 'info' : 'bad',
    title,
    html`<div class="stack"><p>${why}</p>${list}
${trial.disabled ? html`<p>${text.wouldDisabled}</p>` : null}
${trial.escalations_full ? html`<p>${text.wouldFull}</p>` : null}</div>`,
  );
}

function decide(visit: SignedInVisit, id: string, record: ToolRecord): Html {
  const { tools: text } = visit.words;
  const { state, pattern } = record;
  return card(
    text.decideTitle,
    html`<div class="stack">${
      state === 'blocked'
        ? null
        : html`<p class="muted">${text.blockText}</p><div class="actions">${blockButton(visit, id, pattern)}</div>`
    }${
      state === 'unmapped'
        ? null
        : html`<p class="muted">${text.unmapText}</p>
<div class="actions">${unmapButton(visit, id, pattern, state)}</div>`
    }</div>`,
  );
}

async function map(visit: SignedInVisit): Promise<Answer> {
  const { deps, session } = visit;
  const gateway = await gatewayOf(visit);
  const values = formValues(visit);
  const name = (values['name'] ?? '').trim();
  const [saved, tried] = [values['do'] !== 'try', mappingSaid(values)];
  try {
    const parsed = toolInput.safeParse({ name, mapping: tried });
    if (!parsed.success) throw invalidFields(fieldProblems(parsed.error));
    const asked = wantedTool(parsed.data);
    if (saved) {
      await deps.commands.command(session.accountId, (context) => mapTools(context, gateway.instance_id, [asked]));
      return seeOther(toolsPath(gateway.instance_id, 'mapped'), 'tools.mapped');
    }
    const trial = await tryOn(visit, gateway, { name, mapping: tried });
    const subject = await subjectOf(visit, gateway, name);
    return editPage(visit, gateway, { subject, state: emptyForm(values), trial });
  } catch (error) {
    const state = await refusal(visit, error);
    return editPage(visit, gateway, { subject: await subjectOf(visit, gateway, name), state, status: 422 });
  }
}

async function tryOn(
  visit: SignedInVisit,
  { instance_id: instanceId }: GatewayRecord,
  { name, mapping }: { readonly name: string; readonly mapping: object },
): Promise<Trial> {
  const { try_method: method, try_path: path, try_type, try_body: body = '' } = formValues(visit);
  const parsed = trialBody.safeParse({ method, path, content_type: try_type ?? null, body, name, mapping });
  if (!parsed.success) throw invalidFields(fieldProblems(parsed.error));
  const { accountId } = visit.session;
  return tryRequest(visit.deps, trialVersions(visit.deps), { accountId, instanceId }, parsed.data);
}

/** A refusal beside the fields of the form; what is wrong with the request that is tried, beside the request's. */
async function refusal(visit: SignedInVisit, error: unknown): Promise<FormState> {
  if (error instanceof ProblemError && error.code !== 'invalid' && error.status < 500 && error.code !== 'not_found') {
    const place: Partial<Record<ProblemError['code'], string>> = {
      ...{ method_not_allowed: 'method', ambiguous_path: 'path', ambiguous_query: 'path', conflict: 'name' },
    };
    const at = place[error.code] ?? 'body';
    const field = at === 'name' ? at : `${TRY_PREFIX}${at}`;
    return refusedForm(formValues(visit), [{ field, message: serviceText(visit.words, error.detail) }]);
  }
  const { values, errors } = stateOfRefusal(visit, error);
  const own = new Set(['method', 'path', 'content_type', 'body']);
  const renamed = Object.entries(errors).map(([field, message]) => {
    const name = field.replace(/^mapping\./, '');
    return [own.has(name) ? `${TRY_PREFIX}${name === 'content_type' ? 'type' : name}` : name, message] as const;
  });
  // A template that does not stand for the request that is tried: the request is what to change.
  const stands = values['do'] === 'try' && error instanceof ProblemError && isForOther(error);
  const moved = renamed.map(([name, message]) => [stands && name === 'name' ? 'try_path' : name, message] as const);
  return { values, errors: Object.fromEntries(moved) };
}

function isForOther({ fields }: ProblemError): boolean {
  return fields.some(({ field, message }) => field === 'name' && message.startsWith('does not stand for'));
}
