import { scopeCovers } from '../../../core/action.ts';
import type { MappingSuggestion } from '../../../core/mapping-suggestion.ts';
import type { RequestShape } from '../../../core/request-shape.ts';
import { parseToolPattern } from '../../../core/tool-name.ts';
import type { GatewayRecord } from '../../gateways/store.ts';
import { blockTool, countTools, patternOf, readTools, type ToolState, unmapTool } from '../../gateways/tool-store.ts';
import { readSuggestionMandate, readSuggestions, seenView } from '../../gateways/tool-suggestions.ts';
import { formValues } from '../form.ts';
import { type Fragment, type Html, html } from '../html.ts';
import { buttonForm } from '../parts/form-parts.ts';
import { shown } from '../parts/inert-text.ts';
import { badge, buttonLink, card, column, crumbs, emptyState, heading, pager, table } from '../parts/page-parts.ts';
import { moment } from '../parts/time.ts';
import { mappingWords, shapeDetails, toolLabel } from '../parts/tool-parts.ts';
import { type Answer, get, page, post, type SignedInVisit, seeOther } from '../visit.ts';
import type { Words } from '../words.ts';
import { GATEWAYS_PATH, gatewayOf } from './gateways.ts';

/** Tools of one page of a list. */
const PAGE_TOOLS = 20;
/** Merges that are offered at once, and paths of one that are listed. */
const MERGES_SHOWN = 5;
const MERGED_PATHS_SHOWN = 12;

const STATES = ['unmapped', 'mapped', 'blocked'] as const satisfies readonly ToolState[];

/** The tools of an instance: what was discovered, what is mapped, what is blocked. */
export const toolPages = [
  get('/gateways/:id/tools', list),
  post('/gateways/:id/tools/block', async (visit) => {
    const { instance_id: id } = await gatewayOf(visit);
    const pattern = patternOf(formValues(visit)['name'] ?? '');
    await visit.deps.commands.command(visit.session.accountId, (context) => blockTool(context, id, pattern));
    return seeOther(toolsPath(id, 'blocked'), 'tools.blocked');
  }),
  post('/gateways/:id/tools/unmap', async (visit) => {
    const { instance_id: id } = await gatewayOf(visit);
    const pattern = patternOf(formValues(visit)['name'] ?? '');
    await visit.deps.commands.command(visit.session.accountId, (context) => unmapTool(context, id, pattern));
    return seeOther(toolsPath(id), 'tools.unmapped');
  }),
];

/** Where the tools of an instance are listed. */
export function toolsPath(id: string, state: ToolState = 'unmapped'): string {
  return `${GATEWAYS_PATH}/${id}/tools${state === 'unmapped' ? '' : `?show=${state}`}`;
}

/** Whether a request of the tool has a body that may name an amount, and none was seen yet. */
export function isAmountUnseen(name: string, shape: RequestShape | null): boolean {
  return shape === null && !/^http\.(?:get|head):/.test(name);
}

/** Where a tool is mapped. */
export function editPath(id: string, name: string): string {
  return `${GATEWAYS_PATH}/${id}/tools/edit?name=${encodeURIComponent(name)}`;
}

async function list(visit: SignedInVisit): Promise<Answer> {
  const { words, deps, session } = visit;
  const { tools: text } = words;
  const gateway = await gatewayOf(visit);
  const { show } = visit.request.query as { readonly show?: unknown };
  const state = STATES.find((one) => one === show) ?? 'unmapped';
  const id = gateway.instance_id;
  const counts = await countTools(deps.sql, session.accountId, id);
  const links = STATES.map((one) => {
    const label = `${words.gateways.toolCounts[one]} (${counts[one]})`;
    return one === state
      ? html`<a class="button small" aria-current="page" href="${toolsPath(id, one)}">${label}</a>`
      : html`<a class="button small" href="${toolsPath(id, one)}">${label}</a>`;
  });
  const title = text.titleOf(shown(gateway.name));
  const body = column(
    crumbs(shown(gateway.name), `${GATEWAYS_PATH}/${id}`),
    heading(
      title,
      text.lead,
      html`${buttonLink(text.importAction, `${GATEWAYS_PATH}/${id}/tools/import`)}
${buttonLink(text.add, `${GATEWAYS_PATH}/${id}/tools/edit`)}`,
    ),
    html`<nav class="choices" aria-label="${text.show}">${links}</nav>`,
    state === 'unmapped' ? await discovered(visit, gateway) : await settled(visit, gateway, state),
  );
  return page('gateways', title, body);
}

