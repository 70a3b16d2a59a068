import { readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { cli, type SeenRequest, type StubAnswer, stubAdmin } from './stub-admin.ts';

const MANDATE = 'mdt_01jd0000000000000000000000';
const INSTANCE = 'gwi_01jd0000000000000000000000';
const ESCALATION = 'esc_01jd0000000000000000000000';
const KEY = 'key_01jd0000000000000000000000';
const SECRET = 'JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP';

async function against(t: Test, answer: (request: SeenRequest) => StubAnswer) {
  const stub = await stubAdmin(answer);
  t.teardown(() => stub.close());
  const environment = { MANDATE_CONTROL_URL: stub.url, MANDATE_TOKEN: 'ses_x', MANDATE_HOME: t.testdir() };
  return { stub, environment };
}

t.test('create sends amounts digit by digit, and --json passes the answer on unchanged', async (t) => {
  const text = `{"mandate_id":"${MANDATE}","amount_limit_per_action":9007199254740993.10}`;
  const { stub, environment } = await against(t, () => ({ status: 201, text }));
  const args = [
    'mandates',
    'create',
    '--scope',
    'a.b,c.*',
    '--per-action',
    '9007199254740993.10',
    '--per-month',
    '100',
  ];
  const more = ['--counterparty', 'x', '--counterparty', 'y', '--max-uses', '3', '--activate', '--json'];
  const { code, stdout } = await cli([...args, ...more], environment);
  t.equal(code, 0);
  t.equal(stdout, `${text}\n`);
  t.equal(
    stub.seen[0]?.body,
    '{"scope":["a.b","c.*"],"amount_limit_per_action":9007199254740993.10,"amount_limit_per_month":100,' +
      '"counterparties":["x","y"],"max_uses":3,"activate":true}',
  );
  t.equal(stub.seen[0]?.authorization, 'Bearer ses_x');
});

t.test('tools map sends what was given and leaves defaults to the server', async (t) => {
  const { stub, environment } = await against(t, () => ({ text: '{"name":"http.post:/v1/x","state":"mapped"}' }));
  const args = ['tools', 'map', INSTANCE, 'http.post:/v1/x', '--action-type', 'a.b', '--amount', '/amount'];
  await cli([...args, '--unit', 'minor', '--currency-notation', 'lower', '--counterparty', 'none'], environment);
  t.equal(stub.seen[0]?.method, 'PUT');
  t.equal(stub.seen[0]?.path, `/admin/gateways/${INSTANCE}/tools`);
  t.strictSame(JSON.parse(stub.seen[0]?.body ?? ''), {
    name: 'http.post:/v1/x',
    mapping: {
      action_type: 'a.b',
      amount: '/amount',
      counterparty: 'none',
      amount_unit: 'minor',
      currency_notation: 'iso_lower',
    },
  });
});

t.test('a credential comes from standard input only, and is never written back', async (t) => {
  const { stub, environment } = await against(t, () => ({ text: `{"instance_id":"${INSTANCE}"}` }));
  const args = ['gateways', 'create', '--mandate', MANDATE, '--target', 'https://api.example.com'];
  const given = ['--credential-header', 'Authorization', '--credential-stdin'];
  const done = await cli([...args, ...given], environment, 'Bearer sk_live_1\n');
  t.equal(done.code, 0);
  t.match(JSON.parse(stub.seen[0]?.body ?? ''), { credential: { header: 'Authorization', value: 'Bearer sk_live_1' } });
  t.notMatch(done.stdout + done.stderr, /sk_live/);
  t.equal((await cli([...args, '--credential-header', 'Authorization'], environment)).code, 2);
  await cli(['gateways', 'update', INSTANCE, '--remove-credential'], environment);
  t.equal(stub.seen[1]?.body, '{"credential":null}');
});

t.test('an API key is shown once where it is made, with its scopes and rates as they were given', async (t) => {
  const text = `{"key_id":"${KEY}","scopes":["verify","mandates:read"],"status":"active","api_key":"mak_secret"}`;
  const { stub, environment } = await against(t, () => ({ status: 201, text }));
  const args = ['keys', 'create', '--scope', 'verify,mandates:read', '--name', 'shop', '--verify-per-second', '250'];
  const done = await cli(args, environment);
  t.equal(done.code, 0, done.stderr);
  t.match(done.stdout, /not shown again.*Bearer mak_secret/s);
  t.same([stub.seen[0]?.method, stub.seen[0]?.path], ['POST', '/admin/keys']);
  t.equal(stub.seen[0]?.body, '{"name":"shop","scopes":["verify","mandates:read"],"verify_per_second":250}');
  t.equal((await cli([...args, '--json'], environment)).stdout, `${text}\n`);
  t.equal((await cli(['keys', 'create'], environment)).code, 2);
});

t.test('API keys are listed with their last use, limited and revoked by their identifier', async (t) => {
  const key = { key_id: KEY, scopes: ['verify'], status: 'active', last_used_at: null, name: 'shop\u001b[2J' };
  const { stub, environment } = await against(t, ({ path }) => {
    return { text: JSON.stringify(path === '/admin/keys' ? { keys: [key] } : key) };
  });
  const listed = await cli(['keys', 'list'], environment);
  t.match(listed.stdout, new RegExp(`${KEY} +active +verify +never +shop`));
  t.notMatch(listed.stdout, /\u001b/);
  await cli(['keys', 'limits', KEY, '--management-burst', '40', '--verify-burst', '9'], environment);
  await cli(['keys', 'revoke', KEY], environment);
  t.same(
    stub.seen.slice(1).map(({ method, path, body }) => [method, path, body]),
    [
      ['PATCH', `/admin/keys/${KEY}`, '{"verify_burst":9,"management_burst":40}'],
      ['POST', `/admin/keys/${KEY}/revoke`, '{}'],
    ],
  );
  for (const wrong of [['limits', KEY], ['limits', KEY, '--verify-burst', '0'], ['revoke', 'mak_x'], ['revoke']]) {
    t.equal((await cli(['keys', ...wrong], environment)).code, 2, wrong.join(' '));
  }
  t.equal(stub.seen.length, 3);
});

t.test('a list is read to its last page, and --json has all of it in one value', async (t) => {
  const pages: Record<string, string> = {
    '/admin/mandates': '{"mandates":[{"mandate_id":"a","amount_limit_per_action":0.29}],"next":"a b"}',
    '/admin/mandates?after=a%20b': '{"mandates":[{"mandate_id":"c"}],"next":"c"}',
    '/admin/mandates?after=c': '{"mandates":[{"mandate_id":"d"}],"next":null}',
  };
  const { stub, environment } = await against(t, ({ path }) => ({ text: pages[path] ?? '{}' }));
  const { stdout } = await cli(['mandates', 'list', '--json'], environment);
  const all = '[{"mandate_id":"a","amount_limit_per_action":0.29},{"mandate_id":"c"},{"mandate_id":"d"}]';
  t.equal(stdout, `{"mandates":${all},"next":null}\n`);
  t.equal(stub.seen.length, 3);
  t.match((await cli(['mandates', 'list'], environment)).stdout, /^a .*\nc.*\nd/m);
});

t.test('--totp confirms, and without it the refusal names it', async (t) => {
  const text = '{"error":"factor_required","detail":"too long ago"}';
  const { stub, environment } = await against(t, ({ body }) =>
    body.includes('totp_code') ? {} : { status: 403, text },
  );
  const commands = [
    ['escalations', 'approve', ESCALATION],
    ['mandates', 'resume', MANDATE],
    ['mandates', 'change', MANDATE, '--per-action', '5'],
    ['mandates', 'create', '--scope', 'a.b', '--per-action', '1', '--per-month', '2', '--activate'],
    ['resume-everything', '--yes'],
  ];
  for (const command of commands) {
    t.match(await cli(command, environment), { code: 1, stderr: /--totp <code>/ }, command.join(' '));
    t.equal((await cli([...command, '--totp', '123456'], environment)).code, 0, command.join(' '));
    t.match(stub.seen.at(-1)?.body, '"totp_code":"123456"');
  }
});

t.test('a list that names more and has nothing ends there', async (t) => {
  const { stub, environment } = await against(t, () => ({ text: '{"gateways":[],"next":"x"}' }));
  t.equal((await cli(['gateways', 'list'], environment)).code, 0);
  t.equal(stub.seen.length, 2);
});

t.test('a problem document becomes one readable error, its fields listed, exit code 1', async (t) => {
  const text = JSON.stringify({
    error: 'invalid',
    detail: 'A field is invalid\u001b[2J',
    fields: [{ field: 'scope', message: 'must not be empty' }],
  });
  const { environment } = await against(t, () => ({ status: 422, text }));
  const human = await cli(['mandates', 'list'], environment);
  t.equal(human.code, 1);
  t.equal(human.stderr, 'A field is invalid\\u{1b}[2J\n  scope: must not be empty\n');
  const json = await cli(['mandates', 'list', '--json'], environment);
  t.equal(json.stdout, '');
  t.equal(json.stderr, `${text}\n`);
});

t.test('what a detail says of the fields is not said twice', async (t) => {
  const fields = [
    { field: 'scope', message: 'must not be empty' },
    { field: 'amount', message: 'must be a JSON number' },
  ];
  const detail = 'scope: must not be empty; amount: must be a JSON number';
  const text = JSON.stringify({ error: 'invalid', title: 'A field is invalid', detail, fields });
  const { environment } = await against(t, () => ({ status: 422, text }));
  const { stderr } = await cli(['mandates', 'list'], environment);
  t.equal(stderr, 'A field is invalid\n  scope: must not be empty\n  amount: must be a JSON number\n');
});

t.test('a control plane that is away is named, with what to do', async (t) => {
  const { stub, environment } = await against(t, () => ({}));
  await stub.close();
  const { code, stderr } = await cli(['mandates', 'list'], environment);
  t.equal(code, 1);
  t.match(stderr, /cannot be reached \(ECONNREFUSED\)\.\nStart it with `mandate up`, or set MANDATE_CONTROL_URL/);
});

t.test('a redirect is not followed, and no token goes after it', async (t) => {
  const other = await stubAdmin(() => ({}));
  t.teardown(() => other.close());
  const { environment } = await against(t, () => ({
    status: 307,
    headers: { location: `${other.url}/admin/mandates` },
  }));
  t.equal((await cli(['mandates', 'list'], environment)).code, 1);
  t.equal(other.seen.length, 0);
});

t.test('hostile names in answers cannot reach the terminal', async (t) => {
  const tools = [{ name: 'http.post:/\u001b]0;x\u0007\u202e', state: 'unmapped', mapping: null }];
  const { environment } = await against(t, () => ({ text: JSON.stringify({ tools, next: null }) }));
  const { stdout } = await cli(['tools', 'list', INSTANCE], environment);
  t.match(stdout, 'http.post:/\\u{1b}]0;x\\u{7}\\u{202e}');
  t.notMatch(stdout, /[\u001b\u0007\u202e]/);
});

t.test('a read that is rate limited waits as told and goes on; a change is not repeated', async (t) => {
  let refusals = 1;
  const limited = { status: 429, text: '{"error":"rate_limited","detail":"slow"}', headers: { 'retry-after': '1' } };
  const { stub, environment } = await against(t, () => (refusals-- > 0 ? limited : { text: '{"mandates":[]}' }));
  t.equal((await cli(['mandates', 'list'], environment)).code, 0);
  t.equal(stub.seen.length, 2);
  refusals = 1;
  t.equal((await cli(['mandates', 'suspend', MANDATE], environment)).code, 1);
  t.equal(stub.seen.length, 3);
});

t.test('escalations are answered with a reason, and show --watch ends with the answer', async (t) => {
  let polls = 0;
  const { stub, environment } = await against(t, ({ method }) => {
    if (method === 'POST')
      return { text: `{"escalation_id":"${ESCALATION}","status":"approved","escalation_token":"etk_1"}` };
    polls += 1;
    return { text: `{"escalation_id":"${ESCALATION}","status":"${polls < 2 ? 'pending' : 'rejected'}"}` };
  });
  const approved = await cli(['escalations', 'approve', ESCALATION, '--reason', 'ok'], environment);
  t.match(approved.stdout, /etk_1/);
  t.equal(stub.seen[0]?.body, '{"reason":"ok"}');
  const watched = await cli(['escalations', 'show', ESCALATION, '--watch', '--json'], environment);
  t.equal(JSON.parse(watched.stdout).status, 'rejected');
});

t.test('signup with a given secret answers for itself, keeps the session, and logout removes it', async (t) => {
  const { stub, environment } = await against(t, ({ path }) => {
    if (path === '/admin/signup')
      return { text: '{"signup_token":"st","totp":{"secret":"x","otpauth_uri":"otpauth://x"}}' };
    if (path === '/admin/logout') return { status: 204, text: '' };
    return { text: '{"account_id":"acc_1","token":"ses_secret","expires_at":"2030-01-01T00:00:00.000Z"}' };
  });
  const own = { ...environment, MANDATE_TOKEN: undefined };
  const args = ['signup', '--email', 'a@example.com', '--password-stdin', '--totp-secret', SECRET];
  const done = await cli(args, own, 'correct horse\n');
  t.equal(done.code, 0, done.stderr);
  t.notMatch(done.stdout + done.stderr, /ses_secret|correct horse/);
  t.strictSame(JSON.parse(stub.seen[0]?.body ?? ''), {
    email: 'a@example.com',
    password: 'correct horse',
    totp_secret: SECRET,
  });
  t.match(JSON.parse(stub.seen[1]?.body ?? ''), { signup_token: 'st', totp_code: /^[0-9]{6}$/ });
  const file = join(environment.MANDATE_HOME, 'session.json');
  t.equal(statSync(file).mode & 0o777, 0o600);
  await cli(['whoami'], own);
  t.equal(stub.seen[2]?.authorization, 'Bearer ses_secret');
  t.equal((await cli(['logout', '--json'], own)).stdout, '{"logged_out":true}\n');
  t.notMatch(readFileSync(file, 'utf8'), /ses_secret/);
  t.match((await cli(['whoami'], own)).stderr, /not signed in.*\n.*mandate login/);
});

t.test('without a terminal, a password or code that is missing is bad usage and asks nothing', async (t) => {
  const { stub, environment } = await against(t, () => ({}));
  t.equal((await cli(['signup', '--email', 'a@example.com'], environment)).code, 2);
  t.equal((await cli(['login', '--email', 'a@example.com', '--password-stdin'], environment, 'x')).code, 2);
  const both = ['login', '--email', 'a@example.com', '--password-stdin', '--totp', '1', '--totp-secret', SECRET];
  t.equal((await cli(both, environment, 'x')).code, 2);
  t.equal(stub.seen.length, 0);
});
