import { randomBytes } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import t from 'tap';
import { readTrustAnchors, type X509 } from '../../../core/certificate.ts';
import {
  checkTimestampResponse,
  checkTimestampToken,
  type TimestampExpectation,
  timestampRequest,
  type ValidTimestamp,
} from '../../../core/timestamp-token.ts';
import {
  type CraftedHow,
  grantedAnswer,
  opensslMissing,
  type ReplyOptions,
  type TestCertificate,
  TestTsa,
} from '../../tsa.ts';

const skip = opensslMissing();
const MINUTE_MS = 60_000;
/** Two thousand checks of some milliseconds each, on whatever machine. */
const MUTATIONS_TIMEOUT_MS = 3 * MINUTE_MS;

const anchorsOf = async (tsa: TestTsa): Promise<readonly X509[]> => readTrustAnchors(await tsa.rootPem());

function numberOf(nonce: Uint8Array): bigint {
  return BigInt(`0x${Buffer.from(nonce).toString('hex')}`);
}

async function expectation(tsa: TestTsa): Promise<TimestampExpectation & { readonly nonce: Uint8Array }> {
  const clock = { nowMs: Date.now(), toleranceMs: MINUTE_MS };
  return { digest: randomBytes(32), nonce: randomBytes(16), anchors: await anchorsOf(tsa), clock };
}

async function granted(tsa: TestTsa, options: ReplyOptions = {}): Promise<[ValidTimestamp, TimestampExpectation]> {
  const expected = await expectation(tsa);
  const reply = await tsa.reply(timestampRequest(expected.digest, expected.nonce), options);
  const verdict = await checkTimestampResponse(reply, expected);
  if (!verdict.valid) throw new Error(verdict.problem);
  return [verdict, expected];
}

t.test(
  'a timestamp of openssl ts is accepted, and openssl ts accepts the token that is kept of it',
  { skip },
  async (t) => {
    const tsa = await TestTsa.make(t);
    const between = await tsa.issueAuthority();
    const signer = await tsa.issue({ issuer: between });
    const kinds: ReplyOptions[] = [
      {},
      { hash: 'sha384' },
      { hash: 'sha512', ess: 'sha512' },
      { ess: 'sha1' },
      { signer, chain: [between, tsa.root] },
      { signer, chain: [between] },
      // What is not of the path does not stay in the token.
      { signer, chain: [tsa.signer, between, await tsa.issueAuthority()] },
    ];
    for (const kind of kinds) {
      const [verdict, expected] = await granted(tsa, kind);
      t.match(verdict, { valid: true, accuracyMs: 1500, tsa: 'CN=Test TSA, O=Example', policy: '1.2.3.4.1' });
      t.same(verdict.checked, ['imprint', 'signature', 'certificate', 'nonce', 'clock', 'chain']);
      t.same(verdict.unchecked, [{ check: 'revocation', why: verdict.unchecked[0]?.why }]);
      t.ok(Math.abs(verdict.genTimeMs - Date.now()) < MINUTE_MS);
      t.equal(verdict.genTime, new Date(verdict.genTimeMs).toISOString());
      t.ok(await tsa.verifies(verdict.token, expected.digest), 'openssl ts -verify');
      t.notOk(await tsa.verifies(verdict.token, randomBytes(32)));
      const again = await checkTimestampToken(verdict.token, { ...expected, nonce: null, clock: null });
      t.match(again, { valid: true, genTime: verdict.genTime, token: verdict.token });
    }
  },
);

t.test('without trust anchor, nonce and clock the verdict says that these were not checked', { skip }, async (t) => {
  const tsa = await TestTsa.make(t);
  const [{ token }, { digest }] = await granted(tsa);
  const verdict = await checkTimestampToken(token, { digest, nonce: null, anchors: [], clock: null });
  if (!verdict.valid) throw new Error(verdict.problem);
  t.same(verdict.checked, ['imprint', 'signature', 'certificate']);
  t.same(
    verdict.unchecked.map(({ check }) => check),
    ['revocation', 'nonce', 'clock', 'chain'],
  );
});

