import { connect, type Socket } from 'node:net';
import { contextDigest } from '../core/action.ts';
import { SigningKey } from '../core/ed25519.ts';
import { createPresentation } from '../core/presentation.ts';
import type { TypeId } from '../core/type-id.ts';
import { responseLength } from './answer-length.ts';
import { LatencyHistogram } from './histogram.ts';

/**
 * Verifies presentations, each with a nonce of its own, over keep-alive connections; prints one line of JSON.
 *
 * All of them are signed before the first is sent. `BENCH_VERIFY_LOAD` holds the options.
 */
export interface VerifyLoadOptions {
  readonly url: string;
  readonly path: string;
  readonly connections: number;
  readonly count: number;
  readonly warmup: number;
  readonly apiKeys: readonly string[];
  readonly mandateId: string;
  readonly accountId: string;
  /** The agent's seed in hex. */
  readonly seed: string;
}

export interface VerifyLoadResult {
  readonly requests: number;
  readonly allowed: number;
  readonly rps: number;
  readonly p50_us: number;
  readonly p99_us: number;
  readonly cpu_us_per_request: number;
}

const options = JSON.parse(process.env['BENCH_VERIFY_LOAD'] ?? '{}') as VerifyLoadOptions;
const agent = new SigningKey(Buffer.from(options.seed, 'hex'));
const action = { type: 'payments.create', amount: { value: 12.34, currency: 'EUR' }, counterparty: 'acme' };
const ctx = contextDigest({ type: action.type, amount_minor: 1_234, currency: 'EUR', counterparty: 'acme' });

function requestOf(number: number): Buffer {
  const issued = Date.now();
  const presentation = createPresentation(
    {
      mandate_id: options.mandateId as TypeId<'mdt'>,
      verifier: options.accountId as TypeId<'acc'>,
      ctx,
      issued_at_ms: issued,
      expires_at_ms: issued + 300_000,
    },
    agent,
  );
  const body = JSON.stringify({ presentation, action });
  const lines = [
    `POST ${options.path} HTTP/1.1`,
    `host: ${new URL(options.url).host}`,
    `authorization: Bearer ${options.apiKeys[number % options.apiKeys.length]}`,
    'content-type: application/json',
    `content-length: ${Buffer.byteLength(body)}`,
  ];
  return Buffer.from(`${lines.join('\r\n')}\r\n\r\n${body}`);
}

const total = options.warmup + options.count;
const requests = Array.from({ length: total }, (_, i) => requestOf(i));
const histogram = new LatencyHistogram();
let next = 0;
let answered = 0;
let allowed = 0;
let startedMs = 0;
let cpu = process.cpuUsage();
const { promise: finished, resolve: finish, reject: fail } = Promise.withResolvers<void>();

function send(socket: Socket): number | null {
  const request = requests[next];
  if (request === undefined) return null;
  if (next === options.warmup) {
    process.send?.('window-start');
    startedMs = performance.now();
    cpu = process.cpuUsage();
  }
  next += 1;
  socket.write(request);
  return next;
}

function open(): void {
  const { hostname, port } = new URL(options.url);
  const socket = connect({ host: hostname, port: Number(port), noDelay: true });
  let received = '';
  let sentAt = 0;
  let number: number | null = null;
  const go = (): void => {
    sentAt = performance.now();
    number = send(socket);
    if (number === null) socket.end();
  };
  socket.on('connect', go);
  socket.on('error', fail);
  socket.on('data', (chunk) => {
    received += chunk.toString('latin1');
    const length = responseLength(received);
    if (length < 0) return;
    if (!received.startsWith('HTTP/1.1 200')) fail(new Error(received.slice(0, 400)));
    if (number !== null && number > options.warmup) {
      histogram.record((performance.now() - sentAt) * 1000);
      if (received.includes('"decision":"allow"')) allowed += 1;
    }
    received = '';
    answered += 1;
    if (answered === total) finish();
    else go();
  });
}

for (let i = 0; i < options.connections; i++) open();
await finished;
process.send?.('window-end');
const seconds = (performance.now() - startedMs) / 1000;
const { user, system } = process.cpuUsage(cpu);
const result: VerifyLoadResult = {
  requests: options.count,
  allowed,
  rps: options.count / seconds,
  p50_us: histogram.quantile(0.5),
  p99_us: histogram.quantile(0.99),
  cpu_us_per_request: (user + system) / options.count,
};
process.stdout.write(`${JSON.stringify(result)}\n`, () => process.exit(0));
