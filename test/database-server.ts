/**
 * The database server of one test run, a process of its own: it makes the migrated template, writes `state.json`, and
 * ends when the run's process has ended or sends SIGTERM. Arguments: the run's process number and its directory.
 */
import { randomBytes } from 'node:crypto';
import { rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { connect, type Sql, scramVerifier, withRole } from '../control-plane/db/client.ts';
import { type EmbeddedPostgres, startEmbedded } from '../control-plane/db/embedded.ts';
import { GRANTED_ROLE, migrate } from '../control-plane/db/migrate.ts';
import { onDatabase, type ServerState } from './database.ts';
import { allNames, readPristine } from './database-pool.ts';

const MAX_CONNECTIONS = 400;
const WATCH_MS = 200;
/** The passwords are random, and thousands of connections prove them. */
const SCRAM_ITERATIONS = 1;
const FAILURE_SHOWN_MS = 5_000;

const [runPid, directory] = [Number(process.argv[2]), String(process.argv[3])];
const external = process.env['MANDATE_TEST_DATABASE_URL'];

let asked = false;
for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) process.on(signal, () => (asked = true));

let embedded: EmbeddedPostgres | undefined;
let cleanUp = async (): Promise<void> => {};
try {
  if (external === undefined) {
    embedded = await startEmbedded({ dataDir: join(directory, 'data'), maxConnections: MAX_CONNECTIONS });
  }
  const superuserUrl = external ?? embedded?.adminUrl ?? '';
  const prepared = await prepare(superuserUrl);
  cleanUp = prepared.cleanUp;
  const draft = join(directory, 'state.draft');
  await writeFile(draft, JSON.stringify(prepared.state), { mode: 0o600 });
  await rename(draft, join(directory, 'state.json'));
  while (!asked && runs(runPid)) await delay(WATCH_MS);
} catch (error) {
  await writeFile(join(directory, 'failure'), error instanceof Error ? `${error.message}\n${error.stack}` : 'unknown');
  for (const end = Date.now() + FAILURE_SHOWN_MS; Date.now() < end && runs(runPid); ) await delay(WATCH_MS);
} finally {
  if (embedded === undefined) await cleanUp();
  await embedded?.stop();
  if (embedded !== undefined) await rm(embedded.home, { recursive: true, force: true });
  await rm(directory, { recursive: true, force: true });
}

/** Makes roles of this run's own, so that runs on one external server do not meet, and the template database. */
async function prepare(superuserUrl: string): Promise<{ state: ServerState; cleanUp: () => Promise<void> }> {
  const run = `test_run_${randomBytes(6).toString('hex')}`;
  const [owner, app] = [`${run}_owner`, `${run}_app`];
  const [ownerPassword, appPassword] = [randomBytes(18).toString('hex'), randomBytes(18).toString('hex')];
  const sql = connect(superuserUrl, { max: 1, applicationName: 'test server', statementTimeoutMs: 60_000 });
  const ownerUrl = onDatabase(withRole(superuserUrl, owner, ownerPassword), run);
  try {
    await createGrantedRole(sql);
    await sql.unsafe(
      `create role ${owner} login createrole password '${scramVerifier(ownerPassword, SCRAM_ITERATIONS)}'`,
    );
    await sql.unsafe(`grant ${GRANTED_ROLE} to ${owner} with admin option`);
    await sql.unsafe(`create role ${app} login password '${scramVerifier(appPassword, SCRAM_ITERATIONS)}'`);
    await sql.unsafe(`grant ${GRANTED_ROLE} to ${app}`);
    await sql.unsafe(`create database ${run} owner ${owner} template template0`);
    await migrate(ownerUrl, { app: { role: app, password: null } });
  } finally {
    await sql.end();
  }
  const template = connect(ownerUrl, { max: 1, applicationName: 'test server' });
  const pristine = await readPristine(template).finally(() => template.end());
  return {
    state: {
      pid: process.pid,
      superuserUrl,
      ownerUrl,
      appUrl: onDatabase(withRole(superuserUrl, app, appPassword), run),
      template: run,
      pristine,
    },
    cleanUp: async () => removeRun(superuserUrl, [...(await allNames(directory)), run], [app, owner]),
  };
}

async function createGrantedRole(sql: Sql): Promise<void> {
  await sql.unsafe(`do $$ begin create role ${GRANTED_ROLE} nologin;
    exception when duplicate_object or unique_violation then null; end $$`);
}

async function removeRun(superuserUrl: string, databases: readonly string[], roles: readonly string[]): Promise<void> {
  const sql = connect(superuserUrl, { max: 1, applicationName: 'test server', statementTimeoutMs: 60_000 });
  try {
    for (const name of databases) await sql.unsafe(`drop database if exists ${name} with (force)`);
    for (const role of roles) {
      await sql.unsafe(`drop owned by ${role}`);
      await sql.unsafe(`drop role ${role}`);
    }
  } finally {
    await sql.end();
  }
}

function runs(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}