t.test('a request states digest, nonce and that certificates are wanted, as openssl reads it', { skip }, async (t) => {
  const tsa = await TestTsa.make(t);
  for (const nonce of [new Uint8Array(16).fill(255), new Uint8Array(16), Uint8Array.of(...new Uint8Array(15), 1)]) {
    const expected = { ...(await expectation(tsa)), nonce };
    const reply = await tsa.reply(timestampRequest(expected.digest, nonce));
    t.match(await checkTimestampResponse(reply, expected), { valid: true }, Buffer.from(nonce).toString('hex'));
  }
  t.throws(() => timestampRequest(new Uint8Array(20), new Uint8Array(16)), TypeError);
  t.throws(() => timestampRequest(new Uint8Array(32), new Uint8Array(8)), TypeError);
});

t.test(
  'a timestamp about something else, for somebody else or of another time is refused for that',
  { skip },
  async (t) => {
    const tsa = await TestTsa.make(t);
    const expected = await expectation(tsa);
    const { digest } = expected;
    const nonce = numberOf(expected.nonce);
    const cases: [string, Promise<Buffer>][] = [
      ['imprint', tsa.crafted({ digest: randomBytes(32), nonce })],
      ['imprint', tsa.crafted({ digest: digest.subarray(0, 31), nonce })],
      ['nonce', tsa.crafted({ digest, nonce: nonce + 1n })],
      ['nonce', tsa.crafted({ digest })],
      ['time', tsa.crafted({ digest, nonce, time: new Date(Date.now() - 10 * MINUTE_MS) })],
      ['time', tsa.crafted({ digest, nonce, time: new Date(Date.now() + 10 * MINUTE_MS) })],
      ['malformed', tsa.crafted({ digest, nonce, version: 2 })],
      ['malformed', tsa.crafted({ digest, nonce }, tsa.signer, { type: '1.2.840.113549.1.7.1' })],
      ['rejected', tsa.reply(timestampRequest(digest, expected.nonce), { digests: 'sha512' })],
      ['rejected', tsa.crafted({ digest, nonce }).then((answer) => grantedAnswer(answer.subarray(9), 1))],
    ];
    for (const [reason, answer] of cases) {
      t.match(await checkTimestampResponse(await answer, expected), {
        valid: false,
        reason,
        problem: /^The timestamp .+\.$/,
      });
    }
    t.match(
      await checkTimestampResponse(await tsa.crafted({ digest, nonce }), expected),
      { valid: true },
      'as crafted',
    );
  },
);

t.test('a certificate that is not one for timestamps, or not trusted, is refused', { skip }, async (t) => {
  const tsa = await TestTsa.make(t);
  const stranger = await TestTsa.make(t);
  const expected = await expectation(tsa);
  const { digest } = expected;
  const use = 'extendedKeyUsage=';
  const refusedFor = async (reason: string, problem: RegExp, signer: TestCertificate): Promise<void> => {
    const answer = await tsa.crafted({ digest, nonce: numberOf(expected.nonce) }, signer);
    t.match(await checkTimestampResponse(answer, expected), { valid: false, reason, problem }, problem.source);
  };
  await refusedFor(
    'certificate',
    /no extended key usage/,
    await tsa.issue({ extensions: ['keyUsage=digitalSignature'] }),
  );
  await refusedFor('certificate', /critical/, await tsa.issue({ extensions: [`${use}timeStamping`] }));
  const both = await tsa.issue({ extensions: [`${use}critical,timeStamping,codeSigning`] });
  await refusedFor('certificate', /for timestamps only/, both);
  const usage = ['keyUsage=digitalSignature,keyCertSign', `${use}critical,timeStamping`];
  await refusedFor('certificate', /beyond signatures/, await tsa.issue({ extensions: usage }));
  const unknown = [`${use}critical,timeStamping`, '1.2.3.4.5=critical,ASN1:NULL'];
  await refusedFor(
    'certificate',
    /critical extension that is not known \(1\.2\.3\.4\.5\)/,
    await tsa.issue({ extensions: unknown }),
  );
  await refusedFor('certificate', /had expired/, await tsa.issue({ to: '20250101000000Z' }));
  await refusedFor('certificate', /not yet valid/, await tsa.issue({ from: '20980101000000Z' }));
  await refusedFor('signature', /RSA key of 1024 bits/, await tsa.issue({ keyBits: 1024 }));
  await refusedFor('chain', /a certificate has a wrong signature/, stranger.signer);
  await refusedFor('chain', /no path/, await tsa.issue({ issuer: await tsa.issueAuthority() }));
});

