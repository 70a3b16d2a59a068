import t from 'tap';
import type { GatewayAnswer } from '../../../core/wire.ts';
import { allowed, ask, chainOf, laneFixture, monthOf, tell } from './lane-client.ts';

t.test('a batch decides on what the last one left, and outcomes too, without reading again', async (t) => {
  const { lanes, account, sql, sources } = await laneFixture(t);
  const first = allowed(await ask(lanes, account, { amount: 100 }));
  const second = allowed(await ask(lanes, account, { amount: 200 }));
  t.equal(await tell(lanes, account, first, { outcome: 'booked' }), true);
  t.equal(await tell(lanes, account, second, { outcome: 'released', target_status: 422 }), true);
  t.same(sources, ['read', 'carried', 'carried', 'carried']);
  t.same(await monthOf(sql, account), { reserved: 0, booked: 100 });
  t.same(await sql`select from reservations`, []);
  t.equal((await chainOf(sql, account)).length, 4);
});

const CHANGED_BY_HAND: readonly [string, string, object][] = [
  ['a mandate is suspended', `update mandates set status = 'suspended'`, { answer: 'deny', code: 'MD-203' }],
  ['a mandate is revoked', `update mandates set status = 'revoked'`, { answer: 'deny', code: 'MD-204' }],
  ['an instance is disabled', `update gateway_instances set status = 'disabled'`, { error: 'forbidden' }],
  [
    'a token is rotated',
    `update gateway_instances set token_hash = sha256('another')`,
    { answer: 'problem', error: 'unauthenticated' },
  ],
  ['a tool is blocked', `update tools set state = 'blocked', mapping = null`, { answer: 'deny', code: 'MD-501' }],
  ['a tool is deleted', 'delete from tools', { answer: 'deny', code: 'MD-501' }],
  ['a mapping is replaced', 'update tools set version = version + 1', { answer: 'mapping' }],
];

for (const [what, statement, expected] of CHANGED_BY_HAND) {
  t.test(`${what}, even by hand in the database: the next ask sees it`, async (t) => {
    const { lanes, account, sql, sources } = await laneFixture(t);
    allowed(await ask(lanes, account));
    allowed(await ask(lanes, account));
    await sql.unsafe(statement);
    t.match(await ask(lanes, account), expected);
    t.same(sources, ['read', 'carried', 'changed', 'read']);
  });
}

t.test('what happens at another control plane between two batches is seen by the second', async (t) => {
  const fixture = await laneFixture(t, { per_month: 1000 });
  const { lanes, account, sql, sources } = fixture;
  const other = fixture.moreLanes();
  const first = allowed(await ask(lanes, account, { amount: 300 }));
  allowed(await ask(other, account, { amount: 300 }));
  t.match(await ask(lanes, account, { amount: 500 }), { answer: 'deny', code: 'MD-303' }, 'both count');
  t.ok(sources.includes('changed'));
  t.equal(await tell(other, account, first, { outcome: 'released', target_status: 404 }), true);
  allowed(await ask(lanes, account, { amount: 500 }));
  t.equal(await tell(lanes, account, first, { outcome: 'booked' }), true, 'it is settled already');
  t.same(await monthOf(sql, account), { reserved: 800, booked: 0 });
});

t.test('batches that were decided ahead on effects that did not come about are decided anew, in order', async (t) => {
  const fixture = await laneFixture(t, { per_month: 1_000 });
  const { account, sql, sources, errors } = fixture;
  const ahead = fixture.moreLanes({ batchMax: 32 });
  for (let i = 0; i < 2; i++) allowed(await ask(ahead, account, { amount: 1 }));
  sources.length = 0;
  await sql`update mandate_months set booked = 970`;
  const answers = await Promise.all(Array.from({ length: 96 }, () => ask(ahead, account, { amount: 1 })));
  t.same(sources.slice(0, 3), ['changed', 'changed', 'read'], 'two were under way, and neither was written');
  const denied = answers.findIndex(({ answer }) => answer === 'deny');
  t.equal(denied, 28, 'the first that there was no room for');
  t.ok(answers.slice(denied).every((one) => one.answer === 'deny' && one.code === 'MD-303'));
  t.same(await monthOf(sql, account), { reserved: 30, booked: 970 });
  t.equal((await chainOf(sql, account)).length, 98);
  t.same(errors, []);
});

