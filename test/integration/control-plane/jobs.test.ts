import t from 'tap';
import { createLogger } from '../../../config/log.ts';
import { expireEscalations } from '../../../control-plane/jobs/expire-escalations.ts';
import { expireMandates } from '../../../control-plane/jobs/expire-mandates.ts';
import type { JobsCore } from '../../../control-plane/jobs/job.ts';
import { startJobs } from '../../../control-plane/jobs/loop.ts';
import { sweepAnswers, sweepSessions } from '../../../control-plane/jobs/sweep-expired.ts';
import { sweepReservations } from '../../../control-plane/jobs/sweep-reservations.ts';
import { KeyUses } from '../../../control-plane/keys/uses.ts';
import { allowed, ask, chainOf, monthOf, tell } from '../decisions/lane-client.ts';
import { type EscalationFixture, escalationFixture, send } from './escalation-fixture.ts';

const DUE_SECONDS = 15 * 60 + 1;

function coreOf({ appSql, plane }: EscalationFixture, lanes = plane.lanes): JobsCore {
  return { sql: appSql, lanes, keyUses: new KeyUses(), log: createLogger({ name: 'test', level: 'silent' }) };
}

/** Two replicas whose jobs run at once. */
async function replicas(fixture: EscalationFixture): Promise<JobsCore[]> {
  return [coreOf(fixture), coreOf(fixture, (await fixture.morePlanes()).lanes)];
}

async function kindsOf({ sql, account }: EscalationFixture): Promise<string[]> {
  return (await chainOf(sql, account)).map((entry) => entry.kind);
}

t.test('an escalation nobody answered expires once, however many replicas look', async (t) => {
  const fixture = await escalationFixture(t);
  const cores = await replicas(fixture);
  const body = '{"amount":501}';
  const id = await fixture.escalate({ body });
  await fixture.plane.waits.storeBody(fixture.account.accountId, id, Buffer.from(body));
  await Promise.all(cores.map(expireEscalations));
  t.match(await fixture.sql`select status from escalations`, [{ status: 'pending' }], 'not before its time');
  await fixture.moveTime(601);
  await Promise.all(cores.map(expireEscalations));
  t.match(await fixture.sql`select status, request_body from escalations`, [{ status: 'expired', request_body: null }]);
  t.same(await kindsOf(fixture), ['decision', 'escalation.expired']);
});

t.test('a mandate whose time is over expires once, and one that ended otherwise stays as it is', async (t) => {
  const fixture = await escalationFixture(t);
  const { sql, account } = fixture;
  const cores = await replicas(fixture);
  const stranger = await fixture.stranger();
  await sql`update mandates set valid_until = db_clock() + interval '1 hour'`;
  await sql`update mandates set status = 'revoked' where account_id = ${stranger.account.accountId}`;
  await Promise.all(cores.map(expireMandates));
  t.match(await sql`select status from mandates where account_id = ${account.accountId}`, [{ status: 'active' }]);
  await fixture.moveTime(3601);
  await Promise.all(cores.map(expireMandates));
  t.match(await sql`select status from mandates where account_id = ${account.accountId}`, [{ status: 'expired' }]);
  t.same(await kindsOf(fixture), ['mandate.expired']);
  t.same(await chainOf(sql, stranger.account), []);
});

