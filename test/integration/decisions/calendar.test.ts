import t from 'tap';
import { bookConsumption } from '../../../control-plane/consumptions/book.ts';
import { book } from '../../../control-plane/decisions/booking.ts';
import { reportExecution } from '../../../control-plane/executions/report.ts';
import { DecimalText } from '../../../core/body-value.ts';
import { secretHash } from '../../../core/secret-token.ts';
import { after, runClock, stopClock } from './database-clock.ts';
import { ask, chainOf } from './lane-client.ts';
import { type VerifyFixture, verified, verifyFixture } from './verify-client.ts';

/** When months begin: the zone, the first moment of a month there, and that month. No two follow each other. */
const MONTHS: readonly (readonly [zone: string, begins: string, month: string])[] = [
  ['UTC', '2031-03-01T00:00:00.000Z', '2031-03-01'],
  ['UTC', '2032-01-01T00:00:00.000Z', '2032-01-01'],
  ['UTC', '2032-03-01T00:00:00.000Z', '2032-03-01'],
  // Summer time began on March 30, and ended on October 26.
  ['Europe/Berlin', '2031-03-31T22:00:00.000Z', '2031-04-01'],
  ['Europe/Berlin', '2031-10-31T23:00:00.000Z', '2031-11-01'],
  ['Europe/Berlin', '2031-12-31T23:00:00.000Z', '2032-01-01'],
  // Summer time ends at one o'clock on November 1: its midnight comes twice, and the month has begun with the first.
  ['America/Havana', '2037-11-01T04:00:00.000Z', '2037-11-01'],
];

/** Verifies, by the database's clock. */
async function verifyAt(fixture: VerifyFixture, at: string, amount: number, lanes = fixture.lanes) {
  const now = Date.parse(at);
  const { json } = await verified(fixture, { amount, issuedAtMs: now, expiresAtMs: now + 300_000 }, lanes);
  return { ...json, said: json.reasons?.[0] ?? json.decision };
}

async function monthsOf({ sql, account }: VerifyFixture) {
  const rows = await sql`select month::text, reserved, booked from mandate_months
    where account_id = ${account.accountId} order by 1`;
  return rows.map((row) => ({ ...row }));
}

/** What the gateway and what the service say to an amount at a moment. */
async function bothAt(fixture: VerifyFixture, at: string, amount: number, lanes = fixture.lanes) {
  const forwarded = await ask(lanes, fixture.account, { amount });
  const { said } = await verifyAt(fixture, at, amount, lanes);
  return ['code' in forwarded ? forwarded.code : forwarded.answer, said];
}

for (const zone of new Set(MONTHS.map(([zone]) => zone))) {
  t.test(`a month of ${zone} ends at its last millisecond, on both paths`, async (t) => {
    const fixture = await verifyFixture(t, { per_month: 1_000, time_zone: zone });
    for (const [, begins, month] of MONTHS.filter(([one]) => one === zone)) {
      const last = after(begins, -1);
      await stopClock(fixture.sql, last);
      // Lanes that have carried nothing: their time is the clock's, not reckoned from it.
      const [old, young] = [fixture.moreLanes({ lanes: 1 }), fixture.moreLanes({ lanes: 1 })];
      t.same(await bothAt(fixture, last, 500, old), ['allow', 'allow'], `${last} fills the month`);
      t.same(await bothAt(fixture, last, 1, old), ['MD-303', 'MD-303'], 'which is then full');
      await stopClock(fixture.sql, begins);
      t.same(await bothAt(fixture, begins, 500, young), ['allow', 'allow'], `${begins} is a new month`);
      t.same(await bothAt(fixture, begins, 1, young), ['MD-303', 'MD-303']);
      t.match((await monthsOf(fixture)).at(-1), { month, reserved: 1_000 });
    }
    t.same(fixture.errors, []);
  });

  t.test(`facts that were carried over the end of a month of ${zone} are not those of the next`, async (t) => {
    const fixture = await verifyFixture(t, { per_month: 1_000, time_zone: zone });
    for (const [, begins, month] of MONTHS.filter(([one]) => one === zone)) {
      const before = after(begins, -60_000);
      await runClock(fixture.sql, before);
      t.same(await bothAt(fixture, before, 100), ['allow', 'allow']);
      t.same(await bothAt(fixture, before, 400), ['allow', 'allow']);
      t.equal((await verifyAt(fixture, before, 1)).said, 'MD-303');
      await runClock(fixture.sql, begins);
      t.same(await bothAt(fixture, begins, 500), ['allow', 'allow'], begins);
      const later = after(begins, 30 * 60_000);
      await runClock(fixture.sql, later);
      t.same(await bothAt(fixture, later, 1), ['MD-303', 'MD-303'], 'half an hour on as well');
      t.match((await monthsOf(fixture)).at(-1), { month, reserved: 1_000 });
    }
    t.ok(fixture.sources.includes('carried'));
    t.ok((await monthsOf(fixture)).every((one) => Object(one).reserved === 1_000));
    t.same(fixture.errors, []);
  });
}

