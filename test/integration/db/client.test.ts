import t from 'tap';
import { connect, isUnavailable, withRole } from '../../../control-plane/db/client.ts';
import { createDatabase } from '../../database.ts';

t.test('values of the database arrive exactly, or not at all', async (t) => {
  const { sql } = await createDatabase(t);
  const [row] =
    await sql`select 9007199254740991::bigint as largest, '\\x00ff'::bytea as bytes, array[1, 2]::bigint[] as list,
    timestamptz '2026-01-31 10:05:00.123+01' as time, date '2026-02-28' as day, 1.10::numeric as amount`;
  t.strictSame(row, {
    largest: Number.MAX_SAFE_INTEGER,
    bytes: Buffer.from([0, 255]),
    list: [1, 2],
    time: Date.UTC(2026, 0, 31, 9, 5, 0, 123),
    day: '2026-02-28',
    amount: '1.10',
  });
  await t.rejects(sql`select 9007199254740992::bigint as inexact`, /not an exact number/);
  await t.rejects(sql`select timestamptz 'infinity' as never`, /cannot be represented/);
  const [again] = await sql`select 1 as alive`;
  t.equal(again?.['alive'], 1, 'the connection outlives a refused value');
});

t.test('a moment is taken as milliseconds, Date or RFC 3339 and comes back the same', async (t) => {
  const { sql } = await createDatabase(t);
  const moment = Date.UTC(2026, 6, 1, 12, 0, 0, 7);
  for (const given of [moment, new Date(moment), '2026-07-01T14:00:00.007+02:00']) {
    const [row] = await sql`select ${given}::timestamptz as moment`;
    t.equal(row?.['moment'], moment);
  }
});

t.test('every session has time-outs, so that no statement, lock or forgotten transaction lasts', async (t) => {
  const { ownerUrl } = await createDatabase(t);
  const sql = connect(ownerUrl, { max: 2, applicationName: 'time-outs', statementTimeoutMs: 200, lockTimeoutMs: 50 });
  t.teardown(() => sql.end());
  const [shown] = await sql`select current_setting('idle_in_transaction_session_timeout') as idle`;
  t.not(shown?.['idle'], '0');
  await t.rejects(sql`select pg_sleep(30)`, { code: '57014' });
  await sql.begin(async (first) => {
    await first`select pg_advisory_xact_lock(1)`;
    await t.rejects(sql`select pg_advisory_xact_lock(1)`, { code: '55P03' });
  });
});

t.test('a pool recovers by itself after the server ended its connections', async (t) => {
  const { ownerUrl, superuserUrl } = await createDatabase(t);
  const sql = connect(ownerUrl, { max: 1, applicationName: 'recovering' });
  const superuser = connect(superuserUrl, { max: 1, applicationName: 'test' });
  t.teardown(() => Promise.all([sql.end(), superuser.end()]).then(() => {}));
  const lost = sql`select pg_sleep(60)`.then(null, (error: unknown) => error);
  for (let ended = 0; ended === 0; ) {
    ended = (
      await superuser`select pg_terminate_backend(pid) from pg_stat_activity
        where application_name = 'recovering' and state = 'active' and query like '%pg_sleep%'`
    ).length;
  }
  t.ok(isUnavailable(await lost));
  for (;;) {
    const answer = await sql`select 1 as alive`.then(null, (error: unknown) => error);
    if (Array.isArray(answer)) break;
    if (!isUnavailable(answer)) throw answer;
  }
  const [row] = await sql`select 1 as alive`;
  t.equal(row?.['alive'], 1);
});

t.test('a server that is away is told from a statement that is refused', async (t) => {
  const away = connect('postgres://nobody:x@127.0.0.1:1/none', { max: 1, applicationName: 'away' });
  t.teardown(() => away.end());
  t.ok(isUnavailable(await away`select 1`.then(null, (error: unknown) => error)));
  const { sql } = await createDatabase(t);
  t.notOk(isUnavailable(await sql`select 1 / 0`.then(null, (error: unknown) => error)));
});

t.test('a URL is given to another role without touching the rest', async (t) => {
  t.equal(withRole('postgres://a:b@h:1/d?host=%2Fx', 'r', 'p/ä'), 'postgres://r:p%2F%C3%A4@h:1/d?host=%2Fx');
});
