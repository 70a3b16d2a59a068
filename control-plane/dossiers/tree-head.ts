import type { Dossier } from '../../core/dossier.ts';
import { DOSSIER_NOTE_MAX_CHARACTERS } from '../../core/limits.ts';
import { base64Text } from '../../core/signed-note.ts';
import type { Sql } from '../db/client.ts';
import { type SignedTreeHead, signedTreeHead, type TreeHeadMeans } from '../evidence/tree-heads.ts';

/** The tree head of a dossier: what its proofs lead to. */
export interface WitnessedHead {
  readonly size: number;
  readonly shown: Dossier['tree_head'];
}

/**
 * The tree head that proves most of `atLeast` entries: the first that somebody outside has seen, else the newest one.
 *
 * The first, since what was seen earlier leaves less time in which anything could have been rewritten.
 */
export async function witnessedHead(means: TreeHeadMeans, accountId: string, atLeast: number): Promise<WitnessedHead> {
  const { sql } = means;
  const seen = await seenHead(sql, accountId, atLeast);
  const head = seen ?? (await signedTreeHead(means, accountId, atLeast));
  const { checkpoint, size, receipt } = head;
  const [lines, stamps] = await Promise.all([
    sql<{ line: string }[]>`select line from cosignatures
      where account_id = ${accountId} and size = ${size} order by witness`,
    sql<{ token: Buffer }[]>`select token from timestamps where account_id = ${accountId} and size = ${size}`,
  ]);
  let note = checkpoint;
  for (const { line } of lines) if (note.length + line.length <= DOSSIER_NOTE_MAX_CHARACTERS) note += line;
  const timestamps = stamps.map(({ token }) => base64Text(token));
  return { size, shown: { token: receipt, checkpoint: note, timestamps } };
}

/** The first head of at least so many entries that has a timestamp, or a cosignature; one with both where there is. */
async function seenHead(sql: Sql, accountId: string, atLeast: number): Promise<SignedTreeHead | null> {
  const [row] = await sql<SignedTreeHead[]>`
    with seen (size) as (
      (select size from timestamps where account_id = ${accountId} and size >= ${atLeast} order by size limit 1)
      union
      (select size from cosignatures where account_id = ${accountId} and size >= ${atLeast} order by size limit 1))
    select h.account_id as "accountId", h.size, encode(h.root, 'hex') as root, h.at, h.checkpoint, h.receipt
    from seen s join tree_heads h on h.account_id = ${accountId} and h.size = s.size
    order by
      exists (select from timestamps t where t.account_id = ${accountId} and t.size = h.size) desc,
      exists (select from cosignatures c where c.account_id = ${accountId} and c.size = h.size) desc
    limit 1`;
  return row ?? null;
}
