import { generateKeyPairSync } from 'node:crypto';
import { jwtVerify } from 'jose';
import t from 'tap';
import { type Action, contextDigest, contextText } from '../../../core/action.ts';
import { isJsonObject, parseStrictJson } from '../../../core/json.ts';
import { publicJwk } from '../../../core/jwk.ts';
import { checkJws, signJws } from '../../../core/jws.ts';
import { isMatExpired, MAT_TYPE, type Mat, type MatFacts, matClaims, readMat } from '../../../core/mat.ts';
import { newTypeId } from '../../../core/type-id.ts';

const ISSUER = 'https://gateway.example';
const AT_MS = Date.parse('2026-03-01T10:00:00.999Z');
const ACTION: Action = { type: 'payments.create', amount_minor: 1250, currency: 'EUR', counterparty: 'acme' };

function factsOf(action: Action = ACTION, more: Partial<MatFacts> = {}): MatFacts {
  return {
    accountId: newTypeId('acc', AT_MS),
    mandateId: newTypeId('mdt', AT_MS),
    mandateDigest: `sha-256:${'ab'.repeat(32)}`,
    receiptId: newTypeId('rcp', AT_MS),
    decidedAtMs: AT_MS,
    decision: 'allow',
    ctx: contextDigest(action),
    action,
    evidence: { seq: 7, hash: 'cd'.repeat(32) },
    ...more,
  };
}

function readText(text: string): Mat | null {
  const node = parseStrictJson(Buffer.from(text));
  return isJsonObject(node) ? readMat(node) : null;
}

t.test('a MAT has the claims of the contract and no other, and jose reads it', async (t) => {
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const { kid } = publicJwk(publicKey);
  const facts = factsOf();
  const token = signJws({ typ: MAT_TYPE, kid }, matClaims(ISSUER, facts), privateKey);
  const { payload, protectedHeader } = await jwtVerify(token, publicKey, {
    ...{ algorithms: ['ES256'], typ: 'mat+jwt', issuer: ISSUER, audience: facts.accountId },
    currentDate: new Date(AT_MS),
  });
  t.equal(protectedHeader.kid, kid);
  t.strictSame(
    { ...payload },
    {
      ...{ iss: ISSUER, sub: facts.mandateId, aud: facts.accountId, jti: facts.receiptId },
      ...{ iat: Math.floor(AT_MS / 1000), exp: Math.floor(AT_MS / 1000) + 600, decision: 'allow', ctx: facts.ctx },
      action: { type: 'payments.create', amount: { value: 12.5, currency: 'EUR' }, counterparty: 'acme' },
      mandate_digest: facts.mandateDigest,
      evidence: { seq: 7, hash: facts.evidence.hash },
      assurance_level: 1,
    },
  );
  const reading = checkJws(token, MAT_TYPE, () => publicKey);
  if (!reading.ok) throw new Error(reading.problem);
  const { decidedAtMs, ...stated } = facts;
  const issuedAtS = Math.floor(decidedAtMs / 1000);
  t.strictSame(readMat(reading.payload), { ...stated, issuer: ISSUER, issuedAtS, expiresAtS: issuedAtS + 600 });
});

t.test('an amount is in it to the last digit, and comes back as the minor units it was', async (t) => {
  const amounts = [
    ...[
      [0, 'EUR', '0'],
      [1, 'EUR', '0.01'],
      [10, 'EUR', '0.1'],
      [30, 'EUR', '0.3'],
      [999_999_999_999_999, 'EUR', '9999999999999.99'],
    ],
    ...[
      [1_000_000_000_000_000, 'JPY', '1000000000000000'],
      [1_000_000_000_000_001 - 1, 'KWD', '1000000000000'],
      [1, 'KWD', '0.001'],
    ],
  ] as const;
  for (const [minor, currency, written] of amounts) {
    const action: Action = { type: 'a', amount_minor: minor, currency, counterparty: null };
    const text = matClaims(ISSUER, factsOf(action));
    t.ok(text.includes(`"action":${contextText(action)}`), 'the very text that ctx is the digest of');
    t.ok(text.includes(`"value":${written}}`), `${written} in ${text}`);
    t.strictSame(readText(text)?.action, action);
  }
});

t.test('names of every kind survive', async (t) => {
  for (const counterparty of ['Zürich', '東京', 'a "quoted" \\ name', '💶', "O'Brien </script>"]) {
    const action: Action = { ...ACTION, counterparty };
    t.strictSame(readText(matClaims(ISSUER, factsOf(action)))?.action, action, counterparty);
  }
});

t.test('claims that contradict each other, lack something or say more are no MAT', async (t) => {
  const facts = factsOf();
  const text = matClaims(ISSUER, facts);
  t.not(readText(text), null);
  const exp = Math.floor(AT_MS / 1000) + 600;
  const changes: [string, string][] = [
    ['"value":12.5', '"value":12.51'],
    ['"value":12.5', '"value":"12.5"'],
    ['"value":12.5', '"value":1.25e1'],
    ['"value":12.5', '"value":12.500'],
    ['"value":12.5', '"value":-12.5'],
    ['"EUR"', '"USD"'],
    ['"EUR"', '"eur"'],
    ['"acme"', '"acme2"'],
    [',"counterparty":"acme"', ''],
    ['"payments.create"', '"payments.refund"'],
    [facts.ctx, `sha-256:${'00'.repeat(32)}`],
    [`"${facts.ctx}"`, 'null'],
    [`"exp":${exp}`, `"exp":${exp + 1}`],
    [`"exp":${exp}`, `"exp":"${exp}"`],
    [`"exp":${exp},`, ''],
    [`"iat":${exp - 600}`, `"iat":${exp - 600}.5`],
    ['"decision":"allow"', '"decision":"allowed"'],
    ['"assurance_level":1', '"assurance_level":2'],
    ['"assurance_level":1', '"assurance_level":1,"admin":true'],
    ['"assurance_level":1', '"assurance_level":1,"nbf":0'],
    [facts.mandateId, facts.accountId],
    [facts.receiptId, 'rcp_x'],
    [facts.accountId, facts.accountId.toUpperCase()],
    ['"seq":7', '"seq":-7'],
    ['"seq":7', '"seq":9007199254740994'],
    ['"seq":7', '"seq":7,"more":1'],
    [facts.evidence.hash, facts.evidence.hash.toUpperCase()],
    [ISSUER, 'javascript:alert(1)'],
  ];
  for (const [from, to] of changes) {
    const changed = text.replace(from, to);
    t.not(changed, text, `${from} is in it`);
    t.equal(readText(changed), null, `${from} → ${to}`);
  }
});

t.test('a MAT is valid for ten minutes from the second it was issued, and is read after that too', async (t) => {
  const mat = readText(matClaims(ISSUER, factsOf()));
  if (mat === null) throw new Error('no MAT');
  const endMs = Date.parse('2026-03-01T10:10:00.000Z');
  t.equal(mat.expiresAtS * 1000, endMs);
  t.notOk(isMatExpired(mat, AT_MS));
  t.notOk(isMatExpired(mat, endMs - 1));
  t.ok(isMatExpired(mat, endMs));
});
