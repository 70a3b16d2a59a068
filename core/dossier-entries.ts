import { type Dossier, type DossierEntry, entriesOf } from './dossier.ts';
import { type Claims, entryName } from './dossier-claims.ts';
import { CHAIN_START, entryHash } from './evidence.ts';
import { canonicalize } from './jcs.ts';
import { verifyInclusion } from './merkle-noble.ts';

/** The tree that the entries must be in. */
export interface TreeOfEntries {
  readonly size: number;
  readonly root: string;
}

/** Checks every entry by itself and against the tree head (null: there is none), then how they follow each other. */
export function checkEntries(dossier: Dossier, head: TreeOfEntries | null, claims: Claims): void {
  for (const one of entriesOf(dossier)) {
    const problem = hashProblem(one);
    if (problem !== null) claims.failed('entry', `${entryName(one)} ${problem}`);
    else if (head === null)
      claims.unknown('entry', `${entryName(one)} is unchanged, but there is no tree to find it in.`);
    else checkInclusion(one, head, claims);
  }
  checkChain(dossier, claims);
}

function checkInclusion(one: DossierEntry, { size, root }: TreeOfEntries, claims: Claims): void {
  const { entry, hash, inclusion } = one;
  const proven = verifyInclusion({ index: entry.seq, size, leafHash: hash, proof: inclusion, root });
  const name = entryName(one);
  claims.either(
    'entry',
    proven ? null : `${name} is not proven to be in the log of ${size} entries.`,
    `${name} stands unchanged in the log of ${size} entries, of ${entry.at}.`,
  );
}

function hashProblem({ entry, hash }: DossierEntry): string | null {
  if (!isTime(entry.at)) return 'has a time that does not exist.';
  const body = canonicalize(entry.body);
  return entryHash({ ...entry, body }) === hash ? null : 'is not what was recorded: its hash is another.';
}

function isTime(at: string): boolean {
  const ms = Date.parse(at);
  return Number.isFinite(ms) && new Date(ms).toISOString() === at;
}

function checkChain(dossier: Dossier, claims: Claims): void {
  const sorted = entriesOf(dossier).sort((a, b) => a.entry.seq - b.entry.seq);
  let before: DossierEntry | null = null;
  let links = 0;
  for (const one of sorted) {
    const problem = linkProblem(dossier.receipt.account, before, one);
    if (problem !== null) {
      claims.failed('chain', `${entryName(one)} ${problem}`);
      return;
    }
    if (one.entry.seq === (before?.entry.seq ?? -1) + 1) links += 1;
    before = one;
  }
  claims.ok('chain', `The ${sorted.length} entries follow each other in number and time; ${links} of them directly.`);
}

function linkProblem(account: string, before: DossierEntry | null, { entry }: DossierEntry): string | null {
  if (entry.account !== account) return 'is of another account.';
  if (entry.seq === 0 && entry.prev !== CHAIN_START) return 'is the first, and yet follows another.';
  if (before === null) return null;
  if (entry.seq === before.entry.seq) return 'is in the file twice.';
  if (entry.at < before.entry.at) return `is older than entry ${before.entry.seq}, which comes before it.`;
  if (entry.seq !== before.entry.seq + 1 || entry.prev === before.hash) return null;
  return `does not follow entry ${before.entry.seq}: it names another hash before it.`;
}
