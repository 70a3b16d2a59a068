import { spawn } from 'node:child_process';
import { type Config, type Environment, loadConfig } from '../../config/load.ts';
import { CliError } from '../cli-error.ts';
import { SupervisedChild } from './child.ts';
import { keptSecret, openDataDirectory, removeState, socketPath, writeState } from './data-directory.ts';
import { entryEnvironment, entryPath } from './entry.ts';

/** The database writes a checkpoint before it ends. */
const DATABASE_STOP_MS = 60_000;
const SLOW_STEP_MS = 1_000;

export interface SystemOptions {
  readonly environment: Environment;
  /** One sentence about progress or trouble, for standard error. */
  readonly onNote: (text: string) => void;
}

/**
 * The whole system on this machine: database (embedded unless MANDATE_DATABASE_URL is set), control plane and proxy,
 * each a process of its own, started in this order and stopped in the other.
 */
export class System {
  readonly #options: SystemOptions;
  readonly #config: Config;
  readonly #children: SupervisedChild[] = [];
  readonly #addresses: Record<string, string> = {};
  #directory = '';
  #appUrl = '';
  #stopped: Promise<void> | null = null;

  /** @throws ConfigError */
  constructor(options: SystemOptions) {
    this.#options = options;
    this.#config = loadConfig('up', options.environment);
  }

