import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import type { Test } from 'tap';

/** One request as it arrived. */
export interface Seen {
  readonly method: string;
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

/** What is answered; `cut` ends the connection instead, after the request was read. */
export type Reply =
  | 'cut'
  | { readonly status?: number; readonly body?: unknown; readonly headers?: Readonly<Record<string, string>> };

export interface FakeService {
  readonly url: string;
  readonly seen: Seen[];
  close(): Promise<void>;
}

/** A service on a real socket that answers by a function and remembers what it was asked. */
export async function fakeService(t: Test, reply: (seen: Seen, count: number) => Reply): Promise<FakeService> {
  const seen: Seen[] = [];
  const server = createServer(async (request, response) => {
    const { method = '', url: path = '', headers } = request;
    const one = { method, path, headers, body: await text(request) };
    seen.push(one);
    const answer = reply(one, seen.length);
    if (answer === 'cut') return void request.socket.destroy();
    const body = typeof answer.body === 'string' ? answer.body : JSON.stringify(answer.body ?? {});
    response.writeHead(answer.status ?? 200, { 'content-type': 'application/json', ...answer.headers }).end(body);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const close = async (): Promise<void> => {
    if (!server.listening) return;
    const closed = once(server, 'close');
    server.close();
    server.closeAllConnections();
    await closed;
  };
  t.teardown(close);
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, seen, close };
}

/** A problem document as the service writes it. */
export function problem(status: number, error: string, headers: Record<string, string> = {}): Reply {
  return { status, body: { status, error, detail: `because of ${error}`, request_id: 'req_1' }, headers };
}
