import { execFile, execFileSync } from 'node:child_process';
import { generateKeyPairSync } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import t, { type Test } from 'tap';
import { contextDigest } from '../../../core/action.ts';
import { AgentKeys } from '../../../core/agent-keys.ts';
import { bodyValue } from '../../../core/body-value.ts';
import { parseStrictJson } from '../../../core/json.ts';
import { parsePresentation, verifyPresentation } from '../../../core/presentation.ts';
import { actionInput, actionOf } from '../../../core/verify-request.ts';
import { type FakeService, fakeService, problem, type Reply, type Seen } from './fake-service.ts';

const MANDATE = 'mdt_01jd0000000000000000000000';
const VERIFIER = 'acc_01jd0000000000000000000000';
const ACTION =
  '{"type":"payments.create","amount":{"value":12.50,"currency":"EUR"},"counterparty":"Zoë & Söhne \\u20ac"}';
const KEYS = 3;

const example = (name: string): string => fileURLToPath(new URL(`../../../examples/${name}`, import.meta.url));

/** Path 2 in each language: the command, and why it cannot run here, if so. */
const PROGRAMS = [
  { name: 'TypeScript', command: [process.execPath, example('path-2-agent.ts')], missing: null },
  {
    name: 'Python',
    command: ['python3', example('path-2-agent.py')],
    missing: lacks('python3', ['-c', 'import cryptography'], 'python3 with the package cryptography'),
  },
  { name: 'bash', command: ['bash', example('path-2-agent.sh')], missing: missingForBash() },
] as const;

function missingForBash(): string | null {
  const oldOpenssl = lacks('openssl', ['pkeyutl', '-help'], 'openssl') ?? opensslBefore3();
  return oldOpenssl ?? lacks('jq', ['--version'], 'jq') ?? lacks('curl', ['--version'], 'curl');
}

function opensslBefore3(): string | null {
  const version = execFileSync('openssl', ['version'], { encoding: 'utf8' });
  return /^OpenSSL ([3-9]|[1-9][0-9])\./.test(version) ? null : `openssl 3 is needed, not ${version.trim()}`;
}

function lacks(command: string, args: readonly string[], what: string): string | null {
  try {
    execFileSync(command, args, { stdio: 'ignore' });
    return null;
  } catch {
    return `${what} is needed`;
  }
}

