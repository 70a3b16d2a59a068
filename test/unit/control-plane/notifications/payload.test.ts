import { readFileSync } from 'node:fs';
import t from 'tap';
import { EVENT_TYPES, TEST_EVENT } from '../../../../control-plane/notifications/event-types.ts';
import { type Names, payloadOf, uselessAfter } from '../../../../control-plane/notifications/payload.ts';

const DOCUMENT = new URL('../../../../docs/notifications.md', import.meta.url);
const AT = Date.parse('2026-05-11T09:30:00.000Z');
const IDS = {
  account_id: 'acc_01jtz4c0e8f1q9v5k2m7n3p6r0',
  mandate_id: 'mdt_01jtz4c0e8f1q9v5k2m7n3p6r1',
  instance: 'gwi_01jtz4c0e8f1q9v5k2m7n3p6r2',
  escalation_id: 'esc_01jtz4c0e8f1q9v5k2m7n3p6r3',
  receipt_id: 'rcp_01jtz4c0e8f1q9v5k2m7n3p6r4',
  endpoint_id: 'whk_01jtz4c0e8f1q9v5k2m7n3p6r5',
} as const;
const NAMES: Names = { mandate: { name: 'Office supplies', currency: 'EUR' }, instance: 'Shop' };

const { mandate_id, escalation_id, receipt_id, endpoint_id } = IDS;

/** What the database writes of an event of each type. */
function factsOf(type: string): object {
  const answered = type !== 'escalation.created' && type !== 'escalation.expired';
  switch (type.split('.')[0]) {
    case 'escalation':
      return {
        ...{ escalation_id, mandate_id, receipt_id, subject_id: IDS.instance },
        action: { type: 'orders.create', amount: 24_990, currency: 'EUR', counterparty: 'paper-ltd' },
        ...{ method: 'POST', path: '/orders', tool: 'http.post:/orders' },
        ...{ created_at: AT - (answered ? 60_000 : 0), expires_at: AT + 600_000, decided_at: answered ? AT : null },
        reason: answered ? 'as agreed' : null,
      };
    case 'limit': {
      const [percent, used] = type === 'limit.warning' ? [80, 81_000] : [100, 100_000];
      return { mandate_id, month: '2026-05-01', percent, used, limit: 100_000, currency: 'EUR' };
    }
    case 'outcome':
      return { mandate_id, subject_id: IDS.instance, count: 1, amount: 1_250, receipts: [receipt_id] };
    case 'mandate': {
      const status = { activated: 'active', resumed: 'active' }[type.slice(8)] ?? type.slice(8);
      return { mandate_id, version: 1, from: { active: 'draft' }[status] ?? 'active', to: status };
    }
    case 'account':
      return { passkey_id: 'psk_01jtz4c0e8f1q9v5k2m7n3p6r6', name: 'Laptop' };
    default:
      return type === TEST_EVENT ? { endpoint_id } : { endpoint_id, name: 'Chat', cause: 'failing' };
  }
}

function exampleOf(type: string) {
  const event = { account_id: IDS.account_id, event_id: 'evt_x', type, at: AT, facts: factsOf(type) };
  return payloadOf(event, NAMES);
}

t.test('the document shows, for every event that there is, an example that is what is sent', async (t) => {
  const page = readFileSync(DOCUMENT, 'utf8');
  const blocks = Array.from(page.matchAll(/```json\n([\s\S]*?)```/g), ([, text = '']) => JSON.parse(text));
  const examples = new Map(blocks.map((one: { type: string }) => [one.type, one]));
  for (const type of [...EVENT_TYPES, TEST_EVENT]) {
    t.match(page, `| \`${type}\` |`);
    const [noun] = type.split('.');
    const shown = examples.get(type) ?? blocks.find((one: { type: string }) => one.type.startsWith(`${noun}.`));
    const made = exampleOf(type);
    t.same(Object.keys(shown.data), Object.keys(made.data), type);
    if (examples.has(type)) t.same(shown, JSON.parse(JSON.stringify(made)), type);
  }
});

t.test('an event whose facts are not those of its type is told to nobody', async (t) => {
  const event = { account_id: IDS.account_id, event_id: 'evt_x', at: AT };
  t.throws(() => payloadOf({ ...event, type: 'escalation.created', facts: factsOf('limit.reached') }, NAMES));
  t.throws(() => payloadOf({ ...event, type: 'weather.changed', facts: {} }, NAMES));
});

t.test('on paths 1 and 2 there is no gateway instance and no request', async (t) => {
  const facts = { ...factsOf('escalation.created'), subject_id: 'verify', method: null, path: null, tool: null };
  const event = { account_id: IDS.account_id, event_id: 'evt_x', type: 'escalation.created', at: AT, facts };
  t.match(payloadOf(event, { ...NAMES, instance: null }), { data: { instance_id: null, request: null } });
  t.equal(uselessAfter(event), AT + 600_000);
});
