import { type ChildProcess, spawn } from 'node:child_process';
import { createHash, randomBytes } from 'node:crypto';
import { copyFile, mkdir, open, readdir, readFile, rename, rm, stat, truncate } from 'node:fs/promises';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import {
  EMBEDDED_FAST_SHUTDOWN_MS,
  EMBEDDED_IMMEDIATE_SHUTDOWN_MS,
  EMBEDDED_LOG_CHECK_MS,
  EMBEDDED_LOG_MAX_BYTES,
  EMBEDDED_POLL_MS,
  EMBEDDED_PORT_ATTEMPTS,
  EMBEDDED_SOCKET_DIRECTORY_MAX_BYTES,
  EMBEDDED_START_TIMEOUT_MS,
} from '../../core/limits.ts';
import { DatabaseError } from './database-error.ts';
import {
  type Credentials,
  type DatabaseHome,
  giveToServer,
  isDirectory,
  syncDirectory,
  writeDurably,
} from './embedded-home.ts';
import { dropStalePidFile, signalProcess, stopOrphans } from './embedded-processes.ts';

/** The superuser of an embedded cluster. */
export const ADMIN_ROLE = 'mandate_admin';

const MAJOR_VERSION = '18';

/** Everybody proves a password, on the loopback address and on the unix socket alike; nobody else is listened to. */
const HOST_BASED_AUTHENTICATION = [
  '# Written at every start of Mandate Gateway.',
  'local all all scram-sha-256',
  'host all all 127.0.0.1/32 scram-sha-256',
  '',
].join('\n');

/** What PostgreSQL may write about itself; never a statement, which could hold a secret. */
const LOG_SETTINGS = {
  log_destination: 'stderr',
  log_min_messages: 'warning',
  log_min_error_statement: 'panic',
  log_statement: 'none',
  log_checkpoints: 'off',
  log_parameter_max_length_on_error: '0',
  log_timezone: 'UTC',
  lc_messages: 'C',
};

/** Given on the command line, so that no file in the data directory can switch durability or passwords off. */
const SETTINGS = {
  ...LOG_SETTINGS,
  listen_addresses: '127.0.0.1',
  unix_socket_permissions: '0777',
  password_encryption: 'scram-sha-256',
  fsync: 'on',
  synchronous_commit: 'on',
  full_page_writes: 'on',
  // One system call makes a commit durable, in place of a write and a flush.
  ...(process.platform === 'linux' ? { wal_sync_method: 'open_datasync' } : {}),
  shared_buffers: '128MB',
  jit: 'off',
  max_wal_senders: '0',
  archive_mode: 'off',
  timezone: 'UTC',
  ssl: 'off',
};

/** A PostgreSQL process under this process's care. */
export interface RunningServer {
  readonly home: string;
  readonly pid: number;
  readonly port: number;
  readonly socketDirectory: string | null;
  readonly ended: Promise<{ readonly expected: boolean }>;
  stop(): Promise<void>;
}

interface LaunchOptions {
  readonly port: number;
  readonly maxConnections: number;
  readonly onProgress: (message: string) => void;
}

/**
 * Makes the cluster where the home has none. It is made under another name and renamed when it is complete and on
 * disk, so a killed start leaves nothing that looks like a database.
 *
 * @throws DatabaseError `database_version`, `disk_full`, `permission_denied`, `did_not_start`
 */
