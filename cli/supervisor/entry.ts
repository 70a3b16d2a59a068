import { extname } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Environment } from '../../config/load.ts';

/** The programs that the CLI starts. It never imports them: they meet over IPC and HTTP. */
export type EntryName =
  | 'control-plane/main'
  | 'control-plane/database-main'
  | 'control-plane/migrate-main'
  | 'control-plane/doctor-main'
  | 'control-plane/signing-keys-main'
  | 'proxy/main'
  | 'examples/payments-api';

/** The file of a program: TypeScript in a checkout, JavaScript in an installed package. */
export function entryPath(name: EntryName): string {
  return fileURLToPath(new URL(`../../${name}${extname(import.meta.url)}`, import.meta.url));
}

/**
 * V8 flags of the long-running processes. A small young generation keeps resident memory flat under load (garbage is
 * collected while it is small); the old generation's bound turns a leak into a restart.
 */
export const NODE_FLAGS: readonly string[] = ['--max-semi-space-size=8', '--max-old-space-size=256'];

const CACHE_DIRECTORY = fileURLToPath(new URL('../../node_modules/.cache/mandate', import.meta.url));

/**
 * The environment of a program: ours, `overrides`, and a compile cache that other users cannot write to. With a warm
 * cache types need no stripping, which starts faster and saves about 28 MiB in each process. One arena of glibc in
 * place of one for each thread saves another 8: the few threads beside V8's hardly allocate.
 */
export function entryEnvironment(base: Environment, overrides: Environment = {}): NodeJS.ProcessEnv {
  return { NODE_COMPILE_CACHE: CACHE_DIRECTORY, MALLOC_ARENA_MAX: '1', ...base, ...overrides };
}
