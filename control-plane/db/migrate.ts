import { hash } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { EMBEDDED_POLL_MS, MIGRATION_ROLE_ATTEMPTS, MIGRATION_TIMEOUT_MS } from '../../core/limits.ts';
import { connect, type Sql, scramVerifier, type TransactionSql, withRole } from './client.ts';
import { DatabaseError, errorCode } from './database-error.ts';

/** The role that migrations grant to. Another application role is made a member of it. */
export const GRANTED_ROLE = 'mandate_app';

const MIGRATIONS = fileURLToPath(new URL('../../migrations/', import.meta.url));

/** The advisory lock that serialises migrations of one database: the bytes of `mandat`. */
const MIGRATION_LOCK = 0x6d616e646174n;

const INSUFFICIENT_PRIVILEGE = '42501';

export interface AppRole {
  readonly role: string;
  /** null: the role exists and its password is nobody's business here. */
  readonly password: string | null;
}

export interface MigrateOptions {
  readonly app: AppRole;
  /** A directory of NNNN_<what>.sql files; the repository's own where missing. */
  readonly dir?: string;
  readonly onProgress?: (message: string) => void;
}

export interface Migration {
  readonly version: number;
  readonly name: string;
  /** SHA-256 of the file with LF line ends, in hexadecimal. */
  readonly checksum: string;
  readonly text: string;
}

/**
 * Brings a database to the version of the code: forward only, a transaction for each file, safe to call from any
 * number of processes at once. The role of `ownerUrl` owns everything; the application's role is made first where it
 * is missing and gets its rights from the migrations' grants to `mandate_app`.
 *
 * @returns the version the database is at, and the names of the files applied by this call
 * @throws DatabaseError `migrations_invalid`, `migration_changed`, `migration_failed`, `database_newer`,
 *   `app_role_unusable`
 */
export async function migrate(
  ownerUrl: string,
  options: MigrateOptions,
): Promise<{ version: number; applied: string[] }> {
  const migrations = await readMigrations(options.dir ?? MIGRATIONS);
  const sql = connect(ownerUrl, {
    max: 1,
    applicationName: 'mandate migrate',
    statementTimeoutMs: MIGRATION_TIMEOUT_MS,
    lockTimeoutMs: MIGRATION_TIMEOUT_MS,
    idleInTransactionTimeoutMs: MIGRATION_TIMEOUT_MS,
  });
  try {
    await ensureAppRole(sql, ownerUrl, options.app);
    const applied: string[] = [];
    for (;;) {
      const name = await applyNext(sql, migrations, options.onProgress ?? (() => {}));
      if (name === null) return { version: migrations.length, applied };
      applied.push(name);
    }
  } finally {
    await sql.end();
  }
}

/**
 * Makes sure, for a process that does not migrate, that the database is at exactly the code's version.
 *
 * @throws DatabaseError `database_older`, `database_newer`, `migration_changed`
 */
export async function assertMigrated(sql: Sql, dir?: string): Promise<void> {
  const migrations = await readMigrations(dir ?? MIGRATIONS);
  const [table] = await sql<{ present: boolean }[]>`select to_regclass('schema_migrations') is not null as present`;
  const applied = table?.present ? await appliedMigrations(sql) : [];
  const next = firstPending(migrations, applied);
  if (next !== null) {
    throw new DatabaseError(
      'database_older',
      `The database is at version ${applied.length}, this program needs ${migrations.length}: run mandate migrate.`,
    );
  }
}

/**
 * Reads and checks a directory of migrations: numbered from 0001 without a gap; a file that is neither one of them nor
 * schema.sql is refused.
 *
 * @throws DatabaseError `migrations_invalid`
 */
