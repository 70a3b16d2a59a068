import { generateKeyPairSync, type KeyObject } from 'node:crypto';
import { CHAIN_START, entryHash, entryText } from '../../../core/evidence.ts';
import {
  EXPORT_RECEIPT_TYPE,
  type ExportClaims,
  type ExportFormat,
  exportClaims,
  headerLine,
  timestampDigest,
  trailerLine,
} from '../../../core/evidence-export.ts';
import { canonicalize } from '../../../core/jcs.ts';
import { publicJwk } from '../../../core/jwk.ts';
import { signJws } from '../../../core/jws.ts';
import { appendLeaf, rootOfEdge } from '../../../core/merkle.ts';
import { edgeHashes, type RightEdge } from '../../../core/merkle-tree.ts';

export const SAMPLE_ACCOUNT = 'acc_01jd0000000000000000000000';
const ISSUER = 'https://mandate.example';
const START_MS = Date.parse('2026-05-01T00:00:00.000Z');

/** One entry of a sample chain: its line and its hash. */
export interface SampleEntry {
  readonly line: string;
  readonly hash: string;
}

/** A chain of so many entries; from `forkAt` on it says something else, and is as consistent. */
export function sampleChain(entries: number, forkAt = Number.POSITIVE_INFINITY): SampleEntry[] {
  const chain: SampleEntry[] = [];
  for (let seq = 0; seq < entries; seq++) {
    const text = `entry ${seq} – "ö" 😀${seq >= forkAt ? ' rewritten' : ''}`;
    const entry = {
      ...{ account: SAMPLE_ACCOUNT, seq, id: `evt_${String(seq).padStart(26, '0')}`, kind: 'decision' },
      ...{ at: new Date(START_MS + seq).toISOString(), prev: chain.at(-1)?.hash ?? CHAIN_START },
      body: canonicalize({ decision: 'allow', n: seq, text }),
    };
    chain.push({ line: entryText(entry), hash: entryHash(entry) });
  }
  return chain;
}

/** A key to sign receipts with, and what pins it. */
export interface SampleKey {
  readonly kid: string;
  readonly privateKey: KeyObject;
  readonly publicKey: KeyObject;
}

export function sampleKey(): SampleKey {
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  return { kid: publicJwk(publicKey).kid, privateKey, publicKey };
}

export interface SampleOptions {
  readonly fromSeq?: number;
  readonly toSeq?: number;
  readonly format?: ExportFormat;
  readonly timestamp?: string | null;
  readonly at?: string;
  readonly logSize?: number;
  /** What stands in the tree before the first entry, where that is not the chain. */
  readonly treeBefore?: readonly SampleEntry[];
}

/** The lines of an exported file of a chain, signed with a key: header, entries, trailer. */
export function sampleLines(chain: readonly SampleEntry[], key: SampleKey, options: SampleOptions = {}): string[] {
  const { fromSeq = 0, toSeq = chain.length - 1, format = 'ndjson', timestamp = null, treeBefore = chain } = options;
  const tree = [...treeBefore.slice(0, fromSeq), ...chain.slice(fromSeq)];
  const edgeAt = (size: number): RightEdge | null =>
    tree.slice(0, size).reduce<RightEdge | null>((edge, { hash }, seq) => appendLeaf(edge, seq, hash), null);
  const prev = fromSeq === 0 ? CHAIN_START : (chain[fromSeq - 1]?.hash ?? '');
  const range = { account: SAMPLE_ACCOUNT, issuer: ISSUER, fromSeq, toSeq, prev };
  const [size, root] = [toSeq + 1, rootOfEdge(edgeAt(toSeq + 1))];
  const claims: ExportClaims = {
    ...{ ...range, size, root, last: chain[toSeq]?.hash ?? '', logSize: options.logSize ?? chain.length },
    ...{ exportId: `evt_${'0'.repeat(26)}`, at: options.at ?? '2026-06-01T00:00:00.000Z', timestampProblem: null },
    timestampSha256: timestamp === null ? null : timestampDigest(timestamp),
  };
  const receipt = signJws({ typ: EXPORT_RECEIPT_TYPE, kid: key.kid }, exportClaims(claims), key.privateKey);
  const entries = chain.slice(fromSeq, toSeq + 1).map(({ line }, i, all) => {
    return format === 'json' && i < all.length - 1 ? `${line},` : line;
  });
  const edge = edgeHashes(edgeAt(fromSeq));
  return [headerLine({ ...range, edge }, format), ...entries, trailerLine({ size, root, receipt, timestamp }, format)];
}

/** Lines as a file. */
export function fileOf(lines: readonly string[]): Buffer {
  return Buffer.from(`${lines.join('\n')}\n`);
}
