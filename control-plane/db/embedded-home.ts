import { randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { chmod, chown, link, lstat, mkdir, open, readFile, realpath, rename, rm, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { DatabaseError, errorCode } from './database-error.ts';
import { canEnter, letEnter, type ServerUser, serverUser, systemDirectory } from './embedded-user.ts';

const LOCATION_FILE = 'database.location';

/**
 * The directory of one embedded database: `cluster/` (PostgreSQL's own), `credentials.json`, `lock`, `holder`, `run/`
 * (its unix socket) and `server.log`. It is `<data directory>/database`; where root's unprivileged server user cannot
 * enter that (a checkout below /root), it is a directory below /var/lib/mandate-gateway/databases and the data
 * directory holds its path in `database.location`.
 */
export interface DatabaseHome {
  readonly path: string;
  readonly cluster: string;
  readonly user: ServerUser;
}

/** Passwords of the three roles of an embedded database. */
export interface Credentials {
  readonly admin: string;
  readonly owner: string;
  readonly app: string;
}

/**
 * Finds or creates the home of the database that belongs to `dataDirectory`. It never begins an empty database where
 * another one is recorded.
 *
 * @throws DatabaseError `database_missing`, `data_directory_unusable`, `no_unprivileged_user`, `permission_denied`
 */
export async function openHome(dataDirectory: string, onProgress: (message: string) => void): Promise<DatabaseHome> {
  const created = await mkdir(dataDirectory, { recursive: true, mode: 0o700 }).catch((error: unknown) => {
    throw unusable(dataDirectory, error);
  });
  const dataDir = await realpath(dataDirectory);
  if (created !== undefined) await syncDirectory(dirname(dataDir));
  const recorded = await recordedLocation(dataDir);
  if (recorded !== null) return homeAt(recorded, await serverUser(join(recorded, 'cluster')));

  const local = join(dataDir, 'database');
  const user = await serverUser(join(local, 'cluster'));
  await letEnter(dataDir, user);
  if (user.identity === null || canEnter(dataDir, user)) return homeAt(local, user);
  if (await isDirectory(join(local, 'cluster'))) {
    throw new DatabaseError(
      'data_directory_unusable',
      `The database in ${local} cannot be entered by ${user.name}, who runs PostgreSQL for root: move the data ` +
        'directory to where all users may enter (for example below /var/lib) and set MANDATE_DATA_DIR to it.',
    );
  }
  const elsewhere = await recordLocation(dataDir);
  onProgress(`The database is kept in ${elsewhere}, because ${user.name} cannot enter ${dataDir}`);
  return homeAt(elsewhere, user);
}

async function homeAt(path: string, user: ServerUser): Promise<DatabaseHome> {
  try {
    if (await mkdir(path, { recursive: true, mode: 0o700 })) await syncDirectory(dirname(path));
  } catch (error) {
    throw unusable(path, error);
  }
  await letEnter(path, user);
  return { path, cluster: join(path, 'cluster'), user };
}

async function recordedLocation(dataDir: string): Promise<string | null> {
  let recorded: string;
  const file = join(dataDir, LOCATION_FILE);
  try {
    recorded = (await readFile(file, 'utf8')).trim();
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return null;
    throw unusable(file, error);
  }
  if (await isDirectory(recorded)) return recorded;
  throw new DatabaseError(
    'database_missing',
    `${file} says that the database is kept in ${recorded}, which does not exist: restore that directory, or delete ` +
      'the file to begin with an empty database.',
  );
}

/** Chooses and records a home outside the data directory; of two starts at once, the first one's choice stands. */
async function recordLocation(dataDir: string): Promise<string> {
  const parent = await systemDirectory('databases');
  const chosen = join(parent, randomBytes(8).toString('hex'));
  await mkdir(chosen, { mode: 0o700 });
  await syncDirectory(parent);
  const draft = join(dataDir, `.${LOCATION_FILE}.${process.pid}`);
  await writeDurably(draft, `${chosen}\n`);
  try {
    await link(draft, join(dataDir, LOCATION_FILE));
    await syncDirectory(dataDir);
    return chosen;
  } catch (error) {
    await rm(chosen, { recursive: true });
    const recorded = await recordedLocation(dataDir);
    if (recorded === null) throw unusable(dataDir, error);
    return recorded;
  } finally {
    await rm(draft, { force: true });
  }
}

/**
 * Takes the exclusive lock of a home and returns what releases it. It is a kernel lock on a file (taken through
 * SQLite, Node's only door to one), so a kill -9 releases it and a reused process number cannot be mistaken for it.
 *
 * @throws DatabaseError `data_directory_in_use`
 */
export async function lockHome(home: DatabaseHome, dataDirectory: string): Promise<() => void> {
  const path = join(home.path, 'lock');
  const holder = join(home.path, 'holder');
  const lock = acquire(path, () => readFileSync(holder, 'utf8'), dataDirectory);
  // Never opened by ourselves: closing any descriptor of the file would release the process's lock on it.
  await chmod(path, 0o600);
  await followOwner(path, home.path);
  await rm(holder, { force: true });
  await writeDurably(holder, `${process.pid}\n`);
  await followOwner(holder, home.path);
  return () => lock.close();
}

function acquire(path: string, holder: () => string, dataDirectory: string): DatabaseSync {
  let lock: DatabaseSync | undefined;
  try {
    lock = new DatabaseSync(path, { timeout: 0 });
    lock.exec('BEGIN EXCLUSIVE');
    return lock;
  } catch (error) {
    lock?.close();
    if (!isBusy(error)) throw unusable(path, error);
    throw new DatabaseError(
      'data_directory_in_use',
      `The data directory ${dataDirectory} is in use by a running Mandate Gateway${processNamed(holder)}: stop that ` +
        'one, or set MANDATE_DATA_DIR to another directory.',
    );
  }
}

function processNamed(holder: () => string): string {
  try {
    return ` (process ${holder().trim()})`;
  } catch {
    return '';
  }
}

function isBusy(error: unknown): boolean {
  const SQLITE_BUSY = 5;
  return error instanceof Error && 'errcode' in error && error.errcode === SQLITE_BUSY;
}

/**
 * Reads the role passwords of a home; makes them first where the home has no database yet.
 *
 * @throws DatabaseError `database_missing`, `data_directory_unusable`
 */
export async function credentialsOf(home: DatabaseHome): Promise<Credentials> {
  const path = join(home.path, 'credentials.json');
  try {
    return parseCredentials(JSON.parse(await readFile(path, 'utf8')));
  } catch (error) {
    if (errorCode(error) !== 'ENOENT' || (await isDirectory(home.cluster))) throw unusable(path, error);
  }
  const made: Credentials = { admin: password(), owner: password(), app: password() };
  const draft = `${path}.${process.pid}`;
  await rm(draft, { force: true });
  await writeDurably(draft, `${JSON.stringify(made)}\n`);
  await followOwner(draft, home.path);
  await rename(draft, path);
  await syncDirectory(home.path);
  return made;
}

function parseCredentials(value: unknown): Credentials {
  if (typeof value === 'object' && value !== null && 'admin' in value && 'owner' in value && 'app' in value) {
    const { admin, owner, app } = value;
    if (typeof admin === 'string' && typeof owner === 'string' && typeof app === 'string') return { admin, owner, app };
  }
  throw new TypeError('admin, owner and app passwords are expected');
}

function password(): string {
  return randomBytes(24).toString('base64url');
}

/** Creates a file that only its owner can read, and returns once it is on disk. It must not exist. */
export async function writeDurably(path: string, text: string): Promise<void> {
  const file = await open(path, 'wx', 0o600);
  try {
    await file.writeFile(text);
    await file.sync();
  } finally {
    await file.close();
  }
}

/** Makes created, renamed and removed names in a directory survive a power failure. */
export async function syncDirectory(path: string): Promise<void> {
  const directory = await open(path, 'r');
  try {
    await directory.sync();
  } finally {
    await directory.close();
  }
}

/** Hands a path to the server's user, and closes it to everybody else. */
export async function giveToServer(path: string, user: ServerUser, mode: number): Promise<void> {
  if (user.identity !== null) await chown(path, user.identity.uid, user.identity.gid);
  await chmod(path, mode);
}

/** Lets a normal user go on with a directory in which root was started once. */
async function followOwner(path: string, directory: string): Promise<void> {
  if (process.getuid?.() !== 0) return;
  const owner = await stat(directory);
  if (owner.uid !== 0) await chown(path, owner.uid, owner.gid);
}

export async function isDirectory(path: string): Promise<boolean> {
  try {
    return (await lstat(path)).isDirectory();
  } catch (error) {
    if (errorCode(error) === 'ENOENT' || errorCode(error) === 'ENOTDIR') return false;
    throw unusable(path, error);
  }
}

function unusable(path: string, error: unknown): DatabaseError {
  if (error instanceof DatabaseError) return error;
  if (errorCode(error) === 'ENOSPC') {
    return new DatabaseError('disk_full', `${path} cannot be written, the disk is full: free space there.`, error);
  }
  return new DatabaseError(
    'data_directory_unusable',
    `${path} cannot be used (${errorCode(error) || 'unreadable'}): make it readable and writable for this user, or ` +
      'set MANDATE_DATA_DIR to another directory.',
    error,
  );
}
