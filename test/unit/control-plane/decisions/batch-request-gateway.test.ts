import t from 'tap';
import { readBatchRequest } from '../../../../control-plane/decisions/batch-request.ts';
import { batchRequest } from '../../../../core/wire.ts';

const HASH = 'a'.repeat(64);
const ASK = {
  path: 'gateway',
  token_hash: HASH,
  address: '127.0.0.1',
  name: 'http.post:/payments',
  tool: { id: 't', version: 1 },
  reading: { ok: true, amount_minor: 1, currency: 'EUR', counterparty: null },
  request: { method: 'POST', path: '/payments', query: '', body_sha256: HASH },
  bindable: true,
  idempotency_key_hash: null,
  escalation_token_hash: null,
  config_version: 1,
  budget_ms: 5,
};
const OUTCOME = {
  account_id: 'a',
  receipt_id: 'r',
  outcome: 'booked',
  cause: 'answered',
  target_status: 200,
  answer: null,
};
const GOOD = { asks: [ASK], outcomes: [OUTCOME], charges: [] };

/** What may stand where something else should. */
const ODD: readonly unknown[] = [
  null,
  true,
  false,
  0,
  -1,
  1.5,
  2 ** 53,
  '',
  'x'.repeat(65),
  'x'.repeat(4097),
  HASH,
  'verify',
  'unknown',
  'proxy_lost',
  [],
  {},
  [ASK],
  { ok: false, field: 'amount', message: 'm' },
  { status: 200, headers: [], body: null },
  { body: 'none', fields: [], query: [], more: false },
];

/** Every message that differs from a good one in one member, at any depth, or has one too many. */
function* variants(): Generator<unknown> {
  yield* ODD;
  for (const member of [...Object.keys(GOOD), 'more']) {
    for (const odd of [...ODD, undefined]) yield { ...GOOD, [member]: odd };
  }
  for (const odd of ODD) yield { ...GOOD, asks: [ASK, odd] };
  for (const odd of ODD) yield { ...GOOD, outcomes: [OUTCOME, odd] };
  for (const odd of [...ODD, undefined]) {
    for (const member of [...Object.keys(ASK), 'shape', 'more']) yield { ...GOOD, asks: [{ ...ASK, [member]: odd }] };
    for (const member of [...Object.keys(OUTCOME), 'more'])
      yield { ...GOOD, outcomes: [{ ...OUTCOME, [member]: odd }] };
    for (const part of ['tool', 'reading', 'request'] as const) {
      for (const member of [...Object.keys(ASK[part]), 'more']) {
        yield { ...GOOD, asks: [{ ...ASK, [part]: { ...ASK[part], [member]: odd } }] };
      }
    }
  }
}

t.test('what is checked by hand is accepted, read and refused exactly as the schema does', async (t) => {
  const counts = { accepted: 0, refused: 0 };
  for (const variant of variants()) {
    const text = JSON.stringify(variant);
    const parsed = batchRequest.safeParse(JSON.parse(text));
    counts[parsed.success ? 'accepted' : 'refused'] += 1;
    if (parsed.success) t.strictSame(readBatchRequest(JSON.parse(text)), parsed.data, text.slice(0, 400));
    else t.throws(() => readBatchRequest(JSON.parse(text)), text.slice(0, 400));
  }
  t.ok(counts.accepted > 50 && counts.refused > 300, 'both kinds occur often');
});
