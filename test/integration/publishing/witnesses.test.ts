import { generateKeyPairSync, sign } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import type { ServerResponse } from 'node:http';
import { join } from 'node:path';
import t from 'tap';
import { witnessPublisher } from '../../../control-plane/publishing/publishers.ts';
import type { SignedHead, TreeHeads } from '../../../control-plane/publishing/tree-heads.ts';
import { type CosignatureResult, Cosignatures } from '../../../control-plane/witnesses/cosignatures.ts';
import { Witness } from '../../../control-plane/witnesses/witness-client.ts';
import { verifyCheckpoint } from '../../../core/checkpoint.ts';
import { readPublicKey } from '../../../core/ed25519.ts';
import {
  cosignature,
  cosignedMessage,
  NOTE_SIGNATURE,
  readVerifierKey,
  signatureLine,
  type VerifierKey,
  verifierKey,
} from '../../../core/signed-note.ts';
import { type RunningWitness, startWitness, type WitnessOptions } from '../../../examples/witness.ts';
import { directory, type PublishingFixture, publishingFixture, serve } from './publishing-fixture.ts';

const TIMEOUT_MS = 10_000;
const NAME = 'witness.example/w1';
const OTHER_ROOT = 'ab'.repeat(32);

type TestContext = Parameters<typeof publishingFixture>[0];

interface Witnessing {
  readonly witness: Witness;
  readonly cosignatures: Cosignatures;
  readonly results: CosignatureResult[];
}

function witnessing({ appSql, heads }: PublishingFixture, url: string, key: VerifierKey, of?: TreeHeads): Witnessing {
  const witness = new Witness({ url, key, timeoutMs: TIMEOUT_MS });
  t.teardown(() => witness.close());
  const results: CosignatureResult[] = [];
  const counted = (result: CosignatureResult): unknown => results.push(result);
  return {
    witness,
    cosignatures: new Cosignatures({ sql: appSql, heads: of ?? heads, witnesses: [witness], counted }),
    results,
  };
}

/** The small witness of examples/, told of the logs of this service. */
async function runWitness(
  t: TestContext,
  { signing }: PublishingFixture,
  stateFile: string,
  more: Partial<WitnessOptions> = {},
) {
  const logs = new Map([['mandate.example/*', signing.log.publicKey]]);
  const running = await startWitness({ port: 0, name: NAME, logs, stateFile, ...more });
  t.teardown(() => running.close().catch(() => {}));
  return running;
}

function keyOf({ verifierKey: text }: RunningWitness): VerifierKey {
  const key = readVerifierKey(text);
  if (key === null) throw new Error(`not a verifier key: ${text}`);
  return key;
}

/** The publisher that a process would have, made anew: nothing of it is in memory. */
function publisherOf(fixture: PublishingFixture, { cosignatures, witness }: Witnessing, heads?: TreeHeads) {
  return fixture.publisher(witnessPublisher(cosignatures, witness), heads);
}

t.test('a witness cosigns each new head over restarts of both, and the cosigned checkpoint verifies', async (t) => {
  const fixture = await publishingFixture(t);
  const { sql, heads, account } = fixture;
  const state = join(await directory(t), 'witness.json');
  let running = await runWitness(t, fixture, state);
  const first = keyOf(running);
  for (const entries of [1, 1, 5, 300]) {
    const head = await fixture.grow(entries);
    const { cosignatures, witness } = witnessing(fixture, running.url, keyOf(running));
    await publisherOf(fixture, { cosignatures, witness, results: [] }).round();
    const [kept, ...others] = await cosignatures.of(account.accountId, head.size);
    t.match(kept, { witness: NAME, size: head.size });
    t.same(others, []);
    const read = await verifyCheckpoint(
      `${head.checkpoint}${kept!.line}`,
      heads.logKey(account.accountId),
      [first],
      readPublicKey,
    );
    t.match(read, { ok: true, checkpoint: { size: head.size, root: head.root }, signatures: { length: 2 } });
    await running.close();
    running = await runWitness(t, fixture, state);
    t.same(keyOf(running), first, 'its key is kept');
    await fixture.moveTime(601);
  }
  t.match(await sql`select size from cosignatures order by size`, [
    { size: 1 },
    { size: 2 },
    { size: 7 },
    { size: 307 },
  ]);
  t.same(fixture.logged.lines, []);
});

