import { writeFile } from 'node:fs/promises';
import { parseArgs } from 'node:util';
import { connect, type Sql } from '../control-plane/db/client.ts';
import { decisionRate } from './decision-load.ts';
import { fillEvidence } from './fill-evidence.ts';
import { type BenchDatabase, benchDatabase, median, type SeededAccount, seedAccounts } from './seed.ts';

/**
 * Shows whether a decision's cost grows with what lies in the database: evidence entries, tools, mandates.
 *
 * `node bench/growth.ts [--entries 10000,1000000] [--tools 10,10000] [--mandates 10,10000] [--rounds 5] [--seconds 2]`
 * Every size is measured beside the smallest in alternating rounds, on databases of their own.
 */
const { values } = parseArgs({
  options: {
    entries: { type: 'string', default: '10000,1000000' },
    tools: { type: 'string', default: '10,10000' },
    mandates: { type: 'string', default: '10,10000' },
    rounds: { type: 'string', default: '5' },
    seconds: { type: 'string', default: '2' },
    batch: { type: 'string', default: '50' },
    out: { type: 'string' },
  },
});

interface Size {
  readonly what: string;
  readonly count: number;
  readonly fill: (sql: Sql, account: SeededAccount, count: number) => Promise<void>;
}

const sizesOf = (what: string, text: string, fill: Size['fill']): Size[] =>
  text
    .split(',')
    .filter((one) => one !== '')
    .map((one) => ({ what, count: Number(one), fill }));

async function fillTools(sql: Sql, account: SeededAccount, count: number): Promise<void> {
  await sql`insert into tools (account_id, instance_id, key, tool_id, pattern, state, mapping, created_at, changed_at)
    select account_id, instance_id, 'http.post:/tool/' || n, 'tol_' || lpad(n::text, 26, '0'), 'http.post:/tool/' || n,
      'mapped', mapping, created_at, changed_at
    from tools cross join generate_series(1, ${count}::integer) n where instance_id = ${account.instanceId}`;
  await sql`analyze tools`;
}

async function fillMandates(sql: Sql, account: SeededAccount, count: number): Promise<void> {
  await sql`insert into mandates (account_id, mandate_id, name, status, scope, currency, per_action, per_month, digest,
      created_at, changed_at)
    select account_id, 'mdt_' || lpad(n::text, 26, '0'), name, status, scope, currency, per_action, per_month, digest,
      created_at, changed_at
    from mandates cross join generate_series(1, ${count}::integer) n where account_id = ${account.accountId}`;
  await sql`analyze mandates`;
}

interface Run {
  readonly size: Size;
  readonly database: BenchDatabase;
  readonly sql: Sql;
  readonly account: SeededAccount;
  readonly rates: number[];
}

async function measure(sizes: readonly Size[]): Promise<Record<string, { rates: number[]; ratio: number }>> {
  const runs: Run[] = [];
  for (const size of sizes) {
    const database = await benchDatabase();
    const sql = connect(database.ownerUrl, { applicationName: 'bench', max: 1, statementTimeoutMs: 3_600_000 });
    const [account] = await seedAccounts(sql, 1, 'http://127.0.0.1:9');
    const started = performance.now();
    await size.fill(sql, account!, size.count);
    console.log(`${size.what} ${size.count}: filled in ${Math.round((performance.now() - started) / 1000)} s`);
    await sql.unsafe('checkpoint').catch(() => {});
    runs.push({ size, database, sql, account: account!, rates: [] });
  }
  for (let round = 0; round < Number(values.rounds); round++) {
    const order = round % 2 === 0 ? runs : [...runs].reverse();
    for (const run of order) {
      const load = { databaseUrl: run.database.appUrl, accounts: [run.account], batch: Number(values.batch) };
      const { perSecond } = await decisionRate(load, { seconds: Number(values.seconds), outcomes: true });
      run.rates.push(perSecond);
      console.log(`round ${round + 1} ${run.size.what} ${run.size.count}: ${Math.round(perSecond)}/s`);
    }
  }
  const results: Record<string, { rates: number[]; ratio: number }> = {};
  for (const run of runs) {
    const ratio = median(run.rates.map((rate, i) => rate / runs[0]!.rates[i]!));
    results[`${run.size.what} ${run.size.count}`] = { rates: run.rates, ratio };
    await run.sql.end();
    await run.database.stop();
  }
  return results;
}

const results = {
  ...(await measure(sizesOf('entries', values.entries, fillEvidence))),
  ...(await measure(sizesOf('tools', values.tools, fillTools))),
  ...(await measure(sizesOf('mandates', values.mandates, fillMandates))),
};
for (const [name, { rates, ratio }] of Object.entries(results)) {
  console.log(`${name}: median ${Math.round(median(rates))}/s, ${ratio.toFixed(2)} of the smallest`);
}
if (values.out !== undefined) await writeFile(values.out, JSON.stringify(results, null, 2));
