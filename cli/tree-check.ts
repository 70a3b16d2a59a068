import { readCheckpoint, verifyCheckpoint } from '../core/checkpoint.ts';
import { readPublicKey } from '../core/ed25519.ts';
import type { StoredEntry } from '../core/evidence.ts';
import { readJwks } from '../core/jwk.ts';
import { checkJws } from '../core/jws.ts';
import { appendLeaf, rootOfEdge } from '../core/merkle.ts';
import { EMPTY_ROOT, type NodePlace, type RightEdge, TILE_HEIGHT, TILE_WIDTH } from '../core/merkle-tree.ts';
import { readNote, readVerifierKey } from '../core/signed-note.ts';
import { readTreeHead, TREE_HEAD_TYPE } from '../core/tree-head.ts';
import type { AdminClient, JsonRecord } from './admin-client.ts';
import { CliError, EXIT_USAGE } from './cli-error.ts';
import { printable } from './output.ts';

/** A tree head that the entries are held to; `what`: as a message calls it. */
export interface KnownHead {
  readonly what: string;
  readonly size: number;
  readonly root: string;
}

/** The tree head that the service signed; `problem`: why it is not believed, or null. */
export interface StatedHead extends KnownHead {
  readonly at: string;
  readonly problem: string | null;
}

/** Where a tree is not that of the entries: the first entry below it. */
export interface TreeBreak {
  readonly seq: number;
  readonly problem: string;
}

/**
 * Reads the account's signed tree head and checks it: the ES256 token against the service's JWKS, the checkpoint
 * against the key that comes with it, and that both state the same.
 */
export async function readStatedHead(client: AdminClient, accountId: string): Promise<StatedHead> {
  const told = (await client.get('/admin/evidence/log')).value;
  const keys = readJwks(Buffer.from((await client.get('/.well-known/jwks.json')).text));
  const read = checkJws(String(told['receipt']), TREE_HEAD_TYPE, (kid) => keys?.get(kid) ?? null);
  const head = read.ok ? readTreeHead(read.payload) : null;
  const { size, root, at } = head ?? { size: 0, root: EMPTY_ROOT, at: '' };
  const stated = { what: `the tree head of ${size} entries that was signed at ${at}`, size, root, at };
  if (!read.ok) return { ...stated, problem: 'the tree head is not signed with a key of the service' };
  if (head === null || head.accountId !== accountId) {
    return { ...stated, problem: 'what is signed is no tree head of this account' };
  }
  return { ...stated, problem: await checkpointProblem(told, head) };
}

/**
 * The tree head of a checkpoint that somebody kept; who keeps it knows that it was signed, so that is not checked.
 *
 * @throws CliError where it is no checkpoint, or another account's
 */
export function keptHead(note: string, accountId: string): KnownHead {
  const read = readNote(note);
  const checkpoint = read === null ? null : readCheckpoint(read.text);
  if (checkpoint === null || !checkpoint.origin.endsWith(`/${accountId}`)) {
    const what = checkpoint === null ? 'no checkpoint' : `a checkpoint of another log, ${printable(checkpoint.origin)}`;
    throw new CliError(`The file is ${what}.`, {
      exitCode: EXIT_USAGE,
      next: `\`mandate evidence log --json\` of the account ${accountId} has one in \`checkpoint\`: keep it as it is.`,
    });
  }
  const { size, root } = checkpoint;
  return { what: `the checkpoint of ${size} entries that was kept`, size, root };
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
  readonly #stated: StatedHead;
  readonly #heads: readonly KnownHead[];
  /** The roots over as many entries as the heads cover, by size. */
  readonly #roots = new Map<number, string | null>();
  /** By level: the last tile of stored subtrees that was read. */
  readonly #tiles = new Map<number, { readonly index: number; readonly hashes: readonly unknown[] }>();
  #complete: (NodePlace & { readonly hash: string })[] = [];
  #edge: RightEdge | null = null;
  #size = 0;

  constructor(client: AdminClient, stated: StatedHead, kept: KnownHead | null) {
    this.#client = client;
    this.#stated = stated;
    this.#heads = kept === null ? [stated] : [stated, kept];
    for (const { size } of this.#heads) this.#roots.set(size, size === 0 ? EMPTY_ROOT : null);
  }

  /** Takes the next entry of the chain, whose hash is its own. */
  add({ hash }: Pick<StoredEntry, 'hash'>): void {
    this.#edge = appendLeaf(this.#edge, this.#size, hash, ({ level, index }, node) => {
      if (level % TILE_HEIGHT === 0) this.#complete.push({ level: level / TILE_HEIGHT, index, hash: node });
    });
    this.#size += 1;
    if (this.#roots.has(this.#size)) this.#roots.set(this.#size, rootOfEdge(this.#edge));
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

  /** Compares the roots over as many entries as the known heads cover with theirs. */
  end(): TreeBreak | null {
    if (this.#stated.problem !== null) return { seq: this.#stated.size, problem: this.#stated.problem };
    for (const { what, size, root } of this.#heads) {
      const found = this.#roots.get(size);
      if (found === root) continue;
      if (found === null) return { seq: this.#size, problem: `${what} covers more than the ${this.#size} there are` };
      const problem = `${what} is of other entries: this one or one before it was another then`;
      return { seq: Math.max(size - 1, 0), problem };
    }
    return null;
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
