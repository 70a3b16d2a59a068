import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import fc from 'fast-check';
import t from 'tap';
import {
  type Action,
  contextDigest,
  contextText,
  isActionType,
  isContextDigest,
  isCounterparty,
  isScopeEntry,
  scopeCovers,
} from '../../../core/action.ts';
import { MINOR_DIGITS } from '../../../core/iso-4217.ts';
import { canonicalize, JcsProblem, type JsonValue } from '../../../core/jcs.ts';
import { MONEY_MINOR_MAX } from '../../../core/limits.ts';

import { decimalOf } from '../../../core/money.ts';

t.test('action types are 1..128 characters of segments joined by dots', async (t) => {
  for (const text of ['a', 'payments.create', 'a-b_c.9', 'x'.repeat(128)]) t.ok(isActionType(text), text);
  const refused = ['', '.', 'a.', '.a', 'a..b', 'A', 'a b', 'a/b', 'ä', 'a\n', 'payments.*', '*', 'x'.repeat(129)];
  for (const text of refused) t.notOk(isActionType(text), JSON.stringify(text));
});

t.test('scope entries are types, or a prefix and .*', async (t) => {
  for (const text of ['payments', 'payments.*', 'a.b.*']) t.ok(isScopeEntry(text), text);
  for (const text of ['*', '.*', 'payments*', 'payments.*.x', 'payments.**', '', '*.x'])
    t.notOk(isScopeEntry(text), text);
});

t.test('a prefix covers everything below it and nothing else', async (t) => {
  t.ok(scopeCovers(['payments.*'], 'payments.create'));
  t.ok(scopeCovers(['payments.*'], 'payments.a.b'));
  t.notOk(scopeCovers(['payments.*'], 'payments'));
  t.notOk(scopeCovers(['payments.*'], 'paymentsx.create'));
  t.notOk(scopeCovers(['payments.*'], 'payments.'));
  t.ok(scopeCovers(['a', 'payments'], 'payments'));
  t.notOk(scopeCovers(['payments'], 'payments.create'));
  t.notOk(scopeCovers([], 'payments'));
});

t.test('counterparties are 1..256 code points in NFC without controls or directional overrides', async (t) => {
  for (const text of ['a', 'Müller GmbH', 'x'.repeat(256), '😀'.repeat(256), 'DE02 1203 0000 0000 2020 51']) {
    t.ok(isCounterparty(text), text.slice(0, 30));
  }
  const refused = ['', 'x'.repeat(257), '😀'.repeat(257), 'a\nb', 'a\0', '\x7f', '\x85', '\ud800', 'Mu\u0308ller'];
  for (const text of [...refused, 'a\u202eb', 'a\u2066b', 'a\u2028b']) {
    t.notOk(isCounterparty(text), encodeURI(text.toWellFormed()).slice(0, 30));
  }
});

t.test('a context digest has one spelling', async (t) => {
  const digest = contextDigest({ type: 'a', amount_minor: 1, currency: 'EUR' });
  t.ok(isContextDigest(digest));
  const refused = [
    '',
    digest.slice(8),
    digest.toUpperCase(),
    `${digest}0`,
    digest.slice(0, -1),
    `${digest}\n`,
    ` ${digest}`,
  ];
  for (const other of [...refused, digest.replace('-', ''), `sha-256:${'g'.repeat(64)}`]) {
    t.notOk(isContextDigest(other), JSON.stringify(other));
  }
});

const text = fc.string({ unit: 'binary', maxLength: 12 }).filter((value) => value.isWellFormed());
const request = fc.record({
  method: fc.constantFrom('GET', 'POST'),
  path: text,
  query: text,
  body_sha256: fc.option(fc.stringMatching(/^[0-9a-f]{64}$/)),
});
const money = fc.oneof(
  fc.record({
    amount_minor: fc.integer({ min: 0, max: MONEY_MINOR_MAX }),
    currency: fc.constantFrom(...MINOR_DIGITS.keys()),
  }),
  fc.constant({ amount_minor: 0, currency: null }),
);
const action: fc.Arbitrary<Action> = fc
  .tuple(money, fc.record({ type: text, counterparty: text, request }, { requiredKeys: ['type'] }))
  .map(([amount, rest]) => ({ ...amount, ...rest }));

function nfc(value: JsonValue): JsonValue {
  if (typeof value === 'string') return value.normalize('NFC');
  if (value === null || typeof value !== 'object' || Array.isArray(value)) return value;
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, nfc(member as JsonValue)]));
}

/** The object of contract §2, built the slow way. */
function bound(of: Action): JsonValue {
  const value = of.currency === null ? 0 : decimalOf(of.amount_minor, of.currency);
  return {
    type: of.type,
    amount: { value, currency: of.currency },
    ...(of.counterparty === undefined || of.counterparty === null ? {} : { counterparty: of.counterparty }),
    ...(of.request === undefined ? {} : { request: { ...of.request } }),
  };
}

t.test('the digest is SHA-256 over the JCS of the action, NFC first', async (t) => {
  const property = fc.property(action, (of) => {
    const expected = canonicalize(nfc(bound(of)));
    assert.equal(contextText(of), expected);
    assert.equal(contextDigest(of), `sha-256:${createHash('sha256').update(expected).digest('hex')}`);
  });
  fc.assert(property, { numRuns: 300 });
  t.equal(
    contextText({ type: 'payments.create', amount_minor: 12050, currency: 'EUR', counterparty: 'Mu\u0308ller' }),
    '{"amount":{"currency":"EUR","value":120.5},"counterparty":"Müller","type":"payments.create"}',
  );
});

t.test('any change to the action or its request changes the digest', async (t) => {
  const base = { type: 'a', amount_minor: 1, currency: 'EUR', counterparty: 'x' };
  const sent = { method: 'POST', path: 'p', query: '', body_sha256: null };
  const variants: Action[] = [
    base,
    { ...base, type: 'b' },
    { ...base, amount_minor: 2 },
    { ...base, currency: 'USD' },
    { ...base, counterparty: 'y' },
    { ...base, counterparty: null },
    { ...base, request: sent },
    { ...base, request: { ...sent, method: 'PUT' } },
    { ...base, request: { ...sent, path: 'q' } },
    { ...base, request: { ...sent, query: 'a=1' } },
    { ...base, request: { ...sent, body_sha256: '0'.repeat(64) } },
  ];
  t.equal(new Set(variants.map(contextDigest)).size, variants.length);
});

t.test('what is not an action has no digest', async (t) => {
  t.throws(() => contextDigest({ type: 'a', amount_minor: 1, currency: null }), RangeError);
  t.throws(() => contextDigest({ type: 'a', amount_minor: -1, currency: 'EUR' }), RangeError);
  t.throws(() => contextDigest({ type: 'a', amount_minor: 1, currency: 'XXX' }), RangeError);
  t.throws(() => contextDigest({ type: 'a', amount_minor: 1, currency: 'EUR', counterparty: '\ud800' }), JcsProblem);
});
