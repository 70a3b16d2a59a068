import type { FastifyInstance } from 'fastify';
import { type MappingSuggestion, type SuggestionMandate, suggestMapping } from '../../core/mapping-suggestion.ts';
import { type RequestShape, requestShape } from '../../core/request-shape.ts';
import { suggestTemplates } from '../../core/template-suggestion.ts';
import { candidateKeys, parseToolPattern } from '../../core/tool-name.ts';
import { accountOf } from '../admin/session.ts';
import type { Sql } from '../db/client.ts';
import { UNMAPPED_TOOLS_MAX } from '../decisions/gateway-ask.ts';
import type { RouteDependencies } from '../http/dependencies.ts';
import { idParam } from '../http/request.ts';
import { readGateway } from './store.ts';

/** What was seen of a tool that nothing could be read from, in the columns of {@link SEEN_COLUMNS}. */
export interface SeenRow {
  readonly unmapped: number | null;
  readonly unreadable: number | null;
  readonly unreadable_reason: string | null;
  readonly first_at: number | null;
  readonly last_at: number | null;
  readonly seen_shape: unknown;
}

/** Of `tool_sightings` as `s`, joined to a tool. */
export const SEEN_COLUMNS = `s.unmapped, s.unreadable, s.unreadable_reason, s.first_at, s.last_at,
  s.shape as seen_shape`;

/** What was seen of a tool, as the admin API answers it; null where nothing was. */
export function seenView(row: SeenRow) {
  const { unmapped, unreadable, first_at: first, last_at: last } = row;
  if (unmapped === null || unreadable === null || first === null || last === null) return null;
  return {
    unmapped,
    unreadable,
    unreadable_reason: row.unreadable_reason,
    first_at: new Date(first).toISOString(),
    last_at: new Date(last).toISOString(),
    shape: shapeIn(row),
  };
}

function shapeIn(row: Pick<SeenRow, 'seen_shape'>): RequestShape | null {
  const parsed = requestShape.safeParse(row.seen_shape);
  return parsed.success ? parsed.data : null;
}

/** The route that suggests how the discovered tools of an instance could be mapped. */
export function registerToolSuggestionRoutes(app: FastifyInstance, deps: RouteDependencies): void {
  app.get('/admin/gateways/:id/tools/suggestions', async (request) => {
    const [accountId, id] = [accountOf(request), idParam(request, 'gwi')];
    return readSuggestions(deps.sql, accountId, id);
  });
}

/**
 * The discovered tools of an instance, and the templates that they could be, each with a suggested mapping.
 *
 * @throws ProblemError 404
 */
export async function readSuggestions(sql: Sql, accountId: string, id: string) {
  const { mandate_id } = await readGateway(sql, accountId, id);
  const mandate = await readSuggestionMandate(sql, accountId, mandate_id);
  const unmapped = await discoveredOf(sql, accountId, id);
  const tools = unmapped.map(({ pattern, ...row }) => ({
    name: pattern,
    seen: seenView(row),
    suggestion: suggested(pattern, shapeIn(row), mandate),
  }));
  const known = unmapped.map(({ pattern: name, ...row }) => ({ name, shape: shapeIn(row) }));
  const templates = suggestTemplates(known).map((one) => ({
    ...one,
    suggestion: suggested(one.name, one.shape, mandate),
  }));
  return { templates, tools };
}

/** The form of the requests of a tool that were seen, null where none was. */
export async function readShape(
  sql: Sql,
  accountId: string,
  instanceId: string,
  key: string,
): Promise<RequestShape | null> {
  const [row] = await sql<{ seen_shape: unknown }[]>`
    select shape as seen_shape from tool_sightings
    where account_id = ${accountId} and instance_id = ${instanceId} and key = ${key}`;
  return row === undefined ? null : shapeIn(row);
}

function suggested(name: string, shape: RequestShape | null, mandate: SuggestionMandate): MappingSuggestion | null {
  const reading = parseToolPattern(name);
  return reading.ok ? suggestMapping(reading.pattern, shape, mandate) : null;
}

/** What the mandate of an instance says that suggestions go by. */
export async function readSuggestionMandate(
  sql: Sql,
  accountId: string,
  mandateId: string,
): Promise<SuggestionMandate> {
  const [row] = await sql<SuggestionMandate[]>`
    select scope, currency from mandates where account_id = ${accountId} and mandate_id = ${mandateId}`;
  if (row === undefined) throw new Error('an instance without a mandate');
  return row;
}

/** The unmapped tools that no template stands for by now, those that were seen last first. */
async function discoveredOf(sql: Sql, accountId: string, instanceId: string) {
  const rows = await sql.unsafe<(SeenRow & { readonly pattern: string })[]>(
    `select t.pattern, ${SEEN_COLUMNS} from tools t
     left join tool_sightings s on s.account_id = t.account_id and s.instance_id = t.instance_id and s.key = t.key
     where t.account_id = $1 and t.instance_id = $2 and t.state = 'unmapped'
     order by s.last_at desc nulls last, t.key limit ${UNMAPPED_TOOLS_MAX}`,
    [accountId, instanceId],
  );
  const mapped = await sql<{ key: string; shape: string }[]>`
    select key, shape from tools
    where account_id = ${accountId} and instance_id = ${instanceId} and state <> 'unmapped' and shape is not null`;
  const keys = new Set(mapped.map(({ key }) => key));
  const shapes = [...new Set(mapped.map(({ shape }) => shape))];
  return rows.filter(({ pattern }) => !candidateKeys(pattern, shapes).some((key) => keys.has(key)));
}
