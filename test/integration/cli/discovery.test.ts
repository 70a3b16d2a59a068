import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import t from 'tap';
import { runCli } from '../../../cli/program.ts';
import { textAt } from '../control-plane/admin-fixture.ts';
import { type NounFixture, nounFixture } from '../control-plane/noun-fixture.ts';
import { allowed, ask } from '../decisions/lane-client.ts';

interface Run {
  readonly code: number;
  readonly out: string;
  readonly err: string;
}

/** The commands against a real admin API on a port of its own. */
async function cliFixture(t: Parameters<typeof nounFixture>[0]) {
  const fixture = await nounFixture(t);
  const url = await fixture.app.listen({ host: '127.0.0.1', port: 0 });
  const home = await mkdtemp(join(tmpdir(), 'mandate-cli-'));
  t.teardown(() => rm(home, { recursive: true, force: true }));
  const environment = { MANDATE_CONTROL_URL: url, MANDATE_TOKEN: fixture.person.token, HOME: home };
  const run = async (...args: string[]): Promise<Run> => {
    let [out, err] = ['', ''];
    const io = {
      stdin: Readable.from([]),
      stdout: { write: (text: string) => (out += text) },
      stderr: { write: (text: string) => (err += text) },
      environment,
    };
    return { code: await runCli(args, io), out, err };
  };
  const file = async (name: string, text: string): Promise<string> => {
    await writeFile(join(home, name), text);
    return join(home, name);
  };
  return { fixture, run, file };
}

const SHOP = `openapi: 3.0.3
servers: [{url: /v2}]
paths:
  /payments:
    post: {requestBody: {content: {application/json: {schema: {$ref: '#/components/schemas/P'}}}}}
    get: {}
  /payments/{paymentId}/cancel:
    post: {}
  /invoices:
    post: {requestBody: {content: {application/json: {schema: {$ref: '#/components/schemas/P'}}}}}
components: {schemas: {P: {properties: {amount: {type: number}, currency: {type: string}}}}}
`;

async function statesOf({ sql }: NounFixture) {
  const rows = await sql<{ pattern: string; state: string }[]>`select pattern, state from tools order by key`;
  return rows.map(({ pattern, state }) => `${pattern} ${state}`);
}

t.test('import-openapi shows what it would map and changes nothing until it is told to', async (t) => {
  const { fixture, run, file } = await cliFixture(t);
  const { instanceId } = await fixture.agent();
  const shop = await file('shop.yaml', SHOP);
  const dry = await run('tools', 'import-openapi', instanceId, shop);
  t.equal(dry.code, 0, dry.err);
  t.match(dry.out, /http\.post:\/v2\/payments +payments\.create +\/amount +major +\/currency +none +map/);
  t.match(dry.out, /http\.post:\/v2\/invoices .*scope does not cover/);
  t.match(dry.out, /http\.post:\/v2\/payments\/\{payment_id\}\/cancel .*No field looks like an amount/);
  t.match(dry.out, /2 of 4 would be mapped; nothing was changed/);
  t.same(await statesOf(fixture), []);
  const done = await run('--json', 'tools', 'import-openapi', instanceId, shop, '--apply');
  t.match(JSON.parse(done.out), { base_path: '/v2', applied: { mapped: 2, kept: [] } });
  t.same(await statesOf(fixture), ['http.get:/v2/payments mapped', 'http.post:/v2/payments mapped']);
  const all = await run(
    'tools',
    'import-openapi',
    instanceId,
    shop,
    '--apply',
    '--accept-guesses',
    '--action-type',
    'payments.x',
    '--base-path',
    '',
  );
  t.match(all.out, /4 mapped, 0 left as they were/);
  t.equal((await statesOf(fixture)).length, 6);
});

