import { hash, randomBytes } from 'node:crypto';
import { chmod, link, lstat, mkdir, mkdtemp, open, readFile, rename, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { CliError } from '../cli-error.ts';

const SOCKET_NAME = 'control.sock';
/** sockaddr_un holds 108 bytes on Linux and 104 on macOS, the final NUL included. */
const SOCKET_PATH_MAX_BYTES = 103;
const SECRET_BYTES = 32;

/** What a running `mandate up` tells other commands: `app_url` holds a password, so the file has mode 0600. */
export interface UpState {
  readonly pid: number;
  readonly addresses: Readonly<Record<string, string>>;
  readonly app_url: string;
}

/** Creates the data directory (mode 0700) where it is missing, and returns its absolute path. */
export async function openDataDirectory(path: string): Promise<string> {
  const directory = resolve(path);
  try {
    await mkdir(directory, { recursive: true, mode: 0o700 });
    return directory;
  } catch (error) {
    throw unusable(directory, error);
  }
}

/**
 * The secret kept in a file of the data directory, in hex; made (mode 0600, durably) where there is none. Of two
 * starts at once both get the same one.
 */
export async function keptSecret(directory: string, name: string): Promise<string> {
  const path = join(directory, name);
  try {
    return await readSecret(path);
  } catch (error) {
    if (codeOf(error) !== 'ENOENT') throw unusable(path, error);
  }
  const draft = `${path}.${randomBytes(6).toString('hex')}`;
  try {
    const file = await open(draft, 'wx', 0o600);
    await file.writeFile(`${randomBytes(SECRET_BYTES).toString('hex')}\n`);
    await file.sync();
    await file.close();
    await link(draft, path).catch((error: unknown) => {
      if (codeOf(error) !== 'EEXIST') throw error;
    });
    return await readSecret(path);
  } catch (error) {
    throw unusable(path, error);
  } finally {
    await rm(draft, { force: true });
  }
}

async function readSecret(path: string): Promise<string> {
  const text = (await readFile(path, 'utf8')).trim();
  if (/^[0-9a-f]{64}$/.test(text)) return text;
  throw new CliError(`${path} is damaged.`, {
    next: 'Restore it from your copy; a new one would not fit the database.',
  });
}

/**
 * A path for the unix socket between proxy and control plane, in a directory that only this user can enter: below the
 * data directory, or where that path would be too long for a socket, below the temporary directory.
 */
export async function socketPath(directory: string): Promise<string> {
  const near = join(directory, 'run');
  if (Buffer.byteLength(join(near, SOCKET_NAME)) <= SOCKET_PATH_MAX_BYTES) {
    await mkdir(near, { recursive: true, mode: 0o700 });
    return join(near, SOCKET_NAME);
  }
  // One name for one data directory: a killed start leaves at most this behind, and the next one uses it again.
  const uid = process.getuid?.() ?? 0;
  const short = join(tmpdir(), `mandate-${uid}-${hash('sha256', directory).slice(0, 12)}`);
  await mkdir(short, { mode: 0o700 }).catch((error: unknown) => {
    if (codeOf(error) !== 'EEXIST') throw unusable(short, error);
  });
  const found = await lstat(short);
  const ours = found.isDirectory() && found.uid === uid && (found.mode & 0o077) === 0;
  return join(ours ? short : await mkdtemp(join(tmpdir(), 'mandate-')), SOCKET_NAME);
}

function statePath(directory: string): string {
  return join(directory, 'run', 'up.json');
}

/** Writes what other commands may know of this run, for the user of the data directory only. */
export async function writeState(directory: string, state: UpState): Promise<void> {
  await mkdir(join(directory, 'run'), { recursive: true, mode: 0o700 });
  const draft = `${statePath(directory)}.${process.pid}`;
  const file = await open(draft, 'w', 0o600);
  await file.writeFile(`${JSON.stringify(state)}\n`);
  await file.close();
  await chmod(draft, 0o600);
  await rename(draft, statePath(directory));
}

export async function removeState(directory: string): Promise<void> {
  await rm(statePath(directory), { force: true });
}

/** What a running (or killed) `mandate up` of this data directory wrote; null where there is nothing. */
export async function readState(directory: string): Promise<UpState | null> {
  try {
    return JSON.parse(await readFile(statePath(directory), 'utf8')) as UpState;
  } catch {
    return null;
  }
}

function codeOf(error: unknown): string {
  return typeof error === 'object' && error !== null && 'code' in error ? String(error.code) : '';
}

function unusable(path: string, error: unknown): CliError {
  if (error instanceof CliError) return error;
  return new CliError(`${path} cannot be used (${codeOf(error) || 'unreadable'}).`, {
    next: 'Make it readable and writable for this user, or set MANDATE_DATA_DIR to another directory.',
    cause: error,
  });
}
