import fc from 'fast-check';
import t from 'tap';
import {
  MANDATE_STATES,
  type MandateTerms,
  type MandateTrigger,
  mandateDigest,
  nextStatus,
  TERMINAL_STATES,
} from '../../../core/mandate.ts';

const TRIGGERS: readonly MandateTrigger[] = ['activate', 'suspend', 'resume', 'revoke', 'expire', 'consume'];

/** The whole table, written out: a row a state, a column a trigger. */
const TABLE: Record<(typeof MANDATE_STATES)[number], readonly (string | null)[]> = {
  draft: ['active', null, null, 'revoked', 'expired', null],
  active: [null, 'suspended', null, 'revoked', 'expired', 'consumed'],
  suspended: [null, null, 'active', 'revoked', 'expired', null],
  expired: [null, null, null, null, null, null],
  consumed: [null, null, null, null, null, null],
  revoked: [null, null, null, null, null, null],
};

t.test('every state and trigger goes where the table says, and nowhere else', async (t) => {
  for (const from of MANDATE_STATES) {
    for (const [at, trigger] of TRIGGERS.entries())
      t.equal(nextStatus(from, trigger), TABLE[from][at], `${from} ${trigger}`);
  }
});

t.test('the terminal states are expired, consumed and revoked, and nothing leaves them', async (t) => {
  t.same(TERMINAL_STATES, ['expired', 'consumed', 'revoked']);
  const walk = fc.property(fc.array(fc.constantFrom(...TRIGGERS), { maxLength: 30 }), (triggers) => {
    let status: (typeof MANDATE_STATES)[number] = 'draft';
    let ended: string | null = null;
    for (const trigger of triggers) {
      status = nextStatus(status, trigger) ?? status;
      if (ended !== null && status !== ended) return false;
      if (TERMINAL_STATES.includes(status)) ended = status;
    }
    return true;
  });
  t.doesNotThrow(() => fc.assert(walk));
});

const terms: MandateTerms = {
  mandate_id: 'mdt_01jv9h3q2xf6s8t9vwxyz01234',
  version: 1,
  scope: ['payments.transfer'],
  currency: 'EUR',
  per_action: 50_000,
  per_month: 200_000,
  escalation_threshold: null,
  counterparties: [],
  agent_did: '',
  time_zone: 'UTC',
  valid_until: null,
  max_uses: null,
};

t.test('the digest of a mandate changes with every one of its terms and with nothing else', async (t) => {
  const changes: readonly Partial<MandateTerms>[] = [
    { mandate_id: 'mdt_01jv9h3q2xf6s8t9vwxyz01235' },
    { version: 2 },
    { scope: ['payments.transfer', 'payments.refund'] },
    { currency: 'USD' },
    { per_action: 50_001 },
    { per_month: 200_001 },
    { escalation_threshold: 0 },
    { counterparties: ['acme-gmbh'] },
    { agent_did: 'did:key:z6Mk' },
    { time_zone: 'Europe/Berlin' },
    { valid_until: '2027-01-01T00:00:00.000Z' },
    { max_uses: 1 },
  ];
  t.same(new Set(changes.flatMap(Object.keys)), new Set(Object.keys(terms)), 'no term is forgotten');
  const digests = [terms, ...changes.map((change) => ({ ...terms, ...change }))].map(mandateDigest);
  t.equal(new Set(digests).size, digests.length);
  const reversed = Object.fromEntries(Object.entries(terms).reverse()) as unknown as MandateTerms;
  t.equal(mandateDigest({ ...reversed, ...{ status: 'active' } }), digests[0], 'order and state do not matter');
  t.match(digests[0], /^sha-256:[0-9a-f]{64}$/);
});
