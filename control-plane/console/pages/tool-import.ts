import { z } from 'zod';
import { scopeCovers } from '../../../core/action.ts';
import { fieldProblems } from '../../../core/body-value.ts';
import { ProblemError } from '../../../core/errors.ts';
import { CONSOLE_FORM_MAX_BYTES } from '../../../core/limits.ts';
import type { SuggestionMandate } from '../../../core/mapping-suggestion.ts';
import { OpenApiProblem, openApiParser } from '../../../core/openapi-text.ts';
import { type OpenApiReading, type OpenApiTool, readOpenApi, serverPath } from '../../../core/openapi-tools.ts';
import { parseToolPattern } from '../../../core/tool-name.ts';
import type { GatewayRecord } from '../../gateways/store.ts';
import { checkedTarget } from '../../gateways/target.ts';
import { importTools, settledTools, type ToolInput, toolInput, wantedTools } from '../../gateways/tool-store.ts';
import { readSuggestionMandate } from '../../gateways/tool-suggestions.ts';
import { formValues, inWords, refusedForm } from '../form.ts';
import { type Fragment, type Html, html } from '../html.ts';
import { check, emptyForm, type FormState, form, submit, textArea, textField } from '../parts/form-parts.ts';
import { shown } from '../parts/inert-text.ts';
import { badge, column, crumbs, emptyState, heading, notice, table } from '../parts/page-parts.ts';
import { mappingWords, toolLabel } from '../parts/tool-parts.ts';
import { serviceText } from '../service-text.ts';
import { type Answer, get, type PageAnswer, page, post, type SignedInVisit, seeOther } from '../visit.ts';
import { toolsPath } from './gateway-tools.ts';
import { GATEWAYS_PATH, gatewayOf } from './gateways.ts';

/** Characters of a document that is pasted; parsing a larger one would hold up everybody else's pages. */
const DOCUMENT_MAX_CHARACTERS = 1024 * 1024;
/** YAML takes its parser a thousand times as long as JSON, and quadratically longer with many keys. */
const YAML_MAX_CHARACTERS = 32 * 1024;
/** What is looked at in the schemas of the operations that a page shows: decisions wait for it, 50 ms at most. */
const MEMBERS_MAX = 20_000;
/** A document that is shown again after a refusal; a larger one is pasted again, so that pages stay small. */
const SHOWN_AGAIN_MAX_CHARACTERS = 64 * 1024;
/** Operations of one page: with their mappings it stays below 100 kB. */
const ROWS_MAX = 50;
const SKIPPED_SHOWN = 20;

/** Many tools at once, from an OpenAPI document. */
export const toolImportPages = [
  get('/gateways/:id/tools/import', async (visit) => documentPage(visit, await gatewayOf(visit), emptyForm())),
  post('/gateways/:id/tools/import', read, { bodyLimitBytes: CONSOLE_FORM_MAX_BYTES }),
  post('/gateways/:id/tools/import/apply', apply),
];

function importPath({ instance_id: id }: GatewayRecord): string {
  return `${GATEWAYS_PATH}/${id}/tools/import`;
}

function framed(
  visit: SignedInVisit,
  gateway: GatewayRecord,
  title: string,
  parts: Fragment,
  status: number,
): PageAnswer {
  const above = crumbs(visit.words.tools.titleOf(shown(gateway.name)), toolsPath(gateway.instance_id));
  return page('gateways', title, column(above, parts), { status });
}

