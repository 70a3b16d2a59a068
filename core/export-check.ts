import { hash, type KeyObject } from 'node:crypto';
import {
  EXPORT_RECEIPT_TYPE,
  type ExportClaims,
  type ExportFormat,
  type ExportHeader,
  type ExportTrailer,
  readExportClaims,
  readHeader,
  readTrailer,
  timestampDigest,
} from './evidence-export.ts';
import { canonicalize, type JsonValue } from './jcs.ts';
import { checkJwsWith, isEs256, JWS_PROBLEMS } from './jws.ts';
import { EXPORT_LINE_MAX_BYTES } from './limits.ts';
import { appendLeaf, rootOfEdge } from './merkle.ts';
import { edgeOf, type RightEdge } from './merkle-tree.ts';

/** The keys of a JWKS that is trusted, by `kid`; null: nobody's signature is looked at. */
export type PinnedKeys = ReadonlyMap<string, KeyObject> | null;

/** What is wrong with a file: at which entry, where it is one, and which part of it. */
export interface ExportProblem {
  readonly seq: number | null;
  readonly id: string | null;
  readonly problem: string;
}

/** An entry that follows the one before it: where it stands, what it is called, its hash (hex). */
export interface CheckedEntry {
  readonly seq: number;
  readonly id: string;
  readonly hash: string;
}

/** What was found out about a file; `claims` and what follows are null where the file did not get so far. */
export interface ExportVerdict {
  readonly intact: boolean;
  readonly problem: ExportProblem | null;
  /** Entries that were checked. */
  readonly entries: number;
  readonly header: ExportHeader | null;
  readonly trailer: ExportTrailer | null;
  readonly claims: ExportClaims | null;
  /** Whether the receipt's signature was checked with a pinned key; a file is intact without, as far as that goes. */
  readonly signature: 'valid' | 'not_checked' | 'invalid';
}

const LINE_FEED = 0x0a;
const COMMA = 0x2c;
/** `,"id":"…","kind":"…","prev":"…","seq":…}` is never longer than this. */
const TAIL_CHARACTERS = 240;
const TAIL = /,"id":"([0-9a-z_]{30})","kind":"([a-z_.]{1,80})","prev":"([0-9a-f]{64})","seq":(0|[1-9][0-9]{0,15})\}$/;
const TIME = /^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}\.[0-9]{3}Z$/;
const TIME_CHARACTERS = 24;
const BODY = '","body":';

interface Line extends CheckedEntry {
  readonly at: string;
  readonly prev: string;
}

/**
 * Checks an exported file as it comes, chunk by chunk, with nothing but the file and pinned keys.
 *
 * The chain (seq, prev, hash, time), the tree over it up to the last entry (from the header's edge), and that header,
 * entries and timestamp are what the receipt states. The first entry that is wrong is named: where two entries do not
 * fit together, the one after them tells which of the two was changed. Memory: one chunk. Source: contract §10.
 */
export class ExportCheck {
  readonly #keys: PinnedKeys;
  readonly #onEntry: (entry: CheckedEntry, treeBefore: RightEdge | null) => void;
  #rest: Buffer = Buffer.alloc(1);
  #header: ExportHeader | null = null;
  #format: ExportFormat = 'ndjson';
  #trailer: ExportTrailer | null = null;
  #edge: RightEdge | null = null;
  #prefix = '';
  #last: Line | null = null;
  #entries = 0;
  /** The later one of two entries that do not fit together, and what stands before it. */
  #suspect: { readonly line: Line; readonly before: Line | null } | null = null;
  /** An entry of a JSON file without the comma behind it, or with one too many. */
  #unseparated: number | null = null;
  readonly #readsBodies: boolean;
  #closed = false;
  #problem: ExportProblem | null = null;

  /**
   * `onEntry` hears of each entry that continues the chain, and of the tree of all before it. `readsBodies` false
   * leaves out whether a body can be read in one way only: for who hashes bodies that it wrote itself.
   */
  constructor(
    keys: PinnedKeys,
    onEntry: (entry: CheckedEntry, treeBefore: RightEdge | null) => void = () => {},
    { readsBodies = true }: { readonly readsBodies?: boolean } = {},
  ) {
    this.#keys = keys;
    this.#onEntry = onEntry;
    this.#readsBodies = readsBodies;
  }

  /** Entries that were checked so far. */
  get entries(): number {
    return this.#entries;
  }

  /** Entries that the file says it has; null before its header came. */
  get announced(): number | null {
    return this.#header === null ? null : this.#header.toSeq - this.#header.fromSeq + 1;
  }

