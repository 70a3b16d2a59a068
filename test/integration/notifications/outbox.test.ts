import t from 'tap';
import type { SeededAccount } from '../../../bench/seed.ts';
import { createLogger } from '../../../config/log.ts';
import type { Sql } from '../../../control-plane/db/client.ts';
import { expireEscalations } from '../../../control-plane/jobs/expire-escalations.ts';
import { sweepNotifications } from '../../../control-plane/jobs/sweep-notifications.ts';
import { KeyUses } from '../../../control-plane/keys/uses.ts';
import { openSandbox } from '../../../control-plane/sandbox/account.ts';
import { isTypeId, newTypeId } from '../../../core/type-id.ts';
import { escalationFixture, send } from '../control-plane/escalation-fixture.ts';
import { allowed, ask, laneFixture, monthOf, tell } from '../decisions/lane-client.ts';

interface Written {
  readonly type: string;
  readonly once: string | null;
  readonly facts: Record<string, unknown>;
}

async function eventsOf(sql: Sql, { accountId }: SeededAccount, pattern = '%'): Promise<Written[]> {
  return await sql<Written[]>`
    select type, once, facts from notification_events
    where account_id = ${accountId} and type like ${pattern} order by event_id`;
}

t.test('what 64 decisions at two control planes cross is told exactly once a month', async (t) => {
  const fixture = await laneFixture(t, { per_month: 6_400 });
  const { sql, account } = fixture;
  const planes = [fixture.lanes, fixture.moreLanes()];
  const answers = await Promise.all(
    Array.from({ length: 64 }, (_, i) => ask(planes[i % 2]!, account, { amount: 100 })),
  );
  const receipts = answers.map(allowed);
  t.same(await monthOf(sql, account), { reserved: 6_400, booked: 0 });
  const told = await eventsOf(sql, account, 'limit.%');
  t.match(told, [
    { type: 'limit.warning', facts: { mandate_id: account.mandateId, percent: 80, limit: 6_400 } },
    { type: 'limit.reached', facts: { percent: 100, used: 6_400, currency: 'EUR' } },
  ]);
  t.ok(Number(told[0]?.facts['used']) >= 5_120, 'not before 80 %');
  for (const receipt of receipts.slice(0, 40)) await tell(planes[0]!, account, receipt, { outcome: 'released' });
  await Promise.all(Array.from({ length: 40 }, (_, i) => ask(planes[i % 2]!, account, { amount: 100 })));
  t.same(await monthOf(sql, account), { reserved: 6_400, booked: 0 }, 'crossed once more');
  t.equal((await eventsOf(sql, account, 'limit.%')).length, 2);
  t.same(fixture.errors, []);
});

t.test('decisions that cross nothing write nothing to the outbox', async (t) => {
  const { sql, account, lanes } = await laneFixture(t, { per_month: 10_000 });
  await sql`delete from notification_events`;
  for (let i = 0; i < 20; i += 1) await ask(lanes, account, { amount: 100 });
  await ask(lanes, account, { amount: 100, counterparty: null });
  t.same(await eventsOf(sql, account), []);
});

t.test('a limit that is lowered below what is used is told of, once', async (t) => {
  const { sql, account, lanes } = await laneFixture(t, { per_month: 10_000 });
  await ask(lanes, account, { amount: 1_000 });
  for (const limit of [1_200, 1_100]) await sql`update mandates set per_month = ${limit}`;
  t.match(await eventsOf(sql, account, 'limit.%'), [{ type: 'limit.warning', facts: { used: 1_000, limit: 1_200 } }]);
  await sql`update mandates set per_month = 10_000`;
  for (const amount of [7_500, 500]) allowed(await ask(lanes, account, { amount }));
  t.equal((await eventsOf(sql, account, 'limit.%')).length, 1, 'nor by a decision that crosses it again');
  await sql`update mandates set per_month = 900`;
  t.match(await eventsOf(sql, account, 'limit.%'), [{ type: 'limit.warning' }, { type: 'limit.reached' }]);
});

t.test('each step of an escalation is told once, with what it is about', async (t) => {
  const fixture = await escalationFixture(t);
  const { sql, account, plane, session } = fixture;
  const ids: string[] = [];
  for (const at of [0, 1, 2]) ids.push(await fixture.escalate({ counterparty: `party ${at}` }));
  await fixture.escalate({ counterparty: 'party 0' });
  await send(plane, 'POST', `/admin/escalations/${ids[0]}/approve`, session);
  await send(plane, 'POST', `/admin/escalations/${ids[0]}/approve`, session);
  await send(plane, 'POST', `/admin/escalations/${ids[1]}/reject`, session, { reason: 'no' });
  await fixture.moveTime(601);
  const core = {
    sql: fixture.appSql,
    lanes: plane.lanes,
    keyUses: new KeyUses(),
    log: createLogger({ name: 'test', level: 'silent' }),
  };
  await Promise.all([expireEscalations(core), expireEscalations(core)]);
  const told = await eventsOf(sql, account, 'escalation.%');
  t.same(
    told.map(({ type, once }) => [type, ids.indexOf(once ?? '')]),
    [
      ...[0, 1, 2].map((at) => ['escalation.created', at]),
      ['escalation.approved', 0],
      ['escalation.rejected', 1],
      ['escalation.expired', 2],
    ],
  );
  t.match(told[4]?.facts, { reason: 'no', action: { amount: 501, counterparty: 'party 1' }, path: '/payments' });
  t.notMatch(JSON.stringify(told), /body|query|token/);
});

