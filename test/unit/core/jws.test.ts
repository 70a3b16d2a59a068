import { createHmac, createPublicKey, generateKeyPairSync, type KeyObject, sign } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { CompactSign, compactVerify, importJWK } from 'jose';
import t from 'tap';
import { publicJwk } from '../../../core/jwk.ts';
import { checkJws, isEs256, type JwsProblem, signJws, signJwsLater } from '../../../core/jws.ts';
import { CREDENTIAL_MAX_CHARACTERS, JWS_MAX_CHARACTERS } from '../../../core/limits.ts';

const VECTORS = new URL('../../../../shared/vectors/wycheproof/', import.meta.url);
const skip = existsSync(VECTORS) ? false : 'the test vectors are not beside this checkout';

const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
const jwk = publicJwk(publicKey);
const { kid } = jwk;
const keys = new Map<string, KeyObject>([[kid, publicKey]]);
const keyOf = (name: string): KeyObject | null => keys.get(name) ?? null;

const CLAIMS = { sub: 'mdt_1', amount: 12.5 };
const PAYLOAD = JSON.stringify(CLAIMS);
const TOKEN = signJws({ typ: 'mat+jwt', kid }, PAYLOAD, privateKey);
const ORDER = 0xffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551n;

const encoded = (value: unknown): string =>
  Buffer.from(typeof value === 'string' ? value : JSON.stringify(value)).toString('base64url');

/** A token with this header and payload whose signature is valid, whatever the header says. */
function signed(header: unknown, payload: unknown = CLAIMS): string {
  const input = `${encoded(header)}.${encoded(payload)}`;
  const signature = sign('sha256', Buffer.from(input), { key: privateKey, dsaEncoding: 'ieee-p1363' });
  return `${input}.${signature.toString('base64url')}`;
}

const GOOD = { alg: 'ES256', kid, typ: 'mat+jwt' };

function problemOf(token: string, typ: 'mat+jwt' | 'vc+jwt' = 'mat+jwt', find = keyOf): JwsProblem | null {
  const reading = checkJws(token, typ, find);
  return reading.ok ? null : reading.problem;
}

t.test('what is signed is read back: the key, the payload and its very text', async (t) => {
  const large = JSON.stringify({ amount: '0.1', text: 'Zürich — 東京', empty: {} });
  for (const payload of [PAYLOAD, large, '{}']) {
    for (const token of [
      signJws({ typ: 'mat+jwt', kid }, payload, privateKey),
      await signJwsLater({ typ: 'mat+jwt', kid }, payload, privateKey),
    ]) {
      const reading = checkJws(token, 'mat+jwt', keyOf);
      if (!reading.ok) throw new Error(reading.problem);
      t.equal(reading.kid, kid);
      t.equal(reading.text, payload);
      t.equal(reading.payload.size, Object.keys(JSON.parse(payload)).length);
    }
  }
});

t.test("jose reads the service's tokens, and the service jose's", async (t) => {
  const theirs = await importJWK({ ...jwk }, 'ES256');
  for (const typ of ['mat+jwt', 'vc+jwt'] as const) {
    for (const token of [
      signJws({ typ, kid }, PAYLOAD, privateKey),
      await signJwsLater({ typ, kid }, PAYLOAD, privateKey),
    ]) {
      const { payload, protectedHeader } = await compactVerify(token, theirs, { algorithms: ['ES256'] });
      t.equal(Buffer.from(payload).toString(), PAYLOAD);
      const cty = typ === 'vc+jwt' ? { cty: 'vc' } : {};
      t.strictSame({ ...protectedHeader }, { alg: 'ES256', kid, typ, ...cty });
    }
  }
  const header = { typ: 'mat+jwt', alg: 'ES256', kid };
  const token = await new CompactSign(Buffer.from(PAYLOAD)).setProtectedHeader(header).sign(privateKey);
  t.equal(problemOf(token), null, 'whatever the order of the members of its header');
});

t.test('a key that cannot sign is an error of the caller, in both ways to sign', async (t) => {
  t.throws(() => signJws({ typ: 'mat+jwt', kid }, PAYLOAD, publicKey));
  await t.rejects(async () => await signJwsLater({ typ: 'mat+jwt', kid }, PAYLOAD, publicKey));
});

