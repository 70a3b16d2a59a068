import { type Config, ConfigError, loadConfig, type ProcessName } from './load.ts';
import { createLogger, type Logger, withoutSecrets } from './log.ts';
import { settings } from './schema.ts';

/** A started process: the addresses it is reached at (for the operator), and how it stops. */
export interface RunningProcess {
  readonly addresses: Readonly<Record<string, string>>;
  /** What only the parent may know (a database URL with its password): sent over IPC, never logged. */
  readonly confidential?: Readonly<Record<string, string>>;
  /** Finishes what was begun and releases everything; the caller bounds its time. */
  stop(): Promise<void>;
}

/** What a child says to `mandate up` over its IPC channel: steps that take long, then how its start ended. */
export type ChildMessage =
  | { readonly type: 'progress'; readonly message: string }
  | {
      readonly type: 'ready';
      readonly addresses: Readonly<Record<string, string>>;
      readonly confidential: Readonly<Record<string, string>>;
    }
  | { readonly type: 'failed'; readonly message: string };

/** Exit codes of the process entries: 2 is a configuration that cannot be used. */
export const EXIT_FAILED = 1;
export const EXIT_MISCONFIGURED = 2;

const PARENT_GONE = 'parent is gone';

/** How long past its own bound a stopping process is given before it ends itself. */
const STOP_MARGIN_MS = 1_000;

/**
 * Runs one process of the system in the foreground until it is told to stop.
 *
 * Configuration is read, `start` brings everything up, SIGTERM or SIGINT stops it within MANDATE_SHUTDOWN_TIMEOUT_MS, a
 * second signal ends it at once. Under `mandate up` it also reports readiness, and stops when its parent is gone.
 */
export async function runProcess(
  name: ProcessName,
  start: (config: Config, log: Logger, report: (message: string) => void) => Promise<RunningProcess>,
  logName: string = name,
): Promise<void> {
  let config: Config;
  try {
    config = loadConfig(name);
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    return await fail(error.problems.join('\n'), EXIT_MISCONFIGURED);
  }
  const log = createLogger({ name: logName, level: config.logLevel });
  exitOnBug(log);
  const stopping = new AbortController();
  listenForStop(stopping, log);
  let running: RunningProcess;
  try {
    running = await start(config, log, (message) => {
      log.info({ progress: message }, 'starting');
      void tellParent({ type: 'progress', message });
    });
  } catch (error) {
    // The parent tells the operator in one sentence; a stack says more only of what nobody foresaw.
    log[isForeseen(error) && process.send !== undefined ? 'debug' : 'fatal']({ err: error }, 'could not start');
    return await fail(startFailure(error, config), error instanceof ConfigError ? EXIT_MISCONFIGURED : EXIT_FAILED);
  }
  log.info({ addresses: running.addresses }, 'ready');
  await tellParent({ type: 'ready', addresses: running.addresses, confidential: running.confidential ?? {} });
  if (!stopping.signal.aborted) {
    await new Promise((resolve) => stopping.signal.addEventListener('abort', resolve, { once: true }));
  }
  await stopWithin(running, config.shutdownTimeoutMs + STOP_MARGIN_MS, log);
}

async function stopWithin(running: RunningProcess, limitMs: number, log: Logger): Promise<void> {
  const timer = setTimeout(() => {
    log.error({ limit_ms: limitMs }, 'did not stop in time, ending');
    process.exit(EXIT_FAILED);
  }, limitMs);
  try {
    await running.stop();
    log.info('stopped');
  } catch (error) {
    log.error({ err: error }, 'could not stop cleanly');
    process.exitCode = EXIT_FAILED;
  }
  clearTimeout(timer);
  process.exit();
}

function listenForStop(stopping: AbortController, log: Logger): void {
  const stop = (reason: string): void => {
    if (stopping.signal.aborted) {
      if (reason !== PARENT_GONE) process.exit(EXIT_FAILED);
      return;
    }
    log.info({ reason }, 'stopping');
    stopping.abort();
  };
  process.on('SIGTERM', () => stop('SIGTERM'));
  process.on('SIGINT', () => stop('SIGINT'));
  if (process.send !== undefined) process.on('disconnect', () => stop(PARENT_GONE));
}

function exitOnBug(log: Logger): void {
  const die = (error: unknown): void => {
    // State after an unexpected error cannot be trusted: the supervisor starts a fresh process.
    log.fatal({ err: error }, 'unexpected error');
    process.exit(EXIT_FAILED);
  };
  process.on('uncaughtException', die);
  process.on('unhandledRejection', die);
}

async function fail(message: string, code: number): Promise<void> {
  await tellParent({ type: 'failed', message });
  if (process.send === undefined) process.stderr.write(`${message}\n`);
  process.exit(code);
}

async function tellParent(message: ChildMessage): Promise<void> {
  if (process.send === undefined || !process.connected) return;
  await new Promise<void>((resolve) => process.send?.(message, undefined, {}, () => resolve()));
}

function isForeseen(error: unknown): boolean {
  if (error instanceof ConfigError || isPortInUse(error)) return true;
  return error instanceof Error && error.name === 'DatabaseError';
}

function isPortInUse(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'EADDRINUSE';
}

/** One sentence for the operator on why a process did not start. */
function startFailure(error: unknown, config: Config): string {
  if (!(error instanceof Error)) return String(error);
  if (!isPortInUse(error) || !('port' in error)) return withoutSecrets(error.message);
  const names = settings()
    .filter(([name, item]) => item.env.endsWith('_PORT') && config[name] === error.port)
    .map(([, item]) => item.env);
  const setting = names.length > 0 ? names.join(' or ') : 'the setting of that port';
  return `Port ${error.port} is already in use: stop what listens there, or set ${setting} to another port.`;
}
