import { generateSync } from 'otplib';
import t from 'tap';
import { newTotpSecret, readTotpSecret, totpStep } from '../../../../control-plane/accounts/totp.ts';

/** `12345678901234567890` of RFC 6238, Appendix B. */
const RFC_SECRET = 'GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ';

t.test("codes are those of RFC 6238's vectors, in their last six digits", async (t) => {
  const vectors: [number, string][] = [
    [59, '287082'],
    [1_111_111_109, '081804'],
    [1_111_111_111, '050471'],
    [1_234_567_890, '005924'],
    [2_000_000_000, '279037'],
    [20_000_000_000, '353130'],
  ];
  for (const [seconds, code] of vectors) {
    t.equal(totpStep(RFC_SECRET, code, seconds * 1000), Math.floor(seconds / 30), `at ${seconds}`);
  }
});

t.test('a code is good in its own step and the ones beside it, and tells which step is its own', async (t) => {
  const step = 50_000_000;
  const code = generateSync({ secret: RFC_SECRET, epoch: step * 30 });
  const found = [-2, -1, 0, 1, 2].map((away) => totpStep(RFC_SECRET, code, (step + away) * 30_000));
  t.same(found, [null, step, step, step, null]);
  t.equal(totpStep(RFC_SECRET, code, (step + 2) * 30_000 - 1), step, 'to the last millisecond');
  t.equal(totpStep(RFC_SECRET, code, (step - 1) * 30_000 - 1), null, 'not a millisecond early');
});

t.test('what is not six digits is no code', async (t) => {
  for (const code of ['', '12345', '1234567', '12345a', ' 12345', '１２３４５６']) {
    t.equal(totpStep(RFC_SECRET, code, 59_000), null, JSON.stringify(code));
  }
});

t.test('a secret is base32 of at least sixteen bytes, in any usual spelling', async (t) => {
  t.equal(readTotpSecret('gezd gnbv gy3t qojq gezd gnbv gy3t qojq'), RFC_SECRET);
  t.equal(readTotpSecret(newTotpSecret())?.length, 32);
  for (const text of ['', 'GEZDGNBVGY3TQOJQ', `${RFC_SECRET.slice(0, -1)}1`, `${RFC_SECRET}!`, 'A'.repeat(200)]) {
    t.equal(readTotpSecret(text), null, text.slice(0, 40));
  }
});
