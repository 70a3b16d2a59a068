import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { type Dispatcher, Pool } from 'undici';
import { announce } from '../children.ts';

/**
 * The least a Node proxy can do per request: node:http in, an undici pool out, no checks.
 *
 * `node bench/peers/bare-node.ts <upstream>`: request bodies are buffered, answers are streamed with back-pressure.
 */
const UPSTREAM_CONNECTIONS = 256;
const HOP_BY_HOP = new Set(['connection', 'host', 'keep-alive', 'te', 'trailer', 'transfer-encoding', 'upgrade']);

const pool = new Pool(process.argv[2] ?? '', { connections: UPSTREAM_CONNECTIONS, keepAliveTimeout: 60_000 });

/** End-to-end headers as a flat list of names and values. */
function endToEnd(raw: readonly (string | Buffer)[]): string[] {
  const headers: string[] = [];
  for (let i = 0; i + 1 < raw.length; i += 2) {
    const name = String(raw[i]);
    if (!HOP_BY_HOP.has(name.toLowerCase())) headers.push(name, String(raw[i + 1]));
  }
  return headers;
}

class Answer implements Dispatcher.DispatchHandler {
  private readonly response: ServerResponse;
  /** The last chunk waits for the end, so that a small answer leaves in one write. */
  private held: Buffer | undefined;

  constructor(response: ServerResponse) {
    this.response = response;
  }

  onRequestStart(): void {}

  onResponseStart(controller: Dispatcher.DispatchController, status: number): void {
    if (status < 200) return;
    const raw = controller.rawHeaders;
    this.response.writeHead(status, Array.isArray(raw) ? endToEnd(raw) : {});
  }

  onResponseData(controller: Dispatcher.DispatchController, chunk: Buffer): void {
    if (this.held !== undefined && !this.response.write(this.held)) {
      controller.pause();
      this.response.once('drain', () => controller.resume());
    }
    this.held = chunk;
  }

  onResponseEnd(): void {
    this.response.end(this.held);
  }

  onResponseError(): void {
    if (this.response.headersSent) this.response.destroy();
    else this.response.writeHead(502, ['content-length', '0']).end();
  }
}

function forward(request: IncomingMessage, response: ServerResponse, body: Buffer | null): void {
  const method = (request.method ?? 'GET') as Dispatcher.HttpMethod;
  const headers = endToEnd(request.rawHeaders);
  pool.dispatch({ path: request.url ?? '/', method, headers, body }, new Answer(response));
}

const server = createServer({ keepAliveTimeout: 600_000, requestTimeout: 0 }, (request, response) => {
  const chunks: Buffer[] = [];
  request.on('data', (chunk: Buffer) => chunks.push(chunk));
  request.on('end', () => {
    const [first = null] = chunks;
    forward(request, response, chunks.length > 1 ? Buffer.concat(chunks) : first);
  });
});
server.listen(0, '127.0.0.1', () => announce(server));