t.test(
  'signatures with RSA-PSS, on each curve and by a key identifier are checked, others refused',
  { skip },
  async (t) => {
    const tsa = await TestTsa.make(t);
    const expected = { ...(await expectation(tsa)), nonce: null };
    const { digest } = expected;
    const identified = ['subjectKeyIdentifier=hash', 'extendedKeyUsage=critical,timeStamping'];
    const pss = ['-keyopt', 'rsa_padding_mode:pss'];
    const known: [TestCertificate, CraftedHow][] = [
      [tsa.signer, { more: pss }],
      [tsa.signer, { md: 'sha512', more: [...pss, '-keyopt', 'rsa_pss_saltlen:20'] }],
      [await tsa.issue({ curve: 'P-256' }), {}],
      [await tsa.issue({ curve: 'P-384' }), { md: 'sha384' }],
      [await tsa.issue({ curve: 'P-521' }), { md: 'sha512' }],
      [await tsa.issue({ extensions: identified }), { more: ['-keyid'] }],
    ];
    for (const [signer, how] of known) {
      const verdict = await checkTimestampResponse(await tsa.crafted({ digest }, signer, how), expected);
      t.match(verdict, { valid: true }, JSON.stringify([how, verdict]));
      if (!verdict.valid) continue;
      t.ok(await tsa.verifiesAsCms(verdict.token));
      const changed = Uint8Array.from(verdict.token);
      changed[changed.length - 1] = (changed[changed.length - 1] ?? 0) ^ 1;
      t.match(await checkTimestampToken(changed, expected), { valid: false, reason: 'signature' });
    }
    const unknown: [TestCertificate, CraftedHow][] = [
      [tsa.signer, { md: 'sha1' }],
      [tsa.signer, { md: 'sha3-256' }],
      [tsa.signer, { more: [...pss, '-keyopt', 'rsa_mgf1_md:sha512'] }],
      [await tsa.issue({ curve: 'secp256k1' }), {}],
    ];
    for (const [signer, how] of unknown) {
      const verdict = await checkTimestampResponse(await tsa.crafted({ digest }, signer, how), expected);
      t.match(verdict, { valid: false, reason: /^(signature|certificate)$/ }, JSON.stringify([how, verdict]));
    }
  },
);

t.test('an issuer that may not issue, or not at that time, makes no path', { skip }, async (t) => {
  const tsa = await TestTsa.make(t);
  const anchors = await anchorsOf(tsa);
  const proper = { digest: new Uint8Array(32), nonce: null, clock: null };
  const ca = 'basicConstraints=critical,CA:true';
  const cases: [RegExp, TestCertificate][] = [
    [/not a certificate authority/, await tsa.issue({ subject: '/CN=No authority' })],
    [/may not sign certificates/, await tsa.issueAuthority({ extensions: [ca, 'keyUsage=critical,cRLSign'] })],
    [/had expired/, await tsa.issueAuthority({ to: '20250101000000Z' })],
    [/not known/, await tsa.issueAuthority({ extensions: [ca, 'nameConstraints=critical,permitted;DNS:example.com'] })],
  ];
  for (const [problem, between] of cases) {
    const signer = await tsa.issue({ issuer: between });
    const reply = await tsa.reply(timestampRequest(proper.digest, new Uint8Array(16)), { signer, chain: [between] });
    t.match(await checkTimestampResponse(reply, { ...proper, anchors }), { valid: false, reason: 'chain', problem });
  }
  const short = await tsa.issueAuthority({ extensions: [`${ca},pathlen:0`] });
  const below = await tsa.issueAuthority({ issuer: short });
  const signer = await tsa.issue({ issuer: below });
  const reply = await tsa.reply(timestampRequest(proper.digest, new Uint8Array(16)), { signer, chain: [below, short] });
  const verdict = await checkTimestampResponse(reply, { ...proper, anchors });
  t.match(verdict, { valid: false, reason: 'chain', problem: /allows no path of that length/ });
  const direct = readTrustAnchors(await readFile(signer.certificate, 'utf8'));
  t.match(await checkTimestampResponse(reply, { ...proper, anchors: direct }), { valid: true }, 'an anchor of its own');
});

