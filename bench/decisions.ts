import { parseArgs } from 'node:util';
import { connect } from '../control-plane/db/client.ts';
import { cpuMicroseconds } from './cpu.ts';
import { decisionRate } from './decision-load.ts';
import { benchDatabase, median, seedAccounts } from './seed.ts';

/**
 * Measures the control plane and PostgreSQL alone: decisions per second by batch size, without proxy or sockets.
 *
 * `node bench/decisions.ts [--batches 1,50,200] [--seconds 3] [--rounds 3] [--accounts 1] [--outcomes]`
 */
const { values } = parseArgs({
  options: {
    batches: { type: 'string', default: '1,50,200' },
    seconds: { type: 'string', default: '3' },
    rounds: { type: 'string', default: '3' },
    accounts: { type: 'string', default: '1' },
    outcomes: { type: 'boolean', default: false },
  },
});

const ownCpu = (): number => process.cpuUsage().user + process.cpuUsage().system;

const database = await benchDatabase();
const sql = connect(database.ownerUrl, { applicationName: 'bench', max: 2 });
const accounts = await seedAccounts(sql, Number(values.accounts), 'http://127.0.0.1:9');
const spent = () => ({ ours: ownCpu(), theirs: cpuMicroseconds(database.pid) });
const results = new Map<number, number[]>(values.batches.split(',').map((batch) => [Number(batch), []]));
for (let round = 0; round < Number(values.rounds); round++) {
  for (const [batch, rates] of results) {
    let [before, after] = [spent(), spent()];
    const { perSecond, decisions } = await decisionRate(
      { databaseUrl: database.appUrl, accounts, batch },
      {
        seconds: Number(values.seconds),
        outcomes: values.outcomes,
        started: () => {
          before = spent();
        },
        ended: () => {
          after = spent();
        },
      },
    );
    rates.push(perSecond);
    const ours = ((after.ours - before.ours) / decisions).toFixed(1);
    const theirs = ((after.theirs - before.theirs) / decisions).toFixed(1);
    console.log(
      `round ${round + 1} batch ${batch}: ${Math.round(perSecond)}/s, ` +
        `CPU us a decision: control plane ${ours}, PostgreSQL ${theirs}`,
    );
  }
}
for (const [batch, rates] of results) {
  const spread = `${Math.round(Math.min(...rates))}..${Math.round(Math.max(...rates))}`;
  console.log(`batch ${batch}: median ${Math.round(median(rates))} decisions/s (${spread})`);
}
await sql.end();
await database.stop();
