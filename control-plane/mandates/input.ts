import { z } from 'zod';
import { isScopeEntry } from '../../core/action.ts';
import { counterpartyField, currencyField } from '../../core/body-fields.ts';
import type { DecimalText } from '../../core/body-value.ts';
import { decimalText, invalidFields } from '../../core/body-value.ts';
import type { FieldProblem } from '../../core/errors.ts';
import { WORDING_LANGUAGES } from '../../core/mandate-words.ts';
import { type AmountUnit, minorUnits } from '../../core/money.ts';
import { wholeNumber } from '../http/request.ts';

const USES_MAX = 1_000_000_000;
const NAME_MAX_CHARACTERS = 200;
const SCOPE_MAX_ENTRIES = 100;
const COUNTERPARTIES_MAX = 1_000;
/** All of them as JSON: an entry of the evidence holds 64 KiB, and the rest of the terms besides. */
const COUNTERPARTIES_MAX_BYTES = 44_000;
/** A thousand counterparties of 256 characters, and what is said around them. */
const WORDING_MAX_CHARACTERS = 300_000;
const MAJOR: AmountUnit = 'major';
/** RFC 3339 with a time zone; milliseconds at most. */
const TIME = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(?:\.\d{1,3})?(?:Z|[+-]\d{2}:\d{2})$/;
/** RFC 3339 has no later year. */
const LAST_MOMENT_MS = Date.UTC(9999, 11, 31, 23, 59, 59, 999);

const text = (max: number) =>
  z
    .string()
    .min(1, 'must not be empty')
    .max(max, `must be at most ${max} characters`)
    .refine((value) => value.isWellFormed() && !/\p{Cc}/u.test(value), 'must not hold control characters');

/** Words for people that go into a mandate or its history. */
export const reasonText = text(500);

const scope = z
  .array(
    z
      .string()
      .refine(isScopeEntry, 'must be an action type such as payments.create, or a prefix such as payments.*')
      .meta({
        description: 'An action type, or a prefix that ends in .* and covers everything below it.',
        pattern: '^[a-z0-9_-]+(?:\\.[a-z0-9_-]+)*(?:\\.\\*)?$',
      }),
  )
  .min(1, 'must name at least one action type')
  .max(SCOPE_MAX_ENTRIES);

const counterparties = z
  .array(counterpartyField)
  .max(COUNTERPARTIES_MAX)
  .refine(
    (names) => Buffer.byteLength(JSON.stringify(names)) <= COUNTERPARTIES_MAX_BYTES,
    `must have at most ${COUNTERPARTIES_MAX_BYTES} bytes together`,
  );
const validUntilText = z.string().regex(TIME, 'must be an RFC 3339 time with a zone, such as 2030-01-31T00:00:00Z');
const maxUses = wholeNumber(1, USES_MAX);

/** What the person was shown, letter by letter: evidence keeps its digest. */
const wordingField = z.strictObject({
  language: z.enum(WORDING_LANGUAGES),
  text: z.string().max(WORDING_MAX_CHARACTERS),
});
export type GivenWording = z.infer<typeof wordingField>;

export const mandateInput = z.strictObject({
  name: text(NAME_MAX_CHARACTERS).default('Unnamed mandate'),
  scope,
  amount_limit_per_action: decimalText,
  amount_limit_per_month: decimalText,
  escalation_threshold: decimalText.nullish(),
  currency: currencyField.default('EUR'),
  counterparties: counterparties.default([]),
  agent_did: z.string().refine(isAgentDid, 'must be the did:key of an Ed25519 key, or empty').default(''),
  time_zone: z.string().refine(isTimeZone, 'must be an IANA time zone, such as Europe/Berlin').default('UTC'),
  valid_until: validUntilText.nullish(),
  max_uses: maxUses.nullish(),
  activate: z.boolean().default(false),
  wording: wordingField.optional(),
});
export type MandateInput = z.infer<typeof mandateInput>;

/** A step between states: why, and what the person was shown. */
export const stepInput = z.strictObject({ reason: reasonText.optional(), wording: wordingField.optional() });
export type StepInput = z.infer<typeof stepInput>;

