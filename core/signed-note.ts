import { sha256 } from '@noble/hashes/sha2.js';
import { bytesToHex } from '@noble/hashes/utils.js';
import type { ReadPublicKey } from './ed25519-rule.ts';
import { NOTE_MAX_CHARACTERS, NOTE_SIGNATURES_MAX } from './limits.ts';

/** Signature types of notes that are known here: a log's Ed25519 signature, a witness's timestamped cosignature. */
export const NOTE_SIGNATURE = { ed25519: 0x01, cosignature: 0x04 } as const;
export type NoteSignatureType = (typeof NOTE_SIGNATURE)[keyof typeof NOTE_SIGNATURE];

/** A key that notes are verified with. `id`: 8 hex digits; `publicKey`: 32 bytes. */
export interface VerifierKey {
  readonly name: string;
  readonly id: string;
  readonly type: NoteSignatureType;
  readonly publicKey: Uint8Array;
}

/** A signature line; `keyId` is 8 hex digits. Nothing about it is proven. */
export interface NoteSignature {
  readonly name: string;
  readonly keyId: string;
  readonly signature: Uint8Array;
}

/** A note that was read and not verified: its text ends in a newline. */
export interface SignedNote {
  readonly text: string;
  readonly signatures: readonly NoteSignature[];
}

/** What a key signed; `timestampS`: when a witness says that it did (seconds since 1970), null for a log. */
export interface VerifiedSignature {
  readonly key: VerifierKey;
  readonly timestampS: number | null;
}

/** Why a note is refused. */
export type NoteProblem = 'malformed' | 'signature' | 'no_known_key';

/** A note whose text is signed by at least one of the keys it was checked with, or why it is refused. */
export type NoteReading =
  | { readonly ok: true; readonly text: string; readonly signatures: readonly VerifiedSignature[] }
  | { readonly ok: false; readonly problem: NoteProblem };

const ED25519_BYTES = 64;
const TIMESTAMP_BYTES = 8;
const KEY_ID_BYTES = 4;

/** Whether a text may be the name of a key: not empty, well formed, without Unicode spaces, controls and `+`. */
export function isKeyName(name: string): boolean {
  return name.length > 0 && name.isWellFormed() && !/[\p{White_Space}\p{Cc}+]/u.test(name);
}

/**
 * The verifier key of 32 bytes under a name; its id is the first 4 bytes of SHA-256(name ‖ newline ‖ type ‖ key).
 *
 * @throws RangeError where the name or the length of the key cannot be
 */
export function verifierKey(name: string, type: NoteSignatureType, publicKey: Uint8Array): VerifierKey {
  if (!isKeyName(name) || publicKey.length !== 32) throw new RangeError('not the name or the key of a verifier key');
  const head = new TextEncoder().encode(`${name}\n`);
  const digest = sha256(Uint8Array.of(...head, type, ...publicKey));
  return { name, id: bytesToHex(digest.subarray(0, KEY_ID_BYTES)), type, publicKey: Uint8Array.from(publicKey) };
}

/** A verifier key as it is passed on: `<name>+<id>+<base64(type ‖ key)>`. */
export function verifierKeyText({ name, id, type, publicKey }: VerifierKey): string {
  return `${name}+${id}+${base64Text(Uint8Array.of(type, ...publicKey))}`;
}

/** Reads {@link verifierKeyText}; null where it is malformed, of another type, or its id is not its own. */
export function readVerifierKey(text: string): VerifierKey | null {
  const [, name, id, material] = /^([^+]+)\+([0-9a-f]{8})\+(.+)$/s.exec(text) ?? [];
  const bytes = material === undefined ? null : base64Bytes(material);
  const type = Object.values(NOTE_SIGNATURE).find((known) => known === bytes?.[0]);
  if (bytes === null || bytes.length !== 33 || type === undefined || !isKeyName(name as string)) return null;
  const key = verifierKey(name as string, type, bytes.subarray(1));
  return key.id === id ? key : null;
}

/** A note of one signature, which `sign` makes over the text; throws RangeError where the text cannot be a note's. */
export function signNote(text: string, key: VerifierKey, sign: (message: Uint8Array) => Uint8Array): string {
  if (key.type !== NOTE_SIGNATURE.ed25519 || !isNoteText(text)) throw new RangeError('this cannot be signed as a note');
  const { name, id: keyId } = key;
  return `${text}\n${signatureLine({ name, keyId, signature: sign(new TextEncoder().encode(text)) })}`;
}

/** A signature as its line in a note, the newline included. */
export function signatureLine({ name, keyId, signature }: NoteSignature): string {
  const id = keyId.match(/../g)?.map((byte) => Number.parseInt(byte, 16)) ?? [];
  return `\u2014 ${name} ${base64Text(Uint8Array.of(...id, ...signature))}\n`;
}