t.test('certificates that issue each other in circles end the search', { skip }, async (t) => {
  const tsa = await TestTsa.make(t);
  const first = await tsa.issueAuthority({ subject: '/CN=One' });
  const second = await tsa.issueAuthority({ subject: '/CN=Two', issuer: first });
  // Another certificate of the first name and key would do; of its name alone, the signature stops it.
  const third = await tsa.issueAuthority({ subject: '/CN=One', issuer: second });
  const signer = await tsa.issue({ issuer: second });
  const stranger = await anchorsOf(await TestTsa.make(t));
  const digest = new Uint8Array(32);
  const reply = await tsa.reply(timestampRequest(digest, new Uint8Array(16)), {
    signer,
    chain: [first, second, third],
  });
  const verdict = await checkTimestampResponse(reply, { digest, nonce: null, clock: null, anchors: stranger });
  t.match(verdict, { valid: false, reason: 'chain' });
});

t.test(
  'no byte of a kept token can be another one, and garbage is refused without an error',
  { skip, timeout: MUTATIONS_TIMEOUT_MS },
  async (t) => {
    const tsa = await TestTsa.make(t);
    const [{ token }, { digest, anchors }] = await granted(tsa, { hash: 'sha384' });
    const expected = { digest, anchors, nonce: null, clock: null };
    const accepted: number[] = [];
    for (let at = 0; at < token.length; at++) {
      const changed = Uint8Array.from(token);
      changed[at] = (changed[at] ?? 0) ^ (1 << (at % 8));
      if ((await checkTimestampToken(changed, expected)).valid) accepted.push(at);
    }
    t.same(accepted, []);
    for (let length = 0; length < token.length; length += 7) {
      t.match(
        await checkTimestampToken(token.slice(0, length), expected),
        { valid: false },
        `the first ${length} bytes`,
      );
    }
    const deep = new Uint8Array(60_000).map((_, at) => (at % 2 === 0 ? 0x30 : 0x80));
    for (const garbage of [new Uint8Array(), randomBytes(2000), deep, Uint8Array.of(...token, 0)]) {
      t.match(await checkTimestampToken(garbage, expected), { valid: false, reason: 'malformed' });
      t.match(await checkTimestampResponse(garbage, expected), { valid: false, reason: 'malformed' });
    }
    t.match(await checkTimestampToken(new Uint8Array(70_000), expected), { valid: false, reason: 'too_large' });
  },
);

t.test('foreign text in an answer is made inert', { skip }, async (t) => {
  const tsa = await TestTsa.make(t);
  const signer = await tsa.issue({ subject: '/CN=<img src=x onerror=alert(1)>' });
  const [verdict] = await granted(tsa, { signer });
  t.equal(verdict.tsa, 'CN=?img src=x onerror=alert(1)?');
});

t.test('a trust file holds whole certificates and nothing else', { skip }, async (t) => {
  const tsa = await TestTsa.make(t);
  const pem = await tsa.rootPem();
  t.equal(readTrustAnchors(`${pem}\n${pem}`).length, 2);
  const key = await readFile(tsa.root.key, 'utf8');
  for (const text of [
    '',
    'no PEM',
    pem.slice(0, -30),
    `${pem}${key}`,
    pem.replace(/M/, '!'),
    pem.replace(/\nM/, '\nA'),
  ]) {
    t.throws(() => readTrustAnchors(text), { name: 'CertificateProblem' });
  }
});
