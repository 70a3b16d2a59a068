import { type Html, html } from '../html.ts';
import type { Language } from '../words.ts';

/** A moment (Unix milliseconds) in UTC; a script shows it in the reader's own zone. */
export function moment(language: Language, ms: number): Html {
  const at = new Date(ms);
  const options = { dateStyle: 'medium', timeStyle: 'short', timeZone: 'UTC' } as const;
  const text = `${new Intl.DateTimeFormat(language === 'en' ? 'en-GB' : language, options).format(at)} UTC`;
  return html`<time datetime="${at.toISOString()}" data-local="">${text}</time>`;
}
