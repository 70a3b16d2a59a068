import { randomBytes } from 'node:crypto';
import { chmod, mkdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises';
import { homedir } from 'node:os';
import { join } from 'node:path';
import type { Config, Environment } from '../config/load.ts';
import { CliError } from './cli-error.ts';

/** A signed-in session of one control plane. */
export interface Session {
  readonly account_id: string;
  readonly email: string;
  readonly token: string;
  readonly expires_at: string;
}

type Sessions = Record<string, Session>;

/** Where the sessions are: MANDATE_HOME, else `mandate` in XDG_CONFIG_HOME, else `~/.config/mandate`. */
export function sessionPath(config: Config, environment: Environment): string {
  const configHome = environment['XDG_CONFIG_HOME'] || join(environment['HOME'] || homedir(), '.config');
  return join(config.home ?? join(configHome, 'mandate'), 'session.json');
}

/**
 * The session for `controlUrl`, or null. A token goes only to the control plane that gave it, so sessions are kept by
 * address.
 *
 * @throws CliError where the file is readable by others or damaged
 */
export async function readSession(path: string, controlUrl: string): Promise<Session | null> {
  return (await readSessions(path))[controlUrl] ?? null;
}

/** Writes (or with null removes) the session of `controlUrl`: a new file of mode 0600 takes the old one's place. */
export async function writeSession(path: string, controlUrl: string, session: Session | null): Promise<void> {
  const sessions = await readSessions(path);
  if (session === null) delete sessions[controlUrl];
  else sessions[controlUrl] = session;
  const draft = `${path}.${randomBytes(6).toString('hex')}`;
  try {
    await mkdir(join(path, '..'), { recursive: true, mode: 0o700 });
    await writeFile(draft, `${JSON.stringify(sessions, null, 2)}\n`, { mode: 0o600, flag: 'wx' });
    await chmod(draft, 0o600);
    await rename(draft, path);
  } catch (error) {
    await rm(draft, { force: true });
    throw new CliError(`The session cannot be kept in ${path} (${reason(error)}).`, {
      next: 'Make its directory writable, or set MANDATE_HOME to another one.',
      cause: error,
    });
  }
}

async function readSessions(path: string): Promise<Sessions> {
  let content: string;
  try {
    const { mode } = await stat(path);
    if ((mode & 0o077) !== 0) {
      throw new CliError(`${path} can be read by other users.`, { next: `Run: chmod 600 ${path}` });
    }
    content = await readFile(path, 'utf8');
  } catch (error) {
    if (error instanceof CliError) throw error;
    if (reason(error) === 'ENOENT') return {};
    throw new CliError(`${path} cannot be read (${reason(error)}).`, { next: 'Correct its rights or remove it.' });
  }
  try {
    return sessionsOf(JSON.parse(content));
  } catch {
    throw new CliError(`${path} is damaged.`, { next: `Remove it (rm ${path}) and run: mandate login` });
  }
}

function sessionsOf(value: unknown): Sessions {
  if (typeof value !== 'object' || value === null) throw new TypeError('an object is expected');
  const sessions: Sessions = {};
  for (const [url, session] of Object.entries(value)) sessions[url] = sessionOf(session);
  return sessions;
}

/** Reads the members of a session out of an answer or a file; throws a TypeError where one is missing. */
export function sessionOf(value: unknown): Session {
  const member = (name: string): string => {
    const found = typeof value === 'object' && value !== null ? (value as Record<string, unknown>)[name] : undefined;
    if (typeof found !== 'string') throw new TypeError(`${name} is expected`);
    return found;
  };
  return {
    account_id: member('account_id'),
    email: member('email'),
    token: member('token'),
    expires_at: member('expires_at'),
  };
}

function reason(error: unknown): string {
  return typeof error === 'object' && error !== null && 'code' in error ? String(error.code) : 'unreadable';
}
