import { ProblemError } from '../../../core/errors.ts';
import type { WordedTerms } from '../../../core/mandate-words.ts';
import type { MandateInput } from '../../mandates/input.ts';
import { createMandate, knownTimeZone, MANDATES_FULL } from '../../mandates/routes.ts';
import { formValues } from '../form.ts';
import { attributes, type Fragment, type Html, html } from '../html.ts';
import { emptyForm, type FormState, form } from '../parts/form-parts.ts';
import { card, column, crumbs, heading, notice } from '../parts/page-parts.ts';
import { wordingSeen, wordingView } from '../parts/wording.ts';
import { serviceText } from '../service-text.ts';
import { FACTOR_FIELD, factorField, takeFactor } from '../session.ts';
import { type Answer, get, type PageAnswer, page, post, type SignedInVisit, seeOther } from '../visit.ts';
import type { Words } from '../words.ts';
import {
  actionFields,
  agentFields,
  conditionFields,
  foundActions,
  goButton,
  hiddenFields,
  limitFields,
} from './mandate-fields.ts';
import {
  carriedValues,
  completeInput,
  readTerms,
  refusedTerms,
  TERM_FIELDS,
  TERM_STEPS,
  type TermStep,
  wordedTerms,
} from './mandate-terms.ts';

const MANDATES_PATH = '/console/mandates';
const WIZARD_PATH = `${MANDATES_PATH}/new`;
type Step = TermStep | 'review';
const STEPS = [...TERM_STEPS, 'review'] as const;

/** The fields that each step asks for; all others are carried along. */
const FIELDS: Readonly<Record<TermStep, readonly string[]>> = {
  agent: ['name', 'agent_kind', 'agent_did'],
  actions: ['scope'],
  limits: ['per_action', 'per_month', 'threshold', 'currency', 'time_zone'],
  conditions: ['counterparties', 'valid_day', 'valid_time', 'max_uses'],
};

/** Writing a mandate: one question a page; answers travel in the form, and nothing is saved before the end. */
export const mandateWizardPages = [
  get('/mandates/new', async (visit) => stepPage(visit, 'agent', emptyForm(beginning(visit)))),
  post('/mandates/new', next),
];

function beginning({ language }: SignedInVisit): Record<string, string> {
  return { agent_kind: 'custody', currency: 'EUR', time_zone: language === 'de' ? 'Europe/Berlin' : 'UTC' };
}

async function next(visit: SignedInVisit): Promise<Answer> {
  const given = formValues(visit);
  const values = carriedValues(given);
  const step = STEPS.find((one) => one === given['step']) ?? 'agent';
  const go = given['go'] ?? 'next';
  const elsewhere = TERM_STEPS.find((one) => go === `to-${one}`);
  if (elsewhere !== undefined) return stepPage(visit, elsewhere, emptyForm(values));
  if (go === 'back') return stepPage(visit, before(step), emptyForm(values));
  if (step === 'review') return finish(visit, values, given[FACTOR_FIELD], go === 'activate');
  const refused = await refusedStep(visit, step, values);
  if (refused !== null) return stepPage(visit, step, refused, 422);
  const following = STEPS[STEPS.indexOf(step) + 1] ?? 'review';
  return following === 'review' ? review(visit, values) : stepPage(visit, following, emptyForm(values));
}

function before(step: Step): TermStep {
  return TERM_STEPS[Math.max(0, STEPS.indexOf(step) - 1)] ?? 'agent';
}

/** The step again with what is wrong in it; null where nothing is. */
async function refusedStep(
  visit: SignedInVisit,
  step: TermStep,
  values: Readonly<Record<string, string>>,
): Promise<FormState | null> {
  const { errors, input } = await readTerms(visit, values, [step]);
  if (Object.keys(errors).length > 0) return { values, errors };
  if (step !== 'limits' || input.time_zone === undefined) return null;
  try {
    await knownTimeZone(visit.deps.sql, input.time_zone);
    return null;
  } catch (error) {
    return refusedTerms(visit, values, error);
  }
}

/** Everything is read again at the end: what was carried along may be anybody's. */
async function completed(
  visit: SignedInVisit,
  values: Readonly<Record<string, string>>,
): Promise<{ readonly input: MandateInput; readonly terms: WordedTerms } | PageAnswer> {
  for (const step of TERM_STEPS) {
    const refused = await refusedStep(visit, step, values);
    if (refused !== null) return stepPage(visit, step, refused, 422);
  }
  const { input } = await readTerms(visit, values);
  const complete = completeInput(input);
  if (complete === null) {
    const errors = { name: visit.words.wizard.problems.other };
    return stepPage(visit, 'agent', { values, errors }, 422);
  }
  return { input: complete, terms: wordedTerms(complete, visit.session.nowMs) };
}

