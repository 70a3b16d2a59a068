import { verifyCheckpoint } from '../core/checkpoint.ts';
import { readPublicKey } from '../core/ed25519.ts';
import type { StoredEntry } from '../core/evidence.ts';
import { readJwks } from '../core/jwk.ts';
import { checkJws } from '../core/jws.ts';
import { appendLeaf, rootOfEdge } from '../core/merkle.ts';
import { EMPTY_ROOT, type NodePlace, type RightEdge, TILE_HEIGHT, TILE_WIDTH } from '../core/merkle-tree.ts';
import { readVerifierKey } from '../core/signed-note.ts';
import { readTreeHead, TREE_HEAD_TYPE } from '../core/tree-head.ts';
import type { AdminClient, JsonRecord } from './admin-client.ts';

/** A tree head that the service signed; `problem`: why it is not believed, or null. */
export interface StatedHead {
  readonly size: number;
  readonly root: string;
  readonly at: string;
  readonly problem: string | null;
}

/** Where a tree is not that of the entries: the first entry below it. */
export interface TreeBreak {
  readonly seq: number;
  readonly problem: string;
}

/**
 * Reads the account's signed tree head and checks it: the ES256 token against the service's JWKS, the checkpoint against
 * the key that comes with it, and that both state the same.
 */
export async function readStatedHead(client: AdminClient, accountId: string): Promise<StatedHead> {
  const told = (await client.get('/admin/evidence/log')).value;
  const keys = readJwks(Buffer.from((await client.get('/.well-known/jwks.json')).text));
  const read = checkJws(String(told['receipt']), TREE_HEAD_TYPE, (kid) => keys?.get(kid) ?? null);
  const head = read.ok ? readTreeHead(read.payload) : null;
  const { size, root, at } = head ?? { size: 0, root: EMPTY_ROOT, at: '' };
  if (!read.ok) return { size, root, at, problem: 'the tree head is not signed with a key of the service' };
  if (head === null || head.accountId !== accountId) {
    return { size, root, at, problem: 'what is signed is no tree head of this account' };
  }
  return { size, root, at, problem: await checkpointProblem(told, head) };
}

async function checkpointProblem(told: JsonRecord, head: { size: number; root: string }): Promise<string | null> {
  const key = readVerifierKey(String(told['verifier_key']));
  const read = key === null ? null : await verifyCheckpoint(String(told['checkpoint']), key, [], readPublicKey);
  if (read?.ok !== true) return 'the checkpoint is not signed with its verifier key';
  const { size, root } = read.checkpoint;
  return size === head.size && root === head.root ? null : 'the checkpoint states another tree head than the token';
}

/** Builds the tree of the entries that pass by, in constant memory, and compares what the service stores of it. */
export class TreeCheck {
  readonly #client: AdminClient;
  readonly #head: StatedHead;
  /** By level: the last tile of stored subtrees that was read. */
  readonly #tiles = new Map<number, { readonly index: number; readonly hashes: readonly unknown[] }>();
  #complete: (NodePlace & { readonly hash: string })[] = [];
  #edge: RightEdge | null = null;
  #size = 0;
  #rootThen: string | null;

  constructor(client: AdminClient, head: StatedHead) {
    this.#client = client;
    this.#head = head;
    this.#rootThen = head.size === 0 ? EMPTY_ROOT : null;
  }

  /** Takes the next entry of the chain, whose hash is its own. */
  add({ hash }: Pick<StoredEntry, 'hash'>): void {
    this.#edge = appendLeaf(this.#edge, this.#size, hash, ({ level, index }, node) => {
      if (level % TILE_HEIGHT === 0) this.#complete.push({ level: level / TILE_HEIGHT, index, hash: node });
    });
    this.#size += 1;
    if (this.#size === this.#head.size) this.#rootThen = rootOfEdge(this.#edge);
  }

  /** Compares the subtrees that became complete since the last time with those that are stored. */
  async compareStored(): Promise<TreeBreak | null> {
    const complete = this.#complete;
    this.#complete = [];
    for (const { level, index, hash } of complete) {
      if ((await this.#stored(level, index)) === hash) continue;
      const width = TILE_WIDTH ** level;
      const entries = `the entries ${index * width} to ${(index + 1) * width - 1}`;
      return { seq: index * width, problem: `the stored subtree of level ${level} over ${entries} is not their root` };
    }
    return null;
  }

  /** Compares the root over as many entries as the signed tree head covers with what was signed. */
  end(): TreeBreak | null {
    const { size, root, at, problem } = this.#head;
    if (problem !== null) return { seq: size, problem };
    const head = `the tree head of ${size} entries that was signed at ${at}`;
    if (this.#rootThen === null)
      return { seq: this.#size, problem: `${head} covers more than the ${this.#size} there are` };
    if (this.#rootThen === root) return null;
    return {
      seq: size - 1,
      problem: `${head} is of other entries: this one or one before it was not so when it was signed`,
    };
  }

  async #stored(level: number, index: number): Promise<unknown> {
    const tile = Math.floor(index / TILE_WIDTH);
    let known = this.#tiles.get(level);
    if (known?.index !== tile) {
      const { value } = await this.#client.get(`/admin/evidence/subtrees?level=${level}&index=${tile}`);
      known = { index: tile, hashes: Array.isArray(value['hashes']) ? value['hashes'] : [] };
      this.#tiles.set(level, known);
    }
    return known.hashes[index - tile * TILE_WIDTH];
  }
}
