import { readFile } from 'node:fs/promises';
import { createInterface } from 'node:readline';
import { usageError } from './cli-error.ts';
import type { Io } from './io.ts';

const SECRET_MAX_BYTES = 8192;

/** Reads a secret from standard input up to its end; one line break at its end is not part of it. */
export async function secretFromStdin(io: Io, what: string): Promise<string> {
  const secret = (await readAll(io, what, SECRET_MAX_BYTES)).replace(/\r?\n$/, '');
  if (secret === '') throw usageError(`Standard input is empty: pipe the ${what} into it.`);
  if (/[\r\n\0]/.test(secret)) throw usageError(`The ${what} on standard input has more than one line.`);
  return secret;
}

async function readAll(io: Io, what: string, maxBytes: number): Promise<string> {
  const parts: Buffer[] = [];
  let size = 0;
  for await (const part of io.stdin) {
    const bytes = Buffer.from(part);
    size += bytes.length;
    if (size > maxBytes) throw usageError(`The ${what} on standard input is longer than any ${what} may be.`);
    parts.push(bytes);
  }
  return Buffer.concat(parts).toString('utf8');
}

/** Asks at the terminal (on standard error, so that standard output stays clean). */
export async function ask(io: Io, question: string, options: { readonly hidden: boolean }): Promise<string> {
  const output = io.stderr;
  const lines = createInterface({
    input: io.stdin,
    // Echo is written by readline itself: a silent output is what hides a password.
    ...(options.hidden ? {} : { output: output as NodeJS.WritableStream & typeof output }),
    terminal: true,
  });
  output.write(question);
  try {
    return await new Promise<string>((resolve, reject) => {
      lines.once('line', resolve);
      lines.once('SIGINT', () => reject(usageError('Interrupted.')));
      lines.once('close', () => reject(usageError('Nothing was entered.')));
    });
  } finally {
    lines.close();
    if (options.hidden) output.write('\n');
  }
}

const INPUT_MAX_BYTES = 1024 * 1024;

/** The text of a file, or of standard input for `-`; @throws CliError (usage) where it cannot be read. */
export async function readInput(io: Io, what: string, path: string): Promise<string> {
  if (path === '-') return (await readAll(io, what, INPUT_MAX_BYTES)).trim();
  try {
    return (await readFile(path, 'utf8')).trim();
  } catch (error) {
    throw usageError(`${path} cannot be read: ${error instanceof Error ? error.message : String(error)}.`);
  }
}
