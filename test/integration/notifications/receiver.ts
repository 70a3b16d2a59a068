import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

/** One message as a receiver got it. */
export interface Received {
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

/** A webhook receiver on loopback. */
export interface Receiver {
  readonly url: string;
  readonly port: number;
  readonly seen: Received[];
  /** How it answers; changed by tests. */
  answer: (response: ServerResponse, message: Received) => void;
  /** Resolves once so many messages were seen. */
  until(count: number): Promise<void>;
  close(): Promise<void>;
}

interface Teardown {
  teardown(fn: () => Promise<void>): void;
}

/** Starts one; it ends with the test. `port` 0: a free one. */
export async function startReceiver(t: Teardown, port = 0): Promise<Receiver> {
  const seen: Received[] = [];
  let waiting: (() => void)[] = [];
  const server = createServer((request, response) => {
    void bodyOf(request).then((body) => {
      const message = { path: request.url ?? '', headers: request.headers as Record<string, string>, body };
      seen.push(message);
      for (const wake of waiting.splice(0)) wake();
      receiver.answer(response, message);
    });
  });
  await new Promise<void>((resolve) => {
    server.listen(port, '127.0.0.1', resolve);
  });
  const { port: taken } = server.address() as AddressInfo;
  const close = async (): Promise<void> => {
    server.closeAllConnections();
    await new Promise<void>((resolve) => server.close(() => resolve()));
  };
  t.teardown(close);
  const receiver: Receiver = {
    url: `http://127.0.0.1:${taken}/hook`,
    port: taken,
    seen,
    answer: (response) => void response.writeHead(204).end(),
    until: async (count) => {
      while (seen.length < count) await new Promise<void>((resolve) => (waiting = [...waiting, resolve]));
    },
    close,
  };
  return receiver;
}

async function bodyOf(request: IncomingMessage): Promise<string> {
  let body = '';
  for await (const chunk of request) body += String(chunk);
  return body;
}
