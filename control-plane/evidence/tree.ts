import { rootOfLeaves, rootOfNodes } from '../../core/merkle.ts';
import {
  consistencyRanges,
  EMPTY_ROOT,
  hashesOf,
  inclusionRanges,
  type LeafRange,
  type NodePlace,
  nodesOfRange,
  TILE_HEIGHT,
  TILE_WIDTH,
} from '../../core/merkle-tree.ts';
import type { Sql } from '../db/client.ts';

/** The evidence contradicts itself or what was signed; nothing is proven or signed until people have looked at it. */
export class EvidenceContradiction extends Error {
  override readonly name = 'EvidenceContradiction';
}

/** The tree of an account's first `size` entries; whoever makes one knows that there are so many. */
export interface EvidenceTree {
  readonly accountId: string;
  readonly size: number;
}

/** A tile of C2SP tlog-tiles: hashes `index` · 256 and on of the level, the first `width` of 256. */
export interface TilePlace {
  readonly level: number;
  readonly index: number;
  readonly width: number;
}

/** The tree's root (hex): a tile a level is read, whatever the size. */
export async function rootOf(sql: Sql, tree: EvidenceTree): Promise<string> {
  const [root] = await rangeRoots(sql, tree, tree.size === 0 ? [] : [{ begin: 0, end: tree.size }]);
  return root ?? EMPTY_ROOT;
}

/** The right edge of the tree (hex), the largest subtree first; see `edgeOf` of core/merkle-tree.ts. */
export function edgeHashesOf(sql: Sql, tree: EvidenceTree): Promise<string[]> {
  const nodes = nodesOfRange({ begin: 0, end: tree.size });
  return rangeRoots(
    sql,
    tree,
    nodes.map(({ level, index }) => ({ begin: index * 2 ** level, end: (index + 1) * 2 ** level })),
  );
}

/** The inclusion proof of entry `index` (hex); throws RangeError where the tree does not have it. */
export function inclusionProofOf(sql: Sql, tree: EvidenceTree, index: number): Promise<string[]> {
  return rangeRoots(sql, tree, inclusionRanges(index, tree.size));
}

/** The inclusion proofs of several entries, read at once; see {@link inclusionProofOf}. */
export async function inclusionProofsOf(
  sql: Sql,
  tree: EvidenceTree,
  indexes: readonly number[],
): Promise<readonly string[][]> {
  const ranges = indexes.map((index) => inclusionRanges(index, tree.size));
  const roots = await rangeRoots(sql, tree, ranges.flat());
  let at = 0;
  return ranges.map(({ length }) => {
    at += length;
    return roots.slice(at - length, at);
  });
}

/** The consistency proof from the first `firstSize` entries (hex); throws RangeError for a size outside 1..size. */
export function consistencyProofOf(sql: Sql, tree: EvidenceTree, firstSize: number): Promise<string[]> {
  return rangeRoots(sql, tree, consistencyRanges(firstSize, tree.size));
}

/** The hashes of a tile one behind the other, or null where the tree has none of that width. */
export async function tileOf(sql: Sql, tree: EvidenceTree, { level, index, width }: TilePlace): Promise<Buffer | null> {
  if (width < 1 || width > widthAt(tree.size, level, index)) return null;
  const [row] = await sql<{ hashes: Buffer }[]>`
    select evidence_tile(${tree.accountId}, ${level}, ${index * TILE_WIDTH}, ${width}) as hashes`;
  return whole(row?.hashes, tree, { level, index, width });
}

/** How many hashes a tile has in a tree of `size` entries: at most 256, and 0 or less where it has no such tile. */
export function widthAt(size: number, level: number, index: number): number {
  return Math.min(TILE_WIDTH, Math.floor(size / TILE_WIDTH ** level) - index * TILE_WIDTH);
}

/** The nodes of some ranges, from the tiles that hold what is below them, all read at once. */
async function rangeRoots(sql: Sql, tree: EvidenceTree, ranges: readonly LeafRange[]): Promise<string[]> {
  const nodes = ranges.map(nodesOfRange);
  const tiles = new Map<string, TilePlace>();
  for (const place of nodes.flat()) {
    const { level, index } = tileBelow(place);
    tiles.set(`${level} ${index}`, { level, index, width: widthAt(tree.size, level, index) });
  }
  const hashes = await readTiles(sql, tree, tiles);
  return nodes.map((places) => rootOfNodes(places.map((place) => nodeHash(hashes, place))));
}

async function readTiles(
  sql: Sql,
  tree: EvidenceTree,
  tiles: ReadonlyMap<string, TilePlace>,
): Promise<Map<string, readonly string[]>> {
  const places = [...tiles.values()];
  const rows = await sql<{ hashes: Buffer }[]>`
    select evidence_tile(${tree.accountId}, t.level, t.first, t.width) as hashes
    from unnest(${places.map(({ level }) => level)}::integer[],
      ${places.map(({ index }) => index * TILE_WIDTH)}::bigint[], ${places.map(({ width }) => width)}::integer[])
      with ordinality as t (level, first, width, n) order by t.n`;
  return new Map(
    [...tiles].map(([key, place], i) => [key, hashesOf(whole(rows[i]?.hashes, tree, place).toString('hex'))]),
  );
}

/** The tile whose hashes a node is computed from. */
function tileBelow({ level, index }: NodePlace): { level: number; index: number; inTile: number; width: number } {
  const width = 2 ** (level % TILE_HEIGHT);
  const first = index * width;
  const tile = Math.floor(first / TILE_WIDTH);
  return { level: Math.floor(level / TILE_HEIGHT), index: tile, inTile: first - tile * TILE_WIDTH, width };
}

function nodeHash(tiles: ReadonlyMap<string, readonly string[]>, place: NodePlace): string {
  const { level, index, inTile, width } = tileBelow(place);
  return rootOfLeaves(tiles.get(`${level} ${index}`)?.slice(inTile, inTile + width) ?? []);
}

/** Evidence is never missing: what is not there was taken away, and nothing may be proven with the rest. */
function whole(hashes: Buffer | undefined, tree: EvidenceTree, { level, index, width }: TilePlace): Buffer {
  if (hashes?.length === width * 32) return hashes;
  throw new EvidenceContradiction(
    `the tree of ${tree.accountId} lacks hashes of level ${level} from ${index * TILE_WIDTH} on`,
  );
}
