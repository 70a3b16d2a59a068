/** Joins a column for `list_of()`: identifiers and JSON text cannot hold U+001F. */
export function joined(values: readonly (string | number)[]): string {
  return values.join('\u001f');
}

/** Distinct tuples of a batch, kept as the columns that the query takes. */
export class Columns {
  readonly #seen = new Set<string>();
  readonly #columns: string[][];

  constructor(width: number) {
    this.#columns = Array.from({ length: width }, () => []);
  }

  add(...values: string[]): void {
    const key = values.join('\u001f');
    if (this.#seen.has(key)) return;
    this.#seen.add(key);
    for (let i = 0; i < values.length; i++) this.#columns[i]!.push(values[i]!);
  }

  has(...values: string[]): boolean {
    return this.#seen.has(values.join('\u001f'));
  }

  get empty(): boolean {
    return this.#seen.size === 0;
  }

  each(use: (...values: (string | undefined)[]) => void): void {
    const [first] = this.#columns;
    for (let i = 0; i < (first?.length ?? 0); i++) use(...this.#columns.map((column) => column[i]));
  }

  texts(): string[] {
    return this.#columns.map(joined);
  }
}
