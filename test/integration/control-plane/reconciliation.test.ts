import t from 'tap';
import { createLogger } from '../../../config/log.ts';
import { sweepReservations, sweepSettled } from '../../../control-plane/jobs/sweep-reservations.ts';
import { newTypeId } from '../../../core/type-id.ts';
import { allowed, ask, monthOf, tell } from '../decisions/lane-client.ts';
import { at, textAt } from './admin-fixture.ts';
import { fieldsOf, nounFixture, problemOf } from './noun-fixture.ts';

const PAYMENTS = 'http.post:/payments';
const LOST = { outcome: 'unknown', cause: 'target_timeout', target_status: null } as const;

type TestContext = Parameters<typeof nounFixture>[0];

/** A person whose agent has a mapped tool; `unknown` forwards a payment of so many cents into the unknown. */
async function fixtureOf(t: TestContext) {
  const fixture = await nounFixture(t);
  const agent = await fixture.agent();
  const mapped = await fixture.as('PUT', `/admin/gateways/${agent.instanceId}/tools`, {
    name: PAYMENTS,
    mapping: { action_type: 'payments.create' },
  });
  const account = { ...agent, toolId: textAt(mapped, 'tool_id') };
  const reserved = async (amount: number) => allowed(await ask(fixture.lanes, account, { amount }));
  const unknown = async (amount: number) => {
    const receipt = await reserved(amount);
    await tell(fixture.lanes, account, receipt, LOST);
    return receipt;
  };
  const settle = (receipt: string, outcome: string, reason: unknown = 'asked the target') =>
    fixture.as('POST', `/admin/reconcile/${receipt}/settle`, { outcome, reason });
  const month = () => monthOf(fixture.sql, account);
  const outcomesOf = async (receipt: string) =>
    (await fixture.chain()).flatMap(({ kind, body }) => {
      const all = (kind === 'outcome' ? body['outcomes'] : kind === 'outcome.settled' ? [body] : []) as object[];
      return all.filter((one) => 'receipt_id' in one && one.receipt_id === receipt);
    });
  const moveTime = (seconds: number) => fixture.advance(seconds);
  const log = createLogger({ name: 'test', level: 'silent' });
  const jobs = { sql: fixture.deps.sql, lanes: fixture.lanes, keyUses: fixture.deps.keyUses, log };
  return { ...fixture, account, reserved, unknown, settle, month, outcomesOf, moveTime, jobs };
}

t.test('what nobody knows is listed with what a person needs to ask the target, page by page', async (t) => {
  const { as, account, unknown, reserved } = await fixtureOf(t);
  const receipts = [await unknown(300), await unknown(401), await unknown(502)];
  await reserved(1);
  const first = await as('GET', '/admin/reconcile?limit=2');
  const listed = (first.body as { outcomes: Record<string, unknown>[] }).outcomes;
  t.same(
    listed.map((one) => one['receipt_id']),
    receipts.slice(0, 2),
  );
  t.match(listed[0], {
    mandate_id: account.mandateId,
    instance_id: account.instanceId,
    tool: PAYMENTS,
    request: { method: 'POST', path: '/payments', query: '', body_sha256: /^[0-9a-f]{64}$/ },
    action_type: 'payments.create',
    counterparty: 'acme',
    amount: { value: 3, currency: 'EUR' },
    month: /^\d{4}-\d{2}$/,
    reserved_at: /Z$/,
    unknown_since: /Z$/,
    cause: 'target_timeout',
    target_status: null,
  });
  t.equal(at(first, 'next_after'), receipts[1]);
  const second = await as('GET', `/admin/reconcile?limit=2&after=${receipts[1]}`);
  t.match(second.body, { outcomes: [{ receipt_id: receipts[2] }], next_after: null });
});

t.test('a settlement frees or books the month it came from exactly, once, and the evidence names who', async (t) => {
  const { unknown, settle, month, outcomesOf, as, person, sql, account } = await fixtureOf(t);
  const [spent, free] = [await unknown(300), await unknown(401)];
  await sql`update mandate_months set month = month - interval '1 month' where account_id = ${account.accountId}`;
  await sql`update reservations set month = month - interval '1 month' where account_id = ${account.accountId}`;
  const [before] = await sql<{ month: string }[]>`select month from mandate_months`;
  t.match((await settle(spent, 'booked')).body, {
    outcome: 'booked',
    amount: { value: 3, currency: 'EUR' },
    month: { month: before?.month.slice(0, 7), booked: 3, reserved: 4.01 },
    settled_by: person.accountId,
    reason: 'asked the target',
  });
  t.same(await month(), { reserved: 401, booked: 300 });
  t.equal((await settle(free, 'released')).status, 200);
  t.same(await month(), { reserved: 0, booked: 300 });
  const [, settled] = await outcomesOf(free);
  t.match(settled, {
    ...{ outcome: 'released', amount: 401, currency: 'EUR', instance: account.instanceId, cause: 'target_timeout' },
    ...{ mandate_id: account.mandateId, month: before?.month, reason: 'asked the target' },
    settled_by: person.accountId,
  });
  t.same(problemOf(await settle(free, 'released')), [409, 'conflict'], 'once only');
  t.same(problemOf(await settle(free, 'booked')), [409, 'conflict']);
  t.same(await month(), { reserved: 0, booked: 300 });
  t.match((await as('GET', '/admin/reconcile')).body, { outcomes: [], next_after: null });
});

