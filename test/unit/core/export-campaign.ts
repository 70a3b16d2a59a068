import { ExportCheck, type ExportVerdict } from '../../../core/export-check.ts';
import { compareExports } from '../../../core/export-compare.ts';
import { fileOf, type SampleEntry, type SampleKey, sampleChain, sampleKey, sampleLines } from './export-sample.ts';

const ENTRIES = 24;
const FROM_SEQ = 7;

/** What became of a campaign: how many mutations of each class, and those that were not found or misnamed. */
export interface CampaignResult {
  readonly counts: Readonly<Record<string, number>>;
  readonly failures: readonly string[];
}

/** A file to mutate: its bytes, its lines, and which entry is the first. */
interface Sample {
  readonly lines: readonly string[];
  readonly bytes: Buffer;
  readonly fromSeq: number;
  readonly chain: readonly SampleEntry[];
  readonly format: 'json' | 'ndjson';
}

/** A mutated file, and the entries of which one must be named (null: none need be). */
interface Mutation {
  readonly bytes: Buffer;
  readonly names: readonly number[] | null;
  /** Also compared with the original, which must name this entry. */
  readonly differsAt?: number;
}

type Random = (below: number) => number;

/** Mulberry32: the same mutations for the same seed. */
function randomOf(seed: number): Random {
  let state = seed >>> 0;
  return (below) => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), state | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) % below;
  };
}

/**
 * Changes samples of exported files in every way there is, and checks that each change is found and its entry named.
 *
 * With `everyByte` first each byte once; then random ones of all classes until `mutations` were tried.
 */
export async function exportCampaign(
  { seed, mutations, everyByte }: { readonly seed: number; readonly mutations: number; readonly everyByte: boolean },
  onProgress: (done: number) => void = () => {},
): Promise<CampaignResult> {
  const random = randomOf(seed);
  const [key, other] = [sampleKey(), sampleKey()];
  const samples = samplesOf(key);
  const counts: Record<string, number> = {};
  const failures: string[] = [];
  let done = 0;
  const run = async (name: string, sample: Sample, mutation: Mutation): Promise<void> => {
    counts[name] = (counts[name] ?? 0) + 1;
    done += 1;
    if (done % 1_000 === 0) onProgress(done);
    const failure = await failureOf(sample, mutation, key);
    if (failure !== null) failures.push(`${name} of ${sample.format} from ${sample.fromSeq}: ${failure}`);
  };
  for (const sample of everyByte ? samples : []) {
    for (let at = 0; at < sample.bytes.length && done < mutations; at++)
      await run('flip', sample, flip(sample, at, random));
  }
  const classes = Object.entries(CLASSES);
  while (done < mutations) {
    const [name, mutate] = classes[random(classes.length)] ?? ['flip', CLASSES['flip']];
    const sample = samples[random(samples.length)];
    if (sample !== undefined && mutate !== undefined) await run(name, sample, mutate(sample, random, { key, other }));
  }
  return { counts, failures };
}

function samplesOf(key: SampleKey): Sample[] {
  const chain = sampleChain(ENTRIES);
  return (['ndjson', 'json'] as const).flatMap((format) =>
    [0, FROM_SEQ].map((fromSeq) => {
      const timestamp = fromSeq === 0 ? null : Buffer.from('a token of some authority').toString('base64');
      const lines = sampleLines(chain, key, { fromSeq, format, timestamp });
      return { lines, bytes: fileOf(lines), fromSeq, chain, format };
    }),
  );
}

async function failureOf(
  sample: Sample,
  { bytes, names, differsAt }: Mutation,
  key: SampleKey,
): Promise<string | null> {
  const keys = new Map([[key.kid, key.publicKey]]);
  const check = new ExportCheck(keys);
  check.push(bytes);
  const verdict: ExportVerdict = await check.end();
  const { intact, problem } = verdict;
  if (intact || problem === null) return `not found: ${bytes.toString('latin1').slice(0, 200)}`;
  if (names !== null && !names.includes(problem.seq ?? -1)) {
    return `named ${problem.seq} instead of ${names.join(' or ')}: ${problem.problem}`;
  }
  if (differsAt === undefined) return null;
  const { differs } = await compareExports(chunks(sample.bytes), chunks(bytes), keys);
  return differs?.seq === differsAt ? null : `compared, it differs at ${differs?.seq} instead of ${differsAt}`;
}

async function* chunks(bytes: Buffer): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < bytes.length; at += 1_000) yield bytes.subarray(at, at + 1_000);
}

/** One byte becomes another; in the line of an entry that one is named, or (for its line feed) it or the next. */
function flip({ bytes, lines, fromSeq }: Sample, at: number, random: Random): Mutation {
  const changed = Buffer.from(bytes);
  changed[at] = (bytes[at] ?? 0) ^ (1 + random(255));
  let [line, end] = [0, Buffer.byteLength(lines[0] ?? '')];
  while (at > end) {
    line += 1;
    end += 1 + Buffer.byteLength(lines[line] ?? '');
  }
  if (line === 0 || line === lines.length - 1) return { bytes: changed, names: null };
  const seq = fromSeq + line - 1;
  return { bytes: changed, names: at === end ? [seq, seq + 1] : [seq] };
}