function documentPage(visit: SignedInVisit, gateway: GatewayRecord, state: FormState, status = 200): PageAnswer {
  const { tools: text } = visit.words;
  const kib = DOCUMENT_MAX_CHARACTERS / 1024;
  const fields = [
    html`<div class="field" data-needs-script><label for="f-file">${text.file}</label>
<p class="hint" id="f-file-hint">${text.fileHint}</p><input class="input" type="file" id="f-file"
aria-describedby="f-file-hint" accept=".json,.yaml,.yml" data-fill="f-document"></div>`,
    textArea(state, 'document', {
      label: text.document,
      hint: text.documentHint(kib, YAML_MAX_CHARACTERS / 1024),
      code: true,
      rows: 12,
      required: true,
    }),
    html`<div class="pair">${textField(state, 'base_path', {
      ...{ label: text.basePath, hint: text.basePathHint, code: true, maxlength: 512 },
    })}${textField(state, 'prefix', { label: text.prefix, code: true, maxlength: 512, placeholder: '/orders' })}</div>`,
    submit(text.importSubmit),
  ];
  const card = html`<section class="card">${form(visit, importPath(gateway), fields)}</section>`;
  return framed(visit, gateway, text.importTitle, [heading(text.importTitle, text.importLead), card], status);
}

async function read(visit: SignedInVisit): Promise<Answer> {
  const { tools: text } = visit.words;
  const gateway = await gatewayOf(visit);
  const { document = '', ...values } = formValues(visit);
  const refuse = (field: string, message: string) => {
    const again = document.length > SHOWN_AGAIN_MAX_CHARACTERS ? '' : document;
    return documentPage(visit, gateway, refusedForm({ ...values, document: again }, [{ field, message }]), 422);
  };
  if (document.trim() === '') return refuse('document', text.documentEmpty);
  const most = document.trimStart().startsWith('{') ? DOCUMENT_MAX_CHARACTERS : YAML_MAX_CHARACTERS;
  if (document.length > most) return refuse('document', text.documentLarge(most / 1024));
  const given = (values['base_path'] ?? '').trim().replace(/\/+$/, '');
  if (given !== '' && !given.startsWith('/')) return refuse('base_path', text.basePathProblem);
  const mandate = await readSuggestionMandate(visit.deps.sql, visit.session.accountId, gateway.mandate_id);
  try {
    const parsed = (await openApiParser())(document);
    const basePath = given === '' ? pathBehind(gateway.target_url, serverPath(parsed)) : given;
    const reading = readOpenApi(parsed, { basePath, mandate, membersMax: MEMBERS_MAX });
    const away = await targetProblem(visit, gateway);
    return await pickPage(visit, gateway, {
      reading,
      mandate,
      prefix: (values['prefix'] ?? '').trim(),
      basePath,
      away,
    });
  } catch (error) {
    if (!(error instanceof OpenApiProblem)) throw error;
    return refuse('document', serviceText(visit.words, error.message));
  }
}

/** What keeps requests from the target now, looked up as when the gateway was made; null where nothing does. */
async function targetProblem(
  { words, deps }: SignedInVisit,
  { target_url: url }: GatewayRecord,
): Promise<string | null> {
  try {
    await checkedTarget(url, deps.allowPrivateTargets);
    return null;
  } catch (error) {
    if (!(error instanceof ProblemError) || error.code !== 'invalid') throw error;
    return serviceText(words, error.fields[0]?.message ?? error.detail);
  }
}

/** What of the server's path the target's address does not have already. */
function pathBehind(targetUrl: string, server: string): string {
  const target = new URL(targetUrl).pathname.replace(/\/+$/, '');
  return server === target || !server.startsWith(`${target}/`) ? '' : server.slice(target.length);
}

/** One operation in the form: what would be mapped, and what a person should know of it. */
const rowInput = z.strictObject({ ...toolInput.shape, summary: z.string().max(200).nullable(), guess: z.boolean() });
type Row = z.infer<typeof rowInput>;

interface ReadDocument {
  readonly reading: OpenApiReading;
  readonly mandate: SuggestionMandate;
  readonly prefix: string;
  readonly basePath: string;
  readonly away: string | null;
}

