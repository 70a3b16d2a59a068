import { z } from 'zod';
import { API_SCOPES, type ApiScope } from '../../../core/api-scopes.ts';
import { DecimalText } from '../../../core/body-value.ts';
import { ProblemError } from '../../../core/errors.ts';
import { newSecretToken } from '../../../core/secret-token.ts';
import { keyChange, keyInput } from '../../keys/input.ts';
import { changeKey, createKey, KEY_RATES, type KeyRecord, readKey, readKeys, revokeKey } from '../../keys/store.ts';
import { formValues, readForm, ticked } from '../form.ts';
import { type Html, html } from '../html.ts';
import { checkGroup, emptyForm, type FormState, form, submit, textField } from '../parts/form-parts.ts';
import {
  badge,
  buttonLink,
  card,
  column,
  crumbs,
  emptyState,
  heading,
  notice,
  secretLine,
  table,
} from '../parts/page-parts.ts';
import { moment } from '../parts/time.ts';
import { idOf } from '../path-id.ts';
import { type Answer, get, type PageAnswer, page, post, type SignedInVisit, seeOther } from '../visit.ts';

const KEYS_PATH = '/console/keys';
const RATE_NAMES = ['verify_per_second', 'verify_burst', 'management_per_second', 'management_burst'] as const;
type RateName = (typeof RATE_NAMES)[number];

/** API keys: list, make, show once, revoke. */
export const keyPages = [
  get('/keys', list),
  get('/keys/new', async (visit) => newKeyPage(visit, emptyForm(rateTexts(KEY_RATES)))),
  post('/keys', create),
  get('/keys/:id/change', async (visit) => {
    const key = await activeKey(visit);
    return changePage(visit, key, emptyForm({ name: key.name, ...rateTexts(key) }));
  }),
  post('/keys/:id/change', change),
  get('/keys/:id/revoke', async (visit) => revokePage(visit, await activeKey(visit))),
  post('/keys/:id/revoke', async (visit) => {
    const id = idOf(visit, 'key');
    await visit.deps.commands.command(visit.session.accountId, (context) => revokeKey(context, id));
    return seeOther(KEYS_PATH, 'keys.revoked');
  }),
];

async function list(visit: SignedInVisit): Promise<Answer> {
  const { words, deps, session } = visit;
  const text = words.keys;
  const keys = await readKeys(deps.sql, session.accountId, null);
  const create = buttonLink(text.create, `${KEYS_PATH}/new`, true);
  const body =
    keys.length === 0
      ? column(heading(text.title, text.lead), emptyState(text.emptyTitle, text.emptyText, create))
      : column(heading(text.title, text.lead, create), keysTable(visit, keys));
  return page('keys', text.title, body);
}

function keysTable({ words, language }: SignedInVisit, keys: readonly KeyRecord[]): Html {
  const text = words.keys;
  const rows = keys.map((key) => {
    const active = key.status === 'active';
    const change = html`<a class="button small" href="${KEYS_PATH}/${key.key_id}/change">${text.change}<span
class="hidden"> ${key.name}</span></a>`;
    const revoke = html`<a class="button small danger" href="${KEYS_PATH}/${key.key_id}/revoke">${text.revoke}<span
class="hidden"> ${key.name}</span></a>`;
    return [
      html`${key.name}<br><code class="small muted">${key.key_id}</code>`,
      badge(active ? 'good' : 'plain', text.statuses[key.status]),
      html`<span class="small">${key.scopes.join(', ')}</span>`,
      html`<span class="small number">${text.rateText(
        String(key.verify_per_second),
        String(key.management_per_second),
      )}</span>`,
      moment(language, key.created_at),
      key.last_used_at === null ? text.never : moment(language, key.last_used_at),
      active ? html`<div class="actions">${change}${revoke}</div>` : null,
    ];
  });
  const columns = [
    { label: text.name, kind: 'main' },
    { label: text.status },
    { label: text.scopes },
    { label: text.rate },
    { label: text.created },
    { label: text.lastUsed },
    { label: '', kind: 'end' },
  ] as const;
  return table(text.title, columns, rows);
}

function newKeyPage(visit: SignedInVisit, state: FormState, status = 200): PageAnswer {
  const { words } = visit;
  const text = words.keys;
  const boxes = API_SCOPES.map((scope: ApiScope) => ({
    name: `scopes[${scope}]`,
    label: html`<code>${scope}</code>`,
    hint: text.scopeTexts[scope],
  }));
  const fields = [
    textField(state, 'name', { label: text.name, hint: text.nameHint, required: true, maxlength: 200 }),
    checkGroup(state, 'scopes', text.scopes, boxes, text.scopesHint),
    rateFields(visit, state),
    submit(text.createSubmit),
  ];
  const body = column(
    crumbs(text.title, KEYS_PATH),
    heading(text.createTitle, text.createLead),
    html`<section class="card">${form(visit, KEYS_PATH, fields)}</section>`,
  );
  return page('keys', text.createTitle, body, { status });
}

