import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import {
  ConfigError,
  type Environment,
  isLoopback,
  loadConfig,
  type ProcessName,
  serviceUrl,
} from '../../../config/load.ts';
import { SETTINGS } from '../../../config/schema.ts';
import { NOTE_SIGNATURE, verifierKey, verifierKeyText } from '../../../core/signed-note.ts';

const KEY = 'ab'.repeat(32);
const SECRET = 's'.repeat(40);
const CONTROL_PLANE = {
  MANDATE_DATABASE_APP_URL: 'postgres://mandate_app:pw@127.0.0.1/mandate',
  MANDATE_MASTER_KEY: KEY,
  MANDATE_INTERNAL_SECRET: SECRET,
};

function problems(forProcess: ProcessName, environment: Environment): readonly string[] {
  try {
    loadConfig(forProcess, environment);
    return [];
  } catch (error) {
    if (error instanceof ConfigError) return error.problems;
    throw error;
  }
}

t.test('an empty environment gives every default, and empty variables count as not given', async (t) => {
  const config = loadConfig('up', { MANDATE_PROXY_PORT: '', PATH: '/bin' });
  t.equal(config.proxyPort, 8080);
  t.equal(config.controlUrl, 'http://127.0.0.1:8081');
  t.equal(config.decisionBatchMax, 256);
  t.equal(config.databaseUrl, null);
  t.equal(config.allowPlaintext, false);
  t.strictSame(config.controlPlanes, ['http://127.0.0.1:8082']);
});

t.test('the default of every setting is a value that the setting itself accepts', async (t) => {
  for (const item of Object.values(SETTINGS)) {
    if (item.fallback !== null) t.ok(item.schema.safeParse(item.fallback).success, item.env);
  }
});

t.test('a misspelt setting refuses the start and names the nearest one', async (t) => {
  const [problem] = problems('up', { MANDATE_PROXI_PORT: '1' });
  t.match(problem, /MANDATE_PROXI_PORT is not a setting: did you mean MANDATE_PROXY_PORT\?/);
});

t.test('all wrong values are reported at once, each with its variable and what is expected', async (t) => {
  const found = problems('up', {
    MANDATE_PROXY_PORT: '70000',
    MANDATE_LOG_LEVEL: 'loud',
    MANDATE_CONTROL_LANES: '4.0',
  });
  t.equal(found.length, 3);
  t.match(found.join('\n'), /MANDATE_PROXY_PORT must be a whole number from 0 to 65535\. "70000" is not\./);
  t.match(found.join('\n'), /MANDATE_LOG_LEVEL must be one of trace/);
});

t.test('numbers are plain digits only', async (t) => {
  for (const value of ['1e3', '0x10', ' 80', '+80', '-1', '080', '1.0', '９']) {
    t.equal(problems('up', { MANDATE_PROXY_PORT: value }).length, 1, value);
  }
});

t.test('the value of a secret never appears in an error', async (t) => {
  const bad = {
    MANDATE_MASTER_KEY: 'hunter2hunter2',
    MANDATE_INTERNAL_SECRET: 'hunter2',
    MANDATE_DATABASE_URL: 'hunter2',
  };
  const found = problems('up', bad);
  t.equal(found.length, 3);
  t.notMatch(found.join('\n'), /hunter2/);
});

t.test('a secret may come from a file, but not from both', async (t) => {
  const file = join(t.testdir(), 'key');
  writeFileSync(file, `${KEY}\n`);
  t.equal(loadConfig('up', { MANDATE_MASTER_KEY_FILE: file }).masterKey?.toString('hex'), KEY);
  t.match(problems('up', { MANDATE_MASTER_KEY_FILE: file, MANDATE_MASTER_KEY: KEY })[0], /both set/);
  t.match(problems('up', { MANDATE_MASTER_KEY_FILE: `${file}.none` })[0], /MANDATE_MASTER_KEY_FILE cannot be read/);
});

t.test('a master key is 32 bytes in hex or base64, and both spell the same key', async (t) => {
  const base64 = Buffer.from(KEY, 'hex').toString('base64');
  t.equal(loadConfig('up', { MANDATE_MASTER_KEY: base64 }).masterKey?.toString('hex'), KEY);
  t.equal(problems('up', { MANDATE_MASTER_KEY: KEY.slice(2) }).length, 1);
});

