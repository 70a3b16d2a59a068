import { generateKeyPairSync, sign } from 'node:crypto';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import { logKey, signCheckpoint } from '../../../core/checkpoint.ts';
import { entryHash } from '../../../core/evidence.ts';
import { consistencyProof, rootOfLeaves } from '../../../core/merkle.ts';
import { type RunningWitness, startWitness } from '../../../examples/witness.ts';

const ORIGIN = 'log.example/one';
const LEAVES = 70;

const { privateKey, publicKey } = generateKeyPairSync('ed25519');
const logPublicKey = publicKey.export({ format: 'der', type: 'spki' }).subarray(-32);

const leavesOf = (seed: string): string[] =>
  Array.from({ length: LEAVES }, (_, seq) => {
    return entryHash({ account: seed, seq, id: '', kind: '', at: '', prev: '', body: '{}' });
  });
const leaves = leavesOf('true');
const fork = [...leaves.slice(0, 5), ...leavesOf('false').slice(5)];

interface Shown {
  readonly origin?: string;
  readonly by?: typeof privateKey;
  readonly of?: readonly string[];
  readonly proof?: readonly string[];
}

/** The body of a submission; a proper one where nothing else is said. */
function submission(
  oldSize: number,
  size: number,
  { origin = ORIGIN, by = privateKey, of = leaves, proof }: Shown = {},
): string {
  const tree = of.slice(0, size);
  const shown = proof ?? (oldSize > 0 && oldSize < size ? consistencyProof(tree, oldSize) : []);
  const key = logKey(origin, logPublicKey);
  const checkpoint = signCheckpoint({ size, root: rootOfLeaves(tree) }, key, (message) => sign(null, message, by));
  const hashes = shown.map((hash) => `${Buffer.from(hash, 'hex').toString('base64')}\n`);
  return `old ${oldSize}\n${hashes.join('')}\n${checkpoint}`;
}

type TestContext = { teardown(fn: () => Promise<void>): void };

async function witnessAt(t: TestContext, stateFile: string): Promise<RunningWitness> {
  const logs = new Map([['log.example/*', logPublicKey]]);
  const running = await startWitness({ port: 0, name: 'witness.example', logs, stateFile });
  t.teardown(() => running.close().catch(() => {}));
  return running;
}

async function stateIn(t: TestContext): Promise<string> {
  const directory = await mkdtemp(join(tmpdir(), 'mandate-witness-'));
  t.teardown(() => rm(directory, { recursive: true, force: true }));
  return join(directory, 'state.json');
}

async function post(
  { url }: RunningWitness,
  body: string,
): Promise<{ status: number; type: string | null; text: string }> {
  const response = await fetch(`${url}/add-checkpoint`, { method: 'POST', body });
  return { status: response.status, type: response.headers.get('content-type'), text: await response.text() };
}

t.test('it cosigns every step between any two sizes, and never one that does not continue the last', async (t) => {
  for (let oldSize = 0; oldSize <= 18; oldSize++) {
    const witness = await witnessAt(t, await stateIn(t));
    if (oldSize > 0)
      t.match(await post(witness, submission(0, oldSize)), { status: 200, text: /^\u2014 witness.example / });
    for (const size of [oldSize + 1, oldSize + 17, LEAVES]) {
      if (oldSize > 5)
        t.match(
          await post(witness, submission(oldSize, size, { of: fork })),
          { status: 422 },
          `fork ${oldSize} ${size}`,
        );
      const proof = oldSize === 0 ? ['ab'.repeat(32)] : consistencyProof(leaves.slice(0, size), oldSize);
      for (const wrong of oldSize === 0
        ? [proof]
        : [proof.slice(1), [...proof, 'ab'.repeat(32)], ['ab'.repeat(32), ...proof.slice(1)]]) {
        t.match(
          await post(witness, submission(oldSize, size, { proof: wrong })),
          { status: 422 },
          `${oldSize} ${size}`,
        );
      }
    }
    t.match(await post(witness, submission(oldSize, LEAVES)), { status: 200 });
    await witness.close();
  }
});

t.test('it answers as the protocol has it', async (t) => {
  const witness = await witnessAt(t, await stateIn(t));
  const stranger = generateKeyPairSync('ed25519').privateKey;
  t.match(await post(witness, submission(0, 3, { origin: 'else.example/one' })), { status: 404 });
  t.match(await post(witness, submission(0, 3, { by: stranger })), { status: 403 });
  t.match(await post(witness, submission(4, 3)), { status: 400 });
  const conflict = { status: 409, type: 'text/x.tlog.size' };
  t.match(await post(witness, submission(2, 3)), { ...conflict, text: '0\n' });
  t.match(await post(witness, submission(0, 8)), { status: 200 });
  t.match(await post(witness, submission(8, 8)), { status: 200 }, 'the same once more');
  t.match(await post(witness, submission(0, 9)), { ...conflict, text: '8\n' });
  t.match(await post(witness, submission(7, 9)), { ...conflict, text: '8\n' });
  t.match(await post(witness, submission(8, 8, { of: fork })), { ...conflict, text: '8\n' });
  t.match(await post(witness, submission(0, 3, { origin: 'log.example/two' })), { status: 200 }, 'another log');
  const good = submission(8, 9);
  const bad = ['', 'old 8', 'old 08\n', good.replace('old 8', 'old -8'), good.replace('\n\n', '\n'), good.slice(0, -1)];
  for (const body of [...bad, good.replace(/^old 8\n/, `old 8\n${`${'A'.repeat(43)}=\n`.repeat(64)}`)]) {
    t.match(await post(witness, body), { status: 400 }, body.slice(0, 40));
  }
  t.match(await post(witness, 'x'.repeat(70_000)), { status: 413 });
  t.equal((await fetch(`${witness.url}/add-checkpoint`)).status, 405);
  t.equal((await fetch(`${witness.url}/else`)).status, 404);
});

t.test('of two that would both continue the last one, asked for at once, one is cosigned', async (t) => {
  const witness = await witnessAt(t, await stateIn(t));
  await post(witness, submission(0, 5));
  const both = [submission(5, 9), submission(5, 9, { of: fork }), submission(5, 7), submission(5, 8, { of: fork })];
  const answers = await Promise.all(both.map((body) => post(witness, body)));
  t.same(answers.map(({ status }) => status).toSorted(), [200, 409, 409, 409]);
});

t.test(
  'it goes on after a restart from what it cosigned last, and does not begin anew with a broken state',
  async (t) => {
    const state = await stateIn(t);
    const before = await witnessAt(t, state);
    await post(before, submission(0, 9));
    await before.close();
    const after = await witnessAt(t, state);
    t.equal(after.verifierKey, before.verifierKey);
    t.match(await post(after, submission(0, 3)), { status: 409, text: '9\n' });
    t.match(await post(after, submission(9, 30)), { status: 200 });
    await after.close();
    await writeFile(state, (await readFile(state, 'utf8')).slice(0, -5));
    await t.rejects(witnessAt(t, state));
  },
);
