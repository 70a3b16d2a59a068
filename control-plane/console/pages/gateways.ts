import { DecimalText, fieldProblems, invalidFields } from '../../../core/body-value.ts';
import { newSecretToken } from '../../../core/secret-token.ts';
import { isTypeId } from '../../../core/type-id.ts';
import { gatewayChange, gatewayInput } from '../../gateways/input.ts';
import {
  changeGateway,
  createGateway,
  type GatewayRecord,
  listGateways,
  RATE_BURST,
  RATE_PER_SECOND,
  readGateway,
  rotateToken,
  setGatewayStatus,
} from '../../gateways/store.ts';
import { checkedTarget } from '../../gateways/target.ts';
import { countTools } from '../../gateways/tool-store.ts';
import { mandateNames, usableMandates } from '../../mandates/view.ts';
import { formValues, stateOfRefusal } from '../form.ts';
import { type Fragment, type Html, html } from '../html.ts';
import {
  buttonForm,
  emptyForm,
  type FieldOptions,
  type FormState,
  form,
  selectField,
  submit,
  textField,
} from '../parts/form-parts.ts';
import { shown } from '../parts/inert-text.ts';
import {
  badge,
  buttonLink,
  card,
  column,
  crumbs,
  emptyState,
  facts,
  heading,
  notice,
  pager,
  secretLine,
  table,
} from '../parts/page-parts.ts';
import { moment } from '../parts/time.ts';
import { copied } from '../parts/tool-parts.ts';
import { idOf } from '../path-id.ts';
import { type Answer, get, type PageAnswer, page, post, type SignedInVisit, seeOther } from '../visit.ts';

export const GATEWAYS_PATH = '/console/gateways';
/** Below the service's address, what agents put in front of every path (contract §7). */
const HTTP_PATH = '/api/gateway/http';

/** Gateway instances: list, make, show the token once, change, disable. */
export const gatewayPages = [
  get('/gateways', list),
  get('/gateways/new', async (visit) => newPage(visit, emptyForm(defaults(visit)))),
  post('/gateways', create),
  get('/gateways/:id', one),
  get('/gateways/:id/change', async (visit) => {
    const gateway = await gatewayOf(visit);
    return changePage(visit, gateway, emptyForm(valuesOf(gateway)));
  }),
  post('/gateways/:id/change', change),
  get('/gateways/:id/credential/remove', async (visit) => {
    const { gateways: text } = visit.words;
    const gateway = await gatewayOf(visit);
    return question(visit, gateway, [text.removeTitle(gateway.name), text.removeText, text.removeSubmit]);
  }),
  post('/gateways/:id/credential/remove', async (visit) => {
    const id = idOf(visit, 'gwi');
    const { deps, session } = visit;
    await deps.commands.command(session.accountId, (context) =>
      changeGateway(context, deps.custody, id, { credential: null }),
    );
    return seeOther(`${GATEWAYS_PATH}/${id}`, 'gateways.credential_removed');
  }),
  get('/gateways/:id/rotate', async (visit) => {
    const { gateways: text } = visit.words;
    const gateway = await gatewayOf(visit);
    return question(visit, gateway, [text.rotateTitle(gateway.name), text.rotateText, text.rotateSubmit]);
  }),
  post('/gateways/:id/rotate', async (visit) => {
    const [id, token] = [idOf(visit, 'gwi'), newSecretToken('gwt')];
    const { commands } = visit.deps;
    const rotated = await commands.command(visit.session.accountId, (context) => rotateToken(context, id, token));
    return tokenPage(visit, rotated, token, visit.words.gateways.rotatedTitle);
  }),
  get('/gateways/:id/disable', async (visit) => {
    const { gateways: text } = visit.words;
    const gateway = await gatewayOf(visit);
    return question(visit, gateway, [text.disableTitle(gateway.name), text.disableText, text.disableSubmit]);
  }),
  post('/gateways/:id/disable', (visit) => switchTo(visit, 'disabled')),
  post('/gateways/:id/enable', (visit) => switchTo(visit, 'active')),
];

/** The instance that the path names; @throws ProblemError 404 where it is none of this account */
export function gatewayOf(visit: SignedInVisit): Promise<GatewayRecord> {
  return readGateway(visit.deps.sql, visit.session.accountId, idOf(visit, 'gwi'));
}

