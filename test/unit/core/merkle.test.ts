import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import fc from 'fast-check';
import t from 'tap';
import * as native from '../../../core/merkle.ts';
import * as noble from '../../../core/merkle-noble.ts';
import {
  EMPTY_ROOT,
  edgeHashes,
  edgeOf,
  type MerkleTree,
  type NodePlace,
  nodesOfRange,
  type RightEdge,
} from '../../../core/merkle-tree.ts';

const VECTORS = new URL('../../../../shared/vectors/merkle/', import.meta.url);
const ENGINES: [string, MerkleTree][] = [
  ['node:crypto', native],
  ['noble', noble],
];

const sha256 = (...parts: Uint8Array[]): Buffer => createHash('sha256').update(Buffer.concat(parts)).digest();
const leaf = (i: number): string => sha256(Buffer.of(0), Buffer.from(`entry ${i}`)).toString('hex');
const LEAVES = Array.from({ length: 300 }, (_, i) => leaf(i));

/** MTH of RFC 6962 §2.1, word for word: what the engines are held to. */
function mth(leaves: readonly string[]): string {
  if (leaves.length === 0) return sha256().toString('hex');
  if (leaves.length === 1) return leaves[0]!;
  let k = 1;
  while (k * 2 < leaves.length) k *= 2;
  const [left, right] = [mth(leaves.slice(0, k)), mth(leaves.slice(k))];
  return sha256(Buffer.of(1), Buffer.from(left, 'hex'), Buffer.from(right, 'hex')).toString('hex');
}

/** PATH of RFC 6962 §2.1.1, word for word. */
function path(m: number, leaves: readonly string[]): string[] {
  if (leaves.length === 1) return [];
  let k = 1;
  while (k * 2 < leaves.length) k *= 2;
  const [left, right] = [leaves.slice(0, k), leaves.slice(k)];
  return m < k ? [...path(m, left), mth(right)] : [...path(m - k, right), mth(left)];
}

/** SUBPROOF of RFC 6962 §2.1.2, word for word. */
function subproof(m: number, leaves: readonly string[], b: boolean): string[] {
  if (m === leaves.length) return b ? [] : [mth(leaves)];
  let k = 1;
  while (k * 2 < leaves.length) k *= 2;
  const [left, right] = [leaves.slice(0, k), leaves.slice(k)];
  return m <= k ? [...subproof(m, left, b), mth(right)] : [...subproof(m - k, right, false), mth(left)];
}

interface Vector {
  readonly leafIdx?: number;
  readonly treeSize?: number;
  readonly size1?: number;
  readonly size2?: number;
  readonly leafHash?: string;
  readonly root?: string;
  readonly root1?: string;
  readonly root2?: string;
  readonly proof: readonly string[] | null;
  readonly wantErr: boolean;
}

const hex = (base64: string | undefined): string => Buffer.from(base64 ?? '', 'base64').toString('hex');

function verdict(engine: MerkleTree, vector: Vector): boolean {
  const proof = (vector.proof ?? []).map(hex);
  if (vector.treeSize !== undefined) {
    const { leafIdx: index = -1, treeSize: size } = vector;
    return engine.verifyInclusion({ index, size, leafHash: hex(vector.leafHash), proof, root: hex(vector.root) });
  }
  const { size1: firstSize = -1, size2: secondSize = -1 } = vector;
  const [firstRoot, secondRoot] = [hex(vector.root1), hex(vector.root2)];
  return engine.verifyConsistency({ firstSize, secondSize, firstRoot, secondRoot, proof });
}

t.test(
  "the proofs of transparency-dev's test data are judged as they say",
  { skip: existsSync(VECTORS) ? false : 'the test vectors are not beside this checkout' },
  async (t) => {
    const files = readdirSync(VECTORS, { recursive: true, encoding: 'utf8' }).filter((name) => name.endsWith('.json'));
    t.ok(files.length >= 196, 'all vectors are there');
    for (const file of files) {
      const vector = JSON.parse(readFileSync(new URL(encodeURI(file), VECTORS), 'utf8')) as Vector;
      for (const [name, engine] of ENGINES) t.equal(verdict(engine, vector), !vector.wantErr, `${file} (${name})`);
    }
  },
);

