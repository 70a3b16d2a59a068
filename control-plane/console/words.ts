import type { FastifyRequest } from 'fastify';
import { de } from './words/de.ts';
import { en, type Words } from './words/en.ts';

export type { Words } from './words/en.ts';

/** The languages of the console, each under its own name. */
export const LANGUAGES = { en: 'English', de: 'Deutsch' } as const;
export type Language = keyof typeof LANGUAGES;

const WORDS: Readonly<Record<Language, Words>> = { en, de };

/** Preferences that are looked at: browsers send a few. */
const PREFERENCES_MAX = 16;

/** All words of a language. */
export function wordsOf(language: Language): Words {
  return WORDS[language];
}

/** Whether a text names a language of the console. */
export function isLanguage(text: string | null | undefined): text is Language {
  return text !== null && text !== undefined && Object.hasOwn(LANGUAGES, text);
}

/** The language that a person chose, else the one their browser prefers (RFC 9110 §12.5.4), else English. */
export function languageOf(request: FastifyRequest, chosen: string | null): Language {
  if (isLanguage(chosen)) return chosen;
  const wanted = (request.headers['accept-language'] ?? '')
    .split(',', PREFERENCES_MAX)
    .map((part) => {
      const [tag = '', quality] = part
        .trim()
        .toLowerCase()
        .split(/\s*;\s*q=/);
      return { language: tag.split('-', 1)[0], quality: quality === undefined ? 1 : Number(quality) };
    })
    .filter(({ quality }) => quality > 0)
    .sort((a, b) => b.quality - a.quality);
  return wanted.map(({ language }) => language).find(isLanguage) ?? 'en';
}