async function list(visit: SignedInVisit): Promise<Answer> {
  const { words, deps, session, request } = visit;
  const text = words.gateways;
  const { after: given } = request.query as { readonly after?: unknown };
  const after = isTypeId(given, 'gwi') ? given : null;
  const { gateways, next } = await listGateways(deps.sql, session.accountId, after);
  const links = pager(
    after === null ? null : { label: text.newest, path: GATEWAYS_PATH },
    next === null ? null : { label: text.older, path: `${GATEWAYS_PATH}?after=${next}` },
  );
  const create = buttonLink(text.create, `${GATEWAYS_PATH}/new`, true);
  const body =
    gateways.length === 0 && after === null
      ? column(heading(text.title, text.lead), emptyState(text.emptyTitle, text.emptyText, create))
      : column(heading(text.title, text.lead, create), await gatewaysTable(visit, gateways), links);
  return page('gateways', text.title, body);
}

async function gatewaysTable(visit: SignedInVisit, gateways: readonly GatewayRecord[]): Promise<Html> {
  const { words, language, deps, session } = visit;
  const text = words.gateways;
  const ids = gateways.map(({ mandate_id: id }) => id);
  const names = await mandateNames(deps.sql, session.accountId, ids);
  const rows = gateways.map((gateway) => [
    html`<a href="${GATEWAYS_PATH}/${gateway.instance_id}"><bdi>${shown(gateway.name)}</bdi></a>`,
    statusBadge(visit, gateway),
    html`<bdi>${shown(names.get(gateway.mandate_id) ?? gateway.mandate_id)}</bdi>`,
    html`<code class="small">${gateway.target_url}</code>`,
    gateway.unmapped_tools === 0
      ? html`<span class="muted">0</span>`
      : html`<a href="${GATEWAYS_PATH}/${gateway.instance_id}/tools">${text.waiting(gateway.unmapped_tools)}</a>`,
    moment(language, gateway.created_at),
  ]);
  const columns = [
    { label: text.name, kind: 'main' },
    { label: text.status },
    { label: text.mandate },
    { label: text.target },
    { label: text.unmapped },
    { label: text.made },
  ] as const;
  return table(text.title, columns, rows);
}

function statusBadge({ words }: SignedInVisit, { status }: GatewayRecord): Html {
  return badge(status === 'active' ? 'good' : 'warn', words.gateways.statuses[status]);
}

/** What a new form holds: the usual rate, and the mandate whose page led here. */
function defaults({ request }: SignedInVisit): Record<string, string> {
  const { mandate } = request.query as { readonly mandate?: unknown };
  const rates = { rate_per_second: String(RATE_PER_SECOND), rate_burst: String(RATE_BURST) };
  return { ...rates, ...(typeof mandate === 'string' ? { mandate_id: mandate } : {}) };
}

function valuesOf(gateway: GatewayRecord): Record<string, string> {
  const { name, target_url, credential_header, rate_per_second, rate_burst } = gateway;
  const rates = { rate_per_second: String(rate_per_second), rate_burst: String(rate_burst) };
  return { name, target_url, 'credential.header': credential_header ?? '', ...rates };
}

async function newPage(visit: SignedInVisit, state: FormState, status = 200): Promise<PageAnswer> {
  const { words, deps, session } = visit;
  const text = words.gateways;
  const usable = await usableMandates(deps.sql, session.accountId);
  const above = [crumbs(text.title, GATEWAYS_PATH), heading(text.createTitle, text.createLead)];
  if (usable.length === 0) {
    const action = buttonLink(text.noMandateAction, '/console/mandates/new', true);
    return page(
      'gateways',
      text.createTitle,
      column(above, emptyState(text.noMandateTitle, text.noMandateText, action)),
      { status },
    );
  }
  const choices = usable.map(({ mandate_id: id, name }) => [id, `${shown(name)} (${id.slice(-6)})`] as const);
  const given = { label: text.mandate, hint: text.mandateHint, required: true };
  const fields = [
    textField(state, 'name', { label: text.name, hint: text.nameHint, required: true, maxlength: 200 }),
    selectField(state, 'mandate_id', given, [['', text.mandateNone], ...choices]),
    targetField(visit, state),
    credentialFields(visit, state, text.valueHint),
    rateFields(visit, state),
    submit(text.createSubmit),
  ];
  const framed = html`<section class="card">${form(visit, GATEWAYS_PATH, fields)}</section>`;
  return page('gateways', text.createTitle, column(above, framed), { status });
}

