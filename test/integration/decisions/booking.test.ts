import t from 'tap';
import { createLogger } from '../../../config/log.ts';
import { bookConsumption, type Consumption } from '../../../control-plane/consumptions/book.ts';
import { connect } from '../../../control-plane/db/client.ts';
import { book } from '../../../control-plane/decisions/booking.ts';
import { type Execution, reportExecution } from '../../../control-plane/executions/report.ts';
import { lapseAuthorisations, sweepNonces } from '../../../control-plane/jobs/lapse-authorisations.ts';
import { KeyUses } from '../../../control-plane/keys/uses.ts';
import { contextDigest } from '../../../core/action.ts';
import { DecimalText } from '../../../core/body-value.ts';
import { newSecretToken, secretHash } from '../../../core/secret-token.ts';
import { chainOf, monthOf } from './lane-client.ts';
import { type VerifyFixture, verified, verifyFixture } from './verify-client.ts';

const amount = (text: string) => new DecimalText(text);

/** Verifies 10.00 EUR and gives the hash of the consumption token. */
async function authorised(fixture: VerifyFixture): Promise<string> {
  const { json } = await verified(fixture, { amount: 1_000 });
  return secretHash(json.consumption_token ?? '');
}

async function consume(fixture: VerifyFixture, tokenHash: string, asked: Consumption = {}) {
  const { accountId } = fixture.account;
  return await book(fixture.lanes, { accountId, tokenHash }, (context, authorisation) =>
    bookConsumption(context, authorisation, asked),
  );
}

async function execute(fixture: VerifyFixture, tokenHash: string, asked: Execution) {
  const { accountId } = fixture.account;
  return await book(fixture.lanes, { accountId, tokenHash }, (context, authorisation) =>
    reportExecution(context, authorisation, asked),
  );
}

t.test('a consumption books what it cost, frees the rest, and answers the same again', async (t) => {
  const fixture = await verifyFixture(t, { per_month: 5_000 });
  const token = await authorised(fixture);
  const asked = {
    final_amount: amount('7.5'),
    currency: 'EUR',
    action_type: 'payments.create',
    counterparty: 'acme',
    context_digest: contextDigest({
      type: 'payments.create',
      amount_minor: 1_000,
      currency: 'EUR',
      counterparty: 'acme',
    }),
  };
  const first = await consume(fixture, token, asked);
  t.match(JSON.parse(first?.text ?? ''), {
    consumption_id: /^con_/,
    mandate_id: fixture.account.mandateId,
    booked: { value: 7.5, currency: 'EUR' },
    remaining: { value: 42.5, currency: 'EUR', period: /^\d{4}-\d{2}$/ },
    receipt: { receipt_id: /^rcp_/, evidence: { seq: 1 } },
  });
  t.same(await monthOf(fixture.sql, fixture.account), { reserved: 0, booked: 750 });
  const again = await consume(fixture, token, { ...asked, final_amount: amount('7.50') });
  t.same(again, { text: first?.text, replayed: true });
  await t.rejects(consume(fixture, token, { ...asked, final_amount: amount('7') }), { code: 'conflict' });
  t.equal((await chainOf(fixture.sql, fixture.account)).length, 2);
});

t.test('more than was authorised is refused and recorded, and other values are a conflict', async (t) => {
  const fixture = await verifyFixture(t);
  const token = await authorised(fixture);
  await t.rejects(consume(fixture, token, { final_amount: amount('10.01') }), { code: 'exceeds_authorised_amount' });
  await t.rejects(consume(fixture, token, { final_amount: amount('1.001') }), { code: 'invalid' });
  await t.rejects(consume(fixture, token, { currency: 'USD' }), { code: 'conflict' });
  await t.rejects(consume(fixture, token, { counterparty: 'other' }), { code: 'conflict' });
  t.equal(await consume(fixture, secretHash(newSecretToken('ctk'))), null, 'an unknown token');
  t.same(
    (await chainOf(fixture.sql, fixture.account)).map(({ kind }) => kind),
    ['decision', 'consumption.refused'],
  );
  t.same(await monthOf(fixture.sql, fixture.account), { reserved: 1_000, booked: 0 });
});