  /** Starts everything; resolves with the addresses once all of it answers. @throws CliError */
  async start(): Promise<Readonly<Record<string, string>>> {
    this.#directory = await openDataDirectory(this.#config.dataDir);
    const secrets = {
      MANDATE_INTERNAL_SECRET: this.#config.internalSecret ?? (await keptSecret(this.#directory, 'internal.secret')),
      MANDATE_MASTER_KEY: this.#config.masterKey?.toString('hex') ?? (await keptSecret(this.#directory, 'master.key')),
    };
    const socket = await socketPath(this.#directory);
    await this.#step('Starting the database', () => this.#database());
    const own = environmentWithout(this.#options.environment, FILES_READ_HERE);
    const common = { ...own, ...secrets, MANDATE_LOG_LEVEL: this.#logLevel() };
    const embedded = this.#config.databaseUrl === null;
    const privateTargets = this.#options.environment['MANDATE_GATEWAY_ALLOW_PRIVATE_TARGETS'] || String(embedded);
    const control = this.#child('control plane', 'control-plane/main', () => ({
      ...common,
      MANDATE_DATABASE_APP_URL: this.#appUrl,
      MANDATE_CONTROL_SOCKET: socket,
      MANDATE_GATEWAY_ALLOW_PRIVATE_TARGETS: privateTargets,
    }));
    await this.#step('Starting the control plane', () => control.start());
    const proxy = this.#child('proxy', 'proxy/main', () => ({
      ...environmentWithout(common, [...CONTROL_PLANE_SECRETS, ...DATABASE_VARIABLES]),
      MANDATE_CONTROL_PLANES: `unix:${socket}`,
      MANDATE_CONTROL_URL: this.#addresses['admin'] ?? '',
      MANDATE_GATEWAY_ALLOW_PRIVATE_TARGETS: privateTargets,
    }));
    await this.#step('Starting the proxy', () => proxy.start());
    await writeState(this.#directory, { pid: process.pid, addresses: this.#addresses, app_url: this.#appUrl });
    return this.#addresses;
  }

  /** Stops proxy, control plane and database, in this order, each within its bound. */
  stop(): Promise<void> {
    this.#stopped ??= this.#stopInOrder();
    return this.#stopped;
  }

  get stopping(): boolean {
    return this.#stopped !== null;
  }

  /** Ends everything at once. */
  kill(): void {
    for (const child of this.#children) child.kill();
  }

  async #stopInOrder(): Promise<void> {
    for (const child of this.#children.toReversed()) await child.stop();
    if (this.#directory !== '') await removeState(this.#directory);
  }

  /** Brings up the database and sets `#appUrl`. */
  async #database(): Promise<void> {
    if (this.#config.databaseUrl !== null) return await this.#externalDatabase(this.#config.databaseUrl);
    let port = '0';
    const database = new SupervisedChild({
      title: 'database',
      program: entryPath('control-plane/database-main'),
      args: () => [port],
      environment: () => ({ ...this.#options.environment, MANDATE_LOG_LEVEL: this.#logLevel() }),
      stopWithinMs: DATABASE_STOP_MS,
      onNote: this.#options.onNote,
      onReady: ({ confidential }) => {
        port = confidential['port'] ?? port;
        this.#appUrl = confidential['app_url'] ?? '';
      },
    });
    this.#children[0] = database;
    await database.start();
  }

  /** Migrates an external database; the application's role gets a password of its own unless one is set. */
  async #externalDatabase(ownerUrl: string): Promise<void> {
    const app = new URL(ownerUrl);
    app.username = 'mandate_app';
    app.password = this.#config.databaseAppUrl === null ? await keptSecret(this.#directory, 'database-app.secret') : '';
    this.#appUrl = this.#config.databaseAppUrl ?? app.href;
    const environment = {
      ...environmentWithout(this.#options.environment, FILES_READ_HERE),
      MANDATE_DATABASE_URL: ownerUrl,
      MANDATE_DATABASE_APP_URL: this.#appUrl,
    };
    const migrate = spawn(process.execPath, [entryPath('control-plane/migrate-main')], {
      stdio: ['ignore', 'ignore', 'pipe'],
      env: entryEnvironment(environment),
    });
    let said = '';
    migrate.stderr.setEncoding('utf8').on('data', (text: string) => {
      said = (said + text).slice(-MIGRATE_TEXT_MAX);
    });
    const code = await new Promise<number | null>((resolve) => migrate.once('close', resolve));
    if (code !== 0) throw new CliError(said.trim() || 'The database could not be migrated.', { code: 'not_migrated' });
  }

  #child(title: string, entry: 'control-plane/main' | 'proxy/main', environment: () => Environment): SupervisedChild {
    const fixedPorts: Record<string, string> = {};
    const child = new SupervisedChild({
      title,
      program: entryPath(entry),
      environment: () => ({ ...environment(), ...fixedPorts }),
      stopWithinMs: this.#config.shutdownTimeoutMs,
      onNote: this.#options.onNote,
      onReady: ({ addresses }) => {
        Object.assign(this.#addresses, addresses);
        // A port that the system chose is kept over restarts: others were told of it.
        for (const [variable, name] of PORT_VARIABLES) {
          if (addresses[name] !== undefined) fixedPorts[variable] = new URL(addresses[name]).port;
        }
      },
    });
    this.#children.push(child);
    return child;
  }

  /** `up` shows trouble only, unless the operator asks for more. */
  #logLevel(): string {
    return this.#options.environment['MANDATE_LOG_LEVEL'] || 'warn';
  }

  async #step<T>(label: string, run: () => Promise<T>): Promise<T> {
    if (this.#stopped !== null) throw new CliError('Stopped.');
    const timer = setTimeout(() => this.#options.onNote(`${label} …`), SLOW_STEP_MS);
    try {
      return await run();
    } finally {
      clearTimeout(timer);
    }
  }
}

const MIGRATE_TEXT_MAX = 8192;

/** Which address of a child's ready message tells a port that its restart must keep. */
const PORT_VARIABLES = [
  ['MANDATE_CONTROL_PORT', 'admin'],
  ['MANDATE_CONTROL_METRICS_PORT', 'control_metrics'],
  ['MANDATE_PROXY_PORT', 'proxy'],
  ['MANDATE_PROXY_METRICS_PORT', 'proxy_metrics'],
] as const;

const DATABASE_VARIABLES = ['MANDATE_DATABASE_URL', 'MANDATE_DATABASE_APP_URL'];

/** What a proxy has no use for and so must not know. */
const CONTROL_PLANE_SECRETS = ['MANDATE_MASTER_KEY', 'MANDATE_SMTP_URL', 'MANDATE_SMTP_URL_FILE'];

/** Variables whose files were read here already, and what only migrations may know. */
const FILES_READ_HERE = [
  'MANDATE_DATABASE_URL',
  'MANDATE_DATABASE_URL_FILE',
  'MANDATE_DATABASE_APP_URL_FILE',
  'MANDATE_INTERNAL_SECRET_FILE',
  'MANDATE_MASTER_KEY_FILE',
];

function environmentWithout(environment: Environment, names: readonly string[]): Record<string, string | undefined> {
  const rest = { ...environment };
  for (const name of names) delete rest[name];
  return rest;
}
