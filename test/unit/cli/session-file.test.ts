import { chmodSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { readSession, sessionPath, writeSession } from '../../../cli/session-file.ts';
import { loadConfig } from '../../../config/load.ts';

const SESSION = { account_id: 'acc_1', email: 'a@example.com', token: 'ses_x', expires_at: '2030-01-01T00:00:00.000Z' };

t.test('the file is for its user only, in a directory for its user only', async (t) => {
  const path = join(t.testdir(), 'home', 'session.json');
  await writeSession(path, 'http://127.0.0.1:8081', SESSION);
  t.equal(statSync(path).mode & 0o777, 0o600);
  t.equal(statSync(join(path, '..')).mode & 0o777, 0o700);
  t.strictSame(readdirSync(join(path, '..')), ['session.json']);
});

t.test('a token is given only to the control plane that issued it', async (t) => {
  const path = join(t.testdir(), 'session.json');
  await writeSession(path, 'http://127.0.0.1:8081', SESSION);
  t.strictSame(await readSession(path, 'http://127.0.0.1:8081'), SESSION);
  t.equal(await readSession(path, 'https://evil.example'), null);
  await writeSession(path, 'http://127.0.0.1:8081', null);
  t.notMatch(readFileSync(path, 'utf8'), /ses_x/);
});

t.test('a file that others can read, or that is damaged, is refused with the way out', async (t) => {
  const path = join(t.testdir(), 'session.json');
  writeFileSync(path, '{"http://a": {"token": 5}}', { mode: 0o600 });
  await t.rejects(readSession(path, 'http://a'), { message: /damaged/, next: /mandate login/ });
  chmodSync(path, 0o644);
  await t.rejects(readSession(path, 'http://a'), { message: /read by other users/, next: /chmod 600/ });
});

t.test('MANDATE_HOME wins over XDG_CONFIG_HOME, which wins over the home directory', async (t) => {
  const path = (environment: Record<string, string>) => sessionPath(loadConfig('cli', environment), environment);
  t.equal(path({ MANDATE_HOME: '/m', XDG_CONFIG_HOME: '/x', HOME: '/h' }), '/m/session.json');
  t.equal(path({ XDG_CONFIG_HOME: '/x', HOME: '/h' }), '/x/mandate/session.json');
  t.equal(path({ HOME: '/h' }), '/h/.config/mandate/session.json');
});
