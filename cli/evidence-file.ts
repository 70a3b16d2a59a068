import { createReadStream } from 'node:fs';
import { readFile, stat } from 'node:fs/promises';
import { ExportCheck, type ExportProblem, type ExportVerdict, type PinnedKeys } from '../core/export-check.ts';
import { compareExports, type ExportComparison } from '../core/export-compare.ts';
import { readJwks } from '../core/jwk.ts';
import type { TimestampVerdict } from '../core/timestamp-token.ts';
import { CheckedOtherwise, CliError, EXIT_INCOMPLETE, usageError } from './cli-error.ts';
import type { Invocation } from './invocation.ts';
import { fields, printable } from './output.ts';
import { Progress } from './progress.ts';

export interface FileOptions {
  readonly jwks?: string;
  readonly tsaCa?: string;
}

const CHUNK_BYTES = 1024 * 1024;

/**
 * `mandate evidence verify FILE [FILE2]`: exported files against the keys that one trusts, without any network.
 *
 * @throws CheckedOtherwise exit code 3 where nothing failed, and no keys were named
 */
export async function verifyFiles(
  invocation: Invocation,
  [file, file2]: readonly [string, string | undefined],
  options: FileOptions,
): Promise<void> {
  const keys = await pinnedKeys(options.jwks);
  if (file2 === undefined) await verifyOne(invocation, file, { keys, options });
  else await verifyTwo(invocation, [file, file2], { keys, options });
}

interface Trusted {
  readonly keys: PinnedKeys;
  readonly options: FileOptions;
}

async function verifyOne(invocation: Invocation, file: string, { keys, options }: Trusted): Promise<void> {
  const check = new ExportCheck(keys);
  const progress = new Progress(invocation.io, 'Checking', !invocation.json);
  for await (const chunk of chunksOf(file)) {
    check.push(chunk);
    if (check.failed) break;
    progress.update(check.entries, check.announced ?? 0);
  }
  progress.end();
  const verdict = await check.end();
  const stamp = await timestampOf(verdict, options);
  const told = tellOne(file, verdict, stamp);
  const problem = verdict.problem ?? stampProblem(stamp);
  if (problem !== null) throw broken(file, problem, { intact: false, files: [told] });
  invocation.show({ text: JSON.stringify({ intact: true, files: [told] }), value: {} }, () =>
    card(file, verdict, stamp),
  );
  requireProof([verdict]);
}

async function verifyTwo(
  invocation: Invocation,
  [file, file2]: readonly [string, string],
  { keys, options }: Trusted,
): Promise<void> {
  await Promise.all(
    [file, file2].map((one) => stat(one).catch((error: unknown) => Promise.reject(unreadable(one, error)))),
  );
  const compared = await compareExports(chunksOf(file), chunksOf(file2), keys);
  const { first, second, common, differs } = compared;
  const stamps = [await timestampOf(first, options), await timestampOf(second, options)] as const;
  const files = [tellOne(file, first, stamps[0]), tellOne(file2, second, stamps[1])];
  const told = {
    files,
    common: common === null ? null : { from_seq: common.fromSeq, to_seq: common.toSeq },
    differs: differs === null ? null : { seq: differs.seq, first: differs.firstId, second: differs.secondId },
  };
  const failed = { intact: false, consistent: false, ...told };
  for (const [name, { problem }, stamp] of [
    [file, first, stamps[0]],
    [file2, second, stamps[1]],
  ] as const) {
    const wrong = problem ?? stampProblem(stamp);
    if (wrong !== null && differs === null) throw broken(name, wrong, failed);
  }
  const contradiction = contradictionOf(compared);
  if (contradiction !== null) throw inconsistent(contradiction, failed);
  const text = JSON.stringify({ intact: true, consistent: true, ...told });
  invocation.show({ text, value: {} }, () => {
    const shared =
      common === null
        ? 'The second file continues the first'
        : `Entries ${common.fromSeq} to ${common.toSeq} are in both and the same`;
    return `${card(file, first, stamps[0])}\n${card(file2, second, stamps[1])}\n${shared}: nothing was rewritten.\n`;
  });
  requireProof([first, second]);
}

/** A file whose signer nobody checked is no proof: anybody can make one that is consistent. */
function requireProof(verdicts: readonly ExportVerdict[]): void {
  if (verdicts.some(({ signature }) => signature !== 'valid')) throw new CheckedOtherwise(EXIT_INCOMPLETE);
}

function contradictionOf({ first, second, differs, problem }: ExportComparison): string | null {
  if (differs === null) return problem === null ? null : `The files do not fit together: ${problem}.`;
  const ids = differs.firstId === differs.secondId ? differs.firstId : `${differs.firstId} and ${differs.secondId}`;
  const signed = [first, second].every(({ intact, signature }) => intact && signature === 'valid');
  const by = signed ? ' Both files are signed by the service: it has told two histories.' : '';
  return `Entry ${differs.seq} (${printable(ids)}) is not the same in both files, the first that is not.${by}`;
}

