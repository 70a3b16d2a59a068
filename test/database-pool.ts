/**
 * Databases that tests of one run hand on to each other: making one takes a quarter of a second and more, emptying it
 * a few hundredths. Only one that cannot be told from a new clone is handed on; every other is dropped.
 */
import { mkdir, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { connect, type Sql } from '../control-plane/db/client.ts';

/** What a clone of the template looks like before anything is done to it. */
export interface Pristine {
  /** Rows of each catalog that a change of the schema would alter the number of. */
  readonly catalogs: string;
  /** Triggers that fire for everybody, and so keep what is to be emptied: by table. */
  readonly keepers: Readonly<Record<string, readonly string[]>>;
  /** The one function that tests replace all the time, and put back here. */
  readonly clock: { readonly definition: string; readonly row: string };
  /** Tables that the migrations filled, and how many rows they put there. */
  readonly seeded: Readonly<Record<string, number>>;
}

/** Above this an emptied database would be slower than a new one, for what was deleted still lies in it. */
const SIZE_MAX_BYTES = 12 * 1024 * 1024;
const EMPTYING_TIMEOUT_MS = 10_000;

const CATALOGS = [
  ...['pg_class', 'pg_attribute', 'pg_constraint', 'pg_index', 'pg_trigger', 'pg_attrdef', 'pg_type', 'pg_policy'],
  ...['pg_namespace', 'pg_rewrite', 'pg_inherits', 'pg_partitioned_table', 'pg_extension', 'pg_statistic_ext'],
  ...['pg_proc', 'pg_enum', 'pg_sequence', 'pg_default_acl', 'pg_event_trigger'],
];

/** Reads what every clone begins as, on the template itself. */
export async function readPristine(sql: Sql): Promise<Pristine> {
  const seeded: Record<string, number> = {};
  for (const { name } of await tables(sql)) {
    const [row] = await sql.unsafe<{ n: number }[]>(`select count(*)::int as n from ${name}`);
    if (row !== undefined && row.n > 0) seeded[name] = row.n;
  }
  const keepers: Record<string, string[]> = {};
  for (const { name, trigger } of await sql<{ name: string; trigger: string }[]>`
    select tgrelid::regclass::text as name, quote_ident(tgname) as trigger from pg_trigger where tgenabled = 'A'`) {
    keepers[name] = [...(keepers[name] ?? []), trigger];
  }
  const [clock] = await sql<{ definition: string; row: string }[]>`
    select pg_get_functiondef(oid) as definition, p::text as row from pg_proc p where proname = 'db_clock'`;
  if (clock === undefined) throw new Error('the template has no clock');
  return { catalogs: await countCatalogs(sql), clock: { ...clock }, keepers, seeded };
}

/** Takes a database that was handed back, or returns null where there is none. */
export async function takeFree(directory: string): Promise<{ name: string; since: string } | null> {
  const [free, used] = await folders(directory);
  for (const name of await readdir(free)) {
    const taken = await rename(join(free, name), join(used, name)).then(
      () => true,
      () => false,
    );
    if (taken) return { name, since: await readFile(join(used, name), 'utf8') };
  }
  return null;
}

/** Notes a new clone: `since` is a transaction that began after it was made. */
export async function noteUsed(directory: string, name: string, since: string): Promise<void> {
  const [, used] = await folders(directory);
  await writeFile(join(used, name), since);
}

/** Offers a database that was emptied; `since` as `empty` says. */
export async function offer(directory: string, name: string, since: string): Promise<void> {
  const [free, used] = await folders(directory);
  await writeFile(join(used, name), since);
  await rename(join(used, name), join(free, name));
}

export async function forget(directory: string, name: string): Promise<void> {
  const [, used] = await folders(directory);
  await rm(join(used, name), { force: true });
}

/** All databases of a run that were made and not dropped. */
export async function allNames(directory: string): Promise<string[]> {
  return (await Promise.all((await folders(directory)).map((folder) => readdir(folder)))).flat();
}

/**
 * Ends everybody else's sessions and empties a database; null where it is not as it was made, and must be dropped.
 *
 * Whatever changed the schema since `since` left a row in a catalog that is younger, or one less. Resolves with the
 * transaction from which on that is to be looked at the next time.
 */
export async function empty(superuserUrl: string, since: string, pristine: Pristine): Promise<string | null> {
  const sql = connect(superuserUrl, { max: 1, applicationName: 'test pool', statementTimeoutMs: EMPTYING_TIMEOUT_MS });
  try {
    if (!(await endOthers(sql))) return null;
    await sql`set search_path = public`;
    await sql`set session_replication_role = replica`;
    if (!(await schemaIsPristine(sql, since, pristine))) return null;
    for (const { name, bytes } of await tables(sql)) {
      if (name in pristine.seeded) {
        if (!(await rowsAreSeeded(sql, name, since, pristine))) return null;
      } else if (bytes > 0) {
        await sql.unsafe(emptying(name, pristine));
      }
    }
    const [state] = await sql<{ bytes: number; others: number; used: number; xid: string }[]>`
      select pg_database_size(current_database()) - (select pg_database_size('template0')) as bytes,
        (select count(*)::int from pg_stat_activity
          where datname = current_database() and pid <> pg_backend_pid()) as others,
        (select count(*)::int from pg_sequences where last_value is not null) as used,
        (pg_current_xact_id()::xid)::text as xid`;
    if (state === undefined || state.bytes > SIZE_MAX_BYTES || state.others > 0 || state.used > 0) return null;
    return state.xid;
  } finally {
    await sql.end();
  }
}

async function rowsAreSeeded(sql: Sql, name: string, since: string, { seeded }: Pristine): Promise<boolean> {
  const [row] = await sql.unsafe<{ n: number; changed: boolean }[]>(
    `select count(*)::int as n, coalesce(bool_or(age(xmin) <= age($1::text::xid)), false) as changed from ${name}`,
    [since],
  );
  return row !== undefined && !row.changed && row.n === seeded[name];
}

function emptying(name: string, { keepers }: Pristine): string {
  const alter = (how: string) =>
    (keepers[name] ?? []).map((trigger) => `alter table only ${name} ${how} trigger ${trigger};`);
  return [...alter('disable'), `delete from only ${name};`, ...alter('enable always')].join(' ');
}

async function endOthers(sql: Sql): Promise<boolean> {
  for (const end = Date.now() + EMPTYING_TIMEOUT_MS; Date.now() < end; ) {
    const others = await sql`select pg_terminate_backend(pid, 1000) from pg_stat_activity
      where datname = current_database() and pid <> pg_backend_pid() and backend_type <> 'autovacuum worker'`;
    if (others.length === 0) return true;
  }
  return false;
}

async function schemaIsPristine(sql: Sql, since: string, pristine: Pristine): Promise<boolean> {
  const [clock] = await sql<{ row: string }[]>`select p::text as row from pg_proc p where proname = 'db_clock'`;
  if (clock?.row !== pristine.clock.row) await sql.unsafe(pristine.clock.definition);
  const younger = [...CATALOGS, 'pg_statistic']
    .map((name) => `select from ${name} where age(xmin) <= age($1::text::xid)${EXCEPT[name] ?? ''}`)
    .join(' union all ');
  const [row] = await sql.unsafe<{ changed: boolean; clock: string; settings: boolean; catalogs: string }[]>(
    `select exists (${younger}) as changed,
      (select p::text from pg_proc p where proname = 'db_clock') as clock,
      exists (select from pg_db_role_setting s join pg_database d on d.oid = s.setdatabase
        where d.datname = current_database()) as settings`,
    [since],
  );
  if (row === undefined || row.changed || row.settings || row.clock !== pristine.clock.row) return false;
  return (await countCatalogs(sql)) === pristine.catalogs;
}

/** What changes by itself: the clock that was put back, and what PostgreSQL gathers about its own catalogs. */
const EXCEPT: Readonly<Record<string, string>> = {
  pg_proc: ` and proname <> 'db_clock'`,
  pg_statistic: ' and starelid >= 16384',
};

async function countCatalogs(sql: Sql): Promise<string> {
  const counts = CATALOGS.map((name) => `(select count(*) from ${name})`).join(', ');
  const [row] = await sql.unsafe<{ counts: string }[]>(`select concat_ws(' ', ${counts}) as counts`);
  return row?.counts ?? '';
}

function tables(sql: Sql): Promise<readonly { name: string; bytes: number }[]> {
  return sql<{ name: string; bytes: number }[]>`
    select oid::regclass::text as name, pg_relation_size(oid) as bytes from pg_class
    where relkind = 'r' and relnamespace = 'public'::regnamespace order by 1`;
}

async function folders(directory: string): Promise<readonly [string, string]> {
  const [free, used] = [join(directory, 'free'), join(directory, 'used')];
  await mkdir(free, { recursive: true, mode: 0o700 });
  await mkdir(used, { recursive: true, mode: 0o700 });
  return [free, used];
}
