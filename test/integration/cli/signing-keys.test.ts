import { randomBytes } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import { Custody, checkMasterKey } from '../../../control-plane/custody/custody.ts';
import { listLogKeys } from '../../../control-plane/signing/log-key.ts';
import { SigningKeys } from '../../../control-plane/signing/signing-keys.ts';
import { listKeys } from '../../../control-plane/signing/stored-keys.ts';
import { createDatabase, type TestDatabase } from '../../database.ts';
import { cli } from './stub-admin.ts';

type Teardown = Parameters<typeof createDatabase>[0];

/** The settings of an operator for this database, with a data directory that holds nothing. */
async function settings(t: Teardown, database: TestDatabase, masterKey: Buffer | null) {
  const directory = await mkdtemp(join(tmpdir(), 'mandate-test-'));
  t.teardown(() => rm(directory, { recursive: true, force: true }));
  const key = masterKey === null ? {} : { MANDATE_MASTER_KEY: masterKey.toString('hex') };
  return { MANDATE_DATABASE_APP_URL: database.appUrl, MANDATE_DATA_DIR: directory, ...key };
}

/** What a first start of a control plane leaves behind. */
async function started(database: TestDatabase, masterKey: Buffer): Promise<void> {
  await checkMasterKey(database.sql, masterKey);
  const keys = await SigningKeys.open(database.sql, new Custody(masterKey), () => {});
  keys.close();
}

t.test('an operator lists the keys and rotates them, and sees no secret', async (t) => {
  const database = await createDatabase(t);
  const masterKey = randomBytes(32);
  await started(database, masterKey);
  const environment = await settings(t, database, masterKey);
  const before = await listKeys(database.sql);
  const listed = await cli(['signing-keys', 'list', '--json'], environment);
  t.equal(listed.code, 0, listed.stderr);
  t.strictSame(JSON.parse(listed.stdout), { keys: before, log_keys: await listLogKeys(database.sql) });
  // The key was made just now: the command waits until every control plane would have published it.
  const rotated = await cli(['--json', 'signing-keys', 'rotate'], environment);
  t.equal(rotated.code, 0, rotated.stderr);
  const after = await listKeys(database.sql);
  const kid = (status: string, keys = after): string | undefined => keys.find((key) => key.status === status)?.kid;
  t.strictSame(JSON.parse(rotated.stdout), { current: kid('current'), retired: kid('retired'), next: kid('next') });
  t.equal(kid('current'), kid('next', before), 'the one that was next is current');
  t.equal(kid('retired'), kid('current', before));
  const human = await cli(['signing-keys', 'list'], environment);
  const [log] = await listLogKeys(database.sql);
  const shown = ['KID', 'next', 'current', 'retired', kid('retired') ?? '?', log?.public_key ?? '?'];
  for (const text of shown) t.ok(human.stdout.includes(text), text);
});

t.test('only who holds the master key rotates', async (t) => {
  const database = await createDatabase(t);
  await started(database, randomBytes(32));
  const before = await listKeys(database.sql);
  for (const key of [null, randomBytes(32)]) {
    const { code, stdout, stderr } = await cli(['signing-keys', 'rotate', '--json'], await settings(t, database, key));
    t.equal(code, 1);
    t.equal(stdout, '');
    t.equal(JSON.parse(stderr).error, 'failed');
    t.match(JSON.parse(stderr).detail, /MANDATE_MASTER_KEY/);
    if (key !== null) t.notMatch(stderr, key.toString('hex'));
  }
  t.same(await listKeys(database.sql), before);
});

t.test('without a database, or on one that was never started, it says what to do', async (t) => {
  const database = await createDatabase(t);
  const environment = await settings(t, database, randomBytes(32));
  const { MANDATE_DATABASE_APP_URL: url, ...none } = environment;
  t.equal(url, database.appUrl);
  const nowhere = await cli(['signing-keys', 'list'], none);
  t.equal(nowhere.code, 1);
  t.match(nowhere.stderr, /mandate up/);
  const unused = await cli(['signing-keys', 'rotate'], environment);
  t.equal(unused.code, 1);
  t.match(unused.stderr, /first start of a control plane/);
  const wrong = await cli(['signing-keys', 'list'], { ...environment, MANDATE_MASTER_KEI: 'x' });
  t.equal(wrong.code, 2);
  t.match(wrong.stderr, /MANDATE_MASTER_KEY/);
  const lost = await cli(['signing-keys', 'list', '--json'], {
    ...environment,
    MANDATE_DATABASE_APP_URL: 'postgres://mandate_app:secret-word@127.0.0.1:1/none',
  });
  t.equal(lost.code, 1);
  t.notMatch(lost.stderr, /secret-word/);
});

t.test('there is no way to them through the admin API', async (t) => {
  const help = await cli(['signing-keys', '--help'], {});
  t.equal(help.code, 0);
  t.match(help.stdout, /list[\s\S]*rotate/);
  const { stderr, code } = await cli(['signing-keys', 'rotate'], {
    MANDATE_TOKEN: 'ses_x',
    MANDATE_DATA_DIR: join(tmpdir(), 'mandate-none'),
  });
  t.equal(code, 1, 'a session is of no use');
  t.match(stderr, /No database is configured/);
});
