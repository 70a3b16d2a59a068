import { type BatchRequest, type GatewayAsk, type GatewayOutcome, OUTCOME_CAUSES } from '../../core/wire.ts';

const CAUSES: ReadonlySet<unknown> = new Set(OUTCOME_CAUSES);
const OUTCOMES: ReadonlySet<unknown> = new Set(['booked', 'released', 'unknown']);

/**
 * Reads a proxy's usual message, by hand and at a tenth of what the schema costs: asks of the gateway whose values were
 * read, outcomes without an answer to keep, no charges. Whatever it returns, `batchRequest` reads in the same way; null
 * for everything else, right or wrong, which is left to the schema.
 */
export function readGatewayBatch(value: unknown): BatchRequest | null {
  const { asks, outcomes, charges } = record(value);
  if (!Array.isArray(asks) || !Array.isArray(outcomes) || !Array.isArray(charges) || charges.length > 0) return null;
  const batch = { asks: new Array<GatewayAsk>(asks.length), outcomes: new Array<GatewayOutcome>(outcomes.length) };
  for (let i = 0; i < asks.length; i++) {
    const ask = askOf(record(asks[i]));
    if (ask === null) return null;
    batch.asks[i] = ask;
  }
  for (let i = 0; i < outcomes.length; i++) {
    const outcome = outcomeOf(record(outcomes[i]));
    if (outcome === null) return null;
    batch.outcomes[i] = outcome;
  }
  return { ...batch, charges: [] };
}

function askOf(fields: Fields): GatewayAsk | null {
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

function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0;
}
