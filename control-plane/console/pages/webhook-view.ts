import { isTypeId } from '../../../core/type-id.ts';
import {
  type DeliveryRecord,
  type EndpointRecord,
  readDeliveries,
  readDelivery,
} from '../../notifications/endpoints.ts';
import { type Fragment, type Html, html } from '../html.ts';
import { buttonForm } from '../parts/form-parts.ts';
import { inertText } from '../parts/inert-text.ts';
import {
  badge,
  buttonLink,
  card,
  column,
  crumbs,
  facts,
  heading,
  pager,
  type Tone,
  table,
} from '../parts/page-parts.ts';
import { moment } from '../parts/time.ts';
import { type PageAnswer, page, type SignedInVisit } from '../visit.ts';
import type { Words } from '../words.ts';
import { SETTINGS_PATH, WEBHOOKS_PATH, webhookBadge } from './settings.ts';

const DELIVERIES_PAGE = 30;

/** One webhook: what it is, what can be done with it, and what was sent to it. */
export async function webhookPage(
  visit: SignedInVisit,
  endpoint: EndpointRecord,
  { status = 200, above = null }: { readonly status?: number; readonly above?: Fragment } = {},
): Promise<PageAnswer> {
  const { words, deps, session, request } = visit;
  const text = words.notifications;
  const { before: given } = request.query as { readonly before?: unknown };
  const after = isTypeId(given, 'dlv') ? given : null;
  const where = { endpointId: endpoint.endpoint_id, state: null, after, limit: DELIVERIES_PAGE + 1 };
  const found = await readDeliveries(deps.sql, session.accountId, where);
  const shown = found.slice(0, DELIVERIES_PAGE);
  const path = `${WEBHOOKS_PATH}/${endpoint.endpoint_id}`;
  const last = shown.at(-1);
  const older =
    found.length > DELIVERIES_PAGE && last !== undefined
      ? { label: text.older, path: `${path}?before=${last.delivery_id}` }
      : null;
  const list = shown.length === 0 ? html`<p class="muted">${text.deliveriesNone}</p>` : deliveries(visit, path, shown);
  const body = column(
    crumbs(text.title, SETTINGS_PATH),
    heading(endpoint.name, null, steps(visit, endpoint, path)),
    above,
    html`<section class="card tight">${endpointFacts(visit, endpoint)}</section>`,
    html`<section class="stack"><h2>${text.deliveriesTitle}</h2>${list}${pager(
      after === null ? null : { label: text.newest, path },
      older,
    )}</section>`,
    verifyCard(words),
  );
  return page('settings', endpoint.name, body, { status });
}

function steps(visit: SignedInVisit, { status }: EndpointRecord, path: string): Html {
  const text = visit.words.notifications;
  const active = status === 'active';
  return html`${active ? buttonForm(visit, `${path}/test`, text.test, { kind: 'primary' }) : null}
${buttonLink(text.rotate, `${path}/rotate`)}
${
  active
    ? buttonForm(visit, `${path}/disable`, text.disable)
    : buttonForm(visit, `${path}/enable`, text.enable, { kind: 'primary' })
}
<a class="button danger" href="${`${path}/delete`}">${text.remove}</a>`;
}

function endpointFacts({ words, language }: SignedInVisit, endpoint: EndpointRecord): Html {
  const text = words.notifications;
  const { disabled_cause: cause, failing_since: failing, previous_until: previous } = endpoint;
  const optional: readonly (readonly [string, number | null])[] = [
    [text.failingSince, failing],
    [text.previousUntil, previous],
  ];
  const times = optional.flatMap(([name, ms]): [string, Fragment][] =>
    ms === null ? [] : [[name, moment(language, ms)]],
  );
  return facts([
    [text.status, html`${webhookBadge(words, endpoint)} ${cause === null ? null : text.causes[cause]}`],
    [text.url, html`<code>${inertText(endpoint.url)}</code>`],
    [text.events, html`<span class="small">${endpoint.events.map((type) => text.eventTexts[type]).join(', ')}</span>`],
    ...times,
    [text.created, moment(language, endpoint.created_at)],
  ]);
}

