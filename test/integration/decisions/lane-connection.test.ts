import t from 'tap';
import type { Sql } from '../../../control-plane/db/client.ts';
import { ConnectionLost, LaneConnection } from '../../../control-plane/decisions/lane-connection.ts';
import { createDatabase } from '../../database.ts';

/** More than the driver sends ahead on a connection. */
const BEYOND_PIPELINE = 150;
const BLOCKED = 'select pg_advisory_xact_lock(7)';

type Sending = (sql: Sql) => Promise<unknown>[];

const insert = (sql: Sql, value: number): Promise<unknown> =>
  sql.unsafe('insert into written values ($1)', [value], { prepare: true }).execute();

async function fixture(t: Parameters<typeof createDatabase>[0]) {
  const database = await createDatabase(t);
  const { sql } = database;
  await sql`create table written (value int)`;
  const connection = new LaneConnection(database.ownerUrl, 'lane under test');
  t.teardown(() => connection.close());
  /** Runs `during` while the lane's connection waits for a lock, and ends its backend then. */
  const killedWhileBlocked = async (during: () => Promise<unknown>): Promise<unknown> => {
    const holder = await sql.reserve();
    await holder`select pg_advisory_lock(7)`;
    const outcome = during().then(
      () => 'succeeded',
      (error: unknown) => error,
    );
    for (;;) {
      const ended = await sql`select pg_terminate_backend(pid) from pg_stat_activity
        where application_name = 'lane under test' and wait_event_type = 'Lock'`;
      if (ended.length > 0) break;
    }
    const result = await outcome;
    await holder`select pg_advisory_unlock(7)`;
    holder.release();
    return result;
  };
  /** What became of it all once the lane works again: rows, and what its connection is doing. */
  const aftermath = async () => {
    // The first ones may still meet the connection that is going.
    for (let works = false; !works; ) {
      works = await connection.sql`select 1`.then(
        () => true,
        () => false,
      );
    }
    const [lane] = await sql<{ state: string }[]>`select state from pg_stat_activity
      where application_name = 'lane under test'`;
    return { rows: await sql`select value from written`, state: lane?.state };
  };
  return { connection, sql, killedWhileBlocked, aftermath };
}

const SENDINGS: readonly [string, Sending][] = [
  [
    'behind one that is prepared first',
    (sql) => [sql.unsafe(`${BLOCKED}, $1::int`, [1], { prepare: true }).execute(), insert(sql, 1), insert(sql, 2)],
  ],
  [
    'behind a hundred others',
    (sql) => [sql.unsafe(BLOCKED).execute(), ...Array.from({ length: BEYOND_PIPELINE }, (_, i) => insert(sql, i))],
  ],
];

for (const [what, send] of SENDINGS) {
  t.test(`a lost connection takes what was kept back ${what} with it: finish`, async (t) => {
    const { connection, killedWhileBlocked, aftermath, sql } = await fixture(t);
    await connection.finish(connection.generation, (one) => [one.unsafe('begin').execute(), insert(one, -1)]);
    const generation = connection.generation;
    await connection.sql.unsafe('begin');
    t.type(await killedWhileBlocked(() => connection.finish(generation, send)), ConnectionLost);
    t.same(await aftermath(), { rows: [{ value: -1 }], state: 'idle' });
    t.rejects(connection.finish(generation, send), ConnectionLost, 'nor is anything sent later');
    t.equal((await sql`select from written`).length, 1);
  });

  t.test(`a lost connection takes what was kept back ${what} with it: whole`, async (t) => {
    const { connection, killedWhileBlocked, aftermath } = await fixture(t);
    await connection.whole(false, (one) => [insert(one, -1)]);
    const next: Promise<unknown>[] = [];
    const both = () => {
      const first = connection.whole(false, send);
      // A batch that was sent ahead behind it.
      next.push(connection.whole(true, (one) => [insert(one, 1_000)]).catch((error: unknown) => error));
      return first;
    };
    t.type(await killedWhileBlocked(both), ConnectionLost);
    t.type(await next[0], ConnectionLost);
    t.same(await aftermath(), { rows: [{ value: -1 }], state: 'idle' });
  });

  t.test(`a lost connection takes what was kept back ${what} with it: a command's own statements`, async (t) => {
    const { connection, killedWhileBlocked, aftermath } = await fixture(t);
    await connection.sql.unsafe('begin');
    const sql = connection.guarded(connection.generation);
    t.ok(await killedWhileBlocked(() => Promise.all(send(sql))), 'all fail');
    t.same(await aftermath(), { rows: [], state: 'idle' });
  });
}

t.test('a batch that cannot be sent leaves no transaction open for the next one', async (t) => {
  const { connection, aftermath } = await fixture(t);
  const throwing: Sending = () => {
    throw new Error('cannot be sent');
  };
  t.throws(() => connection.whole(false, throwing), /cannot be sent/);
  await connection.whole(true, (sql) => [insert(sql, 5)]);
  t.same(await aftermath(), { rows: [{ value: 5 }], state: 'idle' });
});
