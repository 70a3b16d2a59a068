import type { Command } from 'commander';
import { serviceUrl } from '../../config/load.ts';
import type { JsonRecord } from '../admin-client.ts';
import { usageError } from '../cli-error.ts';
import { type Invocation, recordsOf } from '../invocation.ts';
import { bodyText, wholeText } from '../json-text.ts';
import { cell, fields, table } from '../output.ts';
import { secretFromStdin } from '../prompt.ts';
import { idArgument } from './arguments.ts';

const INSTANCE = 'gateway instance (gwi_…)';

interface GatewayOptions {
  mandate?: string;
  target?: string;
  name?: string;
  credentialHeader?: string;
  credentialStdin?: true;
  removeCredential?: true;
  ratePerSecond?: string;
  rateBurst?: string;
}

/** `mandate gateways …`: what stands between an agent and one target. */
export function registerGateways(program: Command, invocation: Invocation): void {
  const gateways = program.command('gateways').description('gateway instances: a mandate in front of a target');
  withCommonOptions(
    gateways
      .command('create')
      .description("create an instance; its token is the agent's key and is shown once")
      .requiredOption('--mandate <id>', 'the mandate that decides (mdt_…)')
      .requiredOption('--target <url>', 'where allowed requests go, such as https://api.example.com'),
  ).action(async (options: GatewayOptions) => {
    const body = { mandate_id: idArgument(options.mandate ?? '', 'mdt'), ...(await commonBody(invocation, options)) };
    const answer = await (await invocation.client()).send('POST', '/admin/gateways', bodyText(body));
    invocation.show(answer, (gateway) => gatewayCard(gateway) + usageHint(invocation, gateway));
  });
  gateways
    .command('list')
    .description('list all instances')
    .action(async () => {
      const answer = await (await invocation.client()).list('/admin/gateways', 'gateways');
      invocation.show(answer, (value) => gatewayTable(recordsOf(value, 'gateways')));
    });
  gateways
    .command('show')
    .argument('<id>', INSTANCE)
    .description('show one instance')
    .action(async (id: string) => {
      const answer = await (await invocation.client()).get(`/admin/gateways/${idArgument(id, 'gwi')}`);
      invocation.show(answer, gatewayCard);
    });
  registerChanges(gateways, invocation);
}

function registerChanges(gateways: Command, invocation: Invocation): void {
  withCommonOptions(
    gateways
      .command('update')
      .argument('<id>', INSTANCE)
      .description('change target, credential, name or rate')
      .option('--target <url>', 'where allowed requests go')
      .option('--remove-credential', 'forget the stored credential'),
  ).action(async (id: string, options: GatewayOptions) => {
    const body = await commonBody(invocation, options);
    if (Object.values(body).every((value) => value === undefined)) {
      throw usageError('Nothing to change was given.', 'See `mandate gateways update --help`.');
    }
    const path = `/admin/gateways/${idArgument(id, 'gwi')}`;
    invocation.show(await (await invocation.client()).send('PATCH', path, bodyText(body)), gatewayCard);
  });
  const steps = [
    ['rotate-token', 'replace the token; the old one is refused from then on'],
    ['disable', 'refuse every request of this instance'],
    ['enable', 'let a disabled instance work again'],
  ] as const;
  for (const [step, description] of steps) {
    gateways
      .command(step)
      .argument('<id>', INSTANCE)
      .description(description)
      .action(async (id: string) => {
        const path = `/admin/gateways/${idArgument(id, 'gwi')}/${step}`;
        const answer = await (await invocation.client()).send('POST', path);
        invocation.show(answer, (gateway) => gatewayCard(gateway) + usageHint(invocation, gateway));
      });
  }
}

function withCommonOptions(command: Command): Command {
  return command
    .option('--name <name>', 'a name for people')
    .option('--credential-header <header>', "header of the target's own credential, such as Authorization")
    .option('--credential-stdin', "read that header's value from standard input")
    .option('--rate-per-second <n>', 'requests a second that are let through on average')
    .option('--rate-burst <n>', 'requests that may come at once');
}

async function commonBody(invocation: Invocation, options: GatewayOptions): Promise<Record<string, unknown>> {
  return {
    target_url: options.target,
    name: options.name,
    credential: await credential(invocation, options),
    rate_per_second: rate('--rate-per-second', options.ratePerSecond),
    rate_burst: rate('--rate-burst', options.rateBurst),
  };
}

function rate(option: string, value: string | undefined): unknown {
  return value === undefined ? undefined : wholeText(option, value);
}

async function credential(invocation: Invocation, options: GatewayOptions): Promise<object | null | undefined> {
  const { credentialHeader: header, credentialStdin: fromStdin, removeCredential: remove } = options;
  if (remove === true && header === undefined && fromStdin === undefined) return null;
  if (header === undefined && fromStdin === undefined) return undefined;
  if (remove !== true && header !== undefined && fromStdin === true) {
    return { header, value: await secretFromStdin(invocation.io, 'credential') };
  }
  throw usageError(
    '--credential-header and --credential-stdin belong together, and exclude --remove-credential.',
    'Pipe the value in, so that it stays out of the process list and the shell history.',
  );
}

function gatewayTable(gateways: readonly JsonRecord[]): string {
  if (gateways.length === 0) return 'No gateway instances yet. Create one: mandate gateways create --help\n';
  const rows = gateways.map((gateway) => [
    gateway['instance_id'],
    gateway['status'],
    gateway['target_url'],
    gateway['mandate_id'],
    gateway['name'],
  ]);
  return table(['instance', 'status', 'target', 'mandate', 'name'], rows);
}

function gatewayCard(gateway: JsonRecord): string {
  return fields([
    ['instance', gateway['instance_id']],
    ['name', gateway['name']],
    ['status', gateway['status']],
    ['mandate', gateway['mandate_id']],
    ['target', gateway['target_url']],
    ['credential', gateway['credential_header'] ? `${gateway['credential_header']}: (stored)` : ''],
    ['rate', gateway['rate_per_second'] ? `${gateway['rate_per_second']}/s, burst ${gateway['rate_burst']}` : ''],
    ['token', gateway['token']],
  ]);
}

function usageHint(invocation: Invocation, gateway: JsonRecord): string {
  if (gateway['token'] === undefined) return '';
  const base = serviceUrl(invocation.config);
  return (
    '\nThe token is not shown again. The agent calls the proxy in place of the target:\n' +
    `  curl ${base}/api/gateway/http/<path> -H 'authorization: Bearer ${cell(gateway['token'])}' …\n`
  );
}
