import { sha256 } from '@noble/hashes/sha2.js';
import { bytesToHex, hexToBytes } from '@noble/hashes/utils.js';
import { merkleTree } from './merkle-tree.ts';

/** The tree of `core/merkle.ts` whose engine is plain JavaScript: for browsers, where `node:crypto` is not. */
export const {
  nodeHash,
  rootOfLeaves,
  appendLeaf,
  rootOfEdge,
  rootOfNodes,
  inclusionProof,
  consistencyProof,
  verifyInclusion,
  verifyConsistency,
} = merkleTree((left, right) => bytesToHex(sha256(hexToBytes(`01${left}${right}`))));
