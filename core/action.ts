import { hash } from 'node:crypto';
import { canonicalString } from './jcs.ts';
import { ACTION_TYPE_MAX_CHARACTERS, COUNTERPARTY_MAX_CHARACTERS } from './limits.ts';
import { decimalOf } from './money.ts';

/** The request that an action stands for on the gateway path; `body_sha256` is hex, null where nothing was read. */
export interface ActionRequest {
  readonly method: string;
  readonly path: string;
  readonly query: string;
  readonly body_sha256: string | null;
}

/** What an agent wants to do. `currency` null (only with amount 0) means that no money is named. */
export interface Action {
  readonly type: string;
  readonly amount_minor: number;
  readonly currency: string | null;
  readonly counterparty?: string | null;
  readonly request?: ActionRequest;
}

const ACTION_TYPE = /^[a-z0-9_-]+(?:\.[a-z0-9_-]+)*$/;

/** Whether `text` is an action type: 1..128 characters, segments of `[a-z0-9_-]` joined by dots (contract §2). */
export function isActionType(text: string): boolean {
  return text.length <= ACTION_TYPE_MAX_CHARACTERS && ACTION_TYPE.test(text);
}

/** Whether `text` is an entry of a scope: an action type, or one followed by `.*` (contract §2). */
export function isScopeEntry(text: string): boolean {
  return isActionType(text.endsWith('.*') ? text.slice(0, -2) : text);
}

/** Whether a scope covers an action type; `payments.*` covers all that starts with `payments.`, not `payments`. */
export function scopeCovers(scope: readonly string[], type: string): boolean {
  for (const entry of scope) {
    if (entry === type) return true;
    if (entry.endsWith('.*') && type.length >= entry.length && type.startsWith(entry.slice(0, -1))) return true;
  }
  return false;
}

// Controls, line separators, and the directional overrides that make a card show another name than it holds.
const NOT_IN_COUNTERPARTY = /[\p{Cc}\u2028-\u202e\u2066-\u2069]/u;

/** Whether `text` is a counterparty: NFC, 1..256 code points, no control or directional override characters. */
export function isCounterparty(text: string): boolean {
  if (text.length === 0 || text.length > COUNTERPARTY_MAX_CHARACTERS * 2) return false;
  if (text.length > COUNTERPARTY_MAX_CHARACTERS && [...text].length > COUNTERPARTY_MAX_CHARACTERS) return false;
  return text.isWellFormed() && !NOT_IN_COUNTERPARTY.test(text) && text.normalize('NFC') === text;
}

/**
 * `sha-256:` and the hex SHA-256 of the JCS of `{type, amount: {value, currency}, counterparty?, request?}`.
 *
 * `value` is the decimal in major units, as a caller of the API would write it; strings are NFC-normalised first. Where
 * no currency is named, `value` is 0 and `currency` null. Throws RangeError or JcsProblem for what is not an action.
 * Source: contract §2.
 */
export function contextDigest(action: Action): string {
  return `sha-256:${hash('sha256', contextText(action), 'hex')}`;
}

const CONTEXT_DIGEST = /^sha-256:[0-9a-f]{64}$/;

/** Whether `text` is a context digest in its only spelling (contract §2). */
export function isContextDigest(text: string): boolean {
  return CONTEXT_DIGEST.test(text);
}

/** The canonical text that the context digest is taken over: JCS, written in its order without building the object. */
export function contextText(action: Action): string {
  const { amount_minor: minor, counterparty, request } = action;
  let text = `{"amount":{"currency":${nullable(action.currency)},"value":${decimalText(minor, action.currency)}}`;
  if (counterparty !== undefined && counterparty !== null) text += `,"counterparty":${quoted(counterparty)}`;
  if (request !== undefined) {
    text +=
      `,"request":{"body_sha256":${nullable(request.body_sha256)},"method":${quoted(request.method)},` +
      `"path":${quoted(request.path)},"query":${quoted(request.query)}}`;
  }
  return `${text},"type":${quoted(action.type)}}`;
}

function decimalText(minor: number, currency: string | null): string {
  if (currency !== null) return String(decimalOf(minor, currency));
  if (minor !== 0) throw new RangeError('an amount without a currency');
  return '0';
}

function quoted(text: string): string {
  return canonicalString(text.normalize('NFC'));
}

function nullable(text: string | null): string {
  return text === null ? 'null' : quoted(text);
}
