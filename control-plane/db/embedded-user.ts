import { spawnSync } from 'node:child_process';
import { chmod, chown, lstat, mkdir, readFile, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { DatabaseError, errorCode } from './database-error.ts';

/** Where root keeps what the server's unprivileged user must reach: root owns it, everybody may enter. */
const SYSTEM_DIRECTORY = '/var/lib/mandate-gateway';

/** Unprivileged users that a system may have, in order of preference. */
const CANDIDATES = ['postgres', 'nobody'] as const;

/** The user that runs PostgreSQL. `identity` is null where it is the user of this process. */
export interface ServerUser {
  readonly name: string;
  readonly identity: { readonly uid: number; readonly gid: number } | null;
  /** What `spawn` must be given to run a program as this user. */
  readonly spawn: { readonly uid?: number; readonly gid?: number };
}

/**
 * Picks the user for PostgreSQL, which refuses to run as root: this process's own user, or for root the owner of the
 * existing cluster or of its home, else the system user `postgres`, else `nobody`.
 *
 * @throws DatabaseError `no_unprivileged_user`
 */
export async function serverUser(cluster: string): Promise<ServerUser> {
  if (process.getuid?.() !== 0) return { name: 'this user', identity: null, spawn: {} };
  for (const path of [cluster, dirname(cluster)]) {
    const owner = await stat(path).catch((error: unknown) => {
      if (errorCode(error) === 'ENOENT') return null;
      throw error;
    });
    if (owner !== null && owner.uid !== 0) return asUser(`user ${owner.uid}`, owner.uid, owner.gid);
  }
  const accounts = (await readFile('/etc/passwd', 'utf8')).split('\n').map((line) => line.split(':'));
  for (const candidate of CANDIDATES) {
    const account = accounts.find(([name]) => name === candidate);
    const [uid, gid] = [Number(account?.[2]), Number(account?.[3])];
    if (uid > 0 && Number.isSafeInteger(gid)) return asUser(candidate, uid, gid);
  }
  throw new DatabaseError(
    'no_unprivileged_user',
    'PostgreSQL refuses to run as root and this system has neither a user postgres nor nobody: create one ' +
      '(useradd --system postgres), start as a normal user, or set MANDATE_DATABASE_URL.',
  );
}

function asUser(name: string, uid: number, gid: number): ServerUser {
  return { name, identity: { uid, gid }, spawn: { uid, gid } };
}

/** Whether `user` can enter `directory`, asked of the kernel so that access lists and mount options count too. */
export function canEnter(directory: string, user: ServerUser): boolean {
  const script = 'test -x "$1" && cd "$1"';
  const run = spawnSync('/bin/sh', ['-c', script, 'sh', directory], { ...user.spawn, cwd: '/', env: {} });
  if (run.error === undefined) return run.status === 0;
  throw new DatabaseError(
    'no_unprivileged_user',
    `No program can be run as ${user.name} here (${errorCode(run.error)}): start as a normal user or set ` +
      'MANDATE_DATABASE_URL.',
    run.error,
  );
}

/**
 * Makes `directory` enterable, and nothing more, for the server's group. Done only to a directory that is ours by
 * definition, belongs to root and grants its group nothing yet.
 */
export async function letEnter(directory: string, user: ServerUser): Promise<void> {
  if (user.identity === null || canEnter(directory, user)) return;
  const found = await stat(directory);
  if (found.uid !== 0 || (found.mode & 0o070) !== 0) return;
  await chown(directory, 0, user.identity.gid);
  await chmod(directory, (found.mode & 0o7777) | 0o010);
}

/**
 * Creates, where missing, a directory below /var/lib/mandate-gateway that only root can write and all can enter.
 *
 * @throws DatabaseError `permission_denied`
 */
export async function systemDirectory(name: string): Promise<string> {
  for (const directory of [SYSTEM_DIRECTORY, join(SYSTEM_DIRECTORY, name)]) {
    try {
      await mkdir(directory);
      await chmod(directory, 0o755);
    } catch (error) {
      if (errorCode(error) !== 'EEXIST') {
        throw new DatabaseError(
          'permission_denied',
          `${directory} cannot be created (${errorCode(error)}): set MANDATE_DATA_DIR to a directory outside root's ` +
            'home, or set MANDATE_DATABASE_URL.',
          error,
        );
      }
    }
    const found = await lstat(directory);
    if (!found.isDirectory() || found.uid !== 0 || (found.mode & 0o022) !== 0) {
      throw new DatabaseError('permission_denied', `${directory} must be a directory that only root can write.`);
    }
  }
  return join(SYSTEM_DIRECTORY, name);
}
