import { randomBytes } from 'node:crypto';
import type { ServerResponse } from 'node:http';
import { ProblemError, problemDocument } from '../../core/errors.ts';
import type { GatewayAnswer, RateState, StoredAnswer, VerifyResult } from '../../core/wire.ts';
import { discardRest } from './body.ts';

const PREFIX = `req_${randomBytes(9).toString('base64url')}`;
let count = 0;

/** An identifier for one request of this process: for the answer and the log. */
export function newRequestId(): string {
  count += 1;
  return `${PREFIX}${count.toString(36)}`;
}

/** What every answer carries. */
export interface AnswerFrame {
  readonly requestId: string;
  readonly rate: RateState | null;
  readonly receiptId: string | null;
  readonly decision: 'allow' | 'deny' | 'escalate' | null;
}

/** The gateway's own headers (contract §§7, 8), as a list for `writeHead`. */
export function frameHeaders({ requestId, rate, receiptId, decision }: AnswerFrame): string[] {
  const headers = ['cache-control', 'no-store', 'x-request-id', requestId];
  if (rate !== null) {
    const [limit, remaining, reset] = rate;
    headers.push('x-ratelimit-limit', String(limit), 'x-ratelimit-remaining', String(remaining));
    headers.push('x-ratelimit-reset', String(reset));
  }
  if (receiptId !== null) headers.push('x-service-receipt', receiptId);
  if (decision !== null) headers.push('x-service-decision', decision);
  return headers;
}

function sendJson(response: ServerResponse, status: number, type: string, body: object, headers: string[]): void {
  if (response.headersSent || response.destroyed) return;
  const text = JSON.stringify(body);
  headers.push('content-type', type, 'content-length', String(Buffer.byteLength(text)));
  response.writeHead(status, headers);
  response.end(text);
  discardRest(response.req);
}

/** Answers with problem+json (RFC 9457). */
export function sendProblem(response: ServerResponse, problem: ProblemError, frame: AnswerFrame): void {
  const headers = frameHeaders(frame);
  if (problem.retryAfterSeconds !== undefined) headers.push('retry-after', String(problem.retryAfterSeconds));
  if (problem.code === 'unauthenticated') headers.push('www-authenticate', 'Bearer realm="mandate-gateway"');
  sendJson(response, problem.status, 'application/problem+json', problemDocument(problem, frame.requestId), headers);
}

/** Answers what the control plane said in place of a decision. */
export function sendUndecided(
  response: ServerResponse,
  { error, detail, retry_after_s, receipt_id, rate }: GatewayAnswer & { readonly answer: 'problem' },
  requestId: string,
): void {
  const options = retry_after_s === null ? {} : { retryAfterSeconds: retry_after_s };
  const frame: AnswerFrame = { requestId, rate, receiptId: receipt_id, decision: null };
  sendProblem(response, new ProblemError(error, detail, options), frame);
}

/** Answers a decided verification: 200 with the text as the control plane wrote it. */
export function sendResult(response: ServerResponse, result: VerifyResult, requestId: string): void {
  if (response.headersSent || response.destroyed) return;
  const headers = frameHeaders({ requestId, rate: result.rate, receiptId: null, decision: null });
  if (result.replayed) headers.push('x-idempotent-replay', 'true');
  const length = Buffer.byteLength(result.body);
  headers.push('content-type', 'application/json; charset=utf-8', 'content-length', String(length));
  response.writeHead(200, headers);
  response.end(result.body);
}

/** Answers a deny: 403 with its one reason (interface.md "POST /api/gateway"). */
export function sendDeny(response: ServerResponse, code: string, reasonText: string, frame: AnswerFrame): void {
  const body = { error: 'service_deny', reasons: [code], reason_text: reasonText, receipt_id: frame.receiptId };
  sendJson(response, 403, 'application/json', body, frameHeaders(frame));
}

/** Answers an escalate: 403 with the escalation to wait for (contract §7). */
export function sendEscalate(
  response: ServerResponse,
  escalation: { readonly id: string; readonly expires_at: string },
  frame: AnswerFrame,
): void {
  const body = { error: 'service_escalate', escalation, receipt_id: frame.receiptId };
  sendJson(response, 403, 'application/json', body, frameHeaders(frame));
}

/** Answers a repeat under an idempotency key with the stored answer. */
export function sendReplay(response: ServerResponse, stored: StoredAnswer, frame: AnswerFrame, head: boolean): void {
  if (response.headersSent || response.destroyed) return;
  const body = Buffer.from(stored.body ?? '', 'base64');
  const headers = [...frameHeaders(frame), 'x-idempotent-replay', 'true'];
  for (const [name, value] of stored.headers) if (name.toLowerCase() !== 'content-length') headers.push(name, value);
  if (!head && stored.status !== 204 && stored.status !== 304) headers.push('content-length', String(body.length));
  response.writeHead(stored.status, headers);
  response.end(head ? undefined : body);
  discardRest(response.req);
}
