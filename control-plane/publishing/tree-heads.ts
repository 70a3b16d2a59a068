import type { VerifierKey } from '../../core/signed-note.ts';
import { consistencyProofOf } from '../evidence/tree.ts';
import { logKeyOf, signedTreeHead, type TreeHeadMeans } from '../evidence/tree-heads.ts';

/** A tree head that the service has signed: the root in hex and the checkpoint, a signed note. */
export interface SignedHead {
  readonly accountId: string;
  readonly size: number;
  readonly root: string;
  readonly checkpoint: string;
}

/** Signed tree heads, as those who publish them need them. */
export interface TreeHeads {
  /** The account's present head, signed and stored. */
  current(accountId: string): Promise<SignedHead>;
  /** PROOF(from, D[to]) of RFC 6962 §2.1.2 in hex; empty where `from` is 0 or `to`. */
  consistency(accountId: string, from: number, to: number): Promise<readonly string[]>;
  /** The key that the account's checkpoints are signed with, under the name of its log. */
  logKey(accountId: string): VerifierKey;
}

/** The tree heads of the evidence. */
export function evidenceTreeHeads(means: TreeHeadMeans): TreeHeads {
  return {
    current: (accountId) => signedTreeHead(means, accountId),
    consistency: async (accountId, from, to) => {
      return from === 0 || from === to ? [] : await consistencyProofOf(means.sql, { accountId, size: to }, from);
    },
    logKey: (accountId) => logKeyOf(means, accountId),
  };
}
