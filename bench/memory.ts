import { fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { startScript } from './children.ts';
import { nodeRss } from './cpu.ts';
import { compileAll, gateway } from './gateway.ts';
import type { LoadOptions } from './load.ts';

/**
 * Shows what the gateway's Node processes hold in memory under a steady load, every ten seconds.
 *
 * `node bench/memory.ts [--seconds 300] [--connections 64]`; prints resident MiB and the growth after the first minute.
 */
const { values } = parseArgs({
  options: { seconds: { type: 'string', default: '300' }, connections: { type: 'string', default: '64' } },
});

const EVERY_MS = 10_000;
const SETTLED_MS = 60_000;
const MIB = 1_048_576;

const upstream = await startScript('upstream.ts');
await compileAll();
const running = await gateway.start(upstream.url, { accounts: 1 });
const load: LoadOptions = {
  url: running.url,
  path: running.path,
  headers: running.headers,
  tokens: running.tokens,
  connections: Number(values.connections),
  seconds: Number(values.seconds),
};
const started = performance.now();
const samples: { readonly atMs: number; readonly mib: Readonly<Record<string, number>> }[] = [];
const sample = (): void => {
  const groups = Object.entries(running.pids).map(([group, pids]): [string, number] => [
    group,
    pids.reduce((sum, pid) => sum + nodeRss(pid), 0) / MIB,
  ]);
  const mib = Object.fromEntries(groups.filter(([, held]) => held > 0));
  samples.push({ atMs: performance.now() - started, mib });
  const figures = Object.entries(mib).map(([group, held]) => `${group} ${held.toFixed(1)}`);
  console.log(`${(samples.at(-1)!.atMs / 1000).toFixed(0)} s: ${figures.join(', ')} MiB`);
};
const timer = setInterval(sample, EVERY_MS);
const child = fork(fileURLToPath(new URL('load.ts', import.meta.url)), [], {
  env: { ...process.env, BENCH_LOAD: JSON.stringify(load) },
  stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
});
const [code] = await once(child, 'exit');
clearInterval(timer);
sample();
for (const group of Object.keys(samples[0]?.mib ?? {})) {
  const of = (from: number, to: number) =>
    samples.filter(({ atMs }) => atMs >= from && atMs < to).map(({ mib }) => mib[group] ?? 0);
  const early = Math.max(...of(0, SETTLED_MS + EVERY_MS / 2));
  const late = Math.max(...of(SETTLED_MS + EVERY_MS / 2, Number.POSITIVE_INFINITY));
  console.log(`${group}: at most ${early.toFixed(1)} MiB in the first minute, ${late.toFixed(1)} MiB after it`);
}
await running.stop();
await upstream.stop();
process.exitCode = code === 0 ? 0 : 1;