t.test('of settlements and outcomes that race one wins, and the sums are those of the winner', async (t) => {
  const { unknown, settle, month, outcomesOf, lanes, account, errors } = await fixtureOf(t);
  let booked = 0;
  for (let round = 0; round < 8; round++) {
    const receipt = await unknown(100);
    const answers = await Promise.all([
      settle(receipt, 'booked'),
      ...(round % 2 === 0 ? [tell(lanes, account, receipt, { outcome: 'released' })] : []),
      settle(receipt, 'released'),
      settle(receipt, 'booked'),
    ]);
    const winners = answers.filter((one) => typeof one !== 'boolean' && one.status === 200);
    t.ok(winners.length <= 1, `${winners.length} settlements were taken`);
    const [, decisive] = (await outcomesOf(receipt)) as { outcome: string }[];
    if (decisive?.outcome === 'booked') booked += 100;
    t.same(await month(), { reserved: 0, booked });
  }
  t.same(errors, []);
});

t.test('an outcome that is told after a person settled it is recorded and moves nothing', async (t) => {
  const { unknown, settle, month, outcomesOf, lanes, account, sql } = await fixtureOf(t);
  const receipt = await unknown(300);
  await settle(receipt, 'released');
  t.equal(await tell(lanes, account, receipt, { outcome: 'unknown' }), true);
  t.equal(await tell(lanes, account, receipt, { outcome: 'booked' }), true, 'the proxy need not tell it again');
  t.equal(await tell(lanes, account, receipt, { outcome: 'booked' }), true);
  t.same(await month(), { reserved: 0, booked: 0 });
  const told = (await outcomesOf(receipt)) as { outcome: string; settled?: string }[];
  t.same(
    told.map(({ outcome, settled }) => [outcome, settled]),
    [
      ['unknown', undefined],
      ['released', undefined],
      ['booked', 'released'],
    ],
  );
  const agreed = await unknown(200);
  await settle(agreed, 'booked');
  t.equal(await tell(lanes, account, agreed, { outcome: 'booked' }), true);
  t.equal((await outcomesOf(agreed)).length, 2, 'what says the same is not recorded twice');
  t.same(await month(), { reserved: 0, booked: 200 });
  t.same(await sql`select receipt_id from reservations`, [{ receipt_id: agreed }], 'the sweep takes it');
});

t.test('what a proxy never told is listed once it was given up on, and a settled row goes after a day', async (t) => {
  const { reserved, settle, as, month, moveTime, jobs, sql } = await fixtureOf(t);
  const receipt = await reserved(300);
  t.same(problemOf(await settle(receipt, 'booked')), [409, 'conflict'], 'it is still being forwarded');
  await moveTime(15 * 60 + 1);
  await sweepReservations(jobs);
  t.match((await as('GET', '/admin/reconcile')).body, { outcomes: [{ receipt_id: receipt, cause: 'proxy_lost' }] });
  t.equal((await settle(receipt, 'booked')).status, 200);
  await sweepReservations(jobs);
  await sweepSettled(jobs);
  t.match(await sql`select state from reservations`, [{ state: 'settled_booked' }]);
  await moveTime(24 * 3600 + 1);
  await sweepSettled(jobs);
  t.same(await sql`select from reservations`, []);
  t.same(await month(), { reserved: 0, booked: 300 });
});

t.test('what cannot be meant is refused, naming the field', async (t) => {
  const { unknown, settle, as, send, month } = await fixtureOf(t);
  const receipt = await unknown(300);
  const refused = async (body: unknown) => {
    const answer = await as('POST', `/admin/reconcile/${receipt}/settle`, body);
    t.equal(answer.status, 422, answer.text);
    return fieldsOf(answer);
  };
  t.same(await refused({ outcome: 'unknown', reason: 'x' }), ['outcome']);
  t.same(await refused({ outcome: 'booked' }), ['reason']);
  t.same(await refused({ outcome: 'booked', reason: '' }), ['reason']);
  t.same(await refused({ outcome: 'booked', reason: 'x'.repeat(501) }), ['reason']);
  t.same(await refused({ outcome: 'booked', reason: 'a\u0000b' }), ['reason']);
  t.same(await refused({ outcome: 'booked', reason: 7 }), ['reason']);
  t.same(await refused({ outcome: 'booked', reason: 'x', amount: 1 }), ['(body)']);
  t.same(await refused(undefined), ['outcome', 'reason']);
  t.same(problemOf(await settle(newTypeId('rcp', Date.now()), 'booked')), [404, 'not_found']);
  t.same(problemOf(await settle('rcp_x', 'booked')), [404, 'not_found']);
  for (const query of ['after=rcp_x', 'after=', 'limit=0', 'limit=201', 'limit=1.5', 'state=x']) {
    t.equal((await as('GET', `/admin/reconcile?${query}`)).status, 422, query);
  }
  t.same(problemOf(await send('GET', '/admin/reconcile', null)), [401, 'unauthenticated']);
  t.same(await month(), { reserved: 300, booked: 0 });
});
