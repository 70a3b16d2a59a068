import { type Command, Option } from 'commander';
import { toolMappingInput } from '../../core/tool-mapping.ts';
import type { JsonRecord } from '../admin-client.ts';
import { usageError } from '../cli-error.ts';
import { type Invocation, recordOf, recordsOf } from '../invocation.ts';
import { bodyText, JsonText } from '../json-text.ts';
import { fields, table } from '../output.ts';
import { readInput } from '../prompt.ts';
import { idArgument } from './arguments.ts';
import { registerImport } from './import-openapi.ts';

const INSTANCE = 'gateway instance (gwi_…)';
const NAME = 'name or template, such as http.post:/orders/{id}/refund';

const MAP_HELP = `
Where a value comes from:
  /pointer      JSON Pointer into the body (forms: the field's name after the slash)
  query:<name>  a query parameter
  path:<name>   a parameter of the path template
  const:<text>  always this
  none          nothing: with --amount none the action counts as 0

Without options, amount, currency and counterparty are the body's members of these names.

Examples:
  mandate tools map gwi_… http.post:/payments --action-type payments.create
  mandate tools map gwi_… 'http.get:/payments/{id}' --action-type payments.read --amount none
  mandate tools map gwi_… http.post:/v1/payment_intents --action-type payments.create \\
    --unit minor --currency-notation lower
`;

interface MapOptions {
  actionType: string;
  amount?: string;
  currency?: string;
  currencyNotation?: 'upper' | 'lower';
  counterparty?: string;
  counterpartyRequired?: true;
  unit?: 'major' | 'minor';
  bodyLimit?: string;
}

interface ListOptions {
  state?: string;
  after?: string;
  limit?: string;
}

/** `mandate tools …`: the requests an agent made (or may make), and the action each one is. */
export function registerTools(program: Command, invocation: Invocation): void {
  const tools = program.command('tools').description('requests of an instance, and the action type each is mapped to');
  tools
    .command('list')
    .argument('<instance>', INSTANCE)
    .option('--state <state>', 'only these: unmapped, mapped, blocked')
    .option('--after <name>', 'go on after this tool (`next` of the page before)')
    .option('--limit <n>', 'at most so many')
    .description('list the tools of an instance')
    .action(async (instance: string, options: ListOptions) => {
      const query = new URLSearchParams();
      if (options.state !== undefined) query.set('state', options.state);
      if (options.after !== undefined) query.set('after', options.after);
      if (options.limit !== undefined) query.set('limit', options.limit);
      const path = `${toolsPath(instance)}${query.size > 0 ? `?${query}` : ''}`;
      invocation.show(await (await invocation.client()).get(path), toolTable);
    });
  registerMap(tools, invocation);
  registerTrial(tools, invocation);
  registerSuggest(tools, invocation);
  registerImport(tools, invocation);
  const steps = [
    ['unmap', 'forget the mapping: requests are denied until it is mapped again'],
    ['block', 'deny every request of this tool, whatever templates say'],
  ] as const;
  for (const [step, description] of steps) {
    tools
      .command(step)
      .argument('<instance>', INSTANCE)
      .argument('<name>', NAME)
      .description(description)
      .action(async (instance: string, name: string) => {
        const answer = await (await invocation.client()).send(
          'POST',
          `${toolsPath(instance)}/${step}`,
          bodyText({ name }),
        );
        invocation.show(answer, toolCard);
      });
  }
}

function registerMap(tools: Command, invocation: Invocation): void {
  tools
    .command('map')
    .argument('<instance>', INSTANCE)
    .argument('<name>', NAME)
    .description('say which action a request is, and where its amount is')
    .requiredOption('--action-type <type>', "dotted name, within the mandate's scope")
    .option('--amount <source>', 'where the amount is (default /amount)')
    .option('--currency <source>', 'where the currency is (default /currency)')
    .option('--counterparty <source>', 'where the counterparty is (default /counterparty)')
    .option('--counterparty-required', 'a request without a counterparty cannot be read')
    .addOption(new Option('--unit <unit>', 'unit of the amount (default major)').choices(['major', 'minor']))
    .addOption(
      new Option('--currency-notation <case>', 'how the currency is written (default upper)').choices([
        'upper',
        'lower',
      ]),
    )
    .option('--body-limit <bytes>', 'largest body')
    .addHelpText('after', MAP_HELP)
    .action(async (instance: string, name: string, options: MapOptions) => {
      const body = bodyText({ name, mapping: mappingOf(options) });
      invocation.show(await (await invocation.client()).send('PUT', toolsPath(instance), body), toolCard);
    });
}

interface TestOptions {
  body?: string;
  contentType?: string;
  as?: string;
}

function registerTrial(tools: Command, invocation: Invocation): void {
  tools
    .command('test')
    .argument('<instance>', INSTANCE)
    .argument('<method>', 'such as POST')
    .argument('<path>', 'such as /payments?x=1, as the agent would send it')
    .description('say what would become of a request now; nothing is sent, recorded or reserved')
    .option('--body <file>', 'the body (a file, or - for standard input)')
    .option('--content-type <type>', 'of the body (default application/json)')
    .option('--as <json>', 'a mapping that is not saved yet, as JSON: {"action_type": "payments.create", …}')
    .action(async (instance: string, method: string, path: string, options: TestOptions) => {
      const body = options.body === undefined ? undefined : await readInput(invocation.io, 'body', options.body);
      const asked = {
        ...{ method: method.toUpperCase(), path, body, content_type: options.contentType },
        mapping: options.as === undefined ? undefined : new JsonText(options.as),
      };
      const answer = await (await invocation.client()).send('POST', `${toolsPath(instance)}/test`, bodyText(asked));
      invocation.show(answer, trialCard);
    });
}