async function pickPage(
  visit: SignedInVisit,
  gateway: GatewayRecord,
  { reading, mandate, prefix, basePath, away }: ReadDocument,
): Promise<PageAnswer> {
  const { tools: text } = visit.words;
  const wanted = reading.tools.filter(({ name }) => name.slice(name.indexOf(':') + 1).startsWith(basePath + prefix));
  const done = await settledOf(visit, gateway, wanted);
  const sorted = [...wanted.filter(({ name }) => !done.has(name)), ...wanted.filter(({ name }) => done.has(name))];
  const rows = sorted.slice(0, ROWS_MAX).map(rowOf);
  const values = Object.fromEntries(
    rows.flatMap((row, at) => {
      const open = !done.has(row.name) && !row.guess && scopeCovers(mandate.scope, row.mapping.action_type);
      return open ? [[`pick[${at}]`, 'on']] : [];
    }),
  );
  const title = reading.title === null ? text.pickUntitled : text.pickTitle(shown(reading.title));
  const parts = [
    heading(title, text.pickLead),
    away === null ? null : notice('warn', text.targetAway(gateway.target_url), away),
    wanted.length > rows.length ? notice('info', text.pickMore(rows.length, wanted.length)) : null,
    rows.length === 0
      ? emptyState(text.pickNone, '')
      : pickForm(visit, gateway, { rows, state: emptyForm(values), mandate, done }),
    skippedTable(visit, reading),
  ];
  return framed(visit, gateway, title, parts, 200);
}

function rowOf({ name, summary, suggestion }: OpenApiTool): Row {
  return { name, summary, guess: suggestion.amount.confidence === 'low', mapping: suggestion.mapping };
}

/** The names of tools that are mapped or blocked already. */
async function settledOf(
  { deps, session }: SignedInVisit,
  { instance_id: id }: GatewayRecord,
  tools: readonly { readonly name: string }[],
): Promise<ReadonlySet<string>> {
  const keys = tools.map(({ name }) => keyOf(name));
  const settled = await settledTools(deps.sql, session.accountId, id, keys);
  return new Set(tools.flatMap(({ name }) => (settled.has(keyOf(name)) ? [name] : [])));
}

function keyOf(name: string): string {
  const reading = parseToolPattern(name);
  return reading.ok ? reading.pattern.key : name;
}

interface PickForm {
  readonly rows: readonly Row[];
  readonly state: FormState;
  readonly mandate: SuggestionMandate;
  readonly done: ReadonlySet<string>;
}

function pickForm(visit: SignedInVisit, gateway: GatewayRecord, { rows, state, mandate, done }: PickForm): Html {
  const { tools: text } = visit.words;
  const listed = rows.map((row, at): Fragment[] => {
    const { name, summary, mapping, guess } = row;
    const error = state.errors[`row[${at}]`];
    const label = html`<span class="hidden">${text.pickOne(shown(name).slice(0, 200))}</span>`;
    const action = state.values[`action[${at}]`] ?? mapping.action_type;
    const marks = [
      done.has(name) ? badge('plain', visit.words.gateways.toolCounts.mapped) : null,
      scopeCovers(mandate.scope, action) ? null : badge('warn', text.outside),
      guess ? badge('warn', text.guess) : null,
    ];
    return [
      html`${check(state, { name: `pick[${at}]`, label })}<input type="hidden" name="tool[${String(
        at,
      )}]" value="${JSON.stringify(row)}">`,
      html`${toolLabel(name)}${
        summary === null ? null : html`<br><span class="small muted"><bdi>${shown(summary)}</bdi></span>`
      }`,
      html`<input class="input code" name="action[${String(at)}]" value="${action}" maxlength="128" spellcheck="false"
autocapitalize="none" aria-label="${`${text.pickAction}: ${shown(name).slice(0, 200)}`}">`,
      html`<span class="small">${mappingWords(visit.words, mapping)}</span> ${marks}${
        error === undefined ? null : html`<div class="field"><p class="wrong">${error}</p></div>`
      }`,
    ];
  });
  const columns = [
    { label: text.pick },
    { label: text.name, kind: 'main' },
    { label: text.pickAction },
    { label: text.pickReads },
  ] as const;
  const wrong = state.errors['pick'];
  return form(
    visit,
    `${importPath(gateway)}/apply`,
    [
      wrong === undefined ? null : notice('bad', wrong),
      table(text.title, columns, listed),
      check(state, { name: 'overwrite', label: text.overwrite, hint: text.overwriteHint }),
      submit(text.pickSubmit),
    ],
    'stack',
  );
}

