import { ProblemError } from '../../../core/errors.ts';
import { nextStatus } from '../../../core/mandate.ts';
import type { Sql } from '../../db/client.ts';
import { reasonText, type StepInput } from '../../mandates/input.ts';
import { type MandateStep, moveMandate, unknownMandate } from '../../mandates/routes.ts';
import { type MandateRecord, readMandate } from '../../mandates/view.ts';
import { formValues } from '../form.ts';
import { type Fragment, html } from '../html.ts';
import { emptyForm, type FormState, form, textField } from '../parts/form-parts.ts';
import { statusName } from '../parts/mandate-status.ts';
import { money } from '../parts/money.ts';
import { buttonLink, card, column, crumbs, heading, notice } from '../parts/page-parts.ts';
import { wordingSeen, wordingView } from '../parts/wording.ts';
import { idOf } from '../path-id.ts';
import { FACTOR_FIELD, factorField, takeFactor } from '../session.ts';
import { type Answer, get, type PageAnswer, page, post, type SignedInVisit, seeOther } from '../visit.ts';

const MANDATES_PATH = '/console/mandates';
/** Gateways that are told by name. */
const GATEWAYS_NAMED_MAX = 20;

const FLASHES = {
  activate: 'mandates.activated',
  suspend: 'mandates.suspended',
  resume: 'mandates.resumed',
  revoke: 'mandates.revoked',
} as const;
const STEPS = ['activate', 'suspend', 'resume', 'revoke'] as const satisfies readonly MandateStep[];

/** The steps between a mandate's states: a page that says what follows, and its form. */
export const mandateStepPages = STEPS.flatMap((step) => [
  get(`/mandates/:id/${step}`, async (visit) => {
    const record = await recordOf(visit);
    const possible = nextStatus(record.status as 'draft', step) !== null;
    if (!possible) throw new ProblemError('conflict', notNow(visit, record));
    return confirmPage(visit, record, step);
  }),
  post(`/mandates/:id/${step}`, (visit) => take(visit, step)),
]);

/** The steps that lead on from a state, in the order of their buttons. */
export function stepsFrom(status: string): readonly MandateStep[] {
  return STEPS.filter((step) => nextStatus(status as 'draft', step) !== null);
}

async function recordOf({ deps, session, request }: SignedInVisit): Promise<MandateRecord> {
  const record = await readMandate(deps.sql, session.accountId, idOf({ request }, 'mdt'));
  if (record === undefined) throw unknownMandate();
  return record;
}

function notNow({ words }: SignedInVisit, { status }: MandateRecord): string {
  return words.mandates.notNow(statusName(words, status));
}

/** Stopping is easy on purpose; what allows something, or cannot be undone, needs a fresh second factor. */
function needsFactor(step: MandateStep): boolean {
  return step !== 'suspend';
}

async function take(visit: SignedInVisit, step: MandateStep): Promise<Answer> {
  const { words, deps, session } = visit;
  const text = words.mandates;
  const record = await recordOf(visit);
  const values = formValues(visit);
  const reason = (values['reason'] ?? '').trim();
  if (reason !== '' && !reasonText.safeParse(reason).success) {
    return confirmPage(visit, record, step, { values, errors: { reason: text.reasonProblem } }, 422);
  }
  // Whoever sends no wording was shown none; one that was shown must be the one of these terms.
  const wording = values['wording'] === undefined ? undefined : wordingSeen(values, record.terms);
  if (wording === null) {
    const above = notice('warn', text.wordingChanged);
    return confirmPage(visit, record, step, { values, errors: {} }, 409, above);
  }
  if (needsFactor(step) && !(await takeFactor(visit, values[FACTOR_FIELD]))) {
    const errors = { [FACTOR_FIELD]: text.factorProblem };
    return confirmPage(visit, record, step, { values, errors }, 422);
  }
  const given: StepInput = { ...(reason === '' ? {} : { reason }), ...(wording === undefined ? {} : { wording }) };
  const id = record.terms.mandate_id;
  try {
    await deps.commands.command(session.accountId, (context) => moveMandate(context, id, step, given));
  } catch (error) {
    if (!(error instanceof ProblemError) || error.code !== 'conflict') throw error;
    const now = await recordOf(visit);
    const above = notice(
      'warn',
      nextStatus(now.status as 'draft', step) === null ? notNow(visit, now) : text.wordingChanged,
    );
    return confirmPage(visit, now, step, { values, errors: {} }, 409, above);
  }
  return seeOther(`${MANDATES_PATH}/${id}`, FLASHES[step]);
}

async function confirmPage(
  visit: SignedInVisit,
  record: MandateRecord,
  step: MandateStep,
  state: FormState = emptyForm(),
  status = 200,
  above: Fragment = null,
): Promise<PageAnswer> {
  const { words } = visit;
  const text = words.mandates;
  const { label, title, text: consequences } = text.steps[step];
  const own = `${MANDATES_PATH}/${record.terms.mandate_id}`;
  const careful = step === 'revoke';
  const fields = [
    step === 'activate' || step === 'resume' ? wordingView(visit, record.terms) : null,
    textField(state, 'reason', { label: text.reason, hint: text.reasonHint, maxlength: 500 }),
    needsFactor(step) ? factorField(visit, state) : null,
    html`<div class="actions"><button type="submit" class="button ${careful ? 'danger primary' : 'primary'}">${
      label
    }</button>${buttonLink(words.shell.cancel, own)}</div>`,
  ];
  const body = column(
    crumbs(record.name, own),
    heading(title(record.name)),
    above,
    notice(careful ? 'bad' : step === 'suspend' ? 'warn' : 'info', consequences),
    step === 'activate' ? null : card(text.affectedTitle, await affected(visit, record)),
    html`<section class="card">${form(visit, `${own}/${step}`, fields)}</section>`,
  );
  return page('mandates', title(record.name), body, { status });
}

/** Who and what a step bears on right now. */
async function affected({ words, deps, session, language }: SignedInVisit, record: MandateRecord): Promise<Fragment> {
  const { affected: text } = words.mandates;
  const { mandate_id: id, currency } = record.terms;
  const { gateways, pending } = await affectedBy(deps.sql, session.accountId, id);
  const named = gateways.slice(0, GATEWAYS_NAMED_MAX).join(', ');
  const lines = [
    gateways.length === 0
      ? text.gatewaysNone
      : text.gateways(gateways.length > GATEWAYS_NAMED_MAX ? `${named}, …` : named),
    pending === 0 ? text.pendingNone : text.pending(pending),
    record.reserved === 0 ? text.reservedNone : text.reserved(money(language, record.reserved, currency)),
  ];
  return html`<ul>${lines.map((line) => html`<li>${line}</li>`)}</ul>`;
}

async function affectedBy(
  sql: Sql,
  accountId: string,
  id: string,
): Promise<{ readonly gateways: readonly string[]; readonly pending: number }> {
  const gateways = await sql<{ name: string }[]>`
    select name from gateway_instances where account_id = ${accountId} and mandate_id = ${id} and status = 'active'
    order by name limit ${GATEWAYS_NAMED_MAX + 1}`;
  const [row] = await sql<{ pending: number }[]>`
    select count(*) as pending from escalations
    where account_id = ${accountId} and mandate_id = ${id} and status = 'pending' and expires_at > db_clock()`;
  return { gateways: gateways.map(({ name }) => name), pending: Number(row?.pending ?? 0) };
}