t.test('each process refuses to start without its own secrets, and says what to set', async (t) => {
  t.match(problems('proxy', {}).join('\n'), /^MANDATE_INTERNAL_SECRET is not set: .*openssl rand -hex 32\.$/);
  const found = problems('control-plane', {}).join('\n');
  for (const name of ['MANDATE_MASTER_KEY', 'MANDATE_INTERNAL_SECRET', 'MANDATE_DATABASE_APP_URL'])
    t.match(found, name);
  t.strictSame(problems('control-plane', CONTROL_PLANE), []);
  t.match(problems('migrate', {}).join('\n'), /MANDATE_DATABASE_URL is not set/);
});

t.test('a listener beyond loopback is refused unless plaintext is allowed explicitly', async (t) => {
  const exposed = { ...CONTROL_PLANE, MANDATE_CONTROL_HOST: '0.0.0.0' };
  t.match(problems('control-plane', exposed)[0], /MANDATE_CONTROL_HOST is 0\.0\.0\.0.*MANDATE_ALLOW_PLAINTEXT=true/);
  t.strictSame(problems('control-plane', { ...exposed, MANDATE_ALLOW_PLAINTEXT: 'true' }), []);
  t.match(problems('proxy', { MANDATE_INTERNAL_SECRET: SECRET, MANDATE_PROXY_HOST: '::' })[0], /MANDATE_PROXY_HOST/);
  t.strictSame(problems('control-plane', { ...CONTROL_PLANE, MANDATE_PROXY_HOST: '0.0.0.0' }), []);
});

t.test('secrets are not sent to another machine without TLS', async (t) => {
  t.match(problems('cli', { MANDATE_CONTROL_URL: 'http://control.example' })[0], /without TLS/);
  t.strictSame(problems('cli', { MANDATE_CONTROL_URL: 'https://control.example' }), []);
  const called = { MANDATE_URL: 'http://service.example' };
  t.strictSame(problems('cli', called), [], 'no key is sent there');
  t.match(
    problems('cli', { ...called, MANDATE_API_KEY: 'mak_x' })[0],
    /http:\/\/service\.example would be sent secrets/,
  );
  const link = { MANDATE_INTERNAL_SECRET: SECRET, MANDATE_CONTROL_PLANES: 'unix:/run/a.sock,http://10.0.0.2:8082' };
  t.match(problems('proxy', link)[0], /http:\/\/10\.0\.0\.2:8082 would be sent secrets/);
});

t.test('the service is where MANDATE_URL says, else at its public address, else on this machine', async (t) => {
  const at = (environment: Record<string, string>) => serviceUrl(loadConfig('cli', environment));
  const publicly = { MANDATE_PUBLIC_URL: 'https://public.example', MANDATE_PROXY_PORT: '9' };
  t.equal(at({ ...publicly, MANDATE_URL: 'https://service.example/' }), 'https://service.example');
  t.equal(at(publicly), 'https://public.example');
  t.equal(at({}), 'http://127.0.0.1:8080');
  t.equal(at({ MANDATE_PROXY_HOST: '::1' }), 'http://[::1]:8080');
});

