import type { FastifyInstance, FastifyRequest } from 'fastify';
import { z } from 'zod';
import { scopeCovers } from '../../core/action.ts';
import { invalidFields } from '../../core/body-value.ts';
import { type FieldProblem, ProblemError } from '../../core/errors.ts';
import type { EvidenceKind } from '../../core/evidence.ts';
import type { JsonValue } from '../../core/jcs.ts';
import { checkMapping, type ToolMapping } from '../../core/tool-mapping.ts';
import { parseToolPattern, type ToolPattern } from '../../core/tool-name.ts';
import { newTypeId } from '../../core/type-id.ts';
import { accountOf } from '../admin/session.ts';
import type { Sql } from '../db/client.ts';
import type { CommandContext } from '../decisions/command.ts';
import { UNMAPPED_TOOLS_MAX } from '../decisions/gateway-ask.ts';
import type { RouteDependencies } from '../http/dependencies.ts';
import { readQuery, wholeQuery } from '../http/query.ts';
import { idParam, readBody } from '../http/request.ts';
import { mappingBody } from './mapping-body.ts';
import { readGateway } from './routes.ts';
import { SEEN_COLUMNS, type SeenRow, seenView } from './tool-suggestions.ts';

const PAGE_MAX = 1_000;
const SHAPES_MAX = 64;
/** Tools of one import: it holds the account's lock for as long as it takes to write them. */
const IMPORT_MAX = 200;
const STATES = ['unmapped', 'mapped', 'blocked'] as const;
type ToolState = (typeof STATES)[number];

interface ToolRecord {
  readonly tool_id: string;
  readonly key: string;
  readonly pattern: string;
  readonly state: ToolState;
  readonly version: number;
  readonly mapping: ToolMapping | null;
  readonly created_at: number;
  readonly changed_at: number;
}

const COLUMNS = 'tool_id, key, pattern, state, version, mapping, created_at, changed_at';

const listQuery = z.strictObject({
  state: z.enum(STATES).optional(),
  after: z.string().max(4_096).optional(),
  limit: wholeQuery(1, PAGE_MAX).default(100),
});
const nameBody = z.strictObject({ name: z.string() });
const mapBody = z.strictObject({ name: z.string(), mapping: mappingBody });
const importBody = z.strictObject({
  tools: z.array(mapBody).min(1).max(IMPORT_MAX),
  /** Whether tools that are mapped or blocked already get the new mapping; else they are left as they are. */
  overwrite: z.boolean().default(false),
});

/** The routes of tools: what an agent's requests are, and where their amounts are. */
export function registerToolRoutes(app: FastifyInstance, deps: RouteDependencies): void {
  app.get('/admin/gateways/:id/tools', async (request) => {
    const { state, after, limit } = readQuery(request, listQuery);
    const [accountId, id] = [accountOf(request), idParam(request, 'gwi')];
    await readGateway(deps.sql, accountId, id);
    // One more than asked for tells whether there is a next page.
    const rows = await deps.sql.unsafe<(ToolRecord & SeenRow)[]>(
      `select ${COLUMNS}, ${SEEN_COLUMNS} from tools
       left join tool_sightings s using (account_id, instance_id, key)
       where account_id = $1 and instance_id = $2 and ($3::text is null or state = $3)
         and ($4::text is null or key > $4) order by key limit $5`,
      [accountId, id, state ?? null, after === undefined ? null : keyOf(after), limit + 1],
    );
    const tools = rows.slice(0, limit).map((row) => ({ ...toolView(row), seen: seenView(row) }));
    return { tools, next: rows.length > limit ? (tools.at(-1)?.name ?? null) : null };
  });
  app.put('/admin/gateways/:id/tools', async (request) => {
    const asked = wanted(readBody(request, mapBody), '');
    if (!asked.ok) throw invalidFields(asked.problems);
    const [tool] = await run(deps, request, (context, id) => mapAll(context, id, [asked]));
    return toolView(tool!);
  });
  app.post('/admin/gateways/:id/tools/import', async (request) => {
    const { tools, overwrite } = readBody(request, importBody);
    const all = tools.map((one, at) => wanted(one, `tools.${at}.`));
    const problems = all.flatMap((one) => (one.ok ? [] : one.problems));
    const good = all.filter((one) => one.ok);
    problems.push(...repeated(good));
    if (problems.length > 0) throw invalidFields(problems);
    const done = await run(deps, request, (context, id) => importAll(context, id, good, overwrite));
    return { tools: done.mapped.map(toolView), kept: done.kept };
  });
  app.post('/admin/gateways/:id/tools/unmap', async (request) => {
    const pattern = patternOf(readBody(request, nameBody).name);
    return toolView(await run(deps, request, (context, id) => unmap(context, id, pattern)));
  });
  app.post('/admin/gateways/:id/tools/block', async (request) => {
    const pattern = patternOf(readBody(request, nameBody).name);
    return toolView(await run(deps, request, (context, id) => block(context, id, pattern)));
  });
}

