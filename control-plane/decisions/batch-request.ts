import {
  type BatchRequest,
  batchRequest,
  type DecisionAsk,
  decisionAsk,
  type GatewayAsk,
  type GatewayOutcome,
  OUTCOME_CAUSES,
  type VerifyAsk,
} from '../../core/wire.ts';

const CAUSES: ReadonlySet<unknown> = new Set(OUTCOME_CAUSES);
const OUTCOMES: ReadonlySet<unknown> = new Set(['booked', 'released', 'unknown']);

/**
 * Reads a proxy's message: exactly what `batchRequest` accepts, or throws as it does.
 *
 * The usual parts are checked here by hand, at a tenth of the cost: verifications, gateway requests whose values were
 * read, outcomes without an answer to keep. Everything else, and whatever is wrong with them, is left to the schema.
 */
export function readBatchRequest(value: unknown): BatchRequest {
  const { asks, outcomes, charges } = record(value);
  if (!Array.isArray(asks) || !Array.isArray(outcomes) || !isEmpty(charges)) return batchRequest.parse(value);
  const told: GatewayOutcome[] = [];
  for (const outcome of outcomes) {
    const read = outcomeOf(record(outcome));
    if (read === null) return batchRequest.parse(value);
    told.push(read);
  }
  return { asks: asks.map(readAsk), outcomes: told, charges };
}

function readAsk(value: unknown): DecisionAsk {
  const fields = record(value);
  return gatewayOf(fields) ?? verifyOf(fields) ?? decisionAsk.parse(value);
}

function gatewayOf(fields: Fields): GatewayAsk | null {
  const { path, token_hash, address, name, bindable, config_version, budget_ms } = fields;
  const { idempotency_key_hash, escalation_token_hash } = fields;
  if (path !== 'gateway' || fields['shape'] !== undefined || typeof bindable !== 'boolean') return null;
  if (!isHash(token_hash) || !isHashOrNull(idempotency_key_hash) || !isHashOrNull(escalation_token_hash)) return null;
  if (typeof address !== 'string' || address.length > 64 || typeof name !== 'string' || name.length > 4096) return null;
  if (!isCount(config_version) || !isCount(budget_ms)) return null;
  const tool = toolOf(record(fields['tool']));
  const reading = readingOf(record(fields['reading']));
  const request = requestOf(record(fields['request']));
  if (tool === null || reading === null || request === null) return null;
  return {
    path,
    token_hash,
    address,
    name,
    tool,
    reading,
    request,
    bindable,
    idempotency_key_hash,
    escalation_token_hash,
    config_version,
    budget_ms,
  };
}

function toolOf({ id, version }: Fields): GatewayAsk['tool'] {
  return typeof id === 'string' && isCount(version) ? { id, version } : null;
}

function readingOf({ ok, amount_minor, currency, counterparty }: Fields): GatewayAsk['reading'] {
  if (ok !== true || !isCount(amount_minor) || !isTextOrNull(currency) || !isTextOrNull(counterparty)) return null;
  return { ok, amount_minor, currency, counterparty };
}

function requestOf({ method, path, query, body_sha256 }: Fields): GatewayAsk['request'] | null {
  if (typeof method !== 'string' || typeof path !== 'string' || typeof query !== 'string') return null;
  return isHashOrNull(body_sha256) ? { method, path, query, body_sha256 } : null;
}

function outcomeOf({ account_id, receipt_id, outcome, cause, target_status, answer }: Fields): GatewayOutcome | null {
  if (typeof account_id !== 'string' || typeof receipt_id !== 'string' || answer !== null) return null;
  if (!isOutcome(outcome) || !isCause(cause)) return null;
  if (target_status !== null && !Number.isSafeInteger(target_status)) return null;
  return { account_id, receipt_id, outcome, cause, target_status: target_status as number | null, answer };
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
function presentationOf(fields: Fields): VerifyAsk['presentation'] | undefined {
  const { mandate_id, verifier, ctx, nonce_hash, issued_at_ms, expires_at_ms, signer, document } = fields;
  if (typeof mandate_id !== 'string' || typeof verifier !== 'string' || typeof signer !== 'string') return undefined;
  if (typeof document !== 'string' || !isTextOrNull(ctx) || !isHash(nonce_hash)) return undefined;
  if (!isWhole(issued_at_ms) || !isWhole(expires_at_ms)) return undefined;
  return { mandate_id, verifier, ctx, nonce_hash, issued_at_ms, expires_at_ms, signer, document };
}

function actionOf(fields: Fields): VerifyAsk['action'] | null {
  const { type, amount_minor, currency, counterparty } = fields;
  if (typeof type !== 'string' || typeof currency !== 'string' || !isCount(amount_minor)) return null;
  return isTextOrNull(counterparty) ? { type, amount_minor, currency, counterparty } : null;
}

type Fields = Readonly<Record<string, unknown>>;
const NO_FIELDS: Fields = {};

function record(value: unknown): Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Fields) : NO_FIELDS;
}

function isOutcome(value: unknown): value is GatewayOutcome['outcome'] {
  return OUTCOMES.has(value);
}

function isCause(value: unknown): value is GatewayOutcome['cause'] {
  return CAUSES.has(value);
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