t.test('the store of the rate limits is named by a redis URL, with TLS beyond this machine', async (t) => {
  const given = (url: string) => problems('control-plane', { ...CONTROL_PLANE, MANDATE_RATE_LIMIT_URL: url });
  for (const url of ['redis://127.0.0.1:6379', 'redis://[::1]/2', 'rediss://user:secret@store.example:6380/0']) {
    t.same(given(url), [], url);
  }
  for (const url of [
    'http://127.0.0.1',
    'redis:///1',
    'redis://localhost/name',
    'redis://localhost?db=1',
    'localhost',
  ]) {
    t.match(given(url), [/MANDATE_RATE_LIMIT_URL must be redis:\/\//], url);
  }
  const [plain = ''] = given('redis://user:secret@store.example:6379');
  t.match(plain, /MANDATE_RATE_LIMIT_URL would be used without TLS: use rediss/);
  t.notMatch(plain + given('redis://:secret@localhost/x').join(''), /secret/);
});

t.test('addresses of control planes are host and port or a socket, nothing more', async (t) => {
  for (const value of ['ftp://a:1', 'http://a/path', 'http://user@a', 'unix:relative', 'http://a?x', '']) {
    const found = problems('up', { MANDATE_CONTROL_PLANES: value });
    t.equal(found.length, value === '' ? 0 : 1, value);
  }
});

t.test('a socket path that the kernel would cut off is refused', async (t) => {
  const path = `/${'a'.repeat(107)}`;
  t.match(
    problems('control-plane', { ...CONTROL_PLANE, MANDATE_CONTROL_SOCKET: path })[0],
    /108 bytes; 107 is the most/,
  );
});

t.test('only addresses of this machine count as loopback', async (t) => {
  for (const host of ['127.0.0.1', '127.9.9.9', '::1', '[::1]', 'localhost']) t.ok(isLoopback(host), host);
  for (const host of ['0.0.0.0', '::', '127.example.com', '10.0.0.1', 'example.com', '1270.0.0.1'])
    t.notOk(isLoopback(host), host);
});

t.test('e-mail needs a sender, and its password is told to nobody', async (t) => {
  const smtp = { ...CONTROL_PLANE, MANDATE_SMTP_URL: 'smtp://user:hunter2@mail.example:587' };
  t.match(problems('control-plane', smtp), [/^MANDATE_MAIL_FROM is not set: /]);
  t.same(problems('control-plane', { ...smtp, MANDATE_MAIL_FROM: 'Mandate <m@example.com>' }), []);
  for (const url of ['http://mail.example', 'smtp://', 'smtp://hunter2@mail.example', 'smtp://mail.example/hunter2']) {
    const found = problems('control-plane', { ...smtp, MANDATE_SMTP_URL: url, MANDATE_MAIL_FROM: 'm@example.com' });
    t.match(found, [/^MANDATE_SMTP_URL must be /], url);
    t.notMatch(found.join(), /hunter2/);
  }
  for (const from of [
    'nobody',
    'a@b.example, c@d.example',
    'A\r\nBcc: x <a@b.example>',
    'A <a@b.example> <c@d.example>',
  ]) {
    t.match(problems('control-plane', { ...smtp, MANDATE_MAIL_FROM: from }).join(), /MANDATE_MAIL_FROM must be /, from);
  }
});

const PUBLIC_KEY = new Uint8Array(32).fill(1);
const WITNESS_KEY = verifierKeyText(verifierKey('witness.example', NOTE_SIGNATURE.cosignature, PUBLIC_KEY));
const LOG_KEY = verifierKeyText(verifierKey('log.example', NOTE_SIGNATURE.ed25519, PUBLIC_KEY));

t.test('timestamps and witnesses are refused where one setting does not bear out another', async (t) => {
  const tsa = { MANDATE_TSA_URL: 'http://tsa.example/' };
  const witness = { MANDATE_WITNESS_URLS: 'https://witness.example/', MANDATE_WITNESS_KEYS: WITNESS_KEY };
  t.same(problems('up', { ...tsa, ...witness }), []);
  t.same(problems('up', { MANDATE_TSA_MODE: 'off' }), []);
  t.same(problems('up', { ...tsa, MANDATE_TSA_MODE: 'required', MANDATE_TSA_CA_FILE: 'ca.pem' }), []);
  const cases: [Environment, RegExp][] = [
    [{ MANDATE_TSA_MODE: 'best-effort' }, /MANDATE_TSA_URL is not set/],
    [{ ...tsa, MANDATE_TSA_MODE: 'required' }, /MANDATE_TSA_CA_FILE is not set/],
    [{ MANDATE_TSA_URL: 'https://user:password@tsa.example/' }, /MANDATE_TSA_URL holds a user name/],
    [{ ...tsa, MANDATE_TSA_MODE: 'always' }, /one of off, best-effort, required/],
    [{ MANDATE_WITNESS_URLS: 'https://witness.example' }, /names 1 witnesses and MANDATE_WITNESS_KEYS 0/],
    [{ MANDATE_WITNESS_KEYS: WITNESS_KEY }, /names 0 witnesses/],
    [{ ...witness, MANDATE_WITNESS_URLS: 'https://a:b@witness.example' }, /without user/],
    [{ ...witness, MANDATE_WITNESS_KEYS: WITNESS_KEY.replace('witness', 'other') }, /verifier keys/],
    // A log's key is no witness's.
    [{ ...witness, MANDATE_WITNESS_KEYS: LOG_KEY }, /verifier keys/],
    [
      {
        MANDATE_WITNESS_URLS: 'https://a.example,https://b.example',
        MANDATE_WITNESS_KEYS: `${WITNESS_KEY},${WITNESS_KEY}`,
      },
      /names a witness twice/,
    ],
  ];
  for (const [environment, problem] of cases) {
    const found = problems('control-plane', { ...CONTROL_PLANE, ...environment });
    t.equal(found.length, 1, problem.source);
    t.match(found[0], problem);
  }
});
