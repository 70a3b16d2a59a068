import t, { type Test } from 'tap';
import { type ActResult, actUnderMandate } from '../../../examples/client/act-under-mandate.ts';
import { MandateClient } from '../../../examples/client/mandate-client.ts';
import type { Presentation } from '../../../examples/client/presentation.ts';
import { fakeService, type Reply } from './fake-service.ts';

const ACTION = { type: 'payments.create', amount: { value: 12.5, currency: 'EUR' }, counterparty: 'acme' };
const PRESENTATION: Presentation = { mandate_id: 'mdt_1', verifier: 'acc_1', ctx: 'sha-256:0', expires_at: '' };
const RECEIPT = { receipt_id: 'rcp_1', decided_at: '', ctx: null, evidence: { seq: 1, hash: '' } };
const ALLOW = { decision: 'allow', consumption_token: 'ctk_1', receipt: RECEIPT, mat_compact: 'a.b.c' };
const DENY = { decision: 'deny', reasons: ['MD-302'], reason_text: 'Too much.', receipt: RECEIPT };
const ESCALATE = { decision: 'escalate', escalation: { id: 'esc_1', expires_at: '' } };

/** Runs one action against a service that gives these answers in turn; `acts` counts how often it was done. */
async function attempt(t: Test, replies: readonly object[], result: () => Promise<ActResult>) {
  const service = await fakeService(t, (_, count): Reply => ({ body: replies[count - 1] ?? {} }));
  const client = new MandateClient({ url: service.url, apiKey: 'mak_x', sleep: async () => {} });
  let acts = 0;
  const act = (): Promise<ActResult> => {
    acts += 1;
    return result();
  };
  const outcome = actUnderMandate(client, { presentation: PRESENTATION, action: ACTION }, act);
  const settled = await outcome.then(
    (value) => ({ value, error: null }),
    (error: unknown) => ({ value: null, error }),
  );
  const sent = service.seen.map(({ path, body }) => [
    path.replace('/api/v1/', ''),
    body === '' ? null : JSON.parse(body),
  ]);
  return { ...settled, acts, sent };
}

const done = async (): Promise<ActResult> => ({ done: true, external_ref: 'r1', final_amount: 10 });

t.test('what was done is booked at what it cost, then reported', async (t) => {
  const { value, acts, sent } = await attempt(t, [ALLOW], done);
  t.equal(value?.outcome, 'done');
  t.equal(acts, 1);
  t.match(sent, [
    ['verify', { action: ACTION }],
    [
      'consumptions',
      { consumption_token: 'ctk_1', final_amount: 10, counterparty: 'acme', context_digest: 'sha-256:0' },
    ],
    ['executions', { reservation_token: 'ctk_1', outcome: 'erfolgreich', executed_amount: 10, external_ref: 'r1' }],
  ]);
  t.equal(sent.length, 3);
});

t.test('what was certainly not done is reported as failed and books nothing', async (t) => {
  const { value, sent } = await attempt(t, [ALLOW], async () => ({ done: false, external_ref: 'r1' }));
  t.equal(value?.outcome, 'failed');
  t.match(sent, [['verify'], ['executions', { outcome: 'fehlgeschlagen', executed_amount: 0 }]]);
  t.equal(sent.length, 2);
});

t.test('where nobody knows whether it was done, nothing is booked, released or reported', async (t) => {
  const lost = new Error('lost');
  const { error, sent } = await attempt(t, [ALLOW], async () => {
    throw lost;
  });
  t.equal(error, lost);
  t.equal(sent.length, 1);
});

t.test('nothing is done without an allow: denied, rejected, expired, or escalated once more', async (t) => {
  const approved = { id: 'esc_1', status: 'approved', escalation_token: 'etk_1' };
  const cases: [replies: object[], outcome: string][] = [
    [[DENY], 'denied'],
    [[ESCALATE, { id: 'esc_1', status: 'rejected' }], 'not_approved'],
    [[ESCALATE, { id: 'esc_1', status: 'pending' }, { id: 'esc_1', status: 'expired' }], 'not_approved'],
    [[ESCALATE, approved, DENY], 'denied'],
    [[ESCALATE, approved, ESCALATE], 'not_approved'],
  ];
  for (const [replies, outcome] of cases) {
    const { value, acts, sent } = await attempt(t, replies, done);
    t.equal(value?.outcome, outcome);
    t.equal(acts, 0);
    t.equal(sent.length, replies.length);
  }
});