t.test('a reservation nobody settled becomes unknown and stays counted in full, its key answers nothing', async (t) => {
  const fixture = await escalationFixture(t);
  const { sql, account, plane } = fixture;
  const cores = await replicas(fixture);
  const receipt = allowed(await ask(plane.lanes, account, { amount: 300, key: 'first' }));
  await Promise.all(cores.map(sweepReservations));
  t.match(await sql`select state from reservations`, [{ state: 'reserved' }], 'not before its time');
  await fixture.moveTime(DUE_SECONDS);
  await Promise.all(cores.map(sweepReservations));
  t.match(await sql`select state from reservations`, [{ state: 'unknown' }]);
  t.same(await monthOf(sql, account), { reserved: 300, booked: 0 });
  t.match(await sql`select state from idempotency_answers`, [{ state: 'unknown' }]);
  const outcomes = (await chainOf(sql, account)).filter(({ kind }) => kind === 'outcome');
  t.equal(outcomes.length, 1);
  const [outcome] = JSON.parse(outcomes[0]!.body).outcomes;
  t.same(outcome, {
    amount: 300,
    cause: 'proxy_lost',
    instance: account.instanceId,
    mandate_id: account.mandateId,
    month: outcome.month,
    outcome: 'unknown',
    receipt_id: receipt,
  });
  t.equal(await tell(plane.lanes, account, receipt, { outcome: 'booked' }), true, 'a late outcome still counts');
  t.same(await monthOf(sql, account), { reserved: 0, booked: 300 });
});

t.test('a sweep and the outcome that arrives at the same moment book exactly once', async (t) => {
  const fixture = await escalationFixture(t);
  const { sql, account, plane } = fixture;
  const cores = await replicas(fixture);
  const receipts = await Promise.all(Array.from({ length: 20 }, () => ask(plane.lanes, account).then(allowed)));
  await fixture.moveTime(DUE_SECONDS);
  await Promise.all([
    ...cores.map(sweepReservations),
    ...receipts.map((receipt) => tell(plane.lanes, account, receipt, { outcome: 'booked' })),
  ]);
  t.same(await monthOf(sql, account), { reserved: 0, booked: 2000 });
  t.same(await sql`select from reservations`, []);
});

t.test('stored answers go when their time is over, and only those', async (t) => {
  const fixture = await escalationFixture(t);
  const { sql, account, plane } = fixture;
  await ask(plane.lanes, account, { key: 'old' });
  await sql`update idempotency_answers set expires_at = db_clock() - interval '1 second'`;
  await ask(plane.lanes, account, { key: 'new' });
  await Promise.all((await replicas(fixture)).map(sweepAnswers));
  t.equal((await sql`select from idempotency_answers`).length, 1);
  t.match(await ask(plane.lanes, account, { key: 'new' }), { error: 'idempotency_in_flight' });
});

t.test('sessions go 30 days after their end, with the routes of their tokens and no others', async (t) => {
  const fixture = await escalationFixture(t);
  const { sql, plane, session } = fixture;
  const routes = (): Promise<number> => sql`select from token_routes`.then((rows) => rows.length);
  await sweepSessions(coreOf(fixture));
  t.equal((await send(plane, 'GET', '/admin/evidence', session)).status, 200);
  await fixture.moveTime(30 * 86_400);
  await sweepSessions(coreOf(fixture));
  t.equal(await routes(), 2, 'ended, and still kept');
  await fixture.moveTime(31 * 86_400);
  await Promise.all((await replicas(fixture)).map(sweepSessions));
  t.same(await sql`select from sessions`, []);
  t.match(await sql`select kind from token_routes`, [{ kind: 'gateway' }]);
});

t.test('jobs outlive an error, go on with the other accounts, and stop when told', async (t) => {
  const fixture = await escalationFixture(t);
  const { sql, account } = fixture;
  const id = await fixture.escalate();
  // An account without a head cannot be locked, as one that is damaged.
  await sql`insert into escalations (account_id, escalation_id, mandate_id, subject_id, ctx, status, action,
      receipt_id, created_at, expires_at, closes_at)
    select 'acc_00000000000000000000000000', escalation_id, mandate_id, subject_id, ctx, 'pending', action, receipt_id,
      created_at, created_at, closes_at from escalations`;
  await t.rejects(expireEscalations(coreOf(fixture)), { code: 'not_found' });
  const waiting = fixture.plane.waits.wait(account.accountId, id, 60_000, new AbortController().signal);
  const stop = startJobs(coreOf(fixture));
  await fixture.moveTime(601);
  t.match(await waiting, { status: 'expired' });
  await stop();
  t.match(await sql`select status from escalations where account_id = ${account.accountId}`, [{ status: 'expired' }]);
});