t.test('roots and proofs are those of RFC 6962 at every size', async (t) => {
  for (let size = 0; size <= 70; size++) {
    const leaves = LEAVES.slice(0, size);
    const root = mth(leaves);
    for (const [, engine] of ENGINES) t.equal(engine.rootOfLeaves(leaves), root);
    for (let index = 0; index < size; index++) {
      const proof = native.inclusionProof(leaves, index);
      t.same(proof, path(index, leaves));
      t.ok(native.verifyInclusion({ index, size, leafHash: leaves[index]!, proof, root }));
    }
    for (let firstSize = 1; firstSize <= size; firstSize++) {
      const proof = native.consistencyProof(leaves, firstSize);
      t.same(proof, subproof(firstSize, leaves, true));
      const firstRoot = mth(leaves.slice(0, firstSize));
      t.ok(native.verifyConsistency({ firstSize, secondSize: size, firstRoot, secondRoot: root, proof }));
    }
  }
  t.equal(native.rootOfLeaves([]), EMPTY_ROOT);
});

t.test('an edge appends in any portions, tells what it completes, and survives being stored', async (t) => {
  let edge: RightEdge | null = null;
  const complete = new Map<string, string>();
  const heard = ({ level, index }: NodePlace, hash: string) => complete.set(`${level} ${index}`, hash);
  for (const [size, hash] of LEAVES.entries()) {
    const before: RightEdge | null = edge;
    edge = native.appendLeaf(edgeOf(size, edgeHashes(edge)), size, hash, heard);
    t.equal(native.rootOfEdge(edge), mth(LEAVES.slice(0, size + 1)));
    t.equal(native.rootOfEdge(before), mth(LEAVES.slice(0, size)), 'the edge before is as it was');
  }
  t.equal(complete.size, 150 + 75 + 37 + 18 + 9 + 4 + 2 + 1);
  for (const [place, hash] of complete) {
    const [level, index] = place.split(' ').map(Number) as [number, number];
    t.equal(hash, mth(LEAVES.slice(index * 2 ** level, (index + 1) * 2 ** level)), place);
  }
  t.throws(() => edgeOf(3, [leaf(0)]), RangeError);
  t.throws(() => edgeOf(1, ['0']), RangeError);
});

t.test('a range that a tree has a node for is made of few complete subtrees, also far to the right', async (t) => {
  t.same(nodesOfRange({ begin: 0, end: 0 }), []);
  t.same(nodesOfRange({ begin: 4, end: 7 }), [
    { level: 1, index: 2 },
    { level: 0, index: 6 },
  ]);
  const size = 2 ** 52 + 2 ** 40 + 1;
  t.same(nodesOfRange({ begin: 0, end: size }), [
    { level: 52, index: 0 },
    { level: 40, index: 2 ** 12 },
    { level: 0, index: size - 1 },
  ]);
});

const trees = fc.integer({ min: 2, max: LEAVES.length }).chain((size) =>
  fc.record({
    size: fc.constant(size),
    index: fc.integer({ min: 0, max: size - 1 }),
    other: fc.integer({ min: 0, max: 400 }),
    firstSize: fc.integer({ min: 1, max: size - 1 }),
    flip: fc.nat(),
    digit: fc.nat({ max: 63 }),
  }),
);

/** The hash with one digit changed. */
function changed(hash: string, digit: number): string {
  const flipped = (Number.parseInt(hash[digit]!, 16) ^ 1).toString(16);
  return hash.slice(0, digit) + flipped + hash.slice(digit + 1);
}