function targetField({ words, deps }: SignedInVisit, state: FormState): Html {
  const { target: label, targetHint, targetHintPublic } = words.gateways;
  const hint = deps.allowPrivateTargets ? targetHint : `${targetHint} ${targetHintPublic}`;
  const more = { placeholder: 'https://api.example.com/v1', required: true, code: true, maxlength: 2_048 };
  return textField(state, 'target_url', { label, hint, ...more });
}

function credentialFields({ words }: SignedInVisit, state: FormState, valueHint: string): Html {
  const text = words.gateways;
  const value = { label: text.value, hint: valueHint, type: 'password', autocomplete: 'off', code: true } as const;
  return html`<fieldset class="field"><legend>${text.credential}</legend><p class="hint">${text.credentialLead}</p>
<div class="pair">${textField(state, 'credential.header', {
    label: text.header,
    hint: text.headerHint,
    code: true,
    maxlength: 128,
    autocomplete: 'off',
  })}${textField(state, 'credential.value', { ...value, maxlength: 4_096, keep: false })}</div></fieldset>`;
}

function rateFields({ words }: SignedInVisit, state: FormState): Html {
  const text = words.gateways;
  const options = (label: string, hint: string | null): FieldOptions => ({
    ...{ label, inputmode: 'numeric', maxlength: 7, required: true },
    ...(hint === null ? {} : { hint }),
  });
  return html`<fieldset class="field"><legend>${text.rates}</legend><div class="pair">
${textField(state, 'rate_per_second', options(text.perSecond, null))}
${textField(state, 'rate_burst', options(text.burst, text.burstHint))}</div></fieldset>`;
}

/** What the fields of a form say, as the admin API would be told it; what is empty is not said. */
function saidIn(values: Readonly<Record<string, string>>): Record<string, unknown> {
  const { name = '', target_url = '', rate_per_second = '', rate_burst = '' } = values;
  const [header, value] = [values['credential.header'] ?? '', values['credential.value'] ?? ''];
  return {
    name: name.trim(),
    target_url: target_url.trim(),
    ...(header === '' && value === '' ? {} : { credential: { header, value } }),
    ...(rate_per_second === '' ? {} : { rate_per_second: new DecimalText(rate_per_second) }),
    ...(rate_burst === '' ? {} : { rate_burst: new DecimalText(rate_burst) }),
  };
}

async function create(visit: SignedInVisit): Promise<Answer> {
  const { deps, session } = visit;
  const values = formValues(visit);
  try {
    const said = {
      ...saidIn(values),
      mandate_id: values['mandate_id'] ?? '',
      target_url: (values['target_url'] ?? '').trim(),
    };
    const parsed = gatewayInput.safeParse(said);
    const problems = parsed.success ? [] : fieldProblems(parsed.error);
    // Asked for here at once: the rest would be found wrong one after the other.
    for (const field of ['mandate_id', 'target_url'] as const) {
      if (said[field] === '') problems.push({ field, message: visit.words.service.empty });
    }
    if (!parsed.success || problems.length > 0) throw invalidFields(problems);
    const targetUrl = await checkedTarget(parsed.data.target_url, deps.allowPrivateTargets);
    const token = newSecretToken('gwt');
    const made = await deps.commands.command(session.accountId, (context) =>
      createGateway(context, deps.custody, { ...parsed.data, target_url: targetUrl }, token),
    );
    return tokenPage(visit, made, token, visit.words.gateways.madeTitle);
  } catch (error) {
    return newPage(visit, inOurWords(visit, stateOfRefusal(visit, error)), 422);
  }
}