t.test(
  'an execution that failed releases what was not booked, in its own month; one that succeeded nothing',
  async (t) => {
    const fixture = await verifyFixture(t);
    const failed = await authorised(fixture);
    const first = await execute(fixture, failed, { outcome: 'failed' });
    t.match(JSON.parse(first?.text ?? ''), { execution_id: /^exe_/, receipt_id: /^rcp_/, status: 'fehlgeschlagen' });
    t.same(await execute(fixture, failed, { outcome: 'fehlgeschlagen' }), { text: first?.text, replayed: true });
    t.same(await monthOf(fixture.sql, fixture.account), { reserved: 0, booked: 0 });
    await t.rejects(execute(fixture, failed, { outcome: 'succeeded' }), { code: 'conflict' });
    await t.rejects(consume(fixture, failed), { code: 'conflict' });
    const done = await authorised(fixture);
    await execute(fixture, done, { outcome: 'teilweise', executed_amount: amount('4') });
    await execute(fixture, done, { outcome: 'erfolgreich', executed_amount: amount('10'), executed_currency: 'EUR' });
    await t.rejects(execute(fixture, done, { outcome: 'abgebrochen' }), { code: 'conflict' });
    t.same(await monthOf(fixture.sql, fixture.account), { reserved: 1_000, booked: 0 });
    const booked = await authorised(fixture);
    await consume(fixture, booked, { final_amount: amount('2') });
    await execute(fixture, booked, { outcome: 'cancelled' });
    t.same(await monthOf(fixture.sql, fixture.account), { reserved: 1_000, booked: 200 }, 'booked stays booked');
    const over = await authorised(fixture);
    await t.rejects(execute(fixture, over, { outcome: 'succeeded', executed_amount: amount('11') }), {
      code: 'exceeds_authorised_amount',
    });
  },
);

t.test('what nobody booked in time counts in full for good', async (t) => {
  const fixture = await verifyFixture(t);
  const token = await authorised(fixture);
  const log = createLogger({ name: 'test', level: 'silent' });
  const appSql = connect(fixture.databaseUrl, { applicationName: 'test jobs', max: 2 });
  t.teardown(() => appSql.end());
  const core = { sql: appSql, lanes: fixture.lanes, log, keyUses: new KeyUses() };
  await lapseAuthorisations(core);
  t.same(await monthOf(fixture.sql, fixture.account), { reserved: 1_000, booked: 0 }, 'not before its time');
  await fixture.sql`update authorisations set due_at = db_clock() - interval '1 second'`;
  await Promise.all([lapseAuthorisations(core), lapseAuthorisations({ ...core, lanes: fixture.moreLanes() })]);
  t.same(await monthOf(fixture.sql, fixture.account), { reserved: 0, booked: 1_000 });
  await t.rejects(consume(fixture, token), { code: 'conflict' });
  t.same(
    (await chainOf(fixture.sql, fixture.account)).map(({ kind }) => kind),
    ['decision', 'consumption.lapsed'],
  );
});

t.test('a spent nonce is forgotten when its presentation has expired, and not before', async (t) => {
  const fixture = await verifyFixture(t);
  const appSql = connect(fixture.databaseUrl, { applicationName: 'test jobs', max: 2 });
  t.teardown(() => appSql.end());
  const log = createLogger({ name: 'test', level: 'silent' });
  const core = { sql: appSql, lanes: fixture.lanes, log, keyUses: new KeyUses() };
  await authorised(fixture);
  await sweepNonces(core);
  t.equal((await fixture.sql`select from spent_nonces`).length, 1);
  await fixture.sql`update spent_nonces set expires_at = db_clock() - interval '61 seconds'`;
  await Promise.all([sweepNonces(core), sweepNonces(core)]);
  t.equal((await fixture.sql`select from spent_nonces`).length, 0);
});
