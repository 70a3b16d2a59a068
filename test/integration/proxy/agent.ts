import { once } from 'node:events';
import { type ClientRequest, request as httpRequest, type IncomingMessage, type OutgoingHttpHeaders } from 'node:http';
import { connect } from 'node:net';
import { secretTokenOf } from '../../../core/secret-token.ts';

export const TOKEN = secretTokenOf('gwt', Buffer.alloc(32, 7));

/** An answer as an agent got it. */
export interface Answer {
  readonly status: number;
  readonly headers: IncomingMessage['headers'];
  readonly rawHeaders: readonly string[];
  readonly body: Buffer;
  readonly text: string;
  // Tests look into answers of many shapes; what is not there is undefined.
  readonly json: Record<string, unknown>;
}

export interface SendOptions {
  readonly method?: string;
  readonly headers?: OutgoingHttpHeaders | string[];
  readonly body?: string | Buffer;
  readonly token?: string | null;
}

/** Begins a request whose answer the test reads itself. */
export function begin(port: number, path: string, options: SendOptions = {}): ClientRequest {
  const { method = 'POST', body, token = TOKEN } = options;
  const authorization = token === null ? {} : { authorization: `Bearer ${token}` };
  const headers = Array.isArray(options.headers)
    ? options.headers
    : { ...authorization, ...(body === undefined ? {} : { 'content-type': 'application/json' }), ...options.headers };
  return httpRequest({ host: '127.0.0.1', port, path, method, headers, agent: false });
}

/** Sends a request to the gateway and reads its whole answer. */
export async function send(port: number, path: string, options: SendOptions = {}): Promise<Answer> {
  const request = begin(port, path, options);
  request.end(options.body);
  const [response] = (await once(request, 'response')) as [IncomingMessage];
  return await readAnswer(response);
}

export async function readAnswer(response: IncomingMessage): Promise<Answer> {
  const chunks: Buffer[] = [];
  for await (const chunk of response) chunks.push(chunk as Buffer);
  const body = Buffer.concat(chunks);
  const text = body.toString();
  const isJson = /json/.test(response.headers['content-type'] ?? '');
  const json = isJson && text !== '' ? (JSON.parse(text) as Record<string, unknown>) : {};
  const { statusCode: status = 0, headers, rawHeaders } = response;
  return { status, headers, rawHeaders, body, text, json };
}

/** A payment of 12.50 EUR, as the default mapping reads it. */
export const PAYMENT = '{"amount":12.50,"currency":"EUR","counterparty":"acme"}';

/** POST /payments. */
export function pay(port: number, options: SendOptions = {}): Promise<Answer> {
  return send(port, '/api/gateway/http/payments', { body: PAYMENT, ...options });
}

/** Writes bytes as they are on their own connection; resolves with all that came back until the proxy closed it. */
export async function sendRaw(port: number, bytes: string | Buffer | readonly (string | Buffer)[]): Promise<string> {
  const socket = connect({ host: '127.0.0.1', port });
  socket.on('error', () => {});
  await once(socket, 'connect');
  const chunks: Buffer[] = [];
  socket.on('data', (chunk: Buffer) => chunks.push(chunk));
  for (const part of typeof bytes === 'string' || Buffer.isBuffer(bytes) ? [bytes] : bytes) {
    socket.write(typeof part === 'string' ? Buffer.from(part, 'latin1') : part);
  }
  await new Promise<void>((resolve) => socket.once('close', () => resolve()));
  return Buffer.concat(chunks).toString('latin1');
}

/** Breaks the connection of a request, as an agent does that gave up; resolves when it is gone on this side. */
export async function leave(request: ClientRequest): Promise<void> {
  request.on('error', () => {});
  const closed = new Promise<void>((resolve) => request.once('close', () => resolve()));
  request.destroy();
  await closed;
}
