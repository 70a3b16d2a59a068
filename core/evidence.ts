import { hash } from 'node:crypto';
import { canonicalize, type JsonValue } from './jcs.ts';

/**
 * The kinds of evidence entries; an entry of any other kind is refused.
 *
 * Source: contract §10.
 */
export const EVIDENCE_KINDS = [
  'account.created',
  'account.second_factor',
  'account.password_changed',
  'account.recovery_codes',
  'account.recovery_code_used',
  'account.passkey_added',
  'account.passkey_removed',
  'session.created',
  'session.confirmed',
  'session.refused',
  'session.revoked',
  'mandate.created',
  'mandate.activated',
  'mandate.suspended',
  'mandate.resumed',
  'mandate.revoked',
  'mandate.expired',
  'mandate.consumed',
  'mandate.changed',
  'gateway.created',
  'gateway.token_rotated',
  'gateway.credential_changed',
  'gateway.changed',
  'gateway.disabled',
  'gateway.enabled',
  'tool.discovered',
  'tool.mapped',
  'tool.unmapped',
  'tool.blocked',
  'key.created',
  'key.changed',
  'key.revoked',
  'decision',
  'outcome',
  'outcome.settled',
  'consumption.booked',
  'consumption.refused',
  'consumption.lapsed',
  'execution.reported',
  'execution.refused',
  'escalation.approved',
  'escalation.rejected',
  'escalation.expired',
  'evidence.exported',
  'webhook.created',
  'webhook.secret_rotated',
  'webhook.disabled',
  'webhook.enabled',
  'webhook.deleted',
  'webhook.tested',
  'webhook.replayed',
  'notifications.changed',
] as const;
export type EvidenceKind = (typeof EVIDENCE_KINDS)[number];

/** The hash before the first entry: 32 zero bytes. */
export const CHAIN_START = '0'.repeat(64);

/** One entry as it is hashed. `seq`, from 0, is the leaf's index; `at` is the database's clock; hashes are hex. */
export interface EvidenceEntry {
  readonly account: string;
  readonly seq: number;
  readonly id: string;
  readonly kind: string;
  readonly at: string;
  readonly prev: string;
  readonly body: JsonValue;
}

/** The entry as it is stored: `body` as its JCS text, and the entry's own hash. */
export interface StoredEntry extends Omit<EvidenceEntry, 'body'> {
  readonly body: string;
  readonly hash: string;
}

/**
 * The canonical text of an entry whose body is already JCS text.
 *
 * The other members hold only characters that JSON does not escape (the database checks that too), so this is
 * `canonicalize(entry)` without building the object.
 */
export function entryText(entry: Omit<StoredEntry, 'hash'>): string {
  return (
    `{"account":"${entry.account}","at":"${entry.at}","body":${entry.body},"id":"${entry.id}",` +
    `"kind":"${entry.kind}","prev":"${entry.prev}","seq":${entry.seq}}`
  );
}

/** The entry's hash in hex: the RFC 6962 §2.1 leaf hash, SHA-256(0x00 || JCS(entry)). */
export function entryHash(entry: Omit<StoredEntry, 'hash'>): string {
  return hash('sha256', `\u0000${entryText(entry)}`, 'hex');
}

/** Where a chain stands: how many entries it has, the last one's hash (hex) and time (Unix milliseconds). */
export interface ChainHead {
  readonly size: number;
  readonly hash: string;
  readonly atMs: number;
}

/** What is wrong with an entry of a chain, or null when it continues the chain that ends in `head`. */
export function chainProblem(head: ChainHead, entry: StoredEntry): string | null {
  if (entry.seq !== head.size) return `seq is ${entry.seq} where ${head.size} continues the chain`;
  if (entry.prev !== head.hash) return 'prev is not the hash of the entry before';
  const at = Date.parse(entry.at);
  if (!Number.isFinite(at) || new Date(at).toISOString() !== entry.at) return 'at is not a canonical time';
  if (at < head.atMs) return 'time goes back';
  if (!isCanonicalJson(entry.body)) return 'body is not canonical JSON';
  if (entryHash(entry) !== entry.hash) return 'hash is not the hash of the entry';
  return null;
}

function isCanonicalJson(text: string): boolean {
  try {
    return canonicalize(JSON.parse(text) as JsonValue) === text;
  } catch {
    return false;
  }
}
