import { hash } from 'node:crypto';
import fc from 'fast-check';
import t from 'tap';
import { isCounterparty } from '../../../core/action.ts';
import { mandateWords, WORDING_LANGUAGES, type WordedTerms, wordingOf } from '../../../core/mandate-words.ts';

const TERMS: WordedTerms = {
  scope: ['payments.create', 'orders.*'],
  currency: 'EUR',
  per_action: 125_000,
  per_month: 100_000_050,
  escalation_threshold: 5_000,
  counterparties: ['Acme GmbH', 'Bäcker & Söhne'],
  agent_did: '',
  time_zone: 'Europe/Berlin',
  valid_until: '2030-01-31T23:59:59.000Z',
  max_uses: 5,
};

t.test('a mandate reads as plain sentences in English', async (t) => {
  t.equal(
    mandateWords(TERMS, 'en'),
    `The agent acts with a key that this service holds for it, or through a gateway of yours.
It may do this, and nothing else:
- payments.create
- orders.* (everything below orders)
One action may cost at most 1,250.00 EUR.
All actions of a calendar month (time zone Europe/Berlin) together may cost at most 1,000,000.50 EUR.
Above 50.00 EUR a human must approve each action.
It may deal with these only, written exactly so:
- Acme GmbH
- Bäcker & Söhne
It may act at most 5 times.
The mandate ends on 2030-01-31 at 23:59:59 UTC; you can suspend or revoke it before.`,
  );
});

t.test('and in German', async (t) => {
  t.equal(
    mandateWords({ ...TERMS, currency: 'JPY', counterparties: [], valid_until: null, max_uses: null }, 'de'),
    `Der Agent handelt mit einem Schlüssel, den dieser Dienst für ihn verwahrt, oder über eines Ihrer Gateways.
Er darf dies und nichts anderes:
- payments.create
- orders.* (alles unterhalb von orders)
Eine Handlung darf höchstens 125.000 JPY kosten.
Alle Handlungen eines Kalendermonats (Zeitzone Europe/Berlin) dürfen zusammen höchstens 100.000.050 JPY kosten.
Über 5.000 JPY muss ein Mensch jede Handlung genehmigen.
Er darf mit allen zu tun haben.
Er darf so oft handeln, wie es die Grenzen erlauben.
Das Mandat hat kein Ende; Sie können es jederzeit aussetzen oder widerrufen.`,
  );
});

t.test('two mandates with different terms never read alike', async (t) => {
  const amount = fc.integer({ min: 0, max: 10_000 });
  const terms: fc.Arbitrary<WordedTerms> = fc.record({
    scope: fc.uniqueArray(fc.constantFrom('a', 'a.*', 'a.b', 'b.*'), { minLength: 1 }),
    currency: fc.constantFrom('EUR', 'JPY', 'KWD'),
    per_action: amount,
    per_month: amount,
    escalation_threshold: fc.option(amount),
    counterparties: fc.array(fc.string({ unit: 'binary', minLength: 1, maxLength: 12 }).filter(isCounterparty), {
      maxLength: 3,
    }),
    agent_did: fc.constantFrom('', 'did:key:z6MkA', 'did:key:z6MkB'),
    time_zone: fc.constantFrom('UTC', 'Europe/Berlin'),
    valid_until: fc.option(fc.constantFrom('2030-01-31T00:00:00.000Z', '2030-01-31T00:00:00.001Z')),
    max_uses: fc.option(fc.integer({ min: 1, max: 3 })),
  });
  fc.assert(
    fc.property(terms, terms, (one, other) => {
      const same = JSON.stringify(one) === JSON.stringify(other);
      for (const language of WORDING_LANGUAGES) {
        t.equal(mandateWords(one, language) === mandateWords(other, language), same);
      }
    }),
    { numRuns: 500 },
  );
});

t.test('evidence names a wording by the digest of its text', async (t) => {
  t.same(wordingOf('Über', 'de'), { language: 'de', sha256: hash('sha256', Buffer.from('Über', 'utf8'), 'hex') });
});
