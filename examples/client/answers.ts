import type { Decision } from './interface.ts';

/** A JSON object that was answered with a status of 2xx. */
export interface Answer {
  readonly value: object;
  readonly headers: Headers;
}

/** The service answered why not (RFC 9457): `error` is a stable code, `fields` names what to correct. */
export class ServiceProblem extends Error {
  override readonly name = 'ServiceProblem';
  readonly status: number;
  readonly error: string;
  readonly detail: string;
  readonly fields: readonly { readonly field: string; readonly message: string }[];
  readonly requestId: string | null;

  constructor(status: number, body: { readonly error: string; readonly [member: string]: unknown }) {
    const { error, detail, fields, request_id } = body;
    super(`${status} ${error}: ${detail ?? 'no detail'}`);
    this.status = status;
    this.error = error;
    this.detail = typeof detail === 'string' ? detail : '';
    this.fields = Array.isArray(fields) ? fields : [];
    this.requestId = typeof request_id === 'string' ? request_id : null;
  }
}

/** There is no answer that can be relied on. The request may have been carried out all the same. */
export class NoAnswer extends Error {
  override readonly name = 'NoAnswer';
}

/** Reads an answer: its JSON object, or what is wrong with it. */
export function problemOf(
  status: number,
  text: string,
): { value: object; problem: null } | { value: null; problem: Error } {
  const value = objectOf(text);
  if (value !== null && status >= 200 && status < 300) return { value, problem: null };
  if (value !== null && 'error' in value && typeof value.error === 'string') {
    return { value: null, problem: new ServiceProblem(status, { ...value, error: value.error }) };
  }
  return { value: null, problem: new NoAnswer(`status ${status}, and a body that is not the service's`) };
}

function objectOf(text: string): object | null {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null && !Array.isArray(value) ? value : null;
  } catch {
    return null;
  }
}

const MEMBERS = {
  allow: ['consumption_token', 'receipt', 'mat_compact'],
  deny: ['reasons', 'reason_text', 'receipt'],
  escalate: ['escalation'],
} as const satisfies Record<Decision['decision'], readonly string[]>;

/** The answer of verify; throws NoAnswer for anything but one of the three decisions with its members. */
export function asDecision(value: object): Decision {
  const decision = 'decision' in value ? value.decision : undefined;
  if (decision === 'allow' || decision === 'deny' || decision === 'escalate') {
    if (MEMBERS[decision].every((name) => name in value)) return value as Decision;
  }
  throw new NoAnswer('verify answered with something that is no decision');
}

/** Milliseconds of a Retry-After, in seconds or as a date (RFC 9110 §10.2.3); null where there is none to be read. */
export function retryAfterMs(header: string | null, now = Date.now()): number | null {
  if (header === null) return null;
  if (/^[0-9]{1,9}$/.test(header)) return Number(header) * 1000;
  const at = Date.parse(header);
  return Number.isNaN(at) ? null : Math.max(0, at - now);
}
