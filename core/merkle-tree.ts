/** The hash of a tree without leaves: SHA-256 of nothing (RFC 6962 §2.1). */
export const EMPTY_ROOT = 'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855';

/** Levels of a tree that one tile spans (C2SP tlog-tiles), and the hashes of a full one. */
export const TILE_HEIGHT = 8;
export const TILE_WIDTH = 256;

/** SHA-256(0x01 || left || right) of two hashes (RFC 6962 §2.1); hashes are 64 hex digits, lower case. */
export type NodeHash = (left: string, right: string) => string;

/** The complete subtree over the leaves [index · 2^level, (index + 1) · 2^level). */
export interface NodePlace {
  readonly level: number;
  readonly index: number;
}

/**
 * The right edge of a tree: its maximal complete subtrees, the smallest (rightmost) first.
 *
 * Their levels are the binary digits of the tree's size. Never changed in place, so whoever holds one keeps it.
 */
export interface RightEdge {
  readonly level: number;
  readonly hash: string;
  readonly rest: RightEdge | null;
}

/** What an inclusion proof is checked for; hashes are hex, `index` counts from 0. */
export interface InclusionClaim {
  readonly index: number;
  readonly size: number;
  readonly leafHash: string;
  readonly proof: readonly string[];
  readonly root: string;
}

/** What a consistency proof is checked for; hashes are hex. */
export interface ConsistencyClaim {
  readonly firstSize: number;
  readonly secondSize: number;
  readonly firstRoot: string;
  readonly secondRoot: string;
  readonly proof: readonly string[];
}

/** The Merkle tree of RFC 6962 over an engine's hash; every function is pure, and each engine exports them. */
export interface MerkleTree {
  readonly nodeHash: NodeHash;
  /** The root over the leaf hashes, {@link EMPTY_ROOT} of none; holds O(log n) hashes. */
  readonly rootOfLeaves: (leaves: Iterable<string>) => string;
  /** The edge with one leaf more; `size` is how many leaves it had. `completed` hears of each subtree now complete. */
  readonly appendLeaf: (
    edge: RightEdge | null,
    size: number,
    leafHash: string,
    completed?: (place: NodePlace, hash: string) => void,
  ) => RightEdge;
  /** The root of the tree with this edge. */
  readonly rootOfEdge: (edge: RightEdge | null) => string;
  /** The hash of a range from the hashes of {@link nodesOfRange}, in their order; throws RangeError for none. */
  readonly rootOfNodes: (hashes: readonly string[]) => string;
  /** PATH(index, leaves) of RFC 6962 §2.1.1, in O(n); throws RangeError where there is no such leaf. */
  readonly inclusionProof: (leaves: readonly string[], index: number) => string[];
  /** PROOF(firstSize, leaves) of RFC 6962 §2.1.2, in O(n); throws RangeError for a size outside 1..leaves. */
  readonly consistencyProof: (leaves: readonly string[], firstSize: number) => string[];
  /** Whether the leaf is in the tree (RFC 9162 §2.1.3.2). Never throws: what is malformed is not proven. */
  readonly verifyInclusion: (claim: InclusionClaim) => boolean;
  /**
   * Whether the first tree is a prefix of the second (RFC 9162 §2.1.4.2); an empty tree is one of any, with no proof.
   * Never throws: what is malformed is not proven.
   */
  readonly verifyConsistency: (claim: ConsistencyClaim) => boolean;
}

