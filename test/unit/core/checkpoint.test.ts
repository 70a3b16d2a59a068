import { createHash } from 'node:crypto';
import fc from 'fast-check';
import t from 'tap';
import {
  checkpointText,
  logKey,
  logOrigin,
  readCheckpoint,
  signCheckpoint,
  verifyCheckpoint,
} from '../../../core/checkpoint.ts';
import { readPublicKey, SigningKey } from '../../../core/ed25519.ts';
import { readPublicKeyNoble } from '../../../core/ed25519-noble.ts';
import {
  cosignature,
  cosignedMessage,
  NOTE_SIGNATURE,
  readNote,
  readVerifierKey,
  signatureLine,
  verifierKey,
  verifierKeyText,
  verifyNote,
} from '../../../core/signed-note.ts';

const KEY = new SigningKey(Buffer.alloc(32, 7));
const WITNESS = new SigningKey(Buffer.alloc(32, 9));
const ORIGIN = 'mandates.example.com/acc_01jv9h2n8ke5rvq3s4t6w7x8y9';
const LOG = logKey(ORIGIN, KEY.publicKey);
const WITNESS_KEY = verifierKey('witness.example.com/w1', NOTE_SIGNATURE.cosignature, WITNESS.publicKey);
const ROOT = createHash('sha256').update('root').digest('hex');
const NOTE = signCheckpoint({ size: 20_852_163, root: ROOT }, LOG, (message) => KEY.sign(message));
const ENGINES = [readPublicKey, readPublicKeyNoble];

function cosigned(note: string, timestampS: number, text = readNote(note)!.text): string {
  const signature = cosignature(timestampS, WITNESS.sign(cosignedMessage(text, timestampS)));
  return note + signatureLine({ name: WITNESS_KEY.name, keyId: WITNESS_KEY.id, signature });
}

// The example of c2sp.org/tlog-cosignature, whose keys are not published.
const C2SP_EXAMPLE = `example.com/behind-the-sofa
20852163
CsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=

— example.com/behind-the-sofa \
Az3grlgtzPICa5OS8npVmf1Myq/5IZniMp+ZJurmRDeOoRDe4URYN7u5/Zhcyv2q1gGzGku9nTo+zyWE+xeMcTOAYQ8=
— witness.example.com/w1 \
jWbPPwAAAABkGFDLEZMHwSRaJNiIDoe9DYn/zXcrtPHeolMI5OWXEhZCB9dlrDJsX3b2oyin1nPZqhf5nNo0xUe+mbIUBkBIfZ+qnA==
`;

// The verifier key and note of golang.org/x/mod/sumdb/note's documentation.
const GO_KEY = 'PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW';
const GO_NOTE = `If you think cryptography is the answer to your problem,
then you don't know what your problem is.

— PeterNeumann x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZSNXgKvqfqdngotpRZb6KE6RyyBwJnAM=
`;

t.test('the example of the C2SP documents is read as they describe it', async (t) => {
  const note = readNote(C2SP_EXAMPLE)!;
  t.same(
    note.signatures.map(({ name, keyId, signature }) => [name, keyId, signature.length]),
    [
      ['example.com/behind-the-sofa', '033de0ae', 64],
      ['witness.example.com/w1', '8d66cf3f', 72],
    ],
  );
  const checkpoint = readCheckpoint(note.text)!;
  t.match(checkpoint, { origin: 'example.com/behind-the-sofa', size: 20_852_163, extensions: [] });
  t.equal(checkpoint.root, Buffer.from('CsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=', 'base64').toString('hex'));
  t.equal(checkpointText(checkpoint), note.text);
  t.match(new TextDecoder().decode(cosignedMessage(note.text, 1_679_315_147)).split('\n'), [
    'cosignature/v1',
    'time 1679315147',
    'example.com/behind-the-sofa',
  ]);
});

t.test("a note of Go's checksum database verifies under its key", async (t) => {
  const key = readVerifierKey(GO_KEY)!;
  t.equal(verifierKeyText(key), GO_KEY);
  for (const engine of ENGINES) {
    const read = await verifyNote(GO_NOTE, [key], engine);
    t.match(read, { ok: true, signatures: [{ key: { name: 'PeterNeumann', id: 'c74f20a3' }, timestampS: null }] });
    t.match(await verifyNote(GO_NOTE.replace('problem is', 'problem was'), [key], engine), { problem: 'signature' });
  }
});

