import { MINOR_DIGITS } from './iso-4217.ts';
import { MONEY_MINOR_MAX } from './limits.ts';

/** Whether an amount is written in the currency's main unit (`12.50`) or in its smallest one (`1250`). */
export const AMOUNT_UNITS = ['major', 'minor'] as const;
export type AmountUnit = (typeof AMOUNT_UNITS)[number];

export type MoneyProblem =
  | 'not_a_plain_decimal'
  | 'negative'
  | 'too_many_decimals'
  | 'out_of_range'
  | 'unknown_currency';

/** An amount in integer minor units, or why there is none; the message does not repeat the text. */
export type MoneyReading =
  | { readonly ok: true; readonly minor: number }
  | { readonly ok: false; readonly problem: MoneyProblem; readonly message: string };

/** Whether `code` is a currency of ISO 4217 in which something can be paid, in upper case exactly. */
export function isCurrency(code: string): boolean {
  return MINOR_DIGITS.has(code);
}

const UPPER_OF_LOWER: ReadonlyMap<string, string> = new Map(
  Array.from(MINOR_DIGITS.keys(), (code): [string, string] => [code.toLowerCase(), code]),
);

/** Whether `code` is such a currency in lower case exactly, as some targets want it. */
export function isCurrencyLower(code: string): boolean {
  return UPPER_OF_LOWER.has(code);
}

/** The upper-case code of a lower-case one, or null; anything else (`Eur`, `EUR`) is null as well. */
export function currencyOfLower(code: string): string | null {
  return UPPER_OF_LOWER.get(code) ?? null;
}

/**
 * Reads an amount from its source text, exactly, into integer minor units 0..MONEY_MINOR_MAX of `currency`.
 *
 * The text is a plain decimal: `0` or digits without a leading zero, then optionally a point and digits; no sign,
 * exponent or space. More decimals than the currency has are refused, zeros included; `minor` text has none.
 * Source: contract §1.
 */
export function minorUnits(text: string, currency: string, unit: AmountUnit): MoneyReading {
  const digits = MINOR_DIGITS.get(currency);
  if (digits === undefined) return refused('unknown_currency', 'The currency is not one of ISO 4217.');
  const allowed = unit === 'minor' ? 0 : digits;
  const length = text.length;
  let minor = 0;
  let decimals = -1;
  for (let at = 0; at < length; at++) {
    const digit = text.charCodeAt(at) - 0x30;
    if (digit >= 0 && digit <= 9) {
      // Stays above the limit once it is there, far below where a double stops being exact.
      if (minor <= MONEY_MINOR_MAX) minor = minor * 10 + digit;
      if (decimals >= 0) decimals += 1;
    } else if (digit === -2 && at > 0 && decimals < 0) {
      decimals = 0;
    } else {
      return notPlain(text);
    }
  }
  const leadingZero = length > 1 && text.charCodeAt(0) === 0x30 && text.charCodeAt(1) !== 0x2e;
  if (length === 0 || decimals === 0 || leadingZero) return notPlain(text);
  if (decimals > allowed) return refused('too_many_decimals', decimalsMessage(currency, unit, allowed));
  for (let pad = Math.max(decimals, 0); pad < allowed; pad++) minor *= 10;
  return minor > MONEY_MINOR_MAX ? refused('out_of_range', OUT_OF_RANGE) : { ok: true, minor };
}

const OUT_OF_RANGE = `The amount is above ${MONEY_MINOR_MAX} minor units.`;
const NEGATIVE = /^-(?:0|[1-9][0-9]*)(?:\.[0-9]+)?$/;

function notPlain(text: string): MoneyReading {
  return NEGATIVE.test(text)
    ? refused('negative', 'The amount is negative.')
    : refused('not_a_plain_decimal', 'The amount is not a plain decimal such as 12.50.');
}

function decimalsMessage(currency: string, unit: AmountUnit, allowed: number): string {
  if (unit === 'minor') return 'The amount is in minor units and must have no decimals.';
  return `The amount has more decimals than the ${allowed} of ${currency}.`;
}

function refused(problem: MoneyProblem, message: string): MoneyReading {
  return { ok: false, problem, message };
}

/** Minor units as text with all decimals of the currency (`120.00`); throws RangeError outside safe integers >= 0. */
export function formatMinor(minor: number, currency: string): string {
  const digits = digitsOf(minor, currency);
  if (digits === 0) return String(minor);
  const text = String(minor).padStart(digits + 1, '0');
  return `${text.slice(0, -digits)}.${text.slice(-digits)}`;
}

/**
 * Minor units as the JSON number in major units whose shortest text is the exact decimal, for answers and digests.
 *
 * Exact in that sense for the whole range 0..MONEY_MINOR_MAX: at most 15 significant digits, and the quotient of two
 * integers that are exact in a double is rounded correctly. Throws RangeError beyond it.
 */
export function decimalOf(minor: number, currency: string): number {
  const digits = digitsOf(minor, currency);
  if (minor > MONEY_MINOR_MAX) throw new RangeError('more minor units than an amount may have');
  return minor / 10 ** digits;
}

function digitsOf(minor: number, currency: string): number {
  const digits = MINOR_DIGITS.get(currency);
  if (digits === undefined) throw new RangeError('not a currency of ISO 4217');
  if (!Number.isSafeInteger(minor) || minor < 0) throw new RangeError('not an amount in minor units');
  return digits;
}