t.test('who forgot how far a witness had seen learns it from the witness', async (t) => {
  const fixture = await publishingFixture(t);
  const running = await runWitness(t, fixture, join(await directory(t), 'witness.json'));
  const one = witnessing(fixture, running.url, keyOf(running));
  await one.cosignatures.cosign(one.witness, await fixture.grow(3));
  await fixture.sql`delete from publications`;
  const head = await fixture.grow(4);
  await one.cosignatures.cosign(one.witness, head);
  await one.cosignatures.cosign(one.witness, head);
  t.same(one.results, ['stored', 'stored', 'stored']);
  t.equal((await one.cosignatures.of(head.accountId, 7)).length, 1, 'the first stays');
});

t.test('a log that was rolled back, forked or rewritten is not cosigned, and the log says so', async (t) => {
  const fixture = await publishingFixture(t);
  const { sql, heads, account } = fixture;
  const state = join(await directory(t), 'witness.json');
  const running = await runWitness(t, fixture, state);
  const proper = witnessing(fixture, running.url, keyOf(running));
  const early = await fixture.grow(3);
  const head = await fixture.grow(4);
  await proper.cosignatures.cosign(proper.witness, head);
  const contradicted = { name: 'WitnessFailure', kind: 'contradicted' };
  await t.rejects(proper.cosignatures.cosign(proper.witness, early), {
    ...contradicted,
    message: /has seen a tree of 7 entries, and there are 3 here/,
  });
  await t.rejects(proper.cosignatures.cosign(proper.witness, fixture.forged(7, OTHER_ROOT)), {
    ...contradicted,
    message: /another tree of 7 entries/,
  });
  await fixture.grow(2);
  // The proof is that of the true tree; the forger has no better one.
  const longer = fixture.forged(9, OTHER_ROOT);
  await t.rejects(proper.cosignatures.cosign(proper.witness, longer), {
    ...contradicted,
    message: /does not continue/,
  });
  const rewritten = { ...heads, current: async (): Promise<SignedHead> => longer };
  await publisherOf(fixture, proper, rewritten).round();
  t.match(fixture.logged.lines, [/compare what both have seen of this account/]);
  t.match(await sql`select size, encode(root, 'hex') as root from cosignatures`, [{ size: 7, root: head.root }]);
  const { heads: seen } = JSON.parse(await readFile(state, 'utf8'));
  t.match(seen, { [`mandate.example/${account.accountId}`]: { size: 7 } }, 'the witness is where it was');
});

t.test('a witness that is away is said once, and asked again later', async (t) => {
  const fixture = await publishingFixture(t);
  const state = join(await directory(t), 'witness.json');
  const running = await runWitness(t, fixture, state);
  const key = keyOf(running);
  await running.close();
  const head = await fixture.grow(2);
  const away = witnessing(fixture, running.url, key);
  const publisher = publisherOf(fixture, away);
  for (let round = 0; round < 3; round++) t.equal(await publisher.round(), false);
  t.same(away.results, ['away']);
  t.same(fixture.logged.lines, ['tree heads cannot be published; it is tried again every minute']);
  const back = await runWitness(t, fixture, state);
  await fixture.moveTime(61);
  const again = witnessing(fixture, back.url, key);
  await publisherOf(fixture, again).round();
  t.equal((await again.cosignatures.of(head.accountId, 2)).length, 1);
});

