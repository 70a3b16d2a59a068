import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { type AddressInfo, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';

interface TestContext {
  teardown(fn: () => Promise<void> | void): void;
}

const BINARIES = ['redis-server', 'valkey-server'];

/** The path of a Redis or Valkey server on this machine, or null. */
export const REDIS_BINARY: string | null =
  (process.env['PATH'] ?? '')
    .split(delimiter)
    .flatMap((folder) => BINARIES.map((name) => join(folder, name)))
    .find((path) => existsSync(path)) ?? null;

/** Why a test is skipped, for tap's `skip`; false where a server is there. */
export const WITHOUT_REDIS: string | false =
  REDIS_BINARY === null ? 'neither redis-server nor valkey-server is in PATH' : false;

/** A store of its own on a loopback port, without persistence, that can be killed, stopped and started again. */
export class RedisServer {
  readonly port: number;
  readonly #directory: string;
  readonly #password: string | null;
  #child: ChildProcess | null = null;

  constructor(port: number, directory: string, password: string | null) {
    this.port = port;
    this.#directory = directory;
    this.#password = password;
  }

  get url(): string {
    const user = this.#password === null ? '' : `default:${this.#password}@`;
    return `redis://${user}127.0.0.1:${this.port}`;
  }

  /** Starts it, and resolves when it takes connections. */
  async start(): Promise<void> {
    if (REDIS_BINARY === null) throw new Error('there is no Redis here');
    const own = this.#password === null ? [] : ['--requirepass', this.#password];
    const child = spawn(
      REDIS_BINARY,
      ['--port', String(this.port), '--bind', '127.0.0.1', '--save', '', '--appendonly', 'no', ...own],
      { cwd: this.#directory, stdio: ['ignore', 'pipe', 'ignore'] },
    );
    this.#child = child;
    let log = '';
    await new Promise<void>((resolve, reject) => {
      child.once('exit', () => reject(new Error(`Redis ended: ${log}`)));
      child.once('error', reject);
      child.stdout.setEncoding('utf8').on('data', (text: string) => {
        log += text;
        if (log.includes('eady to accept connections')) resolve();
      });
    });
  }

  signal(name: 'SIGSTOP' | 'SIGCONT'): void {
    this.#child?.kill(name);
  }

  async kill(): Promise<void> {
    const child = this.#child;
    this.#child = null;
    if (child === null || child.exitCode !== null || child.signalCode !== null) return;
    const gone = once(child, 'exit');
    child.kill('SIGKILL');
    await gone;
  }
}

/** Starts one; it ends with the test. */
export async function redisServer(t: TestContext, password: string | null = null): Promise<RedisServer> {
  const directory = await mkdtemp(join(tmpdir(), 'mandate-redis-'));
  t.teardown(() => rm(directory, { recursive: true, force: true }));
  const server = new RedisServer(await freePort(), directory, password);
  await server.start();
  t.teardown(() => server.kill());
  return server;
}

/** A port that was free just now. */
export async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => {
    server.listen(0, '127.0.0.1', () => resolve());
  });
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => {
    server.close(resolve);
  });
  return port;
}