for (const [zone, begins, month] of MONTHS) {
  t.test(`decisions that follow each other into ${begins} (${zone}) count in the month of their time`, async (t) => {
    const fixture = await verifyFixture(t, { time_zone: zone });
    const { lanes, account, sql, sources } = fixture;
    await runClock(sql, after(begins, -400));
    let at = '';
    // Until the month has begun by the decisions themselves: nothing here waits for this process's clock.
    for (let asked = 0; at < after(begins, 200) && asked < 10_000; asked++) {
      await ask(lanes, account, { amount: 1 });
      at = (await verifyAt(fixture, begins, 1)).receipt?.decided_at ?? '';
    }
    const entries = (await chainOf(sql, account)).map(({ at, body }) => ({ at, month: JSON.parse(body).month.month }));
    const wrong = entries.filter((one) => (one.month === month) !== one.at >= begins);
    t.same(wrong.slice(0, 3), [], `of ${entries.length}`);
    t.ok(entries.some((one) => one.at < begins) && entries.some((one) => one.at >= begins));
    t.ok(sources.includes('carried'));
    t.same(fixture.errors, []);
  });
}

t.test('what was reserved last month is booked and released in last month', async (t) => {
  const fixture = await verifyFixture(t, { per_month: 3_000, time_zone: 'Europe/Berlin' });
  const { account, lanes, sql } = fixture;
  const begins = '2031-10-31T23:00:00.000Z';
  const last = after(begins, -1);
  await stopClock(sql, last);
  const tokens: string[] = [];
  for (let i = 0; i < 3; i++) {
    const { consumption_token: token = '' } = await verifyAt(fixture, last, 1_000);
    tokens.push(secretHash(token));
  }
  const [first = '', second = ''] = tokens;
  await stopClock(sql, begins);
  const where = { accountId: account.accountId };
  const booked = await book(lanes, { ...where, tokenHash: first }, (context, one) =>
    bookConsumption(context, one, { final_amount: new DecimalText('4') }),
  );
  t.match(JSON.parse(booked?.text ?? ''), {
    booked: { value: 4 },
    // Of October: 30.00, less 4.00 that are booked and 20.00 that are still reserved.
    remaining: { value: 6, currency: 'EUR', period: '2031-10' },
    receipt: { recorded_at: begins },
  });
  await book(lanes, { ...where, tokenHash: second }, (context, one) =>
    reportExecution(context, one, { outcome: 'failed' }),
  );
  t.same(await monthsOf(fixture), [{ month: '2031-10-01', reserved: 1_000, booked: 400 }]);
  t.equal((await verifyAt(fixture, begins, 3_000)).said, 'allow', 'November is untouched');
  t.same(await monthsOf(fixture), [
    { month: '2031-10-01', reserved: 1_000, booked: 400 },
    { month: '2031-11-01', reserved: 3_000, booked: 0 },
  ]);
  const bodies = (await chainOf(sql, account)).map(({ body }) => JSON.parse(body) as Record<string, unknown>);
  t.same(
    bodies.slice(3, 5).map(({ month }) => month),
    ['2031-10-01', '2031-10-01'],
    'and so says the evidence',
  );
  t.same(fixture.errors, []);
});

t.test("a presentation's window is judged by the database's clock, to the millisecond", async (t) => {
  const fixture = await verifyFixture(t);
  const at = '2031-06-01T12:00:00.000Z';
  const now = Date.parse(at);
  await stopClock(fixture.sql, at);
  const cases: readonly (readonly [string, from: number, to: number, said: string])[] = [
    ['issued as far ahead as clocks may differ', 30_000, 60_000, 'allow'],
    ['issued a millisecond later', 30_001, 60_000, 'MD-102'],
    ['expired as long ago as clocks may differ', -60_000, -30_000, 'MD-102'],
    ['expired a millisecond less ago', -60_000, -29_999, 'allow'],
    ['the longest window', 0, 300_000, 'allow'],
    ['a millisecond longer', 0, 300_001, 'MD-102'],
    ['the longest window at its very end', -329_999, -29_999, 'allow'],
    ['the longest window at its very beginning', 30_000, 330_000, 'allow'],
    ['a window of a millisecond', 0, 1, 'allow'],
    ['no window', 0, 0, 'MD-102'],
    ['a window the wrong way round', 1, 0, 'MD-102'],
  ];
  for (const [name, from, to, said] of cases) {
    const { json } = await verified(fixture, { issuedAtMs: now + from, expiresAtMs: now + to });
    t.equal(json.reasons?.[0] ?? json.decision, said, name);
  }
  const real = Date.now();
  const { json } = await verified(fixture, { issuedAtMs: real, expiresAtMs: real + 300_000 });
  t.match(json, { reasons: ['MD-102'] }, "this process's clock says nothing");
  t.same(fixture.errors, []);
});

t.test('a nonce stays spent until the last moment at which its presentation would be taken', async (t) => {
  const fixture = await verifyFixture(t);
  const at = '2031-06-01T12:00:00.000Z';
  const asked = { nonce: 'once-only-once-only-once', issuedAtMs: Date.parse(at), expiresAtMs: Date.parse(at) + 1_000 };
  const said = async (): Promise<string | undefined> => (await verified(fixture, asked)).json.reasons?.[0];
  await stopClock(fixture.sql, at);
  t.equal(await said(), undefined, 'an allow');
  const [row] = await fixture.sql<{ at: number }[]>`select epoch_ms(expires_at) as at from spent_nonces`;
  const last = after(at, 1_000 + 30_000 - 1);
  t.ok((row?.at ?? 0) > Date.parse(last), 'it is kept longer than that');
  await stopClock(fixture.sql, last);
  t.equal(await said(), 'MD-105');
  await stopClock(fixture.sql, after(last, 1));
  t.equal(await said(), 'MD-102');
});
