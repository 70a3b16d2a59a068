import { TILE_WIDTH } from '../../core/merkle-tree.ts';
import type { TilePlace } from './tree.ts';

/** A tile of hashes, or the bundle of the entries below a tile of level 0. */
export type TileRequest = TilePlace & { readonly of: 'hashes' | 'entries' };

/**
 * Reads `<L>/<N>[.p/<W>]` or `entries/<N>[.p/<W>]`, the one spelling that C2SP tlog-tiles gives a tile; else null.
 *
 * N is in groups of three digits, all but the last begin with `x` (`x001/x234/067`); W is 1 to 255, and 256 without it.
 */
export function readTilePath(path: string): TileRequest | null {
  const [, place = '', groups = '', width] =
    /^(entries|0|[1-9][0-9]?)\/((?:x[0-9]{3}\/)*[0-9]{3})(?:\.p\/([1-9][0-9]{0,2}))?$/.exec(path) ?? [];
  // A leading group of zeroes would be another name for the same tile.
  if (groups === '' || groups.startsWith('x000/')) return null;
  const index = Number(groups.replaceAll(/[x/]/g, ''));
  const level = place === 'entries' ? 0 : Number(place);
  const hashes = width === undefined ? TILE_WIDTH : Number(width);
  if (level > LEVEL_MAX || !Number.isSafeInteger(index) || (width !== undefined && hashes >= TILE_WIDTH)) return null;
  return { of: place === 'entries' ? 'entries' : 'hashes', level, index, width: hashes };
}

/** Beyond it a tree would have more than 256^6 entries, which no number here counts exactly. */
const LEVEL_MAX = 6;
