import { type ChildProcess, spawn } from 'node:child_process';
import { setTimeout as delay } from 'node:timers/promises';
import type { Environment } from '../../config/load.ts';
import { type ChildMessage, EXIT_MISCONFIGURED } from '../../config/run-process.ts';
import { CliError, EXIT_USAGE } from '../cli-error.ts';
import { entryEnvironment, NODE_FLAGS } from './entry.ts';

const RESTART_FIRST_MS = 250;
const RESTART_MAX_MS = 10_000;
/** A process that ran this long was healthy: its next restart begins with the shortest pause again. */
const HEALTHY_AFTER_MS = 30_000;
/** On top of the process's own bound: it ends itself first, so that its last log lines are written. */
const KILL_MARGIN_MS = 3_000;

export interface ChildOptions {
  readonly title: string;
  /** Path of the program. */
  readonly program: string;
  readonly args?: () => readonly string[];
  readonly environment: () => Environment;
  readonly stopWithinMs: number;
  readonly onNote: (text: string) => void;
  /** Called at every start, restarts included, before others may rely on the child. */
  readonly onReady?: (ready: ReadyMessage) => void;
}

export type ReadyMessage = Extract<ChildMessage, { type: 'ready' }>;

/**
 * One process that is kept running: started, awaited until it is ready, started again when it dies, and stopped.
 *
 * It runs in a process group of its own, so that Ctrl-C reaches only the supervisor, which stops in order. Its IPC
 * channel closes when the supervisor dies, however it dies, and then it stops by itself.
 */
export class SupervisedChild {
  readonly #options: ChildOptions;
  #process: ChildProcess | null = null;
  #stopping = false;
  readonly #stopped = new AbortController();
  #pauseMs = RESTART_FIRST_MS;

  constructor(options: ChildOptions) {
    this.#options = options;
  }

  get pid(): number | undefined {
    return this.#process?.pid;
  }

  /** @throws CliError with the child's own reason when it cannot start */
  async start(): Promise<ReadyMessage> {
    const ready = await this.#launch();
    void this.#keepRunning();
    return ready;
  }

  /** Asks it to stop, and kills its process group when it does not within its bound. */
  async stop(): Promise<void> {
    this.#stopping = true;
    this.#stopped.abort();
    const running = this.#process;
    if (running === null) return;
    running.kill('SIGTERM');
    const timer = setTimeout(() => {
      this.#options.onNote(`The ${this.#options.title} does not stop in time and is killed.`);
      this.kill();
    }, this.#options.stopWithinMs + KILL_MARGIN_MS);
    await exitOf(running);
    clearTimeout(timer);
  }

  /** Ends the whole process group at once. */
  kill(): void {
    this.#stopping = true;
    const pid = this.#process?.pid;
    if (pid === undefined) return;
    try {
      process.kill(-pid, 'SIGKILL');
    } catch {
      // Gone already.
    }
  }

  #launch(): Promise<ReadyMessage> {
    const { program, args, environment, title, onReady, onNote } = this.#options;
    const child = spawn(process.execPath, [...NODE_FLAGS, program, ...(args?.() ?? [])], {
      // Log lines go to standard error: standard output belongs to the addresses.
      stdio: ['ignore', 2, 2, 'ipc'],
      detached: true,
      env: entryEnvironment(environment()),
    });
    this.#process = child;
    return new Promise((resolve, reject) => {
      let failure: string | null = null;
      child.on('message', (message: ChildMessage) => {
        if (message.type === 'progress') onNote(message.message);
        if (message.type === 'failed') failure = message.message;
        if (message.type === 'ready') {
          onReady?.(message);
          resolve(message);
        }
      });
      child.once('error', (error) => reject(new CliError(`The ${title} cannot be started: ${error.message}`)));
      child.once('exit', (code, signal) => {
        this.#process = null;
        const reason = failure ?? `The ${title} ended while it was starting (${signal ?? `exit code ${code}`}).`;
        reject(new CliError(reason, { code: 'not_started', ...(code === EXIT_MISCONFIGURED && USAGE) }));
      });
    });
  }

  async #keepRunning(): Promise<void> {
    while (!this.#stopping) {
      const startedAt = performance.now();
      const how = await this.#end();
      if (this.#stopping) return;
      if (performance.now() - startedAt > HEALTHY_AFTER_MS) this.#pauseMs = RESTART_FIRST_MS;
      this.#options.onNote(
        `The ${this.#options.title} ended unexpectedly (${how}); starting it again in ${this.#pauseMs / 1000} s.`,
      );
      await delay(this.#pauseMs, undefined, { signal: this.#stopped.signal }).catch(() => {});
      this.#pauseMs = Math.min(this.#pauseMs * 2, RESTART_MAX_MS);
      if (this.#stopping) return;
      await this.#launch().then(
        () => this.#options.onNote(`The ${this.#options.title} runs again.`),
        (error: Error) => this.#options.onNote(error.message),
      );
    }
  }

  #end(): Promise<string> {
    const child = this.#process;
    if (child === null) return Promise.resolve('it did not start');
    return exitOf(child);
  }
}

/** How a process ended, once it has. */
function exitOf(child: ChildProcess): Promise<string> {
  const how = (): string => child.signalCode ?? `exit code ${child.exitCode}`;
  if (child.signalCode !== null || child.exitCode !== null) return Promise.resolve(how());
  return new Promise((resolve) => {
    child.once('exit', () => resolve(how()));
  });
}

const USAGE = { exitCode: EXIT_USAGE };
