import t from 'tap';
import { cli, stubAdmin } from './stub-admin.ts';

const MANDATE = 'mdt_01jd0000000000000000000000';
const INSTANCE = 'gwi_01jd0000000000000000000000';

t.test('help explains itself on standard output and exits 0', async (t) => {
  const { code, stdout } = await cli(['--help'], {});
  t.equal(code, 0);
  t.match(stdout, /A first walk:/);
  t.match(stdout, /mandate up --demo/);
});

t.test('a wrong command or flag exits 2 and suggests the nearest', async (t) => {
  const command = await cli(['mandate'], {});
  t.equal(command.code, 2);
  t.match(command.stderr, /Did you mean mandates\?/);
  const flag = await cli(['login', '--email', 'a@b.c', '--totp-secrt', 'X'], {});
  t.equal(flag.code, 2);
  t.match(flag.stderr, /Did you mean --totp-secret\?/);
});

t.test('with --json a usage error is one JSON value on standard error and nothing on standard output', async (t) => {
  for (const args of [
    ['mandates', 'create', '--json'],
    ['tools', 'map', 'nonsense', 'http.post:/x', '--action-type', 'a.b', '--json'],
    ['--json', 'escalations', 'list', '--watch'],
    ['nothing', '--json'],
  ]) {
    const { code, stdout, stderr } = await cli(args, { MANDATE_TOKEN: 'ses_x' });
    t.equal(code, 2, args.join(' '));
    t.equal(stdout, '');
    t.equal(JSON.parse(stderr).error, 'usage');
  }
});

t.test('amounts that are not plain digits never leave the machine', async (t) => {
  const stub = await stubAdmin(() => ({}));
  t.teardown(() => stub.close());
  const base = ['mandates', 'create', '--scope', 'a.b', '--per-month', '10', '--per-action'];
  for (const amount of ['1e3', '-5', '10,00', '0x10']) {
    const { code, stderr } = await cli([...base, amount], { MANDATE_CONTROL_URL: stub.url, MANDATE_TOKEN: 'ses_x' });
    t.equal(code, 2, amount);
    t.match(stderr, /--per-action must be an amount in plain digits/);
  }
  t.equal(stub.seen.length, 0);
});

t.test('an id is checked before it becomes part of a path', async (t) => {
  const stub = await stubAdmin(() => ({}));
  t.teardown(() => stub.close());
  const environment = { MANDATE_CONTROL_URL: stub.url, MANDATE_TOKEN: 'ses_x' };
  for (const id of ['../account', 'mdt_', INSTANCE, `${MANDATE}/revoke`]) {
    t.equal((await cli(['mandates', 'show', id], environment)).code, 2, id);
  }
  t.equal(stub.seen.length, 0);
});

t.test('a mapping that can never be read is refused here, naming the option', async (t) => {
  const environment = { MANDATE_TOKEN: 'ses_x' };
  const base = ['tools', 'map', INSTANCE, 'http.post:/x', '--action-type'];
  t.match((await cli([...base, 'Bad Type'], environment)).stderr, /--action-type must be/);
  t.match(
    (await cli([...base, 'a.b', '--amount', 'amount'], environment)).stderr,
    /--amount must be none, a JSON Pointer/,
  );
  t.match((await cli([...base, 'a.b', '--unit', 'cents'], environment)).stderr, /Allowed choices are major, minor/);
  t.match((await cli([...base, 'a.b', '--body-limit', 'x'], environment)).stderr, /--body-limit/);
});

t.test('a wrong setting exits 2 and names it', async (t) => {
  const { code, stderr } = await cli(['whoami'], { MANDATE_CONTROL_URI: 'http://127.0.0.1:1' });
  t.equal(code, 2);
  t.match(stderr, /did you mean MANDATE_CONTROL_URL\?/);
});