t.test('no other algorithm is taken, not even with a signature that it would accept', async (t) => {
  for (const alg of ['none', 'None', 'HS256', 'ES384', 'ES256K', 'RS256', 'PS256', 'EdDSA', 'es256', '', null, 256]) {
    t.equal(problemOf(signed({ ...GOOD, alg })), 'algorithm', `alg ${alg}`);
  }
  t.equal(problemOf(signed({ kid, typ: 'mat+jwt' })), 'algorithm', 'no alg');
  t.equal(problemOf(`${encoded({ ...GOOD, alg: 'none' })}.${encoded(CLAIMS)}.`), 'algorithm', 'unsecured');
  const spki = publicKey.export({ format: 'pem', type: 'spki' });
  const input = `${encoded({ ...GOOD, alg: 'HS256' })}.${encoded(CLAIMS)}`;
  const mac = createHmac('sha256', spki).update(input).digest('base64url');
  t.equal(problemOf(`${input}.${mac}`), 'algorithm', 'the public key as an HMAC secret');
});

t.test('a header with anything but alg, kid and typ is refused, whatever the member says', async (t) => {
  const more = {
    ...{ crit: ['exp'], b64: false, jwk, jku: 'https://attacker.example/jwks', x5u: 'https://attacker.example/c' },
    ...{ x5c: ['MII='], x5t: 'AA', 'x5t#S256': 'AA', cty: 'JWT', zip: 'DEF', enc: 'A256GCM', nonce: '1', iss: 'x' },
  };
  for (const [name, value] of Object.entries(more)) {
    t.equal(problemOf(signed({ ...GOOD, [name]: value })), 'header', name);
  }
  t.equal(problemOf(signed({ ...GOOD, crit: [], b64: true })), 'header');
  t.equal(problemOf(signed(`{"alg":"ES256","kid":"${kid}","typ":"mat+jwt","__proto__":{}}`)), 'header', '__proto__');
});

t.test('a key that the header brings along is not used', async (t) => {
  const own = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const token = await new CompactSign(Buffer.from(PAYLOAD))
    .setProtectedHeader({ ...GOOD, jwk: { ...publicJwk(own.publicKey) } })
    .sign(own.privateKey);
  t.equal(problemOf(token), 'header');
});

t.test('a token names a known key exactly', async (t) => {
  for (const name of [
    undefined,
    null,
    1,
    '',
    `${kid} `,
    kid.toLowerCase(),
    '../x',
    "' or 1=1",
    'a'.repeat(129),
    [kid],
  ]) {
    t.equal(problemOf(signed({ ...GOOD, kid: name })), 'key_unknown', `kid ${JSON.stringify(name)}`);
  }
  t.equal(
    problemOf(TOKEN, 'mat+jwt', () => null),
    'key_unknown',
  );
  for (const name of ['__proto__', 'constructor', 'toString']) {
    t.equal(problemOf(signed({ ...GOOD, kid: name })), 'key_unknown', name);
  }
  const other = generateKeyPairSync('ec', { namedCurve: 'P-256' }).publicKey;
  t.equal(
    problemOf(TOKEN, 'mat+jwt', () => other),
    'signature',
  );
  for (const wrong of [
    generateKeyPairSync('ed25519').publicKey,
    generateKeyPairSync('ec', { namedCurve: 'P-384' }).publicKey,
    generateKeyPairSync('ec', { namedCurve: 'secp256k1' }).publicKey,
  ]) {
    t.equal(
      problemOf(TOKEN, 'mat+jwt', () => wrong),
      'key_unknown',
      'a key that ES256 is not for',
    );
  }
});

t.test('a token of one type is not one of another', async (t) => {
  for (const typ of ['JWT', 'MAT+JWT', 'application/mat+jwt', 'vc+jwt', 'at+jwt', '', null, undefined]) {
    t.equal(problemOf(signed({ ...GOOD, typ })), 'type', `typ ${typ}`);
  }
  t.equal(problemOf(TOKEN, 'vc+jwt'), 'type');
  t.equal(problemOf(signJws({ typ: 'vc+jwt', kid }, PAYLOAD, privateKey)), 'type');
  t.equal(problemOf(signed({ ...GOOD, typ: 'vc+jwt' }), 'vc+jwt'), 'header', 'a credential says what it holds');
  t.equal(problemOf(signed({ ...GOOD, typ: 'vc+jwt', cty: 'vp' }), 'vc+jwt'), 'header');
  t.equal(problemOf(signed({ ...GOOD, typ: 'vc+jwt', cty: 'vc' }), 'vc+jwt'), null);
});