interface Run {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

function run(command: readonly string[], args: readonly string[], env: Record<string, string> = {}): Promise<Run> {
  const [file = '', ...before] = command;
  const { PATH = '', HOME = '' } = process.env;
  return new Promise((resolve) => {
    execFile(file, [...before, ...args], { env: { PATH, HOME, ...env } }, (error, stdout, stderr) => {
      const code = error === null ? 0 : typeof error.code === 'number' ? error.code : -1;
      resolve({ code, stdout, stderr });
    });
  });
}

function newKeyFile(t: Test): string {
  const file = join(t.testdir(), 'agent.pem');
  const pem = generateKeyPairSync('ed25519').privateKey.export({ type: 'pkcs8', format: 'pem' });
  writeFileSync(file, pem, { mode: 0o600 });
  return file;
}

/** The digest as the service computes it of the action that is sent. */
function digestOf(action: string): string {
  return contextDigest(actionOf(actionInput.parse(bodyValue(parseStrictJson(Buffer.from(action))))));
}

/** Reads a presentation as the service does, and fails where it does not verify. */
async function verified(text: string) {
  const presentation = parsePresentation(parseStrictJson(Buffer.from(text.trim())));
  if (presentation.problem !== null) throw new Error(presentation.problem);
  const wrong = verifyPresentation(presentation, new AgentKeys());
  if (wrong !== null) throw new Error(wrong);
  return presentation;
}

const action = (value: string, currency: string, counterparty?: string): string =>
  `{"type":"payments.create","amount":{"value":${value},"currency":"${currency}"}` +
  `${counterparty === undefined ? '' : `,"counterparty":${counterparty}`}}`;

for (const { name, command, missing } of PROGRAMS) {
  t.test(
    `what the ${name} program presents is what the service reads, for awkward actions`,
    { skip: missing ?? false },
    async (t) => {
      const key = newKeyFile(t);
      const did = (await run(command, ['--key', key, '--did'])).stdout.trim();
      for (const text of [
        ACTION,
        action('0.1', 'EUR', '"Müller & Söhne"'),
        action('1000000', 'EUR'),
        action('1000000.00', 'USD', '"a\\"b\\\\c/d"'),
        action('120', 'JPY', '"株式会社 😀"'),
        action('9999999999999.99', 'EUR'),
        action('0.001', 'BHD'),
        action('0', 'EUR'),
      ]) {
        const args = ['--key', key, '--mandate', MANDATE, '--verifier', VERIFIER, '--action', text, '--print'];
        const { code, stdout, stderr } = await run(command, args);
        t.equal(code, 0, stderr);
        const presentation = await verified(stdout);
        t.match(presentation, { mandate_id: MANDATE, verifier: VERIFIER, signer: did });
        t.equal(presentation.ctx, digestOf(text), text);
        t.equal(presentation.expires_at_ms - presentation.issued_at_ms, 300_000);
      }
    },
  );
}

t.test('in every language the did:key of a key is the same', async (t) => {
  for (let round = 0; round < KEYS; round++) {
    const key = newKeyFile(t);
    const there = PROGRAMS.filter(({ missing }) => missing === null);
    const dids = await Promise.all(there.map(({ command }) => run(command, ['--key', key, '--did'])));
    t.equal(new Set(dids.map(({ stdout }) => stdout)).size, 1);
    t.match(dids[0]?.stdout, /^did:key:z6Mk\w{44}\n$/);
  }
});

const RECEIPT = { receipt_id: 'rcp_1', decided_at: '', ctx: null, evidence: { seq: 1, hash: '' } };
const ALLOW = { decision: 'allow', consumption_token: 'ctk_1', receipt: RECEIPT, mat_compact: 'a.b.c' };
const DENY = { decision: 'deny', reasons: ['MD-302'], reason_text: 'Too much.', receipt: RECEIPT };
const ESCALATE = { decision: 'escalate', escalation: { id: 'esc_1', expires_at: '2030-01-01T00:00:00.000Z' } };

/** The other endpoints, while verify is answered as the test says. */
function service(t: Test, verify: (seen: Seen, count: number) => Reply): Promise<FakeService> {
  let verifications = 0;
  return fakeService(t, (seen) => {
    const { method, path } = seen;
    switch (`${method} ${path}`) {
      case 'POST /api/v1/verify':
        verifications += 1;
        return verify(seen, verifications);
      case 'POST /api/v1/agents/present':
        return { body: { presentation: { ctx: 'sha-256:0' }, custody: 'custodial', note: 'signed by the service' } };
      case 'GET /api/v1/escalations/esc_1':
        return { body: { id: 'esc_1', status: 'approved', expires_at: '', escalation_token: 'etk_1' } };
      case 'POST /api/v1/consumptions':
        return { body: { booked: { value: 12.5, currency: 'EUR' }, remaining: { value: 87.5 } } };
      case 'POST /api/v1/executions':
        return { body: { execution_id: 'exe_1', receipt_id: 'rcp_2', status: 'recorded' } };
      default:
        return {};
    }
  });
}

const paths = (fake: FakeService): string[] => fake.seen.map(({ path }) => path);
const bodyOf = (fake: FakeService, path: string) =>
  JSON.parse(fake.seen.find((seen) => seen.path === path)?.body ?? '');

for (const { name, command, missing } of PROGRAMS) {
  const start = (t: Test, fake: FakeService) => {
    const args = ['--key', newKeyFile(t), '--mandate', MANDATE, '--verifier', VERIFIER, '--action', ACTION];
    return run(command, args, { MANDATE_URL: fake.url, MANDATE_API_KEY: 'mak_x' });
  };

  t.test(
    `the ${name} program verifies, acts, books and reports, over a busy service and an approval`,
    { skip: missing ?? false },
    async (t) => {
      const fake = await service(t, (_, count) => {
        if (count === 1) return problem(503, 'not_decidable', { 'retry-after': '1' });
        return { body: count === 2 ? ESCALATE : ALLOW };
      });
      const { code, stdout, stderr } = await start(t, fake);
      t.equal(code, 0, stderr);
      t.match(stdout, /esc_1[\s\S]*rcp_1[\s\S]*12\.5 EUR, 87\.5 left[\s\S]*exe_1[\s\S]*dossier\?mat=a\.b\.c/);
      const api = '/api/v1';
      t.strictSame(paths(fake), [
        ...[`${api}/verify`, `${api}/verify`, `${api}/escalations/esc_1`, `${api}/verify`],
        ...['/api/sandbox/echo', `${api}/consumptions`, `${api}/executions`],
      ]);
      const [first, again, , approved, echo] = fake.seen;
      t.ok(first?.headers['idempotency-key']);
      t.strictSame(
        [again?.headers['idempotency-key'], again?.body],
        [first?.headers['idempotency-key'], first?.body],
        'a retry is the same request',
      );
      t.not(approved?.headers['idempotency-key'], first?.headers['idempotency-key']);
      t.equal(echo?.headers.authorization, undefined, 'the target does not get the key');
      const asked = JSON.parse(approved?.body ?? '');
      t.equal(asked.escalation_token, 'etk_1');
      const presentation = await verified(JSON.stringify(asked.presentation));
      t.equal(presentation.ctx, digestOf(JSON.stringify(asked.action)), 'the action that was presented is verified');
      const spent = {
        final_amount: 12.5,
        currency: 'EUR',
        action_type: 'payments.create',
        context_digest: presentation.ctx,
      };
      t.strictSame(bodyOf(fake, `${api}/consumptions`), {
        consumption_token: 'ctk_1',
        ...spent,
        counterparty: 'Zoë & Söhne €',
      });
      const done = { outcome: 'erfolgreich', executed_amount: 12.5, executed_currency: 'EUR' };
      t.match(bodyOf(fake, `${api}/executions`), { reservation_token: 'ctk_1', ...done });
    },
  );

  t.test(
    `the ${name} program does nothing after a denial, or an answer that is none`,
    { skip: missing ?? false },
    async (t) => {
      for (const reply of [{ body: DENY }, { body: { decision: 'maybe' } }, problem(401, 'unauthenticated')]) {
        const fake = await service(t, () => reply);
        const { code, stdout, stderr } = await start(t, fake);
        t.not(code, 0);
        t.strictSame(paths(fake), ['/api/v1/verify']);
        t.notMatch(stdout + stderr, /mak_x/);
        if (typeof reply === 'object' && reply.body === DENY) t.match(stdout, /Denied: MD-302 Too much\./);
      }
    },
  );
}

t.test('the path 1 program has the service sign, and verifies what it got', async (t) => {
  const fake = await service(t, () => ({ body: ALLOW }));
  const env = { MANDATE_URL: fake.url, MANDATE_API_KEY: 'mak_x' };
  const command = [process.execPath, example('path-1-agent.ts')];
  const { code, stdout, stderr } = await run(command, ['--mandate', MANDATE, '--action', ACTION], env);
  t.equal(code, 0, stderr);
  t.match(stdout, /custodial[\s\S]*rcp_1[\s\S]*exe_1/);
  t.strictSame(bodyOf(fake, '/api/v1/verify'), { presentation: { ctx: 'sha-256:0' }, action: JSON.parse(ACTION) });
});

t.test('the path 3 program tells what the gateway decided, and who answered', async (t) => {
  const deny = { error: 'service_deny', reasons: ['MD-501'], reason_text: 'Unmapped.', receipt_id: 'rcp_1' };
  const cases: [reply: Exclude<Reply, 'cut'>, code: number, says: RegExp][] = [
    [
      { headers: { 'x-service-decision': 'allow', 'x-service-receipt': 'rcp_1' }, body: { id: 1 } },
      0,
      /Allowed.*rcp_1/,
    ],
    [{ status: 403, headers: { 'x-service-decision': 'allow' }, body: {} }, 1, /The target answered 403/],
    [{ status: 403, headers: { 'x-service-decision': 'deny' }, body: deny }, 1, /Denied: MD-501 Unmapped\./],
    [{ status: 503, body: { error: 'not_decidable', detail: 'later' } }, 1, /Nothing was forwarded: 503 not_decidable/],
  ];
  for (const [reply, code, says] of cases) {
    const fake = await fakeService(t, () => reply);
    const env = { MANDATE_URL: fake.url, GATEWAY_TOKEN: 'gwt_x' };
    const args = ['--path', '/payments', '--body', '{"amount":12.5}'];
    const result = await run([process.execPath, example('path-3-agent.ts')], args, env);
    t.equal(result.code, code, result.stderr);
    t.match(result.stdout, says);
    t.match(fake.seen, [{ path: '/api/gateway/http/payments', body: '{"amount":12.5}' }]);
    t.equal(fake.seen[0]?.headers.authorization, 'Bearer gwt_x');
  }
});
