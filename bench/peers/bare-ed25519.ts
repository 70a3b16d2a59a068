import { createPublicKey, verify } from 'node:crypto';
import Fastify from 'fastify';
import { hashData } from '../../core/data-integrity.ts';
import { announce } from '../children.ts';

/** A Fastify route that verifies one Ed25519 signature with node:crypto and answers: what a verification must cost. */
const spki = Buffer.concat([Buffer.from('302a300506032b6570032100', 'hex'), Buffer.from(process.argv[2] ?? '', 'hex')]);
const key = createPublicKey({ key: spki, format: 'der', type: 'spki' });
// Verified again and again: what is measured is one verification a request, not how its input is made.
const message = hashData({ type: 'bench' }, { type: 'bench' });
const signature = Buffer.from(process.argv[3] ?? '', 'hex');

const app = Fastify();
app.post('/verify', async (request) => {
  const { presentation } = request.body as { presentation: { nonce: string } };
  const holds = verify(null, message, key, signature);
  return { decision: holds ? 'allow' : 'deny', nonce: presentation.nonce };
});
await app.listen({ host: '127.0.0.1', port: 0 });
announce(app.server);
