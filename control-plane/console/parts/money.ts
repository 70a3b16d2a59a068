import { MINOR_DIGITS } from '../../../core/iso-4217.ts';
import { formatMinor } from '../../../core/money.ts';
import type { Language } from '../words.ts';

/** An amount in minor units as people of a language write it, exact, with its currency's code. */
export function money(language: Language, minor: number, currency: string): string {
  const [whole = '0', decimals] = formatMinor(minor, currency).split('.');
  const [group, point] = language === 'de' ? ['.', ','] : [',', '.'];
  const grouped = whole.replaceAll(/\B(?=(?:\d{3})+$)/g, group);
  const number = decimals === undefined ? grouped : `${grouped}${point}${decimals}`;
  return `${number}\u00a0${currency}`;
}

/** Minor units of an amount that `decimalOf` made: exact for the whole range that an amount may have. */
export function minorOf(major: number, currency: string): number {
  return Math.round(major * 10 ** (MINOR_DIGITS.get(currency) ?? 0));
}