const TONES: Readonly<Record<DeliveryRecord['state'], Tone>> = { pending: 'info', delivered: 'good', dead: 'bad' };

function deliveries(visit: SignedInVisit, path: string, found: readonly DeliveryRecord[]): Html {
  const { words, language } = visit;
  const text = words.notifications;
  const rows = found.map((one) => [
    html`<a href="${`${path}/deliveries/${one.delivery_id}`}">${eventName(words, one.type)}</a><br>
<code class="small muted">${one.type}</code>`,
    badge(TONES[one.state], text.states[one.state]),
    String(one.attempts),
    answered(words, one.last_status, one.last_error),
    one.state === 'pending' ? moment(language, one.next_at) : '–',
    moment(language, one.created_at),
  ]);
  const columns = [
    { label: text.event, kind: 'main' },
    { label: text.state },
    { label: text.attempts },
    { label: text.answer },
    { label: text.next },
    { label: text.when },
  ] as const;
  return table(text.deliveriesTitle, columns, rows);
}

function eventName({ notifications: text }: Words, type: string): string {
  const { eventTexts } = text;
  return Object.hasOwn(eventTexts, type) ? eventTexts[type as keyof typeof eventTexts] : type;
}

function answered({ notifications: text }: Words, status: number | null, error: string | null): string {
  const { errors } = text;
  const known = error !== null && Object.hasOwn(errors, error) ? errors[error as keyof typeof errors] : error;
  return [status, known].filter((part) => part !== null).join(' · ') || '–';
}

interface Attempt {
  readonly at: string;
  readonly status: number | null;
  readonly error: string | null;
  readonly latency_ms: number;
}

/** One delivery: its attempts and what was sent. */
export async function deliveryPage(
  visit: SignedInVisit,
  endpoint: EndpointRecord,
  deliveryId: string,
): Promise<PageAnswer> {
  const { words, deps, session, language } = visit;
  const text = words.notifications;
  const where = { endpointId: endpoint.endpoint_id, deliveryId };
  const found = await readDelivery(deps.sql, session.accountId, where);
  const path = `${WEBHOOKS_PATH}/${endpoint.endpoint_id}`;
  const log = found.log as readonly Attempt[];
  const rows = log.map(({ at, status, error, latency_ms: ms }) => [
    moment(language, Date.parse(at)),
    error === null ? badge('good', text.states.delivered) : badge('warn', answered(words, null, error)),
    status === null ? '–' : String(status),
    text.took(ms),
  ]);
  const columns = [
    { label: text.when, kind: 'main' },
    { label: text.state },
    { label: 'HTTP' },
    { label: '' },
  ] as const;
  const again =
    found.state === 'pending' || endpoint.status !== 'active'
      ? null
      : buttonForm(visit, `${path}/deliveries/${deliveryId}/replay`, text.replay, { kind: 'primary' });
  const title = eventName(words, found.type);
  const body = column(
    crumbs(endpoint.name, path),
    heading(title, html`${badge(TONES[found.state], text.states[found.state])} <code>${found.event_id}</code>`, again),
    html`<section class="stack"><h2>${text.log}</h2>${
      rows.length === 0 ? html`<p class="muted">${text.logNone}</p>` : table(text.log, columns, rows)
    }</section>`,
    card(
      text.payload,
      html`<pre class="request-body" tabindex="0" role="group" aria-label="${text.payload}">${inertText(
        JSON.stringify(JSON.parse(found.payload), null, 2),
        { lines: true },
      )}</pre>`,
    ),
  );
  return page('settings', title, body);
}

/** The `standardwebhooks` package does what the words say; others exist for most languages. */
const SNIPPET = `import { Webhook } from 'standardwebhooks';

const webhook = new Webhook(secret);
// Throws unless it is signed with this secret and not older than five minutes.
const event = webhook.verify(rawBody, request.headers);`;

/** How a receiver knows that a message is ours. */
export function verifyCard({ notifications: text }: Words): Html {
  const code = html`<pre tabindex="0" role="group" aria-label="${text.verifyTitle}"><code>${SNIPPET}</code></pre>`;
  return card(text.verifyTitle, html`<p>${text.verifyText}</p>${code}`);
}