t.test('a token has one text: no other base64url, no space, no further part', async (t) => {
  const [head = '', body = '', signature = ''] = TOKEN.split('.');
  const texts = [
    ...[`${TOKEN} `, ` ${TOKEN}`, `${TOKEN}\n`, `${TOKEN}=`, `${TOKEN}==`, `${TOKEN}.`, `.${TOKEN}`, `${TOKEN}.e30`],
    ...[`${head}=.${body}.${signature}`, `${head}.${body}`, `${head}..${body}.${signature}`, '', '.', '..x', 'e30'],
    ...[`${head}.${body.slice(0, 3)}\n${body.slice(3)}.${signature}`, `${head}.${body}.${signature}\u0000`],
    ...[`${head}. ${body}.${signature}`, `${head}.${body}.${signature.slice(0, 5)}*${signature.slice(5)}`],
  ];
  for (const text of texts) t.equal(problemOf(text), 'malformed', JSON.stringify(text.slice(-12)));
  const last = signature.slice(-1);
  const others = Array.from('ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_').filter(
    (c) => c !== last,
  );
  const accepted = others.filter((character) => problemOf(`${TOKEN.slice(0, -1)}${character}`) === null);
  t.same(accepted, [], 'no other last character');
  const standard = Buffer.from(signature, 'base64url').toString('base64');
  t.equal(problemOf(`${head}.${body}.${standard}`), 'malformed', 'the other alphabet');
});

t.test('no byte of a token can be changed', async (t) => {
  for (let at = 0; at < TOKEN.length; at++) {
    const other = TOKEN[at] === 'A' ? 'B' : 'A';
    if (problemOf(TOKEN.slice(0, at) + other + TOKEN.slice(at + 1)) === null) t.fail(`character ${at}`);
  }
  t.pass();
});

t.test('header and payload are strict JSON objects', async (t) => {
  const headers = [
    ...['[]', 'null', '1', '"x"', '', '{', `{"alg":"ES256","alg":"ES256","kid":"${kid}","typ":"mat+jwt"}`],
    ...[`{"alg":"none","\\u0061lg":"ES256","kid":"${kid}","typ":"mat+jwt"}`, `${JSON.stringify(GOOD)} x`],
    ...[`\ufeff${JSON.stringify(GOOD)}`],
  ];
  for (const header of headers) t.equal(problemOf(signed(header)), 'header', header);
  const payloads = [
    '[]',
    'null',
    '1',
    'foo',
    '',
    '{"sub":1,"sub":2}',
    '{"a":{"b":1,"\\u0062":2}}',
    '{} {}',
    '{"n":1e400}',
  ];
  for (const payload of payloads) t.equal(problemOf(signed(GOOD, payload)), 'payload', payload);
  const bytes = Buffer.concat([Buffer.from('{"a":"'), Buffer.of(0xff), Buffer.from('"}')]).toString('base64url');
  const input = `${encoded(GOOD)}.${bytes}`;
  const signature = sign('sha256', Buffer.from(input), { key: privateKey, dsaEncoding: 'ieee-p1363' });
  t.equal(problemOf(`${input}.${signature.toString('base64url')}`), 'payload', 'invalid UTF-8');
});

t.test('a token longer than any of its type is refused before anything is read', async (t) => {
  const filled = (typ: 'mat+jwt' | 'vc+jwt', bytes: number): string =>
    signJws({ typ, kid }, JSON.stringify({ filler: 'x'.repeat(bytes) }), privateKey);
  t.equal(problemOf(filled('mat+jwt', JWS_MAX_CHARACTERS * 0.7)), null);
  t.equal(problemOf(filled('mat+jwt', JWS_MAX_CHARACTERS)), 'too_long');
  t.equal(problemOf(filled('vc+jwt', JWS_MAX_CHARACTERS), 'vc+jwt'), null);
  t.equal(problemOf(filled('vc+jwt', CREDENTIAL_MAX_CHARACTERS), 'vc+jwt'), 'too_long');
});

t.test('r and s are in 1..n-1, 32 bytes each; DER is not a signature here', async (t) => {
  const text = TOKEN.slice(0, TOKEN.lastIndexOf('.'));
  const input = Buffer.from(text);
  const bytes = Buffer.from(TOKEN.slice(text.length + 1), 'base64url');
  const number = (half: Buffer): bigint => BigInt(`0x${half.toString('hex')}`);
  const half = (value: bigint): Buffer => Buffer.from(value.toString(16).padStart(64, '0'), 'hex');
  const [r, s] = [number(bytes.subarray(0, 32)), number(bytes.subarray(32))];
  t.ok(isEs256(input, Buffer.concat([half(r), half(s)]), publicKey));
  for (const [a, b] of [
    [0n, s],
    [r, 0n],
    [ORDER, s],
    [r, ORDER],
    [0n, 0n],
    [ORDER - r, s],
  ] as const) {
    t.notOk(isEs256(input, Buffer.concat([half(a), half(b)]), publicKey), `${a}, ${b}`);
  }
  if (r + ORDER < 2n ** 256n) t.notOk(isEs256(input, Buffer.concat([half(r + ORDER), half(s)]), publicKey));
  const der = sign('sha256', input, privateKey);
  for (const wrong of [der, bytes.subarray(0, 63), Buffer.concat([bytes, Buffer.of(0)]), Buffer.alloc(0)]) {
    t.equal(problemOf(`${text}.${wrong.toString('base64url')}`), 'signature', `${wrong.length} bytes`);
  }
  t.ok(isEs256(input, Buffer.concat([half(r), half(ORDER - s)]), publicKey), 'the twin of ECDSA: text is no identity');
});

