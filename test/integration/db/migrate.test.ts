import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import t from 'tap';
import { connect, withRole } from '../../../control-plane/db/client.ts';
import { assertMigrated, migrate } from '../../../control-plane/db/migrate.ts';
import { dumpSchema } from '../../../control-plane/db/schema-dump.ts';
import { createDatabase, createEmptyDatabase } from '../../database.ts';

const FILES = {
  '0001_things.sql': `create table things (id bigint primary key, name text collate "C" not null check (name <> ''));
    grant select on things to mandate_app;`,
  '0002_more.sql': 'create index things_name on things (name); alter table things add at timestamptz;',
};

/** Roles belong to the server, so each test uses its own. */
function appRole(name: string): { role: string; password: string } {
  return { role: `app_${name}_${process.pid}_${Date.now()}`, password: 'correct horse' };
}

async function dropRole(superuserUrl: string, role: string): Promise<void> {
  const sql = connect(superuserUrl, { max: 1, applicationName: 'test' });
  await sql.unsafe(`drop owned by ${role}; drop role ${role}`);
  await sql.end();
}

t.test('twenty migrators at once apply every file exactly once', async (t) => {
  const { ownerUrl, superuserUrl } = await createEmptyDatabase(t);
  const app = appRole('twenty');
  const dir = t.testdir(FILES);
  const results = await Promise.all(Array.from({ length: 20 }, () => migrate(ownerUrl, { dir, app })));
  t.teardown(() => dropRole(superuserUrl, app.role));
  t.strictSame(results.flatMap((result) => result.applied).sort(), Object.keys(FILES));
  t.ok(results.every((result) => result.version === 2));
  const sql = connect(withRole(ownerUrl, app.role, app.password), { max: 1, applicationName: 'test' });
  t.teardown(() => sql.end());
  t.strictSame(Array.from(await sql`select version, name from schema_migrations order by version`), [
    { version: 1, name: '0001_things.sql' },
    { version: 2, name: '0002_more.sql' },
  ]);
  await sql`select * from things`;
  await t.rejects(
    sql`insert into things values (1, 'x')`,
    { code: '42501' },
    'the application has granted rights only',
  );
  await assertMigrated(sql, dir);
});

t.test('an applied file that changed, and a database newer than the code, are refused', async (t) => {
  const { ownerUrl, superuserUrl } = await createEmptyDatabase(t);
  const app = appRole('changed');
  const dir = t.testdir(FILES);
  await migrate(ownerUrl, { dir, app });
  t.teardown(() => dropRole(superuserUrl, app.role));
  const older = t.testdir({ '0001_things.sql': FILES['0001_things.sql'] });
  await t.rejects(migrate(ownerUrl, { dir: older, app }), { code: 'database_newer' });

  const changed = t.testdir(FILES);
  await writeFile(join(changed, '0001_things.sql'), `${FILES['0001_things.sql']} -- changed`);
  await t.rejects(migrate(ownerUrl, { dir: changed, app }), { code: 'migration_changed' });

  const windows = t.testdir(FILES);
  await writeFile(join(windows, '0001_things.sql'), FILES['0001_things.sql'].replaceAll('\n', '\r\n'));
  t.strictSame(await migrate(ownerUrl, { dir: windows, app }), { version: 2, applied: [] }, 'line ends are no change');
});

t.test('a failing file changes nothing and is applied once it is mended', async (t) => {
  const { ownerUrl, superuserUrl } = await createEmptyDatabase(t);
  const app = appRole('failing');
  const dir = t.testdir({ ...FILES, '0003_wrong.sql': 'create table half (id int); select 1 / 0;' });
  await t.rejects(migrate(ownerUrl, { dir, app }), { code: 'migration_failed', message: /0003_wrong.sql/ });
  t.teardown(() => dropRole(superuserUrl, app.role));
  const sql = connect(ownerUrl, { max: 1, applicationName: 'test' });
  t.teardown(() => sql.end());
  const [half] = await sql`select to_regclass('half') as half, (select max(version) from schema_migrations) as version`;
  t.strictSame(half, { half: null, version: 2 });
  await writeFile(join(dir, '0003_wrong.sql'), 'create table half (id int);');
  t.strictSame((await migrate(ownerUrl, { dir, app })).applied, ['0003_wrong.sql']);
  await writeFile(join(dir, '0004_commits.sql'), 'commit; create table other (id int);');
  await t.rejects(migrate(ownerUrl, { dir, app }), { code: 'migrations_invalid' }, 'a file that commits is refused');
});