t.test('a batch that is decided ahead sees what the one before it reserved', async (t) => {
  const fixture = await laneFixture(t, { per_month: 50 });
  const { account, sql, sources } = fixture;
  const ahead = fixture.moreLanes({ batchMax: 32 });
  for (let i = 0; i < 2; i++) allowed(await ask(ahead, account, { amount: 1 }));
  sources.length = 0;
  const answers = await Promise.all(Array.from({ length: 96 }, () => ask(ahead, account, { amount: 1 })));
  t.same(sources, ['carried', 'carried', 'carried']);
  t.same(answers.map(({ answer }) => answer).filter((one) => one === 'allow').length, 48);
  t.same(await monthOf(sql, account), { reserved: 50, booked: 0 });
});

t.test('a month that was raised by hand above the limit lets nothing more through', async (t) => {
  const { lanes, account, sql } = await laneFixture(t, { per_month: 1000 });
  allowed(await ask(lanes, account, { amount: 100 }));
  allowed(await ask(lanes, account, { amount: 100 }));
  await sql`update mandate_months set booked = 900`;
  t.match(await ask(lanes, account, { amount: 100 }), { answer: 'deny', code: 'MD-303' });
  t.same(await monthOf(sql, account), { reserved: 200, booked: 900 });
});

t.test('an ask that is decided anew is charged to its token once', async (t) => {
  const { lanes, account, sql, sources } = await laneFixture(t);
  await sql`update gateway_instances set rate_per_second = 1, rate_burst = 5`;
  const remaining = (answer: GatewayAnswer) => ('rate' in answer ? answer.rate?.[1] : undefined);
  const seen = [];
  for (let i = 0; i < 3; i++) {
    await sql`update mandates set name = name || '.'`;
    seen.push(remaining(await ask(lanes, account)));
  }
  t.same(seen, [4, 3, 2]);
  t.same(sources.filter((source) => source === 'changed').length, 1, 'then it is read for a while');
});

t.test('a decision counts in the month that has begun by the database clock', async (t) => {
  const { lanes, account, sql } = await laneFixture(t, { per_month: 1000 });
  allowed(await ask(lanes, account, { amount: 700 }));
  allowed(await ask(lanes, account, { amount: 100 }));
  t.match(await ask(lanes, account, { amount: 700 }), { answer: 'deny', code: 'MD-303' });
  await sql.unsafe(`create or replace function db_clock() returns timestamptz language sql parallel safe
    as $$ select date_trunc('milliseconds', clock_timestamp() + interval '1 month') $$`);
  allowed(await ask(lanes, account, { amount: 700 }));
  const months = await sql`select reserved from mandate_months order by month`;
  t.match(months, [{ reserved: 800 }, { reserved: 700 }]);
});

t.test('a clock that is set back neither stops an account nor lets its time go back', async (t) => {
  const { lanes, account, sql } = await laneFixture(t);
  allowed(await ask(lanes, account));
  allowed(await ask(lanes, account));
  await sql.unsafe(`create or replace function db_clock() returns timestamptz language sql parallel safe
    as $$ select date_trunc('milliseconds', clock_timestamp() - interval '1 hour') $$`);
  for (let i = 0; i < 3; i++) allowed(await ask(lanes, account));
  const times = (await chainOf(sql, account)).map(({ at }) => at);
  t.same(times, times.toSorted());
  t.equal(times.length, 5);
});

t.test(
  'many accounts in one batch: each is confirmed by its own head, and one that changed spoils no other',
  async (t) => {
    const fixture = await laneFixture(t, { per_month: 1000 });
    const { account, sql } = fixture;
    const lanes = fixture.moreLanes({ lanes: 1 });
    const second = await fixture.moreAccounts(1, { per_month: 1000 });
    const accounts = [account, ...second];
    const round = () => Promise.all(accounts.map((one) => ask(lanes, one, { amount: 100 })));
    for (const answer of [...(await round()), ...(await round())]) allowed(answer);
    await sql`update mandates set status = 'suspended' where account_id = ${account.accountId}`;
    const [one, two] = await round();
    t.match(one, { answer: 'deny', code: 'MD-203' });
    allowed(two!);
    for (const one of accounts) t.equal((await chainOf(sql, one)).length, 3);
    t.same(await monthOf(sql, second[0]!), { reserved: 300, booked: 0 });
  },
);