t.test('a file that is no OpenAPI document is refused with what is wrong with it', async (t) => {
  const { fixture, run, file } = await cliFixture(t);
  const { instanceId } = await fixture.agent();
  const tried = async (text: string) => run('tools', 'import-openapi', instanceId, await file('x', text), '--apply');
  t.match(await tried('{"swagger":"2.0"}'), { code: 1, err: /Swagger 2\.0/ });
  t.match(await tried('{'), { code: 1, err: /not JSON/ });
  t.match(await tried('\u0000\u001b[2J'), { code: 1 });
  t.match(await run('tools', 'import-openapi', instanceId, '/nowhere'), { code: 2, err: /cannot be read/ });
  t.match(await run('tools', 'import-openapi', 'gwi_x', '/nowhere'), { code: 2 });
  t.match(await run('tools', 'import-openapi', instanceId, '/nowhere', '--action-type', 'Not one'), { code: 2 });
  t.same(await statesOf(fixture), []);
});

t.test('a request is tried, its tool suggested, and its decision found again', async (t) => {
  const { fixture, run, file } = await cliFixture(t);
  const agent = await fixture.agent();
  await ask(fixture.lanes, agent, { toolVersion: null });
  t.match((await run('tools', 'suggest', agent.instanceId)).out, /http\.post:\/payments +payments\.create/);
  const body = await file('body.json', '{"amount":101,"currency":"EUR"}');
  const mapping = '{"action_type":"payments.create"}';
  const tried = await run('tools', 'test', agent.instanceId, 'post', '/payments', '--body', body, '--as', mapping);
  t.match(tried.out, /would be +deny\ncode +MD-302\nbecause +101\.00 EUR is 1\.00 above/);
  const mapped = await fixture.as('PUT', `/admin/gateways/${agent.instanceId}/tools`, {
    name: 'http.post:/payments',
    mapping: JSON.parse(mapping),
  });
  const account = { ...agent, toolId: textAt(mapped, 'tool_id') };
  const receipt = allowed(await ask(fixture.lanes, account, { amount: 250, toolVersion: 2 }));
  t.match((await run('evidence', 'search', '--decision', 'allow')).out, receipt);
  t.match((await run('evidence', 'search', '--currency', 'EUR', '--min-amount', '2.51')).out, /No decision matches/);
  t.match((await run('evidence', 'search', '--code', 'MD-501', '--limit', '1')).out, /deny +MD-501/);
  t.match(await run('evidence', 'search', '--min-amount', '2'), { code: 1, err: /currency: must be given/ });
});

t.test('a mandate is changed with a diff, its versions listed, its words shown, and everything stopped', async (t) => {
  const { fixture, run } = await cliFixture(t);
  const id = await fixture.mandate();
  const changed = await run('mandates', 'change', id, '--per-action', '20', '--threshold', '10', '--reason', 'less');
  t.match(changed.out, /amount_limit_per_action +100 +→ +20\nescalation_threshold +none +→ +10/);
  t.match(
    (await run('mandates', 'versions', id)).out,
    /^version 2, in force from .*\n[\s\S]*\nversion 1, in force from /,
  );
  t.match((await run('mandates', 'words', id, '--language', 'de')).out, /höchstens 20,00 EUR kosten/);
  t.match((await run('mandates', 'change', id, '--threshold', 'none')).out, /escalation_threshold +10 +→ +none/);
  t.match(await run('mandates', 'change', id), { code: 1, err: /must change something/ });
  t.match(await run('mandates', 'change', id, '--per-action', '5', '--if-version', '1'), {
    code: 1,
    err: /version 3 by now/,
  });
  t.match(await run('mandates', 'change', id, '--any-counterparty', '--counterparty', 'x'), { code: 2 });
  t.match(await run('stop-everything'), { code: 2, err: /give --yes/ });
  t.match((await run('stop-everything', '--yes', '--reason', 'now')).out, `${id}  `);
  t.match(await run('stop-everything', '--yes'), { code: 1, err: /nothing to stop/ });
  t.match((await run('resume-everything', '--yes')).out, /Resumed: 1/);
});
