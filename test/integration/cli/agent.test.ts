import { generateKeyPairSync } from 'node:crypto';
import { chmodSync, readFileSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { contextDigest } from '../../../core/action.ts';
import { AgentKeys } from '../../../core/agent-keys.ts';
import { parsePresentation, verifyPresentation } from '../../../core/presentation.ts';
import { cli, type SeenRequest, type StubAnswer, stubAdmin } from './stub-admin.ts';

const MANDATE = 'mdt_01jd0000000000000000000000';
const VERIFIER = 'acc_01jd0000000000000000000000';
const ACTION = '{"type":"payments.create","amount":{"value":12.50,"currency":"EUR"},"counterparty":"Müller & Söhne"}';

async function newKey(t: Test): Promise<{ home: string; key: string; did: string }> {
  const home = t.testdir();
  const key = join(home, 'agent.pem');
  const { code, stdout } = await cli(['agent-key', 'create', '--out', key, '--json'], {});
  t.equal(code, 0);
  return { home, key, did: JSON.parse(stdout).agent_did };
}

async function against(t: Test, answer: (request: SeenRequest) => StubAnswer) {
  const stub = await stubAdmin(answer);
  t.teardown(() => stub.close());
  return stub;
}

t.test('a new key is in a file for its user only, and its did:key can be shown again', async (t) => {
  const { key, did } = await newKey(t);
  t.equal(statSync(key).mode & 0o777, 0o600);
  t.match(readFileSync(key, 'utf8'), /^-----BEGIN PRIVATE KEY-----\n/);
  const shown = await cli(['agent-key', 'show', key, '--json'], {});
  t.strictSame(JSON.parse(shown.stdout), { agent_did: did, key_file: key });
  t.match((await cli(['agent-key', 'show', key], {})).stdout, did);
});

t.test('a file that is there is never overwritten, nor what a link leads to', async (t) => {
  const { home, key } = await newKey(t);
  const before = readFileSync(key);
  const link = join(home, 'link.pem');
  symlinkSync(join(home, 'nowhere.pem'), link);
  for (const out of [key, link]) {
    const { code, stdout, stderr } = await cli(['agent-key', 'create', '--out', out], {});
    t.equal(code, 1);
    t.equal(stdout, '');
    t.match(stderr, /is there already; nothing was changed/);
  }
  t.same(readFileSync(key), before);
});

t.test('present signs offline what verifies: this mandate, this verifier, the digest of this action', async (t) => {
  const { key, did } = await newKey(t);
  const given = ['--key', key, '--mandate', MANDATE, '--verifier', VERIFIER, '--action', ACTION];
  for (const args of [given, [...given, '--json'], [...given, '--ttl-seconds', '60']]) {
    const { code, stdout } = await cli(['present', ...args], {});
    t.equal(code, 0);
    const presentation = parsePresentation(JSON.parse(stdout));
    if (presentation.problem !== null) throw new Error(presentation.problem);
    t.equal(verifyPresentation(presentation, new AgentKeys()), null);
    t.match(presentation, { mandate_id: MANDATE, verifier: VERIFIER, signer: did });
    const action = { type: 'payments.create', amount_minor: 1250, currency: 'EUR', counterparty: 'Müller & Söhne' };
    t.equal(presentation.ctx, contextDigest(action));
    const lifetime = args.includes('--ttl-seconds') ? 60_000 : 300_000;
    t.equal(presentation.expires_at_ms - presentation.issued_at_ms, lifetime);
  }
});

t.test('an action that verify would refuse is refused here, naming the member, and nothing is signed', async (t) => {
  const { key } = await newKey(t);
  const amount = '"amount":{"value":1,"currency":"EUR"}';
  const wrong: [action: string, reason: RegExp][] = [
    ['{"type":"a.b",', /not strict JSON/],
    [`{"type":"a.b","type":"a.b",${amount}}`, /"type" occurs twice/],
    [`{"type":"a.b",${amount},"note":"x"}`, /note/],
    ['{"type":"a.b","amount":{"value":"1","currency":"EUR"}}', /amount\.value: must be a JSON number/],
    ['{"type":"a.b","amount":{"value":1.005,"currency":"EUR"}}', /--action amount\.value: .*more decimals/],
    ['{"type":"a.b","amount":{"value":1.5,"currency":"JPY"}}', /--action amount\.value: .*more decimals/],
    ['{"type":"a.b","amount":{"value":9007199254740993,"currency":"JPY"}}', /cannot be read exactly/],
    ['[]', /--action/],
  ];
  for (const [action, reason] of wrong) {
    const args = ['present', '--key', key, '--mandate', MANDATE, '--verifier', VERIFIER, '--action', action];
    const { code, stdout, stderr } = await cli(args, {});
    t.equal(code, 2, action);
    t.equal(stdout, '');
    t.match(stderr, reason, action);
  }
});

t.test('ids and lifetimes that no verifier would take are refused', async (t) => {
  const { key } = await newKey(t);
  const base = ['present', '--key', key, '--action', ACTION];
  const good = ['--mandate', MANDATE, '--verifier', VERIFIER];
  for (const args of [
    ['--mandate', VERIFIER, '--verifier', VERIFIER],
    ['--mandate', MANDATE, '--verifier', MANDATE],
    [...good, '--ttl-seconds', '301'],
    [...good, '--ttl-seconds', '0'],
    [...good, '--ttl-seconds', '1e2'],
  ]) {
    t.equal((await cli([...base, ...args], {})).code, 2, args.join(' '));
  }
});

t.test('a key file that others can read, or that holds another kind of key, is refused with the way out', async (t) => {
  const { home, key } = await newKey(t);
  const other = join(home, 'other.pem');
  const pem = generateKeyPairSync('x25519').privateKey.export({ type: 'pkcs8', format: 'pem' });
  writeFileSync(other, pem, { mode: 0o600 });
  t.match((await cli(['agent-key', 'show', other], {})).stderr, /no Ed25519 key in PEM/);
  writeFileSync(other, 'secret words', { mode: 0o600 });
  const damaged = await cli(['agent-key', 'show', other], {});
  t.match(damaged.stderr, /no Ed25519 key in PEM/);
  t.notMatch(damaged.stderr, /secret/);
  chmodSync(key, 0o640);
  t.match((await cli(['agent-key', 'show', key], {})).stderr, /read by other users.*\nRun: chmod 600/);
  t.match((await cli(['agent-key', 'show', join(home, 'none')], {})).stderr, /ENOENT/);
});

t.test('without --verifier the service is asked with the API key, which goes nowhere else', async (t) => {
  const { home, key } = await newKey(t);
  const service = await against(t, () => ({ text: JSON.stringify({ presentation_verifier: VERIFIER }) }));
  const admin = await against(t, () => ({}));
  const environment = {
    MANDATE_URL: service.url,
    MANDATE_API_KEY: 'mak_x',
    MANDATE_CONTROL_URL: admin.url,
    MANDATE_HOME: home,
  };
  const args = ['present', '--key', key, '--mandate', MANDATE, '--action', ACTION, '--json'];
  const { code, stdout } = await cli(args, environment);
  t.equal(code, 0);
  t.equal(JSON.parse(stdout).verifier, VERIFIER);
  t.match(service.seen, [{ path: `/api/v1/mandates/${MANDATE}/status`, authorization: 'Bearer mak_x' }]);
  t.equal(admin.seen.length, 0);
});

t.test('a refused API key and a service that is away say what to set', async (t) => {
  const { home, key } = await newKey(t);
  const problem = JSON.stringify({ error: 'unauthenticated', detail: 'No such key.' });
  const service = await against(t, () => ({ status: 401, text: problem }));
  const environment = { MANDATE_URL: service.url, MANDATE_API_KEY: 'mak_x', MANDATE_HOME: home };
  const args = ['present', '--key', key, '--mandate', MANDATE, '--action', ACTION];
  t.match((await cli(args, environment)).stderr, /No such key\.\nSet MANDATE_API_KEY/);
  await service.close();
  t.match((await cli(args, environment)).stderr, /The service at .* cannot be reached .*\n.*MANDATE_URL/);
});

t.test('without an API key the session says which account it is, if the mandate is its own', async (t) => {
  const { home, key } = await newKey(t);
  let own = true;
  const admin = await against(t, ({ path }) => {
    if (path === '/admin/account') return { text: JSON.stringify({ account_id: VERIFIER }) };
    return own ? {} : { status: 404, text: '{"error":"not_found","detail":"No such mandate."}' };
  });
  const environment = { MANDATE_CONTROL_URL: admin.url, MANDATE_TOKEN: 'ses_x', MANDATE_HOME: home };
  const args = ['present', '--key', key, '--mandate', MANDATE, '--action', ACTION, '--json'];
  t.equal(JSON.parse((await cli(args, environment)).stdout).verifier, VERIFIER);
  own = false;
  const refused = await cli(args, environment);
  t.equal(refused.code, 1);
  t.equal(refused.stdout, '');
});

t.test('with nobody to ask for the verifier, present says how to name it', async (t) => {
  const { home, key } = await newKey(t);
  const args = ['present', '--key', key, '--mandate', MANDATE, '--action', ACTION];
  const { code, stderr } = await cli(args, { MANDATE_HOME: home });
  t.equal(code, 2);
  t.match(stderr, /--verifier is missing.*\n.*presentation_verifier/);
});
