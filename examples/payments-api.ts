import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

// A small payments API to put the gateway in front of: it does what it is told and knows nothing of mandates.
//
//   POST /payments              {amount, currency, counterparty, description?} → 201 the payment
//   GET  /payments              → {payments: […]}: the ledger
//   GET  /payments/{id}         → the payment
//   POST /payments/{id}/refund  → the payment, refunded
//
// Run it: PAYMENTS_PORT=9090 node examples/payments-api.ts

interface Payment {
  readonly id: string;
  readonly amount: number;
  readonly currency: string;
  readonly counterparty: string;
  readonly description: string | null;
  readonly receipt: string | null;
  status: 'paid' | 'refunded';
}

const BODY_MAX_BYTES = 64 * 1024;
const LEDGER_MAX = 10_000;

const ledger = new Map<string, Payment>();

async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const [, collection, id, action] = (request.url ?? '').split('?', 1)[0]?.split('/') ?? [];
  if (collection !== 'payments' || action !== (action === undefined ? undefined : 'refund'))
    return send(response, 404, NO_ROUTE);
  if (request.method === 'GET' && id === undefined) return send(response, 200, { payments: [...ledger.values()] });
  if (request.method === 'POST' && id === undefined) return await pay(request, response);
  const payment = ledger.get(id ?? '');
  if (payment === undefined) return send(response, 404, { error: 'no such payment' });
  if (request.method === 'GET' && action === undefined) return send(response, 200, payment);
  if (request.method !== 'POST' || action === undefined) return send(response, 405, { error: 'method not allowed' });
  payment.status = 'refunded';
  send(response, 200, payment);
}

const NO_ROUTE = { error: 'nothing is here' };

async function pay(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const order = parse(await read(request));
  if (order === null) return send(response, 422, { error: 'amount, currency and counterparty are needed' });
  if (ledger.size >= LEDGER_MAX) return send(response, 503, { error: 'the ledger is full' });
  const payment: Payment = {
    id: `pay_${String(ledger.size + 1).padStart(4, '0')}`,
    ...order,
    receipt: header(request, 'x-service-receipt'),
    status: 'paid',
  };
  ledger.set(payment.id, payment);
  send(response, 201, payment);
}

function parse(text: string): Pick<Payment, 'amount' | 'currency' | 'counterparty' | 'description'> | null {
  try {
    const { amount, currency, counterparty, description } = JSON.parse(text) as Record<string, unknown>;
    if (typeof amount !== 'number' || !(amount > 0)) return null;
    if (typeof currency !== 'string' || typeof counterparty !== 'string') return null;
    return { amount, currency, counterparty, description: typeof description === 'string' ? description : null };
  } catch {
    return null;
  }
}

async function read(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    size += chunk.length;
    if (size > BODY_MAX_BYTES) return '';
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString('utf8');
}

function header(request: IncomingMessage, name: string): string | null {
  const value = request.headers[name];
  return typeof value === 'string' ? value : null;
}

function send(response: ServerResponse, status: number, body: unknown): void {
  const text = JSON.stringify(body);
  response.writeHead(status, { 'content-type': 'application/json', 'content-length': Buffer.byteLength(text) });
  response.end(text);
}

const server = createServer((request, response) => {
  answer(request, response).catch(() => response.destroy());
});

server.listen(Number(process.env['PAYMENTS_PORT'] ?? '9090'), '127.0.0.1', () => {
  const { port } = server.address() as AddressInfo;
  process.stdout.write(`Payments API on http://127.0.0.1:${port}\n`);
  process.send?.({ url: `http://127.0.0.1:${port}` });
});

// Started by another program, it ends with it.
if (process.send !== undefined) process.on('disconnect', () => process.exit());
