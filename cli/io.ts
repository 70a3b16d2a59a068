import { type Environment, processEnvironment } from '../config/load.ts';

/** Where a command writes; `isTTY` decides on progress and prompts, never on what is said. */
export interface Writer {
  readonly isTTY?: boolean;
  write(text: string): unknown;
}

/** Everything outside of the program that a command may touch; tests pass their own. */
export interface Io {
  readonly stdin: NodeJS.ReadableStream & { readonly isTTY?: boolean };
  readonly stdout: Writer;
  readonly stderr: Writer;
  readonly environment: Environment;
}

/** The streams and the environment of this process. */
export function processIo(): Io {
  return { stdin: process.stdin, stdout: process.stdout, stderr: process.stderr, environment: processEnvironment() };
}
