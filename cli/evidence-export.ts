import { link, open, unlink } from 'node:fs/promises';
import type { Command } from 'commander';
import { ExportCheck, type ExportVerdict } from '../core/export-check.ts';
import { CliError, usageError } from './cli-error.ts';
import type { Invocation } from './invocation.ts';
import { bodyText, JsonText } from './json-text.ts';
import { fields } from './output.ts';
import { Progress } from './progress.ts';

interface ExportOptions {
  readonly out: string;
  readonly fromSeq?: string;
  readonly toSeq?: string;
  readonly format: string;
  readonly timestamp?: true;
}

const WHOLE = /^(?:0|[1-9][0-9]{0,15})$/;

/** `mandate evidence export`: the chain, or a part of it, as a file that can be checked without this service. */
export function registerExport(evidence: Command, invocation: Invocation): void {
  evidence
    .command('export')
    .requiredOption('--out <file>', 'the file to make; one that is there already is left alone')
    .option('--from-seq <n>', 'the first entry (default: 0)')
    .option('--to-seq <n>', "the last entry (default: the export's own)")
    .option('--format <format>', 'ndjson (a line an entry) or json', 'ndjson')
    .option('--timestamp', 'have the root timestamped (RFC 3161), where the service can')
    .description('write evidence to a file with a signed receipt; check it with `mandate evidence verify FILE`')
    .action((options: ExportOptions) => exportTo(invocation, options));
}

async function exportTo(invocation: Invocation, options: ExportOptions): Promise<void> {
  const seq = (option: string, value: string | undefined): JsonText | undefined => {
    if (value === undefined || WHOLE.test(value)) return value === undefined ? undefined : new JsonText(value);
    throw usageError(`${option} must be the number of an entry, such as 0.`);
  };
  const body = bodyText({
    from_seq: seq('--from-seq', options.fromSeq),
    to_seq: seq('--to-seq', options.toSeq),
    format: options.format,
    timestamp: options.timestamp,
  });
  const client = await invocation.client();
  const part = `${options.out}.part`;
  try {
    const verdict = await download(invocation, client.stream('/admin/evidence/export', body), part);
    await link(part, options.out);
    show(invocation, options.out, verdict);
  } catch (error) {
    throw fileError(error, options.out);
  } finally {
    await unlink(part).catch(() => {});
  }
}

/** Writes the file and checks it on the way: one that was cut off, or does not check, is not kept. */
async function download(
  invocation: Invocation,
  chunks: AsyncIterable<Uint8Array>,
  path: string,
): Promise<ExportVerdict> {
  const check = new ExportCheck(null);
  const progress = new Progress(invocation.io, 'Exporting evidence', !invocation.json);
  // Whoever may read evidence is for its owner to say.
  const file = await open(path, 'w', 0o600);
  try {
    for await (const chunk of chunks) {
      await file.writeFile(chunk);
      check.push(chunk);
      progress.update(check.entries, check.announced ?? 0);
    }
    await file.sync();
  } finally {
    await file.close();
    progress.end();
  }
  const verdict = await check.end();
  if (verdict.problem === null) return verdict;
  const { seq, problem } = verdict.problem;
  throw new CliError(`What came is no whole export: ${seq === null ? '' : `entry ${seq}: `}${problem}.`, {
    code: 'export_broken',
    next: 'Nothing was kept of it. Try again; if it happens again, check the live chain: mandate evidence verify',
  });
}

function show(invocation: Invocation, out: string, { entries, header, claims, trailer }: ExportVerdict): void {
  const told = {
    file: out,
    entries,
    from_seq: header?.fromSeq,
    to_seq: header?.toSeq,
    root: claims?.root,
    exported_at: claims?.at,
    timestamped: (trailer?.timestamp ?? null) !== null,
    ...(claims?.timestampProblem ? { timestamp_problem: claims.timestampProblem } : {}),
  };
  invocation.show({ text: JSON.stringify(told), value: {} }, () =>
    fields([
      ['file', told.file],
      ['entries', `${entries} (${told.from_seq} to ${told.to_seq}), chain and root checked`],
      ['root', told.root],
      ['timestamp', told.timestamped ? 'in the file' : (told.timestamp_problem ?? '')],
    ]),
  );
}

function fileError(error: unknown, out: string): unknown {
  if (error instanceof CliError || !(error instanceof Error) || !('code' in error)) return error;
  if (error.code === 'EEXIST') {
    return new CliError(`${out} is there already.`, { code: 'file_exists', next: 'Choose another --out.' });
  }
  return new CliError(`${out} cannot be written (${String(error.code)}).`, {
    code: 'file',
    next: 'Choose another --out.',
  });
}
