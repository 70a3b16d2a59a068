import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { announce } from './children.ts';
import { REFERENCE_DIGITS } from './upstream-ledger.ts';

/**
 * The target behind every contender: answers any POST with a small 200 and counts what arrived.
 *
 * `GET /__ledger` answers `{requests, unique}`, `POST /__reset` starts again. A request without a reference counts
 * in `requests` alone, so the ledger does not add up and the run fails.
 */
const MARK = '"reference":"';
const ANSWER = Buffer.from('{"id":"pay_1","status":"accepted"}');
const ANSWER_HEAD = ['content-type', 'application/json', 'content-length', String(ANSWER.length)];

let requests = 0;
let references = new Set<number>();

function count(body: string): void {
  requests += 1;
  const at = body.indexOf(MARK);
  const reference = Number(body.slice(at + MARK.length, at + MARK.length + REFERENCE_DIGITS));
  if (at >= 0 && Number.isSafeInteger(reference)) references.add(reference);
}

function answer(request: IncomingMessage, response: ServerResponse, body: string): void {
  if (request.url === '/__ledger') {
    response.writeHead(200, { 'content-type': 'application/json' });
    response.end(JSON.stringify({ requests, unique: references.size }));
    return;
  }
  if (request.url === '/__reset') {
    requests = 0;
    references = new Set();
    response.writeHead(204).end();
    return;
  }
  count(body);
  response.writeHead(200, ANSWER_HEAD);
  response.end(ANSWER);
}

const server = createServer({ keepAliveTimeout: 600_000, requestTimeout: 0 }, (request, response) => {
  let body = '';
  request.on('data', (chunk: Buffer) => {
    body += chunk.toString('latin1');
  });
  request.on('end', () => answer(request, response, body));
});
server.listen(0, '127.0.0.1', () => announce(server));
