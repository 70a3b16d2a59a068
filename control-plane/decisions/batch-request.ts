import { type BatchRequest, batchRequest, type DecisionAsk, decisionAsk, type VerifyAsk } from '../../core/wire.ts';

/**
 * Reads a proxy's message: exactly what `batchRequest` accepts, or throws as it does.
 *
 * Verifications are checked here by hand, at a tenth of the cost; everything else, and whatever is wrong with them, is
 * left to the schema.
 */
export function readBatchRequest(value: unknown): BatchRequest {
  const { asks, outcomes, charges } = record(value) ?? NO_FIELDS;
  if (!Array.isArray(asks) || !isEmpty(outcomes) || !isEmpty(charges)) return batchRequest.parse(value);
  return { asks: asks.map(readAsk), outcomes, charges };
}

function readAsk(value: unknown): DecisionAsk {
  return verifyOf(record(value) ?? NO_FIELDS) ?? decisionAsk.parse(value);
}

function verifyOf(fields: Fields): VerifyAsk | null {
  const { path, token_hash, address, problem, request_digest, budget_ms } = fields;
  const { idempotency_key_hash, escalation_token_hash } = fields;
  if (path !== 'verify' || !isHash(token_hash) || !isHash(request_digest) || !isCount(budget_ms)) return null;
  if (typeof address !== 'string' || address.length > 64 || !isTextOrNull(problem)) return null;
  if (!isHashOrNull(idempotency_key_hash) || !isHashOrNull(escalation_token_hash)) return null;
  const presentation = fields['presentation'] === null ? null : presentationOf(record(fields['presentation']));
  const action = actionOf(record(fields['action']));
  if (presentation === undefined || action === null) return null;
  return {
    ...{ path, token_hash, address, problem, presentation, action, request_digest },
    ...{ idempotency_key_hash, escalation_token_hash, budget_ms },
  };
}

/** Undefined where it is not surely one. */
function presentationOf(fields: Fields | null): VerifyAsk['presentation'] | undefined {
  const { mandate_id, verifier, ctx, nonce_hash, issued_at_ms, expires_at_ms, signer, document } = fields ?? NO_FIELDS;
  if (typeof mandate_id !== 'string' || typeof verifier !== 'string' || typeof signer !== 'string') return undefined;
  if (typeof document !== 'string' || !isTextOrNull(ctx) || !isHash(nonce_hash)) return undefined;
  if (!isWhole(issued_at_ms) || !isWhole(expires_at_ms)) return undefined;
  return { mandate_id, verifier, ctx, nonce_hash, issued_at_ms, expires_at_ms, signer, document };
}

function actionOf(fields: Fields | null): VerifyAsk['action'] | null {
  const { type, amount_minor, currency, counterparty } = fields ?? NO_FIELDS;
  if (typeof type !== 'string' || typeof currency !== 'string' || !isCount(amount_minor)) return null;
  return isTextOrNull(counterparty) ? { type, amount_minor, currency, counterparty } : null;
}

type Fields = Readonly<Record<string, unknown>>;
const NO_FIELDS: Fields = {};

function record(value: unknown): Fields | null {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Fields) : null;
}

function isHash(value: unknown): value is string {
  return typeof value === 'string' && value.length === 64;
}

function isHashOrNull(value: unknown): value is string | null {
  return value === null || isHash(value);
}

function isTextOrNull(value: unknown): value is string | null {
  return value === null || typeof value === 'string';
}

function isWhole(value: unknown): value is number {
  return Number.isSafeInteger(value);
}

function isCount(value: unknown): value is number {
  return isWhole(value) && value >= 0;
}

function isEmpty(value: unknown): value is [] {
  return Array.isArray(value) && value.length === 0;
}
