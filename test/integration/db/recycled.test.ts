/** The tests hand databases on to each other (test/database-pool.ts): this holds that none of them can tell. */
import t from 'tap';
import { seedAccounts } from '../../../bench/seed.ts';
import { connect, type Sql } from '../../../control-plane/db/client.ts';
import { dumpSchema } from '../../../control-plane/db/schema-dump.ts';
import { openSandbox } from '../../../control-plane/sandbox/account.ts';
import { CHAIN_START, entryHash } from '../../../core/evidence.ts';
import { newTypeId } from '../../../core/type-id.ts';
import { createDatabase } from '../../database.ts';
import { empty, readPristine } from '../../database-pool.ts';

async function now(sql: Sql): Promise<string> {
  const [row] = await sql<{ xid: string }[]>`select (pg_current_xact_id()::xid)::text as xid`;
  return row?.xid ?? '';
}

async function rowsOf(sql: Sql): Promise<Record<string, number>> {
  const found: Record<string, number> = {};
  const tables = await sql<{ name: string }[]>`select oid::regclass::text as name from pg_class
    where relkind in ('r', 'p') and relnamespace = 'public'::regnamespace`;
  for (const { name } of tables) {
    const [row] = await sql.unsafe<{ n: number }[]>(`select count(*)::int as n from ${name}`);
    found[name] = row?.n ?? -1;
  }
  return found;
}

/** An account with a mandate and a gateway, the sandbox, and evidence, which triggers keep. */
async function fill(sql: Sql): Promise<void> {
  const [seeded] = await seedAccounts(sql, 1, 'http://127.0.0.1:9');
  await openSandbox(sql);
  const at = '2026-05-15T10:00:00.000Z';
  const entry = { account: seeded?.accountId ?? '', seq: 0, id: newTypeId('evt', 0), kind: 'decision', at };
  const hash = entryHash({ ...entry, prev: CHAIN_START, body: '{}' });
  await sql`insert into evidence (account_id, seq, id, kind, at, prev, hash, body)
    values (${entry.account}, 0, ${entry.id}, 'decision', ${at}, decode(${CHAIN_START}, 'hex'), decode(${hash}, 'hex'),
      '{}')`;
}

t.test('a database that was emptied is as a new one, and can be filled and emptied again', async (t) => {
  const { sql, ownerUrl, superuserUrl } = await createDatabase(t);
  const pristine = await readPristine(sql);
  const [schema, rows] = [await dumpSchema(ownerUrl), await rowsOf(sql)];
  let since = await now(sql);
  for (const minutes of [1, 2]) {
    await sql.unsafe(`create or replace function db_clock() returns timestamptz language sql volatile parallel safe
      as $$ select clock_timestamp() + interval '${minutes} minutes' $$`);
    await fill(sql);
    const filled = await rowsOf(sql);
    for (const table of ['evidence', 'accounts', 'mandates', 'sandbox']) t.ok((filled[table] ?? 0) > 0, table);
    since = (await empty(superuserUrl, since, pristine)) ?? '';
    t.match(since, /^\d+$/, 'it is handed on');
    t.same(await rowsOf(sql), rows);
    t.equal(await dumpSchema(ownerUrl), schema, 'the clock and the triggers are as they were');
  }
});

t.test('a database is not handed on when it could be told from a new one', async (t) => {
  const changes: Readonly<Record<string, string>> = {
    'a column more': 'alter table mandates add extra int',
    'a constraint less': 'alter table gateway_instances drop constraint gateway_instances_rate_per_second_check',
    'a trigger that sleeps': 'alter table tree_heads disable trigger user',
    'a trigger less': 'drop trigger tree_heads_append_only on tree_heads',
    'a table less': 'drop table tool_sightings cascade',
    'a function that is planned in another way': 'alter function epoch_ms cost 7',
    'a right more': 'grant delete on evidence to public',
    'a row of the migrations less':
      'delete from schema_migrations where version = (select max(version) from schema_migrations)',
    'a row of the migrations touched': 'update schema_migrations set version = version',
    'figures that plans are made by': `insert into token_routes
      values (decode(repeat('00', 32), 'hex'), 'gateway', 'acc', 'gwi'); analyze token_routes`,
    'a setting of the database': `do $$ begin execute format('alter database %I set work_mem = ''1MB''',
      current_database()); end $$`,
  };
  const { sql, superuserUrl } = await createDatabase(t);
  const admin = connect(superuserUrl, { max: 1, applicationName: 'test' });
  t.teardown(() => admin.end());
  for (const [what, change] of Object.entries(changes)) {
    const [pristine, since] = [await readPristine(sql), await now(sql)];
    await admin.unsafe(change);
    t.equal(await empty(superuserUrl, since, pristine), null, what);
  }
});