interface P1363Group {
  readonly publicKeyPem: string;
  readonly tests: readonly { tcId: number; msg: string; sig: string; result: 'valid' | 'invalid'; comment: string }[];
}

t.test('Wycheproof: ECDSA P-256 with SHA-256 in IEEE P1363', { skip }, async (t) => {
  const groups = vectors<P1363Group>('ecdsa_secp256r1_sha256_p1363_test.json');
  let seen = 0;
  for (const { publicKeyPem, tests } of groups) {
    const key = createPublicKey(publicKeyPem);
    for (const { tcId, msg, sig, result, comment } of tests) {
      const accepted = isEs256(Buffer.from(msg, 'hex'), Buffer.from(sig, 'hex'), key);
      t.equal(accepted, result === 'valid', `${tcId} ${comment}`);
      seen += 1;
    }
  }
  t.ok(seen > 200, `${seen} vectors`);
});

interface JwsGroup {
  readonly public?: { readonly kty?: string; readonly x?: string; readonly y?: string; readonly kid?: string };
  readonly tests: readonly { tcId: number; jws: unknown; result: 'valid' | 'invalid'; comment: string }[];
}

t.test('Wycheproof: no invalid JWS passes, and valid ES256 fails for its type alone', { skip }, async (t) => {
  const groups = vectors<JwsGroup>('json_web_signature_test.json');
  let [valid, invalid] = [0, 0];
  for (const { public: known, tests } of groups) {
    const key = known?.kty === 'EC' ? keyFrom(known) : null;
    const find = (name: string): KeyObject | null => (name === known?.kid ? key : null);
    for (const { tcId, jws, result, comment } of tests) {
      const token = typeof jws === 'string' ? jws : JSON.stringify(jws);
      t.notOk(checkJws(token, 'mat+jwt', find).ok, `${tcId} ${comment}`);
      if (key === null) continue;
      const verdict = ES256_ELSEWHERE.has(comment) ? 'invalid' : es256Of(token, key);
      t.equal(verdict, result, `${tcId} ${comment}: form and signature, without the type`);
      if (result === 'valid') valid += 1;
      else invalid += 1;
    }
  }
  t.ok(valid >= 2 && invalid > 30, `${valid} valid and ${invalid} invalid of ES256`);
});

// Their signature is valid; what is wrong is the key's use, or the header, which the check above refused.
const ES256_ELSEWHERE = new Set(['rejectWrongUse', 'rejectWrongKeyOps']);

/** What form, algorithm and signature say of a token whose payload is no JSON. */
function es256Of(token: string, key: KeyObject): 'valid' | 'invalid' {
  const parts = token.split('.');
  if (parts.length !== 3 || parts.some((part) => Buffer.from(part, 'base64url').toString('base64url') !== part)) {
    return 'invalid';
  }
  const [head = '', body = '', signature = ''] = parts;
  const header: unknown = head === '' ? {} : JSON.parse(Buffer.from(head, 'base64url').toString());
  const names = Object.keys(header as object);
  if ((header as { alg?: string }).alg !== 'ES256' || names.some((name) => name !== 'alg' && name !== 'kid')) {
    return 'invalid';
  }
  return isEs256(Buffer.from(`${head}.${body}`), Buffer.from(signature, 'base64url'), key) ? 'valid' : 'invalid';
}

function keyFrom({ x = '', y = '' }: { readonly x?: string; readonly y?: string }): KeyObject | null {
  try {
    return createPublicKey({ key: { kty: 'EC', crv: 'P-256', x, y }, format: 'jwk' });
  } catch {
    return null;
  }
}

function vectors<G>(name: string): readonly G[] {
  return (JSON.parse(readFileSync(new URL(name, VECTORS), 'utf8')) as { testGroups: readonly G[] }).testGroups;
}
