import { PREFER_WAIT_MAX_SECONDS } from '../../core/limits.ts';
import { listed } from '../http/head.ts';

/** Seconds of `Prefer: wait=<s>` (RFC 7240 §4.3), at most 600; 0 where it is not asked for or cannot be read. */
export function preferredWait(prefer: string | null): number {
  if (prefer === null) return 0;
  for (const part of prefer.split(',')) {
    const match = /^\s*wait\s*=\s*"?([0-9]{1,4})"?\s*$/i.exec(part);
    if (match) return Math.min(Number(match[1]), PREFER_WAIT_MAX_SECONDS);
  }
  return 0;
}

const HOP_BY_HOP: ReadonlySet<string> = new Set([
  'connection',
  'keep-alive',
  'proxy-authenticate',
  'proxy-authorization',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
]);

/** Request headers that never travel: ours, the ones that speak of the way here, and those that change the request. */
const NOT_FORWARDED: ReadonlySet<string> = new Set([
  ...HOP_BY_HOP,
  'authorization',
  'host',
  'content-length',
  'expect',
  'forwarded',
  'via',
  'x-real-ip',
  'x-http-method-override',
  'x-http-method',
  'x-method-override',
  'x-original-url',
  'x-rewrite-url',
  'x-original-host',
  'x-host',
]);

function isOurs(name: string): boolean {
  return name.startsWith('x-service-') || name.startsWith('x-forwarded-') || name.startsWith('x-mandate-');
}

/** What is added to a forwarded request. */
export interface ForwardedHead {
  readonly receiptId: string;
  readonly credential: { readonly header: string; readonly value: string } | null;
  readonly contentLength: number | null;
}

/**
 * The headers of the request to the target, built afresh: what was stripped is not there, whatever its spelling.
 *
 * Source: contract §7 "Forwarded request", RFC 9110 §7.6.1.
 */
export function forwardedHeaders(
  raw: readonly string[],
  hopByHop: ReadonlySet<string> | null,
  added: ForwardedHead,
): string[] {
  const credentialName = added.credential?.header.toLowerCase() ?? '';
  const headers: string[] = [];
  for (let i = 0; i < raw.length; i += 2) {
    const name = raw[i]!.toLowerCase();
    if (NOT_FORWARDED.has(name) || isOurs(name) || name === credentialName || hopByHop?.has(name)) continue;
    // Some servers read `_` as `-`: a header that would then be one of these is dropped as well.
    if (name.includes('_') && isRefusedAlias(name.replaceAll('_', '-'), credentialName)) continue;
    headers.push(raw[i]!, raw[i + 1]!);
  }
  if (added.contentLength !== null) headers.push('content-length', String(added.contentLength));
  if (added.credential !== null) headers.push(added.credential.header, added.credential.value);
  headers.push('x-service-receipt', added.receiptId);
  return headers;
}

function isRefusedAlias(name: string, credentialName: string): boolean {
  return NOT_FORWARDED.has(name) || isOurs(name) || name === credentialName;
}

/** Target's headers that do not reach the agent: hop-by-hop, and those that only the gateway may say. */
const NOT_RETURNED: ReadonlySet<string> = new Set([
  ...HOP_BY_HOP,
  'x-ratelimit-limit',
  'x-ratelimit-remaining',
  'x-ratelimit-reset',
  'x-idempotent-replay',
  'x-request-id',
  'cache-control',
]);

/** The target's headers as they go to the agent (names and values in turn), and whether one holds `credential`. */
export function returnedHeaders(
  raw: readonly (Buffer | string)[],
  credential: string | null,
): { readonly headers: string[]; readonly contentLength: number | null; readonly leaks: boolean } {
  const headers: string[] = [];
  const named = connectionNames(raw);
  let contentLength: number | null = null;
  let leaks = false;
  for (let i = 0; i < raw.length; i += 2) {
    const name = text(raw[i]!);
    const value = text(raw[i + 1]!);
    const lower = name.toLowerCase();
    if (NOT_RETURNED.has(lower) || isOurs(lower) || named?.has(lower)) continue;
    if (lower === 'content-length') contentLength = Number(value);
    if (credential !== null && value.includes(credential)) leaks = true;
    headers.push(name, value);
  }
  return { headers, contentLength, leaks };
}

function connectionNames(raw: readonly (Buffer | string)[]): Set<string> | null {
  let names: Set<string> | null = null;
  for (let i = 0; i < raw.length; i += 2) {
    if (raw[i]!.length === 10 && text(raw[i]!).toLowerCase() === 'connection') names = listed(text(raw[i + 1]!), names);
  }
  return names;
}

function text(value: Buffer | string): string {
  return typeof value === 'string' ? value : value.toString('latin1');
}
