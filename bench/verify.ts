import { fork } from 'node:child_process';
import { once } from 'node:events';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { hashData } from '../core/data-integrity.ts';
import { newSeed, SigningKey } from '../core/ed25519.ts';
import { startScript } from './children.ts';
import { cpuMicroseconds } from './cpu.ts';
import { startVerifyGateway } from './gateway.ts';
import { median } from './seed.ts';
import type { VerifyLoadOptions, VerifyLoadResult } from './verify-load.ts';

/**
 * Measures POST /api/v1/verify (real presentations, 100 API keys, durable evidence) beside a bare Fastify route that
 * verifies one Ed25519 signature, in alternating rounds.
 *
 * `node bench/verify.ts [--rounds 5] [--count 15000] [--single 1500]`
 */
const { values } = parseArgs({
  options: {
    rounds: { type: 'string', default: '5' },
    count: { type: 'string', default: '15000' },
    single: { type: 'string', default: '1500' },
  },
});
const KEYS = 100;

const seed = newSeed().toString('hex');
const agent = new SigningKey(Buffer.from(seed, 'hex'));
const system = await startVerifyGateway({ keys: KEYS, agent });
const message = hashData({ type: 'bench' }, { type: 'bench' });
const bare = await startScript('peers/bare-ed25519.ts', [
  Buffer.from(agent.publicKey).toString('hex'),
  Buffer.from(agent.sign(message)).toString('hex'),
]);

interface Contender {
  readonly name: string;
  readonly url: string;
  readonly path: string;
  readonly pids: Readonly<Record<string, readonly number[]>>;
}

const CONTENDERS: readonly Contender[] = [
  { name: 'bare-ed25519', url: bare.url, path: '/verify', pids: { 'bare-ed25519': [bare.pid] } },
  { name: 'verify', url: system.url, path: '/api/v1/verify', pids: system.pids },
];

async function measure(contender: Contender, connections: number, count: number) {
  const { url, path, pids } = contender;
  const options: VerifyLoadOptions = {
    ...{ url, path, connections, count, warmup: Math.ceil(count / 5), seed },
    ...{ apiKeys: system.apiKeys, mandateId: system.mandateId, accountId: system.accountId },
  };
  const cpu: Record<string, number> = {};
  const take = (sign: 1 | -1): void => {
    for (const [group, ids] of Object.entries(pids)) {
      cpu[group] = (cpu[group] ?? 0) + sign * ids.reduce((sum, pid) => sum + cpuMicroseconds(pid), 0);
    }
  };
  const child = fork(fileURLToPath(new URL('verify-load.ts', import.meta.url)), [], {
    env: { ...process.env, BENCH_VERIFY_LOAD: JSON.stringify(options) },
    stdio: ['ignore', 'pipe', 'inherit', 'ipc'],
  });
  child.on('message', (said) => take(said === 'window-start' ? -1 : 1));
  const [output, [code]] = await Promise.all([text(child.stdout!), once(child, 'close')]);
  if (code !== 0) throw new Error(`verify-load.ts ended with ${code}`);
  const result = JSON.parse(output) as VerifyLoadResult;
  if (result.allowed !== result.requests) throw new Error(`${contender.name}: ${result.allowed} of ${count} allowed`);
  return { ...result, cpu: Object.entries(cpu).map(([group, spent]) => `${group} ${(spent / count).toFixed(1)}`) };
}

const rounds = Number(values.rounds);
const levels = [
  { connections: 64, count: Number(values.count) },
  { connections: 1, count: Number(values.single) },
];
for (const { connections, count } of levels) {
  const ratios: number[] = [];
  const added: number[] = [];
  for (let round = 0; round < rounds; round++) {
    const order = round % 2 === 0 ? CONTENDERS : CONTENDERS.toReversed();
    const results = new Map<string, Awaited<ReturnType<typeof measure>>>();
    for (const contender of order) {
      const one = await measure(contender, connections, count);
      results.set(contender.name, one);
      const figures = `${Math.round(one.rps)}/s, p50 ${Math.round(one.p50_us)} µs, p99 ${Math.round(one.p99_us)} µs`;
      console.log(
        `round ${round + 1}, ${connections} connections, ${contender.name}: ${figures}; ${one.cpu.join(', ')}`,
      );
    }
    const [base, ours] = [results.get('bare-ed25519')!, results.get('verify')!];
    ratios.push(ours.rps / base.rps);
    added.push(ours.p50_us - base.p50_us);
  }
  const span = `${Math.min(...ratios).toFixed(3)}..${Math.max(...ratios).toFixed(3)}`;
  const more = `${Math.round(Math.min(...added))}..${Math.round(Math.max(...added))}`;
  console.log(
    `${connections} connections: ${median(ratios).toFixed(3)} (${span}) of the bare route's requests a second`,
  );
  console.log(
    `${connections} connections: median ${Math.round(median(added))} (${more}) µs more than the bare route's`,
  );
}
await bare.stop();
await system.stop();