/** What a witness signs at a time (C2SP tlog-cosignature, Ed25519 signed message). */
export function cosignedMessage(text: string, timestampS: number): Uint8Array {
  return new TextEncoder().encode(`cosignature/v1\ntime ${timestampS}\n${text}`);
}

/** The signature of a cosignature: the timestamp, 8 bytes with the highest first, and the Ed25519 signature. */
export function cosignature(timestampS: number, signature: Uint8Array): Uint8Array {
  const bytes = new Uint8Array(TIMESTAMP_BYTES + signature.length);
  new DataView(bytes.buffer).setBigUint64(0, BigInt(timestampS));
  bytes.set(signature, TIMESTAMP_BYTES);
  return bytes;
}

/** Reads a signed note without verifying anything; null where it is malformed (C2SP signed-note, Format). */
export function readNote(note: string): SignedNote | null {
  if (note.length > NOTE_MAX_CHARACTERS) return null;
  const split = note.lastIndexOf('\n\n');
  if (split < 0 || !note.endsWith('\n')) return null;
  const text = note.slice(0, split + 1);
  const lines = note.slice(split + 2, -1).split('\n');
  if (!isNoteText(text) || lines.length > NOTE_SIGNATURES_MAX) return null;
  const signatures = lines.map(readSignatureLine);
  return signatures.every((one) => one !== null) ? { text, signatures } : null;
}

/**
 * Verifies a note with the keys that are trusted; `readKey` is the engine.
 *
 * Signatures of other keys are ignored, one that does not verify under its own key refuses the note, and so does the
 * lack of any. Source: C2SP signed-note (Signatures) and tlog-cosignature; keys and signatures by the strict rule.
 */
export async function verifyNote(
  note: string,
  keys: readonly VerifierKey[],
  readKey: ReadPublicKey,
): Promise<NoteReading> {
  const read = readNote(note);
  if (read === null) return { ok: false, problem: 'malformed' };
  const verified = new Map<VerifierKey, VerifiedSignature>();
  for (const line of read.signatures) {
    const key = keys.find(({ name, id }) => name === line.name && id === line.keyId);
    if (key === undefined) continue;
    const signature = await verifySignature(read.text, line.signature, key, readKey);
    if (signature === null) return { ok: false, problem: 'signature' };
    verified.set(key, signature);
  }
  if (verified.size === 0) return { ok: false, problem: 'no_known_key' };
  return { ok: true, text: read.text, signatures: [...verified.values()] };
}

async function verifySignature(
  text: string,
  bytes: Uint8Array,
  key: VerifierKey,
  readKey: ReadPublicKey,
): Promise<VerifiedSignature | null> {
  const stamped = key.type === NOTE_SIGNATURE.cosignature;
  if (bytes.length !== ED25519_BYTES + (stamped ? TIMESTAMP_BYTES : 0)) return null;
  const timestampS = stamped ? timestampOf(bytes) : null;
  if (stamped && timestampS === null) return null;
  const message = timestampS === null ? new TextEncoder().encode(text) : cosignedMessage(text, timestampS);
  const engine = readKey(key.publicKey);
  const holds = engine !== null && (await engine.verify(message, bytes.subarray(bytes.length - ED25519_BYTES)));
  return holds ? { key, timestampS } : null;
}

/** The time of a cosignature, or null beyond what a number holds exactly, which no clock shows. */
function timestampOf(bytes: Uint8Array): number | null {
  const time = new DataView(bytes.buffer, bytes.byteOffset, TIMESTAMP_BYTES).getBigUint64(0);
  return time <= BigInt(Number.MAX_SAFE_INTEGER) ? Number(time) : null;
}

function isNoteText(text: string): boolean {
  return text.endsWith('\n') && text.isWellFormed() && !/[\0-\x09\x0b-\x1f]/.test(text);
}

function readSignatureLine(line: string): NoteSignature | null {
  const [, name, base64] = /^\u2014 (\S+) ([A-Za-z0-9+/]+={0,2})$/u.exec(line) ?? [];
  const bytes = base64 === undefined ? null : base64Bytes(base64);
  if (name === undefined || bytes === null || !isKeyName(name) || bytes.length <= KEY_ID_BYTES) return null;
  return { name, keyId: bytesToHex(bytes.subarray(0, KEY_ID_BYTES)), signature: bytes.subarray(KEY_ID_BYTES) };
}

/** Base64 with padding (RFC 4648 §4). */
export function base64Text(bytes: Uint8Array): string {
  return btoa(String.fromCharCode(...bytes));
}

/** The bytes of {@link base64Text}, or null where the text is not their only spelling. */
export function base64Bytes(text: string): Uint8Array | null {
  try {
    const binary = atob(text);
    return btoa(binary) === text ? Uint8Array.from(binary, (character) => character.charCodeAt(0)) : null;
  } catch {
    return null;
  }
}
