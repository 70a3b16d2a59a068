import { z } from 'zod';
import { ProblemError } from '../../../core/errors.ts';
import { isTypeId } from '../../../core/type-id.ts';
import type { CommandContext } from '../../decisions/command.ts';
import { checkedEndpointUrl } from '../../notifications/endpoint-url.ts';
import {
  createEndpoint,
  deleteEndpoint,
  type EndpointRecord,
  readEndpoint,
  replay,
  rotateSecret,
  sendTest,
  setEndpointStatus,
} from '../../notifications/endpoints.ts';
import { EVENT_TYPES } from '../../notifications/event-types.ts';
import { endpointInput } from '../../notifications/input.ts';
import { newWebhookKey, webhookSecret } from '../../notifications/signature.ts';
import { formValues, readForm, ticked } from '../form.ts';
import { type Html, html } from '../html.ts';
import { checkGroup, emptyForm, type FormState, form, submit, textField } from '../parts/form-parts.ts';
import { buttonLink, card, column, crumbs, heading, notice, secretLine } from '../parts/page-parts.ts';
import { idOf } from '../path-id.ts';
import { type Answer, type Flash, get, type PageAnswer, page, post, type SignedInVisit, seeOther } from '../visit.ts';
import { eventBoxes, SETTINGS_PATH, WEBHOOKS_PATH } from './settings.ts';
import { deliveryPage, verifyCard, webhookPage } from './webhook-view.ts';

/** Webhooks: made, tried, watched, given a new secret, switched and deleted. */
export const webhookPages = [
  get('/settings/webhooks/new', async (visit) => newPage(visit, emptyForm(everyEvent()))),
  post('/settings/webhooks', create),
  get('/settings/webhooks/:id', async (visit) => webhookPage(visit, await existing(visit))),
  post('/settings/webhooks/:id/test', async (visit) =>
    step(visit, 'notifications.tested', (context, id) => sendTest(context, id)),
  ),
  get('/settings/webhooks/:id/deliveries/:delivery', async (visit) =>
    deliveryPage(visit, await existing(visit), deliveryOf(visit)),
  ),
  post('/settings/webhooks/:id/deliveries/:delivery/replay', async (visit) => {
    const delivery = deliveryOf(visit);
    return await step(visit, 'notifications.replayed', (context, id) => replay(context, id, delivery));
  }),
  get('/settings/webhooks/:id/rotate', async (visit) => askPage(visit, await existing(visit), 'rotate')),
  post('/settings/webhooks/:id/rotate', rotate),
  post('/settings/webhooks/:id/disable', async (visit) =>
    step(visit, 'notifications.disabled', (context, id) => setEndpointStatus(context, id, 'disabled')),
  ),
  post('/settings/webhooks/:id/enable', async (visit) =>
    step(visit, 'notifications.enabled', (context, id) => setEndpointStatus(context, id, 'active')),
  ),
  get('/settings/webhooks/:id/delete', async (visit) => askPage(visit, await existing(visit), 'delete')),
  post('/settings/webhooks/:id/delete', async (visit) => {
    const id = idOf(visit, 'whk');
    await visit.deps.commands.command(visit.session.accountId, (context) => deleteEndpoint(context, id));
    return seeOther(SETTINGS_PATH, 'notifications.removed');
  }),
];

function everyEvent(): Record<string, string> {
  return Object.fromEntries(EVENT_TYPES.map((type) => [`events[${type}]`, 'on']));
}

function existing(visit: SignedInVisit): Promise<EndpointRecord> {
  return readEndpoint(visit.deps.sql, visit.session.accountId, idOf(visit, 'whk'));
}

function deliveryOf({ request }: SignedInVisit): string {
  const { delivery } = request.params as { readonly delivery?: unknown };
  if (isTypeId(delivery, 'dlv')) return delivery;
  throw new ProblemError('not_found', 'There is no such delivery.');
}

/** Does something with a webhook and goes back to it; what does not fit its present state is said. */
async function step(
  visit: SignedInVisit,
  flash: Flash,
  run: (context: CommandContext, id: string) => Promise<unknown>,
): Promise<Answer> {
  const { deps, session, words } = visit;
  const id = idOf(visit, 'whk');
  const path = `${WEBHOOKS_PATH}/${id}`;
  try {
    await deps.commands.command(session.accountId, (context) => run(context, id));
    return seeOther(path, flash);
  } catch (error) {
    if (!(error instanceof ProblemError) || error.code !== 'conflict') throw error;
    const above = notice('warn', words.notifications.refusedTitle, words.notifications.refusedStatus);
    return await webhookPage(visit, await existing(visit), { status: 409, above });
  }
}

