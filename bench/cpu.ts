import { readdirSync, readFileSync } from 'node:fs';

/** CPU time of a process, all its threads and its children so far, in microseconds (Linux schedstat; 0 elsewhere). */
export function cpuMicroseconds(pid: number): number {
  let total = ownCpu(pid);
  for (const entry of readdirSync('/proc')) {
    if (/^[0-9]+$/.test(entry) && parentOf(Number(entry)) === pid) total += ownCpu(Number(entry));
  }
  return total;
}

function ownCpu(pid: number): number {
  let nanoseconds = 0;
  for (const thread of threadsOf(pid)) {
    nanoseconds += Number(read(`/proc/${pid}/task/${thread}/schedstat`).split(' ')[0] ?? 0);
  }
  return nanoseconds / 1000;
}

function threadsOf(pid: number): string[] {
  try {
    return readdirSync(`/proc/${pid}/task`);
  } catch {
    return [];
  }
}

function parentOf(pid: number): number {
  const stat = read(`/proc/${pid}/stat`);
  return Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1] ?? -1);
}

function read(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return '';
  }
}

/** Resident memory in bytes of a Node process; 0 for any other process and where there is no /proc. */
export function nodeRss(pid: number): number {
  try {
    const status = readFileSync(`/proc/${pid}/status`, 'utf8');
    if (!readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0')[0]?.endsWith('node')) return 0;
    return Number(/^VmRSS:\s*([0-9]+) kB$/m.exec(status)?.[1] ?? 0) * 1024;
  } catch {
    return 0;
  }
}
