import { type ChildProcess, spawn } from 'node:child_process';
import { chmod, cp, mkdir, mkdtemp, readdir, readFile, rename, rm, stat, symlink, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import t from 'tap';
import { connect, withRole } from '../../../control-plane/db/client.ts';
import { startEmbedded } from '../../../control-plane/db/embedded.ts';
import { installedBinaries } from '../../../control-plane/db/embedded-binaries.ts';

// Clusters are made and copied here; a busy machine takes its time.
t.setTimeout(300_000);

const isRoot = process.getuid?.() === 0;

interface Teardown {
  teardown(fn: () => Promise<void>): void;
}

async function freshDirectory(t: Teardown): Promise<string> {
  const directory = await mkdtemp(join(tmpdir(), 'mandate-embedded-'));
  t.teardown(() => rm(directory, { recursive: true, force: true }));
  return directory;
}

async function query(url: string, statement: string): Promise<Record<string, unknown>[]> {
  const sql = connect(url, { max: 1, applicationName: 'test' });
  try {
    return Array.from(await sql.unsafe(statement));
  } finally {
    await sql.end();
  }
}

interface Supervised {
  readonly supervisor: ChildProcess;
  readonly pid: number;
  readonly ownerUrl: string;
}

async function supervised(dataDir: string, errors: 'inherit' | 'ignore' = 'inherit'): Promise<Supervised> {
  const program = fileURLToPath(new URL('embedded-supervisor.ts', import.meta.url));
  const supervisor = spawn(process.execPath, [program, dataDir], { stdio: ['ignore', 'pipe', errors] });
  const output = createInterface({ input: supervisor.stdout });
  for await (const line of output) return { supervisor, ...JSON.parse(line) };
  throw new Error('the supervisor ended before its database started');
}

function killed(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return Promise.resolve();
  return new Promise((resolve) => {
    child.once('exit', () => resolve()).kill('SIGKILL');
  });
}

/** The shells that wait for a killed supervisor to shut its server down. */
async function watchdogsOf(pid: number): Promise<number[]> {
  const found: number[] = [];
  for (const name of await readdir('/proc')) {
    const title = /^[0-9]+$/.test(name) ? await readFile(`/proc/${name}/cmdline`, 'utf8').catch(() => '') : '';
    if (title.startsWith('/bin/sh\0-c\0if read') && title.endsWith(`\0${pid}\0`)) found.push(Number(name));
  }
  return found;
}

t.test('a new directory becomes a durable database that asks everybody for a password', async (t) => {
  const dataDir = await freshDirectory(t);
  const server = await startEmbedded({ dataDir });
  t.teardown(() => server.stop());
  const [settings] = await query(
    server.ownerUrl,
    `select current_setting('fsync') as fsync, current_setting('synchronous_commit') as synchronous,
      current_setting('full_page_writes') as pages, current_setting('listen_addresses') as listens,
      current_setting('TimeZone') as zone, current_setting('server_encoding') as encoding,
      (select rolsuper from pg_roles where rolname = current_user) as superuser`,
  );
  t.strictSame(settings, {
    fsync: 'on',
    synchronous: 'on',
    pages: 'on',
    listens: '127.0.0.1',
    zone: 'UTC',
    encoding: 'UTF8',
    superuser: false,
  });
  for (const url of [server.ownerUrl, server.adminUrl]) {
    const wrong = withRole(url, new URL(url).username, 'wrong');
    await t.rejects(query(wrong, 'select 1'), { code: '28P01' });
    const socket = `${wrong}?host=${encodeURIComponent(join(server.home, 'run'))}`;
    await t.rejects(query(socket, 'select 1'), { code: '28P01' }, 'on the unix socket too');
  }
  t.equal((await stat(join(server.home, 'credentials.json'))).mode & 0o777, 0o600);
  t.equal((await stat(join(server.home, 'cluster'))).mode & 0o777, 0o700);
});

t.test('a second start on the same directory is refused until the first one ends', async (t) => {
  const dataDir = await freshDirectory(t);
  const first = await startEmbedded({ dataDir });
  t.teardown(() => first.stop());
  const refusal = { code: 'data_directory_in_use', message: new RegExp(`in use .*process ${process.pid}\\b`) };
  await t.rejects(startEmbedded({ dataDir }), refusal);
  t.strictSame(await query(first.ownerUrl, 'select 1 as alive'), [{ alive: 1 }], 'the first one is not disturbed');
  const rival = await supervised(dataDir, 'ignore').catch(() => null);
  t.equal(rival, null, 'a refused start of the same process does not give the lock away');
  await first.stop();
  t.strictSame(await first.ended, { expected: true });
  const other = await supervised(dataDir);
  t.teardown(() => killed(other.supervisor));
  await t.rejects(startEmbedded({ dataDir }), { code: 'data_directory_in_use' }, 'from another process as well');
  await killed(other.supervisor);
  const next = await startEmbedded({ dataDir });
  await next.stop();
});

t.test('of several starts at once on a new directory exactly one gets it', async (t) => {
  const dataDir = await freshDirectory(t);
  const starts = await Promise.allSettled(Array.from({ length: 5 }, () => startEmbedded({ dataDir })));
  const won = starts.flatMap((start) => (start.status === 'fulfilled' ? [start.value] : []));
  const codes = starts.flatMap((start) => (start.status === 'rejected' ? [start.reason.code] : []));
  t.equal(won.length, 1);
  t.strictSame(codes, Array(4).fill('data_directory_in_use'));
  await won[0]?.stop();
});

for (const victims of ['supervisor', 'supervisor and watchdog', 'postmaster and supervisor'] as const) {
  t.test(`what was committed survives kill -9 of ${victims}`, async (t) => {
    const dataDir = await freshDirectory(t);
    const first = await supervised(dataDir);
    await query(first.ownerUrl, 'create table kept (n int)');
    await query(first.ownerUrl, 'insert into kept values (42)');
    if (victims === 'supervisor and watchdog') {
      for (const pid of await watchdogsOf(first.pid)) process.kill(pid, 'SIGKILL');
    }
    if (victims === 'postmaster and supervisor') process.kill(first.pid, 'SIGKILL');
    await killed(first.supervisor);
    const again = await startEmbedded({ dataDir });
    t.teardown(() => again.stop());
    t.strictSame(await query(again.ownerUrl, 'select n from kept'), [{ n: 42 }]);
  });
}

t.test('a server that dies by itself is reported as unexpected', async (t) => {
  const server = await startEmbedded({ dataDir: await freshDirectory(t) });
  // A server does not keep its process alive; a gateway's listeners do.
  const listener = setInterval(() => {}, 1_000);
  t.teardown(() => clearInterval(listener));
  process.kill(server.pid, 'SIGKILL');
  t.strictSame(await server.ended, { expected: false });
  await server.stop();
});

t.test('a stale pid file whose number another process has now does not block the start', async (t) => {
  const dataDir = await freshDirectory(t);
  const server = await startEmbedded({ dataDir });
  await server.stop();
  const bystander = spawn('/bin/sh', ['-c', 'read -r line'], { stdio: ['pipe', 'ignore', 'ignore'] });
  t.teardown(() => killed(bystander));
  await writeFile(join(server.home, 'cluster', 'postmaster.pid'), `${bystander.pid}\n${server.home}/cluster\n`);
  const again = await startEmbedded({ dataDir });
  await again.stop();
  t.equal(bystander.exitCode, null, 'the bystander is left alone');
});

t.test('a cluster that was half made is made again', async (t) => {
  const dataDir = await freshDirectory(t);
  await mkdir(join(dataDir, 'database', 'cluster.new-0123', 'base'), { recursive: true });
  const server = await startEmbedded({ dataDir });
  t.teardown(() => server.stop());
  t.notOk((await readdir(server.home)).some((name) => name.includes('.new-')));
});

t.test('a port in use, a foreign version and lost credentials are refused with the way out', async (t) => {
  const dataDir = await freshDirectory(t);
  const squatter = createServer().listen(0, '127.0.0.1');
  await new Promise((resolve) => squatter.once('listening', resolve));
  const address = squatter.address();
  const port = typeof address === 'object' && address !== null ? address.port : 0;
  await t.rejects(startEmbedded({ dataDir, port }), { code: 'port_in_use', message: new RegExp(String(port)) });
  await new Promise((resolve) => squatter.close(resolve));
  const server = await startEmbedded({ dataDir, port });
  t.equal(server.port, port, 'a refused start leaves the directory free');
  await server.stop();

  const version = join(server.home, 'cluster', 'PG_VERSION');
  await writeFile(version, '17\n');
  await t.rejects(startEmbedded({ dataDir }), { code: 'database_version' });
  await writeFile(version, '18\n');
  await rename(join(server.home, 'credentials.json'), join(server.home, 'away.json'));
  await t.rejects(startEmbedded({ dataDir }), { code: 'data_directory_unusable', message: /credentials/ });
});

t.test('without install scripts, the libraries are linked in a copy', async (t) => {
  const directory = await freshDirectory(t);
  await chmod(directory, 0o755);
  const native = join(directory, 'native');
  await cp(installedBinaries(), native, { recursive: true, filter: (path) => !/lib[a-z]+\.so(\.\d+)?$/.test(path) });
  for (const name of await readdir(join(installedBinaries(), 'lib'))) {
    // Only what npm's archive holds as files: the links are what the install script makes.
    const path = join(native, 'lib', name);
    const isLink = (await readFile(join(native, 'pg-symlinks.json'), 'utf8')).includes(`"native/lib/${name}"}`);
    if (!isLink) await cp(join(installedBinaries(), 'lib', name), path, { recursive: true });
  }
  const server = await startEmbedded({ dataDir: join(directory, 'data'), native });
  t.teardown(() => server.stop());
  t.strictSame(await query(server.ownerUrl, 'select 1 as alive'), [{ alive: 1 }]);
});

t.test('as root, binaries and data below a closed directory work', { skip: !isRoot && 'not root' }, async (t) => {
  const closed = await freshDirectory(t);
  await mkdir(join(closed, 'checkout'), { mode: 0o755 });
  await chmod(closed, 0o700);
  const native = join(closed, 'checkout', 'native');
  await cp(installedBinaries(), native, { recursive: true, verbatimSymlinks: true });
  const dataDir = join(closed, 'checkout', 'data');
  const server = await startEmbedded({ dataDir, native });
  t.teardown(() => rm(server.home, { recursive: true, force: true }));
  t.not(server.home, join(dataDir, 'database'));
  await query(server.ownerUrl, 'create table kept as select 42 as n');
  await t.rejects(startEmbedded({ dataDir, native }), { code: 'data_directory_in_use' });
  await server.stop();

  const moved = join(closed, 'moved');
  await rename(dataDir, moved);
  const again = await startEmbedded({ dataDir: moved, native });
  t.equal(again.home, server.home);
  t.strictSame(await query(again.ownerUrl, 'select n from kept'), [{ n: 42 }], 'a moved data directory keeps its data');
  await again.stop();

  await rename(server.home, `${server.home}.away`);
  t.teardown(() => rm(`${server.home}.away`, { recursive: true, force: true }));
  await t.rejects(
    startEmbedded({ dataDir: moved, native }),
    { code: 'database_missing' },
    'never an empty one instead',
  );
  await rename(`${server.home}.away`, server.home);

  const linked = join(closed, 'linked');
  await symlink(moved, linked);
  const through = await startEmbedded({ dataDir: linked, native });
  await through.stop();
  t.equal(through.home, server.home, 'a link to the data directory is the data directory');
});
