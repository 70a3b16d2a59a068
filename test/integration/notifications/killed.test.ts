import { randomBytes } from 'node:crypto';
import { Webhook } from 'standardwebhooks';
import t from 'tap';
import { type StartedProcess, startProcess } from '../../../bench/processes.ts';
import { seedAccounts } from '../../../bench/seed.ts';
import { Custody } from '../../../control-plane/custody/custody.ts';
import { newWebhookKey, webhookSecret } from '../../../control-plane/notifications/signature.ts';
import { newTypeId } from '../../../core/type-id.ts';
import { createDatabase } from '../../database.ts';
import { startReceiver } from './receiver.ts';

t.test('a message whose control plane is killed before it was settled is sent again under the same id', async (t) => {
  const database = await createDatabase(t);
  const { sql } = database;
  const receiver = await startReceiver(t);
  const [account] = await seedAccounts(sql, 1, 'http://127.0.0.1:9');
  const { accountId } = account!;
  const [masterKey, key, id] = [randomBytes(32), newWebhookKey(), newTypeId('whk', Date.now())];
  const sealed = new Custody(masterKey).seal(accountId, 'webhook', id, key);
  await sql`insert into webhook_endpoints (account_id, endpoint_id, name, url, events, status, secret_sealed,
      created_at, changed_at)
    values (${accountId}, ${id}, 'a', ${receiver.url}, ${['mandate.suspended']}, 'active', ${sealed}, db_clock(),
      db_clock())`;
  const start = async (): Promise<StartedProcess> => {
    const started = await startProcess('control-plane/main', {
      MANDATE_DATABASE_APP_URL: database.appUrl,
      MANDATE_MASTER_KEY: masterKey.toString('hex'),
      MANDATE_INTERNAL_SECRET: randomBytes(32).toString('hex'),
      MANDATE_GATEWAY_ALLOW_PRIVATE_TARGETS: 'true',
      MANDATE_INTERNAL_PORT: '0',
      MANDATE_CONTROL_PORT: '0',
      MANDATE_CONTROL_METRICS_PORT: '0',
      MANDATE_LOG_LEVEL: 'fatal',
    });
    t.teardown(() => end(started, 'SIGTERM'));
    return started;
  };
  receiver.answer = () => {};
  const first = await start();
  await sql`update mandates set status = 'suspended' where account_id = ${accountId}`;
  await receiver.until(1);
  await end(first, 'SIGKILL');
  receiver.answer = (response) => void response.writeHead(200).end();
  const second = await start();
  const [claimed] = await sql`select state, attempts from notification_deliveries where next_at > db_clock()`;
  t.match(claimed, { state: 'pending', attempts: 1 }, 'until its time is over it belongs to the one that was killed');
  await sql.unsafe(`create or replace function db_clock() returns timestamptz language sql volatile parallel safe
    as $$ select date_trunc('milliseconds', clock_timestamp()) + interval '61 seconds' $$`);
  await receiver.until(2);
  for (const { headers, body } of receiver.seen) {
    t.match(new Webhook(webhookSecret(key)).verify(body, headers), { type: 'mandate.suspended' });
  }
  t.equal(receiver.seen[0]?.headers['webhook-id'], receiver.seen[1]?.headers['webhook-id']);
  t.equal(receiver.seen[0]?.body, receiver.seen[1]?.body);
  const settled = async () => (await sql`select from notification_deliveries where state = 'delivered'`).length === 1;
  while (!(await settled()));
  const metrics = await (await fetch(second.at['control_metrics'] ?? '')).text();
  t.match(metrics, /^mandate_notifications_total\{channel="webhook",result="delivered"\} 1$/m);
  t.match(metrics, /^mandate_notification_queue_depth 0$/m);
  t.match(metrics, /^mandate_notification_oldest_age_seconds 0$/m);
  await end(second, 'SIGTERM');
  t.match(await sql`select state, attempts from notification_deliveries`, [{ state: 'delivered', attempts: 2 }]);
  t.equal(receiver.seen.length, 2, 'and then no more');
});

async function end({ child }: StartedProcess, signal: NodeJS.Signals): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exit = new Promise((resolve) => child.once('exit', resolve));
  child.kill(signal);
  await exit;
}