t.test('a witness that does not know the log, or its key, cosigns nothing', async (t) => {
  const fixture = await publishingFixture(t);
  const head = await fixture.grow(1);
  const stranger = new Uint8Array(32).fill(9);
  const cases: [RegExp, Map<string, Uint8Array>][] = [
    [/does not know this log/, new Map([['other.example/*', fixture.signing.log.publicKey]])],
    [/does not know the key/, new Map([['mandate.example/*', stranger]])],
  ];
  for (const [message, logs] of cases) {
    const running = await runWitness(t, fixture, join(await directory(t), 'witness.json'), { logs });
    const { cosignatures, witness } = witnessing(fixture, running.url, keyOf(running));
    await t.rejects(cosignatures.cosign(witness, head), { kind: 'refused', message });
  }
  t.same(await fixture.sql`select from cosignatures`, []);
});

t.test(
  'a cosignature that is not the witness’s, or not of this head and time, is refused and not stored',
  async (t) => {
    const fixture = await publishingFixture(t);
    const head = await fixture.grow(2);
    const { privateKey, publicKey } = generateKeyPairSync('ed25519');
    const raw = publicKey.export({ format: 'der', type: 'spki' }).subarray(-32);
    const key = verifierKey(NAME, NOTE_SIGNATURE.cosignature, raw);
    const [text = ''] = head.checkpoint.split('\n\n');
    const now = Math.floor(Date.now() / 1000);
    const other = generateKeyPairSync('ed25519').privateKey;
    const line = (over: string, timeS: number, by = privateKey, name = NAME, shownS = timeS): string => {
      const signature = cosignature(shownS, sign(null, cosignedMessage(over, timeS), by));
      return signatureLine({ name, keyId: key.id, signature });
    };
    const good = line(`${text}\n`, now);
    const answers: [string, RegExp, string][] = [
      ['invalid', /cosignature that is wrong/, line(`${text}\n`, now, other)],
      ['invalid', /cosignature that is wrong/, line(`${text}x\n`, now)],
      ['invalid', /cosignature that is wrong/, line(`${text}\n`, now, privateKey, NAME, now + 1)],
      ['invalid', /without one cosignature/, line(`${text}\n`, now, privateKey, 'witness.example/w2')],
      ['invalid', /without one cosignature/, `${good}${good}`],
      ['invalid', /without one cosignature/, ''],
      ['invalid', /without one cosignature/, 'no line at all\n'],
      ['invalid', /without one cosignature/, `${text}\n\n${good}`],
      ['invalid', /far from the clock/, line(`${text}\n`, now + 3600)],
      ['invalid', /far from the clock/, line(`${text}\n`, now - 3600)],
      ['away', /more than 65536 bytes/, good.repeat(1000)],
    ];
    for (const [kind, message, answer] of answers) {
      const url = await serve(t, (_body, response) => response.writeHead(200).end(answer));
      const { cosignatures, witness } = witnessing(fixture, url, key);
      await t.rejects(cosignatures.cosign(witness, head), { name: 'WitnessFailure', kind, message });
    }
    const wrong: [string, (response: ServerResponse) => unknown][] = [
      ['away', (response) => response.writeHead(500).end()],
      ['away', (response) => response.writeHead(301, { location: 'http://127.0.0.1:1' }).end()],
      ['invalid', (response) => response.writeHead(409).end('2\n')],
      ['invalid', (response) => response.writeHead(409, { 'content-type': 'text/x.tlog.size' }).end('02\n')],
      ['contradicted', (response) => response.writeHead(409, { 'content-type': 'text/x.tlog.size' }).end('2\n')],
    ];
    for (const [kind, answer] of wrong) {
      const url = await serve(t, (_body, response) => answer(response));
      const { cosignatures, witness } = witnessing(fixture, url, key);
      await t.rejects(cosignatures.cosign(witness, head), { name: 'WitnessFailure', kind });
    }
    t.same(await fixture.sql`select from cosignatures`, []);
    const url = await serve(t, (_body, response) =>
      response.writeHead(200).end(`${line(text, now, other, 'nobody')}${good}`),
    );
    const { cosignatures, witness } = witnessing(fixture, url, key);
    await cosignatures.cosign(witness, head);
    t.match(await fixture.sql`select line from cosignatures`, [{ line: good }], 'only its own line');
  },
);
