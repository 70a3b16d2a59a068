import { ProblemError } from '../../../core/errors.ts';
import { reasonText } from '../../mandates/input.ts';
import { type CountedMandates, readStop, resumeAccount, type StopView, stopAccount } from '../../mandates/stop.ts';
import { formValues } from '../form.ts';
import { type Fragment, type Html, html } from '../html.ts';
import { emptyForm, type FormState, form, submit, textField } from '../parts/form-parts.ts';
import { buttonLink, card, column, crumbs, heading, notice } from '../parts/page-parts.ts';
import { CONSOLE_PREFIX } from '../paths.ts';
import { FACTOR_FIELD, factorField, takeFactor } from '../session.ts';
import { type Answer, get, type PageAnswer, page, post, type SignedInVisit, seeOther } from '../visit.ts';

const STOP_PATH = `${CONSOLE_PREFIX}/stop`;
type Step = 'stop' | 'resume';
const PAGES = { stop: stopPage, resume: resumePage } as const;

/** The kill switch of the whole account, and the way back. */
export const stopPages = [
  get('/stop', async (visit) => stopPage(visit, emptyForm())),
  post('/stop', (visit) => run(visit, 'stop')),
  get('/stop/resume', async (visit) => resumePage(visit, emptyForm())),
  post('/stop/resume', (visit) => run(visit, 'resume')),
];

/** Says on other pages that the account is stopped; nothing where it is not. */
export async function stopNotice({ words, deps, session }: SignedInVisit): Promise<Fragment> {
  const { stopped } = await readStop(deps.sql, session.accountId);
  if (stopped.count === 0) return null;
  const text = words.stop;
  const link = html`<p>${text.stoppedText(stopped.count)} <a href="${STOP_PATH}">${text.look}</a></p>`;
  return notice('bad', text.stopped, link);
}

async function run(visit: SignedInVisit, step: Step): Promise<Answer> {
  const { words, deps, session } = visit;
  const values = formValues(visit);
  const reason = (values['reason'] ?? '').trim();
  const refused = (errors: FormState['errors']) => PAGES[step](visit, { values, errors }, 422);
  if (reason !== '' && !reasonText.safeParse(reason).success) return refused({ reason: words.mandates.reasonProblem });
  if (!(await takeFactor(visit, values[FACTOR_FIELD])))
    return refused({ [FACTOR_FIELD]: words.mandates.factorProblem });
  const move = step === 'stop' ? stopAccount : resumeAccount;
  try {
    await deps.commands.command(session.accountId, (context) => move(context, reason === '' ? null : reason));
  } catch (error) {
    if (error instanceof ProblemError && error.code === 'conflict') return seeOther(STOP_PATH, 'stop.nothing');
    throw error;
  }
  return seeOther(STOP_PATH, step === 'stop' ? 'stop.stopped' : 'stop.resumed');
}

async function stopPage(visit: SignedInVisit, state: FormState, status = 200): Promise<PageAnswer> {
  const { words, deps, session } = visit;
  const text = words.stop;
  const view = await readStop(deps.sql, session.accountId);
  const stopped = view.stopped.count;
  const resume = html`<p>${text.stoppedText(stopped)}</p><div class="actions">${buttonLink(
    text.resumeSubmit,
    `${STOP_PATH}/resume`,
    true,
  )}</div>`;
  const body = column(
    heading(text.title, text.lead),
    stopped === 0 ? null : notice('bad', text.stopped, resume),
    view.active.count > 0 ? stopCard(visit, view, state) : stopped > 0 ? null : notice('info', text.none),
  );
  return page('account', text.title, body, { status });
}

async function resumePage(visit: SignedInVisit, state: FormState, status = 200): Promise<PageAnswer> {
  const { words, deps, session } = visit;
  const text = words.stop;
  const { stopped } = await readStop(deps.sql, session.accountId);
  const fields = [reasonField(visit, state), factorField(visit, state), submit(text.resumeSubmit)];
  const body = column(
    crumbs(text.title, STOP_PATH),
    heading(text.resumeTitle, text.resumeText),
    stopped.count === 0
      ? notice('info', text.nothingStopped)
      : html`<section class="card">${names(text.listStopped, stopped)}${form(
          visit,
          `${STOP_PATH}/resume`,
          fields,
        )}</section>`,
  );
  return page('account', text.resumeTitle, body, { status });
}

function reasonField({ words: { mandates: text } }: SignedInVisit, state: FormState): Html {
  return textField(state, 'reason', { label: text.reason, hint: text.reasonHint, maxlength: 500 });
}

function stopCard(visit: SignedInVisit, { active }: StopView, state: FormState): Html {
  const { words } = visit;
  const { effects, ...text } = words.stop;
  const lines = [effects.suspended(active.count), effects.denied, effects.approvals, effects.running, effects.back];
  const fields = [reasonField(visit, state), factorField(visit, state), submit(text.submit, 'danger primary')];
  return card(
    text.what,
    html`<ul>${lines.map((line) => html`<li>${line}</li>`)}</ul>${names(text.listActive, active)}${form(
      visit,
      STOP_PATH,
      fields,
    )}`,
  );
}

function names(title: string, all: CountedMandates): Html {
  const shown = all.names.map((name) => html`<li>${name}</li>`);
  const more = all.count > all.names.length ? html`<li>…</li>` : null;
  return html`<div class="stack"><h3>${title}</h3><ul>${shown}${more}</ul></div>`;
}
