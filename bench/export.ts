import { createReadStream, createWriteStream } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable, Transform } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import type { ReadableStream } from 'node:stream/web';
import { parseArgs } from 'node:util';
import { ExportCheck } from '../core/export-check.ts';
import { readJwks } from '../core/jwk.ts';
import { cpuMicroseconds, nodeRss } from './cpu.ts';
import { compileAll, startEvidenceGateway } from './gateway.ts';
import { median } from './seed.ts';

/**
 * Measures POST /api/v1/evidence/export (durable evidence, both formats, through the proxy and without it), what the
 * control plane holds in memory meanwhile, and how fast the file is checked offline.
 *
 * `node bench/export.ts [--entries 200000] [--rounds 3]`; fails below a floor.
 */
const { values } = parseArgs({
  options: { entries: { type: 'string', default: '200000' }, rounds: { type: 'string', default: '3' } },
});

const FLOORS = { exported: 50_000, checked: 100_000, mib: 150 };
const MIB = 1_048_576;
const SAMPLE_MS = 50;

const [entries, rounds] = [Number(values.entries), Number(values.rounds)];
await compileAll();
const system = await startEvidenceGateway(entries);
const directory = await mkdtemp(join(tmpdir(), 'mandate-bench-export-'));
const file = join(directory, 'export');
const [controlPid] = system.pids['control plane'] ?? [];
if (controlPid === undefined) throw new Error('the control plane has no process');
const keys = readJwks(Buffer.from(await (await fetch(`${system.url}/.well-known/jwks.json`)).arrayBuffer()));
if (keys === null) throw new Error('the keys cannot be read');

interface Exported {
  readonly rate: number;
  readonly mib: number;
  readonly cpu: number;
}

async function exportOnce(url: string, format: string): Promise<Exported> {
  let most = 0;
  const sample = setInterval(() => {
    most = Math.max(most, nodeRss(controlPid as number));
  }, SAMPLE_MS);
  const cpu = cpuMicroseconds(controlPid as number);
  const started = performance.now();
  const answer = await fetch(`${url}/api/v1/evidence/export`, {
    method: 'POST',
    headers: { authorization: `Bearer ${system.apiKey}`, 'content-type': 'application/json' },
    body: JSON.stringify({ format }),
  });
  if (!answer.ok || answer.body === null) throw new Error(`the export was answered with ${answer.status}`);
  let lines = 0;
  const count = new Transform({
    transform(chunk: Buffer, _encoding, done) {
      for (let at = chunk.indexOf(10); at !== -1; at = chunk.indexOf(10, at + 1)) lines += 1;
      done(null, chunk);
    },
  });
  await pipeline(Readable.fromWeb(answer.body as ReadableStream), count, createWriteStream(file));
  const seconds = (performance.now() - started) / 1000;
  clearInterval(sample);
  // A header and a trailer besides.
  const exported = lines - 2;
  return { rate: exported / seconds, mib: most / MIB, cpu: (cpuMicroseconds(controlPid as number) - cpu) / exported };
}

async function checkOnce(): Promise<number> {
  const check = new ExportCheck(keys);
  const spent = process.cpuUsage();
  for await (const chunk of createReadStream(file, { highWaterMark: MIB })) check.push(chunk as Buffer);
  const { intact, problem, entries: checked } = await check.end();
  const { user, system: kernel } = process.cpuUsage(spent);
  if (!intact) throw new Error(`the file is not intact: ${problem?.problem}`);
  return checked / ((user + kernel) / 1_000_000);
}

const idle = nodeRss(controlPid) / MIB;
const exported: Exported[] = [];
const checked: number[] = [];
await exportOnce(system.controlUrl, 'ndjson');
const before = nodeRss(controlPid) / MIB;
for (let round = 0; round < rounds; round++) {
  for (const format of ['ndjson', 'json']) {
    for (const [way, url] of [
      ['through the proxy', system.url],
      ['without the proxy', system.controlUrl],
    ] as const) {
      const one = await exportOnce(url, format);
      const rate = await checkOnce();
      exported.push(one);
      checked.push(rate);
      const cost = `${one.cpu.toFixed(1)} µs of CPU an entry, ${one.mib.toFixed(0)} MiB`;
      const figures = `${Math.round(one.rate)} entries/s, ${cost}`;
      console.log(
        `round ${round + 1}, ${format}, ${way}: ${figures}; checked at ${Math.round(rate)} entries/s and core`,
      );
    }
  }
}
await system.stop();
await rm(directory, { recursive: true, force: true });
const rates = exported.map(({ rate }) => rate);
const most = Math.max(...exported.map(({ mib }) => mib));
const span = (all: readonly number[]) => `${Math.round(Math.min(...all))}..${Math.round(Math.max(...all))}`;
console.log(`export: median ${Math.round(median(rates))} (${span(rates)}) entries/s; floor ${FLOORS.exported}`);
console.log(
  `check: median ${Math.round(median(checked))} (${span(checked)}) entries/s and core; floor ${FLOORS.checked}`,
);
console.log(
  `control plane: at most ${most.toFixed(0)} MiB, ${idle.toFixed(0)} idle, ${before.toFixed(0)} after the first; ` +
    `floor ${FLOORS.mib} for the whole process`,
);
process.exitCode = median(rates) >= FLOORS.exported && median(checked) >= FLOORS.checked && most < FLOORS.mib ? 0 : 1;
