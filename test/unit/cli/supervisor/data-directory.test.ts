import { chmodSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import t from 'tap';
import {
  keptSecret,
  openDataDirectory,
  readState,
  removeState,
  socketPath,
  writeState,
} from '../../../../cli/supervisor/data-directory.ts';

t.test('the data directory is made for its user only', async (t) => {
  const path = await openDataDirectory(join(t.testdir(), 'a', 'data'));
  t.equal(statSync(path).mode & 0o777, 0o700);
});

t.test(
  'a secret is made once, is readable by its user only, and stays the same, also for starts at once',
  async (t) => {
    const directory = t.testdir();
    const secrets = await Promise.all(Array.from({ length: 20 }, () => keptSecret(directory, 'master.key')));
    t.equal(new Set(secrets).size, 1);
    t.match(secrets[0], /^[0-9a-f]{64}$/);
    t.equal(statSync(join(directory, 'master.key')).mode & 0o777, 0o600);
    t.strictSame(readdirSync(directory), ['master.key']);
  },
);

t.test('a damaged secret is refused, never replaced: a new one would not fit the database', async (t) => {
  const directory = t.testdir({ 'master.key': 'half' });
  await t.rejects(keptSecret(directory, 'master.key'), { message: /damaged/, next: /Restore it/ });
  t.equal(readFileSync(join(directory, 'master.key'), 'utf8'), 'half');
});

t.test('the socket is in a directory for its user only, and its path always fits', async (t) => {
  const data = mkdtempSync(join(tmpdir(), 'mandate-test-'));
  t.teardown(() => rmSync(data, { recursive: true, force: true }));
  const near = await socketPath(data);
  t.equal(near, join(data, 'run', 'control.sock'));
  t.equal(statSync(dirname(near)).mode & 0o777, 0o700);
  const deep = join(t.testdir(), 'd'.repeat(100));
  mkdirSync(deep);
  const short = await socketPath(deep);
  t.teardown(() => rmSync(dirname(short), { recursive: true, force: true }));
  t.ok(Buffer.byteLength(short) <= 103);
  t.equal(statSync(dirname(short)).mode & 0o777, 0o700);
  t.equal(await socketPath(deep), short, 'a killed start leaves at most one directory behind');
});

t.test('a directory that others can enter is not used for the socket', async (t) => {
  const deep = join(t.testdir(), 'e'.repeat(100));
  mkdirSync(deep);
  const first = await socketPath(deep);
  chmodSync(dirname(first), 0o777);
  const second = await socketPath(deep);
  t.teardown(() => {
    for (const path of [first, second]) rmSync(dirname(path), { recursive: true, force: true });
  });
  t.not(dirname(second), dirname(first));
  t.equal(statSync(dirname(second)).mode & 0o777, 0o700);
});

t.test('what a running up tells others is for its user only, and gone after it stopped', async (t) => {
  const directory = t.testdir();
  const state = { pid: 1, addresses: { admin: 'http://127.0.0.1:1' }, app_url: 'postgres://x' };
  await writeState(directory, state);
  t.equal(statSync(join(directory, 'run', 'up.json')).mode & 0o777, 0o600);
  t.strictSame(await readState(directory), state);
  await removeState(directory);
  t.equal(await readState(directory), null);
  writeFileSync(join(directory, 'run', 'up.json'), '{half');
  t.equal(await readState(directory), null);
});
