import { DENIAL_CODES } from '../core/denial-codes.ts';
import {
  type BatchAnswer,
  batchAnswer,
  type DecisionAnswer,
  decisionAnswer,
  type GatewayAnswer,
  type RateState,
  type VerifyResult,
} from '../core/wire.ts';

const DENIALS: ReadonlySet<unknown> = new Set(DENIAL_CODES.map(([code]) => code));

/**
 * Reads the control plane's answer to one batch: exactly what `batchAnswer` accepts, or throws as it does.
 *
 * Almost every answer is an allow for a known target, a decided verification or a deny. Those are checked here by hand,
 * at a tenth of the cost; everything else, and whatever is wrong with them, is left to the schema.
 */
export function readBatchAnswer(text: string): BatchAnswer {
  const value: unknown = JSON.parse(text);
  const { asks, outcomes, charges } = record(value) ?? NO_FIELDS;
  if (!Array.isArray(asks) || !isBooleans(outcomes) || !isEmpty(charges)) return batchAnswer.parse(value);
  return { asks: asks.map(readAnswer), outcomes, charges };
}

function readAnswer(value: unknown): DecisionAnswer {
  const answer = record(value) ?? NO_FIELDS;
  return allowOf(answer) ?? resultOf(answer) ?? denyOf(answer) ?? decisionAnswer.parse(value);
}

function allowOf({ answer, receipt_id, account_id, instance_id, target, rate }: Fields): GatewayAnswer | null {
  if (answer !== 'allow' || target !== null || !isRate(rate)) return null;
  if (typeof receipt_id !== 'string' || typeof account_id !== 'string' || typeof instance_id !== 'string') return null;
  return { answer, receipt_id, account_id, instance_id, target, rate };
}

function denyOf({ answer, receipt_id, code, reason_text, rate }: Fields): GatewayAnswer | null {
  if (answer !== 'deny' || !isDenial(code) || !isRate(rate)) return null;
  if (typeof receipt_id !== 'string' || typeof reason_text !== 'string') return null;
  return { answer, receipt_id, code, reason_text, rate };
}

function resultOf({ answer, receipt_id, body, replayed, rate }: Fields): VerifyResult | null {
  if (answer !== 'result' || typeof receipt_id !== 'string' || typeof body !== 'string' || !isRate(rate)) return null;
  return typeof replayed === 'boolean' ? { answer, receipt_id, body, replayed, rate } : null;
}

type Fields = Readonly<Record<string, unknown>>;
const NO_FIELDS: Fields = {};

function record(value: unknown): Fields | null {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Fields) : null;
}

function isDenial(code: unknown): code is (GatewayAnswer & { answer: 'deny' })['code'] {
  return DENIALS.has(code);
}

function isRate(rate: unknown): rate is RateState {
  return Array.isArray(rate) && rate.length === 3 && rate.every(isCount);
}

function isCount(value: unknown): boolean {
  return Number.isSafeInteger(value) && (value as number) >= 0;
}

function isBooleans(value: unknown): value is boolean[] {
  return Array.isArray(value) && value.every((item) => typeof item === 'boolean');
}

function isEmpty(value: unknown): value is [] {
  return Array.isArray(value) && value.length === 0;
}
