import type { AddressInfo } from 'node:net';
import { createServer, type Socket } from 'node:net';

/** One mail as the server took it. */
export interface TakenMail {
  readonly from: string;
  readonly to: readonly string[];
  /** Head and body as they were sent, lines ended by LF. */
  readonly text: string;
}

export interface SmtpServer {
  readonly port: number;
  readonly taken: TakenMail[];
  /** The answer to RCPT TO, without line end; changed by tests. */
  recipient: (address: string) => string;
  close(): Promise<void>;
}

/** The least SMTP server that takes mails in plain text (RFC 5321); it ends with the test. */
export async function startSmtp(t: { teardown(fn: () => Promise<void>): void }): Promise<SmtpServer> {
  const sockets = new Set<Socket>();
  const taken: TakenMail[] = [];
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on('error', () => {});
    socket.on('close', () => sockets.delete(socket));
    serve(socket, (address) => smtp.recipient(address), taken);
  });
  await new Promise<void>((resolve) => {
    server.listen(0, '127.0.0.1', resolve);
  });
  const close = async (): Promise<void> => {
    for (const socket of sockets) socket.destroy();
    await new Promise<void>((resolve) => server.close(() => resolve()));
  };
  t.teardown(close);
  const { port } = server.address() as AddressInfo;
  const smtp: SmtpServer = { port, taken, recipient: () => '250 OK', close };
  return smtp;
}

function serve(socket: Socket, recipient: (address: string) => string, taken: TakenMail[]): void {
  let [buffer, from, data] = ['', '', false];
  let to: string[] = [];
  const say = (line: string): void => void socket.write(`${line}\r\n`);
  say('220 test ESMTP');
  socket.on('data', (chunk) => {
    buffer += chunk.toString('utf8');
    for (;;) {
      const end = buffer.indexOf(data ? '\r\n.\r\n' : '\r\n');
      if (end < 0) return;
      const line = buffer.slice(0, end);
      buffer = buffer.slice(end + (data ? 5 : 2));
      if (data) {
        taken.push({ from, to, text: line.replaceAll('\r\n', '\n') });
        [data, to] = [false, []];
        say('250 taken');
        continue;
      }
      const address = /<([^>]*)>/.exec(line)?.[1] ?? '';
      const command = line.slice(0, 4).toUpperCase();
      if (command === 'EHLO') say('250 test');
      else if (command === 'MAIL') [from] = [address, say('250 OK')];
      else if (command === 'RCPT') {
        const answer = recipient(address);
        if (answer.startsWith('250')) to.push(address);
        say(answer);
      } else if (command === 'DATA') {
        data = true;
        say('354 go on');
      } else if (command === 'QUIT') {
        say('221 bye');
        socket.end();
      } else say(command === 'STAR' ? '502 no TLS here' : '250 OK');
    }
  });
}
