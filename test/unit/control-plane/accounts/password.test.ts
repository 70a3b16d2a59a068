import { generateKeyPairSync, sign } from 'node:crypto';
import t from 'tap';
import { hashPassword, passwordProblem, verifyPassword } from '../../../../control-plane/accounts/password.ts';

t.test('a hash keeps its parameters, has its own salt, and only its password fits', async (t) => {
  const [one, two] = await Promise.all([hashPassword('an unlikely sentence'), hashPassword('an unlikely sentence')]);
  t.match(one, /^scrypt\$ln=15,r=8,p=1\$/);
  t.not(one, two);
  t.equal(await verifyPassword('an unlikely sentence', one), true);
  t.equal(await verifyPassword('an unlikely sentencE', one), false);
  t.equal(await verifyPassword('', one), false);
});

t.test('the same password in another Unicode form fits', async (t) => {
  const hash = await hashPassword('café au lait s’il vous plaît'.normalize('NFD'));
  t.equal(await verifyPassword('café au lait s’il vous plaît'.normalize('NFC'), hash), true);
});

t.test('a hash with other parameters of ours is verified by those', async (t) => {
  // RFC 7914 §12 has no vector of 32 bytes; this is scrypt('an unlikely sentence', 16 zero bytes, N=2^4, r=8, p=1).
  const { scryptSync } = await import('node:crypto');
  const key = scryptSync('an unlikely sentence', Buffer.alloc(16), 32, { N: 16, r: 8, p: 1 }).toString('base64url');
  const stored = `scrypt$ln=4,r=8,p=1$${'A'.repeat(22)}$${key}`;
  t.equal(await verifyPassword('an unlikely sentence', stored), true);
  t.equal(await verifyPassword('another sentence', stored), false);
});

t.test('nobody has a password', async (t) => {
  t.equal(await verifyPassword('an unlikely sentence', null), false);
});

t.test('a stored text that is no hash of ours is an error, never a match', async (t) => {
  for (const stored of ['', 'plain', `scrypt$ln=30,r=8,p=1$${'A'.repeat(22)}$${'A'.repeat(43)}`]) {
    await t.rejects(verifyPassword('plain', stored), /password hash/, stored);
  }
});

t.test('passwords that are short, common, uniform or the address are not taken', async (t) => {
  const refused = [
    'short',
    'Password1234',
    'abababababab',
    'ada.lovelace@example.com',
    'ADA.LOVELACE',
    'x'.repeat(257),
  ];
  for (const password of refused) t.ok(passwordProblem(password, 'ada.lovelace@example.com'), password.slice(0, 30));
  t.equal(passwordProblem('an unlikely sentence', 'ada.lovelace@example.com'), null);
  t.ok(passwordProblem('😀😃😄😁😆😅', 'a@example.com'), 'characters are counted, not code units');
});

t.test('however many sign in, threads stay for the signatures of decisions', async (t) => {
  let hashed = 0;
  const hashes = Array.from({ length: 12 }, async () => {
    await hashPassword('an unlikely sentence');
    hashed += 1;
  });
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  await new Promise((resolve) => sign('sha256', Buffer.from('a token'), privateKey, resolve));
  t.ok(hashed <= 4, `a signature waited for ${hashed} hashes`);
  await Promise.all(hashes);
  t.equal(hashed, 12);
});

t.test('more hashes than can wait are refused at once, and later ones are taken again', async (t) => {
  const results = await Promise.allSettled(Array.from({ length: 40 }, () => verifyPassword('x', null)));
  const refused = results.filter(({ status }) => status === 'rejected');
  t.equal(refused.length, 8);
  t.match(refused[0], { reason: { code: 'overloaded' } });
  t.equal(await verifyPassword('x', null), false);
});
