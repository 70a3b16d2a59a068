import { createPublicKey } from 'node:crypto';
import { createRequire } from 'node:module';
import t from 'tap';
import { logKey, signCheckpoint } from '../../../core/checkpoint.ts';
import { SigningKey } from '../../../core/ed25519.ts';
import { CHAIN_START, entryHash, entryText, type StoredEntry } from '../../../core/evidence.ts';
import { inclusionProof, rootOfLeaves } from '../../../core/merkle.ts';

/*
 * The clients of Sigstore verify checkpoints and inclusion proofs in code that was not written here. It is not public
 * there, so it is loaded by its path.
 */

/** What those functions look at of a log entry. */
interface SigstoreEntry {
  readonly canonicalizedBody: Buffer;
  readonly inclusionProof: {
    readonly logIndex: string;
    readonly treeSize: string;
    readonly hashes: readonly Buffer[];
    readonly rootHash: Buffer;
    readonly checkpoint: { readonly envelope: string };
  };
}

interface SigstoreCheckpoint {
  readonly origin: string;
  readonly logSize: bigint;
  readonly logHash: Buffer;
}

interface Elsewhere {
  verifyCheckpoint(entry: SigstoreEntry, logs: readonly object[]): SigstoreCheckpoint;
  verifyMerkleInclusion(entry: SigstoreEntry, checkpoint: SigstoreCheckpoint): void;
}

function elsewhere(): Elsewhere | null {
  const require = createRequire(import.meta.url);
  try {
    const load = (name: string) => require(`@sigstore/verify/dist/tlog/${name}.js`) as Elsewhere;
    return { ...load('checkpoint'), ...load('merkle') };
  } catch {
    return null;
  }
}

const SIZE = 300;
const entries: Omit<StoredEntry, 'hash'>[] = [];
const leaves: string[] = [];
for (let seq = 0; seq < SIZE; seq++) {
  const prev = leaves.at(-1) ?? CHAIN_START;
  const account = 'acc_01jv9h2n8ke5rvq3s4t6w7x8y9';
  entries.push({ account, seq, id: `evt_${seq}`, kind: 'decision', at: '2026-05-15T10:00:00.000Z', prev, body: '{}' });
  leaves.push(entryHash(entries[seq]!));
}

const SIGNER = new SigningKey(Buffer.alloc(32, 7));
const KEY = logKey('mandates.example.com/acc_01jv9h2n8ke5rvq3s4t6w7x8y9', SIGNER.publicKey);
const ROOT = rootOfLeaves(leaves);
const NOTE = signCheckpoint({ size: SIZE, root: ROOT }, KEY, (message) => SIGNER.sign(message));

const found = elsewhere();

t.test(
  'a checkpoint made here and a proof towards it verify with an implementation that was not written here',
  { skip: found === null ? '@sigstore/verify is not installed' : false },
  async (t) => {
    if (found === null) return;
    const x = Buffer.from(SIGNER.publicKey).toString('base64url');
    const publicKey = createPublicKey({ key: { kty: 'OKP', crv: 'Ed25519', x }, format: 'jwk' });
    const log = { logID: Buffer.from(KEY.id, 'hex'), baseURL: `https://${KEY.name}`, publicKey };
    const entryAt = (index: number, envelope = NOTE, body = entryText(entries[index]!)): SigstoreEntry => ({
      canonicalizedBody: Buffer.from(body),
      inclusionProof: {
        logIndex: String(index),
        treeSize: String(SIZE),
        hashes: inclusionProof(leaves, index).map((hash) => Buffer.from(hash, 'hex')),
        rootHash: Buffer.from(ROOT, 'hex'),
        checkpoint: { envelope },
      },
    });
    const checkpoint = found.verifyCheckpoint(entryAt(0), [log]);
    t.equal(checkpoint.origin, KEY.name);
    t.equal(checkpoint.logSize, BigInt(SIZE));
    t.equal(checkpoint.logHash.toString('hex'), ROOT);
    t.throws(() => found.verifyCheckpoint(entryAt(0, NOTE.replace('\n300\n', '\n301\n')), [log]), /signature/);
    for (const index of [0, 1, 255, 256, 299]) {
      t.doesNotThrow(() => found.verifyMerkleInclusion(entryAt(index), checkpoint), `entry ${index}`);
      t.throws(() => found.verifyMerkleInclusion(entryAt(index, NOTE, '{}'), checkpoint), `another entry ${index}`);
    }
  },
);
