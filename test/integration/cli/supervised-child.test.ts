import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import t, { type Test } from 'tap';
import { SupervisedChild } from '../../../cli/supervisor/child.ts';

const CHILD_MODULE = fileURLToPath(new URL('../../../cli/supervisor/child.ts', import.meta.url));

const READY = `process.send({ type: 'ready', addresses: { pid: String(process.pid) }, confidential: {} });`;
const UNTIL_TOLD = `process.on('SIGTERM', () => process.exit(0)); process.on('disconnect', () => process.exit(0));`;

function program(t: Test, source: string): string {
  const path = join(t.testdir(), 'program.mjs');
  writeFileSync(path, source);
  return path;
}

function supervise(t: Test, source: string) {
  const notes: string[] = [];
  const pids: string[] = [];
  let readyAgain = (): void => {};
  const child = new SupervisedChild({
    title: 'test process',
    program: program(t, source),
    environment: () => ({}),
    stopWithinMs: 0,
    onNote: (text) => notes.push(text),
    onReady: ({ addresses }) => {
      pids.push(addresses['pid'] ?? '');
      readyAgain();
    },
  });
  t.teardown(() => child.kill());
  const nextReady = () => new Promise<void>((resolve) => (readyAgain = resolve));
  return { child, notes, pids, nextReady };
}

/** Whether a process still runs; one that only waits for its parent to ask for its exit code does not. */
function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
  } catch {
    return false;
  }
  const stat = `/proc/${pid}/stat`;
  return !existsSync(stat) || !/^[0-9]+ \(.*\) [ZX]/s.test(readFileSync(stat, 'utf8'));
}

t.test('a process that dies is started again, and that is said', async (t) => {
  const { child, notes, pids, nextReady } = supervise(t, READY + UNTIL_TOLD);
  await child.start();
  const again = nextReady();
  process.kill(Number(pids[0]), 'SIGKILL');
  await again;
  t.not(pids[1], pids[0]);
  t.match(notes[0], /The test process ended unexpectedly \(SIGKILL\); starting it again in 0\.25 s\./);
  await child.stop();
  t.notOk(isAlive(Number(pids[1])));
});

t.test('a process that cannot start says why, and is not tried again', async (t) => {
  const source = `process.send({ type: 'failed', message: 'Port 1 is already in use.' }, () => process.exit(2));`;
  const { child, notes } = supervise(t, source);
  await t.rejects(child.start(), { message: 'Port 1 is already in use.' });
  t.strictSame(notes, []);
});

t.test('a process that ends before it is ready without a reason is reported with how it ended', async (t) => {
  const { child } = supervise(t, `process.exit(7);`);
  await t.rejects(child.start(), { message: 'The test process ended while it was starting (exit code 7).' });
});

t.test('a process that ignores the request to stop is killed, with all it started', async (t) => {
  const stubborn = `
    import { spawn } from 'node:child_process';
    const worker = spawn(process.execPath, ['-e', 'setInterval(() => {}, 1000)'], { stdio: 'ignore' });
    process.on('SIGTERM', () => {});
    setInterval(() => {}, 1000);
    process.send({ type: 'ready', addresses: { pid: String(worker.pid) }, confidential: {} });`;
  const { child, notes, pids } = supervise(t, stubborn);
  await child.start();
  await child.stop();
  t.match(notes.join(), /does not stop in time and is killed/);
  const worker = Number(pids[0]);
  for (let i = 0; i < 200 && isAlive(worker); i++) await new Promise((resolve) => setTimeout(resolve, 10));
  t.notOk(isAlive(worker));
});

t.test('a process whose supervisor is killed by SIGKILL loses its channel and ends', async (t) => {
  const supervisor = `
    import { SupervisedChild } from ${JSON.stringify(CHILD_MODULE)};
    const [, , program] = process.argv;
    const child = new SupervisedChild({ title: 'x', program, environment: () => ({}), stopWithinMs: 0, onNote() {} });
    const { addresses } = await child.start();
    process.stdout.write(addresses.pid);`;
  const path = join(t.testdir(), 'supervisor.mjs');
  const childPath = join(t.testdirName, 'child.mjs');
  writeFileSync(path, supervisor);
  writeFileSync(childPath, READY + UNTIL_TOLD);
  const running = spawn(process.execPath, [path, childPath], { stdio: ['ignore', 'pipe', 'inherit'] });
  const [text] = (await once(running.stdout, 'data')) as [Buffer];
  const pid = Number(text.toString());
  t.ok(isAlive(pid));
  running.kill('SIGKILL');
  for (let i = 0; i < 500 && isAlive(pid); i++) await new Promise((resolve) => setTimeout(resolve, 10));
  t.notOk(isAlive(pid));
});