const fixed = (why: string) =>
  z.undefined(`cannot be changed: ${why}; make a new mandate and revoke this one`).optional();

/** New terms for a mandate that there is; what is left out stays, null takes a limit away where there need be none. */
export const mandateChange = z.strictObject({
  scope: scope.optional(),
  amount_limit_per_action: decimalText.optional(),
  amount_limit_per_month: decimalText.optional(),
  escalation_threshold: decimalText.nullish(),
  counterparties: counterparties.optional(),
  valid_until: validUntilText.nullish(),
  max_uses: maxUses.nullish(),
  currency: fixed('what was used this month is counted in it'),
  time_zone: fixed('months that are counted begin and end by it'),
  agent_did: fixed('its evidence would speak of two agents under one mandate'),
  /** The version that the change was thought for: 409 where the mandate has another one by now. */
  version: wholeNumber(1, 2_147_483_647).optional(),
  reason: reasonText.optional(),
  wording: wordingField.optional(),
});
export type MandateChange = z.infer<typeof mandateChange>;

/** The limits of a mandate in minor units of its currency. */
export interface Limits {
  readonly per_action: number;
  readonly per_month: number;
  readonly escalation_threshold: number | null;
}

type LimitsInput = Pick<
  MandateInput,
  'currency' | 'amount_limit_per_action' | 'amount_limit_per_month' | 'escalation_threshold'
>;

/** Reads the amounts from their digits; @throws ProblemError 422 naming each that is not an amount of the currency. */
export function limitsOf(input: LimitsInput): Limits {
  const problems: FieldProblem[] = [];
  const minor = (field: string, amount: DecimalText): number => {
    const reading = minorUnits(amount.text, input.currency, MAJOR);
    if (reading.ok) return reading.minor;
    problems.push({ field, message: reading.message });
    return 0;
  };
  const { escalation_threshold: threshold } = input;
  const limits = {
    per_action: minor('amount_limit_per_action', input.amount_limit_per_action),
    per_month: minor('amount_limit_per_month', input.amount_limit_per_month),
    escalation_threshold: threshold ? minor('escalation_threshold', threshold) : null,
  };
  if (problems.length > 0) throw invalidFields(problems);
  return limits;
}

/** The instant `valid_until` names, RFC 3339 UTC with milliseconds; @throws ProblemError 422 unless it is ahead. */
export function validUntil(input: Pick<MandateInput, 'valid_until'>, nowMs: number): string | null {
  if (input.valid_until === null || input.valid_until === undefined) return null;
  const at = isCalendarDay(input.valid_until) ? Date.parse(input.valid_until) : Number.NaN;
  if (at > nowMs && at <= LAST_MOMENT_MS) return new Date(at).toISOString();
  throw invalidFields([{ field: 'valid_until', message: 'must be a real moment in the future' }]);
}

/** Whether the date exists: `Date.parse` takes February 31 for March 3. */
function isCalendarDay(text: string): boolean {
  const day = text.slice(0, 10);
  const at = Date.parse(`${day}T00:00:00Z`);
  return !Number.isNaN(at) && new Date(at).toISOString().startsWith(day) && !text.startsWith('24', 11);
}

function isTimeZone(zone: string): boolean {
  if (!/^[A-Za-z][A-Za-z0-9_+/-]{0,63}$/.test(zone)) return false;
  try {
    new Intl.DateTimeFormat('en', { timeZone: zone });
    return true;
  } catch {
    return false;
  }
}

const BASE58 = '123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz';
const ED25519_PREFIX = 0xed01n;

/** `did:key:z6Mk…`: multibase base58btc of 0xed01 and 32 key bytes (did:key method; the key itself is not judged). */
function isAgentDid(did: string): boolean {
  if (did === '') return true;
  const encoded = /^did:key:z([1-9A-HJ-NP-Za-km-z]{47,48})$/.exec(did)?.[1];
  if (encoded === undefined || encoded.startsWith('1')) return false;
  let value = 0n;
  for (const character of encoded) value = value * 58n + BigInt(BASE58.indexOf(character));
  // 34 bytes whose first two are the prefix: no leading zero bytes, so the number has one base58 spelling.
  return value >> 256n === ED25519_PREFIX;
}
