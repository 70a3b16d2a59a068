import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const CLI = fileURLToPath(new URL('../../cli/main.ts', import.meta.url));

/** Ports that the system chooses, so that tests can run beside each other and beside a running system. */
export const ANY_PORTS = {
  MANDATE_PROXY_PORT: '0',
  MANDATE_CONTROL_PORT: '0',
  MANDATE_PROXY_METRICS_PORT: '0',
  MANDATE_CONTROL_METRICS_PORT: '0',
};

export type Variables = Readonly<Record<string, string>>;

/** The environment of a test: nothing of ours from outside, and `variables`. */
export function testEnvironment(variables: Variables): NodeJS.ProcessEnv {
  const outside = Object.entries(process.env).filter(([name]) => !name.startsWith('MANDATE_'));
  return { ...Object.fromEntries(outside), ...variables };
}

/** A new directory that a database can be kept in, whoever runs the tests. */
export function newDirectory(): Promise<string> {
  return mkdtemp(join(tmpdir(), 'mandate-test-'));
}

/** Runs one command of the CLI to its end. */
export async function mandate(
  args: readonly string[],
  variables: Variables,
  stdin = '',
): Promise<{ code: number | null; stdout: string; stderr: string }> {
  const child = spawn(process.execPath, [CLI, ...args], { env: testEnvironment(variables) });
  let [stdout, stderr] = ['', ''];
  child.stdout.setEncoding('utf8').on('data', (text: string) => (stdout += text));
  child.stderr.setEncoding('utf8').on('data', (text: string) => (stderr += text));
  child.stdin.end(stdin);
  const code = await new Promise<number | null>((resolve) => child.once('close', resolve));
  return { code, stdout, stderr };
}

/** A running `mandate up`. */
export interface RunningUp {
  readonly process: ChildProcess;
  readonly addresses: Readonly<Record<string, string>>;
  readonly ended: Promise<{ code: number | null; signal: NodeJS.Signals | null; stderr: string }>;
  /** Sends SIGKILL to it and everything below it. */
  killTree(): Promise<void>;
}

/** Starts `mandate up --json` and waits until it answers; rejects with what it wrote when it ends before. */
export function startUp(variables: Variables): Promise<RunningUp> {
  const child = spawn(process.execPath, [CLI, 'up', '--json'], {
    env: testEnvironment(variables),
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let [stdout, stderr] = ['', ''];
  child.stderr.setEncoding('utf8').on('data', (text: string) => (stderr += text));
  const ended = new Promise<{ code: number | null; signal: NodeJS.Signals | null; stderr: string }>((resolve) => {
    child.once('close', (code, signal) => resolve({ code, signal, stderr }));
  });
  return new Promise((resolve, reject) => {
    child.stdout.setEncoding('utf8').on('data', (text: string) => {
      stdout += text;
      if (!stdout.endsWith('\n')) return;
      const addresses = JSON.parse(stdout) as Record<string, string>;
      resolve({ process: child, addresses, ended, killTree: () => killTree(child, ended) });
    });
    ended.then((end) => reject(new Error(`up ended with ${end.code}: ${end.stderr}`)));
  });
}

async function killTree(child: ChildProcess, ended: Promise<unknown>): Promise<void> {
  for (const pid of child.pid === undefined ? [] : descendants(child.pid)) {
    try {
      process.kill(pid, 'SIGKILL');
    } catch {
      // Gone already.
    }
  }
  await ended;
}

/** A process and everything below it, parents first. */
export function descendants(root: number): number[] {
  const { stdout } = spawnSync('ps', ['-eo', 'pid=,ppid='], { encoding: 'utf8' });
  const pairs = stdout.split('\n').map((line) => line.trim().split(/\s+/).map(Number));
  const found = [root];
  for (const parent of found) {
    for (const [pid, ppid] of pairs) if (ppid === parent && pid !== undefined) found.push(pid);
  }
  return found;
}
