import { z } from 'zod';
import { MAIL_RECIPIENTS_MAX } from '../../../core/limits.ts';
import { type EndpointRecord, readEndpoints } from '../../notifications/endpoints.ts';
import { EVENT_TYPES } from '../../notifications/event-types.ts';
import { settingsInput } from '../../notifications/input.ts';
import { changeSettings, type NotificationSettings, readSettingsOf } from '../../notifications/settings.ts';
import { formValues, readForm, ticked } from '../form.ts';
import { type Html, html } from '../html.ts';
import {
  type CheckOption,
  check,
  checkGroup,
  emptyForm,
  type FormState,
  form,
  selectField,
  submit,
  textArea,
} from '../parts/form-parts.ts';
import { inertText } from '../parts/inert-text.ts';
import { badge, buttonLink, card, column, heading, table } from '../parts/page-parts.ts';
import { moment } from '../parts/time.ts';
import { type Answer, get, type PageAnswer, page, post, type SignedInVisit, seeOther } from '../visit.ts';
import { LANGUAGES, type Words } from '../words.ts';

/** Where settings are. */
export const SETTINGS_PATH = '/console/settings';
/** Where the webhooks among them are. */
export const WEBHOOKS_PATH = `${SETTINGS_PATH}/webhooks`;

/** What an account is told of: by e-mail, and the list of its webhooks. */
export const settingsPages = [
  get('/settings', async (visit) => {
    const settings = await readSettingsOf(visit.deps.sql, visit.session.accountId);
    return settingsPage(visit, settings.email, emptyForm(valuesOf(settings)));
  }),
  post('/settings/mail', changeMail),
];

function valuesOf({ mail, mail_events: events, recipients, language }: NotificationSettings): Record<string, string> {
  return {
    ...(mail ? { mail: 'on' } : {}),
    ...Object.fromEntries(events.map((type) => [`mail_events[${type}]`, 'on'])),
    recipients: recipients.join('\n'),
    language,
  };
}

async function settingsPage(visit: SignedInVisit, email: string, state: FormState, status = 200): Promise<PageAnswer> {
  const { words, deps, session } = visit;
  const text = words.notifications;
  const endpoints = await readEndpoints(deps.sql, session.accountId);
  const fields = [
    check(state, { name: 'mail', label: text.mailOn }),
    checkGroup(state, 'mail_events', text.mailEvents, eventBoxes(words, 'mail_events')),
    textArea(state, 'recipients', {
      label: text.recipients,
      hint: text.recipientsHint(MAIL_RECIPIENTS_MAX),
      rows: 3,
      code: true,
    }),
    selectField(state, 'language', { label: text.mailLanguage }, Object.entries(LANGUAGES)),
    submit(text.save),
  ];
  const list =
    endpoints.length === 0 ? html`<p class="muted">${text.webhooksNone}</p>` : webhooksTable(visit, endpoints);
  const body = column(
    heading(text.title, text.lead),
    card(text.mailTitle, form(visit, `${SETTINGS_PATH}/mail`, fields), text.mailLead(email)),
    html`<section class="stack">${heading2(text.webhooksTitle, text.webhooksLead)}${list}
<div class="actions">${buttonLink(text.create, `${WEBHOOKS_PATH}/new`, endpoints.length === 0)}</div></section>`,
  );
  return page('settings', text.title, body, { status });
}

function heading2(title: string, lead: string): Html {
  return html`<div><h2>${title}</h2><p class="muted">${lead}</p></div>`;
}

/** A box for every event that there is; `group` names them. */
export function eventBoxes({ notifications: text }: Words, group: string): CheckOption[] {
  return EVENT_TYPES.map((type) => ({
    name: `${group}[${type}]`,
    label: html`${text.eventTexts[type]} <code class="small muted">${type}</code>`,
  }));
}

function webhooksTable({ words, language }: SignedInVisit, endpoints: readonly EndpointRecord[]): Html {
  const text = words.notifications;
  const rows = endpoints.map((one) => [
    html`<a href="${WEBHOOKS_PATH}/${one.endpoint_id}">${inertText(one.name)}</a>`,
    html`<code class="small">${inertText(new URL(one.url).origin)}</code>`,
    webhookBadge(words, one),
    `${one.events.length}/${EVENT_TYPES.length}`,
    moment(language, one.created_at),
  ]);
  const columns = [
    { label: text.name, kind: 'main' },
    { label: text.url },
    { label: text.status },
    { label: text.events },
    { label: text.created },
  ] as const;
  return table(text.webhooksTitle, columns, rows);
}

/** Whether a webhook is on, off, or takes nothing. */
export function webhookBadge({ notifications: text }: Words, one: EndpointRecord): Html {
  if (one.status === 'disabled') return badge('plain', text.statuses.disabled);
  return one.failing_since === null ? badge('good', text.statuses.active) : badge('warn', text.statuses.active);
}

async function changeMail(visit: SignedInVisit): Promise<Answer> {
  const { words, deps, session } = visit;
  const text = words.notifications;
  const values = formValues(visit);
  const schema = z
    .object({ recipients: z.string().default(''), language: z.string(), mail: z.literal('on').optional() })
    .catchall(z.string());
  const read = readForm(visit, schema);
  const recipients = (values['recipients'] ?? '').split(/[\s,;]+/).filter((address) => address !== '');
  const input = settingsInput.safeParse({
    mail: values['mail'] === 'on',
    mail_events: ticked(values, 'mail_events'),
    recipients,
    language: values['language'],
  });
  if (!read.ok || !input.success) {
    const wrong = new Set(input.error?.issues.map(({ path }) => path[0]));
    const errors = {
      ...(wrong.has('recipients') ? { recipients: text.recipientsProblem(MAIL_RECIPIENTS_MAX) } : {}),
      ...(wrong.has('mail_events') ? { mail_events: text.eventsProblem } : {}),
      ...(wrong.has('language') ? { language: words.errors.malformed } : {}),
    };
    return await settingsPage(visit, session.email, { values, errors }, 422);
  }
  await deps.commands.command(session.accountId, (context) => changeSettings(context, input.data));
  return seeOther(SETTINGS_PATH, 'notifications.saved');
}