/** Errors that a person's form can cause but a program's body cannot. */
function inOurWords({ words }: SignedInVisit, { values, errors }: FormState): FormState {
  const text = words.gateways;
  const half = (values['credential.header'] === '') !== (values['credential.value'] === '');
  const { credential: moved, ...rest } = errors;
  return {
    values,
    errors: {
      ...rest,
      ...(errors['mandate_id'] === undefined ? {} : { mandate_id: text.mandateProblem }),
      ...(half && errors['credential.header'] !== undefined ? { 'credential.header': text.valueProblem } : {}),
      ...(half && errors['credential.value'] !== undefined ? { 'credential.value': text.valueProblem } : {}),
      ...(moved === undefined ? {} : { 'credential.value': text.valueMoved }),
    },
  };
}

/** The only page that ever holds the token: the answer to the post that made it. */
async function tokenPage(
  visit: SignedInVisit,
  gateway: GatewayRecord,
  token: string,
  title: string,
): Promise<PageAnswer> {
  const { words } = visit;
  const text = words.gateways;
  const address = addressOf(visit);
  const sdk = `const baseURL = '${address}';\nconst apiKey = '${token}';\nawait fetch(\`\${baseURL}/payments\`, {
  method: 'POST',
  headers: { authorization: \`Bearer \${apiKey}\`, 'content-type': 'application/json' },
  body: JSON.stringify({ amount: 1, currency: 'EUR', counterparty: 'acme' }),
});`;
  const body = column(
    heading(title, html`<bdi>${shown(gateway.name)}</bdi>`),
    notice('warn', text.tokenLead),
    card(text.token, secretLine('new-token', token, words.shell)),
    card(text.tryTitle, copied('curl-line', curlOf(address, token), words.shell), text.tryLead),
    card(text.sdkTitle, copied('sdk-lines', sdk, words.shell), text.sdkLead),
    html`<div class="actions">${buttonLink(text.done, `${GATEWAYS_PATH}/${gateway.instance_id}`, true)}</div>`,
  );
  return page('gateways', title, body);
}

function addressOf({ deps }: SignedInVisit): string {
  return `${deps.issuer.replace(/\/+$/, '')}${HTTP_PATH}`;
}

function curlOf(address: string, token: string): string {
  return `curl -i ${address}/payments \\
  -H "Authorization: Bearer ${token}" \\
  -H "Content-Type: application/json" \\
  -d '{"amount":1,"currency":"EUR","counterparty":"acme"}'`;
}

async function one(visit: SignedInVisit): Promise<Answer> {
  const { words, deps, session } = visit;
  const text = words.gateways;
  const gateway = await gatewayOf(visit);
  const path = `${GATEWAYS_PATH}/${gateway.instance_id}`;
  const counts = await countTools(deps.sql, session.accountId, gateway.instance_id);
  const enable = buttonForm(visit, `${path}/enable`, text.enable, { kind: 'primary' });
  const disabled = gateway.status === 'disabled';
  const numbers = (['unmapped', 'mapped', 'blocked'] as const).map(
    (state) => [text.toolCounts[state], String(counts[state])] as const,
  );
  const body = column(
    crumbs(text.title, GATEWAYS_PATH),
    heading(
      shown(gateway.name),
      html`${statusBadge(visit, gateway)} <code>${gateway.instance_id}</code>`,
      html`${buttonLink(text.change, `${path}/change`)}${buttonLink(text.rotate, `${path}/rotate`)}${
        disabled ? null : html`<a class="button danger" href="${path}/disable">${text.disable}</a>`
      }`,
    ),
    disabled ? notice('warn', text.disabledNotice, html`<div class="actions">${enable}</div>`) : null,
    card(
      text.tools,
      html`${facts(numbers)}<div class="actions">${buttonLink(text.toolsAction, `${path}/tools`, counts.unmapped > 0)}
${buttonLink(words.tools.importAction, `${path}/tools/import`)}</div>`,
      text.toolsLead,
    ),
    card(text.reach, copied('curl-line', curlOf(addressOf(visit), '$GATEWAY_TOKEN'), words.shell), text.reachLead),
    card(text.settings, await settings(visit, gateway)),
  );
  return page('gateways', shown(gateway.name), body);
}

