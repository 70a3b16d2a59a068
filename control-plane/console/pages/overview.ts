import { type Html, html } from '../html.ts';
import { buttonLink, card, column, heading } from '../parts/page-parts.ts';
import { type Answer, get, page, type SignedInVisit } from '../visit.ts';
import { stopNotice } from './stop.ts';

/** The page after the sign-in. */
export const overviewPages = [get('/', overview)];

interface Progress {
  readonly mandates: boolean;
  readonly gateways: boolean;
  readonly decisions: boolean;
  readonly pending: number;
}

async function overview(visit: SignedInVisit): Promise<Answer> {
  const { words, deps, session } = visit;
  const [row] = await deps.sql<Progress[]>`
    select exists (select from mandates where account_id = ${session.accountId}) as mandates,
      exists (select from gateway_instances where account_id = ${session.accountId}) as gateways,
      exists (
        select from evidence where account_id = ${session.accountId} and kind = 'decision') as decisions,
      (select count(*) from escalations where account_id = ${session.accountId} and status = 'pending'
        and expires_at > db_clock()) as pending`;
  const progress = row ?? { mandates: false, gateways: false, decisions: false, pending: 0 };
  const complete = progress.mandates && progress.gateways && progress.decisions;
  const stopLink = html`<a class="button danger" href="/console/stop">${words.stop.menu}</a>`;
  const body = column(
    heading(words.overview.title, words.overview.lead, stopLink),
    await stopNotice(visit),
    complete ? null : firstSteps(visit, progress),
    waiting(visit, Number(progress.pending)),
  );
  return page('overview', words.overview.title, body);
}

function firstSteps({ words }: SignedInVisit, progress: Progress): Html {
  const { steps, start, startLead } = words.overview;
  const step = (
    done: boolean,
    title: string,
    text: string,
    action: Html | null,
  ) => html`<li class="${done ? 'done' : ''}">
<div><h3>${title}</h3><p class="muted">${text}</p></div>${done ? null : action}</li>`;
  const items = [
    step(true, steps.secondFactor, steps.secondFactorText, null),
    step(
      progress.mandates,
      steps.mandate,
      steps.mandateText,
      buttonLink(steps.mandateAction, '/console/mandates/new', true),
    ),
    step(
      progress.gateways,
      steps.gateway,
      steps.gatewayText,
      buttonLink(steps.gatewayAction, '/console/gateways/new', progress.mandates),
    ),
    step(progress.decisions, steps.request, steps.requestText, buttonLink(steps.requestAction, '/console/evidence')),
  ];
  return card(start, html`<ol class="steps">${items}</ol>`, startLead);
}

function waiting({ words }: SignedInVisit, pending: number): Html {
  const { overview: text } = words;
  if (pending === 0) return card(text.waiting, html`<p class="muted">${text.waitingNone}</p>`);
  const link = html`<div class="actions">${buttonLink(text.waitingAction, '/console/approvals', true)}</div>`;
  return card(text.waiting, html`<p>${text.waitingText(pending)}</p>${link}`);
}
