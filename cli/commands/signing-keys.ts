import type { Command } from 'commander';
import { type Config, ConfigError, loadConfig } from '../../config/load.ts';
import { CliError, EXIT_FAILED, EXIT_USAGE } from '../cli-error.ts';
import { type Invocation, recordsOf } from '../invocation.ts';
import { writeNew } from '../new-file.ts';
import { table } from '../output.ts';
import { runOnDatabase } from '../supervisor/operator-program.ts';

/** A rotation may wait ten seconds for the next key to be known everywhere. */
const TIMEOUT_MS = 60_000;

/** `mandate signing-keys list | rotate | export`: for who runs the service, so it works on the database and not on the API. */
export function registerSigningKeys(program: Command, invocation: Invocation): void {
  const keys = program
    .command('signing-keys')
    .description('the keys that the service signs with, for who runs it: needs the database and the master key');
  keys
    .command('list')
    .description('list them: next, current and retired')
    .action(() => list(invocation));
  keys
    .command('rotate')
    .description('sign with the next key from now on; what was signed before stays valid')
    .action(() => rotate(invocation));
  keys
    .command('export')
    .requiredOption('--out <file>', 'a new file for the JWKS')
    .description('write the public keys, current, next and retired, for others to pin')
    .action(({ out }: { out: string }) => exportKeys(invocation, out));
}

/** The public keys as the service publishes them: for whoever checks what it signed, to pin. */
async function exportKeys(invocation: Invocation, out: string): Promise<void> {
  const { value } = await run(invocation, 'export');
  const text = JSON.stringify(value);
  await writeNew(out, `${text}\n`);
  invocation.show({ text, value }, () => `${out} holds ${recordsOf(value, 'keys').length} public keys to pin.\n`);
}

async function list(invocation: Invocation): Promise<void> {
  const answer = await run(invocation, 'list');
  invocation.show(answer, (value) => {
    const tokens = recordsOf(value, 'keys').map((key) => [
      ...[key['kid'], key['status'], key['created_at'], key['current_at'], key['retired_at']],
    ]);
    const logs = recordsOf(value, 'log_keys').map((key) => [key['public_key'], key['created_at']]);
    return (
      `${table(['KID', 'STATUS', 'CREATED', 'CURRENT SINCE', 'RETIRED'], tokens)}\n` +
      `Checkpoints of the evidence (\`mandate evidence log\` shows an account's verifier key):\n\n` +
      table(['ED25519 PUBLIC KEY', 'CREATED'], logs)
    );
  });
}

async function rotate(invocation: Invocation): Promise<void> {
  const answer = await run(invocation, 'rotate');
  invocation.show(
    answer,
    (value) =>
      `${value['current']} signs from now on; control planes that run take it up within seconds.\n` +
      `${value['retired']} is retired: its private key is gone, its public key stays in the JWKS.\n`,
  );
}

/** Runs the program that does it; its answer is JSON, an error's as well. */
async function run(invocation: Invocation, command: 'list' | 'rotate' | 'export') {
  const { environment } = invocation.io;
  const config = configOf(invocation);
  const program = { entry: 'control-plane/signing-keys-main', args: [command], timeoutMs: TIMEOUT_MS } as const;
  const result = await runOnDatabase(program, config, environment);
  if (result === null) {
    throw new CliError('No database is configured and no embedded one is running.', {
      code: 'no_database',
      next: 'Start the system with `mandate up`, or set MANDATE_DATABASE_APP_URL to the database it uses.',
    });
  }
  const text = result.stdout.trim();
  const value = recordFrom(text);
  if (result.code === 0 && value !== null) return { text, value };
  const detail = value === null ? 'The signing keys could not be reached.' : String(value['detail']);
  throw new CliError(detail, {
    exitCode: result.code === EXIT_USAGE ? EXIT_USAGE : EXIT_FAILED,
    next: '`mandate doctor` says what is wrong and how to repair it.',
  });
}

function configOf(invocation: Invocation): Config {
  try {
    return loadConfig('up', invocation.io.environment);
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    throw new CliError(error.message, { code: 'configuration', exitCode: EXIT_USAGE });
  }
}

function recordFrom(text: string): Record<string, unknown> | null {
  try {
    return JSON.parse(text) as Record<string, unknown>;
  } catch {
    return null;
  }
}
