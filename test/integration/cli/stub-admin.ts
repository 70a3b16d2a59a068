import { createServer, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { PassThrough } from 'node:stream';
import type { Io } from '../../../cli/io.ts';
import { runCli } from '../../../cli/program.ts';
import type { Environment } from '../../../config/load.ts';

/** One request as the stub saw it. */
export interface SeenRequest {
  readonly method: string;
  readonly path: string;
  readonly authorization: string | undefined;
  readonly body: string;
}

/** What the stub answers: a status, the exact text of the body, and headers. */
export interface StubAnswer {
  readonly status?: number;
  readonly text?: string;
  readonly headers?: Readonly<Record<string, string>>;
}

/** An admin API that answers by a function and remembers what it was asked. */
export async function stubAdmin(answer: (request: SeenRequest) => StubAnswer): Promise<{
  readonly url: string;
  readonly seen: SeenRequest[];
  close(): Promise<void>;
}> {
  const seen: SeenRequest[] = [];
  const server = createServer((request, response) => {
    read(request).then((body) => {
      const { method = '', url = '' } = request;
      const one = { method, path: url, authorization: request.headers.authorization, body };
      seen.push(one);
      const { status = 200, text = '{}', headers = {} } = answer(one);
      response.writeHead(status, { 'content-type': 'application/json', ...headers }).end(text);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return {
    url,
    seen,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

async function read(request: IncomingMessage): Promise<string> {
  let body = '';
  request.setEncoding('utf8');
  for await (const chunk of request as AsyncIterable<string>) body += chunk;
  return body;
}

/** Runs one command line in this process and returns what it wrote. */
export async function cli(
  args: readonly string[],
  environment: Environment,
  stdin = '',
): Promise<{ code: number; stdout: string; stderr: string }> {
  let stdout = '';
  let stderr = '';
  const input = new PassThrough();
  input.end(stdin);
  const io: Io = {
    stdin: input,
    stdout: { write: (text) => (stdout += text) },
    stderr: { write: (text) => (stderr += text) },
    environment,
  };
  const code = await runCli(args, io);
  return { code, stdout, stderr };
}
