/**
 * Text with the five characters escaped that mean something in HTML, safe between elements and in quoted attributes.
 *
 * Control characters that HTML must not have become U+FFFD. Source: HTML Living Standard 13.1.2.3 and 13.1.4.
 */
export function escaped(text: string): string {
  return text
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replaceAll('"', '&quot;')
    .replaceAll("'", '&#39;')
    .replaceAll(/[\0-\x08\x0b\x0c\x0e-\x1f\x7f]/g, '\ufffd');
}