t.test('file names are checked, and an older database is refused by who does not migrate', async (t) => {
  const { ownerUrl, superuserUrl } = await createEmptyDatabase(t);
  const app = appRole('names');
  for (const name of ['0003_gap.sql', '0002-bad.sql', 'notes.sql']) {
    const dir = t.testdir({ '0001_things.sql': FILES['0001_things.sql'], [name]: 'select 1' });
    await t.rejects(migrate(ownerUrl, { dir, app }), { code: 'migrations_invalid' }, name);
  }
  const dir = t.testdir(FILES);
  const sql = connect(ownerUrl, { max: 1, applicationName: 'test' });
  t.teardown(() => sql.end());
  await t.rejects(assertMigrated(sql, dir), { code: 'database_older' });
  await migrate(ownerUrl, { dir, app });
  t.teardown(() => dropRole(superuserUrl, app.role));
  await assertMigrated(sql, dir);
});

t.test('the application is never the owner or a superuser, and its password follows the setting', async (t) => {
  const { ownerUrl, superuserUrl } = await createEmptyDatabase(t);
  const dir = t.testdir(FILES);
  const owner = { role: new URL(ownerUrl).username, password: null };
  await t.rejects(migrate(ownerUrl, { dir, app: owner }), { code: 'app_role_unusable' });
  const superuser = { role: new URL(superuserUrl).username, password: null };
  await t.rejects(migrate(ownerUrl, { dir, app: superuser }), { code: 'app_role_unusable' });
  const missing = { role: 'app_that_nobody_made', password: null };
  await t.rejects(migrate(ownerUrl, { dir, app: missing }), { code: 'app_role_unusable', message: /CREATE ROLE/ });

  const app = appRole('password');
  await migrate(ownerUrl, { dir, app });
  t.teardown(() => dropRole(superuserUrl, app.role));
  await migrate(ownerUrl, { dir, app: { role: app.role, password: 'another one' } });
  const sql = connect(withRole(ownerUrl, app.role, 'another one'), { max: 1, applicationName: 'test' });
  t.teardown(() => sql.end());
  const [row] = await sql`select current_user as name`;
  t.equal(row?.['name'], app.role);
});

t.test('the schema dump does not depend on the order in which objects were made', async (t) => {
  const statements = [
    'create table b (id bigint primary key)',
    'create table a (id bigint primary key, n int default 1 check (n > 0), p bigint)',
    'create index a_n on a (n) where n > 1',
    'create function f() returns int language sql as $$ select 1 $$',
    'grant select, insert on a to mandate_app',
  ];
  const dumps: string[] = [];
  for (const order of [statements, [statements[3], ...statements.slice(1, 3), statements[4], statements[0]]]) {
    const { ownerUrl } = await createEmptyDatabase(t);
    const sql = connect(ownerUrl, { max: 1, applicationName: 'test' });
    for (const statement of order) await sql.unsafe(statement ?? '');
    await sql.end();
    dumps.push(await dumpSchema(ownerUrl));
  }
  t.equal(dumps[0], dumps[1]);
  t.match(dumps[0], /create table public\.a \(\n {2}id bigint not null,/);
  t.match(dumps[0], /grant insert, select on public\.a to mandate_app;/);
});

t.test("the repository's migrations apply to an empty database and can be dumped", async (t) => {
  const { ownerUrl } = await createDatabase(t);
  const dump = await dumpSchema(ownerUrl);
  t.match(dump, /create table public\.schema_migrations/);
  t.equal(dump, await dumpSchema(ownerUrl));
});
