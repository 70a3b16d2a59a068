import type { Language } from '../words.ts';

/** A whole number as people of a language write it, its thousands apart. */
export function wholeText(language: Language, value: number): string {
  return new Intl.NumberFormat(language === 'en' ? 'en-GB' : language, { maximumFractionDigits: 0 }).format(value);
}