async function discovered(visit: SignedInVisit, gateway: GatewayRecord): Promise<Fragment> {
  const { words, deps, session } = visit;
  const { tools: text } = words;
  const id = gateway.instance_id;
  const found = await readSuggestions(deps.sql, session.accountId, id);
  if (found.tools.length === 0) {
    const action = buttonLink(text.importAction, `${GATEWAYS_PATH}/${id}/tools/import`, true);
    return emptyState(text.newEmptyTitle, text.newEmptyText, action);
  }
  const { scope } = await readSuggestionMandate(deps.sql, session.accountId, gateway.mandate_id);
  const { from: asked } = visit.request.query as { readonly from?: unknown };
  const from = typeof asked === 'string' && /^\d{1,4}$/.test(asked) ? Number(asked) : 0;
  const merges = from === 0 ? found.templates.slice(0, MERGES_SHOWN) : [];
  const merged = new Set(found.templates.slice(0, MERGES_SHOWN).flatMap(({ tools }) => tools));
  const single = found.tools.filter(({ name }) => !merged.has(name));
  const rows = single.slice(from, from + PAGE_TOOLS).map((one) => discoveredRow(visit, gateway, one, scope));
  const columns = [
    { label: text.name, kind: 'main' },
    { label: text.seen },
    { label: text.shape },
    { label: text.suggestion },
    { label: '', kind: 'end' },
  ] as const;
  const next = from + PAGE_TOOLS < single.length ? `${toolsPath(id)}?from=${from + PAGE_TOOLS}` : null;
  return [
    merges.map((one) => mergeCard(visit, gateway, one, scope)),
    rows.length === 0 ? null : table(text.title, columns, rows),
    pager(
      from === 0 ? null : { label: text.first, path: toolsPath(id) },
      next === null ? null : { label: text.next, path: next },
    ),
  ];
}

/** A tool or a template with what was seen of it and what is suggested. */
interface Suggested {
  readonly name: string;
  readonly shape: RequestShape | null;
  readonly suggestion: MappingSuggestion | null;
}

type Suggestions = Awaited<ReturnType<typeof readSuggestions>>;

function mergeCard(
  { words }: SignedInVisit,
  gateway: GatewayRecord,
  one: Suggestions['templates'][number],
  scope: readonly string[],
): Html {
  const { tools: text } = words;
  const paths = one.tools
    .slice(0, MERGED_PATHS_SHOWN)
    .map((name) => html`<li><a href="${editPath(gateway.instance_id, name)}">${toolLabel(name)}</a></li>`);
  const rest = one.tools.length - paths.length;
  return card(
    text.mergeTitle(one.tools.length),
    html`<p>${toolLabel(one.name)}</p>
${one.suggestion === null ? null : html`<p>${suggestedWords(words, one, scope)}</p>`}
${shapeDetails(words, one.shape)}
<details class="small"><summary>${text.mergePaths}</summary><ul class="seen">${paths}${
      rest > 0 ? html`<li class="muted">${text.andMore(rest)}</li>` : null
    }</ul></details>
<div class="actions">${buttonLink(text.mergeAction, editPath(gateway.instance_id, one.name), true)}</div>`,
    text.mergeLead,
  );
}

/**
 * A suggestion in words, marked where the mandate would deny it whatever the amount. Where a body was not seen, nobody
 * is told that it costs nothing.
 */
function suggestedWords(words: Words, one: Suggested, scope: readonly string[]): Fragment {
  if (one.suggestion === null) return null;
  if (isAmountUnseen(one.name, one.shape)) return html`<span class="muted">${words.tools.suggestionUnseen}</span>`;
  const { mapping } = one.suggestion;
  const outside = scopeCovers(scope, mapping.action_type) ? null : badge('warn', words.tools.outside);
  return [mappingWords(words, mapping), ' ', outside];
}