async function review(
  visit: SignedInVisit,
  values: Readonly<Record<string, string>>,
  more: { readonly status?: number; readonly above?: Fragment; readonly errors?: FormState['errors'] } = {},
): Promise<Answer> {
  const made = await completed(visit, values);
  if ('kind' in made) return made;
  const { words } = visit;
  const text = words.wizard;
  const changes = TERM_STEPS.map((step) => goButton(`to-${step}`, text.change(text.names[step]), 'small'));
  const body = [
    html`<input type="hidden" name="step" value="review">${hiddenFields(values, TERM_FIELDS)}`,
    wordingView(visit, made.terms),
    factorField(visit, { values: {}, errors: more.errors ?? {} }),
    html`<div class="actions">${goButton('activate', text.activate, 'primary')}${goButton('draft', text.draft)}</div>
<div class="actions">${changes}</div>`,
  ];
  const parts = [more.above ?? null, remarks(words, made.terms)];
  const shown = card(made.input.name, form(visit, WIZARD_PATH, body), text.leads.review);
  return framed(visit, 'review', [parts, shown], more.status ?? 200);
}

async function finish(
  visit: SignedInVisit,
  values: Readonly<Record<string, string>>,
  code: string | undefined,
  activate: boolean,
): Promise<Answer> {
  const { deps, session, words } = visit;
  const made = await completed(visit, values);
  if ('kind' in made) return made;
  const wording = wordingSeen(formValues(visit), made.terms);
  const stale = () => review(visit, values, { status: 409, above: notice('warn', words.wizard.wordingStale) });
  if (wording === null) return stale();
  if (activate && !(await takeFactor(visit, code))) {
    return review(visit, values, { status: 422, errors: { [FACTOR_FIELD]: words.mandates.factorProblem } });
  }
  try {
    const input: MandateInput = { ...made.input, activate, wording };
    const id = await deps.commands.command(session.accountId, (context) => createMandate(context, deps.custody, input));
    return seeOther(`${MANDATES_PATH}/${id}`, activate ? 'mandates.activated' : 'mandates.created');
  } catch (error) {
    if (error instanceof ProblemError && error.code === 'conflict') {
      if (error.detail !== MANDATES_FULL) return stale();
      return review(visit, values, { status: 409, above: notice('warn', serviceText(words, MANDATES_FULL)) });
    }
    return stepPage(visit, 'conditions', refusedTerms(visit, values, error), 422);
  }
}

async function stepPage(visit: SignedInVisit, step: TermStep, state: FormState, status = 200): Promise<PageAnswer> {
  const text = visit.words.wizard;
  const own = new Set(FIELDS[step]);
  const fields = {
    agent: () => agentFields(visit, state),
    actions: async () => actionFields(visit, state, await foundActions(visit.deps.sql, visit.session.accountId)),
    limits: () => limitFields(visit, state, false),
    conditions: () => conditionFields(visit, state),
  };
  const others = TERM_FIELDS.filter((name) => !own.has(name));
  const body = [
    html`<input type="hidden" name="step" value="${step}">${hiddenFields(state.values, others)}`,
    await fields[step](),
    html`<div class="actions">${goButton('next', text.next, 'primary')}${
      step === 'agent' ? null : goButton('back', text.back)
    }</div>`,
  ];
  return framed(visit, step, card(text.names[step], form(visit, WIZARD_PATH, body), text.leads[step]), status);
}

function framed(visit: SignedInVisit, step: Step, body: Fragment, status: number): PageAnswer {
  const { words } = visit;
  const text = words.wizard;
  const at = STEPS.indexOf(step) + 1;
  const title = `${text.title}: ${text.names[step]}`;
  const lead = text.step(at, STEPS.length);
  const shown = column(
    crumbs(words.mandates.title, MANDATES_PATH),
    heading(text.title, lead),
    progress(text, at),
    body,
  );
  return page('mandates', title, shown, { status });
}

function progress(text: Words['wizard'], at: number): Html {
  const items = STEPS.map((step, index) => {
    const place = index + 1 === at ? 'now' : index + 1 < at ? 'done' : '';
    const given = attributes({ class: place, 'aria-current': index + 1 === at ? 'step' : null });
    return html`<li ${given}><span>${text.names[step]}</span></li>`;
  });
  return html`<nav aria-label="${text.progress}"><ol class="progress">${items}</ol></nav>`;
}

/** What is allowed but hardly meant. */
export function remarks(
  { wizard: { remarks: text } }: Words,
  { per_action: action, per_month: month, escalation_threshold: threshold }: WordedTerms,
): Fragment {
  const said = [
    threshold !== null && threshold >= action ? text.threshold : null,
    threshold === 0 && action > 0 ? text.everything : null,
    month < action ? text.month : null,
  ].filter((one) => one !== null);
  if (said.length === 0) return null;
  return notice('info', text.title, html`<ul>${said.map((one) => html`<li>${one}</li>`)}</ul>`);
}