async function* chunksOf(file: string): AsyncGenerator<Uint8Array> {
  try {
    yield* createReadStream(file, { highWaterMark: CHUNK_BYTES });
  } catch (error) {
    throw unreadable(file, error);
  }
}

function unreadable(file: string, error: unknown): CliError {
  const code = error instanceof Error && 'code' in error ? ` (${String(error.code)})` : '';
  return new CliError(`${file} cannot be read${code}.`, {
    code: 'file',
    next: 'Name a file that `mandate evidence export` made.',
  });
}

async function pinnedKeys(path: string | undefined): Promise<PinnedKeys> {
  if (path === undefined) return null;
  const bytes = await readFile(path).catch((error: unknown) => Promise.reject(unreadable(path, error)));
  const keys = readJwks(bytes);
  if (keys !== null) return keys;
  throw usageError(`${path} is not the JWKS of a service.`, 'Keep what it answers at /.well-known/jwks.json.');
}

/** The timestamp of a file checked against its root; null where it has none. */
async function timestampOf(
  { trailer, claims, intact }: ExportVerdict,
  options: FileOptions,
): Promise<TimestampVerdict | null> {
  const token = trailer?.timestamp ?? null;
  if (token === null || claims === null || !intact) return null;
  // Loaded for those only who have one: it is a large library.
  const [{ checkTimestampToken }, { readTrustAnchors }] = await Promise.all([
    import('../core/timestamp-token.ts'),
    import('../core/certificate.ts'),
  ]);
  const path = options.tsaCa;
  const pem =
    path === undefined
      ? null
      : await readFile(path, 'utf8').catch((error: unknown) => Promise.reject(unreadable(path, error)));
  return checkTimestampToken(Buffer.from(token, 'base64'), {
    ...{ digest: Buffer.from(claims.root, 'hex'), nonce: null, clock: null },
    anchors: pem === null ? [] : readTrustAnchors(pem),
  });
}

function stampProblem(stamp: TimestampVerdict | null): ExportProblem | null {
  return stamp === null || stamp.valid ? null : { seq: null, id: null, problem: `the timestamp: ${stamp.problem}` };
}

function tellOne(file: string, verdict: ExportVerdict, stamp: TimestampVerdict | null) {
  const { intact, problem, entries, header, claims, signature } = verdict;
  return {
    ...{ file, intact, entries, signature, account: header?.account ?? null },
    ...{ from_seq: header?.fromSeq ?? null, to_seq: header?.toSeq ?? null },
    ...{ root: claims?.root ?? null, exported_at: claims?.at ?? null, issuer: claims?.issuer ?? null },
    ...(problem === null ? {} : { seq: problem.seq, id: problem.id, problem: problem.problem }),
    timestamp: stamp === null ? null : stamp.valid ? { gen_time: stamp.genTime, tsa: stamp.tsa } : stamp.problem,
  };
}

function card(
  file: string,
  { entries, header, claims, signature }: ExportVerdict,
  stamp: TimestampVerdict | null,
): string {
  const unchecked =
    stamp?.valid === true && stamp.checked.includes('chain') ? '' : ', its authority not checked (no --tsa-ca)';
  return fields([
    ['file', file],
    ['account', header?.account],
    ['entries', `${entries} (${header?.fromSeq} to ${header?.toSeq}), every hash and the root recomputed`],
    ['root', claims?.root],
    ['exported', claims?.at],
    [
      'receipt',
      signature === 'valid'
        ? `signed by ${claims?.issuer} with a key you pinned`
        : 'WHO SIGNED IT WAS NOT CHECKED: name the keys you trust with --jwks',
    ],
    ['timestamp', stamp?.valid === true ? `${stamp.genTime} by ${stamp.tsa}${unchecked}` : ''],
  ]);
}

function broken(file: string, { seq, id, problem }: ExportProblem, told: object): CliError {
  const entry = seq === null ? '' : ` entry ${seq}${id === null ? '' : ` (${printable(id)})`}:`;
  return new CliError(`${file} is not as it was exported:${entry} ${printable(problem)}.`, {
    next: 'Compare it with another export of the same account: mandate evidence verify FILE FILE2',
    json: JSON.stringify({ error: 'export_broken', ...told }),
  });
}

function inconsistent(message: string, told: object): CliError {
  return new CliError(message, {
    next: 'Keep both files: together they show that the evidence was rewritten.',
    json: JSON.stringify({ error: 'exports_contradict', ...told }),
  });
}
