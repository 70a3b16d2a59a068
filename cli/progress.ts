import type { Io } from './io.ts';

const AFTER_MS = 1_000;
const TERMINAL_INTERVAL_MS = 100;
const PLAIN_INTERVAL_MS = 5_000;
const BAR_CELLS = 30;

/** Progress on standard error for what takes longer than a second: a bar at a terminal, now and then a line else. */
export class Progress {
  readonly #io: Io;
  readonly #label: string;
  readonly #enabled: boolean;
  readonly #startedAt = performance.now();
  #lastAt = 0;
  #drawn = false;

  constructor(io: Io, label: string, enabled: boolean) {
    this.#io = io;
    this.#label = label;
    this.#enabled = enabled;
  }

  update(done: number, all: number): void {
    const now = performance.now();
    const terminal = this.#io.stderr.isTTY === true;
    const interval = terminal ? TERMINAL_INTERVAL_MS : PLAIN_INTERVAL_MS;
    if (!this.#enabled || now - this.#startedAt < AFTER_MS || now - this.#lastAt < interval) return;
    this.#lastAt = now;
    this.#drawn = true;
    const share = all === 0 ? 1 : done / all;
    const filled = Math.floor(share * BAR_CELLS);
    const bar = terminal ? ` [${'#'.repeat(filled)}${'-'.repeat(BAR_CELLS - filled)}]` : '';
    const line = `${this.#label}${bar} ${Math.floor(share * 100)} %, ${done} of ${all}`;
    this.#io.stderr.write(terminal ? `\r${line}` : `${line}\n`);
  }

  end(): void {
    if (this.#drawn && this.#io.stderr.isTTY === true) this.#io.stderr.write('\n');
  }
}
