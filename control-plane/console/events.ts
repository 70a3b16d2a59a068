import type { ServerResponse } from 'node:http';
import { ProblemError } from '../../core/errors.ts';
import type { Answer, SignedInVisit } from './visit.ts';

/** Pages that are kept up to date by one control plane at once: each holds a connection and little else. */
export const EVENT_STREAMS_MAX = 1_000;
/** Of those one account's: every tab of every device of a person. The others' pages must not go without. */
export const EVENT_STREAMS_PER_ACCOUNT_MAX = 32;
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
 * @throws ProblemError 503 `overloaded` where the account, or everybody together, has too many and nobody has many more
 */
export function sendEvents(
  { deps: { streams }, reply, session: { accountId } }: SignedInVisit,
  subscribe: (send: SendEvent) => () => void,
): Answer {
  makeRoom(streams, accountId);
  // Fastify writes no answer any more: what it would have set goes out here.
  reply.hijack();
  // Who left while the session was looked up closes nothing again: what began now would never end.
  if (reply.raw.destroyed) return { kind: 'sent' };
  streams.set(reply.raw, accountId);
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

/** Where all are taken, the oldest one of whoever has the most ends: its page comes back when there is room. */
function makeRoom(streams: Map<ServerResponse, string>, accountId: string): void {
  const ofAccount = Map.groupBy(streams, ([, account]) => account);
  const own = ofAccount.get(accountId)?.length ?? 0;
  if (streams.size < EVENT_STREAMS_MAX && own < EVENT_STREAMS_PER_ACCOUNT_MAX) return;
  const most = [...ofAccount.values()].reduce((a, b) => (b.length > a.length ? b : a));
  const oldest = most[0]?.[0];
  // Between equals nobody gives way, else they would take turns in ending each other.
  if (own >= EVENT_STREAMS_PER_ACCOUNT_MAX || oldest === undefined || most.length <= own + 1) {
    throw new ProblemError('overloaded', 'Too many pages are open at once; reload this one.', { retryAfterSeconds: 5 });
  }
  streams.delete(oldest);
  oldest.end();
}
