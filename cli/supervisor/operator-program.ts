import { spawn } from 'node:child_process';
import { stat } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import type { Config, Environment } from '../../config/load.ts';
import { readState, type UpState } from './data-directory.ts';
import { type EntryName, entryEnvironment, entryPath } from './entry.ts';

/** What a program that works on the database itself wrote, and its exit code. */
export interface ProgramResult {
  readonly code: number | null;
  readonly stdout: string;
}

/** The `mandate up` that runs on this machine with this data directory, or null. */
export async function runningUp(config: Config): Promise<UpState | null> {
  const state = await readState(resolve(config.dataDir));
  return state !== null && isAlive(state.pid) ? state : null;
}

/**
 * Runs a program on the database of the configuration, or else on the embedded one that is running, with the master key
 * of the data directory where none is set. Null where there is no database to be found.
 */
export async function runOnDatabase(
  program: { readonly entry: EntryName; readonly args?: readonly string[]; readonly timeoutMs: number },
  config: Config,
  environment: Environment,
): Promise<ProgramResult | null> {
  const url = config.databaseAppUrl ?? (await runningUp(config))?.app_url;
  if (url === undefined) return null;
  const keyFile = join(resolve(config.dataDir), 'master.key');
  const hasKeyFile = (await stat(keyFile).catch(() => null)) !== null;
  const ownKey = config.masterKey === null && hasKeyFile ? { MANDATE_MASTER_KEY_FILE: keyFile } : {};
  const overrides = { MANDATE_DATABASE_APP_URL: url, MANDATE_DATABASE_APP_URL_FILE: undefined, ...ownKey };
  const child = spawn(process.execPath, [entryPath(program.entry), ...(program.args ?? [])], {
    stdio: ['ignore', 'pipe', 'ignore'],
    env: entryEnvironment(environment, overrides),
    timeout: program.timeoutMs,
  });
  let stdout = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    stdout += text;
  });
  const code = await new Promise<number | null>((done) => child.once('close', done));
  return { code, stdout };
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return typeof error === 'object' && error !== null && 'code' in error && error.code === 'EPERM';
  }
}
