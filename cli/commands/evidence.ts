import { readFile } from 'node:fs/promises';
import type { Command } from 'commander';
import { CHAIN_START, type ChainHead, chainProblem, type StoredEntry } from '../../core/evidence.ts';
import type { AdminClient, JsonRecord } from '../admin-client.ts';
import { CliError, EXIT_USAGE, usageError } from '../cli-error.ts';
import { registerExport } from '../evidence-export.ts';
import { type FileOptions, verifyFiles } from '../evidence-file.ts';
import { type Invocation, recordOf, recordsOf } from '../invocation.ts';
import { printable, table } from '../output.ts';
import { Progress } from '../progress.ts';
import { type KnownHead, keptHead, readStatedHead, TreeCheck } from '../tree-check.ts';
import { registerSearch } from './evidence-search.ts';

const PAGE_ENTRIES = 1000;

const VERIFY_HELP = `
Exit codes: 0 intact, 1 not intact, 2 bad usage, 3 not proven (nothing failed, but a file was checked without --jwks).
`;

/** `mandate evidence …`: the append-only record of everything that was decided and changed. */
export function registerEvidence(program: Command, invocation: Invocation): void {
  const evidence = program.command('evidence').description('the hash-chained record of all that happened');
  evidence
    .command('list')
    .description('list entries in the order of the chain')
    .option('--from-seq <n>', 'begin at this entry')
    .option('--limit <n>', 'at most so many')
    .option('--kind <kind>', 'only this kind, such as decision or mandate.suspended')
    .action(async (options: { fromSeq?: string; limit?: string; kind?: string }) => {
      const query = new URLSearchParams();
      if (options.fromSeq !== undefined) query.set('from_seq', options.fromSeq);
      if (options.limit !== undefined) query.set('limit', options.limit);
      if (options.kind !== undefined) query.set('kind', options.kind);
      const path = `/admin/evidence${query.size > 0 ? `?${query}` : ''}`;
      invocation.show(await (await invocation.client()).get(path), (value) => entryTable(recordsOf(value, 'entries')));
    });
  registerSearch(evidence, invocation);
  evidence
    .command('verify')
    .argument('[file]', 'an exported file, checked offline; without it the live chain is')
    .argument('[file2]', 'a second one: whether nothing was rewritten between the two')
    .option('--jwks <file>', "the service's keys as you know them (/.well-known/jwks.json): who signed the files")
    .option('--tsa-ca <file>', 'PEM file of certificates that may issue the one of a timestamping authority')
    .option(
      '--checkpoint <file>',
      'for the live chain: a checkpoint that was kept elsewhere, to find out what was rewritten since',
    )
    .description('recompute every hash and the signed Merkle root here, of the live chain or of exported files')
    .addHelpText('after', VERIFY_HELP)
    .action((file: string | undefined, file2: string | undefined, options: FileOptions & { checkpoint?: string }) =>
      file === undefined ? verifyLive(invocation, options) : verifyFiles(invocation, [file, file2], options),
    );
  registerExport(evidence, invocation);
  evidence
    .command('log')
    .description('show the signed tree head of the evidence, and the key that its checkpoints are verified with')
    .action(async () => {
      const answer = await (await invocation.client()).get('/admin/evidence/log');
      invocation.show(answer, (value) =>
        [
          ...String(value['checkpoint'])
            .split('\n')
            .map((line) => `${printable(line)}\n`),
          `Verifier key: ${printable(String(value['verifier_key']))}`,
          `\nSigned at ${printable(String(value['at']))} over ${value['size']} entries.\n`,
        ].join(''),
      );
    });
}

async function verifyLive(invocation: Invocation, options: FileOptions & { checkpoint?: string }): Promise<void> {
  if (options.jwks !== undefined || options.tsaCa !== undefined) {
    throw usageError('--jwks and --tsa-ca are for exported files: name one.');
  }
  const file = options.checkpoint;
  const note = file === undefined ? null : await readCheckpointFile(file);
  const progress = new Progress(invocation.io, 'Checking evidence', !invocation.json);
  const onProgress = (done: number, all: number) => progress.update(done, all);
  const result = await verifyChain(await invocation.client(), onProgress, note);
  progress.end();
  if (result.broken !== null) throw brokenChain(result.broken);
  const { entries, hash, treeHead, kept } = result;
  const compared = kept === null ? {} : { kept_checkpoint: { size: kept.size, root: kept.root } };
  const text = JSON.stringify({ intact: true, entries, hash, tree_head: treeHead, ...compared });
  invocation.show(
    { text, value: {} },
    () =>
      `${entries} entries, chain intact (head ${hash})\n` +
      `The tree head of ${treeHead.size} entries signed at ${treeHead.at} is theirs (root ${treeHead.root}).\n` +
      (kept === null ? '' : `So is ${kept.what}: nothing before was rewritten since.\n`),
  );
}

async function readCheckpointFile(file: string): Promise<string> {
  try {
    return await readFile(file, 'utf8');
  } catch {
    throw new CliError(`The file ${printable(file)} cannot be read.`, { exitCode: EXIT_USAGE });
  }
}

/** The first entry at which a chain is broken; `id` is empty where there is no such entry. */
export interface Break {
  readonly seq: number;
  readonly id: string;
  readonly problem: string;
}

