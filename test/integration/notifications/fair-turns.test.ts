import t from 'tap';
import { connect, type Sql } from '../../../control-plane/db/client.ts';
import { type Busy, busyWith, type Claimed, claim } from '../../../control-plane/notifications/deliveries.ts';
import { createDatabase } from '../../database.ts';

const accountOf = (n: number) => `acc_${String(n).padStart(26, '0')}`;
/** Sorts behind every other account. */
const HONEST = `acc_${'z'.repeat(26)}`;
const NOBODY = busyWith([], new Map());

async function database(t: Parameters<typeof createDatabase>[0]): Promise<Sql> {
  const { appUrl } = await createDatabase(t);
  const sql = connect(appUrl, { applicationName: 'test turns', max: 2 });
  t.teardown(() => sql.end());
  return sql;
}

/** Deliveries of an account to ten receivers, due for so many seconds. */
async function due(sql: Sql, accountId: string, count: number, seconds: number): Promise<void> {
  await sql`
    with events as (
      insert into notification_events (account_id, event_id, type, at, facts, payload, spread_at)
      select ${accountId}, new_type_id('evt', db_clock()), 'escalation.created', db_clock(), '{}', '{}', db_clock()
      from generate_series(1, ${count}::integer) returning account_id, event_id)
    insert into notification_deliveries (account_id, delivery_id, event_id, channel, target, state, next_at, created_at)
    select account_id, new_type_id('dlv', db_clock()), event_id, 'webhook', 'whk_' || (row_number() over () % 10),
      'pending', db_clock() - ${seconds}::integer * interval '1 second', db_clock()
    from events`;
}

const accountsOf = (claimed: readonly Claimed[]) => claimed.map(({ account_id: account }) => account);
const take = (sql: Sql, free: number, busy: Busy = NOBODY) => claim(sql, 'webhook', { free, reserved: 16, busy });

t.test('however long the backlog of others is, an account with nothing in flight has its turn at once', async (t) => {
  const sql = await database(t);
  for (let n = 0; n < 8; n++) await due(sql, accountOf(n), 600, 60 + n);
  await due(sql, HONEST, 1, 1);
  const first = await take(sql, 64);
  t.ok(accountsOf(first).includes(HONEST));
  t.equal(first.length, 48, 'the reserved ones are for accounts that have nothing on its way');
  for (let n = 0; n < 8; n++) {
    const own = first.filter(({ account_id: account }) => account === accountOf(n));
    t.ok(own.length <= 8 && own.length >= 5, `${own.length}`);
  }
  await due(sql, HONEST, 1, 0);
  const flying = first.filter(({ account_id: account }) => account !== HONEST);
  t.same(accountsOf(await take(sql, 16, busyWith(flying, new Map()))), [HONEST]);
});

t.test('where everybody waits, who was quick comes before who was slow, and seconds after firsts', async (t) => {
  const sql = await database(t);
  const slow = new Map<string, number>();
  for (let n = 0; n < 100; n++) {
    await due(sql, accountOf(n), 10, 600);
    slow.set(accountOf(n), 15_000);
  }
  await due(sql, HONEST, 3, 1);
  t.same(accountsOf(await take(sql, 1, busyWith([], slow))), [HONEST]);
  const next = accountsOf(await take(sql, 64, busyWith([], slow)));
  t.equal(next.filter((account) => account === HONEST).length, 1);
  t.equal(new Set(next).size, 64);
});

t.test('an account has no more in flight than it may, however often its deliveries are claimed', async (t) => {
  const sql = await database(t);
  await due(sql, HONEST, 40, 1);
  const flying: Claimed[] = [];
  for (let round = 0; round < 5; round++) flying.push(...(await take(sql, 64, busyWith(flying, new Map()))));
  t.equal(flying.length, 8);
});
