import type { Command } from 'commander';
import type { JsonRecord } from '../admin-client.ts';
import { usageError } from '../cli-error.ts';
import { type Invocation, recordsOf } from '../invocation.ts';
import { bodyText, wholeText } from '../json-text.ts';
import { cell, fields, table } from '../output.ts';
import { commaList, idArgument } from './arguments.ts';

const KEY = 'API key (key_…)';

interface KeyOptions {
  scope?: string[];
  name?: string;
  verifyPerSecond?: string;
  verifyBurst?: string;
  managementPerSecond?: string;
  managementBurst?: string;
}

/** `mandate keys …`: what software shows at /api/v1. */
export function registerKeys(program: Command, invocation: Invocation): void {
  const keys = program.command('keys').description('API keys: what software shows at /api/v1');
  withRates(
    keys
      .command('create')
      .description('create a key; it is shown once')
      .requiredOption(
        '--scope <scopes>',
        'agents:present, verify, consumptions:write, executions:write, mandates:read, evidence:read',
        commaList,
      )
      .option('--name <name>', 'a name for people'),
  ).action(async (options: KeyOptions) => {
    const body = { name: options.name, scopes: options.scope, ...ratesOf(options) };
    const answer = await (await invocation.client()).send('POST', '/admin/keys', bodyText(body));
    invocation.show(answer, (key) => keyCard(key) + usageHint(invocation, key));
  });
  keys
    .command('list')
    .description('list the keys and when each was last used')
    .action(async () => {
      const answer = await (await invocation.client()).get('/admin/keys');
      invocation.show(answer, (value) => keyTable(recordsOf(value, 'keys')));
    });
  keys
    .command('revoke')
    .argument('<id>', KEY)
    .description('refuse the key from now on, for good')
    .action(async (id: string) => {
      const path = `/admin/keys/${idArgument(id, 'key')}/revoke`;
      invocation.show(await (await invocation.client()).send('POST', path), keyCard);
    });
  withRates(
    keys.command('limits').argument('<id>', KEY).description('change how many requests the key may send'),
  ).action(async (id: string, options: KeyOptions) => {
    const body = ratesOf(options);
    if (Object.values(body).every((value) => value === undefined)) {
      throw usageError('Nothing to change was given.', 'See `mandate keys limits --help`.');
    }
    const path = `/admin/keys/${idArgument(id, 'key')}`;
    invocation.show(await (await invocation.client()).send('PATCH', path, bodyText(body)), keyCard);
  });
}

function withRates(command: Command): Command {
  return command
    .option('--verify-per-second <n>', 'verifications a second on average')
    .option('--verify-burst <n>', 'verifications that may come at once')
    .option('--management-per-second <n>', 'other requests a second on average')
    .option('--management-burst <n>', 'other requests that may come at once');
}

function ratesOf(options: KeyOptions): Record<string, unknown> {
  return {
    verify_per_second: rate('--verify-per-second', options.verifyPerSecond),
    verify_burst: rate('--verify-burst', options.verifyBurst),
    management_per_second: rate('--management-per-second', options.managementPerSecond),
    management_burst: rate('--management-burst', options.managementBurst),
  };
}

function rate(option: string, value: string | undefined): unknown {
  return value === undefined ? undefined : wholeText(option, value);
}

function keyTable(keys: readonly JsonRecord[]): string {
  if (keys.length === 0) return 'No API keys yet. Create one: mandate keys create --scope verify\n';
  const rows = keys.map((key) => [
    key['key_id'],
    key['status'],
    key['scopes'],
    key['last_used_at'] ?? 'never',
    key['name'],
  ]);
  return table(['key', 'status', 'scopes', 'last used', 'name'], rows);
}

function keyCard(key: JsonRecord): string {
  const rateText = (name: string) => `${cell(key[`${name}_per_second`])}/s, burst ${cell(key[`${name}_burst`])}`;
  return fields([
    ['key', key['key_id']],
    ['name', key['name']],
    ['status', key['status']],
    ['scopes', key['scopes']],
    ['verify rate', rateText('verify')],
    ['other requests', rateText('management')],
    ['created', key['created_at']],
    ['revoked', key['revoked_at']],
    ['last used', key['last_used_at']],
    ['API key', key['api_key']],
  ]);
}

function usageHint(invocation: Invocation, key: JsonRecord): string {
  const { publicUrl, proxyHost, proxyPort } = invocation.config;
  const base = publicUrl ?? `http://${proxyHost}:${proxyPort}`;
  return (
    '\nThe key is not shown again. Software sends it with each request:\n' +
    `  curl ${base}/api/v1/… -H 'authorization: Bearer ${cell(key['api_key'])}'\n`
  );
}
