import { generateKeyPairSync } from 'node:crypto';
import fc from 'fast-check';
import t from 'tap';
import * as core from '../../../../core/action.ts';
import { AgentKeys } from '../../../../core/agent-keys.ts';
import { decimalOf } from '../../../../core/money.ts';
import { parsePresentation, verifyPresentation } from '../../../../core/presentation.ts';
import { type Action, contextDigest, signerOf, signPresentation } from '../../../../examples/client/presentation.ts';

const MANDATE = 'mdt_01jd0000000000000000000000';
const VERIFIER = 'acc_01jd0000000000000000000000';

const newPem = () => generateKeyPairSync('ed25519').privateKey.export({ type: 'pkcs8', format: 'pem' });

t.test('what the client signs verifies under the strict rule and names all that was asked for', async (t) => {
  const keys = new AgentKeys();
  // Signatures and digests begin with a zero byte now and then.
  for (let round = 0; round < 300; round++) {
    const signer = signerOf(newPem());
    const action: Action = { type: 'payments.create', amount: { value: round / 100, currency: 'EUR' } };
    const signed = await signPresentation({ mandate_id: MANDATE, verifier: VERIFIER, action, ttl_seconds: 60 }, signer);
    const read = parsePresentation(signed);
    if (read.problem !== null) throw new Error(read.problem);
    const problem = verifyPresentation(read, keys);
    if (problem !== null) throw new Error(problem);
    const found = { signer: read.signer, ctx: read.ctx, seconds: (read.expires_at_ms - read.issued_at_ms) / 1000 };
    const wanted = { signer: signer.did, ctx: contextDigest(action), seconds: 60 };
    if (!t.strictSame(found, wanted)) break;
  }
});

t.test('the digest is the one of the service, for every amount, currency and name', async (t) => {
  const currency = fc.constantFrom('EUR', 'JPY', 'BHD');
  const minor = fc.integer({ min: 0, max: 1_000_000_000_000_000 });
  const name = fc.option(fc.string({ unit: 'grapheme', minLength: 1, maxLength: 64 }), { nil: undefined });
  fc.assert(
    fc.property(minor, currency, name, (amount_minor, currency, counterparty) => {
      const value = decimalOf(amount_minor, currency);
      const named = counterparty === undefined ? {} : { counterparty };
      const ours = contextDigest({ type: 'a.b', amount: { value, currency }, ...named });
      return ours === core.contextDigest({ type: 'a.b', amount_minor, currency, ...named });
    }),
  );
  t.pass('all the same');
});

t.test('a key of another kind is not taken', async (t) => {
  const pem = generateKeyPairSync('ed448').privateKey.export({ type: 'pkcs8', format: 'pem' });
  t.throws(() => signerOf(pem), /Ed25519/);
});
