import { type CheckedEntry, ExportCheck, type ExportVerdict, type PinnedKeys } from './export-check.ts';
import { rootOfEdge } from './merkle.ts';
import { edgeOf, type RightEdge } from './merkle-tree.ts';

/** What two files say of each other. `common`: the entries that both have, from and to; null: they have none. */
export interface ExportComparison {
  readonly first: ExportVerdict;
  readonly second: ExportVerdict;
  readonly common: { readonly fromSeq: number; readonly toSeq: number } | null;
  /** The first entry that is another one in the second file. */
  readonly differs: { readonly seq: number; readonly firstId: string; readonly secondId: string } | null;
  /** What else keeps the two from being of one log that only grew; null: nothing. */
  readonly problem: string | null;
}

/** The chunks of a file. */
type Chunks = AsyncIterable<Uint8Array>;

/** An entry, and the tree of all before it as its file has it. */
interface PlacedEntry extends CheckedEntry {
  readonly treeBefore: RightEdge | null;
}

/** A file that is read entry by entry, and checked on the way. */
class EntryReader {
  readonly #chunks: AsyncIterator<Uint8Array>;
  readonly #check: ExportCheck;
  #entries: PlacedEntry[] = [];
  #at = 0;

  constructor(chunks: Chunks, keys: PinnedKeys) {
    this.#chunks = chunks[Symbol.asyncIterator]();
    this.#check = new ExportCheck(keys, ({ seq, id, hash }, treeBefore) => {
      this.#entries.push({ seq, id, hash, treeBefore });
    });
  }

  /** The next entry that was not taken yet, or null after the last one; no promise where it is there already. */
  peek(): PlacedEntry | null | Promise<PlacedEntry | null> {
    return this.#entries[this.#at] ?? this.#read();
  }

  take(): void {
    this.#at += 1;
  }

  async #read(): Promise<PlacedEntry | null> {
    this.#entries = [];
    this.#at = 0;
    while (this.#entries.length === 0 && !this.#check.failed) {
      const chunk = await this.#chunks.next();
      if (chunk.done === true) return null;
      this.#check.push(chunk.value);
    }
    return this.#entries[0] ?? null;
  }

  /** The verdict on the whole file. */
  async end(): Promise<ExportVerdict> {
    while ((await this.peek()) !== null) this.#at = this.#entries.length;
    await this.#chunks.return?.();
    return this.#check.end();
  }
}

/**
 * Checks two exports and whether nothing was rewritten between them: every entry that both have must be the same.
 *
 * An entry names the one before it, so one that is the same in both has the same past in both. The trees before the
 * first common entry must be the same as well: a proof of inclusion goes by the tree alone, and a second tree over one
 * chain would hold entries that the chain does not. Memory: a chunk of each.
 */
export async function compareExports(first: Chunks, second: Chunks, keys: PinnedKeys): Promise<ExportComparison> {
  const [one, other] = [new EntryReader(first, keys), new EntryReader(second, keys)];
  let common: ExportComparison['common'] = null;
  let differs: ExportComparison['differs'] = null;
  let forked: number | null = null;
  for (;;) {
    const [a, b] = [await one.peek(), await other.peek()];
    if (a === null || b === null) break;
    if (a.seq <= b.seq) one.take();
    if (b.seq <= a.seq) other.take();
    if (a.seq !== b.seq) continue;
    if (common === null && rootOfEdge(a.treeBefore) !== rootOfEdge(b.treeBefore)) forked = a.seq;
    common = commonTo(common, a.seq);
    if (a.hash === b.hash) continue;
    differs = { seq: a.seq, firstId: a.id, secondId: b.id };
    break;
  }
  const verdicts = { first: await one.end(), second: await other.end() };
  const trees = forked === null ? null : otherTree(forked);
  return {
    ...verdicts,
    common,
    differs,
    problem: differs === null ? (trees ?? problemOf(verdicts, common !== null)) : null,
  };
}

function commonTo(before: ExportComparison['common'], toSeq: number): NonNullable<ExportComparison['common']> {
  return { fromSeq: before?.fromSeq ?? toSeq, toSeq };
}

function problemOf(
  {
    first: { header: a, claims: one },
    second: { header: b, claims: other },
  }: Record<'first' | 'second', ExportVerdict>,
  overlap: boolean,
): string | null {
  if (a === null || b === null) return null;
  if (a.account !== b.account) return `they are of two accounts, ${a.account} and ${b.account}`;
  if (one !== null && other !== null) {
    const [early, late] = one.at <= other.at ? [one, other] : [other, one];
    if (late.logSize < early.logSize) {
      const sizes = `the later export is of ${late.logSize} entries, the earlier of ${early.logSize}`;
      return `entry ${late.logSize} and all after it are gone: ${sizes}`;
    }
    const [before, after] = one.toSeq < other.toSeq ? [one, other] : [other, one];
    if (!overlap && before.toSeq + 1 === after.fromSeq) {
      if (after.prev !== before.last) {
        return `entry ${after.fromSeq} does not follow entry ${before.toSeq} of the other file`;
      }
      const { edge } = one.toSeq < other.toSeq ? b : a;
      return rootOfEdge(edgeOf(after.fromSeq, edge)) === before.root ? null : otherTree(after.fromSeq);
    }
  }
  return overlap ? null : 'they have no entry in common, so nothing can be said about the entries between them';
}

function otherTree(size: number): string {
  return `the trees of the first ${size} entries are not the same`;
}
