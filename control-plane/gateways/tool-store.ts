import { z } from 'zod';
import { scopeCovers } from '../../core/action.ts';
import { invalidFields } from '../../core/body-value.ts';
import { type FieldProblem, ProblemError } from '../../core/errors.ts';
import type { EvidenceKind } from '../../core/evidence.ts';
import type { JsonValue } from '../../core/jcs.ts';
import { checkMapping, type ToolMapping } from '../../core/tool-mapping.ts';
import { parseToolPattern, type ToolPattern } from '../../core/tool-name.ts';
import { newTypeId } from '../../core/type-id.ts';
import type { Sql } from '../db/client.ts';
import type { CommandContext } from '../decisions/command.ts';
import { UNMAPPED_TOOLS_MAX } from '../decisions/gateway-ask.ts';
import { mappingBody } from './mapping-body.ts';
import { readGateway } from './store.ts';
import { SEEN_COLUMNS, type SeenRow } from './tool-suggestions.ts';

const SHAPES_MAX = 64;
/** Tools of one import: it holds the account's lock for as long as it takes to write them. */
export const IMPORT_MAX = 200;
/** What a tool can be. */
export const TOOL_STATES = ['unmapped', 'mapped', 'blocked'] as const;
export type ToolState = (typeof TOOL_STATES)[number];

/** A row of `tools`. */
export interface ToolRecord {
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

/** A tool with the mapping that it is to have, as it is sent. */
export const toolInput = z.strictObject({ name: z.string(), mapping: mappingBody });
export type ToolInput = z.infer<typeof toolInput>;

/** Which tools are asked for: of a state, whose keys come after that of a name. */
export interface ToolQuery {
  readonly state: ToolState | null;
  readonly after: string | null;
  readonly limit: number;
}

/** The tools of an instance by key with what was seen of them; one more than asked for tells whether others follow. */
export async function readTools(
  sql: Sql,
  accountId: string,
  instanceId: string,
  { state, after, limit }: ToolQuery,
): Promise<(ToolRecord & SeenRow)[]> {
  return sql.unsafe<(ToolRecord & SeenRow)[]>(
    `select ${COLUMNS}, ${SEEN_COLUMNS} from tools
     left join tool_sightings s using (account_id, instance_id, key)
     where account_id = $1 and instance_id = $2 and ($3::text is null or state = $3)
       and ($4::text is null or key > $4) order by key limit $5`,
    [accountId, instanceId, state, after === null ? null : keyOf(after), limit + 1],
  );
}

/** How many tools an instance has, by state. */
export async function countTools(
  sql: Sql,
  accountId: string,
  instanceId: string,
): Promise<Readonly<Record<ToolState, number>>> {
  const rows = await sql<{ state: ToolState; number: string }[]>`
    select state, count(*) as number from tools where account_id = ${accountId} and instance_id = ${instanceId}
    group by state`;
  const counts: Record<ToolState, number> = { unmapped: 0, mapped: 0, blocked: 0 };
  for (const { state, number } of rows) counts[state] = Number(number);
  return counts;
}

/** Which of these tools are mapped or blocked already, by key. */
export async function settledTools(
  sql: Sql,
  accountId: string,
  instanceId: string,
  keys: readonly string[],
): Promise<ReadonlySet<string>> {
  const rows = await sql<{ key: string }[]>`
    select key from tools where account_id = ${accountId} and instance_id = ${instanceId} and state <> 'unmapped'
      and key = any (${keys as string[]}::text[])`;
  return new Set(rows.map(({ key }) => key));
}

/** What a name stands for; @throws ProblemError 422 naming `name` */
export function patternOf(name: string): ToolPattern {
  const reading = parseToolPattern(name);
  if (reading.ok) return reading.pattern;
  throw invalidFields([{ field: 'name', message: reading.message }]);
}

function keyOf(name: string): string {
  const reading = parseToolPattern(name);
  return reading.ok ? reading.pattern.key : name;
}

/** A tool and the mapping it is to have; `field` is what errors name it by. */
export interface Wanted {
  readonly ok: true;
  readonly field: string;
  readonly pattern: ToolPattern;
  readonly mapping: ToolMapping;
}

function wanted(
  { name, mapping }: ToolInput,
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

/** A tool that is to be mapped; @throws ProblemError 422 naming what could never be read */
export function wantedTool(given: ToolInput): Wanted {
  const asked = wanted(given, '');
  if (asked.ok) return asked;
  throw invalidFields(asked.problems);
}

/** Tools that are to be mapped at once; @throws ProblemError 422 naming every problem as `tools.<at>.…` */
export function wantedTools(given: readonly ToolInput[]): Wanted[] {
  const all = given.map((one, at) => wanted(one, `tools.${at}.`));
  const good = all.filter((one) => one.ok);
  const problems = [...all.flatMap((one) => (one.ok ? [] : one.problems)), ...repeated(good)];
  if (problems.length > 0) throw invalidFields(problems);
  return good;
}

/** Maps those that are not dealt with yet, or all of them; `kept`: what was left as it is. */
export async function importTools(
  context: CommandContext,
  instanceId: string,
  all: readonly Wanted[],
  overwrite: boolean,
): Promise<{ readonly mapped: ToolRecord[]; readonly kept: string[] }> {
  const { sql, accountId } = context;
  const keys = all.map(({ pattern }) => pattern.key);
  const known = overwrite ? new Set<string>() : await settledTools(sql, accountId, instanceId, keys);
  const [kept, open] = [true, false].map((is) => all.filter(({ pattern }) => known.has(pattern.key) === is));
  const mapped = await mapTools(context, instanceId, open ?? []);
  return { mapped, kept: (kept ?? []).map(({ pattern }) => pattern.text) };
}

/** Maps tools, all or none of them; @throws ProblemError 422 naming each whose action type the scope does not cover */
export async function mapTools(
  context: CommandContext,
  instanceId: string,
  all: readonly Wanted[],
): Promise<ToolRecord[]> {
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

/** Refuses every request of a tool from now on, within a command. */
export async function blockTool(
  context: CommandContext,
  instanceId: string,
  pattern: ToolPattern,
): Promise<ToolRecord> {
  await readGateway(context.sql, context.accountId, instanceId);
  return save(context, instanceId, pattern, { state: 'blocked', mapping: null });
}

/** A template that is unmapped is gone; an exact tool is unmapped again, as if it had just been discovered. */
export async function unmapTool(
  context: CommandContext,
  instanceId: string,
  pattern: ToolPattern,
): Promise<ToolRecord> {
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

/** One tool by its key. */
export async function readTool(
  sql: Sql,
  accountId: string,
  instanceId: string,
  key: string,
): Promise<ToolRecord | undefined> {
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
