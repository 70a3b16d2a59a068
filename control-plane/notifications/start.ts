import { isLoopback } from '../../config/load.ts';
import { type LoopCore, startLoops } from '../jobs/loop.ts';
import { sweepNotifications } from '../jobs/sweep-notifications.ts';
import type { ControlPlaneCore } from '../start.ts';
import { queueState } from './deliveries.ts';
import { Dispatcher } from './dispatcher.ts';
import { MailSender } from './mail-sender.ts';
import { WebhookSender } from './webhook-sender.ts';

/** How often what is due is looked for, in milliseconds: an escalation is answered by a human, who does not notice. */
const DISPATCH_INTERVAL_MS = 500;
const SWEEP_INTERVAL_MS = 60_000;

/** Starts telling accounts what happened; the returned function ends it, and gives what is in flight time to end. */
export function startNotifications(core: ControlPlaneCore): () => Promise<void> {
  const { config, sql, lanes, custody, metrics, issuer, log, logError } = core;
  const { smtpUrl, mailFrom, allowPlaintext } = config;
  const dispatcher = new Dispatcher({
    ...{ sql, commands: lanes, custody, logError },
    webhooks: new WebhookSender({ allowPrivate: config.gatewayAllowPrivateTargets }),
    mails:
      smtpUrl === null || mailFrom === null
        ? null
        : new MailSender({ smtpUrl, from: mailFrom, allowPlaintext: allowPlaintext || onThisMachine(smtpUrl) }),
    baseUrl: issuer,
    count: (channel, result) => metrics.notification(channel, result),
  });
  metrics.watchNotifications(() => queueState(sql));
  const loopCore: LoopCore = { log };
  const stop = startLoops(loopCore, [
    { name: 'send notifications', intervalMs: DISPATCH_INTERVAL_MS, run: () => dispatcher.round() },
    { name: 'sweep notifications', intervalMs: SWEEP_INTERVAL_MS, run: () => sweepNotifications(sql) },
  ]);
  return async () => {
    await stop();
    await dispatcher.close(config.shutdownTimeoutMs / 2);
  };
}

function onThisMachine(smtpUrl: string): boolean {
  return isLoopback(new URL(smtpUrl).hostname);
}
