/**
 * Text that is safe to show: control, format (bidi, zero-width), surrogate and private-use characters and the
 * separators that break lines are written as `\u{…}`, so that a name from outside cannot move the cursor, reorder a
 * line or hide in it.
 */
export function printable(text: string): string {
  return text.replaceAll(
    /[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Zl}\p{Zp}]/gu,
    (character) => `\\u{${(character.codePointAt(0) ?? 0).toString(16)}}`,
  );
}

/** One value of an answer as a cell: lists are joined, nothing is an empty cell, all of it `printable`. */
export function cell(value: unknown): string {
  if (value === null || value === undefined) return '';
  if (Array.isArray(value)) return value.map(cell).join(', ');
  if (typeof value === 'object') return printable(JSON.stringify(value));
  return printable(String(value));
}

const GAP = '  ';

/** An aligned table with a header line; `right` are the columns of numbers. Cells are made `printable`. */
export function table(
  headers: readonly string[],
  rows: readonly (readonly unknown[])[],
  right: readonly number[] = [],
): string {
  const lines = [headers, ...rows.map((row) => row.map(cell))];
  const widths = headers.map((_, column) => Math.max(...lines.map((line) => width(line[column] ?? ''))));
  const rendered = lines.map((line) =>
    line
      .map((text, column) => {
        const padding = ' '.repeat((widths[column] ?? 0) - width(text));
        return right.includes(column) ? padding + text : text + padding;
      })
      .join(GAP)
      .trimEnd(),
  );
  return `${rendered.join('\n')}\n`;
}

/** Names and values under each other; empty values are left out. */
export function fields(pairs: readonly (readonly [name: string, value: unknown])[]): string {
  const shown = pairs.map(([name, value]) => [name, cell(value)] as const).filter(([, value]) => value !== '');
  const longest = Math.max(0, ...shown.map(([name]) => name.length));
  return shown.map(([name, value]) => `${name.padEnd(longest)}${GAP}${value}\n`).join('');
}

function width(text: string): number {
  return [...text].length;
}
