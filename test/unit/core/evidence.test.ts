import { createHash } from 'node:crypto';
import fc from 'fast-check';
import t from 'tap';
import {
  CHAIN_START,
  chainProblem,
  EVIDENCE_KINDS,
  entryHash,
  entryText,
  type StoredEntry,
} from '../../../core/evidence.ts';
import { canonicalize, type JsonValue } from '../../../core/jcs.ts';

const ACCOUNT = 'acc_01jv9h2n8ke5rvq3s4t6w7x8y9';
const START = { size: 0, hash: CHAIN_START, atMs: 0 };

const json = fc
  .jsonValue({ maxDepth: 3, stringUnit: 'binary' })
  .filter((value) => JSON.stringify(value).isWellFormed()) as fc.Arbitrary<JsonValue>;

function entry(change: Partial<Omit<StoredEntry, 'hash'>> = {}): StoredEntry {
  const unhashed = {
    account: ACCOUNT,
    seq: 0,
    id: 'rcp_01jv9h4c6mdqrs7tvwxyz01234',
    kind: 'decision',
    at: '2026-05-15T10:00:00.000Z',
    prev: CHAIN_START,
    body: '{"decision":"allow"}',
    ...change,
  };
  return { ...unhashed, hash: entryHash(unhashed) };
}

t.test('the text of an entry is its RFC 8785 form, whatever its body holds', async (t) => {
  const property = fc.property(json, fc.constantFrom(...EVIDENCE_KINDS), fc.nat(), (body, kind, seq) => {
    const stored = entry({ body: canonicalize(body), kind, seq });
    const { account, id, at, prev } = stored;
    return entryText(stored) === canonicalize({ account, seq, id, kind, at, prev, body });
  });
  t.doesNotThrow(() => fc.assert(property, { numRuns: 1000 }));
});

t.test('the hash of an entry is the RFC 6962 leaf hash of its text', async (t) => {
  const property = fc.property(json, (body) => {
    const stored = entry({ body: canonicalize(body) });
    const leaf = Buffer.concat([Buffer.of(0), Buffer.from(entryText(stored), 'utf8')]);
    return entryHash(stored) === createHash('sha256').update(leaf).digest('hex');
  });
  t.doesNotThrow(() => fc.assert(property));
});

t.test('every kind is written in characters that the chain need not escape', async (t) => {
  for (const kind of EVIDENCE_KINDS) t.match(kind, /^[a-z_]+(\.[a-z_]+)*$/);
  t.equal(new Set(EVIDENCE_KINDS).size, EVIDENCE_KINDS.length);
});

t.test('a chain that continues has no problem, and each broken member is named', async (t) => {
  const first = entry();
  t.equal(chainProblem(START, first), null);
  const head = { size: 1, hash: first.hash, atMs: Date.parse(first.at) };
  const second = entry({ seq: 1, prev: first.hash, at: '2026-05-15T10:00:00.001Z' });
  t.equal(chainProblem(head, second), null);
  t.equal(chainProblem(head, entry({ seq: 1, prev: first.hash })), null, 'the same millisecond continues');

  t.match(chainProblem(head, entry({ seq: 2, prev: first.hash })), 'seq is 2 where 1 continues the chain');
  t.match(chainProblem(head, first), 'seq is 0 where 1');
  t.match(chainProblem(head, entry({ seq: 1 })), 'prev is not');
  t.match(chainProblem(head, entry({ seq: 1, prev: first.hash, at: '2026-05-15T09:59:59.999Z' })), 'time goes back');
  t.match(chainProblem(head, { ...second, hash: CHAIN_START }), 'hash is not');
  t.match(chainProblem(head, { ...second, kind: 'outcome' }), 'hash is not', 'a changed member breaks the hash');
  for (const at of ['2026-05-15T10:00:01Z', '2026-05-15 10:00:01.000', '2026-05-15T12:00:01.000+02:00', 'now', '']) {
    t.match(chainProblem(head, entry({ seq: 1, prev: first.hash, at })), 'at is not a canonical time', at);
  }
  for (const body of ['{"b":1,"a":2}', '{ "a":1}', '{"a":1,"a":1}', '{"a":1.0}', '{', '', '{"a":"\\u0061"}']) {
    t.match(chainProblem(head, entry({ seq: 1, prev: first.hash, body })), 'body is not canonical JSON', body);
  }
});
