import { connect, type Socket } from 'node:net';
import { performance } from 'node:perf_hooks';
import { responseLength } from './answer-length.ts';
import { LatencyHistogram } from './histogram.ts';
import { REFERENCE_DIGITS } from './upstream-ledger.ts';

/**
 * Loads an HTTP/1.1 server over keep-alive connections, one request in flight on each, and prints one line of JSON.
 *
 * `node bench/load.ts '{"url":"http://127.0.0.1:8080","path":"/payments","connections":64,"seconds":5}'`
 * A request belongs to the window it was sent in; warm-up requests count in `sent_total` and `ok_total` alone.
 */
export interface LoadOptions {
  readonly url?: string;
  /** Path of a Unix socket, in place of `url`. */
  readonly socketPath?: string;
  readonly path: string;
  readonly connections: number;
  /** Length of the measured window in seconds; without it `count` requests are measured. */
  readonly seconds?: number;
  readonly count?: number;
  readonly warmupSeconds?: number;
  readonly headers?: Readonly<Record<string, string>>;
  /** Bearer tokens of one length; every connection takes the next one with every request. */
  readonly tokens?: readonly string[];
}

export interface LoadResult {
  readonly requests: number;
  readonly ok: number;
  readonly statuses: Readonly<Record<string, number>>;
  readonly errors: number;
  readonly seconds: number;
  readonly rps: number;
  readonly p50_us: number;
  readonly p90_us: number;
  readonly p99_us: number;
  readonly p999_us: number;
  readonly max_us: number;
  readonly cpu_us_per_request: number;
  /** Everything sent and everything answered with 2xx, warm-up included: what the target's ledger must show. */
  readonly sent_total: number;
  readonly ok_total: number;
  readonly statuses_total: Readonly<Record<string, number>>;
  readonly errors_total: number;
}

const RUN_DIGITS = 5;
const CONNECTION_DIGITS = 3;
const DIGIT_ZERO = 48;
const DIGIT_NINE = 57;
const READ_BUFFER_BYTES = 65_536;
const DRAIN_TIMEOUT_MS = 10_000;
const RECONNECT_MS = 20;
/** More failures than this end the run: the target is down, and a number would be worthless. */
const ERRORS_MAX = 1000;

type Phase = 'warmup' | 'window' | 'drain';

interface Tally {
  readonly statuses: Record<string, number>;
  sent: number;
  ok: number;
  errors: number;
}

const newTally = (): Tally => ({ statuses: {}, sent: 0, ok: 0, errors: 0 });

/** What the connections of one run have in common. */
class Run {
  readonly options: LoadOptions;
  readonly histogram = new LatencyHistogram();
  readonly warmup = newTally();
  readonly window = newTally();
  phase: Phase = 'warmup';
  private open = 0;
  private lastAnswer = 0;
  private windowStart = 0;
  private cpuStart = process.cpuUsage();
  private cpuSpent = 0;
  private finish: () => void = () => {};

  constructor(options: LoadOptions) {
    this.options = options;
  }

  async measure(): Promise<LoadResult> {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.finish = resolve;
    const run = Math.floor(Date.now() / 1000) % 10 ** RUN_DIGITS;
    this.open = this.options.connections;
    for (let i = 0; i < this.options.connections; i++) new Connection(this, run, i).dial();
    setTimeout(() => this.startWindow(), (this.options.warmupSeconds ?? 0) * 1000);
    await promise;
    return this.result();
  }

  tally(sentInWindow: boolean): Tally {
    return sentInWindow ? this.window : this.warmup;
  }

  answered(sentAt: number, sentInWindow: boolean, status: string): void {
    const now = performance.now();
    const tally = this.tally(sentInWindow);
    tally.statuses[status] = (tally.statuses[status] ?? 0) + 1;
    if (status.startsWith('2')) tally.ok += 1;
    if (!sentInWindow) return;
    this.lastAnswer = now;
    this.histogram.record((now - sentAt) * 1000);
  }

