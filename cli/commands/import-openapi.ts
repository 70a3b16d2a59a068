import { readFile, stat } from 'node:fs/promises';
import type { Command } from 'commander';
import { isActionType, scopeCovers } from '../../core/action.ts';
import { OPENAPI_MAX_CHARACTERS, OpenApiProblem, openApiParser } from '../../core/openapi-text.ts';
import {
  type OpenApiReading,
  type OpenApiTool,
  readOpenApi,
  serverPath,
  withAction,
} from '../../core/openapi-tools.ts';
import type { AdminClient } from '../admin-client.ts';
import { CliError, usageError } from '../cli-error.ts';
import type { Invocation } from '../invocation.ts';
import { table } from '../output.ts';
import { Progress } from '../progress.ts';
import { idArgument } from './arguments.ts';

/** Tools that are mapped by one command of the account: all of them, or none. */
const CHUNK = 100;

interface ImportOptions {
  apply?: true;
  actionType?: string;
  basePath?: string;
  acceptGuesses?: true;
  overwrite?: true;
}

const HELP = `
Without --apply nothing changes: the table shows what would be mapped, and what would not and why.
An operation is mapped when its action type is given (by --action-type, or by x-mandate-action-type in the document)
or guessed, the mandate's scope covers it, and its amount is not a mere guess. Look at the guesses, and map them with
\`mandate tools map\`, or all at once with --accept-guesses: what has no amount counts as 0.
References are followed within the file only; nothing is fetched.
`;

/** `mandate tools import-openapi`: maps the operations of an OpenAPI document. */
export function registerImport(tools: Command, invocation: Invocation): void {
  tools
    .command('import-openapi')
    .argument('<instance>', 'gateway instance (gwi_…)')
    .argument('<file>', 'OpenAPI 3.0 or 3.1, as JSON or YAML')
    .description('map the operations of an OpenAPI document, or show what would be mapped')
    .option('--apply', 'map them')
    .option('--action-type <type>', 'the action type of every operation that names none itself')
    .option('--base-path <path>', "what stands before the document's paths behind the instance's target")
    .option('--accept-guesses', 'map those with a guessed amount as well')
    .option('--overwrite', 'give tools that are mapped or blocked already the new mapping')
    .addHelpText('after', HELP)
    .action(async (instance: string, file: string, options: ImportOptions) => {
      const { actionType } = options;
      if (actionType !== undefined && !isActionType(actionType)) {
        throw usageError('--action-type must be a dotted name such as payments.create.');
      }
      const path = `/admin/gateways/${idArgument(instance, 'gwi')}`;
      const document = await readDocument(file);
      const client = await invocation.client();
      const plan = planOf(await readPlan(client, path, document, options), options);
      const done = options.apply === true ? await apply(invocation, client, path, plan, options) : null;
      const text = JSON.stringify({ ...plan, applied: done });
      invocation.show({ text, value: {} }, () => planTable(plan, done));
    });
}

async function readDocument(file: string): Promise<unknown> {
  let text: string;
  try {
    // A character has a byte at least.
    if ((await stat(file)).size > OPENAPI_MAX_CHARACTERS * 4) throw new OpenApiProblem('The file is too large.');
    text = await readFile(file, 'utf8');
  } catch (error) {
    throw usageError(`${file} cannot be read: ${error instanceof Error ? error.message : String(error)}.`);
  }
  const parse = await openApiParser();
  return understood(file, () => parse(text));
}

function understood<T>(file: string, read: () => T): T {
  try {
    return read();
  } catch (error) {
    if (!(error instanceof OpenApiProblem)) throw error;
    throw new CliError(`${file}: ${error.message}`, { code: 'not_openapi', cause: error });
  }
}

interface ReadPlan {
  readonly reading: OpenApiReading;
  readonly basePath: string;
  readonly scope: readonly string[];
}

async function readPlan(
  client: AdminClient,
  path: string,
  document: unknown,
  { basePath: given }: ImportOptions,
): Promise<ReadPlan> {
  const { value: gateway } = await client.get(path);
  const { value: mandate } = await client.get(`/admin/mandates/${idArgument(String(gateway['mandate_id']), 'mdt')}`);
  const basePath = given?.replace(/\/+$/, '') ?? pathBehind(String(gateway['target_url']), serverPath(document));
  if (basePath !== '' && !basePath.startsWith('/')) throw usageError('--base-path must begin with a slash.');
  const scope = Array.isArray(mandate['scope']) ? mandate['scope'].map(String) : [];
  const options = { basePath, mandate: { scope, currency: String(mandate['currency']) } };
  return { reading: understood('The document', () => readOpenApi(document, options)), basePath, scope };
}

