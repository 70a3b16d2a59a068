/**
 * What the strict rule costs: Ed25519 verification with a known agent's key beside plain `node:crypto`, and what a
 * presentation costs around it. Prints text; run it on a machine that does nothing else.
 */
import { createPublicKey, verify } from 'node:crypto';
import { AgentKeys } from '../core/agent-keys.ts';
import { formatDidKey } from '../core/did-key.ts';
import { newSeed, readPublicKey, SigningKey } from '../core/ed25519.ts';
import { readPublicKeyNoble } from '../core/ed25519-noble.ts';
import { parseStrictJson } from '../core/json.ts';
import { createPresentation, parsePresentation } from '../core/presentation.ts';

const ROUNDS = 31;
const CALLS_A_ROUND = 500;
/** Calls under way at once where a verification runs on another thread. */
const AT_ONCE = 64;

type Timed = (calls: number) => number | Promise<number>;

function onThisThread(call: () => unknown): Timed {
  return (calls) => {
    const start = process.hrtime.bigint();
    for (let i = 0; i < calls; i++) call();
    return Number(process.hrtime.bigint() - start) / calls / 1000;
  };
}

function manyAtOnce(call: () => Promise<unknown>): Timed {
  return async (calls) => {
    const start = process.hrtime.bigint();
    for (let i = 0; i < calls; i += AT_ONCE) await Promise.all(Array.from({ length: AT_ONCE }, call));
    return Number(process.hrtime.bigint() - start) / (Math.ceil(calls / AT_ONCE) * AT_ONCE) / 1000;
  };
}

function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[sorted.length >> 1] ?? Number.NaN;
}

/** Microseconds a call of both, medians over alternating rounds, and the median of the ratios within a round. */
async function compare(name: string, one: Timed, base: Timed): Promise<void> {
  const rounds: [number, number][] = [];
  for (let round = 0; round <= ROUNDS; round++) {
    // Whoever goes second finds warmer caches.
    const oneFirst = round % 2 === 0;
    const first = await (oneFirst ? one : base)(CALLS_A_ROUND);
    const second = await (oneFirst ? base : one)(CALLS_A_ROUND);
    // The first round only warms up.
    if (round > 0) rounds.push(oneFirst ? [first, second] : [second, first]);
  }
  const [ours, plain] = [median(rounds.map(([a]) => a)), median(rounds.map(([, b]) => b))];
  const ratio = median(rounds.map(([a, b]) => a / b));
  console.log(`${name}: ${ours.toFixed(1)} µs, plain ${plain.toFixed(1)} µs, ratio ${ratio.toFixed(3)}`);
}

async function alone(name: string, timed: Timed, calls: number): Promise<void> {
  const rounds: number[] = [];
  for (let round = 0; round <= 5; round++) rounds.push(await timed(calls));
  console.log(`${name}: ${median(rounds.slice(1)).toFixed(1)} µs`);
}

const seed = newSeed();
const signer = new SigningKey(seed);
const did = formatDidKey(signer.publicKey);
const now = Date.now();
const presentation = createPresentation(
  {
    mandate_id: 'mdt_01jv9h3q2xf6s8t9vwxyz01234',
    verifier: 'acc_01jv9h2n8ke5rvq3s4t6w7x8y9',
    ctx: `sha-256:${'a'.repeat(64)}`,
    issued_at_ms: now,
    expires_at_ms: now + 60_000,
  },
  signer,
);
const body = Buffer.from(JSON.stringify(presentation));
const read = parsePresentation(presentation);
if (read.problem !== null) throw new Error(read.problem);
const { hash_data: message, signature } = read;
const keys = new AgentKeys();
const x = Buffer.from(signer.publicKey).toString('base64url');
const plain = createPublicKey({ key: { kty: 'OKP', crv: 'Ed25519', x }, format: 'jwk' });
const noble = readPublicKeyNoble(signer.publicKey);

function plainOnAnotherThread(): Promise<boolean> {
  return new Promise((resolve, reject) => {
    verify(null, message, plain, signature, (error, holds) => (error === null ? resolve(holds) : reject(error)));
  });
}

await compare(
  'strict, this thread',
  onThisThread(() => keys.get(did)?.verifySync(message, signature)),
  onThisThread(() => verify(null, message, plain, signature)),
);
await compare(
  `strict, other threads, ${AT_ONCE} at once`,
  manyAtOnce(async () => keys.get(did)?.verify(message, signature)),
  manyAtOnce(plainOnAnotherThread),
);
await alone(
  'read a presentation from its bytes, hashes included',
  onThisThread(() => parsePresentation(parseStrictJson(body))),
  2000,
);
await alone(
  "check a new agent's key",
  onThisThread(() => readPublicKey(signer.publicKey)),
  100,
);
await alone(
  'make a signing key of a seed and sign',
  onThisThread(() => new SigningKey(seed).sign(message)),
  200,
);
await alone(
  'strict, in plain JavaScript',
  manyAtOnce(async () => noble?.verify(message, signature)),
  AT_ONCE,
);
