import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import type { Server } from 'node:net';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

/** A script of this folder that listens in a process of its own. */
export interface ListeningChild {
  readonly url: string;
  readonly pid: number;
  stop(): Promise<void>;
}

const START_TIMEOUT_MS = 15_000;
const STOP_TIMEOUT_MS = 5000;

/** Tells the parent where `server` listens: the first line of stdout, as `{"url": …}`. */
export function announce(server: Server): void {
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('the server has no port');
  process.stdout.write(`${JSON.stringify({ url: `http://127.0.0.1:${address.port}` })}\n`);
}

/** Starts a script (path relative to this folder) with the same Node and waits until it announces its URL. */
export async function startScript(script: string, args: readonly string[] = []): Promise<ListeningChild> {
  const path = fileURLToPath(new URL(script, import.meta.url));
  const env = { ...process.env, NODE_ENV: 'production' };
  const child = spawn(process.execPath, [path, ...args], { stdio: ['ignore', 'pipe', 'inherit'], env });
  const url = await announcedUrl(child, script);
  return { url, pid: pidOf(child), stop: () => stopChild(child) };
}

async function announcedUrl(child: ChildProcess, script: string): Promise<string> {
  if (child.stdout === null) throw new Error(`${script} has no stdout`);
  const lines = createInterface({ input: child.stdout });
  const timeout = AbortSignal.timeout(START_TIMEOUT_MS);
  const exited = once(child, 'exit', { signal: timeout }).then(() => {
    throw new Error(`${script} ended before it listened`);
  });
  exited.catch(() => {});
  const [line] = (await Promise.race([once(lines, 'line', { signal: timeout }), exited])) as [string];
  return (JSON.parse(line) as { url: string }).url;
}

/** The process id of a started child. */
export function pidOf(child: ChildProcess): number {
  if (child.pid === undefined) throw new Error(`could not start ${child.spawnfile}`);
  return child.pid;
}

/** Asks the child to end, and ends it where it does not. */
export async function stopChild(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exit = once(child, 'exit');
  child.kill('SIGTERM');
  const force = setTimeout(() => child.kill('SIGKILL'), STOP_TIMEOUT_MS);
  await exit;
  clearTimeout(force);
}
