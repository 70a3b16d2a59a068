import { z } from 'zod';
import { decimalOf } from '../../core/money.ts';
import { PAYLOAD_VERSION } from './event-types.ts';

/** An event as it was written in its transaction; `facts` in minor units and milliseconds. */
export interface StoredEvent {
  readonly account_id: string;
  readonly event_id: string;
  readonly type: string;
  readonly at: number;
  readonly facts: unknown;
}

/** What people call the things of an event, as they are called when it is told. */
export interface Names {
  readonly mandate: { readonly name: string; readonly currency: string } | null;
  readonly instance: string | null;
}

/** What is sent: ids and what a human needs to know; no secret, no token, no body. */
export interface Payload {
  readonly type: string;
  readonly timestamp: string;
  readonly data: Readonly<Record<string, unknown>>;
}

const whole = z.number().int();
const text = z.string().nullable();
const money = (minor: number, currency: string | null) => ({
  value: currency === null ? 0 : decimalOf(minor, currency),
  currency,
});
const time = (ms: number): string => new Date(ms).toISOString();

const escalation = z.object({
  escalation_id: z.string(),
  mandate_id: z.string(),
  subject_id: z.string(),
  receipt_id: z.string(),
  action: z.object({ type: z.string(), amount: whole, currency: text, counterparty: text }),
  method: text,
  path: text,
  tool: text,
  created_at: whole,
  expires_at: whole,
  decided_at: whole.nullable(),
  reason: text,
});
const limit = z.object({
  mandate_id: z.string(),
  month: z.string(),
  percent: whole,
  used: whole,
  limit: whole,
  currency: z.string(),
});
const lost = z.object({
  mandate_id: z.string(),
  subject_id: z.string(),
  count: whole,
  amount: whole,
  receipts: z.array(z.string()),
});
const mandate = z.object({ mandate_id: z.string(), version: whole, from: text, to: z.string() });
const endpoint = z.object({ endpoint_id: z.string(), name: z.string(), cause: z.string() });
const test = z.object({ endpoint_id: z.string() });
const passkey = z.object({ passkey_id: z.string(), name: z.string() });

/** When telling of an event is of no use any more, in milliseconds: nobody can answer what has expired. */
export function uselessAfter({ type, facts }: StoredEvent): number | null {
  return type === 'escalation.created' ? escalation.parse(facts).expires_at : null;
}

/**
 * The payload of an event, in the form of {@link PAYLOAD_VERSION}; amounts in major units, times RFC 3339 UTC.
 *
 * @throws where the event's facts are not what its type has
 */
export function payloadOf(event: StoredEvent, names: Names): Payload {
  const data = { version: PAYLOAD_VERSION, account_id: event.account_id, ...dataOf(event, names) };
  return { type: event.type, timestamp: time(event.at), data };
}

function dataOf({ type, facts }: StoredEvent, names: Names): Record<string, unknown> {
  switch (type.slice(0, type.indexOf('.'))) {
    case 'escalation':
      return escalationData(escalation.parse(facts), names);
    case 'limit': {
      const { mandate_id, month, percent, used, limit: most, currency } = limit.parse(facts);
      const sums = { used: money(used, currency), limit: money(most, currency) };
      return { mandate_id, mandate_name: names.mandate?.name ?? null, month: month.slice(0, 7), percent, ...sums };
    }
    case 'outcome': {
      const { mandate_id, subject_id, count, amount, receipts } = lost.parse(facts);
      return {
        mandate_id,
        mandate_name: names.mandate?.name ?? null,
        ...instanceData(subject_id, names),
        count,
        amount: money(amount, names.mandate?.currency ?? null),
        receipt_ids: receipts,
      };
    }
    case 'mandate': {
      const { mandate_id, version, from, to } = mandate.parse(facts);
      const status = { previous_status: from, status: to };
      return { mandate_id, mandate_name: names.mandate?.name ?? null, mandate_version: version, ...status };
    }
    case 'webhook':
      return type === 'webhook.disabled' ? endpoint.parse(facts) : test.parse(facts);
    case 'account':
      return passkey.parse(facts);
    default:
      throw new Error(`an event of a type that is not known: ${type}`);
  }
}

function escalationData(facts: z.infer<typeof escalation>, names: Names): Record<string, unknown> {
  const { action, method, path, tool } = facts;
  return {
    escalation_id: facts.escalation_id,
    mandate_id: facts.mandate_id,
    mandate_name: names.mandate?.name ?? null,
    ...instanceData(facts.subject_id, names),
    receipt_id: facts.receipt_id,
    action: {
      type: action.type,
      amount: money(action.amount, action.currency),
      counterparty: action.counterparty,
    },
    request: path === null ? null : { method, path, tool },
    created_at: time(facts.created_at),
    expires_at: time(facts.expires_at),
    decided_at: facts.decided_at === null ? null : time(facts.decided_at),
    reason: facts.reason,
  };
}

/** On paths 1 and 2 there is no gateway instance. */
function instanceData(subjectId: string, names: Names): Record<string, unknown> {
  return { instance_id: subjectId.startsWith('gwi_') ? subjectId : null, instance_name: names.instance };
}
