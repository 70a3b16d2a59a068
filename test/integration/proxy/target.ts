import { EventEmitter, once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { type AddressInfo, createServer as createTcpServer, type Socket } from 'node:net';

/** One request as it reached a target. */
export interface Received {
  readonly method: string;
  readonly url: string;
  readonly rawHeaders: readonly string[];
  readonly headers: IncomingMessage['headers'];
  readonly body: Buffer;
}

export type Respond = (request: IncomingMessage, response: ServerResponse, body: Buffer) => void;

/** A target that keeps a ledger of every request that reached it whole, and counts those that began. */
export class Target {
  readonly ledger: Received[] = [];
  readonly events = new EventEmitter();
  begun = 0;
  respond: Respond = (_request, response) => {
    response.writeHead(201, { 'content-type': 'application/json' }).end('{"ok":true}');
  };
  readonly #server: Server;

  constructor() {
    this.#server = createServer((request, response) => {
      this.begun += 1;
      this.events.emit('begun', request);
      const chunks: Buffer[] = [];
      request.on('data', (chunk: Buffer) => chunks.push(chunk));
      request.on('end', () => {
        const { method = '', url = '', rawHeaders, headers } = request;
        const body = Buffer.concat(chunks);
        this.ledger.push({ method, url, rawHeaders, headers, body });
        this.respond(request, response, body);
        this.events.emit('received');
      });
    });
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  async start(): Promise<this> {
    this.#server.listen(0, '127.0.0.1');
    await once(this.#server, 'listening');
    return this;
  }

  async received(count: number): Promise<void> {
    while (this.ledger.length < count) await once(this.events, 'received');
  }

  async stop(): Promise<void> {
    const closed = once(this.#server, 'close');
    this.#server.close();
    this.#server.closeAllConnections();
    await closed;
  }
}

/** A target below HTTP: `speak` gets the socket once the request's first bytes came. */
export class RawTarget {
  readonly connections: Socket[] = [];
  readonly #server = createTcpServer((socket) => {
    this.connections.push(socket);
    socket.on('error', () => {});
    socket.on('data', (bytes: Buffer) => this.#speak(socket, bytes));
  });
  readonly #speak: (socket: Socket, bytes: Buffer) => void;

  constructor(speak: (socket: Socket, bytes: Buffer) => void) {
    this.#speak = speak;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  async start(): Promise<this> {
    this.#server.listen(0, '127.0.0.1');
    await once(this.#server, 'listening');
    return this;
  }

  async stop(): Promise<void> {
    const closed = once(this.#server, 'close');
    for (const socket of this.connections) socket.destroy();
    this.#server.close();
    await closed;
  }
}
