/** Run by tap after the last test file: ends the run's database server and waits until it is gone. */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { runDirectory, type ServerState } from './database.ts';

const POLL_MS = 50;
const STOP_TIMEOUT_MS = 60_000;

const state = await readFile(join(await runDirectory(process.ppid), 'state.json'), 'utf8').catch(() => null);
if (state !== null) {
  const { pid } = JSON.parse(state) as ServerState;
  for (const end = Date.now() + STOP_TIMEOUT_MS; signal(pid, 'SIGTERM') && Date.now() < end; ) await delay(POLL_MS);
}

function signal(pid: number, name: NodeJS.Signals): boolean {
  try {
    return process.kill(pid, name);
  } catch {
    return false;
  }
}