export async function createCluster(
  home: DatabaseHome,
  native: string,
  credentials: Credentials,
  onProgress: (message: string) => void,
): Promise<void> {
  for (const name of await readdir(home.path)) {
    if (/^(cluster|password)\.new-/.test(name)) await rm(join(home.path, name), { recursive: true, force: true });
  }
  if (await isDirectory(home.cluster)) {
    const version = (await readFile(join(home.cluster, 'PG_VERSION'), 'utf8')).trim();
    if (version === MAJOR_VERSION) return;
    throw new DatabaseError(
      'database_version',
      `The database in ${home.cluster} was made by PostgreSQL ${version}, this program runs ${MAJOR_VERSION}: dump ` +
        'it with the version that made it and load the dump into a new data directory.',
    );
  }
  onProgress('Creating the database (once)');
  const suffix = randomBytes(6).toString('hex');
  const draft = join(home.path, `cluster.new-${suffix}`);
  const passwordFile = join(home.path, `password.new-${suffix}`);
  await mkdir(draft, { mode: 0o700 });
  await giveToServer(draft, home.user, 0o700);
  await writeDurably(passwordFile, `${credentials.admin}\n`);
  await giveToServer(passwordFile, home.user, 0o600);
  try {
    await initialise(home, native, draft, passwordFile);
    await rename(draft, home.cluster);
    await syncDirectory(home.path);
  } finally {
    await rm(passwordFile, { force: true });
    await rm(draft, { recursive: true, force: true });
  }
}

async function initialise(home: DatabaseHome, native: string, draft: string, passwordFile: string): Promise<void> {
  const child = spawn(
    join(native, 'bin', 'initdb'),
    [
      ...['-D', draft, '-U', ADMIN_ROLE, `--pwfile=${passwordFile}`, '--auth=scram-sha-256', '--encoding=UTF8'],
      ...['--locale=C', '--locale-provider=builtin', '--builtin-locale=C.UTF-8', '--set=max_connections=20'],
    ],
    { ...home.user.spawn, cwd: home.path, env: serverEnvironment(native), stdio: ['ignore', 'ignore', 'pipe'] },
  );
  let problems = '';
  child.stderr?.setEncoding('utf8').on('data', (text: string) => {
    problems = (problems + text).slice(-EMBEDDED_LOG_MAX_BYTES);
  });
  const code = await new Promise<number | null>((resolve, reject) => {
    child.once('error', reject).once('close', resolve);
  });
  if (code !== 0) throw explainLog(problems, home.path, null);
}

/**
 * Starts the server of a home that is locked by the caller, after whatever an earlier start left behind is settled;
 * resolves when it accepts connections.
 *
 * @throws DatabaseError `port_in_use`, `disk_full`, `permission_denied`, `did_not_start`, `did_not_stop`
 */
export async function launch(home: DatabaseHome, native: string, options: LaunchOptions): Promise<RunningServer> {
  const name = await clusterName(home.cluster);
  await stopOrphans(name, options.onProgress);
  await dropStalePidFile(home.cluster);
  const hba = join(home.cluster, 'pg_hba.conf');
  await rm(hba, { force: true });
  await writeDurably(hba, HOST_BASED_AUTHENTICATION);
  await giveToServer(hba, home.user, 0o600);
  for (let attempt = 1; ; attempt += 1) {
    const port = options.port === 0 ? await freePort() : options.port;
    const socketDirectory = await freshSocketDirectory(home);
    const server = await spawnServer(home, native, {
      ...SETTINGS,
      cluster_name: name,
      port: String(port),
      unix_socket_directories: socketDirectory ?? '',
      max_connections: String(options.maxConnections),
    });
    try {
      await untilReady(server, home, options);
      return { home: home.path, port, socketDirectory, ...server };
    } catch (error) {
      await server.stop();
      const retry = error instanceof DatabaseError && error.code === 'port_in_use' && options.port === 0;
      if (!retry || attempt >= EMBEDDED_PORT_ATTEMPTS) throw error;
    }
  }
}

/** Names a cluster by its directory's identity, which a rename keeps and a copy does not have. */
async function clusterName(cluster: string): Promise<string> {
  const { dev, ino } = await stat(cluster, { bigint: true });
  return `mandate-${createHash('sha256').update(`${dev}:${ino}`).digest('hex').slice(0, 24)}`;
}

async function freshSocketDirectory(home: DatabaseHome): Promise<string | null> {
  const directory = join(home.path, 'run');
  if (Buffer.byteLength(directory) > EMBEDDED_SOCKET_DIRECTORY_MAX_BYTES) return null;
  await rm(directory, { recursive: true, force: true });
  await mkdir(directory, { mode: 0o700 });
  await giveToServer(directory, home.user, 0o711);
  return directory;
}