t.test('an event is written with its change or not at all', async (t) => {
  const { sql, account, lanes } = await laneFixture(t);
  await sql`delete from notification_events`;
  const suspend = (fails: boolean) =>
    lanes.command(account.accountId, async ({ sql: tx }) => {
      await tx`update mandates set status = 'suspended' where account_id = ${account.accountId}`;
      if (fails) throw new Error('not after all');
    });
  await t.rejects(suspend(true));
  t.same(await eventsOf(sql, account), []);
  await suspend(false);
  t.match(await eventsOf(sql, account), [
    { type: 'mandate.suspended', facts: { mandate_id: account.mandateId, from: 'active', to: 'suspended' } },
  ]);
});

t.test('every change of a mandate’s status is told, and no other change of it', async (t) => {
  const { sql, account } = await laneFixture(t);
  await sql`delete from notification_events`;
  for (const status of ['suspended', 'active', 'consumed', 'expired', 'revoked']) {
    await sql`update mandates set status = ${status}, uses = uses + 1`;
    await sql`update mandates set status = ${status}, uses = uses + 1`;
  }
  const types = (await eventsOf(sql, account)).map(({ type }) => type);
  t.same(
    types,
    ['suspended', 'resumed', 'consumed', 'expired', 'revoked'].map((step) => `mandate.${step}`),
  );
});

t.test('outcomes that are given up on together are one event, and a known one is none', async (t) => {
  const { sql, account, lanes } = await laneFixture(t);
  const receipts = [];
  for (let i = 0; i < 3; i += 1) receipts.push(allowed(await ask(lanes, account, { amount: 100 })));
  await Promise.all(
    receipts.map((receipt, i) => tell(lanes, account, receipt, { outcome: i === 0 ? 'booked' : 'unknown' })),
  );
  const told = await eventsOf(sql, account, 'outcome.%');
  t.match(told, [
    {
      type: 'outcome.unknown',
      facts: { count: 2, amount: 200, receipts: receipts.slice(1), mandate_id: account.mandateId },
    },
  ]);
});

t.test('events and their deliveries go when they are old, unless nobody was told yet', async (t) => {
  const { sql, account } = await laneFixture(t);
  await sql`delete from notification_events`;
  await sql`update mandates set status = 'suspended'`;
  await sql`update mandates set status = 'active'`;
  await sql`update notification_events set at = db_clock() - interval '46 days'`;
  await sql`update notification_events set spread_at = db_clock() where type = 'mandate.suspended'`;
  await sql`insert into notification_deliveries (account_id, delivery_id, event_id, channel, target, state, next_at,
      created_at)
    select account_id, new_type_id('dlv', db_clock()), event_id, 'mail', 'a@b.example', 'pending', at, at
    from notification_events`;
  t.equal(await sweepNotifications(sql), false);
  t.match(await eventsOf(sql, account), [{ type: 'mandate.resumed' }]);
  t.equal((await sql`select from notification_deliveries`).length, 1);
});

t.test('the sandbox, which is nobody’s, is told of nothing', async (t) => {
  const { sql, account } = await laneFixture(t);
  const sandbox = await openSandbox(sql);
  for (const one of [sandbox, account.accountId]) {
    await sql`select record_notification(${one}, 'mandate.activated', 'here', '{}'::jsonb)`;
  }
  const told = await sql`select account_id from notification_events where once = 'here'`;
  t.same(
    told.map((row) => row['account_id']),
    [account.accountId],
  );
});

t.test('identifiers made by the database are those of the code: of their time, and never the same', async (t) => {
  const { sql } = await laneFixture(t);
  const rows = await sql<{ id: string; at: number }[]>`
    select new_type_id('evt', at) as id, at
    from generate_series(timestamptz '2026-01-01', '2026-02-01', interval '1 hour') as at`;
  t.equal(new Set(rows.map(({ id }) => id)).size, rows.length);
  for (const { id, at } of rows) {
    t.ok(isTypeId(id, 'evt'), id);
    t.equal(id.slice(0, 13), newTypeId('evt', at).slice(0, 13), 'the same characters of time');
  }
});