function run<T>(
  deps: RouteDependencies,
  request: FastifyRequest,
  change: (context: CommandContext, instanceId: string) => Promise<T>,
): Promise<T> {
  const id = idParam(request, 'gwi');
  return deps.commands.command(accountOf(request), (context) => change(context, id));
}

function patternOf(name: string): ToolPattern {
  const reading = parseToolPattern(name);
  if (reading.ok) return reading.pattern;
  throw invalidFields([{ field: 'name', message: reading.message }]);
}

function keyOf(name: string): string {
  const reading = parseToolPattern(name);
  return reading.ok ? reading.pattern.key : name;
}

function toolView(tool: ToolRecord) {
  return {
    tool_id: tool.tool_id,
    name: tool.pattern,
    state: tool.state,
    version: tool.version,
    mapping: tool.mapping,
    created_at: new Date(tool.created_at).toISOString(),
    changed_at: new Date(tool.changed_at).toISOString(),
  };
}

/** A tool and the mapping it is to have; `field` is what errors name it by. */
interface Wanted {
  readonly ok: true;
  readonly field: string;
  readonly pattern: ToolPattern;
  readonly mapping: ToolMapping;
}

function wanted(
  { name, mapping }: z.infer<typeof mapBody>,
  field: string,
): Wanted | { readonly ok: false; readonly problems: readonly FieldProblem[] } {
  const reading = parseToolPattern(name);
  if (!reading.ok) return { ok: false, problems: [{ field: `${field}name`, message: reading.message }] };
  const found = checkMapping(mapping, reading.pattern);
  if (found.length === 0) return { ok: true, field, pattern: reading.pattern, mapping };
  return { ok: false, problems: found.map((one) => ({ ...one, field: `${field}mapping.${one.field}` })) };
}

function repeated(all: readonly Wanted[]): FieldProblem[] {
  const seen = new Set<string>();
  return all.flatMap(({ field, pattern }) => {
    if (seen.size < seen.add(pattern.key).size) return [];
    return [{ field: `${field}name`, message: `stands for the same requests as another tool: ${pattern.text}` }];
  });
}

/** Maps those that are not dealt with yet, or all of them; `kept`: what was left as it is. */
async function importAll(
  context: CommandContext,
  instanceId: string,
  all: readonly Wanted[],
  overwrite: boolean,
): Promise<{ readonly mapped: ToolRecord[]; readonly kept: string[] }> {
  const { sql, accountId } = context;
  const rows = await sql<{ key: string }[]>`
    select key from tools where account_id = ${accountId} and instance_id = ${instanceId} and state <> 'unmapped'
      and key = any (${all.map(({ pattern }) => pattern.key)}::text[])`;
  const known = new Set(overwrite ? [] : rows.map(({ key }) => key));
  const [kept, open] = [true, false].map((is) => all.filter(({ pattern }) => known.has(pattern.key) === is));
  const mapped = await mapAll(context, instanceId, open ?? []);
  return { mapped, kept: (kept ?? []).map(({ pattern }) => pattern.text) };
}

/** Maps tools, all or none of them; @throws ProblemError 422 naming each whose action type the scope does not cover */
async function mapAll(context: CommandContext, instanceId: string, all: readonly Wanted[]): Promise<ToolRecord[]> {
  const { sql, accountId } = context;
  const { mandate_id } = await readGateway(sql, accountId, instanceId);
  const [mandate] = await sql<{ scope: string[] }[]>`
    select scope from mandates where account_id = ${accountId} and mandate_id = ${mandate_id}`;
  const message = `must be covered by the mandate's scope (${mandate?.scope.join(', ') ?? ''})`;
  const outside = all.filter(({ mapping }) => !scopeCovers(mandate?.scope ?? [], mapping.action_type));
  if (outside.length > 0) {
    throw invalidFields(outside.map(({ field }) => ({ field: `${field}mapping.action_type`, message })));
  }
  const saved: ToolRecord[] = [];
  for (const { pattern, mapping } of all) {
    saved.push(await write(context, instanceId, pattern, { state: 'mapped', mapping }));
  }
  await refreshInstance(context, instanceId);
  return saved;
}

async function block(context: CommandContext, instanceId: string, pattern: ToolPattern): Promise<ToolRecord> {
  await readGateway(context.sql, context.accountId, instanceId);
  return save(context, instanceId, pattern, { state: 'blocked', mapping: null });
}

