/** Exit codes of the CLI: done; refused or failed; bad usage. */
export const EXIT_DONE = 0;
export const EXIT_FAILED = 1;
export const EXIT_USAGE = 2;
/** Nothing failed, and yet nothing is proven: no key was pinned. */
export const EXIT_INCOMPLETE = 3;

/**
 * A command that cannot do what it was asked. `message` says what is wrong, `next` what to do about it; `json` is what
 * `--json` writes to standard error instead (the server's own problem document where there is one).
 */
export class CliError extends Error {
  override readonly name = 'CliError';
  readonly exitCode: number;
  readonly next: string | undefined;
  readonly json: string;

  constructor(
    message: string,
    options: { next?: string; code?: string; json?: string; exitCode?: number; cause?: unknown } = {},
  ) {
    super(message, options.cause === undefined ? {} : { cause: options.cause });
    this.exitCode = options.exitCode ?? EXIT_FAILED;
    this.next = options.next;
    this.json =
      options.json ??
      JSON.stringify({ error: options.code ?? 'failed', detail: message, ...(options.next && { next: options.next }) });
  }
}

/** A command line that cannot be understood (exit code 2). */
export function usageError(message: string, next?: string): CliError {
  return new CliError(message, { code: 'usage', exitCode: EXIT_USAGE, ...(next === undefined ? {} : { next }) });
}

/** The verdict of a check has been told; only the exit code is left to say. */
export class CheckedOtherwise extends Error {
  readonly exitCode: number;

  constructor(exitCode: number) {
    super('what was checked is not accepted');
    this.exitCode = exitCode;
  }
}
