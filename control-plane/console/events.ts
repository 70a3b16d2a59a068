import { ProblemError } from '../../core/errors.ts';
import type { Answer, SignedInVisit } from './visit.ts';

/** Pages that are kept up to date by one control plane at once: each holds a connection and little else. */
export const EVENT_STREAMS_MAX = 1_000;
/** Less than any proxy waits on a connection that says nothing. */
const HEARTBEAT_MS = 15_000;
/** A stream ends after this and the browser begins another, whose session is looked up anew. */
const STREAM_LIFE_MS = 5 * 60_000;
/** What a browser waits before it comes back. */
const RETRY_MS = 3_000;

/** Tells a page that something happened: a name, and no more than the page may know of it. */
export type SendEvent = (name: string, data: object) => void;

/**
 * Answers with events (`text/event-stream`) until the browser leaves or the stream's time is over.
 *
 * `subscribe` is called once and returns what ends it. Events say that a page is out of date, they do not carry it: who
 * misses one sees the same after a reload.
 *
 * @throws ProblemError 503 `overloaded`
 */
export function sendEvents({ deps, reply }: SignedInVisit, subscribe: (send: SendEvent) => () => void): Answer {
  const { streams } = deps;
  if (streams.size >= EVENT_STREAMS_MAX) {
    throw new ProblemError('overloaded', 'Too many pages are open at once; reload this one.', { retryAfterSeconds: 5 });
  }
  streams.add(reply.raw);
  // Fastify writes no answer any more: what it would have set goes out here.
  reply.hijack();
  const headers = { ...reply.getHeaders(), 'cache-control': 'no-store', 'content-type': 'text/event-stream' };
  for (const [name, value] of Object.entries(headers)) if (value !== undefined) reply.raw.setHeader(name, value);
  reply.raw.writeHead(200);
  reply.raw.write(`retry: ${RETRY_MS}\n\n`);
  const end = subscribe((name, data) => {
    if (reply.raw.writable) reply.raw.write(`event: ${name}\ndata: ${JSON.stringify(data)}\n\n`);
  });
  const heartbeat = setInterval(() => reply.raw.write(':\n\n'), HEARTBEAT_MS);
  const over = setTimeout(() => reply.raw.end(), STREAM_LIFE_MS);
  reply.raw.on('error', () => {});
  reply.raw.once('close', () => {
    streams.delete(reply.raw);
    clearInterval(heartbeat);
    clearTimeout(over);
    end();
  });
  return { kind: 'sent' };
}
