import { spawnSync } from 'node:child_process';
import { readdir, readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import {
  EMBEDDED_BACKEND_EXIT_MS,
  EMBEDDED_FAST_SHUTDOWN_MS,
  EMBEDDED_IMMEDIATE_SHUTDOWN_MS,
  EMBEDDED_POLL_MS,
} from '../../core/limits.ts';
import { DatabaseError, errorCode } from './database-error.ts';

interface ServerProcess {
  readonly pid: number;
  readonly isPostmaster: boolean;
}

/** Sends a signal; a process that is already gone is no error. */
export function signalProcess(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch (error) {
    if (errorCode(error) !== 'ESRCH') throw error;
  }
}

/**
 * Ends whatever still runs of the cluster named `clusterName`: a postmaster whose supervisor was killed, or server
 * processes whose postmaster was killed. Returns once none of them exists (a zombie does not count: it runs nothing).
 * The caller holds the cluster's lock, so nobody else can be using them.
 *
 * @throws DatabaseError `did_not_stop`
 */
export async function stopOrphans(clusterName: string, onProgress: (message: string) => void): Promise<void> {
  const found = await serverProcesses(clusterName);
  if (found.length === 0) return;
  onProgress('Stopping the database server that a killed start left behind');
  const postmasters = found.filter((server) => server.isPostmaster);
  for (const server of postmasters) signalProcess(server.pid, 'SIGINT');
  const patience = postmasters.length > 0 ? EMBEDDED_FAST_SHUTDOWN_MS : EMBEDDED_BACKEND_EXIT_MS;
  if (await allGone(clusterName, patience)) return;
  for (const signal of ['SIGQUIT', 'SIGKILL'] as const) {
    for (const server of await serverProcesses(clusterName)) signalProcess(server.pid, signal);
    if (await allGone(clusterName, EMBEDDED_IMMEDIATE_SHUTDOWN_MS)) return;
  }
  const pids = (await serverProcesses(clusterName)).map((server) => server.pid).join(', ');
  throw new DatabaseError(
    'did_not_stop',
    `A database server of an earlier start does not end (process ${pids}): end it, then start again.`,
  );
}

/**
 * Removes `postmaster.pid` where its process number now belongs to a zombie or to another program, because
 * PostgreSQL takes any living process of that number for its own postmaster. Called after `stopOrphans`.
 */
export async function dropStalePidFile(cluster: string): Promise<void> {
  const path = join(cluster, 'postmaster.pid');
  let text: string;
  try {
    text = await readFile(path, 'utf8');
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return;
    throw error;
  }
  const pid = Number(text.split('\n', 1)[0]);
  if (!Number.isSafeInteger(pid) || pid <= 0 || exists(pid)) await rm(path, { force: true });
}

function exists(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return errorCode(error) === 'EPERM';
  }
}

async function allGone(clusterName: string, patienceMs: number): Promise<boolean> {
  for (const end = Date.now() + patienceMs; ; await delay(EMBEDDED_POLL_MS)) {
    if ((await serverProcesses(clusterName)).length === 0) return true;
    if (Date.now() > end) return false;
  }
}

/**
 * The living server processes of one cluster, found by the cluster name in their titles: the postmaster has it among
 * its arguments, every other process shows `postgres: <cluster name>: …`. Titles can be read across users without a
 * capability, unlike a process's working directory.
 */
async function serverProcesses(clusterName: string): Promise<ServerProcess[]> {
  const titles = process.platform === 'linux' ? await titlesFromProc() : titlesFromPs();
  const servers: ServerProcess[] = [];
  for (const [pid, title] of titles) {
    if (!title.includes(clusterName)) continue;
    const isBackend = title.startsWith('postgres: ');
    const isPostmaster = !isBackend && /^\S*\/postgres\s/.test(title);
    if (isBackend || isPostmaster) servers.push({ pid, isPostmaster });
  }
  return servers;
}

async function titlesFromProc(): Promise<Map<number, string>> {
  const titles = new Map<number, string>();
  for (const name of await readdir('/proc')) {
    if (!/^[0-9]+$/.test(name)) continue;
    try {
      titles.set(Number(name), (await readFile(`/proc/${name}/cmdline`, 'utf8')).replaceAll('\0', ' '));
    } catch (error) {
      const code = errorCode(error);
      if (code !== 'ENOENT' && code !== 'ESRCH' && code !== 'EACCES' && code !== 'EPERM') throw error;
    }
  }
  return titles;
}

function titlesFromPs(): Map<number, string> {
  const titles = new Map<number, string>();
  const { stdout } = spawnSync('ps', ['-axo', 'pid=,stat=,command='], { encoding: 'utf8' });
  for (const line of (stdout ?? '').split('\n')) {
    const match = /^\s*([0-9]+)\s+(\S+)\s+(.*)$/.exec(line);
    if (match?.[1] && match[3] && !match[2]?.startsWith('Z')) titles.set(Number(match[1]), match[3]);
  }
  return titles;
}
