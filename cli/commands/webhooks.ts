import type { Command } from 'commander';
import type { JsonRecord } from '../admin-client.ts';
import { type Invocation, recordsOf } from '../invocation.ts';
import { bodyText } from '../json-text.ts';
import { fields, table } from '../output.ts';
import { commaList, idArgument } from './arguments.ts';

const WEBHOOK = 'webhook (whk_…)';
const DELIVERY = 'delivery (dlv_…)';

/** `mandate webhooks …`: receivers that are told what happens, and what they were told. */
export function registerWebhooks(program: Command, invocation: Invocation): void {
  const webhooks = program.command('webhooks').description('receivers that are told what happens (Standard Webhooks)');
  webhooks
    .command('create')
    .description('have a receiver told; its secret is shown once')
    .requiredOption('--url <url>', 'where messages are posted to, such as https://example.com/hooks/mandate')
    .option(
      '--events <types>',
      'only these, such as escalation.created,limit.reached; all where none is named',
      commaList,
    )
    .option('--name <name>', 'a name for people')
    .action(async (options: { url: string; events?: string[]; name?: string }) => {
      const answer = await (await invocation.client()).send('POST', '/admin/webhooks', bodyText({ ...options }));
      invocation.show(answer, (webhook) => webhookCard(webhook) + secretHint(webhook));
    });
  webhooks
    .command('list')
    .description('list all webhooks')
    .action(async () => {
      const answer = await (await invocation.client()).get('/admin/webhooks');
      invocation.show(answer, (value) => webhookTable(recordsOf(value, 'webhooks')));
    });
  webhooks
    .command('show')
    .argument('<id>', WEBHOOK)
    .description('show one webhook')
    .action(async (id: string) => {
      invocation.show(await (await invocation.client()).get(pathOf(id)), webhookCard);
    });
  registerSteps(webhooks, invocation);
  registerDeliveries(webhooks, invocation);
}

function registerSteps(webhooks: Command, invocation: Invocation): void {
  const steps = [
    ['rotate-secret', 'replace the secret; the old one signs along for a day'],
    ['disable', 'send nothing more to it'],
    ['enable', 'let a disabled webhook work again; replay what it missed'],
  ] as const;
  for (const [step, description] of steps) {
    webhooks
      .command(step)
      .argument('<id>', WEBHOOK)
      .description(description)
      .action(async (id: string) => {
        const answer = await (await invocation.client()).send('POST', `${pathOf(id)}/${step}`);
        invocation.show(answer, (webhook) => webhookCard(webhook) + secretHint(webhook));
      });
  }
  webhooks
    .command('delete')
    .argument('<id>', WEBHOOK)
    .description('forget the webhook, its secret and what waits for it')
    .action(async (id: string) => {
      const answer = await (await invocation.client()).send('DELETE', pathOf(id));
      invocation.show(answer, (webhook) => `${String(webhook['endpoint_id'])} is deleted.\n`);
    });
  webhooks
    .command('test')
    .argument('<id>', WEBHOOK)
    .description('send it a test event; `mandate webhooks deliveries` tells how that went')
    .action(async (id: string) => {
      invocation.show(await (await invocation.client()).send('POST', `${pathOf(id)}/test`), deliveryCard);
    });
}

function registerDeliveries(webhooks: Command, invocation: Invocation): void {
  webhooks
    .command('deliveries')
    .argument('<id>', WEBHOOK)
    .argument('[delivery]', `${DELIVERY}, to see all its attempts and what is sent`)
    .description('what was sent to it, newest first, and what became of it')
    .option('--state <state>', 'only these: pending, delivered, dead')
    .option('--limit <n>', 'at most so many')
    .option('--after <delivery>', 'the page after this one')
    .action(async (id: string, delivery: string | undefined, options: Readonly<Record<string, string>>) => {
      const client = await invocation.client();
      const path = `${pathOf(id)}/deliveries`;
      if (delivery !== undefined) {
        invocation.show(await client.get(`${path}/${idArgument(delivery, 'dlv')}`), deliveryCard);
        return;
      }
      const query = new URLSearchParams(options).toString();
      const answer = await client.get(query === '' ? path : `${path}?${query}`);
      invocation.show(answer, (value) => deliveryTable(recordsOf(value, 'deliveries')));
    });
  webhooks
    .command('replay')
    .argument('<id>', WEBHOOK)
    .argument('<delivery>', DELIVERY)
    .description('send a delivery again, under the same webhook-id')
    .action(async (id: string, delivery: string) => {
      const path = `${pathOf(id)}/deliveries/${idArgument(delivery, 'dlv')}/replay`;
      invocation.show(await (await invocation.client()).send('POST', path), deliveryCard);
    });
}

function pathOf(id: string): string {
  return `/admin/webhooks/${idArgument(id, 'whk')}`;
}

function webhookTable(webhooks: readonly JsonRecord[]): string {
  if (webhooks.length === 0) return 'No webhooks yet. Create one: mandate webhooks create --url https://…\n';
  const rows = webhooks.map((one) => [
    one['endpoint_id'],
    one['status'],
    one['url'],
    one['failing_since'],
    one['name'],
  ]);
  return table(['webhook', 'status', 'url', 'failing since', 'name'], rows);
}

function webhookCard(webhook: JsonRecord): string {
  return fields([
    ['webhook', webhook['endpoint_id']],
    ['name', webhook['name']],
    ['status', webhook['status']],
    ['disabled because', webhook['disabled_cause']],
    ['url', webhook['url']],
    ['events', webhook['events']],
    ['failing since', webhook['failing_since']],
    ['old secret until', webhook['previous_secret_until']],
    ['secret', webhook['secret']],
  ]);
}

function secretHint(webhook: JsonRecord): string {
  if (webhook['secret'] === undefined) return '';
  return '\nThe secret is not shown again. The receiver verifies each message with it (standardwebhooks.com).\n';
}

function deliveryTable(deliveries: readonly JsonRecord[]): string {
  if (deliveries.length === 0) return 'Nothing was sent to it yet. Try it: mandate webhooks test <id>\n';
  const rows = deliveries.map((one) => [
    one['delivery_id'],
    one['type'],
    one['state'],
    one['attempts'],
    one['last_status'] ?? one['last_error'],
    one['next_attempt_at'],
  ]);
  return table(['delivery', 'event', 'state', 'attempts', 'last', 'next attempt'], rows, [3]);
}

function deliveryCard(delivery: JsonRecord): string {
  return fields([
    ['delivery', delivery['delivery_id']],
    ['webhook-id', delivery['event_id']],
    ['event', delivery['type']],
    ['state', delivery['state']],
    ['attempts', delivery['attempts']],
    ['last status', delivery['last_status']],
    ['last error', delivery['last_error']],
    ['next attempt', delivery['next_attempt_at']],
    ['log', delivery['log']],
    ['payload', delivery['payload']],
  ]);
}
