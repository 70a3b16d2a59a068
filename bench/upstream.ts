import { createServer, type Socket } from 'node:net';
import { announce } from './children.ts';
import { REFERENCE_DIGITS } from './upstream-ledger.ts';

/**
 * The target behind every contender: answers any POST with a small 200 and counts what arrived.
 *
 * `GET /__ledger` answers `{requests, unique}`, `POST /__reset` starts again. A request without a reference counts
 * in `requests` alone, so the ledger does not add up and the run fails. On bare sockets, because all contenders share
 * the machine with it: what it costs would be taken from whoever needs both processors.
 */
const MARK = '"reference":"';
const HEAD_END = '\r\n\r\n';
const BODY = '{"id":"pay_1","status":"accepted"}';
const ANSWER = answerOf('200 OK', BODY);
/** The longest request that is still being collected. */
const REQUEST_MAX_BYTES = 1_048_576;

let requests = 0;
let references = new Set<number>();

function answerOf(status: string, body: string): string {
  return `HTTP/1.1 ${status}\r\ncontent-type: application/json\r\ncontent-length: ${body.length}${HEAD_END}${body}`;
}

function count(body: string): void {
  requests += 1;
  const at = body.indexOf(MARK);
  const reference = Number(body.slice(at + MARK.length, at + MARK.length + REFERENCE_DIGITS));
  if (at >= 0 && Number.isSafeInteger(reference)) references.add(reference);
}

function answer(head: string, body: string): string {
  if (head.startsWith('GET /__ledger '))
    return answerOf('200 OK', JSON.stringify({ requests, unique: references.size }));
  if (head.startsWith('POST /__reset ')) {
    requests = 0;
    references = new Set();
    return answerOf('200 OK', '{}');
  }
  count(body);
  return ANSWER;
}

/** The body's length; every client of this benchmark announces it. */
function bodyLength(head: string): number {
  return Number(/\r\ncontent-length: *([0-9]+)/i.exec(head)?.[1] ?? 0);
}

function serve(socket: Socket): void {
  let received = '';
  socket.setNoDelay(true);
  socket.on('error', () => {});
  socket.on('data', (chunk: Buffer) => {
    received = received === '' ? chunk.toString('latin1') : received + chunk.toString('latin1');
    let answers = '';
    for (let headEnd = received.indexOf(HEAD_END); headEnd >= 0; headEnd = received.indexOf(HEAD_END)) {
      const head = received.slice(0, headEnd);
      const bodyAt = headEnd + HEAD_END.length;
      const end = bodyAt + bodyLength(head);
      if (received.length < end) break;
      answers += answer(head, received.slice(bodyAt, end));
      received = received.slice(end);
    }
    if (answers !== '') socket.write(answers, 'latin1');
    if (received.length > REQUEST_MAX_BYTES) socket.destroy();
  });
}

const server = createServer(serve);
server.listen(0, '127.0.0.1', () => announce(server));