t.test('an inclusion proof holds for its leaf, place, size and root only', async (t) => {
  const property = fc.property(trees, ({ size, index, other, flip, digit }) => {
    const leaves = LEAVES.slice(0, size);
    const proof = native.inclusionProof(leaves, index);
    const claim = { index, size, leafHash: leaves[index]!, proof, root: native.rootOfLeaves(leaves) };
    const wrong = [
      { ...claim, leafHash: changed(claim.leafHash, digit) },
      { ...claim, root: changed(claim.root, digit) },
      { ...claim, proof: proof.map((hash, i) => (i === flip % proof.length ? changed(hash, digit) : hash)) },
      { ...claim, proof: proof.slice(0, -1) },
      { ...claim, proof: [...proof, claim.root] },
      { ...claim, proof: [claim.leafHash, ...proof] },
      ...(other === index ? [] : [{ ...claim, index: other }]),
    ];
    return ENGINES.every(
      ([, engine]) => engine.verifyInclusion(claim) && !wrong.some((one) => engine.verifyInclusion(one)),
    );
  });
  fc.assert(property, { numRuns: 200 });
  t.pass('none of the changed claims was accepted');
});

t.test('a consistency proof holds for its two trees only', async (t) => {
  const property = fc.property(trees, ({ size, firstSize, flip, digit }) => {
    const leaves = LEAVES.slice(0, size);
    const proof = native.consistencyProof(leaves, firstSize);
    const firstRoot = native.rootOfLeaves(leaves.slice(0, firstSize));
    const secondRoot = native.rootOfLeaves(leaves);
    const claim = { firstSize, secondSize: size, firstRoot, secondRoot, proof };
    const forked = leaves.map((hash, i) => (i === flip % firstSize ? changed(hash, digit) : hash));
    const wrong = [
      { ...claim, firstRoot: changed(firstRoot, digit) },
      { ...claim, secondRoot: changed(secondRoot, digit) },
      { ...claim, firstRoot: secondRoot },
      { ...claim, proof: proof.map((hash, i) => (i === flip % proof.length ? changed(hash, digit) : hash)) },
      { ...claim, proof: proof.slice(1) },
      { ...claim, proof: [...proof, secondRoot] },
      { ...claim, secondRoot: native.rootOfLeaves(forked), proof: native.consistencyProof(forked, firstSize) },
    ];
    return ENGINES.every(
      ([, engine]) => engine.verifyConsistency(claim) && !wrong.some((one) => engine.verifyConsistency(one)),
    );
  });
  fc.assert(property, { numRuns: 200 });
  t.pass('none of the changed claims was accepted');
});

t.test('what is no hash or no size proves nothing, and never throws', async (t) => {
  const leafHash = leaf(0);
  const one = { index: 0, size: 1, leafHash, proof: [], root: leafHash };
  const same = { firstSize: 1, secondSize: 1, firstRoot: leafHash, secondRoot: leafHash, proof: [] };
  t.ok(native.verifyInclusion(one));
  t.ok(native.verifyConsistency(same));
  const strange = [Number.NaN, -1, 0.5, 2 ** 53, Infinity, '1', null] as number[];
  for (const size of strange) {
    t.notOk(native.verifyInclusion({ ...one, size }), `size ${size}`);
    t.notOk(native.verifyInclusion({ ...one, index: size }), `index ${size}`);
    t.notOk(native.verifyConsistency({ ...same, firstSize: size, secondSize: size }), `sizes ${size}`);
  }
  const upper = leafHash.toUpperCase();
  t.notOk(native.verifyInclusion({ ...one, leafHash: upper, root: upper }), 'other spellings are not the same hash');
  for (const proof of [null, 'x', {}, [''], [leafHash.slice(1)]] as string[][]) {
    t.notOk(native.verifyInclusion({ ...one, proof }));
    t.notOk(native.verifyConsistency({ ...same, firstSize: 0, firstRoot: EMPTY_ROOT, proof }));
  }
  t.ok(native.verifyConsistency({ ...same, firstSize: 0, firstRoot: EMPTY_ROOT }));
  t.notOk(native.verifyConsistency({ ...same, firstSize: 0 }), 'an empty tree has the root of nothing');
  t.throws(() => native.inclusionProof([leafHash], 1), RangeError);
  t.throws(() => native.consistencyProof([leafHash], 0), RangeError);
  t.throws(() => native.rootOfNodes([]), RangeError);
});
