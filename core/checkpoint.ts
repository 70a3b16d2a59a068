import { bytesToHex, hexToBytes } from '@noble/hashes/utils.js';
import type { ReadPublicKey } from './ed25519-rule.ts';
import {
  base64Bytes,
  base64Text,
  isKeyName,
  NOTE_SIGNATURE,
  type NoteProblem,
  signNote,
  type VerifiedSignature,
  type VerifierKey,
  verifierKey,
  verifyNote,
} from './signed-note.ts';

/** A log's tree head as a checkpoint states it; `root` is hex, `extensions` are lines that mean nothing here. */
export interface Checkpoint {
  readonly origin: string;
  readonly size: number;
  readonly root: string;
  readonly extensions: readonly string[];
}

/** A checkpoint that was verified, with who signed it, or why it is refused. */
export type CheckpointReading =
  | { readonly ok: true; readonly checkpoint: Checkpoint; readonly signatures: readonly VerifiedSignature[] }
  | { readonly ok: false; readonly problem: NoteProblem | 'checkpoint' };

/** The origin of an account's log, which is the name of its key as well: `<host of the service>/<account>`. */
export function logOrigin(serviceUrl: string, accountId: string): string {
  return `${new URL(serviceUrl).host}/${accountId}`;
}

/** The key that an account's checkpoints are verified with: the service's key under the name of the account's log. */
export function logKey(origin: string, publicKey: Uint8Array): VerifierKey {
  return verifierKey(origin, NOTE_SIGNATURE.ed25519, publicKey);
}

/** The note text of a checkpoint; throws RangeError where its parts would not be read back as they are. */
export function checkpointText(checkpoint: Checkpoint): string {
  const { origin, size, root, extensions } = checkpoint;
  const text = `${[origin, size, base64Text(hexToBytes(root)), ...extensions].join('\n')}\n`;
  const read = readCheckpoint(text);
  const same = read?.origin === origin && read.size === size && read.root === root;
  if (!same || read.extensions.length !== extensions.length) throw new RangeError('not the parts of a checkpoint');
  return text;
}

/**
 * Reads the text of a checkpoint (not its signatures); null where it is not of the form, byte for byte.
 *
 * Source: C2SP tlog-checkpoint, Note text; the origin must be one that can be a key's name, as it SHOULD be.
 */
export function readCheckpoint(text: string): Checkpoint | null {
  if (!text.endsWith('\n')) return null;
  const [origin = '', size = '', hash = '', ...extensions] = text.slice(0, -1).split('\n');
  const root = base64Bytes(hash);
  const count = /^(?:0|[1-9][0-9]{0,15})$/.test(size) ? Number(size) : Number.NaN;
  if (!isKeyName(origin) || !Number.isSafeInteger(count) || root?.length !== 32) return null;
  return extensions.includes('') ? null : { origin, size: count, root: bytesToHex(root), extensions };
}

/** A signed checkpoint: a note with the log's signature, to which witnesses add theirs. */
export function signCheckpoint(
  head: Pick<Checkpoint, 'size' | 'root'>,
  key: VerifierKey,
  sign: (message: Uint8Array) => Uint8Array,
): string {
  return signNote(checkpointText({ ...head, origin: key.name, extensions: [] }), key, sign);
}

/**
 * Verifies a checkpoint: signed by the log, and its origin is the log's name.
 *
 * `witnesses` are keys whose cosignatures are verified where they are there; others' lines are ignored.
 */
export async function verifyCheckpoint(
  note: string,
  log: VerifierKey,
  witnesses: readonly VerifierKey[],
  readKey: ReadPublicKey,
): Promise<CheckpointReading> {
  const read = await verifyNote(note, [log, ...witnesses], readKey);
  if (!read.ok) return read;
  if (!read.signatures.some(({ key }) => key === log)) return { ok: false, problem: 'no_known_key' };
  const checkpoint = readCheckpoint(read.text);
  if (checkpoint === null || checkpoint.origin !== log.name) return { ok: false, problem: 'checkpoint' };
  return { ok: true, checkpoint, signatures: read.signatures };
}