function newPage(visit: SignedInVisit, state: FormState, status = 200): PageAnswer {
  const { words } = visit;
  const text = words.notifications;
  const fields = [
    textField(state, 'name', { label: text.name, hint: text.nameHint, required: true, maxlength: 200 }),
    textField(state, 'url', { label: text.url, hint: text.urlHint, required: true, code: true, maxlength: 2_048 }),
    checkGroup(state, 'events', text.events, eventBoxes(words, 'events')),
    submit(text.createSubmit),
  ];
  const body = column(
    crumbs(text.title, SETTINGS_PATH),
    heading(text.createTitle, text.createLead),
    html`<section class="card">${form(visit, WEBHOOKS_PATH, fields)}</section>`,
  );
  return page('settings', text.createTitle, body, { status });
}

async function create(visit: SignedInVisit): Promise<Answer> {
  const { words, deps, session } = visit;
  const text = words.notifications;
  const values = formValues(visit);
  const schema = z
    .object({ name: z.string().trim().min(1, text.nameProblem), url: z.string().trim().min(1, text.urlProblem) })
    .catchall(z.string())
    .transform(({ name, url }) => ({ name, url, events: ticked(values, 'events') }));
  const read = readForm(visit, schema);
  if (!read.ok) return newPage(visit, read.state, 422);
  const input = endpointInput.safeParse(read.value);
  if (!input.success) {
    const wrong = new Set(input.error.issues.map(({ path }) => path[0]));
    const errors = {
      ...(wrong.has('name') ? { name: text.nameProblem } : {}),
      ...(wrong.has('events') ? { events: text.eventsProblem } : {}),
    };
    return newPage(visit, { values, errors }, 422);
  }
  try {
    const url = await checkedEndpointUrl(input.data.url, deps.allowPrivateTargets);
    const key = newWebhookKey();
    const made = await deps.commands.command(session.accountId, (context) =>
      createEndpoint(context, deps.custody, { ...input.data, url }, key),
    );
    return secretPage(visit, made, { secret: webhookSecret(key), lead: text.secretLead });
  } catch (error) {
    if (!(error instanceof ProblemError)) throw error;
    if (error.code === 'conflict') return newPage(visit, { values, errors: { name: text.full } }, 422);
    if (error.code !== 'invalid') throw error;
    const why = error.fields.map(({ message }) => message).join('; ');
    return newPage(visit, { values, errors: { url: `${text.urlProblem} (${why})` } }, 422);
  }
}

async function rotate(visit: SignedInVisit): Promise<Answer> {
  const { words, deps, session } = visit;
  const [id, key] = [idOf(visit, 'whk'), newWebhookKey()];
  const rotated = await deps.commands.command(session.accountId, (context) =>
    rotateSecret(context, deps.custody, id, key),
  );
  return secretPage(visit, rotated, { secret: webhookSecret(key), lead: words.notifications.rotatedLead });
}

/** The only page that ever holds a secret: the answer to the post that made it. */
function secretPage(
  { words }: SignedInVisit,
  made: EndpointRecord,
  { secret, lead }: { readonly secret: string; readonly lead: string },
): PageAnswer {
  const text = words.notifications;
  const done = buttonLink(text.done, `${WEBHOOKS_PATH}/${made.endpoint_id}`, true);
  const body = column(
    heading(text.secretTitle),
    notice('warn', lead),
    card(made.name, secretLine('webhook-secret', secret, words.shell)),
    verifyCard(words),
    html`<div class="actions">${done}</div>`,
  );
  return page('settings', text.secretTitle, body);
}

/** What a new secret or the deletion means, before it happens. */
function askPage(visit: SignedInVisit, endpoint: EndpointRecord, what: 'rotate' | 'delete'): PageAnswer {
  const { words } = visit;
  const text = words.notifications;
  const path = `${WEBHOOKS_PATH}/${endpoint.endpoint_id}`;
  const rotating = what === 'rotate';
  const title = rotating ? text.rotateTitle(endpoint.name) : text.removeTitle(endpoint.name);
  const label = rotating ? text.rotateSubmit : text.removeSubmit;
  const button: Html = rotating
    ? html`<button type="submit" class="button primary">${label}</button>`
    : html`<button type="submit" class="button danger primary">${label}</button>`;
  const body = column(
    crumbs(endpoint.name, path),
    heading(title),
    notice('warn', rotating ? text.rotateText : text.removeText),
    form(visit, `${path}/${what}`, html`<div class="actions">${button}${buttonLink(words.shell.cancel, path)}</div>`),
  );
  return page('settings', title, body);
}