async function create(visit: SignedInVisit): Promise<Answer> {
  const { words, deps, session } = visit;
  const values = formValues(visit);
  const schema = z
    .object({ name: z.string().trim().min(1, words.keys.nameProblem) })
    .catchall(z.string())
    .transform(({ name }) => ({ name, scopes: ticked(values, 'scopes'), ...ratesIn(values) }));
  const read = readForm(visit, schema);
  if (!read.ok) return newKeyPage(visit, read.state, 422);
  const input = keyInput.safeParse(read.value);
  if (!input.success) {
    const wrong = new Set(input.error.issues.map(({ path }) => path[0]));
    const errors = {
      ...(wrong.has('name') ? { name: words.keys.nameProblem } : {}),
      ...(wrong.has('scopes') ? { scopes: words.keys.scopesProblem } : {}),
      ...rateErrors(visit, wrong),
    };
    return newKeyPage(visit, { values, errors }, 422);
  }
  const token = newSecretToken('mak');
  const key = await deps.commands.command(session.accountId, (context) => createKey(context, input.data, token));
  return madePage(visit, key, token);
}

/** The key that the path names; @throws ProblemError 404 where it is revoked as well */
async function activeKey(visit: SignedInVisit): Promise<KeyRecord> {
  const key = await readKey(visit.deps.sql, visit.session.accountId, idOf(visit, 'key'));
  if (key.status === 'active') return key;
  throw new ProblemError('not_found', 'This key is revoked.');
}

function rateTexts(rates: Readonly<Record<RateName, number>>): Record<string, string> {
  return Object.fromEntries(RATE_NAMES.map((name) => [name, String(rates[name])]));
}

/** The rates that a form names; an empty field says nothing. */
function ratesIn(values: Readonly<Record<string, string>>): Partial<Record<RateName, DecimalText>> {
  const given = RATE_NAMES.filter((name) => (values[name] ?? '') !== '');
  return Object.fromEntries(given.map((name) => [name, new DecimalText(values[name] ?? '')]));
}

function rateErrors({ words }: SignedInVisit, wrong: ReadonlySet<PropertyKey | undefined>): Record<string, string> {
  return Object.fromEntries(RATE_NAMES.filter((name) => wrong.has(name)).map((name) => [name, words.keys.rateProblem]));
}

function rateFields({ words }: SignedInVisit, state: FormState): Html {
  const text = words.keys;
  const fields = RATE_NAMES.map((name) =>
    textField(state, name, { label: text.rates[name], inputmode: 'numeric', maxlength: 7 }),
  );
  return html`<fieldset class="field"><legend>${text.rate}</legend><p class="hint">${text.rateHint}</p>
<div class="pair">${fields}</div></fieldset>`;
}

function changePage(visit: SignedInVisit, key: KeyRecord, state: FormState, status = 200): PageAnswer {
  const { words } = visit;
  const text = words.keys;
  const title = text.changeTitle(key.name);
  const fields = [
    textField(state, 'name', { label: text.name, hint: text.nameHint, required: true, maxlength: 200 }),
    rateFields(visit, state),
    html`<div class="actions"><button type="submit" class="button primary">${text.changeSubmit}</button>
${buttonLink(words.shell.cancel, KEYS_PATH)}</div>`,
  ];
  const framed = html`<section class="card">${form(visit, `${KEYS_PATH}/${key.key_id}/change`, fields)}</section>`;
  return page('keys', title, column(crumbs(text.title, KEYS_PATH), heading(title, text.changeLead), framed), {
    status,
  });
}

async function change(visit: SignedInVisit): Promise<Answer> {
  const { words, deps, session } = visit;
  const key = await activeKey(visit);
  const values = formValues(visit);
  const input = keyChange.safeParse({ name: (values['name'] ?? '').trim(), ...ratesIn(values) });
  if (!input.success) {
    const wrong = new Set(input.error.issues.map(({ path }) => path[0]));
    const named = wrong.has('name') ? { name: words.keys.nameProblem } : {};
    return changePage(visit, key, { values, errors: { ...named, ...rateErrors(visit, wrong) } }, 422);
  }
  await deps.commands.command(session.accountId, (context) => changeKey(context, key.key_id, input.data));
  return seeOther(KEYS_PATH, 'keys.changed');
}

/** The only page that ever holds the key: the answer to the post that made it. */
function madePage({ words }: SignedInVisit, key: KeyRecord, token: string): PageAnswer {
  const text = words.keys;
  const body = column(
    heading(text.madeTitle),
    notice('warn', text.madeLead),
    card(key.name, secretLine('new-key', token, words.shell)),
    html`<div class="actions">${buttonLink(text.done, KEYS_PATH, true)}</div>`,
  );
  return page('keys', text.madeTitle, body);
}

function revokePage(visit: SignedInVisit, key: KeyRecord): PageAnswer {
  const { words } = visit;
  const text = words.keys;
  const title = text.revokeTitle(key.name);
  const body = column(
    crumbs(text.title, KEYS_PATH),
    heading(title),
    notice('warn', text.revokeText),
    form(visit, `${KEYS_PATH}/${key.key_id}/revoke`, [
      html`<div class="actions"><button type="submit" class="button danger primary">${text.revokeSubmit}</button>
${buttonLink(words.shell.cancel, KEYS_PATH)}</div>`,
    ]),
  );
  return page('keys', title, body);
}