  /** The root over everything up to the last entry that was checked, and that entry's hash. */
  get root(): string {
    return rootOfEdge(this.#edge);
  }

  get lastHash(): string | null {
    return this.#last?.hash ?? null;
  }

  /** What is wrong so far. */
  get problem(): ExportProblem | null {
    return this.#problem;
  }

  /** Whether something is wrong already, so that nothing more need be pushed. */
  get failed(): boolean {
    return this.#problem !== null;
  }

  push(chunk: Uint8Array): void {
    if (this.failed) return;
    const bytes = Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength);
    const first = bytes.indexOf(LINE_FEED);
    // Only the line that began before is put together; the others are read where they lie.
    this.#rest = Buffer.concat([this.#rest, bytes.subarray(0, first === -1 ? bytes.length : first)]);
    if (this.#rest.length > EXPORT_LINE_MAX_BYTES) this.#fail(this.#nextSeq, 'its line is longer than any entry');
    if (first === -1 || this.failed) return;
    this.#line(this.#rest, 1, this.#rest.length);
    let start = first + 1;
    for (let end = bytes.indexOf(LINE_FEED, start); end !== -1 && !this.failed; end = bytes.indexOf(LINE_FEED, start)) {
      this.#line(bytes, start, end);
      start = end + 1;
    }
    // One byte stands before each line, where the leaf's 0x00 is put while it is hashed.
    this.#rest = Buffer.from(bytes.subarray(start - 1));
  }

  /** The verdict, once everything was pushed. */
  async end(): Promise<ExportVerdict> {
    if (!this.failed && !this.#closed) this.#fail(this.#nextSeq, 'the file ends before it: it was cut off');
    if (!this.failed && this.#rest.length > 1) this.#failAt(null, 'something stands behind the end of the file');
    const { claims, signature } = this.#trailer === null ? NOT_READ : await this.#receipt(this.#trailer);
    if (this.#unseparated !== null) this.#fail(this.#unseparated, UNKNOWN_FORM);
    if (claims !== null) this.#againstReceipt(claims);
    return {
      ...{ intact: !this.failed, problem: this.#problem, entries: this.#entries, claims, signature },
      ...{ header: this.#header, trailer: this.#trailer },
    };
  }

  get #nextSeq(): number | null {
    return this.#last === null ? (this.#header?.fromSeq ?? null) : this.#last.seq + 1;
  }

  #failAt(entry: CheckedEntry | null, problem: string): void {
    this.#fail(entry?.seq ?? null, problem, entry?.id ?? null);
  }

  /** The first thing that is wrong counts, and an entry that is under suspicion comes before what was found now. */
  #fail(seq: number | null, problem: string, id: string | null = null): void {
    const suspect = this.#suspect;
    this.#suspect = null;
    if (suspect !== null) this.#problem ??= { seq: suspect.line.seq, id: suspect.line.id, problem: MISFIT };
    this.#problem ??= { seq, id, problem };
  }

  #line(buffer: Buffer, start: number, end: number): void {
    if (this.#header === null) this.#readHeader(buffer.subarray(start, end));
    else if (this.#closed) this.#failAt(null, 'something stands behind the end of the file');
    else if (this.#last?.seq === this.#header.toSeq) this.#close(buffer.subarray(start, end));
    else this.#entry(buffer, start, end);
  }

  #readHeader(line: Buffer): void {
    const read = readHeader(line);
    const edge = read === null ? undefined : edgeBefore(read.header);
    if (read === null) {
      this.#failAt(null, 'the first line is not the header of an export');
    } else if (edge === undefined) {
      this.#failAt(null, 'the header has another edge than a tree of as many entries');
    } else {
      [this.#header, this.#format, this.#edge] = [read.header, read.format, edge];
      this.#prefix = `{"account":"${read.header.account}","at":"`;
    }
  }

  #entry(buffer: Buffer, start: number, lineEnd: number): void {
    const header = this.#header as ExportHeader;
    const seq = this.#nextSeq as number;
    const comma = this.#format === 'json' && buffer[lineEnd - 1] === COMMA;
    // Told only where nothing else is wrong: an entry that was taken away or added says more.
    if (this.#format === 'json' && comma !== seq < header.toSeq) this.#unseparated ??= seq;
    const line = this.#parse(buffer, start, comma ? lineEnd - 1 : lineEnd, seq);
    if (typeof line === 'string') this.#fail(seq, line);
    else if (this.#suspect !== null) this.#resolve(this.#suspect, line.prev);
    else this.#follow(line, header);
  }

  #follow(line: Line, header: ExportHeader): void {
    const before = this.#last;
    this.#last = line;
    if (line.prev !== (before?.hash ?? header.prev)) {
      this.#suspect = { line, before };
    } else if (line.at < (before?.at ?? '')) {
      this.#failAt(line, 'its time is before that of the entry before');
    } else {
      const treeBefore = this.#edge;
      this.#edge = appendLeaf(treeBefore, line.seq, line.hash);
      this.#entries += 1;
      this.#onEntry(line, treeBefore);
    }
  }

  #parse(buffer: Buffer, start: number, end: number, seq: number): Line | string {
    const tail = TAIL.exec(buffer.toString('latin1', Math.max(start, end - TAIL_CHARACTERS), end));
    const at = start + this.#prefix.length;
    if (tail === null) {
      const ends = readTrailer(buffer.subarray(start, end), this.#format) !== null;
      return ends ? 'it is missing: the file ends before it' : UNKNOWN_FORM;
    }
    if (buffer.toString('latin1', start, at) !== this.#prefix) return 'it is not an entry of this account';
    const [, id = '', , prev = '', number] = tail;
    if (Number(number) !== seq) return `entry ${number} stands in its place`;
    const time = buffer.toString('latin1', at, at + TIME_CHARACTERS);
    const body = buffer.toString('latin1', at + TIME_CHARACTERS, at + TIME_CHARACTERS + BODY.length);
    if (!TIME.test(time) || body !== BODY) return UNKNOWN_FORM;
    const bodyAt = at + TIME_CHARACTERS + BODY.length;
    const bodyEnd = end - tail[0].length;
    if (this.#readsBodies && !isReadOneWay(buffer.toString('utf8', bodyAt, bodyEnd))) return AMBIGUOUS;
    return { seq, id, at: time, prev, hash: leafHash(buffer, start, end) };
  }

  /** `vouched`: the hash that the entry after the later one (or the receipt) has for it. */
  #resolve({ line, before }: { readonly line: Line; readonly before: Line | null }, vouched: string): void {
    this.#suspect = null;
    if (line.hash !== vouched) this.#failAt(line, MISFIT);
    else if (before === null) this.#failAt(line, 'it does not follow the entry that the header names');
    else this.#failAt(before, 'its hash is not the one that the entry after it names');
  }

  #close(line: Buffer): void {
    this.#closed = true;
    this.#trailer = readTrailer(line, this.#format);
    if (this.#trailer !== null) return;
    const further = TAIL.test(line.toString('latin1').slice(-TAIL_CHARACTERS));
    if (further) this.#fail(this.#nextSeq, 'it stands behind the last entry of the export');
    else this.#failAt(null, 'the last line is not the end of an export');
  }

  /** The receipt's claims, with its signature where keys are pinned. */
  async #receipt({ receipt }: ExportTrailer): Promise<Pick<ExportVerdict, 'claims' | 'signature'>> {
    const keys = this.#keys;
    const reading = await checkJwsWith(receipt, EXPORT_RECEIPT_TYPE, async (kid, input, signature) => {
      if (keys === null) return true;
      const key = keys.get(kid);
      return key === undefined ? null : isEs256(input, signature, key);
    });
    const claims = reading.ok ? readExportClaims(reading.payload) : null;
    if (claims !== null) return { claims, signature: keys === null ? 'not_checked' : 'valid' };
    this.#failAt(null, `the receipt: ${reading.ok ? 'It does not state an export.' : JWS_PROBLEMS[reading.problem]}`);
    return { claims: null, signature: 'invalid' };
  }

  /** Whether what the file holds is what was signed. */
  #againstReceipt(claims: ExportClaims): void {
    const [header, trailer, last] = [this.#header, this.#trailer, this.#last];
    if (header === null || trailer === null || last === null) return;
    const other = SIGNED_OF_HEADER.find((name) => header[name] !== claims[name]);
    if (this.#suspect !== null) this.#resolve(this.#suspect, claims.last);
    else if (other !== undefined) this.#failAt(null, `the header has another ${other} than the receipt`);
    else if (last.hash !== claims.last) this.#failAt(last, 'it is not the last entry that was signed');
    else if (this.root !== claims.root) this.#failAt(null, 'the root over the entries is not the one that was signed');
    else if (trailer.root !== claims.root || trailer.size !== claims.size) {
      this.#failAt(null, 'the last line has another root or size than the receipt');
    } else if (claims.timestampSha256 !== digestOf(trailer.timestamp)) {
      this.#failAt(null, 'the timestamp is not the one that was signed');
    }
  }
}

/** SHA-256(0x00 || line), in hex. The byte before the line lends its place, and has its own value back afterwards. */
function leafHash(buffer: Buffer, start: number, end: number): string {
  const before = buffer[start - 1] as number;
  buffer[start - 1] = 0;
  const leaf = hash('sha256', buffer.subarray(start - 1, end), 'hex');
  buffer[start - 1] = before;
  return leaf;
}

/**
 * Whether every reader of JSON comes to the same object, so that nobody is shown another entry than was hashed: no name
 * twice, nothing that is not JSON. Written anew by the engine first, by JCS only where that differs (names of digits).
 */
function isReadOneWay(body: string): boolean {
  try {
    const value = JSON.parse(body) as JsonValue;
    if (typeof value !== 'object' || value === null || Array.isArray(value)) return false;
    return JSON.stringify(value) === body || canonicalize(value) === body;
  } catch {
    return false;
  }
}

const SIGNED_OF_HEADER = ['account', 'issuer', 'fromSeq', 'toSeq', 'prev'] as const;

function digestOf(timestamp: string | null): string | null {
  return timestamp === null ? null : timestampDigest(timestamp);
}

/** The edge that a header states, or undefined where no tree of as many entries has one of that size. */
function edgeBefore({ fromSeq, edge }: ExportHeader): RightEdge | null | undefined {
  try {
    return edgeOf(fromSeq, edge);
  } catch {
    return undefined;
  }
}

const UNKNOWN_FORM = 'its line is not of the known form';
const AMBIGUOUS = 'its body is not JSON that can be read in one way only';
const MISFIT = 'it names another entry before it than there is';
const NOT_READ = { claims: null, signature: 'not_checked' } as const;