interface Keys {
  readonly key: SampleKey;
  readonly other: SampleKey;
}

const CLASSES: Readonly<Record<string, (sample: Sample, random: Random, keys: Keys) => Mutation>> = {
  flip: (sample, random) => flip(sample, random(sample.bytes.length), random),
  delete: (sample, random) => {
    const i = random(entriesOf(sample).length);
    return { bytes: rebuilt(sample, entriesOf(sample).toSpliced(i, 1)), names: [sample.fromSeq + i] };
  },
  swap: (sample, random) => {
    const lines = entriesOf(sample);
    const [a, b] = pair(random, lines.length);
    const swapped = lines.with(a, lines[b] ?? '').with(b, lines[a] ?? '');
    return { bytes: rebuilt(sample, swapped), names: [sample.fromSeq + a] };
  },
  duplicate: (sample, random) => {
    const lines = entriesOf(sample);
    const i = random(lines.length);
    return { bytes: rebuilt(sample, lines.toSpliced(i, 0, lines[i] ?? '')), names: [sample.fromSeq + i + 1] };
  },
  insert: (sample, random) => {
    const lines = entriesOf(sample);
    const [at, of] = [random(lines.length), random(lines.length)];
    const forged = (lines[of] ?? '').replace(/"seq":[0-9]+\}$/, `"seq":${sample.fromSeq + at}}`);
    // Put where the entry is of which it is a copy, it is that entry, and the one behind it is one too many.
    return {
      bytes: rebuilt(sample, lines.toSpliced(at, 0, forged)),
      names: [sample.fromSeq + at + (of === at ? 1 : 0)],
    };
  },
  truncate: (sample, random) => ({ bytes: sample.bytes.subarray(0, random(sample.bytes.length)), names: null }),
  'cut at a line': (sample, random) => {
    const kept = 1 + random(entriesOf(sample).length);
    return { bytes: fileOf(sample.lines.slice(0, kept)), names: [sample.fromSeq + kept - 1] };
  },
  'rewritten tail': (sample, random) => {
    // From some entry on another chain, as consistent, under the receipt of the first.
    const at = sample.fromSeq + random(entriesOf(sample).length);
    const tail = sampleChain(ENTRIES, at)
      .slice(sample.fromSeq)
      .map(({ line }) => line);
    return { bytes: rebuilt(sample, tail), names: [ENTRIES - 1], differsAt: at };
  },
  're-signed': (sample, random, { key, other }) => {
    const at = sample.fromSeq + random(entriesOf(sample).length);
    const signer = random(2) === 0 ? other : { ...other, kid: key.kid };
    const { fromSeq, format } = sample;
    const lines = sampleLines(sampleChain(ENTRIES, at), signer, { fromSeq, format });
    return { bytes: fileOf(lines), names: null, differsAt: at };
  },
  'receipt of another range': (sample, random, { key }) => {
    const { fromSeq, format } = sample;
    const toSeq = fromSeq + random(ENTRIES - 1 - fromSeq);
    const trailer = sampleLines(sample.chain, key, { fromSeq, format, toSeq }).at(-1) ?? '';
    return { bytes: fileOf([...sample.lines.slice(0, -1), trailer]), names: null };
  },
  'header of another range': (sample, random, { key }) => {
    const fromSeq = (sample.fromSeq + 1 + random(ENTRIES - 1)) % ENTRIES;
    const [header = ''] = sampleLines(sample.chain, key, { fromSeq, format: sample.format });
    return { bytes: fileOf([header, ...sample.lines.slice(1)]), names: null };
  },
  'something behind the end': (sample, random) => {
    const more = Buffer.from([random(256)]);
    return { bytes: Buffer.concat([sample.bytes, more]), names: null };
  },
};

/** The lines of the entries without what JSON puts between them. */
function entriesOf({ lines, format }: Sample): string[] {
  const entries = lines.slice(1, -1);
  return format === 'json' ? entries.map((line) => line.replace(/,$/, '')) : entries;
}

/** The file with other entries between the same header and trailer, in the format's own form. */
function rebuilt({ lines, format }: Sample, entries: readonly string[]): Buffer {
  const joined = entries.map((line, i) => (format === 'json' && i < entries.length - 1 ? `${line},` : line));
  return fileOf([lines[0] ?? '', ...joined, lines.at(-1) ?? '']);
}

function pair(random: Random, below: number): [number, number] {
  const a = random(below);
  const b = (a + 1 + random(below - 1)) % below;
  return a < b ? [a, b] : [b, a];
}
