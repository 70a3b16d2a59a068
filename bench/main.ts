import { writeFile } from 'node:fs/promises';
import { cpus } from 'node:os';
import { parseArgs } from 'node:util';
import { CONTENDERS } from './contenders.ts';
import { type Measurement, type RoundsPlan, runRounds } from './rounds.ts';
import { summarize, table } from './summary.ts';

/**
 * Measures the gateway beside bare forwarders on the same upstream, in alternating rounds.
 *
 * `npm run bench -- [--quick] [--seconds N] [--rounds N] [--connections 1,8,64,256] [--only a,b] [--accounts 1,100]
 * [--out FILE]`; fails where a request was lost, doubled or not answered with 2xx.
 */
const { values } = parseArgs({
  options: {
    quick: { type: 'boolean', default: false },
    seconds: { type: 'string' },
    rounds: { type: 'string' },
    connections: { type: 'string' },
    only: { type: 'string' },
    accounts: { type: 'string' },
    out: { type: 'string' },
  },
});

const FULL = { seconds: 5, rounds: 5, connections: '1,8,64,256', warmupSeconds: 1, settleSeconds: 10 };
const QUICK = { seconds: 1, rounds: 1, connections: '1,64', warmupSeconds: 0.5, settleSeconds: 0 };

function positive(text: string, what: string): number {
  const value = Number(text);
  if (!(value > 0 && Number.isFinite(value))) throw new Error(`--${what}: ${text} is not a positive number`);
  return value;
}

function whole(text: string, what: string): number {
  const value = positive(text, what);
  if (!Number.isInteger(value)) throw new Error(`--${what}: ${text} is not a whole number`);
  return value;
}

function planned(): RoundsPlan {
  const defaults = values.quick ? QUICK : FULL;
  const names = values.only?.split(',') ?? CONTENDERS.map((one) => one.name);
  const unknown = names.filter((name) => !CONTENDERS.some((one) => one.name === name));
  if (unknown.length > 0) throw new Error(`--only: unknown ${unknown.join(', ')}`);
  return {
    contenders: CONTENDERS.filter((one) => names.includes(one.name)),
    rounds: whole(values.rounds ?? String(defaults.rounds), 'rounds'),
    connections: (values.connections ?? defaults.connections).split(',').map((text) => whole(text, 'connections')),
    accounts: (values.accounts ?? '1').split(',').map((text) => whole(text, 'accounts')),
    seconds: positive(values.seconds ?? String(defaults.seconds), 'seconds'),
    warmupSeconds: defaults.warmupSeconds,
    settleSeconds: defaults.settleSeconds,
  };
}

function report(one: Measurement): void {
  const level = `${one.connections} connections${one.accounts > 0 ? `, ${one.accounts} accounts` : ''}`;
  const latency = `p50 ${Math.round(one.load.p50_us)} µs, p99 ${Math.round(one.load.p99_us)} µs`;
  console.error(`round ${one.round + 1}, ${level}, ${one.contender}: ${Math.round(one.load.rps)}/s, ${latency}`);
}

const plan = planned();
const measurements = await runRounds(plan, report);
const rows = summarize(measurements);
console.log(table(rows));
if (values.out !== undefined) {
  const machine = { node: process.version, cpu: cpus()[0]?.model ?? 'unknown', cores: cpus().length };
  const settings = { ...plan, contenders: plan.contenders.map((one) => one.name) };
  const document = { at: new Date().toISOString(), machine, plan: settings, rows, measurements };
  await writeFile(values.out, `${JSON.stringify(document, null, 2)}\n`);
}
