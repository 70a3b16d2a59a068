import { hexToBytes } from '@noble/hashes/utils.js';
import { logOrigin, readCheckpoint } from './checkpoint.ts';
import { type Dossier, entriesOf } from './dossier.ts';
import { type Claims, entryName } from './dossier-claims.ts';
import type { Trust } from './dossier-trust.ts';
import type { ReadPublicKey } from './ed25519-rule.ts';
import { TIMESTAMP_CLOCK_TOLERANCE_MS } from './limits.ts';
import { base64Bytes, readNote, verifyNote } from './signed-note.ts';
import { checkTimestampToken } from './timestamp-token.ts';
import type { readTreeHead, TreeHead } from './tree-head.ts';

/** A tree head and the service that signed it. */
export type IssuedTreeHead = NonNullable<ReturnType<typeof readTreeHead>>;

/** Checks that the checkpoint is the same head, and whose signatures it carries. */
export async function checkHeadWitnesses(
  dossier: Dossier,
  head: IssuedTreeHead,
  { trust: { logs, witnesses }, readKey }: { readonly trust: Trust; readonly readKey: ReadPublicKey },
  claims: Claims,
): Promise<void> {
  const { checkpoint: note } = dossier.tree_head;
  if (note === null) {
    claims.skipped('checkpoint', 'There is no checkpoint in the file, and so no witness.');
    return;
  }
  const read = readNote(note);
  const checkpoint = read === null ? null : readCheckpoint(read.text);
  if (read === null || checkpoint === null) {
    claims.failed('checkpoint', 'The checkpoint is not one.');
    return;
  }
  const same = checkpoint.size === head.size && checkpoint.root === head.root;
  if (!same || checkpoint.origin !== logOrigin(head.issuer, head.accountId)) {
    claims.failed('checkpoint', `The checkpoint over ${checkpoint.size} entries is not the tree head of this file.`);
    return;
  }
  const known = [...logs, ...witnesses];
  const verified = await verifyNote(note, known, readKey);
  if (!verified.ok && verified.problem !== 'no_known_key') {
    claims.failed('checkpoint', 'A signature of the checkpoint does not verify under the pinned key that it names.');
    return;
  }
  const signatures = verified.ok ? verified.signatures : [];
  const bylog = signatures.some(({ key }) => logs.includes(key) && key.name === checkpoint.origin);
  if (bylog) claims.ok('checkpoint', `The checkpoint says the same and is signed by the log ${checkpoint.origin}.`);
  else if (logs.some(({ name }) => name === checkpoint.origin))
    claims.failed('checkpoint', `The checkpoint is not signed by the log ${checkpoint.origin} with a pinned key.`);
  else
    claims.skipped('checkpoint', 'The checkpoint says the same; its own signature is not checked: no log is pinned.');
  for (const { key, timestampS } of signatures) {
    if (timestampS === null) continue;
    const at = new Date(timestampS * 1000);
    const when = Number.isNaN(at.getTime()) ? 'an impossible time' : at.toISOString();
    const later = laterThan(dossier, timestampS * 1000);
    const problem = later === null ? null : `The witness ${key.name} saw this tree at ${when}, before ${later}.`;
    claims.either('witness', problem, `The witness ${key.name} saw this tree at ${when}.`);
  }
  const others = read.signatures.filter(({ name, keyId }) => {
    return name !== checkpoint.origin && !witnesses.some((key) => key.name === name && key.id === keyId);
  });
  for (const { name } of others) claims.skipped('witness', `The witness ${name} is not pinned: its line says nothing.`);
}

/** Checks every timestamp over the tree head. */
export async function checkTimestamps(
  dossier: Dossier,
  head: TreeHead,
  { authorities }: Trust,
  claims: Claims,
): Promise<void> {
  const { timestamps } = dossier.tree_head;
  const digest = hexToBytes(head.root);
  for (const [at, text] of timestamps.entries()) {
    const token = base64Bytes(text);
    const name = `Timestamp ${at + 1}`;
    if (token === null) {
      claims.failed('timestamp', `${name} is not base64.`);
      continue;
    }
    const verdict = await checkTimestampToken(token, { digest, nonce: null, anchors: authorities, clock: null });
    if (!verdict.valid) claims.failed('timestamp', `${name} does not hold: ${verdict.problem}`);
    else if (!verdict.checked.includes('chain')) {
      claims.skipped('timestamp', `${name} of ${verdict.genTime}: not checked who made it, no authority is pinned.`);
    } else {
      const seen = `${name}: ${verdict.tsa} saw this tree head at ${verdict.genTime}`;
      const later = laterThan(dossier, verdict.genTimeMs + (verdict.accuracyMs ?? 0));
      claims.either('timestamp', later === null ? null : `${seen}, before ${later}.`, `${seen}.`);
    }
  }
  if (timestamps.length === 0) claims.skipped('timestamp', 'No timestamping authority has seen this tree head.');
}

/** How far the clocks of two others may be apart: the service refuses whoever is half of it away from its own. */
const CLOCKS_APART_MAX_MS = 2 * TIMESTAMP_CLOCK_TOLERANCE_MS;

/** An entry, named with its time, that says to be later than somebody saw a tree that holds it; or null. */
function laterThan(dossier: Dossier, seenAtMs: number): string | null {
  const late = entriesOf(dossier).find(({ entry }) => Date.parse(entry.at) > seenAtMs + CLOCKS_APART_MAX_MS);
  return late === undefined ? null : `${entryName(late)} of ${late.entry.at}, which is in it`;
}
