import { type AddressInfo, createServer, type Socket } from 'node:net';
import { BUCKET_SCRIPT } from '../../../control-plane/rate-limit/bucket-script.ts';

interface TestContext {
  teardown(fn: () => Promise<void> | void): void;
}

/** What a command is answered: RESP text, or null for silence. */
export type Respond = (command: readonly string[]) => string | null;

/** A server on a real socket that reads RESP arrays of bulk strings, and answers what the test says. */
export interface FakeRedis {
  readonly url: string;
  readonly commands: (readonly string[])[];
  /** How many connections were made so far. */
  readonly connections: () => number;
  respond: Respond;
  /** Ends all connections. */
  drop(): void;
}

/** Starts one; it ends with the test. */
export async function fakeRedis(t: TestContext, respond: Respond): Promise<FakeRedis> {
  const sockets = new Set<Socket>();
  let connections = 0;
  const commands: (readonly string[])[] = [];
  const server = createServer((socket) => {
    connections += 1;
    sockets.add(socket);
    let unread = '';
    socket.on('close', () => sockets.delete(socket));
    socket.on('error', () => socket.destroy());
    socket.setEncoding('utf8').on('data', (text: string) => {
      unread += text;
      for (let read = readCommand(unread); read !== null; read = readCommand(unread)) {
        unread = unread.slice(read.length);
        commands.push(read.command);
        const answer = fake.respond(read.command);
        if (answer !== null && !socket.destroyed) socket.write(answer);
      }
    });
  });
  await new Promise<void>((resolve) => {
    server.listen(0, '127.0.0.1', () => resolve());
  });
  const drop = (): void => {
    for (const socket of sockets) socket.destroy();
  };
  t.teardown(() => {
    drop();
    server.close();
  });
  const url = `redis://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const fake: FakeRedis = { url, commands, connections: () => connections, respond, drop };
  return fake;
}

/** Keys are ASCII here, so that characters are bytes. */
function readCommand(text: string): { readonly command: string[]; readonly length: number } | null {
  const head = /^\*([0-9]+)\r\n/.exec(text);
  if (head === null) return null;
  const command: string[] = [];
  let at = head[0].length;
  for (let i = 0; i < Number(head[1]); i++) {
    const size = /^\$([0-9]+)\r\n/.exec(text.slice(at, at + 16));
    if (size === null) return null;
    const from = at + size[0].length;
    const to = from + Number(size[1]);
    if (text.length < to + 2) return null;
    command.push(text.slice(from, to));
    at = to + 2;
  }
  return { command, length: at };
}

/** RESP of an array of bulk strings. */
export function bulks(values: readonly string[]): string {
  return `*${values.length}\r\n${values.map((value) => `$${Buffer.byteLength(value)}\r\n${value}\r\n`).join('')}`;
}

/** A store that knows the script and lets everything through, with `tokens` of a burst of 10 left. */
export function letting(tokens: string): Respond {
  return ([name, script, keys]) => {
    if (name === 'PING') return '+PONG\r\n';
    if (name === 'EVAL' && script !== BUCKET_SCRIPT) return '-ERR another script\r\n';
    const states = Array.from({ length: Number(keys) }, () => ['1', tokens, '1', '10']);
    return bulks(['1700000000000.5', ...states.flat()]);
  };
}
