import t from 'tap';
import type { Sql } from '../../../control-plane/db/client.ts';
import { expireEscalations } from '../../../control-plane/jobs/expire-escalations.ts';
import { expireMandates } from '../../../control-plane/jobs/expire-mandates.ts';
import { lapseAuthorisations } from '../../../control-plane/jobs/lapse-authorisations.ts';
import { sweepSandbox } from '../../../control-plane/jobs/sweep-sandbox.ts';
import { newTypeId } from '../../../core/type-id.ts';
import { type SandboxFixture, sandboxFixture } from './sandbox-fixture.ts';

const HOUR = 3_600;
const DAY = 24 * HOUR;
const ACTION = { type: 'payments.create', amount: { value: 12.5, currency: 'EUR' } };
const LARGE = { ...ACTION, amount: { value: 20.01, currency: 'EUR' } };

const TABLES = [
  ...['mandates', 'mandate_months', 'authorisations', 'executions', 'escalations', 'agent_keys', 'sandbox_mandates'],
  ...['evidence', 'accounts', 'account_heads'],
] as const;

/** How many rows an account has in each table. */
async function rowsOf(sql: Sql, accountId: string): Promise<Record<string, number>> {
  const counts: Record<string, number> = {};
  for (const table of TABLES) {
    const [row] = await sql<{ n: number }[]>`
      select count(*) as n from ${sql(table)} where account_id = ${accountId}`;
    counts[table] = row?.n ?? -1;
  }
  return counts;
}

/** Everything that a sandbox mandate can leave behind. */
async function used({ make, present, verify, send, key }: SandboxFixture) {
  const mandate = await make();
  const token = `Bearer ${key.apiKey}`;
  const allowed = (await verify(await present(mandate), ACTION)).json;
  const reservation_token = allowed['consumption_token'];
  await send('/api/v1/consumptions', { consumption_token: reservation_token }, { token });
  const executed = { outcome: 'erfolgreich', executed_amount: 12.5, executed_currency: 'EUR', external_ref: 'x' };
  const answer = await send('/api/v1/executions', { reservation_token, ...executed }, { token });
  if (answer.status >= 300) throw new Error(answer.text);
  await verify(await present(mandate), { ...ACTION, amount: { value: 1, currency: 'EUR' } });
  await verify(await present(mandate), LARGE);
  return mandate;
}

/** One round of every job that bears on mandates, in the order in which a moment of bad luck would have them. */
async function jobs(fixture: SandboxFixture): Promise<void> {
  for (const job of [sweepSandbox, expireEscalations, lapseAuthorisations, expireMandates]) await job(fixture.jobs);
}

t.test('what a sandbox mandate left behind goes, its evidence stays, and nothing real is touched', async (t) => {
  const fixture = await sandboxFixture(t);
  const { sql, sandboxId, account, moveTime, send, make } = fixture;
  // A real mandate that ended long ago, with all that it has.
  await sql`update mandates set status = 'expired', valid_until = db_clock() - interval '30 days'
    where account_id = ${account.accountId}`;
  await sql`insert into agent_keys (account_id, mandate_id, did, sealed, created_at)
    values (${account.accountId}, ${account.mandateId}, ${`did:key:z6Mk${'1'.repeat(44)}`}, '', db_clock())`;
  const real = await rowsOf(sql, account.accountId);
  const mandate = await used(fixture);
  const before = await rowsOf(sql, sandboxId);
  t.match(before, { authorisations: 2, executions: 1, escalations: 1, agent_keys: 1, sandbox_mandates: 1 });

  await moveTime(DAY + 1);
  await jobs(fixture);
  await jobs(fixture);
  t.match(await sql`select status from mandates where account_id = ${sandboxId}`, [{ status: 'expired' }]);
  const { mandate_id, agent_secret } = mandate;
  const late = await send('/api/v1/sandbox/presentations', { mandate_id, agent_secret });
  t.match(late, { status: 409, json: { error: 'conflict', detail: /expired/ } });
  t.match(await rowsOf(sql, sandboxId), { agent_keys: 1, authorisations: 2, sandbox_mandates: 1 }, 'not before');

  await moveTime(DAY + HOUR + 1);
  await jobs(fixture);
  t.match(
    await rowsOf(sql, sandboxId),
    { agent_keys: 0, authorisations: 2, sandbox_mandates: 1 },
    'the key goes first',
  );

  const young = await make();
  await moveTime(2 * DAY + 1);
  for (let round = 0; round < 3; round++) await jobs(fixture);
  const { evidence, ...left } = await rowsOf(sql, sandboxId);
  t.same(left, {
    ...{ mandates: 1, mandate_months: 0, authorisations: 0, executions: 0, escalations: 0 },
    ...{ agent_keys: 1, sandbox_mandates: 1, accounts: 1, account_heads: 1 },
  });
  t.match(await sql`select mandate_id from mandates where account_id = ${sandboxId}`, [
    { mandate_id: young.mandate_id },
  ]);
  t.ok((evidence ?? 0) > (before['evidence'] ?? 0), 'evidence is only added to');
  const gone = await send('/api/v1/sandbox/presentations', { mandate_id, agent_secret });
  t.match(gone, { status: 404 });
  t.same(await rowsOf(sql, account.accountId), real, 'the real account is as it was');
  t.same(fixture.errors, []);
});

