import t, { type Test } from 'tap';
import { cli, type StubAnswer, stubAdmin } from './stub-admin.ts';

const WEBHOOK = 'whk_01jd0000000000000000000000';
const DELIVERY = 'dlv_01jd0000000000000000000000';

async function against(t: Test, answer: StubAnswer = {}) {
  const stub = await stubAdmin(() => answer);
  t.teardown(() => stub.close());
  const environment = { MANDATE_CONTROL_URL: stub.url, MANDATE_TOKEN: 'ses_x', MANDATE_HOME: t.testdir() };
  const run = async (...args: string[]) => ({ ...(await cli(args, environment)), sent: stub.seen.at(-1) });
  return { run, seen: stub.seen };
}

t.test('every command asks for exactly what it says', async (t) => {
  const { run } = await against(t);
  const webhook = `/admin/webhooks/${WEBHOOK}`;
  const commands: readonly [string, string, string, string][] = [
    [`create --url https://a.example/ --events limit.reached,limit.warning`, 'POST', '/admin/webhooks', ''],
    ['list', 'GET', '/admin/webhooks', ''],
    [`show ${WEBHOOK}`, 'GET', webhook, ''],
    [`rotate-secret ${WEBHOOK}`, 'POST', `${webhook}/rotate-secret`, '{}'],
    [`disable ${WEBHOOK}`, 'POST', `${webhook}/disable`, '{}'],
    [`enable ${WEBHOOK}`, 'POST', `${webhook}/enable`, '{}'],
    [`test ${WEBHOOK}`, 'POST', `${webhook}/test`, '{}'],
    [`delete ${WEBHOOK}`, 'DELETE', webhook, '{}'],
    [`deliveries ${WEBHOOK} --state dead --limit 5`, 'GET', `${webhook}/deliveries?state=dead&limit=5`, ''],
    [`deliveries ${WEBHOOK} ${DELIVERY}`, 'GET', `${webhook}/deliveries/${DELIVERY}`, ''],
    [`replay ${WEBHOOK} ${DELIVERY}`, 'POST', `${webhook}/deliveries/${DELIVERY}/replay`, '{}'],
  ];
  for (const [line, method, path, body] of commands) {
    const { code, sent, stdout } = await run('webhooks', ...line.split(' '), '--json');
    t.same([code, sent?.method, sent?.path, stdout], [0, method, path, '{}\n'], line);
    if (body !== '') t.equal(sent?.body, body);
  }
  const { sent } = await run(
    'webhooks',
    'create',
    '--url',
    'https://a.example/',
    '--name',
    'a',
    '--events',
    'limit.reached',
  );
  t.same(JSON.parse(sent?.body ?? ''), { url: 'https://a.example/', name: 'a', events: ['limit.reached'] });
});

t.test('notifications set sends what is given and nothing else', async (t) => {
  const { run } = await against(t);
  const sent = async (...args: string[]) => JSON.parse((await run('notifications', 'set', ...args)).sent?.body ?? '');
  t.same(await sent('--mail', 'off'), { mail: false });
  t.same(await sent('--no-recipients', '--language', 'de'), { recipients: [], language: 'de' });
  t.same(await sent('--recipient', 'a@b.example,c@d.example', '--mail', 'on'), {
    mail: true,
    recipients: ['a@b.example', 'c@d.example'],
  });
  t.same(await sent('--events', 'limit.reached'), { mail_events: ['limit.reached'] });
});

t.test('what cannot be meant is bad usage, and is not sent', async (t) => {
  const { run, seen } = await against(t);
  for (const args of [
    ['notifications', 'set'],
    ['notifications', 'set', '--mail', 'perhaps'],
    ['webhooks', 'show', 'gwi_01jd0000000000000000000000'],
    ['webhooks', 'replay', WEBHOOK, '../../keys'],
    ['webhooks', 'create'],
  ]) {
    t.equal((await run(...args)).code, 2, args.join(' '));
  }
  t.same(seen, []);
});

t.test('a secret is shown with the hint that it is not shown again', async (t) => {
  const { run } = await against(t, {
    text: `{"endpoint_id":"${WEBHOOK}","secret":"whsec_abc","events":["limit.reached"]}`,
  });
  const { stdout } = await run('webhooks', 'rotate-secret', WEBHOOK);
  t.match(stdout, /whsec_abc/);
  t.match(stdout, /not shown again/);
});
