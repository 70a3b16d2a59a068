import t from 'tap';
import { readBatchRequest } from '../../../../control-plane/decisions/batch-request.ts';
import { batchRequest } from '../../../../core/wire.ts';

const HASH = 'a'.repeat(64);
const PRESENTATION = {
  mandate_id: 'mdt_1',
  verifier: 'acc_1',
  ctx: null,
  nonce_hash: HASH,
  issued_at_ms: 1,
  expires_at_ms: -2,
  signer: 'did:key:z6Mk',
  document: '{}',
};
const ACTION = { type: 'payments.create', amount_minor: 1, currency: 'EUR', counterparty: null };
const VERIFY = {
  path: 'verify',
  token_hash: HASH,
  address: '127.0.0.1',
  problem: null,
  presentation: PRESENTATION,
  action: ACTION,
  request_digest: HASH,
  idempotency_key_hash: null,
  escalation_token_hash: null,
  budget_ms: 5,
};
const GATEWAY = {
  path: 'gateway',
  token_hash: HASH,
  address: '',
  name: 'n',
  tool: null,
  reading: null,
  request: { method: 'POST', path: '', query: '', body_sha256: null },
  bindable: false,
  idempotency_key_hash: null,
  escalation_token_hash: null,
  config_version: 1,
  budget_ms: 5,
};
const OUTCOME = {
  ...{ account_id: 'a', receipt_id: 'r', outcome: 'booked', cause: 'answered', target_status: 200, answer: null },
};

/** What may stand where something else should. */
const ODD: readonly unknown[] = [
  ...[null, true, 0, -1, 1.5, 2 ** 53, '', 'verify', 'gateway', HASH, `${HASH}a`, 'x'.repeat(65)],
  ...[[], [1], {}, PRESENTATION, ACTION],
];

function* changed<T extends object>(good: T): Generator<object> {
  for (const member of [...Object.keys(good), 'unknown']) {
    for (const odd of ODD) yield { ...good, [member]: odd };
    yield { ...good, [member]: undefined };
  }
}

/** Every message that differs from a good one in one member, of itself, its only ask, or what that holds. */
function* variants(): Generator<unknown> {
  const good = { asks: [VERIFY], outcomes: [], charges: [] };
  yield* ODD;
  yield* changed(good);
  yield { ...good, asks: [VERIFY, GATEWAY, VERIFY] };
  yield { ...good, outcomes: [OUTCOME] };
  yield { ...good, charges: [{ token_hash: null, address: '' }] };
  for (const ask of changed(VERIFY)) yield { ...good, asks: [ask] };
  for (const presentation of changed(PRESENTATION)) yield { ...good, asks: [{ ...VERIFY, presentation }] };
  for (const action of changed(ACTION)) yield { ...good, asks: [{ ...VERIFY, action }] };
}

function outcome(read: (value: unknown) => unknown, text: string): unknown {
  try {
    return { read: read(JSON.parse(text)) };
  } catch {
    return 'refused';
  }
}

t.test('what is checked by hand is accepted, read and refused exactly as the schema does', async (t) => {
  const counts = { accepted: 0, refused: 0 };
  for (const variant of variants()) {
    const text = JSON.stringify(variant);
    const expected = outcome((value) => batchRequest.parse(value), text);
    counts[expected === 'refused' ? 'refused' : 'accepted'] += 1;
    t.strictSame(outcome(readBatchRequest, text), expected, text);
  }
  t.ok(counts.accepted > 100 && counts.refused > 300, 'both kinds occur often');
  t.throws(() => readBatchRequest(JSON.parse('{"asks":[{"__proto__":{"path":"verify"}}],"outcomes":[],"charges":[]}')));
});
