import t from 'tap';
import { batchAnswer } from '../../../core/wire.ts';
import { readBatchAnswer } from '../../../proxy/batch-answer.ts';

const RATE = [500, 499, 1];
const ALLOW = { answer: 'allow', receipt_id: 'r', account_id: 'a', instance_id: 'i', target: null, rate: RATE };
const TARGET = { version: 1, url: 'https://target.example/', credential: { header: 'x-key', value: 'v' } };
const DENY = { answer: 'deny', receipt_id: 'r', code: 'MD-101', reason_text: 'It is too much.', rate: RATE };
const REPLAY = {
  answer: 'replay',
  receipt_id: 'r',
  stored: { status: 200, headers: [['a', 'b']], body: null },
  rate: RATE,
};
const PROBLEM = {
  answer: 'problem',
  error: 'rate_limited',
  detail: 'd',
  receipt_id: null,
  retry_after_s: 1,
  rate: null,
};
const RESULT = { answer: 'result', receipt_id: 'r', body: '{}', replayed: false, rate: RATE };
const ANSWERS = [ALLOW, RESULT, { ...ALLOW, target: TARGET }, DENY, REPLAY, PROBLEM];

/** What may stand where something else should: values that are nearly right, and members too many. */
const ODD: readonly unknown[] = [
  null,
  true,
  0,
  -1,
  1.5,
  2 ** 53,
  '',
  'allow',
  'deny',
  'result',
  'MD-999',
  [],
  [1, 2],
  [1, 2, 3, 4],
  [1, 2, -1],
  [0, 0, 0],
  {},
  TARGET,
];

function outcome(read: (text: string) => unknown, text: string): unknown {
  try {
    return { read: read(text) };
  } catch {
    return 'refused';
  }
}

/** Every batch that differs from a good one in one member, of the batch itself or of its only ask. */
function* variants(): Generator<unknown> {
  const good = { asks: [ALLOW], outcomes: [true, false], charges: [] };
  yield* ODD;
  yield { ...good, asks: ANSWERS };
  yield { ...good, charges: [{ rate: RATE, retry_after_s: null }] };
  yield { ...good, outcomes: [true, 'true'] };
  for (const member of ['asks', 'outcomes', 'charges', 'unknown']) {
    for (const odd of ODD) yield { ...good, [member]: odd };
    yield { ...good, [member]: undefined };
  }
  for (const odd of ODD) yield { ...good, asks: [ALLOW, odd] };
  for (const answer of ANSWERS) {
    for (const member of [...Object.keys(answer), 'unknown', 'target', 'code', 'body', 'replayed']) {
      for (const odd of ODD) yield { ...good, asks: [{ ...answer, [member]: odd }] };
      yield { ...good, asks: [{ ...answer, [member]: undefined }] };
    }
  }
}

t.test('what is checked by hand is accepted, read and refused exactly as the schema does', (t) => {
  const counts = { accepted: 0, refused: 0 };
  for (const variant of variants()) {
    const text = JSON.stringify(variant);
    const expected = outcome((json) => batchAnswer.parse(JSON.parse(json)), text);
    counts[expected === 'refused' ? 'refused' : 'accepted'] += 1;
    t.strictSame(outcome(readBatchAnswer, text), expected, text);
  }
  t.ok(counts.accepted > 50 && counts.refused > 300, 'both kinds occur often');
  t.end();
});

t.test('a member named like one of the language itself is not taken for one of an answer', (t) => {
  const text = '{"asks":[{"__proto__":{"answer":"allow"},"receipt_id":"r"}],"outcomes":[],"charges":[]}';
  t.throws(() => readBatchAnswer(text));
  t.end();
});
