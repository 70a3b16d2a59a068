import { createHash } from 'node:crypto';
import fc from 'fast-check';
import t from 'tap';
import {
  isSecretToken,
  newSecretToken,
  SECRET_PREFIXES,
  sameHash,
  secretHash,
  secretTokenOf,
} from '../../../core/secret-token.ts';

const prefix = fc.constantFrom(...SECRET_PREFIXES);
const secretBytes = fc.uint8Array({ minLength: 32, maxLength: 32 });

t.test('a secret carries its 32 bytes and is a secret of its own kind only', async (t) => {
  const property = fc.property(prefix, secretBytes, (kind, bytes) => {
    const token = secretTokenOf(kind, Buffer.from(bytes));
    const others = SECRET_PREFIXES.filter((other) => other !== kind);
    const carried = Buffer.from(token.slice(4), 'base64url').equals(Buffer.from(bytes));
    return carried && isSecretToken(token, kind) && !others.some((other) => isSecretToken(token, other));
  });
  t.doesNotThrow(() => fc.assert(property));
});

t.test('of all spellings that decode to the same bytes, only the canonical one is accepted', async (t) => {
  const url = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_';
  const property = fc.property(secretBytes, (bytes) => {
    const token = secretTokenOf('gwt', Buffer.from(bytes));
    const accepted = [...url].filter((last) => {
      const spelling = token.slice(0, -1) + last;
      const same = Buffer.from(spelling.slice(4), 'base64url').equals(Buffer.from(bytes));
      return same && isSecretToken(spelling, 'gwt');
    });
    return accepted.length === 1 && accepted[0] === token.at(-1);
  });
  t.doesNotThrow(() => fc.assert(property));
});

t.test('anything around or inside a secret that a decoder would skip is refused', async (t) => {
  const token = secretTokenOf('mak', Buffer.alloc(32, 0xfb));
  t.ok(isSecretToken(token, 'mak'));
  const wrong: unknown[] = [
    ...[`${token}=`, `${token} `, `${token}\n`, ` ${token}`, token.slice(0, -1), `${token}A`, token.toUpperCase()],
    ...[token.replaceAll('-', '+'), token.replaceAll('_', '/'), `${token.slice(0, 20)}\n${token.slice(21)}`],
    ...['mak_', '', null, undefined, 7, [token], { toString: () => token }],
  ];
  for (const text of wrong) t.notOk(isSecretToken(text, 'mak'), JSON.stringify(text));
});

t.test('new secrets are well formed and never repeat', async (t) => {
  for (const kind of SECRET_PREFIXES) t.ok(isSecretToken(newSecretToken(kind), kind), kind);
  t.equal(new Set(Array.from({ length: 1000 }, () => newSecretToken('etk'))).size, 1000);
});

t.test('what is stored of a secret is the SHA-256 of its text, and hashes compare by value and length', async (t) => {
  const token = newSecretToken('ctk');
  const expected = createHash('sha256').update(token).digest('hex');
  t.equal(secretHash(token), expected);
  t.ok(sameHash(secretHash(token), expected));
  t.notOk(sameHash(expected, secretHash(newSecretToken('ctk'))));
  t.notOk(sameHash(expected, expected.slice(0, -1)));
  t.notOk(sameHash(expected, ''));
  t.notOk(sameHash('\u0161', 'a'), 'no character folds onto another');
});
