import t from 'tap';
import { AgentKeys } from '../../../core/agent-keys.ts';
import { formatDidKey, verificationMethodOf } from '../../../core/did-key.ts';
import { SigningKey } from '../../../core/ed25519.ts';

const IDENTITY = Uint8Array.of(1, ...new Uint8Array(31));

t.test('a did:key gives its validated key, and the same one the next time', async (t) => {
  const keys = new AgentKeys();
  const signer = new SigningKey(Buffer.alloc(32, 1));
  const did = formatDidKey(signer.publicKey);
  const key = keys.get(did);
  t.same(key?.toBytes(), signer.publicKey);
  t.equal(keys.get(did), key);
  t.equal(await key?.verify(Buffer.from('m'), signer.sign(Buffer.from('m'))), true);
});

t.test('what is no did:key, or one of an unacceptable key, has none, however often it is asked for', async (t) => {
  const keys = new AgentKeys();
  const did = formatDidKey(new SigningKey(Buffer.alloc(32, 1)).publicKey);
  for (const text of ['', 'did:key:', `${did} `, verificationMethodOf(did), did.slice(8), formatDidKey(IDENTITY)]) {
    for (let i = 0; i < 3; i++) t.equal(keys.get(text), null, JSON.stringify(text));
  }
});

t.test('a verification method has its signer, and what is none has none, however often it is asked for', async (t) => {
  const keys = new AgentKeys();
  const did = formatDidKey(new SigningKey(Buffer.alloc(32, 1)).publicKey);
  const other = formatDidKey(new SigningKey(Buffer.alloc(32, 2)).publicKey);
  for (let i = 0; i < 3; i++) {
    t.equal(keys.signerOf(verificationMethodOf(did)), did);
    t.equal(keys.signerOf(verificationMethodOf(other)), other);
    for (const text of ['', did, `${did}#${other.slice(8)}`, `${verificationMethodOf(did)} `]) {
      t.equal(keys.signerOf(text), null, JSON.stringify(text));
    }
  }
});
