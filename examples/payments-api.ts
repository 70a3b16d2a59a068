import { createHash, timingSafeEqual } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { setTimeout as sleep } from 'node:timers/promises';

// A small payments API to put the gateway in front of: it does what it is told and knows nothing of mandates.
//
//   POST   /payments            {amount, currency, counterparty, reference?} → 201 the payment
//   GET    /payments            → {payments: […]}
//   GET    /payments/{id}       → the payment
//   DELETE /payments/{id}       → the payment, cancelled
//   POST   /orders/{id}/refund  → the payment of that id, refunded
//   GET    /balance             → {balances: {EUR: …}}
//   GET    /events              → a few server-sent events, one after the other
//   GET    /export              → a large CSV, streamed
//
// Run it: PAYMENTS_PORT=9090 PAYMENTS_API_KEY=secret node examples/payments-api.ts
// With a key, every request needs it in x-api-key; without one the API is open.

export interface Payment {
  readonly id: string;
  /** In major units of the currency. */
  readonly amount: number;
  readonly currency: string;
  readonly counterparty: string;
  readonly reference: string | null;
  /** The gateway's receipt, where the request came through it. */
  readonly receipt: string | null;
  status: 'paid' | 'refunded' | 'cancelled';
}

/** One request that reached this API, refused ones included. */
export interface LedgerEntry {
  readonly method: string;
  readonly url: string;
  /** What was answered; null while the answer is not begun. */
  status: number | null;
}

export interface PaymentsApi {
  readonly url: string;
  /** Every request in the order of arrival. */
  readonly ledger: readonly LedgerEntry[];
  /** Stops at once; answers in the middle are cut. */
  close(): Promise<void>;
}

const BODY_MAX_BYTES = 64 * 1024;
/** Above this the API refuses: what it could not note must not happen. */
const LEDGER_MAX = 100_000;
const TEXT_MAX = 256;
const OPENING_BALANCE_MINOR = 10_000_000;
const MINOR_PER_MAJOR = 100;
const EVENTS = 5;
const EVENT_INTERVAL_MS = 100;
const EXPORT_CHUNKS = 256;
const EXPORT_LINES_A_CHUNK = 1024;

const digest = (text: string): Buffer => createHash('sha256').update(text).digest();

type Answer =
  | { readonly status: number; readonly body: object }
  | { readonly status: number; readonly type: string; readonly parts: Iterable<string> | AsyncIterable<string> };

const refusal = (status: number, error: string): Answer => ({ status, body: { error } });

class Payments {
  readonly ledger: LedgerEntry[] = [];
  readonly #key: Buffer | null;
  readonly #payments = new Map<string, Payment>();

  constructor(apiKey: string | null) {
    this.#key = apiKey === null ? null : digest(apiKey);
  }

  async answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    if (this.ledger.length >= LEDGER_MAX) return send(response, refusal(503, 'the ledger is full'));
    const entry: LedgerEntry = { method: request.method ?? '', url: request.url ?? '', status: null };
    this.ledger.push(entry);
    const body = await read(request);
    const answer = this.#knows(request.headers['x-api-key'])
      ? this.#route(request, body)
      : refusal(401, 'x-api-key is missing or wrong');
    entry.status = answer.status;
    send(response, answer);
  }

  /** Duplicates of the header arrive joined by a comma, so they match no key. */
  #knows(given: string | string[] | undefined): boolean {
    return this.#key === null || (typeof given === 'string' && timingSafeEqual(digest(given), this.#key));
  }

  #route(request: IncomingMessage, body: string | null): Answer {
    const segments = (request.url ?? '').split('?', 1)[0]?.split('/').slice(1) ?? [];
    const shape = segments.map((segment, at) => (at === 1 ? '{id}' : segment)).join('/');
    switch (`${request.method} /${shape}`) {
      case 'POST /payments':
        return this.#pay(body, receiptOf(request));
      case 'GET /payments':
        return { status: 200, body: { payments: [...this.#payments.values()] } };
      case 'GET /payments/{id}':
        return this.#one(segments[1] ?? '');
      case 'DELETE /payments/{id}':
        return this.#undo(segments[1] ?? '', 'cancelled');
      case 'POST /orders/{id}/refund':
        return this.#undo(segments[1] ?? '', 'refunded');
      case 'GET /balance':
        return { status: 200, body: { balances: this.#balances() } };
      case 'GET /events':
        return { status: 200, type: 'text/event-stream', parts: events() };
      case 'GET /export':
        return { status: 200, type: 'text/csv', parts: exported() };
      default:
        return refusal(404, 'nothing is here');
    }
  }

  #pay(body: string | null, receipt: string | null): Answer {
    if (body === null) return refusal(413, `a body has at most ${BODY_MAX_BYTES} bytes`);
    const order = parseOrder(body);
    if (order === null) return refusal(422, 'amount, currency and counterparty are needed');
    const id = `pay_${String(this.#payments.size + 1).padStart(4, '0')}`;
    const payment: Payment = { id, ...order, receipt, status: 'paid' };
    this.#payments.set(id, payment);
    return { status: 201, body: payment };
  }

  #one(id: string): Answer {
    const payment = this.#payments.get(id);
    return payment === undefined ? refusal(404, 'no such payment') : { status: 200, body: payment };
  }

  #undo(id: string, status: 'refunded' | 'cancelled'): Answer {
    const payment = this.#payments.get(id);
    if (payment === undefined) return refusal(404, 'no such payment');
    if (payment.status !== 'paid') return refusal(409, `the payment is ${payment.status} already`);
    payment.status = status;
    return { status: 200, body: payment };
  }

  /** Sums in minor units: 0.1 + 0.2 is 0.3 here. */
  #balances(): Record<string, number> {
    const minor = new Map<string, number>([['EUR', OPENING_BALANCE_MINOR]]);
    for (const { amount, currency, status } of this.#payments.values()) {
      const paid = status === 'paid' ? Math.round(amount * MINOR_PER_MAJOR) : 0;
      minor.set(currency, (minor.get(currency) ?? OPENING_BALANCE_MINOR) - paid);
    }
    return Object.fromEntries(Array.from(minor, ([currency, value]) => [currency, value / MINOR_PER_MAJOR]));
  }
}