t.test('what may still be booked keeps its mandate until it is', async (t) => {
  const fixture = await sandboxFixture(t);
  const { sql, sandboxId, moveTime } = fixture;
  await used(fixture);
  await moveTime(2 * DAY + 1);
  await expireMandates(fixture.jobs);
  await sweepSandbox(fixture.jobs);
  t.match(await rowsOf(sql, sandboxId), { mandates: 1, authorisations: 2, sandbox_mandates: 1 });
  await lapseAuthorisations(fixture.jobs);
  await sweepSandbox(fixture.jobs);
  t.match(await rowsOf(sql, sandboxId), { mandates: 0, authorisations: 0, sandbox_mandates: 0 });
});

t.test('many are swept a few at a time, and a mandate nobody made here that lies among them stays', async (t) => {
  const fixture = await sandboxFixture(t);
  const { sql, sandboxId, make, moveTime } = fixture;
  for (let i = 0; i < 12; i++) await make();
  // A mandate of the same account that nobody made through the sandbox is none of its mandates.
  const other = newTypeId('mdt', Date.now());
  await sql`insert into mandates (account_id, mandate_id, name, status, scope, currency, per_action, per_month, digest,
      valid_until, created_at, changed_at)
    select account_id, ${other}, name, 'expired', scope, currency, per_action, per_month, digest, valid_until,
      created_at, changed_at from mandates where account_id = ${sandboxId} limit 1`;
  await moveTime(2 * DAY + 1);
  await expireMandates(fixture.jobs);
  const left = async () => (await sql`select from sandbox_mandates`).length;
  t.equal(await sweepSandbox(fixture.jobs), false, 'with a pause between');
  t.equal(await left(), 7);
  for (let round = 0; round < 2; round++) await sweepSandbox(fixture.jobs);
  t.equal(await left(), 0);
  await sweepSandbox(fixture.jobs);
  t.match(await sql`select mandate_id from mandates where account_id = ${sandboxId}`, [{ mandate_id: other }]);
});

t.test('the application can delete no mandate by itself, and cannot say which account the sandbox is', async (t) => {
  const { appSql, account, sandboxId, sql } = await sandboxFixture(t);
  const [INSUFFICIENT, UNIQUE] = ['42501', '23505'];
  for (const table of ['mandates', 'mandate_months', 'authorisations', 'executions', 'escalations', 'agent_keys']) {
    await t.rejects(appSql`delete from ${appSql(table)}`, { code: INSUFFICIENT }, table);
  }
  await t.rejects(appSql`update sandbox set account_id = ${account.accountId}`, { code: INSUFFICIENT });
  await t.rejects(appSql`delete from sandbox`, { code: INSUFFICIENT });
  await t.rejects(appSql`insert into sandbox (account_id, created_at) values (${account.accountId}, db_clock())`, {
    code: INSUFFICIENT,
  });
  t.match(await appSql`select open_sandbox(${account.accountId}) as id`, [{ id: sandboxId }]);
  await t.rejects(
    appSql`insert into sandbox_mandates (account_id, mandate_id, secret_hash, created_at)
      values (${account.accountId}, ${account.mandateId}, sha256('x'), db_clock())`,
    { code: '23503' },
    'a real mandate cannot be given to the sandbox',
  );
  await sql`delete from sandbox`;
  await t.rejects(appSql`select open_sandbox(${account.accountId})`, { code: UNIQUE }, 'nor made into it');
  t.match(await appSql`select sweep_sandbox(5) as swept`, [{ swept: 0 }], 'without a sandbox nothing is swept');
});
