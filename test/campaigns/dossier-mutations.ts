import type { Dossier, DossierEntry } from '../../core/dossier.ts';
import { checkDossier, type DossierReport } from '../../core/dossier-check.ts';
import type { Trust } from '../../core/dossier-trust.ts';
import { readPublicKey } from '../../core/ed25519.ts';
import type { ReadPublicKey } from '../../core/ed25519-rule.ts';

/** Numbers in 0..1 that are the same for the same seed (mulberry32). */
export function seededRandom(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** A changed dossier and how it was changed. */
export interface Mutation {
  readonly what: string;
  readonly bytes: Uint8Array;
}

/** Every single-bit flip of every byte, and each byte as some other one. */
export function* byteFlips(bytes: Uint8Array, random: () => number): Generator<Mutation> {
  for (let at = 0; at < bytes.length; at++) {
    const was = bytes[at] as number;
    for (let bit = 0; bit < 8; bit++) yield changedAt(bytes, at, was ^ (1 << bit));
    yield changedAt(bytes, at, (was + 1 + Math.floor(random() * 255)) & 0xff);
  }
}

function changedAt(bytes: Uint8Array, at: number, byte: number): Mutation {
  const changed = new Uint8Array(bytes);
  changed[at] = byte;
  return { what: `byte ${at}: ${bytes[at]} to ${byte}`, bytes: changed };
}

/** Bytes taken out, put in, swapped, repeated and cut off, at random. */
export function* byteEdits(bytes: Uint8Array, random: () => number, count: number): Generator<Mutation> {
  const place = (): number => Math.floor(random() * bytes.length);
  for (let n = 0; n < count; n++) {
    const [at, length] = [place(), 1 + Math.floor(random() * 40)];
    const before = bytes.subarray(0, at);
    switch (n % 5) {
      case 0:
        yield { what: `cut off at ${at}`, bytes: before };
        break;
      case 1:
        yield { what: `${length} bytes out at ${at}`, bytes: joined(before, bytes.subarray(at + length)) };
        break;
      case 2: {
        const part = Uint8Array.from({ length }, () => Math.floor(random() * 256));
        yield { what: `${length} bytes in at ${at}`, bytes: joined(before, part, bytes.subarray(at)) };
        break;
      }
      case 3: {
        const from = place();
        const part = bytes.subarray(from, from + length);
        yield {
          what: `${length} bytes of ${from} over ${at}`,
          bytes: joined(before, part, bytes.subarray(at + part.length)),
        };
        break;
      }
      default: {
        const part = bytes.subarray(at, at + length);
        yield {
          what: `${length} bytes at ${at} twice`,
          bytes: joined(before, part, part, bytes.subarray(at + length)),
        };
      }
    }
  }
}

function joined(...parts: readonly Uint8Array[]): Uint8Array {
  return Buffer.concat(parts);
}

/** Entries deleted, duplicated, swapped and put in elsewhere, everywhere that it can be done; other dossiers' parts. */
export function* entryEdits(dossier: Dossier, other: Dossier): Generator<Mutation> {
  const text = JSON.stringify(dossier);
  for (const [name, change] of partEdits(other)) {
    const changed = structuredClone(dossier);
    change(changed as Writable);
    const bytes = Buffer.from(JSON.stringify(changed));
    if (bytes.toString() !== text) yield { what: name, bytes };
  }
}

type Writable = { -readonly [K in keyof Dossier]: Dossier[K] };
type Change = (dossier: Writable) => void;

const LISTS = ['consumption', 'execution', 'escalations'] as const;

function* partEdits(other: Dossier): Generator<[string, Change]> {
  for (const list of LISTS) {
    yield [`${list} emptied`, (one) => (one[list] = [])];
    yield [`${list} doubled`, (one) => (one[list] = [...one[list], ...one[list]] as never)];
    yield [`${list} of another`, (one) => (one[list] = other[list] as never)];
    yield [`${list} and that of another`, (one) => (one[list] = [...one[list], ...other[list]] as never)];
  }
  for (const name of Object.keys(other) as (keyof Dossier)[]) {
    yield [`${name} of another`, (one) => Object.assign(one, { [name]: other[name] })];
    yield [`${name} left out`, (one) => delete (one as Partial<Writable>)[name]];
    yield [`${name} null`, (one) => Object.assign(one, { [name]: null })];
  }
  yield ['an unknown member', (one) => Object.assign(one, { note: '<script>alert(1)</script>' })];
  yield ['execution as consumption', (one) => (one.consumption = one.execution)];
  yield ['both swapped', (one) => ([one.consumption, one.execution] = [one.execution, one.consumption])];
  yield ['the decision as its mandate', (one) => Object.assign(one.mandate ?? {}, { terms: one.decision })];
  yield ['no status', (one) => Object.assign(one.mandate ?? {}, { status: null })];
  yield ['no checkpoint', (one) => Object.assign(one.tree_head, { checkpoint: null })];
  yield ['no timestamps', (one) => Object.assign(one.tree_head, { timestamps: [] })];
  yield ['a witness less', (one) => Object.assign(one.tree_head, { checkpoint: withoutLastLine(one) })];
  yield* entryFieldEdits(other);
}

function withoutLastLine({ tree_head: { checkpoint } }: Writable): string {
  return `${(checkpoint ?? '').split('\n').slice(0, -2).join('\n')}\n`;
}

const PLACES: readonly [string, (dossier: Writable) => DossierEntry | null | undefined][] = [
  ['decision', (one) => one.decision],
  ['terms', (one) => one.mandate?.terms],
  ['status', (one) => one.mandate?.status],
  ['opened', (one) => one.escalations[0]?.opened],
  ['answered', (one) => one.escalations[0]?.answered],
  ['consumption', (one) => one.consumption[0]],
  ['execution', (one) => one.execution[0]],
];

function* entryFieldEdits(other: Dossier): Generator<[string, Change]> {
  for (const [name, find] of PLACES) {
    const edit = (what: string, change: (entry: DossierEntry) => void): [string, Change] => [
      `${name}: ${what}`,
      (one) => {
        const entry = find(one);
        if (entry !== null && entry !== undefined) change(entry);
      },
    ];
    yield edit('seq above', ({ entry }) => Object.assign(entry, { seq: entry.seq + 1 }));
    yield edit('seq below', ({ entry }) => Object.assign(entry, { seq: Math.max(0, entry.seq - 1) }));
    yield edit('no proof', (entry) => Object.assign(entry, { inclusion: [] }));
    yield edit('proof reversed', (entry) => Object.assign(entry, { inclusion: entry.inclusion.toReversed() }));
    yield edit('proof longer', (entry) => Object.assign(entry, { inclusion: [...entry.inclusion, entry.hash] }));
    yield edit('prev its own', (entry) => Object.assign(entry.entry, { prev: entry.hash }));
    yield edit('a member more', ({ entry }) => Object.assign(entry.body, { amount: 1 }));
    yield edit('html', ({ entry }) => Object.assign(entry.body, { reason: '<img src=x onerror=alert(1)>' }));
    yield edit('of another dossier', (entry) => Object.assign(entry, find(other as Writable) ?? {}));
  }
}

/** What a report says that matters: were it the same, the change had no meaning. */
export function substance({ verdict, claims, summary }: DossierReport): string {
  return JSON.stringify([verdict, claims, summary]);
}

/** Checks at once: their signatures are verified on other threads. */
const AT_ONCE = 32;

/** What a run found: how many were changed, how they were judged, and which got through with another meaning. */
export interface CampaignResult {
  readonly rejected: number;
  readonly incomplete: number;
  readonly meaningless: readonly string[];
  readonly wrong: readonly string[];
}

/** The engine of Node, each key read once: many times as many changes in the same time. */
function nativeEngine(): ReadPublicKey {
  const known = new Map<string, ReturnType<ReadPublicKey>>();
  return (bytes) => {
    const text = Buffer.from(bytes).toString('hex');
    const key = known.get(text) ?? readPublicKey(bytes);
    known.set(text, key);
    return key;
  };
}

/**
 * Checks changed dossiers: each must be rejected, or say the very same as the original did.
 *
 * `onProgress` hears how many there were so far; a checker that throws is an error of the campaign's own.
 */
export async function runCampaign(
  original: { readonly bytes: Uint8Array; readonly trust: Trust },
  mutations: Iterable<Mutation>,
  onProgress: (done: number) => void = () => {},
): Promise<CampaignResult> {
  const expected = substance(await checkDossier(original.bytes, original.trust));
  const engine = nativeEngine();
  const counts = { accepted: 0, rejected: 0, incomplete: 0 };
  const [meaningless, wrong]: [string[], string[]] = [[], []];
  const judge = async ({ what, bytes }: Mutation): Promise<void> => {
    const report = await checkDossier(bytes, original.trust, engine);
    counts[report.verdict] += 1;
    if (report.verdict === 'accepted') (substance(report) === expected ? meaningless : wrong).push(what);
  };
  const iterator = Iterator.from(mutations);
  for (let done = 0; ; ) {
    const some: Mutation[] = [];
    while (some.length < AT_ONCE) {
      const next = iterator.next();
      if (next.done === true) break;
      some.push(next.value);
    }
    if (some.length === 0) break;
    await Promise.all(some.map(judge));
    done += some.length;
    onProgress(done);
  }
  return { ...counts, meaningless, wrong };
}
