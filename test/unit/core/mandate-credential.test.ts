import { generateKeyPairSync } from 'node:crypto';
import { compactVerify } from 'jose';
import t from 'tap';
import { canonicalize, type JsonValue } from '../../../core/jcs.ts';
import { publicJwk } from '../../../core/jwk.ts';
import { checkJws, signJws } from '../../../core/jws.ts';
import { type MandateTerms, mandateDigest } from '../../../core/mandate.ts';
import { CREDENTIAL_TTL_MS, CREDENTIAL_TYPE, mandateCredential } from '../../../core/mandate-credential.ts';

const ISSUER = 'https://gateway.example';
const ACCOUNT = 'acc_01jd0000000000000000000000';
const MANDATE = 'mdt_01jd0000000000000000000000';
const ISSUED = '2026-03-01T10:00:00.123Z';

const TERMS: MandateTerms = {
  mandate_id: MANDATE,
  version: 3,
  scope: ['payments.*', 'orders.refund'],
  currency: 'EUR',
  per_action: 10_010,
  per_month: 999_999_999_999_999,
  escalation_threshold: 30,
  counterparties: ['acme', 'Zürich 東京'],
  agent_did: 'did:key:z6MkhaXgBZDvotDkL5257faiztiGiC2QtKLGpbnnEGta2doK',
  time_zone: 'Europe/Berlin',
  valid_until: '2026-03-02T09:00:00.000Z',
  max_uses: 5,
};

const credentialOf = (terms: MandateTerms): Record<string, JsonValue> =>
  JSON.parse(mandateCredential(ISSUER, { accountId: ACCOUNT, terms, issuedAtMs: Date.parse(ISSUED) }));

t.test('a credential states limits, agent, and that the principal is self-declared, as W3C VC 2.0', async (t) => {
  t.strictSame(credentialOf(TERMS), {
    '@context': ['https://www.w3.org/ns/credentials/v2', { '@vocab': 'urn:mandate-gateway:credential#' }],
    type: ['VerifiableCredential', 'MandateCredential'],
    issuer: ISSUER,
    validFrom: ISSUED,
    validUntil: TERMS.valid_until,
    credentialSubject: {
      id: TERMS.agent_did,
      mandate: {
        ...{ mandate_id: MANDATE, version: 3, scope: ['payments.*', 'orders.refund'], currency: 'EUR' },
        ...{ amount_limit_per_action: 100.1, amount_limit_per_month: 9999999999999.99, escalation_threshold: 0.3 },
        ...{ counterparties: ['acme', 'Zürich 東京'], time_zone: 'Europe/Berlin', max_uses: 5 },
        mandate_digest: mandateDigest(TERMS),
        status_url: `${ISSUER}/api/v1/mandates/${MANDATE}/status`,
      },
      principal: { account_id: ACCOUNT, identity: 'self-declared', assurance_level: 1 },
    },
  });
});

t.test('what a mandate does not limit is not in it, and an agent whose key the service holds has no id', async (t) => {
  const open = { ...TERMS, agent_did: '', valid_until: null, escalation_threshold: null, max_uses: null };
  const credential = credentialOf({ ...open, counterparties: [] });
  t.equal(credential['validUntil'], new Date(Date.parse(ISSUED) + CREDENTIAL_TTL_MS).toISOString(), 'a day at most');
  const subject = credential['credentialSubject'] as Record<string, Record<string, JsonValue>>;
  t.strictSame(Object.keys(subject).sort(), ['mandate', 'principal']);
  t.strictSame(subject['mandate']?.['counterparties'], []);
  for (const name of ['escalation_threshold', 'max_uses']) t.notOk(name in (subject['mandate'] ?? {}), name);
});

t.test('its text is canonical, and amounts are exact in it', async (t) => {
  const text = mandateCredential(ISSUER, { accountId: ACCOUNT, terms: TERMS, issuedAtMs: Date.parse(ISSUED) });
  t.equal(canonicalize(JSON.parse(text) as JsonValue), text);
  t.match(text, '"amount_limit_per_month":9999999999999.99,');
  t.throws(() => credentialOf({ ...TERMS, per_action: 0.5 }), RangeError);
  t.throws(() => credentialOf({ ...TERMS, currency: 'XXX' }), RangeError);
});

t.test('it is signed as vc+jwt with cty vc; jose and the service check it, and it is no MAT', async (t) => {
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const text = mandateCredential(ISSUER, { accountId: ACCOUNT, terms: TERMS, issuedAtMs: Date.parse(ISSUED) });
  const token = signJws({ typ: CREDENTIAL_TYPE, kid: publicJwk(publicKey).kid }, text, privateKey);
  const { payload, protectedHeader } = await compactVerify(token, publicKey, { algorithms: ['ES256'] });
  t.equal(Buffer.from(payload).toString(), text);
  t.equal(protectedHeader.typ, 'vc+jwt');
  t.equal(protectedHeader.cty, 'vc');
  t.ok(checkJws(token, 'vc+jwt', () => publicKey).ok);
  t.strictSame(
    checkJws(token, 'mat+jwt', () => publicKey),
    { ok: false, problem: 'type' },
  );
});

t.test('the largest mandate there can be has a credential that can be checked', async (t) => {
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const largest: MandateTerms = {
    ...TERMS,
    scope: Array.from({ length: 100 }, (_, at) => `${String(at).padStart(3, '0')}${'x'.repeat(125)}.*`),
    // A quotation mark doubles in JSON; nothing that a counterparty may hold grows more.
    counterparties: Array.from({ length: 1_000 }, (_, at) => String(at).padEnd(256, '"')),
  };
  const emoji = { ...largest, counterparties: largest.counterparties.map((name) => name.replaceAll('"', '💶')) };
  for (const terms of [largest, emoji]) {
    const text = mandateCredential(ISSUER, { accountId: ACCOUNT, terms, issuedAtMs: Date.parse(ISSUED) });
    const token = signJws({ typ: CREDENTIAL_TYPE, kid: 'k' }, text, privateKey);
    t.ok(checkJws(token, CREDENTIAL_TYPE, () => publicKey).ok, `${token.length} characters`);
  }
});