function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const probe = createServer().once('error', reject);
    probe.listen(0, '127.0.0.1', () => {
      const address = probe.address();
      const port = typeof address === 'object' && address !== null ? address.port : 0;
      probe.close(() => resolve(port));
    });
  });
}

/**
 * glibc's allocator gives memory back beyond 128 KiB, so that each batch of a session would have it given and cleared
 * anew by the kernel; in bytes, a session.
 */
const ALLOCATOR = {
  MALLOC_TRIM_THRESHOLD_: '8388608',
  MALLOC_TOP_PAD_: '262144',
  MALLOC_MMAP_THRESHOLD_: '4194304',
};

/** Nothing of our own environment, which holds secrets, is passed on. */
function serverEnvironment(native: string): NodeJS.ProcessEnv {
  const path = process.platform === 'darwin' ? 'DYLD_LIBRARY_PATH' : 'LD_LIBRARY_PATH';
  return { PATH: '/usr/bin:/bin', LC_ALL: 'C', TZ: 'UTC', ...ALLOCATOR, [path]: join(native, 'lib') };
}

interface ServerHandle {
  readonly pid: number;
  readonly ended: Promise<{ readonly expected: boolean }>;
  readonly log: ServerLog;
  hasEnded(): boolean;
  stop(): Promise<void>;
}