/** What verifying a chain found. */
export interface ChainResult {
  readonly entries: number;
  readonly hash: string;
  readonly treeHead: { readonly size: number; readonly root: string; readonly at: string };
  /** The head of the checkpoint that was kept, or null. */
  readonly kept: KnownHead | null;
  readonly broken: Break | null;
}

/**
 * Reads an account's chain from its beginning and checks each entry against the one before, the last one against the
 * head as it was told at the beginning, and the Merkle root over them against the tree head that the service signed;
 * entries that were appended meanwhile are left for the next time. `note`: a kept checkpoint, compared too.
 */
export async function verifyChain(
  client: AdminClient,
  onProgress: (done: number, all: number) => void = () => {},
  note: string | null = null,
): Promise<ChainResult> {
  const { account_id: accountId } = (await client.get('/admin/account')).value;
  const stated = await readStatedHead(client, String(accountId));
  const treeHead = { size: stated.size, root: stated.root, at: stated.at };
  const kept = note === null ? null : keptHead(note, String(accountId));
  const tree = new TreeCheck(client, stated, kept);
  // Told after the tree head, so that the chain has no fewer entries.
  const account = (await client.get('/admin/account')).value;
  const told = recordOf(account, 'evidence');
  const [size, hash] = [Number(told['size']), String(told['hash'])];
  let head: ChainHead = { size: 0, hash: CHAIN_START, atMs: 0 };
  const broken = (entry: { seq: number; id: string }, problem: string) => {
    return { entries: head.size, hash: head.hash, treeHead, kept, broken: { seq: entry.seq, id: entry.id, problem } };
  };
  while (head.size < size) {
    const page = await client.get(`/admin/evidence?from_seq=${head.size}&limit=${PAGE_ENTRIES}`);
    const entries = recordsOf(page.value, 'entries').slice(0, size - head.size);
    if (entries.length === 0) return broken({ seq: head.size, id: '' }, 'entry is missing');
    for (const item of entries) {
      const entry = storedEntry(item);
      if (entry === null) return broken({ seq: head.size, id: '' }, 'entry is not of the known form');
      const problem = entry.account === account['account_id'] ? chainProblem(head, entry) : 'of another account';
      if (problem !== null) return broken({ seq: head.size, id: entry.id }, problem);
      head = { size: head.size + 1, hash: entry.hash, atMs: Date.parse(entry.at) };
      tree.add(entry);
    }
    const differs = await tree.compareStored();
    if (differs !== null) return broken({ seq: differs.seq, id: '' }, differs.problem);
    onProgress(head.size, size);
  }
  if (head.hash !== hash) {
    return broken({ seq: head.size - 1, id: '' }, 'the head names another hash than the last entry has');
  }
  const differs = tree.end();
  if (differs !== null) return broken({ seq: differs.seq, id: '' }, differs.problem);
  return { entries: head.size, hash, treeHead, kept, broken: null };
}

/** An entry as `core/evidence.ts` checks it; its members are exactly what is hashed, so nothing else may be odd. */
function storedEntry(item: JsonRecord): StoredEntry | null {
  const { account, seq, id, kind, at, prev, body, hash } = item;
  const texts = [account, id, kind, at, prev, body, hash];
  if (!texts.every((value) => typeof value === 'string') || !Number.isSafeInteger(seq)) return null;
  const plain = [account, id, kind, at, prev].every((value) => /^[\x20-\x21\x23-\x5b\x5d-\x7e]*$/.test(String(value)));
  return plain ? (item as unknown as StoredEntry) : null;
}

function brokenChain(found: Break): CliError {
  const entry = found.id === '' ? `entry ${found.seq}` : `entry ${found.seq} (${printable(found.id)})`;
  return new CliError(`The chain is broken at ${entry}: ${found.problem}.`, {
    next: 'Everything before it is intact. Keep the database as it is and find out who could write to it.',
    json: JSON.stringify({ error: 'chain_broken', intact: false, ...found }),
  });
}

function entryTable(entries: readonly JsonRecord[]): string {
  if (entries.length === 0) return 'No entries.\n';
  const rows = entries.map((entry) => [entry['seq'], entry['at'], entry['kind'], summary(entry), entry['id']]);
  return table(['seq', 'at', 'kind', 'what', 'id'], rows, [0]);
}

/** How many forwards ended how: `3 booked, 1 unknown`. */
function outcomesText(outcomes: readonly { readonly outcome?: unknown }[]): string {
  const counts = new Map<string, number>();
  for (const { outcome } of outcomes) counts.set(String(outcome), (counts.get(String(outcome)) ?? 0) + 1);
  return [...counts].map(([outcome, count]) => `${count} ${outcome}`).join(', ');
}

/** The members of a body that say most, in a line. */
function summary(entry: JsonRecord): string {
  let body: unknown;
  try {
    body = JSON.parse(String(entry['body']));
  } catch {
    return '';
  }
  if (typeof body !== 'object' || body === null) return '';
  const values = body as Record<string, unknown>;
  if (Array.isArray(values['outcomes'])) return outcomesText(values['outcomes']);
  const telling = ['decision', 'code', 'outcome', 'name', 'mandate_id', 'instance_id', 'escalation_id', 'reason'];
  const shown = telling.map((name) => values[name]).filter((value) => typeof value === 'string' && value !== '');
  return shown.slice(0, 3).join(' ');
}
