/** What accounts can be told of, in the order in which lists show it. Source: docs/notifications.md. */
export const EVENT_TYPES = [
  'escalation.created',
  'escalation.approved',
  'escalation.rejected',
  'escalation.expired',
  'limit.warning',
  'limit.reached',
  'outcome.unknown',
  'mandate.activated',
  'mandate.suspended',
  'mandate.resumed',
  'mandate.expired',
  'mandate.consumed',
  'mandate.revoked',
  'webhook.disabled',
  'account.passkey_added',
] as const;
export type EventType = (typeof EVENT_TYPES)[number];

/** What nobody subscribes to: it goes to the one endpoint that is tried. */
export const TEST_EVENT = 'webhook.test';

/** What an account is told of by e-mail where it said nothing else: what needs a human, or will soon. */
export const MAIL_EVENTS_DEFAULT: readonly EventType[] = [
  'escalation.created',
  'limit.warning',
  'limit.reached',
  'outcome.unknown',
  'mandate.expired',
  'mandate.consumed',
  'webhook.disabled',
  'account.passkey_added',
];

/** The version of the payloads' form, in each payload's `data`: members may be added to it, nothing else. */
export const PAYLOAD_VERSION = 1;
