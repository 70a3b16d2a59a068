import { logKey, logOrigin, signCheckpoint } from '../../core/checkpoint.ts';
import { rootOfEdge } from '../../core/merkle.ts';
import { edgeOf, hashesOf } from '../../core/merkle-tree.ts';
import type { VerifierKey } from '../../core/signed-note.ts';
import { TREE_HEAD_TYPE, type TreeHead, treeHeadClaims } from '../../core/tree-head.ts';
import type { Sql } from '../db/client.ts';
import type { RouteDependencies } from '../http/dependencies.ts';
import { EvidenceContradiction, rootOf } from './tree.ts';

/** A tree head that was signed: as a checkpoint (C2SP tlog-checkpoint) and as an ES256 token (`sth+jwt`). */
export interface SignedTreeHead extends TreeHead {
  readonly checkpoint: string;
  readonly receipt: string;
}

/** What tree heads are signed with. */
export type TreeHeadMeans = Pick<RouteDependencies, 'sql' | 'signing' | 'issuer'>;

/** A head this young is not replaced for entries that came since: readers of a busy account share one, in ms. */
const FRESH_MS = 1_000;

/** How many entries an account has and the root over them now (hex); unsigned, and read from the stored tree. */
export async function currentTreeHead(sql: Sql, accountId: string): Promise<Pick<TreeHead, 'size' | 'root'>> {
  const { size, edge } = await readEdge(sql, accountId);
  const root = await rootOf(sql, { accountId, size });
  if (rootOfEdge(edgeOf(size, hashesOf(edge))) !== root) {
    throw new EvidenceContradiction(`the edge of ${accountId} is not that of its ${size} entries`);
  }
  return { size, root };
}

/** How many entries an account has now. */
export async function currentSize(sql: Sql, accountId: string): Promise<number> {
  return (await readEdge(sql, accountId)).size;
}

/** The last tree head that was signed for an account, or null. */
export async function lastSignedTreeHead(sql: Sql, accountId: string): Promise<SignedTreeHead | null> {
  const [row] = await sql<SignedTreeHead[]>`
    select account_id as "accountId", size, encode(root, 'hex') as root, at, checkpoint, receipt
    from tree_heads where account_id = ${accountId} order by tree_heads.size desc limit 1`;
  return row ?? null;
}

/**
 * A signed tree head that covers at least `atLeast` entries where there are so many: the last one where it still is the
 * current one or was signed within the last second, else a new one, which is kept.
 *
 * @throws EvidenceContradiction where the entries no longer are those of the head that was signed before: a log signs
 * no two heads that contradict each other (C2SP tlog-checkpoint, Signatures)
 */
export async function signedTreeHead(means: TreeHeadMeans, accountId: string, atLeast = 0): Promise<SignedTreeHead> {
  const { sql } = means;
  const last = await lastSignedTreeHead(sql, accountId);
  const { size, now } = await readEdge(sql, accountId);
  if (last !== null) {
    const ageMs = Date.parse(now) - Date.parse(last.at);
    const fresh = last.size >= atLeast && ageMs >= 0 && ageMs < FRESH_MS;
    if (last.size === size || (fresh && last.size < size)) return last;
    await assertContinued(sql, accountId, last, size);
  }
  const head = await currentTreeHead(sql, accountId);
  return keep(sql, await sign(means, { accountId, ...head, at: now }));
}

/** The key that an account's checkpoints are verified with. */
export function logKeyOf({ signing, issuer }: Omit<TreeHeadMeans, 'sql'>, accountId: string): VerifierKey {
  return logKey(logOrigin(issuer, accountId), signing.log.publicKey);
}

/** The root over the entries that the last signed head covers must be what was signed. */
async function assertContinued(sql: Sql, accountId: string, last: TreeHead, size: number): Promise<void> {
  const root = last.size <= size ? await rootOf(sql, { accountId, size: last.size }) : null;
  if (root === last.root) return;
  const what = root === null ? `are only ${size}` : 'are others';
  throw new EvidenceContradiction(`a tree head of ${last.size} entries of ${accountId} was signed, but they ${what}`);
}

async function sign({ signing, issuer }: TreeHeadMeans, head: TreeHead): Promise<SignedTreeHead> {
  const key = logKeyOf({ signing, issuer }, head.accountId);
  const checkpoint = signCheckpoint(head, key, (message) => signing.log.sign(message));
  return { ...head, checkpoint, receipt: await signing.signLater(TREE_HEAD_TYPE, treeHeadClaims(issuer, head)) };
}

/** Another control plane may have signed the same size meanwhile; then that one counts. */
async function keep(sql: Sql, head: SignedTreeHead): Promise<SignedTreeHead> {
  const { accountId, size, root, at, checkpoint, receipt } = head;
  const kept = await sql`insert into tree_heads (account_id, size, root, at, checkpoint, receipt)
    values (${accountId}, ${size}, decode(${root}, 'hex'), ${at}, ${checkpoint}, ${receipt})
    on conflict do nothing returning 1`;
  if (kept.length === 1) return head;
  const [other] = await sql<SignedTreeHead[]>`
    select account_id as "accountId", size, encode(root, 'hex') as root, at, checkpoint, receipt
    from tree_heads where account_id = ${accountId} and size = ${size}`;
  if (other?.root === root) return other;
  throw new EvidenceContradiction(`another tree head of ${size} entries of ${accountId} was signed`);
}

async function readEdge(sql: Sql, accountId: string): Promise<{ size: number; edge: string; now: string }> {
  const [row] = await sql<{ size: number; edge: string; now: string }[]>`
    select size, encode(edge, 'hex') as edge, rfc3339(db_clock()) as now
    from account_heads where account_id = ${accountId}`;
  if (row === undefined) throw new Error('an account that reads its evidence has no head');
  return row;
}
