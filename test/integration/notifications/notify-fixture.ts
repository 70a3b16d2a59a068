import type { SeededAccount } from '../../../bench/seed.ts';
import { Dispatcher, type DispatcherOptions } from '../../../control-plane/notifications/dispatcher.ts';
import { WebhookSender, type WebhookSenderOptions } from '../../../control-plane/notifications/webhook-sender.ts';
import { type AdminAnswer, textAt } from '../control-plane/admin-fixture.ts';
import { type NounFixture, nounFixture } from '../control-plane/noun-fixture.ts';
import { ask } from '../decisions/lane-client.ts';

const PAYMENTS = 'http.post:/payments';

/** A delivery as the admin API shows it. */
export interface ShownDelivery {
  readonly delivery_id: string;
  readonly event_id: string;
  readonly type: string;
  readonly state: string;
  readonly attempts: number;
  readonly last_status: number | null;
  readonly last_error: string | null;
  readonly next_attempt_at: string | null;
  readonly log: readonly { readonly status: number | null; readonly error: string | null }[];
}

export interface NotifyFixture extends NounFixture {
  readonly counted: string[];
  dispatcher(options?: Partial<DispatcherOptions> & { readonly sending?: Partial<WebhookSenderOptions> }): Dispatcher;
  /** Makes a webhook of that person's; returns its identifier and secret. */
  webhook(url: string, events?: readonly string[]): Promise<{ readonly id: string; readonly secret: string }>;
  deliveries(id: string): Promise<ShownDelivery[]>;
  /** An agent of that person's that needs a human above 5.00 EUR. */
  payer(changes?: Readonly<Record<string, unknown>>): Promise<SeededAccount>;
  escalate(agent: SeededAccount, counterparty?: string): Promise<string>;
}

/** That person's account with the notifications' side of a control plane; it ends with the test. */
export async function notifyFixture(t: Parameters<typeof nounFixture>[0]): Promise<NotifyFixture> {
  const fixture = await nounFixture(t);
  const counted: string[] = [];
  const dispatcher: NotifyFixture['dispatcher'] = ({ sending, ...options } = {}) => {
    const made = new Dispatcher({
      sql: fixture.deps.sql,
      commands: fixture.lanes,
      custody: fixture.deps.custody,
      webhooks: new WebhookSender({ allowPrivate: true, ...sending }),
      mails: null,
      baseUrl: 'https://mandate.example',
      count: (channel, result) => counted.push(`${channel} ${result}`),
      logError: (error) => fixture.errors.push(error),
      ...options,
    });
    t.teardown(() => made.close(0));
    return made;
  };
  const webhook: NotifyFixture['webhook'] = async (url, events) => {
    const made = await fixture.as('POST', '/admin/webhooks', { url, ...(events === undefined ? {} : { events }) });
    return { id: textAt(made, 'endpoint_id'), secret: textAt(made, 'secret') };
  };
  const deliveries: NotifyFixture['deliveries'] = async (id) => {
    return listOf(await fixture.as('GET', `/admin/webhooks/${id}/deliveries?limit=200`));
  };
  const payer: NotifyFixture['payer'] = async (changes = {}) => {
    const agent = await fixture.agent({ escalation_threshold: 5, ...changes });
    const tools = `/admin/gateways/${agent.instanceId}/tools`;
    const mapping = { action_type: 'payments.create' };
    const mapped = await fixture.as('PUT', tools, { name: PAYMENTS, mapping });
    return { ...agent, toolId: textAt(mapped, 'tool_id') };
  };
  const escalate: NotifyFixture['escalate'] = async (agent, counterparty = 'acme') => {
    const answer = await ask(fixture.lanes, agent, { amount: 501, counterparty });
    if (answer.answer !== 'escalate') throw new Error(`not escalated: ${JSON.stringify(answer)}`);
    return answer.escalation_id;
  };
  const advance: NotifyFixture['advance'] = async (seconds) => {
    await fixture.advance(seconds);
    // The person stays signed in: what is tried here takes days.
    await fixture.sql`update sessions set last_seen_at = db_clock(), expires_at = db_clock() + interval '12 hours'`;
  };
  return { ...fixture, advance, counted, dispatcher, webhook, deliveries, payer, escalate };
}

function listOf({ body }: AdminAnswer): ShownDelivery[] {
  return (body as { readonly deliveries: ShownDelivery[] }).deliveries;
}

/** Rounds until nothing more is due. */
export async function runAll(...dispatchers: readonly Dispatcher[]): Promise<void> {
  for (let more = true; more; ) {
    more = (await Promise.all(dispatchers.map((one) => one.round()))).includes(true);
    await Promise.all(dispatchers.map((one) => one.idle()));
  }
}