t.test('a checkpoint verifies under the key of its log, with the cosignatures of known witnesses', async (t) => {
  t.equal(logOrigin('https://mandates.example.com:8443/x', 'acc_1'), 'mandates.example.com:8443/acc_1');
  t.same(readVerifierKey(verifierKeyText(LOG)), LOG);
  for (const engine of ENGINES) {
    const plain = await verifyCheckpoint(NOTE, LOG, [], engine);
    t.match(plain, { ok: true, checkpoint: { origin: ORIGIN, size: 20_852_163, root: ROOT, extensions: [] } });
    const witnessed = cosigned(NOTE, 1_679_315_147);
    t.match(await verifyCheckpoint(witnessed, LOG, [WITNESS_KEY], engine), {
      ok: true,
      signatures: [
        { key: LOG, timestampS: null },
        { key: WITNESS_KEY, timestampS: 1_679_315_147 },
      ],
    });
    t.match(await verifyCheckpoint(witnessed, LOG, [], engine), { ok: true, signatures: [{ key: LOG }] });
    const other = cosigned(NOTE, 1_679_315_147, 'another text\n');
    t.match(await verifyCheckpoint(other, LOG, [WITNESS_KEY], engine), { ok: false, problem: 'signature' });
    const elsewhere = logKey(`${ORIGIN}x`, KEY.publicKey);
    t.match(await verifyCheckpoint(NOTE, elsewhere, [], engine), { ok: false, problem: 'no_known_key' });
    const onlyWitnessed = witnessed.replace(/— mandates.*\n/, '');
    t.match(await verifyCheckpoint(onlyWitnessed, LOG, [WITNESS_KEY], engine), { problem: 'no_known_key' });
  }
  const foreign = signCheckpoint({ size: 1, root: ROOT }, logKey('a', KEY.publicKey), (message) => KEY.sign(message));
  const renamed = logKey('a', KEY.publicKey);
  t.match(await verifyCheckpoint(foreign, renamed, [], readPublicKey), { ok: true });
  const lying = { ...LOG, name: 'a', id: renamed.id };
  t.match(await verifyCheckpoint(foreign.replace('a\n', 'b\n'), lying, [], readPublicKey), { problem: 'signature' });
});

t.test('a signature of one type is none of another', async (t) => {
  const asLog = verifierKey(WITNESS_KEY.name, NOTE_SIGNATURE.ed25519, WITNESS.publicKey);
  t.not(asLog.id, WITNESS_KEY.id);
  const confused = { ...asLog, id: WITNESS_KEY.id };
  t.match(await verifyNote(cosigned(NOTE, 5), [confused], readPublicKey), { ok: false, problem: 'signature' });
  const ahead =
    NOTE + signatureLine({ name: WITNESS_KEY.name, keyId: WITNESS_KEY.id, signature: Buffer.alloc(72, 255) });
  t.match(await verifyNote(ahead, [WITNESS_KEY], readPublicKey), { ok: false, problem: 'signature' });
});

t.test('any single changed character is found', async (t) => {
  const note = cosigned(NOTE, 1_679_315_147);
  const property = fc.asyncProperty(
    fc.nat({ max: note.length - 1 }),
    fc.integer({ min: 1, max: 127 }),
    async (at, by) => {
      const code = note.charCodeAt(at) ^ by;
      const changed = note.slice(0, at) + String.fromCharCode(code) + note.slice(at + 1);
      const read = await verifyCheckpoint(changed, LOG, [WITNESS_KEY], readPublicKey);
      // A witness's line may become another witness's, which is then ignored; the checkpoint itself may not.
      return !read.ok || (read.signatures.length === 1 && at > NOTE.length && read.checkpoint.root === ROOT);
    },
  );
  await fc.assert(property, { numRuns: 500 });
  t.pass('no change was accepted');
});

t.test('what is not a note or not a checkpoint is refused, not repaired', async (t) => {
  const signature = NOTE.slice(NOTE.indexOf('\u2014'));
  for (const note of [
    ...['', '\n\n', NOTE.trimEnd(), NOTE.replaceAll('\n', '\r\n'), NOTE.replace('\u2014', '-'), `${NOTE}\n`],
    ...[NOTE.replace('\u2014 ', '\u2014  '), NOTE.replace(/=\n$/, '\n'), `\u0007${NOTE}`, `\ud800${NOTE}`],
    ...[
      NOTE + signature.repeat(64),
      `x\n\n\u2014 a+b AAAAAAAA\n`,
      `x\n\n\u2014 a AAAA\n`,
      `x\n\n\u2014 a\u00a0b AAAAAAAA\n`,
    ],
  ]) {
    t.equal(readNote(note), null, JSON.stringify(note.slice(0, 60)));
  }
  const [origin, size, root] = NOTE.split('\n');
  for (const text of [
    ...[
      `${origin}\n${size}\n`,
      `${origin}\n0${size}\n${root}\n`,
      `${origin}\n-1\n${root}\n`,
      `${origin}\n1e3\n${root}\n`,
    ],
    ...[`\n${size}\n${root}\n`, `${origin}\n9007199254740993\n${root}\n`, `${origin}\n${size}\n${root!.slice(4)}\n`],
    ...[
      `${origin}\n${size}\n${root}\n\n`,
      `${origin}\n${size}\n${root}`,
      `${origin}\n${size}\n${root} \n`,
      `a b\n1\n${root}\n`,
    ],
    `${origin}\n${size}\n${root!.slice(0, -2)}${root!.at(-2) === 'A' ? 'B' : 'A'}=\n`.replace(/(.)=\n$/, '$1\n'),
  ]) {
    t.equal(readCheckpoint(text), null, JSON.stringify(text));
  }
  t.match(readCheckpoint(`${origin}\n0\n${root}\nextension\n`), { size: 0, extensions: ['extension'] });
  t.throws(() => checkpointText({ origin: 'a\nb', size: 1, root: ROOT, extensions: [] }), RangeError);
  t.throws(() => checkpointText({ origin: 'a', size: 0.5, root: ROOT, extensions: [] }), RangeError);
  for (const text of ['', 'a', 'a+b+c', GO_KEY.replace('c74', 'c75'), `${GO_KEY}=`, GO_KEY.replace('+AR', '+BR')]) {
    t.equal(readVerifierKey(text), null, text);
  }
});
