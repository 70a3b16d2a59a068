import { type Html, html } from '../html.ts';

/** What cannot be seen, or changes how the rest is seen: controls, formats (bidirectional marks), the unassigned. */
const UNSEEN = /([\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Cn}\p{Zl}\p{Zp}])/u;

/**
 * Text that an agent or a target wrote, for somebody who decides by it: every character that would be invisible, or
 * would turn the text around it, is shown by its number. `lines`: breaks and tabs are part of it.
 *
 * Source: Unicode Technical Report 36, "Bidirectional Text Spoofing".
 */
export function inertText(text: string, { lines = false }: { readonly lines?: boolean } = {}): Html {
  const parts = text.split(UNSEEN).map((part, at) => {
    if (at % 2 === 0 || (lines && /[\t\n\r]/.test(part))) return part;
    return html`<span class="unseen">${codePoint(part)}</span>`;
  });
  return html`<bdi>${parts}</bdi>`;
}

/** The same where only text can stand, as within a cut name: `⟨U+202E⟩`. */
export function shown(text: string): string {
  const parts = text.toWellFormed().split(UNSEEN);
  return parts.map((part, at) => (at % 2 === 0 ? part : `⟨${codePoint(part)}⟩`)).join('');
}

function codePoint(character: string): string {
  return `U+${(character.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, '0')}`;
}