  /** Whether another request may be sent; counts it where it may. */
  admit(): boolean {
    if (this.phase === 'drain') return false;
    const inWindow = this.phase === 'window';
    if (inWindow && this.options.count !== undefined && this.window.sent >= this.options.count) {
      this.stopWindow();
      return false;
    }
    this.tally(inWindow).sent += 1;
    return true;
  }

  failed(sentInWindow: boolean): void {
    this.tally(sentInWindow).errors += 1;
    if (this.warmup.errors + this.window.errors > ERRORS_MAX) this.stopWindow();
  }

  closed(): void {
    this.open -= 1;
    if (this.open === 0) this.end();
  }

  private end(): void {
    const { user, system } = process.cpuUsage(this.cpuStart);
    this.cpuSpent = user + system;
    process.send?.('window-end');
    this.finish();
  }

  private startWindow(): void {
    if (this.phase !== 'warmup') return;
    process.send?.('window-start');
    this.phase = 'window';
    this.cpuStart = process.cpuUsage();
    this.windowStart = performance.now();
    if (this.options.seconds !== undefined) setTimeout(() => this.stopWindow(), this.options.seconds * 1000);
  }

  private stopWindow(): void {
    if (this.phase === 'drain') return;
    this.phase = 'drain';
    setTimeout(() => this.end(), DRAIN_TIMEOUT_MS).unref();
  }

  private result(): LoadResult {
    const { warmup, window, histogram } = this;
    const requests = Object.values(window.statuses).reduce((sum, one) => sum + one, 0);
    const seconds = Math.max(0, this.lastAnswer - this.windowStart) / 1000;
    const all: Record<string, number> = { ...window.statuses };
    for (const [status, count] of Object.entries(warmup.statuses)) all[status] = (all[status] ?? 0) + count;
    const answered = Object.values(all).reduce((sum, one) => sum + one, 0);
    const sent = warmup.sent + window.sent;
    return {
      requests,
      ok: window.ok,
      statuses: window.statuses,
      errors: window.sent - requests,
      seconds,
      rps: seconds > 0 ? requests / seconds : 0,
      p50_us: histogram.quantile(0.5),
      p90_us: histogram.quantile(0.9),
      p99_us: histogram.quantile(0.99),
      p999_us: histogram.quantile(0.999),
      max_us: histogram.max,
      cpu_us_per_request: requests > 0 ? this.cpuSpent / requests : 0,
      sent_total: sent,
      ok_total: warmup.ok + window.ok,
      statuses_total: all,
      errors_total: Math.max(sent - answered, warmup.errors + window.errors),
    };
  }
}

/** The request's bytes, with the places where a connection writes its reference and token before every send. */
function requestTemplate(options: LoadOptions): { bytes: Buffer; references: number[]; token: number } {
  const reference = '0'.repeat(REFERENCE_DIGITS);
  const fields = { amount: 12.34, currency: 'EUR', counterparty: 'acme', reference };
  const body = JSON.stringify({ ...fields, note: 'padding '.repeat(13).trimEnd() });
  const token = options.tokens?.[0];
  const lines = [
    `POST ${options.path} HTTP/1.1`,
    `host: ${options.url === undefined ? 'localhost' : new URL(options.url).host}`,
    'content-type: application/json',
    `content-length: ${Buffer.byteLength(body)}`,
    ...Object.entries(options.headers ?? {}).map(([name, value]) => `${name}: ${value}`),
    ...(token === undefined ? [] : [`authorization: Bearer ${token}`]),
  ];
  const text = `${lines.join('\r\n')}\r\n\r\n${body}`.replaceAll('{reference}', reference);
  const head = text.length - body.length;
  const references: number[] = [];
  for (let at = text.indexOf(reference); at >= 0; at = text.indexOf(reference, at + 1)) references.push(at);
  const bytes = Buffer.from(text, 'latin1');
  return { bytes, references, token: token === undefined ? -1 : head - 4 - token.length };
}

class Connection {
  private readonly run: Run;
  private readonly request: Buffer;
  private readonly references: readonly number[];
  private readonly tokenAt: number;
  private readonly tokens: readonly string[];
  private readonly readBuffer = Buffer.allocUnsafe(READ_BUFFER_BYTES);
  private nextToken: number;
  private socket: Socket | undefined;
  private received = '';
  private sentAt = 0;
  private connected = false;
  private inFlight = false;
  private sentInWindow = false;