/** A template that is unmapped is gone; an exact tool is unmapped again, as if it had just been discovered. */
async function unmap(context: CommandContext, instanceId: string, pattern: ToolPattern): Promise<ToolRecord> {
  const { sql, accountId } = context;
  const instance = await readGateway(sql, accountId, instanceId);
  const known = await readTool(sql, accountId, instanceId, pattern.key);
  if (known === undefined) throw new ProblemError('not_found', 'There is no such tool on this instance.');
  if (known.state === 'unmapped') throw new ProblemError('conflict', 'The tool is not mapped.');
  if (pattern.shape === null && instance.unmapped_tools < UNMAPPED_TOOLS_MAX) {
    return save(context, instanceId, pattern, { state: 'unmapped', mapping: null });
  }
  await sql`delete from tools
    where account_id = ${accountId} and instance_id = ${instanceId} and key = ${pattern.key}`;
  await refreshInstance(context, instanceId);
  const gone: ToolRecord = { ...known, state: 'unmapped', mapping: null, version: known.version + 1 };
  appendTool(context, 'tool.unmapped', instanceId, gone);
  return gone;
}

interface Saved {
  readonly state: ToolState;
  readonly mapping: ToolMapping | null;
}

const KIND_OF: Record<ToolState, EvidenceKind> = {
  mapped: 'tool.mapped',
  unmapped: 'tool.unmapped',
  blocked: 'tool.blocked',
};

async function save(
  context: CommandContext,
  instanceId: string,
  pattern: ToolPattern,
  given: Saved,
): Promise<ToolRecord> {
  const saved = await write(context, instanceId, pattern, given);
  await refreshInstance(context, instanceId);
  return saved;
}

/** Writes a tool; its version grows with every change, since mappings are remembered by (tool, version). */
async function write(
  context: CommandContext,
  instanceId: string,
  pattern: ToolPattern,
  { state, mapping }: Saved,
): Promise<ToolRecord> {
  const { sql, accountId, now } = context;
  const json = mapping === null ? null : JSON.stringify(mapping);
  await sql`
    insert into tools as t (account_id, instance_id, key, tool_id, pattern, shape, state, mapping, created_at,
      changed_at)
    values (${accountId}, ${instanceId}, ${pattern.key}, ${newTypeId('tol', context.nowMs)}, ${pattern.text},
      ${pattern.shape}, ${state}, ${json}::text::jsonb, ${now}, ${now})
    on conflict (account_id, instance_id, key) do update set pattern = excluded.pattern, state = excluded.state,
      mapping = excluded.mapping, version = t.version + 1, changed_at = excluded.changed_at`;
  const saved = await readTool(sql, accountId, instanceId, pattern.key);
  if (saved === undefined) throw new Error('a tool that was written is not there');
  appendTool(context, KIND_OF[state], instanceId, saved);
  return saved;
}

/** Keeps what the instance knows of its tools: shapes to look under, and how many are unmapped. */
async function refreshInstance({ sql, accountId, now }: CommandContext, instanceId: string): Promise<void> {
  const shapes = await sql<{ shape: string }[]>`
    select distinct shape from tools
    where account_id = ${accountId} and instance_id = ${instanceId} and shape is not null and state <> 'unmapped'`;
  if (shapes.length > SHAPES_MAX) {
    const detail = `An instance can have templates of ${SHAPES_MAX} shapes (segments and where parameters stand).`;
    throw new ProblemError('conflict', detail);
  }
  await sql`update gateway_instances i set template_shapes = ${shapes.map(({ shape }) => shape)},
      tools_version = tools_version + 1, changed_at = ${now},
      unmapped_tools = (select count(*) from tools t where t.account_id = i.account_id
        and t.instance_id = i.instance_id and t.state = 'unmapped')
    where account_id = ${accountId} and instance_id = ${instanceId}`;
}

async function readTool(sql: Sql, accountId: string, instanceId: string, key: string): Promise<ToolRecord | undefined> {
  const rows = await sql.unsafe<ToolRecord[]>(
    `select ${COLUMNS} from tools where account_id = $1 and instance_id = $2 and key = $3`,
    [accountId, instanceId, key],
  );
  return rows[0];
}

function appendTool(context: CommandContext, kind: EvidenceKind, instanceId: string, tool: ToolRecord): void {
  const mapping = tool.mapping === null ? null : ({ ...tool.mapping } as { [name: string]: JsonValue });
  const { tool_id, pattern, version } = tool;
  context.append(kind, { instance: instanceId, tool_id, name: pattern, version, mapping });
}
