import { ProblemError } from '../../core/errors.ts';
import { entryText, type StoredEntry } from '../../core/evidence.ts';
import type { Sql } from '../db/client.ts';
import { EvidenceContradiction } from './tree.ts';

/** What a length of two bytes can say. */
const ENTRY_MAX_BYTES = 0xffff;

/**
 * Entries as C2SP tlog-tiles bundles them: each one's length in two bytes, the highest first, and its text.
 *
 * The leaf hash of a text is SHA-256(0x00 ‖ text), the entry's hash.
 *
 * @throws ProblemError 409 `conflict` where an entry is longer than the format can say (its body has nearly 64 KiB)
 */
export async function entryBundle(sql: Sql, accountId: string, from: number, width: number): Promise<Buffer> {
  const rows = await sql<Omit<StoredEntry, 'hash'>[]>`
    select account_id as account, seq, id, kind, at, encode(prev, 'hex') as prev, body from evidence
    where account_id = ${accountId} and seq >= ${from} and seq < ${from + width} order by seq`;
  if (rows.length !== width) throw new EvidenceContradiction(`entries of ${accountId} from ${from} on are missing`);
  return Buffer.concat(rows.flatMap((row) => lengthPrefixed(row.seq, Buffer.from(entryText(row)))));
}

function lengthPrefixed(seq: number, text: Buffer): [Buffer, Buffer] {
  if (text.length > ENTRY_MAX_BYTES) {
    const most = `an entry bundle can hold (${ENTRY_MAX_BYTES} bytes)`;
    throw new ProblemError('conflict', `Entry ${seq} is longer than ${most}: export it instead.`);
  }
  const length = Buffer.alloc(2);
  length.writeUInt16BE(text.length);
  return [length, text];
}
