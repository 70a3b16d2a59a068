import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { lstat, mkdir, readFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { connect, type Sql } from '../control-plane/db/client.ts';
import { empty, forget, noteUsed, offer, type Pristine, takeFree } from './database-pool.ts';

const POLL_MS = 50;
const START_TIMEOUT_MS = 120_000;

/** A database of one test: as a new clone of the migrated template, on the server that a test run shares. */
export interface TestDatabase {
  readonly name: string;
  readonly ownerUrl: string;
  readonly appUrl: string;
  readonly superuserUrl: string;
  /** A pool of the owner. */
  readonly sql: Sql;
}

/** What `test/database-server.ts` tells the tests of its run. */
export interface ServerState {
  readonly pid: number;
  readonly superuserUrl: string;
  readonly ownerUrl: string;
  readonly appUrl: string;
  readonly template: string;
  readonly pristine: Pristine;
}

interface Teardown {
  teardown(fn: () => Promise<void>): void;
}

/**
 * Gives a test its own migrated database, which is emptied or dropped when it ends. The first caller of a run starts
 * the server (`test/database-server.ts`), which ends with the run; MANDATE_TEST_DATABASE_URL names a superuser of
 * another one.
 */
export async function createDatabase(t: Teardown): Promise<TestDatabase> {
  const server = await sharedServer();
  const { name, since } = await takeOrClone(server);
  const ownerUrl = onDatabase(server.ownerUrl, name);
  const sql = connect(ownerUrl, { max: 4, applicationName: 'test' });
  t.teardown(async () => {
    await sql.end();
    await giveBack(server, name, since);
  });
  return {
    name,
    ownerUrl,
    appUrl: onDatabase(server.appUrl, name),
    superuserUrl: onDatabase(server.superuserUrl, name),
    sql,
  };
}

async function takeOrClone(server: ServerState): Promise<{ name: string; since: string }> {
  const directory = await runDirectory(runPid());
  const free = await takeFree(directory);
  if (free !== null) return free;
  const name = `test_${randomBytes(8).toString('hex')}`;
  const owner = new URL(server.ownerUrl).username;
  const since = await asSuperuser(server, async (sql) => {
    await sql.unsafe(`create database ${name} owner ${owner} template ${server.template}`);
    const [row] = await sql<{ xid: string }[]>`select (pg_current_xact_id()::xid)::text as xid`;
    return row?.xid ?? '';
  });
  await noteUsed(directory, name, since);
  return { name, since };
}

async function giveBack(server: ServerState, name: string, since: string): Promise<void> {
  const directory = await runDirectory(runPid());
  const emptied = await empty(onDatabase(server.superuserUrl, name), since, server.pristine);
  if (emptied !== null) {
    await offer(directory, name, emptied);
    return;
  }
  await dropDatabase(server, name);
  await forget(directory, name);
}

/** The same as `createDatabase` without any table: what a migration test begins with. */
export async function createEmptyDatabase(t: Teardown): Promise<{ ownerUrl: string; superuserUrl: string }> {
  const server = await sharedServer();
  const name = `test_${randomBytes(8).toString('hex')}`;
  const owner = new URL(server.ownerUrl).username;
  await asSuperuser(server, (sql) => sql.unsafe(`create database ${name} owner ${owner} template template0`));
  t.teardown(() => dropDatabase(server, name));
  return { ownerUrl: onDatabase(server.ownerUrl, name), superuserUrl: onDatabase(server.superuserUrl, name) };
}

/** The same server and role on another database. */
export function onDatabase(url: string, name: string): string {
  const target = new URL(url);
  target.pathname = `/${name}`;
  return target.href;
}

async function dropDatabase(server: ServerState, name: string): Promise<void> {
  await asSuperuser(server, (sql) => sql.unsafe(`drop database if exists ${name} with (force)`));
}

async function asSuperuser<T>(server: ServerState, run: (sql: Sql) => Promise<T>): Promise<T> {
  const sql = connect(server.superuserUrl, { max: 1, applicationName: 'test harness', statementTimeoutMs: 60_000 });
  try {
    return await run(sql);
  } finally {
    await sql.end();
  }
}

let server: Promise<ServerState> | undefined;

function sharedServer(): Promise<ServerState> {
  server ??= findOrStart();
  return server;
}

/** The process whose life is the run's: tap's runner, or this process where a test file is run alone. */
function runPid(): number {
  return process.env['TAP'] === '1' ? process.ppid : process.pid;
}

/** Names a run by its process and that one's start, so that a reused process number is another run. */
export async function runDirectory(pid: number): Promise<string> {
  const status = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => '');
  const started = status.slice(status.lastIndexOf(')') + 2).split(' ')[19] ?? '0';
  return join(tmpdir(), `mandate-gateway-test-${process.getuid?.() ?? 0}-${pid}-${started}`);
}

async function findOrStart(): Promise<ServerState> {
  const pid = runPid();
  const directory = await runDirectory(pid);
  const first = await mkdir(directory, { mode: 0o700 }).then(
    () => true,
    async (error: NodeJS.ErrnoException) => {
      if (error.code !== 'EEXIST' || (await lstat(directory)).uid !== process.getuid?.()) throw error;
      return false;
    },
  );
  if (first) {
    const program = fileURLToPath(new URL('database-server.ts', import.meta.url));
    spawn(process.execPath, [program, String(pid), directory], { detached: true, stdio: 'ignore' }).unref();
  }
  for (const end = Date.now() + START_TIMEOUT_MS; Date.now() < end; await delay(POLL_MS)) {
    const failure = await readFile(join(directory, 'failure'), 'utf8').catch(() => null);
    if (failure !== null) throw new Error(`The test database server did not start: ${failure}`);
    const state = await readFile(join(directory, 'state.json'), 'utf8').catch(() => null);
    if (state !== null) return JSON.parse(state) as ServerState;
  }
  throw new Error(`The test database server did not start in ${START_TIMEOUT_MS} ms`);
}