/** The tree over the hash of an engine. */
export function merkleTree(nodeHash: NodeHash): MerkleTree {
  const appendLeaf = appendWith(nodeHash);
  const rootOfNodes = foldWith(nodeHash);
  const rootOfEdge = (edge: RightEdge | null) => (edge === null ? EMPTY_ROOT : rootOfNodes(edgeHashes(edge)));
  const rootOfLeaves = (leaves: Iterable<string>): string => {
    let edge: RightEdge | null = null;
    let size = 0;
    for (const leaf of leaves) edge = appendLeaf(edge, size++, leaf);
    return rootOfEdge(edge);
  };
  const rootsOf = (leaves: readonly string[], ranges: readonly LeafRange[]): string[] =>
    ranges.map(({ begin, end }) => rootOfLeaves(leaves.slice(begin, end)));
  return {
    nodeHash,
    rootOfLeaves,
    appendLeaf,
    rootOfEdge,
    rootOfNodes,
    inclusionProof: (leaves, index) => rootsOf(leaves, inclusionRanges(index, leaves.length)),
    consistencyProof: (leaves, firstSize) => rootsOf(leaves, consistencyRanges(firstSize, leaves.length)),
    verifyInclusion: (claim) => provesInclusion(nodeHash, claim),
    verifyConsistency: (claim) => provesConsistency(nodeHash, claim),
  };
}

function appendWith(nodeHash: NodeHash): MerkleTree['appendLeaf'] {
  return (edge, size, leafHash, completed) => {
    let [hash, level, rest, index] = [leafHash, 0, edge, size];
    while (rest !== null && rest.level === level) {
      hash = nodeHash(rest.hash, hash);
      rest = rest.rest;
      level += 1;
      index = Math.floor(index / 2);
      completed?.({ level, index }, hash);
    }
    return { level, hash, rest };
  };
}

function foldWith(nodeHash: NodeHash): MerkleTree['rootOfNodes'] {
  return (hashes) => {
    if (hashes.length === 0) throw new RangeError('a range has at least one node');
    return hashes.reduceRight((right, left) => nodeHash(left, right));
  };
}

/** The hashes of an edge, the largest subtree (the leftmost) first. */
export function edgeHashes(edge: RightEdge | null): string[] {
  const hashes: string[] = [];
  for (let one = edge; one !== null; one = one.rest) hashes.push(one.hash);
  return hashes.reverse();
}

/** The hashes that stand one behind the other in a text of hex. */
export function hashesOf(hex: string): string[] {
  return hex.match(/.{64}/g) ?? [];
}

/** The edge of a tree of `size` leaves from {@link edgeHashes}; throws RangeError where they cannot be of that size. */
export function edgeOf(size: number, hashes: readonly string[]): RightEdge | null {
  const nodes = nodesOfRange({ begin: 0, end: size });
  if (nodes.length !== hashes.length || !hashes.every(isHash)) {
    throw new RangeError(`an edge of ${size} leaves has ${nodes.length} hashes`);
  }
  return nodes.reduce<RightEdge | null>((rest, { level }, i) => ({ level, hash: hashes[i] as string, rest }), null);
}

/** Leaves [begin, end) under one node of a tree. */
export interface LeafRange {
  readonly begin: number;
  readonly end: number;
}

/** The complete subtrees, left to right, that make up a range which a tree has a node for. */
export function nodesOfRange({ begin, end }: LeafRange): NodePlace[] {
  const nodes: NodePlace[] = [];
  for (let at = begin; at < end; ) {
    const level = Math.floor(Math.log2(end - at));
    nodes.push({ level, index: at / 2 ** level });
    at += 2 ** level;
  }
  return nodes;
}

/** The nodes of PATH(index, D[size]) (RFC 6962 §2.1.1) in the order of the proof; throws RangeError. */
export function inclusionRanges(index: number, size: number): LeafRange[] {
  if (!isSize(size) || !isSize(index) || index >= size) throw new RangeError(`no leaf ${index} among ${size}`);
  const ranges: LeafRange[] = [];
  let [begin, end] = [0, size];
  while (end - begin > 1) {
    const middle = begin + largestPowerBelow(end - begin);
    if (index < middle) {
      ranges.push({ begin: middle, end });
      end = middle;
    } else {
      ranges.push({ begin, end: middle });
      begin = middle;
    }
  }
  return ranges.reverse();
}

