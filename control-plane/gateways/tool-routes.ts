import type { FastifyInstance, FastifyRequest } from 'fastify';
import { z } from 'zod';
import { accountOf } from '../admin/session.ts';
import type { CommandContext } from '../decisions/command.ts';
import type { RouteDependencies } from '../http/dependencies.ts';
import { readQuery, wholeQuery } from '../http/query.ts';
import { idParam, readBody } from '../http/request.ts';
import { readGateway } from './store.ts';
import {
  blockTool,
  IMPORT_MAX,
  importTools,
  mapTools,
  patternOf,
  readTools,
  TOOL_STATES,
  type ToolRecord,
  toolInput,
  unmapTool,
  wantedTool,
  wantedTools,
} from './tool-store.ts';
import { seenView } from './tool-suggestions.ts';

const PAGE_MAX = 1_000;

const listQuery = z.strictObject({
  state: z.enum(TOOL_STATES).optional(),
  after: z.string().max(4_096).optional(),
  limit: wholeQuery(1, PAGE_MAX).default(100),
});
const nameBody = z.strictObject({ name: z.string() });
const importBody = z.strictObject({
  tools: z.array(toolInput).min(1).max(IMPORT_MAX),
  /** Whether tools that are mapped or blocked already get the new mapping; else they are left as they are. */
  overwrite: z.boolean().default(false),
});

/** The routes of tools: what an agent's requests are, and where their amounts are. */
export function registerToolRoutes(app: FastifyInstance, deps: RouteDependencies): void {
  app.get('/admin/gateways/:id/tools', async (request) => {
    const { state, after, limit } = readQuery(request, listQuery);
    const [accountId, id] = [accountOf(request), idParam(request, 'gwi')];
    await readGateway(deps.sql, accountId, id);
    const rows = await readTools(deps.sql, accountId, id, { state: state ?? null, after: after ?? null, limit });
    const tools = rows.slice(0, limit).map((row) => ({ ...toolView(row), seen: seenView(row) }));
    return { tools, next: rows.length > limit ? (tools.at(-1)?.name ?? null) : null };
  });
  app.put('/admin/gateways/:id/tools', async (request) => {
    const asked = wantedTool(readBody(request, toolInput));
    const [tool] = await run(deps, request, (context, id) => mapTools(context, id, [asked]));
    return toolView(tool!);
  });
  app.post('/admin/gateways/:id/tools/import', async (request) => {
    const { tools, overwrite } = readBody(request, importBody);
    const good = wantedTools(tools);
    const done = await run(deps, request, (context, id) => importTools(context, id, good, overwrite));
    return { tools: done.mapped.map(toolView), kept: done.kept };
  });
  app.post('/admin/gateways/:id/tools/unmap', async (request) => {
    const pattern = patternOf(readBody(request, nameBody).name);
    return toolView(await run(deps, request, (context, id) => unmapTool(context, id, pattern)));
  });
  app.post('/admin/gateways/:id/tools/block', async (request) => {
    const pattern = patternOf(readBody(request, nameBody).name);
    return toolView(await run(deps, request, (context, id) => blockTool(context, id, pattern)));
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
