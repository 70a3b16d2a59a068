import { open } from 'node:fs/promises';
import { CliError } from './cli-error.ts';

/**
 * Writes a file that only its owner can read and that was not there before.
 *
 * @throws CliError where it is there already, or cannot be written
 */
export async function writeNew(path: string, text: string): Promise<void> {
  try {
    const file = await open(path, 'wx', 0o600);
    try {
      await file.writeFile(text);
    } finally {
      await file.close();
    }
  } catch (error) {
    const there = reason(error) === 'EEXIST';
    const problem = there ? `${path} is there already; nothing was changed.` : `${path} cannot be written`;
    throw new CliError(there ? problem : `${problem} (${reason(error)}).`, { next: 'Choose another file with --out.' });
  }
}

function reason(error: unknown): string {
  return typeof error === 'object' && error !== null && 'code' in error ? String(error.code) : 'unreadable';
}
