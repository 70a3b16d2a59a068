import { hash } from 'node:crypto';
import { mandateWords, type WordedTerms, type WordingLanguage } from '../../../core/mandate-words.ts';
import { sameHash } from '../../../core/secret-token.ts';
import type { GivenWording } from '../../mandates/input.ts';
import { type Html, html } from '../html.ts';
import type { Visit } from '../visit.ts';

/** The fields by which a form says which words its reader saw. */
export const WORDING_FIELDS = ['wording', 'wording_language'] as const;

/** A mandate in plain sentences, exactly as its evidence will name them, with their digest beside. */
export function wordingView({ words, language }: Visit, terms: WordedTerms): Html {
  const text = mandateWords(terms, language);
  const digest = digestOf(text);
  return html`<p class="wording">${text}</p>
<p class="muted small">${words.mandates.fingerprint}: <code>${digest}</code></p>
<input type="hidden" name="wording" value="${digest}">
<input type="hidden" name="wording_language" value="${language}">`;
}

/**
 * What a form's reader saw, as commands take it; null where the terms make other words by now, or nobody says.
 *
 * A browser changes line ends within a form, so the digest comes back and the words are made again.
 */
export function wordingSeen(values: Readonly<Record<string, string>>, terms: WordedTerms): GivenWording | null {
  const { wording = '', wording_language: given } = values;
  const language: WordingLanguage = given === 'de' ? 'de' : 'en';
  const text = mandateWords(terms, language);
  return sameHash(wording, digestOf(text)) ? { language, text } : null;
}

function digestOf(text: string): string {
  return hash('sha256', text, 'hex');
}