function discoveredRow(
  visit: SignedInVisit,
  { instance_id: id }: GatewayRecord,
  { name, seen, suggestion }: Suggestions['tools'][number],
  scope: readonly string[],
): Fragment[] {
  const { words, language } = visit;
  const { tools: text } = words;
  const often =
    seen === null
      ? html`<span class="muted small">${text.never}</span>`
      : html`${text.times(seen.unmapped + seen.unreadable)}<br><span class="small muted">${text.last} ${moment(
          language,
          Date.parse(seen.last_at),
        )}</span>`;
  return [
    toolLabel(name),
    often,
    shapeDetails(words, seen?.shape ?? null),
    html`<span class="small">${suggestedWords(words, { name, shape: seen?.shape ?? null, suggestion }, scope)}</span>`,
    html`<div class="actions"><a class="button small primary" href="${editPath(id, name)}">${text.look}</a>
${blockButton(visit, id, name)}</div>`,
  ];
}

/** Blocks a tool with one press: it denies, so that nothing is lost by a mistake. */
export function blockButton(visit: SignedInVisit, id: string, name: string): Html {
  const label = html`${visit.words.tools.block}<span class="hidden"> ${shown(name).slice(0, 200)}</span>`;
  return buttonForm(visit, `${GATEWAYS_PATH}/${id}/tools/block`, label, { kind: 'small danger', fields: { name } });
}

/** Takes a mapping or a block away with one press: what is not mapped is denied. */
export function unmapButton(visit: SignedInVisit, id: string, name: string, state: ToolState): Html {
  const { unmap, unblock } = visit.words.tools;
  const label = html`${state === 'blocked' ? unblock : unmap}<span class="hidden"> ${shown(name).slice(0, 200)}</span>`;
  return buttonForm(visit, `${GATEWAYS_PATH}/${id}/tools/unmap`, label, { kind: 'small', fields: { name } });
}

async function settled(
  visit: SignedInVisit,
  { instance_id: id }: GatewayRecord,
  state: 'mapped' | 'blocked',
): Promise<Fragment> {
  const { words, deps, session, language } = visit;
  const { tools: text } = words;
  const { after: asked } = visit.request.query as { readonly after?: unknown };
  const after = typeof asked === 'string' && parseToolPattern(asked).ok ? asked : null;
  const found = await readTools(deps.sql, session.accountId, id, { state, after, limit: PAGE_TOOLS });
  if (found.length === 0) {
    const empty = state === 'mapped' ? [text.mappedEmptyTitle, text.mappedEmptyText] : null;
    const [title = '', lead = ''] = empty ?? [text.blockedEmptyTitle, text.blockedEmptyText];
    return emptyState(title, lead, buttonLink(words.gateways.toolsAction, toolsPath(id)));
  }
  const listed = found.slice(0, PAGE_TOOLS);
  const rows = listed.map((tool) => {
    const seen = seenView(tool);
    const failed =
      seen === null || seen.unreadable === 0
        ? null
        : html`<br>${badge('warn', text.unreadable(seen.unreadable))} <span class="small" lang="en">${shown(
            seen.unreadable_reason ?? '',
          )}</span>`;
    return [
      toolLabel(tool.pattern),
      tool.mapping === null
        ? badge('bad', words.gateways.toolCounts.blocked)
        : html`<span class="small">${mappingWords(words, tool.mapping)}</span>${failed}`,
      html`${moment(language, tool.changed_at)}<br><span class="small muted">${text.version} ${tool.version}</span>`,
      html`<div class="actions"><a class="button small" href="${editPath(id, tool.pattern)}">${text.edit}<span
class="hidden"> ${shown(tool.pattern).slice(0, 200)}</span></a>${unmapButton(visit, id, tool.pattern, state)}</div>`,
    ];
  });
  const columns = [
    { label: text.name, kind: 'main' },
    { label: text.reads },
    { label: text.changed },
    { label: '', kind: 'end' },
  ] as const;
  const last = found.length > PAGE_TOOLS ? listed.at(-1)?.pattern : undefined;
  return [
    table(text.title, columns, rows),
    pager(
      after === null ? null : { label: text.first, path: toolsPath(id, state) },
      last === undefined
        ? null
        : { label: text.next, path: `${toolsPath(id, state)}&after=${encodeURIComponent(last)}` },
    ),
  ];
}