export async function readMigrations(dir: string): Promise<Migration[]> {
  const names = (await readdir(dir)).filter((name) => name !== 'schema.sql' && name.endsWith('.sql')).sort();
  const migrations: Migration[] = [];
  for (const name of names) {
    const version = migrations.length + 1;
    if (!/^[0-9]{4}_[a-z0-9][a-z0-9_-]*\.sql$/.test(name) || Number(name.slice(0, 4)) !== version) {
      const expected = `${String(version).padStart(4, '0')}_<what>.sql`;
      throw new DatabaseError('migrations_invalid', `Found ${name} in ${dir} where ${expected} is expected.`);
    }
    const text = (await readFile(join(dir, name), 'utf8')).replaceAll('\r\n', '\n');
    migrations.push({ version, name, text, checksum: hash('sha256', text) });
  }
  return migrations;
}

interface Applied {
  readonly version: number;
  readonly name: string;
  readonly checksum: string;
}

function appliedMigrations(sql: Sql | TransactionSql): Promise<Applied[]> {
  return sql<Applied[]>`select version, name, checksum from schema_migrations order by version`;
}

function firstPending(migrations: readonly Migration[], applied: readonly Applied[]): Migration | null {
  for (const row of applied) {
    const known = migrations[row.version - 1];
    if (known === undefined) {
      throw new DatabaseError(
        'database_newer',
        `The database has migration ${row.name}, which this program does not know: run the newer version of it.`,
      );
    }
    if (known.checksum !== row.checksum || known.name !== row.name) {
      throw new DatabaseError(
        'migration_changed',
        `Migration ${row.name} was applied with other contents than this program has in ${known.name}: restore the ` +
          'file; a change of the schema is a new migration.',
      );
    }
  }
  return migrations[applied.length] ?? null;
}

/** Applies the first pending migration in one transaction under the lock; null when none is pending. */
async function applyNext(
  sql: Sql,
  migrations: readonly Migration[],
  onProgress: (message: string) => void,
): Promise<string | null> {
  return await sql.begin(async (tx) => {
    await tx`select pg_advisory_xact_lock(${MIGRATION_LOCK.toString()}::bigint)`;
    const [table] = await tx<{ present: boolean }[]>`select to_regclass('schema_migrations') is not null as present`;
    if (!table?.present) await createLedger(tx);
    const next = firstPending(migrations, await appliedMigrations(tx));
    if (next === null) return null;
    onProgress(`Applying migration ${next.name}`);
    const [before] = await tx`select pg_current_xact_id()::text as id`;
    try {
      await tx.unsafe(next.text).simple();
    } catch (error) {
      const reason = error instanceof Error ? error.message : 'unknown cause';
      throw new DatabaseError(
        'migration_failed',
        `Migration ${next.name} failed and changed nothing: ${reason}.`,
        error,
      );
    }
    const [after] = await tx`select pg_current_xact_id()::text as id`;
    if (before?.['id'] !== after?.['id']) {
      throw new DatabaseError('migrations_invalid', `Migration ${next.name} must not end its transaction itself.`);
    }
    await tx`insert into schema_migrations (version, name, checksum)
      values (${next.version}, ${next.name}, ${next.checksum})`;
    return next.name;
  });
}

async function createLedger(tx: TransactionSql): Promise<void> {
  await tx`create table schema_migrations (
    version integer primary key check (version >= 1),
    name text not null,
    checksum text not null check (checksum ~ '^[0-9a-f]{64}$'),
    applied_at timestamptz not null default now()
  )`;
  await tx.unsafe(`grant select on schema_migrations to ${GRANTED_ROLE}`);
}

/**
 * Makes the application's role usable: it exists, can sign in with its password, is or belongs to `mandate_app`, and is
 * neither the owner nor a superuser, who could pass by the grants and triggers that protect the evidence.
 */
async function ensureAppRole(sql: Sql, ownerUrl: string, app: AppRole): Promise<void> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      await sql.begin((tx) => createAppRole(tx, app));
      break;
    } catch (error) {
      if (errorCode(error) === INSUFFICIENT_PRIVILEGE) throw missingRights(app, error);
      if (!isRoleRace(error) || attempt >= MIGRATION_ROLE_ATTEMPTS) throw error;
      await delay(EMBEDDED_POLL_MS * Math.random() * attempt);
    }
  }
  if (app.password !== null && !(await canSignIn(ownerUrl, app.role, app.password))) {
    await setPassword(sql, app.role, app.password);
  }
}