async function settings(visit: SignedInVisit, gateway: GatewayRecord): Promise<Html> {
  const { words, language, deps, session } = visit;
  const text = words.gateways;
  const { credential_header: header, mandate_id, instance_id } = gateway;
  const name = (await mandateNames(deps.sql, session.accountId, [mandate_id])).get(mandate_id) ?? mandate_id;
  const remove = html`<a href="${GATEWAYS_PATH}/${instance_id}/credential/remove">${text.remove}</a>`;
  return facts([
    [text.mandate, html`<a href="/console/mandates/${mandate_id}"><bdi>${shown(name)}</bdi></a>`],
    [text.target, html`<code>${gateway.target_url}</code>`],
    [
      text.credential,
      header === null ? text.credentialNone : html`<code>${header}</code>: ${text.credentialStored} · ${remove}`,
    ],
    [text.rates, text.rateText(String(gateway.rate_per_second), String(gateway.rate_burst))],
    [text.made, moment(language, gateway.created_at)],
    [text.changed, moment(language, gateway.changed_at)],
  ]);
}

function changePage(visit: SignedInVisit, gateway: GatewayRecord, state: FormState, status = 200): PageAnswer {
  const { words } = visit;
  const text = words.gateways;
  const path = `${GATEWAYS_PATH}/${gateway.instance_id}`;
  const title = text.changeTitle(shown(gateway.name));
  const kept = gateway.credential_header === null ? text.valueHint : text.valueKept;
  const fields: Fragment = [
    textField(state, 'name', { label: text.name, hint: text.nameHint, required: true, maxlength: 200 }),
    targetField(visit, state),
    credentialFields(visit, state, kept),
    rateFields(visit, state),
    html`<div class="actions"><button type="submit" class="button primary">${text.changeSubmit}</button>
${buttonLink(words.shell.cancel, path)}</div>`,
  ];
  const framed = html`<section class="card">${form(visit, `${path}/change`, fields)}</section>`;
  return page('gateways', title, column(crumbs(shown(gateway.name), path), heading(title), framed), { status });
}

async function change(visit: SignedInVisit): Promise<Answer> {
  const { deps, session } = visit;
  const gateway = await gatewayOf(visit);
  const values = formValues(visit);
  try {
    const { credential, ...said } = saidIn(values) as { credential?: { header: string; value: string } };
    // The header that is stored, without a value, says that nothing of it changes.
    const kept = credential?.value === '' && credential.header === (gateway.credential_header ?? '');
    const parsed = gatewayChange.safeParse(kept || credential === undefined ? said : { ...said, credential });
    if (!parsed.success) throw invalidFields(fieldProblems(parsed.error));
    const targetUrl = await checkedTarget(parsed.data.target_url ?? '', deps.allowPrivateTargets);
    const moved = targetUrl === gateway.target_url ? undefined : targetUrl;
    await deps.commands.command(session.accountId, (context) =>
      changeGateway(context, deps.custody, gateway.instance_id, { ...parsed.data, target_url: moved }),
    );
    return seeOther(`${GATEWAYS_PATH}/${gateway.instance_id}`, 'gateways.changed');
  } catch (error) {
    return changePage(visit, gateway, inOurWords(visit, stateOfRefusal(visit, error)), 422);
  }
}

/** Asks before what the agent will feel; the form posts to the address of the page. */
function question(
  visit: SignedInVisit,
  gateway: GatewayRecord,
  [title, text, label]: readonly [title: string, text: string, label: string],
): PageAnswer {
  const path = `${GATEWAYS_PATH}/${gateway.instance_id}`;
  const step = visit.request.url.split('?', 1)[0] ?? path;
  const body = column(
    crumbs(shown(gateway.name), path),
    heading(shown(title)),
    notice('warn', text),
    form(visit, step, [
      html`<div class="actions"><button type="submit" class="button danger primary">${label}</button>
${buttonLink(visit.words.shell.cancel, path)}</div>`,
    ]),
  );
  return page('gateways', shown(title), body);
}

async function switchTo(visit: SignedInVisit, status: GatewayRecord['status']): Promise<Answer> {
  const id = idOf(visit, 'gwi');
  // Who presses the button of an old page wants what is so already.
  const { status: before } = await gatewayOf(visit);
  if (before !== status) {
    const { commands } = visit.deps;
    await commands.command(visit.session.accountId, (context) => setGatewayStatus(context, id, status));
  }
  return seeOther(`${GATEWAYS_PATH}/${id}`, status === 'active' ? 'gateways.enabled' : 'gateways.disabled');
}
