import { spawn } from 'node:child_process';
import type { Command } from 'commander';
import { CliError } from '../cli-error.ts';
import type { Invocation } from '../invocation.ts';
import { type EntryName, entryEnvironment, entryPath, NODE_FLAGS } from '../supervisor/entry.ts';
import { runDoctor } from './doctor.ts';
import { runUp } from './up.ts';

/** `mandate up | proxy | control-plane | migrate | doctor`: the processes of the system. */
export function registerProcesses(program: Command, invocation: Invocation): void {
  program
    .command('up')
    .description('start everything on this machine: database, control plane and proxy; Ctrl-C stops it')
    .option('--demo', 'show what the system does, step by step, and end')
    .action((options: { demo?: true }) => runUp(invocation, options));
  program
    .command('control-plane')
    .description('run one control plane in the foreground (for containers)')
    .action(() => become(invocation, 'control-plane/main', NODE_FLAGS));
  program
    .command('proxy')
    .description('run one proxy in the foreground (for containers)')
    .action(() => become(invocation, 'proxy/main', NODE_FLAGS));
  program
    .command('migrate')
    .description('bring the database of MANDATE_DATABASE_URL to the version of this program')
    .action(() => become(invocation, 'control-plane/migrate-main', [], invocation.json ? ['--json'] : []));
  program
    .command('doctor')
    .description('check configuration, database and processes, and say how to repair what is wrong')
    .action(() => runDoctor(invocation));
}

/**
 * Goes on as another program in this same process (execve), so that signals and the exit code are that program's own;
 * where the system cannot do that, runs it as a child.
 */
async function become(
  invocation: Invocation,
  entry: EntryName,
  flags: readonly string[],
  args: readonly string[] = [],
): Promise<void> {
  const command = [...flags, entryPath(entry), ...args];
  const environment = entryEnvironment(invocation.io.environment);
  if (typeof process.execve === 'function' && process.platform !== 'win32') {
    process.execve(process.execPath, [process.execPath, ...command], definedOnly(environment));
  }
  const child = spawn(process.execPath, command, { stdio: 'inherit', env: environment });
  for (const signal of ['SIGTERM', 'SIGINT'] as const) process.on(signal, () => child.kill(signal));
  const code = await new Promise<number>((resolve) => child.once('exit', (exitCode) => resolve(exitCode ?? 1)));
  if (code !== 0) throw new CliError(`${entry} ended with exit code ${code}.`, { exitCode: code });
}

function definedOnly(environment: NodeJS.ProcessEnv): Record<string, string> {
  const entries = Object.entries(environment).filter((entry): entry is [string, string] => entry[1] !== undefined);
  return Object.fromEntries(entries);
}
