import { isAscii, isUtf8 } from 'node:buffer';
import { hash } from 'node:crypto';
import fc from 'fast-check';
import t from 'tap';
import * as pageBuffer from '../../../../cli/dossier-page/node-buffer.ts';
import * as pageCrypto from '../../../../cli/dossier-page/node-crypto.ts';

const { PageBuffer } = pageBuffer;

t.test('what stands in for Node in the page answers as Node does', async (t) => {
  const bytes = fc.uint8Array({ maxLength: 300 });
  fc.assert(
    fc.property(bytes, (some) => {
      const [own, nodes] = [PageBuffer.from(some), Buffer.from(some)];
      for (const encoding of ['latin1', 'utf8', 'base64url'] as const) {
        if (own.toString(encoding) !== nodes.toString(encoding)) return false;
      }
      const same = pageBuffer.isAscii(some) === isAscii(some) && pageBuffer.isUtf8(some) === isUtf8(some);
      return same && pageCrypto.hash('sha256', some, 'hex') === hash('sha256', some, 'hex');
    }),
  );
  fc.assert(
    fc.property(fc.string({ unit: 'binary' }), (text) => {
      const same = Buffer.from(PageBuffer.from(text, 'utf8')).equals(Buffer.from(text, 'utf8'));
      return same && pageCrypto.hash('sha256', text, 'hex') === hash('sha256', text, 'hex');
    }),
  );
  fc.assert(
    fc.property(bytes, (some) => {
      return (['base64url', 'hex'] as const).every((encoding) => {
        const text = Buffer.from(some).toString(encoding);
        return Buffer.from(PageBuffer.from(text, encoding)).equals(Buffer.from(some));
      });
    }),
  );
  const digest = pageCrypto.hash('sha256', 'a', 'buffer');
  t.same([...PageBuffer.concat([digest, digest])], [...Buffer.concat([digest, digest])]);
  const whole = Uint8Array.from({ length: 10 }, (_, i) => i);
  t.same([...PageBuffer.from(whole.buffer, 2, 3)], [2, 3, 4]);
});

t.test('whatever is not base64url in its only spelling is refused by the page as by Node', async (t) => {
  const isCanonical = (text: string, from: (text: string) => { toString(encoding: 'base64url'): string }) =>
    from(text).toString('base64url') === text;
  fc.assert(
    fc.property(fc.string({ unit: fc.constantFrom(...'AQgw-_=+/ \n', 'é') }), (text) => {
      const page = isCanonical(text, (one) => PageBuffer.from(one, 'base64url') as never);
      return page === isCanonical(text, (one) => Buffer.from(one, 'base64url'));
    }),
  );
  t.throws(() => pageCrypto.randomBytes(), 'the page makes nothing up');
  t.throws(() => pageCrypto.hash('md5', '', 'hex'), RangeError);
});
