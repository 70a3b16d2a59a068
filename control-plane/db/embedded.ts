import { resolve } from 'node:path';
import { EMBEDDED_MAX_CONNECTIONS } from '../../core/limits.ts';
import { connect, scramVerifier } from './client.ts';
import { DatabaseError, errorCode } from './database-error.ts';
import { installedBinaries, usableBinaries } from './embedded-binaries.ts';
import { type Credentials, credentialsOf, lockHome, openHome } from './embedded-home.ts';
import { ADMIN_ROLE, createCluster, launch, type RunningServer } from './embedded-server.ts';

const DATABASE = 'mandate';

/** The role that owns the database of an embedded server and runs its migrations; no superuser. */
export const OWNER_ROLE = 'mandate_owner';

/** The role that the control plane runs as; migrations create it and grant it what it needs. */
export const APP_ROLE = 'mandate_app';

export interface EmbeddedOptions {
  /** The gateway's data directory (MANDATE_DATA_DIR); created where missing. */
  readonly dataDir: string;
  /** TCP port on 127.0.0.1; a free one is chosen where it is missing or 0. */
  readonly port?: number;
  /** One sentence for each step that may take longer than a second, or that the operator should know of. */
  readonly onProgress?: (message: string) => void;
  readonly maxConnections?: number;
  /** A PostgreSQL directory (bin, lib, share) to run instead of the one that npm installed. */
  readonly native?: string;
}

/** A running embedded server. URLs hold passwords: never log them. */
export interface EmbeddedPostgres {
  /** The superuser on the database `postgres`. */
  readonly adminUrl: string;
  readonly ownerUrl: string;
  /** Over the unix socket where its path is short enough, else over TCP. The role exists once migrated. */
  readonly appUrl: string;
  readonly app: { readonly role: string; readonly password: string };
  readonly port: number;
  readonly pid: number;
  /** Where the database's files are; see `DatabaseHome`. */
  readonly home: string;
  /** Resolves when the server has ended, with `expected: false` where nobody called `stop`. Keeps no process alive. */
  readonly ended: Promise<{ readonly expected: boolean }>;
  /** Ends all sessions, writes a checkpoint, and resolves when the server is gone and the directory is free. */
  stop(): Promise<void>;
}

/**
 * Starts the PostgreSQL of a data directory, creating it at the first start; resolves when it answers queries.
 *
 * It listens on 127.0.0.1 and a private unix socket only, asks everybody for a SCRAM password, and commits durably.
 * Whatever a killed start left behind (a half-made cluster, a running server, stale files) is settled first. When
 * this process dies, by kill -9 too, a watchdog shuts the server down; if that was killed as well, the next start does.
 *
 * @throws DatabaseError with a message that names the way out
 */
export async function startEmbedded(options: EmbeddedOptions): Promise<EmbeddedPostgres> {
  const onProgress = options.onProgress ?? (() => {});
  const dataDir = resolve(options.dataDir);
  const home = await openHome(dataDir, onProgress);
  const unlock = await lockHome(home, dataDir);
  try {
    const native = await usableBinaries(options.native ?? installedBinaries(), home.user, dataDir);
    const credentials = await credentialsOf(home);
    await createCluster(home, native, credentials, onProgress);
    const server = await launch(home, native, {
      port: options.port ?? 0,
      maxConnections: options.maxConnections ?? EMBEDDED_MAX_CONNECTIONS,
      onProgress,
    });
    try {
      return await describe(server, credentials, unlock);
    } catch (error) {
      await server.stop();
      throw error;
    }
  } catch (error) {
    unlock();
    throw error instanceof DatabaseError ? error : startFailure(error, home.path);
  }
}

async function describe(
  server: RunningServer,
  credentials: Credentials,
  unlock: () => void,
): Promise<EmbeddedPostgres> {
  const url = (role: string, password: string, database: string): string =>
    `postgres://${role}:${password}@127.0.0.1:${server.port}/${database}`;
  const adminUrl = url(ADMIN_ROLE, credentials.admin, 'postgres');
  await prepareDatabase(adminUrl, credentials);
  const appUrl = url(APP_ROLE, credentials.app, DATABASE);
  let stopping: Promise<void> | undefined;
  return {
    adminUrl,
    ownerUrl: url(OWNER_ROLE, credentials.owner, DATABASE),
    appUrl: server.socketDirectory === null ? appUrl : `${appUrl}?host=${encodeURIComponent(server.socketDirectory)}`,
    app: { role: APP_ROLE, password: credentials.app },
    port: server.port,
    pid: server.pid,
    home: server.home,
    ended: server.ended,
    stop: () => {
      stopping ??= server.stop().finally(unlock);
      return stopping;
    },
  };
}

/** Creates the owner role and the database where they are missing; a start that was killed between is completed. */
async function prepareDatabase(adminUrl: string, credentials: Credentials): Promise<void> {
  const sql = connect(adminUrl, { max: 1, applicationName: 'mandate embedded' });
  try {
    const [role] = await sql`select from pg_roles where rolname = ${OWNER_ROLE}`;
    if (role === undefined) {
      const verifier = scramVerifier(credentials.owner);
      await sql.unsafe(`create role ${OWNER_ROLE} login createrole password '${verifier}'`);
    }
    const [database] = await sql`select from pg_database where datname = ${DATABASE}`;
    if (database === undefined) await sql.unsafe(`create database ${DATABASE} owner ${OWNER_ROLE}`);
    await sql.unsafe(`revoke all on database ${DATABASE} from public`);
  } finally {
    await sql.end();
  }
}

function startFailure(error: unknown, home: string): DatabaseError {
  if (errorCode(error) === 'ENOSPC') {
    return new DatabaseError('disk_full', `The disk of ${home} is full: free space there, then start again.`, error);
  }
  const what = error instanceof Error ? error.message : 'unknown cause';
  return new DatabaseError('did_not_start', `The database in ${home} did not start: ${what}.`, error);
}