function skippedTable({ words }: SignedInVisit, { skipped }: OpenApiReading): Fragment {
  if (skipped.length === 0) return null;
  const { tools: text } = words;
  const items = skipped
    .slice(0, SKIPPED_SHOWN)
    .map(
      ({ operation, reason }) =>
        html`<li><code dir="ltr">${shown(operation)}</code> ${serviceText(words, reason)}</li>`,
    );
  const rest = skipped.length - items.length;
  return html`<details class="small"><summary>${text.skipped} (${skipped.length})</summary><ul class="seen">${items}${
    rest > 0 ? html`<li class="muted">${text.andMore(rest)}</li>` : null
  }</ul></details>`;
}

async function apply(visit: SignedInVisit): Promise<Answer> {
  const { tools: text } = visit.words;
  const { deps, session } = visit;
  const gateway = await gatewayOf(visit);
  const values = formValues(visit);
  const rows = rowsIn(values);
  const picked = rows.flatMap((_row, at) => (values[`pick[${at}]`] === 'on' ? [at] : []));
  const refuse = async (problems: readonly { readonly field: string; readonly message: string }[]) => {
    const mandate = await readSuggestionMandate(deps.sql, session.accountId, gateway.mandate_id);
    const done = await settledOf(visit, gateway, rows);
    const list = pickForm(visit, gateway, {
      rows,
      state: refusedForm(values, inWords(visit, problems)),
      mandate,
      done,
    });
    return framed(visit, gateway, text.pickUntitled, [heading(text.pickUntitled, text.pickLead), list], 422);
  };
  if (picked.length === 0) return refuse([{ field: 'pick', message: text.pickEmpty }]);
  const chosen = picked.map((at): ToolInput => {
    const { name, mapping } = rows[at]!;
    return { name, mapping: { ...mapping, action_type: values[`action[${at}]`] ?? mapping.action_type } };
  });
  try {
    const parsed = z.array(toolInput).safeParse(chosen);
    if (!parsed.success) {
      return await refuse(byRow(picked, fieldProblems(parsed.error), text.pickWrong, /^(\d+)\./));
    }
    const wanted = wantedTools(parsed.data);
    const overwrite = values['overwrite'] === 'on';
    await deps.commands.command(session.accountId, (context) =>
      importTools(context, gateway.instance_id, wanted, overwrite),
    );
    return seeOther(toolsPath(gateway.instance_id, 'mapped'), 'tools.imported');
  } catch (error) {
    if (!(error instanceof ProblemError) || error.code !== 'invalid') throw error;
    return refuse(byRow(picked, error.fields, text.pickWrong, /^tools\.(\d+)\./));
  }
}

/** Problems of tools that were sent, as problems of the rows of the table. */
function byRow(
  picked: readonly number[],
  problems: readonly { readonly field: string; readonly message: string }[],
  summary: string,
  place: RegExp,
) {
  const rows = problems.flatMap(({ field, message }) => {
    const at = picked[Number(place.exec(field)?.[1] ?? Number.NaN)];
    return at === undefined ? [] : [{ field: `row[${at}]`, message }];
  });
  return [{ field: 'pick', message: summary }, ...rows];
}

function rowsIn(values: Readonly<Record<string, string>>): Row[] {
  const rows: Row[] = [];
  for (let at = 0; at < ROWS_MAX; at++) {
    const text = values[`tool[${at}]`];
    if (text === undefined) break;
    rows.push(rowIn(text));
  }
  return rows;
}

/** @throws ProblemError 400 where the page's own hidden fields were changed into something else */
function rowIn(text: string): Row {
  try {
    return rowInput.parse(JSON.parse(text));
  } catch (error) {
    throw new ProblemError('malformed_form', 'A row of the form is not one of this page.', { cause: error });
  }
}