/** What of the server's path the target's address does not have already. */
function pathBehind(targetUrl: string, server: string): string {
  const target = new URL(targetUrl).pathname.replace(/\/+$/, '');
  return server === target || !server.startsWith(`${target}/`) ? '' : server.slice(target.length);
}

interface Planned {
  readonly name: string;
  readonly summary: string | null;
  readonly mapping: OpenApiTool['suggestion']['mapping'];
  readonly suggestion: OpenApiTool['suggestion'];
  /** Why it is not mapped; null: it is, or would be. */
  readonly left_out: string | null;
}

interface Plan {
  readonly title: string | null;
  readonly base_path: string;
  readonly tools: readonly Planned[];
  readonly skipped: OpenApiReading['skipped'];
}

function planOf({ reading, basePath, scope }: ReadPlan, options: ImportOptions): Plan {
  const { actionType, acceptGuesses } = options;
  const tools = reading.tools.map(({ name, summary, declared, suggestion: found }): Planned => {
    const suggestion = actionType === undefined || declared ? found : withAction(found, actionType);
    const { action_type: action, amount } = suggestion;
    const covered = scopeCovers(scope, action.value);
    const guessed = amount.confidence === 'low' && acceptGuesses !== true;
    const left_out = covered ? (guessed ? amount.reason : null) : "The mandate's scope does not cover the action type.";
    return { name, summary, mapping: suggestion.mapping, suggestion, left_out };
  });
  return { title: reading.title, base_path: basePath, tools, skipped: reading.skipped };
}

interface Applied {
  readonly mapped: number;
  readonly kept: readonly string[];
}

async function apply(
  invocation: Invocation,
  client: AdminClient,
  path: string,
  plan: Plan,
  options: ImportOptions,
): Promise<Applied> {
  const tools = plan.tools.filter(({ left_out }) => left_out === null).map(({ name, mapping }) => ({ name, mapping }));
  const progress = new Progress(invocation.io, 'Mapping tools', !invocation.json);
  let mapped = 0;
  const kept: string[] = [];
  for (let from = 0; from < tools.length; from += CHUNK) {
    const body = JSON.stringify({ tools: tools.slice(from, from + CHUNK), overwrite: options.overwrite === true });
    const { value } = await client.send('POST', `${path}/tools/import`, body).catch((error: unknown) => {
      if (from > 0) invocation.note(`The first ${from} tools are dealt with; none of the next ${CHUNK} is mapped.`);
      throw error;
    });
    mapped += Array.isArray(value['tools']) ? value['tools'].length : 0;
    if (Array.isArray(value['kept'])) kept.push(...value['kept'].map(String));
    progress.update(Math.min(from + CHUNK, tools.length), tools.length);
  }
  progress.end();
  return { mapped, kept };
}

function planTable(plan: Plan, done: Applied | null): string {
  const rows = plan.tools.map(({ name, mapping, left_out }) => {
    const { action_type, amount, amount_unit, currency, counterparty } = mapping;
    return [name, action_type, amount, amount === 'none' ? '' : amount_unit, currency, counterparty, left_out ?? 'map'];
  });
  const skipped = plan.skipped.map(({ operation, reason }) => [operation, reason]);
  const head = ['tool', 'action type', 'amount', 'unit', 'currency', 'counterparty', done === null ? 'would' : 'did'];
  const parts = [rows.length === 0 ? 'The document has no operation that can be a tool.\n' : table(head, rows)];
  if (skipped.length > 0) parts.push(table(['not a tool', 'why'], skipped));
  const count = plan.tools.filter(({ left_out }) => left_out === null).length;
  if (done === null) parts.push(`${count} of ${rows.length} would be mapped; nothing was changed. Add --apply.\n`);
  else parts.push(`${done.mapped} mapped, ${done.kept.length} left as they were.\n`);
  return parts.join('\n');
}