async function createAppRole(tx: TransactionSql, app: AppRole): Promise<void> {
  const [found] = await tx<{ owner: boolean; unsafe: boolean | null; granted: boolean; connects: boolean | null }[]>`
    select current_user = ${app.role} as owner,
      (select rolsuper or rolcreaterole or rolbypassrls from pg_roles where rolname = ${app.role}) as unsafe,
      exists (select from pg_roles where rolname = ${GRANTED_ROLE}) as granted,
      (select has_database_privilege(oid, current_database(), 'connect') from pg_roles
        where rolname = ${app.role}) as connects`;
  if (found?.owner || found?.unsafe) {
    throw new DatabaseError(
      'app_role_unusable',
      `The role ${app.role} must be another one than the owner and have neither SUPERUSER, CREATEROLE nor BYPASSRLS.`,
    );
  }
  const role = tx(app.role);
  if (found?.unsafe === null || found === undefined) {
    if (app.password === null) throw missingRights(app);
    await tx`create role ${role} nosuperuser nocreatedb nocreaterole login`;
  }
  if (app.role !== GRANTED_ROLE) {
    if (!found?.granted) await tx.unsafe(`create role ${GRANTED_ROLE} nologin`);
    const [member] = await tx`select pg_has_role(${app.role}, ${GRANTED_ROLE}, 'usage') as is`;
    if (!member?.['is']) await tx`grant ${tx(GRANTED_ROLE)} to ${role}`;
  }
  if (!found?.connects) {
    const [database] = await tx<{ name: string }[]>`select current_database() as name`;
    await tx`grant connect on database ${tx(database?.name ?? '')} to ${role}`;
  }
}

/** Whether another database's migration changed the same role at the same moment. */
function isRoleRace(error: unknown): boolean {
  const [UNIQUE_VIOLATION, DUPLICATE_OBJECT, INTERNAL] = ['23505', '42710', 'XX000'];
  const code = errorCode(error);
  const concurrent = error instanceof Error && error.message.includes('concurrently updated');
  return code === UNIQUE_VIOLATION || code === DUPLICATE_OBJECT || (code === INTERNAL && concurrent);
}

async function canSignIn(ownerUrl: string, role: string, password: string): Promise<boolean> {
  const sql = connect(withRole(ownerUrl, role, password), { max: 1, applicationName: 'mandate migrate' });
  try {
    await sql`select 1`;
    return true;
  } catch (error) {
    const [INVALID_AUTHORIZATION, INVALID_PASSWORD] = ['28000', '28P01'];
    if (errorCode(error) === INVALID_PASSWORD || errorCode(error) === INVALID_AUTHORIZATION) return false;
    throw error;
  } finally {
    await sql.end();
  }
}

async function setPassword(sql: Sql, role: string, password: string): Promise<void> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      await sql.unsafe(`alter role "${role.replaceAll('"', '""')}" login password '${scramVerifier(password)}'`);
      return;
    } catch (error) {
      if (errorCode(error) === INSUFFICIENT_PRIVILEGE) throw missingRights({ role, password }, error);
      if (!isRoleRace(error) || attempt >= MIGRATION_ROLE_ATTEMPTS) throw error;
      await delay(EMBEDDED_POLL_MS * Math.random() * attempt);
    }
  }
}

function missingRights(app: AppRole, cause?: unknown): DatabaseError {
  const member =
    app.role === GRANTED_ROLE ? '' : ` CREATE ROLE ${GRANTED_ROLE}; GRANT ${GRANTED_ROLE} TO "${app.role}";`;
  return new DatabaseError(
    'app_role_unusable',
    `The application's role ${app.role} is missing or incomplete and the owner may not change it: give the owner ` +
      `CREATEROLE, or run as a superuser: CREATE ROLE "${app.role}" LOGIN PASSWORD '…';${member}`,
    cause,
  );
}