async function spawnServer(
  home: DatabaseHome,
  native: string,
  settings: Readonly<Record<string, string>>,
): Promise<ServerHandle> {
  const log = await ServerLog.open(home);
  const flags = Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`]);
  // Its own session: Ctrl-C in the terminal must reach us first, who stop it after the last transaction.
  const child = spawn(join(native, 'bin', 'postgres'), ['-D', home.cluster, ...flags], {
    ...home.user.spawn,
    cwd: home.path,
    env: serverEnvironment(native),
    stdio: ['ignore', log.descriptor, log.descriptor],
    detached: true,
  });
  const pid = await new Promise<number>((resolve, reject) => {
    child.once('error', reject).once('spawn', () => resolve(child.pid ?? 0));
  }).finally(() => log.closeDescriptor());
  const watchdog = watch(pid, home);
  let expected = false;
  let over = false;
  const ended = new Promise<{ expected: boolean }>((resolve) => {
    child.once('exit', () => {
      over = true;
      watchdog.stdin?.end('ended\n');
      log.stopChecking();
      resolve({ expected });
    });
  });
  child.unref();
  const stop = async (): Promise<void> => {
    expected = true;
    child.ref();
    for (const [signal, patience] of SHUTDOWN) {
      if (over) return;
      signalProcess(pid, signal);
      if (await within(ended, patience)) return;
    }
    throw new DatabaseError('did_not_stop', `The database server (process ${pid}) does not end.`);
  };
  return { pid, ended, log, hasEnded: () => over, stop };
}

/** PostgreSQL's fast and immediate shutdown, and the last resort; each with the time it may take. */
const SHUTDOWN = [
  ['SIGINT', EMBEDDED_FAST_SHUTDOWN_MS],
  ['SIGQUIT', EMBEDDED_IMMEDIATE_SHUTDOWN_MS],
  ['SIGKILL', EMBEDDED_IMMEDIATE_SHUTDOWN_MS],
] as const;

async function within(done: Promise<unknown>, patienceMs: number): Promise<boolean> {
  const timer = new AbortController();
  const late = delay(patienceMs, false, { signal: timer.signal }).catch(() => false);
  const result = await Promise.race([done.then(() => true), late]);
  timer.abort();
  return result;
}

/**
 * A shell that waits for our end of a pipe to close, which it does however we die, and then shuts the server down.
 * A line on the pipe means that the server has ended already.
 */
function watch(pid: number, home: DatabaseHome): ChildProcess {
  const script = 'if read -r line; then exit 0; fi; kill -INT "$1"';
  const watchdog = spawn('/bin/sh', ['-c', script, 'sh', String(pid)], {
    ...home.user.spawn,
    cwd: '/',
    env: {},
    stdio: ['pipe', 'ignore', 'ignore'],
    detached: true,
  });
  watchdog.on('error', () => {});
  watchdog.stdin?.on('error', () => {});
  watchdog.unref();
  if (watchdog.stdin !== null && 'unref' in watchdog.stdin && typeof watchdog.stdin.unref === 'function') {
    watchdog.stdin.unref();
  }
  return watchdog;
}

async function untilReady(server: ServerHandle, home: DatabaseHome, options: LaunchOptions): Promise<void> {
  const path = join(home.cluster, 'postmaster.pid');
  const began = Date.now();
  let told = false;
  for (;;) {
    if (server.hasEnded()) throw explainLog(await server.log.sinceStart(), home.path, options.port);
    const lines = (await readFile(path, 'utf8').catch(() => '')).split('\n');
    if (Number(lines[0]) === server.pid && lines[7]?.trim() === 'ready') return;
    const waited = Date.now() - began;
    if (waited > EMBEDDED_START_TIMEOUT_MS) {
      throw new DatabaseError(
        'did_not_start',
        `The database in ${home.path} does not become ready: see server.log there.`,
      );
    }
    if (!told && waited > 1_000) {
      told = true;
      options.onProgress('Waiting for the database to become ready (after a crash it replays its log)');
    }
    await delay(EMBEDDED_POLL_MS);
  }
}

function explainLog(log: string, home: string, port: number | null): DatabaseError {
  const lines = log.trim().split('\n');
  const problem = lines.findLast((line) => /FATAL|PANIC|error:|ERROR/.test(line)) ?? lines.at(-1) ?? '';
  if (/Address already in use/.test(log)) {
    return new DatabaseError(
      'port_in_use',
      `Port ${port} on 127.0.0.1 is in use: end what listens there or choose another.`,
    );
  }
  if (/No space left on device|Disk quota exceeded/.test(log)) {
    return new DatabaseError('disk_full', `The disk of ${home} is full: free space there, then start again.`);
  }
  if (/Permission denied|Operation not permitted|Read-only file system/.test(log)) {
    return new DatabaseError(
      'permission_denied',
      `PostgreSQL may not write below ${home} (${problem.trim()}): make it writable, or set MANDATE_DATA_DIR.`,
    );
  }
  return new DatabaseError('did_not_start', `The database in ${home} did not start (${problem.trim()}).`);
}

/** The server's log file, kept below a bound: the file before is `server.log.1`. */
class ServerLog {
  readonly descriptor: number;
  readonly #path: string;
  readonly #startsAt: number;
  readonly #close: () => Promise<void>;
  readonly #timer: NodeJS.Timeout;

  private constructor(path: string, descriptor: number, startsAt: number, close: () => Promise<void>) {
    this.#path = path;
    this.descriptor = descriptor;
    this.#startsAt = startsAt;
    this.#close = close;
    this.#timer = setInterval(() => void keepSmall(path).catch(() => {}), EMBEDDED_LOG_CHECK_MS).unref();
  }

  static async open(home: DatabaseHome): Promise<ServerLog> {
    const path = join(home.path, 'server.log');
    await keepSmall(path).catch(() => {});
    const file = await open(path, 'a', 0o600);
    await giveToServer(path, home.user, 0o600);
    return new ServerLog(path, file.fd, (await file.stat()).size, () => file.close());
  }

  closeDescriptor(): Promise<void> {
    return this.#close();
  }

  stopChecking(): void {
    clearInterval(this.#timer);
  }

  async sinceStart(): Promise<string> {
    return (await readFile(this.#path)).subarray(this.#startsAt).toString('utf8');
  }
}

async function keepSmall(path: string): Promise<void> {
  if ((await stat(path)).size <= EMBEDDED_LOG_MAX_BYTES) return;
  await copyFile(path, `${path}.1`);
  await truncate(path);
}