/** The nodes of PROOF(firstSize, D[secondSize]) (RFC 6962 §2.1.2) in the order of the proof; throws RangeError. */
export function consistencyRanges(firstSize: number, secondSize: number): LeafRange[] {
  if (!isSize(firstSize) || !isSize(secondSize) || firstSize < 1 || firstSize > secondSize) {
    throw new RangeError(`no proof from ${firstSize} to ${secondSize} leaves`);
  }
  const ranges: LeafRange[] = [];
  let [begin, end] = [0, secondSize];
  while (end !== firstSize) {
    const middle = begin + largestPowerBelow(end - begin);
    if (firstSize <= middle) {
      ranges.push({ begin: middle, end });
      end = middle;
    } else {
      ranges.push({ begin, end: middle });
      begin = middle;
    }
  }
  // The verifier knows the first root itself; what is a part of it only, it does not.
  if (begin > 0) ranges.push({ begin, end });
  return ranges.reverse();
}

/** The largest power of two below `n`, which is at least 2. */
function largestPowerBelow(n: number): number {
  return 2 ** Math.floor(Math.log2(n - 1));
}

function provesInclusion(nodeHash: NodeHash, { index, size, leafHash, proof, root }: InclusionClaim): boolean {
  if (!isSize(index) || !isSize(size) || index >= size || !areHashes([leafHash, root]) || !areHashes(proof)) {
    return false;
  }
  let [at, last, hash] = [index, size - 1, leafHash];
  for (const sibling of proof) {
    if (last === 0) return false;
    if (at % 2 === 1 || at === last) {
      hash = nodeHash(sibling, hash);
      [at, last] = upToRightChild(at, last);
    } else {
      hash = nodeHash(hash, sibling);
    }
    [at, last] = [half(at), half(last)];
  }
  return last === 0 && hash === root;
}

function provesConsistency(nodeHash: NodeHash, claim: ConsistencyClaim): boolean {
  const { firstSize, secondSize, firstRoot, secondRoot, proof } = claim;
  if (!isSize(firstSize) || !isSize(secondSize) || firstSize > secondSize) return false;
  if (!areHashes(proof)) return false;
  // Nothing is hashed here: two trees of one size are the same where their roots are the same text.
  if (firstSize === secondSize && firstSize > 0) return firstRoot === secondRoot && proof.length === 0;
  if (!areHashes([firstRoot, secondRoot]) || (secondSize === 0 && secondRoot !== EMPTY_ROOT)) return false;
  if (firstSize === 0) return firstRoot === EMPTY_ROOT && proof.length === 0;
  if (proof.length === 0) return false;
  let [at, last] = [firstSize - 1, secondSize - 1];
  while (at % 2 === 1) [at, last] = [half(at), half(last)];
  // `at` is 0 exactly where the first size is a power of two: its root is then a node of the second tree.
  const [start, ...others] = at === 0 ? [firstRoot, ...proof] : proof;
  let [first, second] = [start as string, start as string];
  for (const sibling of others) {
    if (last === 0) return false;
    if (at % 2 === 1 || at === last) {
      first = nodeHash(sibling, first);
      second = nodeHash(sibling, second);
      [at, last] = upToRightChild(at, last);
    } else {
      second = nodeHash(second, sibling);
    }
    [at, last] = [half(at), half(last)];
  }
  return last === 0 && first === firstRoot && second === secondRoot;
}

/** Skips the levels on which a last node without a sibling stands for itself. */
function upToRightChild(at: number, last: number): [number, number] {
  while (at % 2 === 0 && at !== 0) [at, last] = [half(at), half(last)];
  return [at, last];
}

/** Not `>> 1`: sizes may have more than 31 bits. */
function half(n: number): number {
  return Math.floor(n / 2);
}

function isSize(n: unknown): n is number {
  return Number.isSafeInteger(n) && (n as number) >= 0;
}

function isHash(value: unknown): value is string {
  return typeof value === 'string' && /^[0-9a-f]{64}$/.test(value);
}

function areHashes(values: unknown): values is readonly string[] {
  return Array.isArray(values) && values.every(isHash);
}