function parseOrder(text: string): Pick<Payment, 'amount' | 'currency' | 'counterparty' | 'reference'> | null {
  try {
    const { amount, currency, counterparty, reference = null } = JSON.parse(text) as Record<string, unknown>;
    if (typeof amount !== 'number' || !(amount > 0) || !wholeMinorUnits(amount)) return null;
    if (typeof currency !== 'string' || !/^[A-Z]{3}$/.test(currency)) return null;
    if (!isText(counterparty) || !(reference === null || isText(reference))) return null;
    return { amount, currency, counterparty, reference };
  } catch {
    return null;
  }
}

function wholeMinorUnits(amount: number): boolean {
  const minor = Math.round(amount * MINOR_PER_MAJOR);
  return Number.isSafeInteger(minor) && minor / MINOR_PER_MAJOR === amount;
}

const isText = (value: unknown): value is string =>
  typeof value === 'string' && value.length > 0 && value.length <= TEXT_MAX;

function receiptOf(request: IncomingMessage): string | null {
  const value = request.headers['x-service-receipt'];
  return typeof value === 'string' ? value : null;
}

/** The body, or null where it is too large; read to its end either way, so that the refusal arrives. */
async function read(request: IncomingMessage): Promise<string | null> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    size += chunk.length;
    if (size <= BODY_MAX_BYTES) chunks.push(chunk);
  }
  return size > BODY_MAX_BYTES ? null : Buffer.concat(chunks).toString('utf8');
}

async function* events(): AsyncGenerator<string> {
  for (let n = 1; n <= EVENTS; n++) {
    yield `id: ${n}\nevent: heartbeat\ndata: {"n":${n},"of":${EVENTS}}\n\n`;
    if (n < EVENTS) await sleep(EVENT_INTERVAL_MS);
  }
}

/** About 10 MB. Each chunk is made when the reader has room for it. */
function* exported(): Generator<string> {
  yield 'line,amount,currency,counterparty\n';
  for (let chunk = 0; chunk < EXPORT_CHUNKS; chunk++) {
    let lines = '';
    for (let n = 0; n < EXPORT_LINES_A_CHUNK; n++) {
      lines += `${String(chunk * EXPORT_LINES_A_CHUNK + n).padStart(9, '0')},12.34,EUR,acme-energy-and-water\n`;
    }
    yield lines;
  }
}

function send(response: ServerResponse, answer: Answer): void {
  if ('parts' in answer) {
    response.writeHead(answer.status, { 'content-type': answer.type, 'cache-control': 'no-store' });
    // A reader that goes away ends the generator, and is no error of ours.
    pipeline(Readable.from(answer.parts), response).catch(() => {});
    return;
  }
  const text = JSON.stringify(answer.body);
  const headers = { 'content-type': 'application/json', 'content-length': Buffer.byteLength(text) };
  response.writeHead(answer.status, headers).end(text);
}

/** Starts the API on a loopback port (0: any free one); `apiKey` null leaves it open to everybody on this machine. */
export async function startPaymentsApi(options: {
  readonly port: number;
  readonly apiKey: string | null;
}): Promise<PaymentsApi> {
  const payments = new Payments(options.apiKey);
  const server = createServer((request, response) => {
    payments.answer(request, response).catch(() => response.destroy());
  });
  server.listen(options.port, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const close = async (): Promise<void> => {
    const closed = once(server, 'close');
    server.close();
    server.closeAllConnections();
    await closed;
  };
  return { url: `http://127.0.0.1:${port}`, ledger: payments.ledger, close };
}

if (import.meta.main) {
  const apiKey = process.env['PAYMENTS_API_KEY'] || null;
  const { url } = await startPaymentsApi({ port: Number(process.env['PAYMENTS_PORT'] ?? '9090'), apiKey });
  process.stdout.write(`Payments API on ${url} (${apiKey === null ? 'open to all' : 'x-api-key is needed'})\n`);
  process.send?.({ url });
  // Started by another program, it ends with it.
  if (process.send !== undefined) process.on('disconnect', () => process.exit());
}