function registerSuggest(tools: Command, invocation: Invocation): void {
  tools
    .command('suggest')
    .argument('<instance>', INSTANCE)
    .description('suggest how the tools that were discovered could be mapped, from what their requests looked like')
    .action(async (instance: string) => {
      const answer = await (await invocation.client()).get(`${toolsPath(instance)}/suggestions`);
      invocation.show(answer, suggestionTable);
    });
}

function suggestionTable(value: JsonRecord): string {
  const all = [...recordsOf(value, 'templates'), ...recordsOf(value, 'tools')];
  if (all.length === 0) return 'Nothing to suggest: no tool of this instance waits to be mapped.\n';
  const rows = all.map((one) => {
    const suggestion = recordOf(one, 'suggestion');
    const part = (name: string) => recordOf(suggestion, name)['value'];
    const amount = recordOf(suggestion, 'amount');
    const sources = [part('action_type'), amount['value'], part('currency'), part('counterparty')];
    return [one['name'], ...sources, amount['confidence'], amount['reason']];
  });
  return table(['tool or template', 'action type', 'amount', 'currency', 'counterparty', 'sure', 'why'], rows);
}

function trialCard(value: JsonRecord): string {
  const [action, before, after] = ['action', 'before', 'after'].map((name) => recordOf(value, name)) as JsonRecord[];
  const amount = recordOf(action!, 'amount');
  const tool = recordOf(value, 'tool');
  const month = (one: JsonRecord) => `${one['booked']} booked, ${one['reserved']} reserved (${value['currency']})`;
  return fields([
    ['tool', tool['pattern'] ?? tool['name']],
    ['would be', value['decision']],
    ['code', value['code']],
    ['because', value['reason']],
    ['action', action!['type']],
    ['amount', amount['value'] === undefined ? '' : `${amount['value']} ${amount['currency']}`],
    ['counterparty', action!['counterparty']],
    ['month before', month(before!)],
    ['month after', month(after!)],
    ['note', value['disabled'] === true ? 'The instance is disabled: every request of it is refused.' : ''],
  ]);
}

function mappingOf(options: MapOptions): Record<string, unknown> {
  const given = {
    action_type: options.actionType,
    amount: options.amount,
    currency: options.currency,
    counterparty: options.counterparty,
    counterparty_optional: options.counterpartyRequired === true ? false : undefined,
    amount_unit: options.unit,
    currency_notation: options.currencyNotation === 'lower' ? 'iso_lower' : undefined,
    body_limit_bytes: options.bodyLimit === undefined ? undefined : Number(options.bodyLimit),
  };
  const mapping = Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined));
  const checked = toolMappingInput.safeParse(mapping);
  if (checked.success) return mapping;
  const lines = checked.error.issues.map((issue) => `${OPTIONS[String(issue.path[0])] ?? 'mapping'} ${issue.message}`);
  throw usageError(lines.join('\n'), 'See `mandate tools map --help` for what may stand there.');
}

const OPTIONS: Readonly<Record<string, string>> = {
  action_type: '--action-type',
  amount: '--amount',
  currency: '--currency',
  counterparty: '--counterparty',
  body_limit_bytes: '--body-limit',
};

function toolsPath(instance: string): string {
  return `/admin/gateways/${idArgument(instance, 'gwi')}/tools`;
}

function toolTable(value: JsonRecord): string {
  const tools = recordsOf(value, 'tools');
  if (tools.length === 0) return 'No tools yet: they appear with the first request, or with `mandate tools map`.\n';
  const rows = tools.map((tool) => {
    const mapping = recordOf(tool, 'mapping');
    const { unmapped = 0, unreadable = 0 } = recordOf(tool, 'seen');
    const denied = Number(unmapped) + Number(unreadable);
    const read = [mapping['action_type'], mapping['amount'], mapping['amount_unit']];
    return [tool['name'], tool['state'], ...read, denied === 0 ? '' : denied];
  });
  const more =
    typeof value['next'] === 'string' ? '\nThere are more: mandate tools list … --after <the last name>\n' : '';
  return table(['tool', 'state', 'action type', 'amount', 'unit', 'denied unread'], rows, [5]) + more;
}

function toolCard(tool: JsonRecord): string {
  const mapping = recordOf(tool, 'mapping');
  return fields([
    ['tool', tool['name']],
    ['state', tool['state']],
    ['action type', mapping['action_type']],
    ['amount', mapping['amount']],
    ['unit', mapping['amount'] === 'none' ? '' : mapping['amount_unit']],
    ['currency', mapping['currency']],
    ['counterparty', mapping['counterparty']],
    ['body limit', mapping['body_limit_bytes'] ? `${mapping['body_limit_bytes']} bytes` : ''],
  ]);
}
