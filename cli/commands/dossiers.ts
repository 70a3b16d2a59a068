import { readFile, stat } from 'node:fs/promises';
import type { Command } from 'commander';
import { checkDossier, type DossierReport, type DossierSummary } from '../../core/dossier-check.ts';
import { bothTrusted, NO_TRUST, readPinnedJwks, readTrustFile, type Trust } from '../../core/dossier-trust.ts';
import { DOSSIER_MAX_BYTES, TRUST_FILE_MAX_BYTES } from '../../core/limits.ts';
import { CheckedOtherwise, CliError, EXIT_DONE, EXIT_FAILED, EXIT_INCOMPLETE, usageError } from '../cli-error.ts';
import { CLAIM_TITLES, RESULT_WORDS, VERDICT_TEXTS } from '../dossier-words.ts';
import type { Invocation } from '../invocation.ts';
import { writeNew } from '../new-file.ts';
import { cell, fields, printable, table } from '../output.ts';
import { idArgument } from './arguments.ts';

const CHECK_HELP = `
Nothing is sent and nothing is asked: the file, and the keys that you pin, are all that is looked at. Pin the keys of
the service from somewhere else than the dossier:

  curl -O https://service.example/.well-known/jwks.json      while you trust the connection; keep the file
  mandate signing-keys export --out jwks.json                whoever runs the service

A trust file also pins logs, witnesses and timestamping authorities: docs/evidence.md.

Exit codes: 0 accepted, 1 rejected, 2 bad usage, 3 not proven (nothing failed, but no key is pinned).
`;

/** `mandate dossier …`: everything about one decision, fetched, checked offline, and the page that checks it. */
export function registerDossiers(program: Command, invocation: Invocation): void {
  const dossier = program.command('dossier').description('all about one decision, for whoever doubts it');
  dossier
    .command('get')
    .argument('<receipt-id>', 'receipt (rcp_…)')
    .requiredOption('--out <file>', 'a new file for the dossier')
    .option('--mat <token>', 'the mat_compact of the decision: then MANDATE_API_KEY is used and not your session')
    .description('fetch the dossier of a receipt')
    .action((id: string, options: { out: string; mat?: string }) => get(invocation, id, options));
  dossier
    .command('check')
    .argument('<file>', 'the dossier')
    .option('--jwks <file>', "the service's keys, from elsewhere than the dossier")
    .option('--trust <file>', 'a trust file: keys of the service, its log, witnesses, timestamping authorities')
    .description('check a dossier offline, claim by claim, and decide again')
    .addHelpText('after', CHECK_HELP)
    .action((file: string, options: { jwks?: string; trust?: string }) => check(invocation, file, options));
  dossier
    .command('page')
    .requiredOption('--out <file>', 'a new HTML file')
    .description('write the checker as one HTML file that works without network')
    .action(({ out }: { out: string }) => page(invocation, out));
}

async function get(invocation: Invocation, id: string, { out, mat }: { out: string; mat?: string }): Promise<void> {
  const receiptId = idArgument(id, 'rcp');
  const answer =
    mat === undefined
      ? await (await invocation.client()).get(`/admin/verifications/${receiptId}/dossier`)
      : await service(invocation).get(`/api/v1/verifications/${receiptId}/dossier?mat=${encodeURIComponent(mat)}`);
  await writeNew(out, answer.text);
  const text = JSON.stringify({ receipt_id: receiptId, file: out, bytes: Buffer.byteLength(answer.text) });
  invocation.show({ text, value: {} }, () => `${out} holds the dossier of ${receiptId}.\n`);
  invocation.note(`Check it anywhere: mandate dossier check ${out} --jwks <the keys you pinned>`);
}

function service(invocation: Invocation) {
  const client = invocation.service();
  if (client !== null) return client;
  throw usageError('With --mat an API key with the scope evidence:read is needed.', 'Set MANDATE_API_KEY.');
}

async function check(invocation: Invocation, file: string, options: { jwks?: string; trust?: string }): Promise<void> {
  const bytes = await readBounded(file, DOSSIER_MAX_BYTES);
  const report = await checkDossier(bytes, await trustOf(options));
  const exitCode = { accepted: EXIT_DONE, rejected: EXIT_FAILED, incomplete: EXIT_INCOMPLETE }[report.verdict];
  invocation.show({ text: JSON.stringify(report), value: {} }, () => reportText(report));
  if (exitCode !== EXIT_DONE) throw new CheckedOtherwise(exitCode);
}

async function trustOf({ jwks, trust }: { jwks?: string; trust?: string }): Promise<Trust> {
  const given = [
    ...(jwks === undefined ? [] : [[jwks, readPinnedJwks] as const]),
    ...(trust === undefined ? [] : [[trust, readTrustFile] as const]),
  ];
  let all = NO_TRUST;
  for (const [file, read] of given) {
    const reading = read(await readBounded(file, TRUST_FILE_MAX_BYTES));
    if (!reading.ok) throw usageError(`${file}: ${printable(reading.problem)}`, 'See docs/evidence.md for the form.');
    all = bothTrusted(all, reading.trust);
  }
  return all;
}

function reportText({ verdict, claims, summary }: DossierReport): string {
  const { title, text } = VERDICT_TEXTS[verdict];
  const rows = claims.map(({ name, result, sentence }) => [RESULT_WORDS[result], CLAIM_TITLES[name], sentence]);
  const said = summary === null ? '' : `${summaryText(summary)}\n`;
  return `${title}. ${text}\n\n${said}${table(['RESULT', 'CLAIM', 'WHAT WAS FOUND'], rows)}`;
}

function summaryText(summary: DossierSummary): string {
  return fields([
    ['decision', summary.code === null ? summary.decision : `${summary.decision}, ${summary.code}`],
    ['action', summary.action],
    ['decided at', summary.decided_at],
    ['receipt', summary.receipt_id],
    ['mandate', cell(summary.mandate_id)],
    ['account', summary.account],
    ['service', summary.issuer],
    ['made at', cell(summary.sealed_at)],
  ]);
}

async function page(invocation: Invocation, out: string): Promise<void> {
  // Its bundler is started for this command only.
  const { makeDossierPage } = await import('../dossier-page/make-page.ts');
  const html = await makeDossierPage();
  await writeNew(out, html);
  const text = JSON.stringify({ file: out, bytes: Buffer.byteLength(html) });
  invocation.show({ text, value: {} }, () => `${out} checks dossiers: open it in a browser, no network needed.\n`);
}

async function readBounded(path: string, maxBytes: number): Promise<Uint8Array> {
  try {
    const { size } = await stat(path);
    if (size > maxBytes) throw new CliError(`${path} is larger than ${maxBytes} bytes.`);
    return await readFile(path);
  } catch (error) {
    if (error instanceof CliError) throw error;
    throw usageError(`${path} cannot be read (${reason(error)}).`);
  }
}

function reason(error: unknown): string {
  return typeof error === 'object' && error !== null && 'code' in error ? String(error.code) : 'unreadable';
}
