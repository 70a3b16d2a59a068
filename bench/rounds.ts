import { fork } from 'node:child_process';
import { once } from 'node:events';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { type ListeningChild, pidOf, startScript } from './children.ts';
import type { Contender, RunningContender } from './contender.ts';
import { cpuMicroseconds, nodeRss } from './cpu.ts';
import type { LoadOptions, LoadResult } from './load.ts';
import { readLedger, resetLedger } from './upstream-ledger.ts';

/** What `runRounds` measures: every contender at every level, once in every round. */
export interface RoundsPlan {
  readonly contenders: readonly Contender[];
  readonly rounds: number;
  readonly connections: readonly number[];
  /** How many tokens are used; contenders without tokens are measured once, as 0 accounts. */
  readonly accounts: readonly number[];
  readonly seconds: number;
  readonly warmupSeconds: number;
  /** Of each contender, once, before the first round: until then its code is not what it will be for hours. */
  readonly settleSeconds: number;
}

/** One contender at one level in one round. */
export interface Measurement {
  readonly round: number;
  readonly contender: string;
  readonly connections: number;
  readonly accounts: number;
  readonly load: LoadResult;
  /** CPU microseconds a request by process group, the load generator's and the upstream's among them. */
  readonly cpu_us: Readonly<Record<string, number>>;
  /** Resident memory in bytes of the Node processes by process group, right after the load. */
  readonly rss_bytes: Readonly<Record<string, number>>;
}

/** The target saw something else than the load generator sent: a measurement that must not be reported. */
export class LedgerMismatchError extends Error {
  readonly code = 'bench/ledger-mismatch';
}

interface Started {
  readonly name: string;
  readonly running: RunningContender;
}

interface Level {
  readonly round: number;
  readonly connections: number;
  readonly accounts: number;
}

/** Measures in alternating rounds; `report` hears of every measurement as it is made. */
export async function runRounds(plan: RoundsPlan, report: (one: Measurement) => void): Promise<Measurement[]> {
  const upstream = await startScript('upstream.ts');
  const started: Started[] = [];
  const measurements: Measurement[] = [];
  try {
    for (const contender of plan.contenders) {
      const running = await contender.start(upstream.url, { accounts: Math.max(...plan.accounts) });
      started.push({ name: contender.name, running });
    }
    for (const one of started) {
      if (plan.settleSeconds > 0) await settle(plan, one, upstream);
    }
    for (let round = 0; round < plan.rounds; round++) {
      for (const connections of plan.connections) {
        // Rotated, so that nobody is always first on a cold machine or always behind the same neighbour.
        const first = round % Math.max(1, started.length);
        for (const one of [...started.slice(first), ...started.slice(0, first)]) {
          for (const accounts of one.running.tokens.length === 0 ? [0] : plan.accounts) {
            const measurement = await measure(plan, { round, connections, accounts }, one, upstream);
            measurements.push(measurement);
            report(measurement);
          }
        }
      }
    }
  } finally {
    for (const { running } of started.reverse()) await running.stop();
    await upstream.stop();
  }
  return measurements;
}

const SETTLE_CONNECTIONS = 64;

async function settle(plan: RoundsPlan, one: Started, upstream: ListeningChild): Promise<void> {
  const level = { round: -1, connections: SETTLE_CONNECTIONS, accounts: one.running.tokens.length };
  await measure({ ...plan, seconds: plan.settleSeconds }, level, one, upstream);
}

async function measure(plan: RoundsPlan, level: Level, one: Started, upstream: ListeningChild): Promise<Measurement> {
  const { running } = one;
  const groups = { ...running.pids, 'upstream.ts': [upstream.pid] };
  await resetLedger(upstream.url);
  const { load, cpu } = await runLoad(
    {
      url: running.url,
      path: running.path,
      headers: running.headers,
      tokens: running.tokens.slice(0, level.accounts),
      connections: level.connections,
      seconds: plan.seconds,
      warmupSeconds: plan.warmupSeconds,
    },
    groups,
  );
  checkLedger(`${one.name}, ${level.connections} connections`, load, await readLedger(upstream.url));
  const cpuPerRequest: Record<string, number> = { 'load.ts': load.cpu_us_per_request };
  for (const [group, spent] of Object.entries(cpu)) cpuPerRequest[group] = spent / load.requests;
  const rss: Record<string, number> = {};
  for (const [group, pids] of Object.entries(groups)) {
    const bytes = pids.reduce((sum, pid) => sum + nodeRss(pid), 0);
    if (bytes > 0) rss[group] = bytes;
  }
  return { ...level, contender: one.name, load, cpu_us: cpuPerRequest, rss_bytes: rss };
}

/** Runs the load generator and takes every group's CPU time at the window's two ends. */
async function runLoad(
  options: LoadOptions,
  groups: Readonly<Record<string, readonly number[]>>,
): Promise<{ load: LoadResult; cpu: Record<string, number> }> {
  const cpu: Record<string, number> = {};
  const take = (sign: 1 | -1): void => {
    for (const [group, pids] of Object.entries(groups)) {
      cpu[group] = (cpu[group] ?? 0) + sign * pids.reduce((sum, pid) => sum + cpuMicroseconds(pid), 0);
    }
  };
  const child = fork(fileURLToPath(new URL('load.ts', import.meta.url)), [], {
    env: { ...process.env, BENCH_LOAD: JSON.stringify(options) },
    stdio: ['ignore', 'pipe', 'inherit', 'ipc'],
  });
  pidOf(child);
  child.on('message', (message) => take(message === 'window-start' ? -1 : 1));
  if (child.stdout === null) throw new Error('load.ts has no stdout');
  const [output, [code]] = await Promise.all([text(child.stdout), once(child, 'close')]);
  if (code !== 0) throw new Error(`load.ts ended with ${code}`);
  return { load: JSON.parse(output) as LoadResult, cpu };
}

function checkLedger(what: string, load: LoadResult, ledger: { requests: number; unique: number }): void {
  const seen = `ledger ${JSON.stringify(ledger)}, sent ${load.sent_total}, ok ${load.ok_total}`;
  const statuses = JSON.stringify(load.statuses_total);
  const agrees = ledger.requests === ledger.unique && ledger.requests === load.ok_total;
  if (!agrees || load.errors_total > 0 || load.ok_total !== load.sent_total || load.requests === 0) {
    throw new LedgerMismatchError(`${what}: ${seen}, statuses ${statuses}, errors ${load.errors_total}`);
  }
}