  constructor(run: Run, runNumber: number, index: number) {
    this.run = run;
    const template = requestTemplate(run.options);
    this.request = template.bytes;
    this.references = template.references;
    this.tokenAt = template.token;
    this.tokens = run.options.tokens ?? [];
    this.nextToken = index;
    const prefix = String(runNumber).padStart(RUN_DIGITS, '0') + String(index).padStart(CONNECTION_DIGITS, '0');
    for (const at of this.references) this.request.write(prefix, at, 'latin1');
  }

  dial(): void {
    const { url, socketPath } = this.run.options;
    const onread = {
      buffer: this.readBuffer,
      callback: (bytes: number, buffer: Uint8Array): boolean => this.read(bytes, buffer as Buffer),
    };
    const target = url === undefined ? undefined : new URL(url);
    this.received = '';
    this.connected = false;
    this.socket =
      target === undefined
        ? connect({ path: socketPath ?? '', onread })
        : connect({ host: target.hostname, port: Number(target.port || 80), noDelay: true, onread });
    this.socket.once('connect', () => {
      this.connected = true;
      this.send();
    });
    this.socket.once('error', () => {});
    this.socket.once('close', () => this.lost());
  }

  private send(): void {
    if (!this.run.admit()) {
      this.socket?.removeAllListeners('close').destroy();
      this.run.closed();
      return;
    }
    for (const at of this.references) this.increment(at + REFERENCE_DIGITS - 1);
    if (this.tokenAt >= 0) {
      this.request.write(this.tokens[this.nextToken % this.tokens.length] ?? '', this.tokenAt, 'latin1');
      this.nextToken += 1;
    }
    this.inFlight = true;
    this.sentInWindow = this.run.phase === 'window';
    this.sentAt = performance.now();
    this.socket?.write(this.request);
  }

  /** Adds one to the decimal number whose last digit is at `at`. */
  private increment(at: number): void {
    let place = at;
    while (this.request[place] === DIGIT_NINE) this.request[place--] = DIGIT_ZERO;
    this.request[place] = (this.request[place] ?? DIGIT_ZERO) + 1;
  }

  private read(bytes: number, buffer: Buffer): boolean {
    const text = buffer.toString('latin1', 0, bytes);
    this.received = this.received === '' ? text : this.received + text;
    const length = responseLength(this.received);
    if (length < 0) return true;
    const whole = this.received;
    this.received = '';
    if (length !== whole.length || !this.inFlight) this.run.failed(this.sentInWindow);
    this.inFlight = false;
    this.run.answered(this.sentAt, this.sentInWindow, whole.slice(9, 12));
    this.send();
    return true;
  }

  /** The other side closed: between two requests that is its right, with one in flight it is an error. */
  private lost(): void {
    if (this.inFlight || !this.connected) this.run.failed(this.sentInWindow);
    this.inFlight = false;
    if (this.run.phase === 'drain') this.run.closed();
    else setTimeout(() => this.dial(), RECONNECT_MS);
  }
}

function checked(options: LoadOptions): LoadOptions {
  if ((options.url === undefined) === (options.socketPath === undefined)) throw new Error('give url or socketPath');
  if ((options.seconds === undefined) === (options.count === undefined)) throw new Error('give seconds or count');
  const limit = 10 ** CONNECTION_DIGITS;
  if (!(options.connections >= 1 && options.connections <= limit)) throw new Error(`connections: 1 to ${limit}`);
  if (new Set(options.tokens?.map((token) => token.length)).size > 1) throw new Error('tokens must be of one length');
  return options.tokens?.length === 0 ? { ...options, tokens: undefined as never } : options;
}

const options = checked(JSON.parse(process.argv[2] ?? process.env['BENCH_LOAD'] ?? '{}') as LoadOptions);
const result = await new Run(options).measure();
process.stdout.write(`${JSON.stringify(result)}\n`, () => process.exit(0));
