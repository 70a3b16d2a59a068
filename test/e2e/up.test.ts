import { existsSync, readFileSync, statSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import t from 'tap';
import { ANY_PORTS, descendants, mandate, newDirectory, startUp } from './running-system.ts';

const SECRET = 'JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP';

async function isUp(url: string): Promise<boolean> {
  return fetch(`${url}/readyz`).then(
    (answer) => answer.ok,
    () => false,
  );
}

t.test(
  'up runs the whole system, refuses a second one, survives kill -9 of all of it, and stops cleanly',
  async (t) => {
    const directory = await newDirectory();
    const variables = { ...ANY_PORTS, MANDATE_DATA_DIR: directory, MANDATE_HOME: join(directory, 'home') };
    let up = await startUp(variables);
    t.teardown(async () => {
      await up.killTree();
      await rm(directory, { recursive: true, force: true });
    });
    t.ok(await isUp(up.addresses['admin'] ?? ''));
    t.ok(await isUp(up.addresses['proxy'] ?? ''));
    for (const file of ['master.key', 'internal.secret']) t.equal(statSync(join(directory, file)).mode & 0o777, 0o600);

    const doctor = await mandate(['doctor', '--json'], variables);
    t.equal(doctor.code, 0, doctor.stdout);

    const second = await mandate(['up'], variables);
    t.equal(second.code, 1);
    t.match(second.stderr, /in use/);
    t.notMatch(second.stderr, /"level"|\n +at /, 'one sentence, no log and no stack');
    t.ok(await isUp(up.addresses['admin'] ?? ''), 'the first one goes on');

    const cli = { MANDATE_HOME: variables.MANDATE_HOME, MANDATE_CONTROL_URL: up.addresses['admin'] ?? '' };
    const signup = ['signup', '--email', 'a@example.com', '--password-stdin', '--totp-secret', SECRET, '--json'];
    const account = await mandate(signup, cli, 'correct horse battery staple\n');
    t.equal(account.code, 0, account.stderr);
    const token = String(JSON.parse(account.stdout).token);

    await up.killTree();
    up = await startUp(variables);
    const who = await mandate(['whoami', '--json'], {
      MANDATE_TOKEN: token,
      MANDATE_CONTROL_URL: up.addresses['admin'] ?? '',
    });
    t.equal(JSON.parse(who.stdout).account_id, JSON.parse(account.stdout).account_id, 'nothing was lost');

    const below = descendants(up.process.pid ?? 0);
    up.process.kill('SIGINT');
    const end = await up.ended;
    t.equal(end.code, 0, end.stderr);
    t.strictSame(below.filter(isAlive), []);
    t.notOk(existsSync(join(directory, 'run', 'up.json')));
  },
);

t.test('the processes of a supervisor killed by SIGKILL stop by themselves, and up works right after', async (t) => {
  const directory = await newDirectory();
  const variables = { ...ANY_PORTS, MANDATE_DATA_DIR: directory };
  const first = await startUp(variables);
  first.process.kill('SIGKILL');
  await first.ended;
  const next = await startUp(variables);
  t.teardown(async () => {
    await next.killTree();
    await rm(directory, { recursive: true, force: true });
  });
  t.ok(await isUp(next.addresses['proxy'] ?? ''));
  next.process.kill('SIGTERM');
  t.equal((await next.ended).code, 0);
});

t.test('each process that dies is started again, on the address that was told', async (t) => {
  const directory = await newDirectory();
  const up = await startUp({ ...ANY_PORTS, MANDATE_DATA_DIR: directory });
  t.teardown(async () => {
    await up.killTree();
    await rm(directory, { recursive: true, force: true });
  });
  const supervisor = up.process.pid ?? 0;
  for (const [program, url] of [
    ['proxy/main.ts', up.addresses['proxy']],
    ['control-plane/main.ts', up.addresses['admin']],
  ] as const) {
    const before = childRunning(supervisor, program);
    process.kill(before, 'SIGKILL');
    await until(() => childRunning(supervisor, program) !== before);
    await until(() => isUp(url ?? ''));
    t.pass(program);
  }
});

t.test('a port that is in use is named together with its setting', async (t) => {
  const directory = await newDirectory();
  const up = await startUp({ ...ANY_PORTS, MANDATE_DATA_DIR: directory });
  const other = await newDirectory();
  t.teardown(async () => {
    await up.killTree();
    for (const path of [directory, other]) await rm(path, { recursive: true, force: true });
  });
  const port = new URL(up.addresses['admin'] ?? '').port;
  const second = await mandate(['up'], { ...ANY_PORTS, MANDATE_DATA_DIR: other, MANDATE_CONTROL_PORT: port });
  t.equal(second.code, 1);
  t.match(second.stderr, new RegExp(`Port ${port} is already in use: .* MANDATE_CONTROL_PORT`));
});

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

/** The process below `supervisor` that runs `program`; 0 where there is none. */
function childRunning(supervisor: number, program: string): number {
  const runs = (pid: number): boolean => readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes(program);
  return descendants(supervisor).find((pid) => isAlive(pid) && runs(pid)) ?? 0;
}

async function until(condition: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await condition())) await new Promise((resolve) => setTimeout(resolve, 50));
}
