import { join } from 'node:path';
import t from 'tap';
import { rootOf } from '../../../control-plane/evidence/tree.ts';
import { TimestampAuthority } from '../../../control-plane/timestamps/authority.ts';
import { Timestamps } from '../../../control-plane/timestamps/timestamps.ts';
import { Cosignatures } from '../../../control-plane/witnesses/cosignatures.ts';
import { Witness } from '../../../control-plane/witnesses/witness-client.ts';
import { readVerifierKey } from '../../../core/signed-note.ts';
import { checkTimestampToken } from '../../../core/timestamp-token.ts';
import { startWitness } from '../../../examples/witness.ts';
import { opensslMissing, TestTsa } from '../../tsa.ts';
import { directory, type PublishingFixture, publishingFixture } from './publishing-fixture.ts';

const TIMEOUT_MS = 10_000;
const ENTRIES = 5;

/** What the owner of the database can do: take everything away, guards included, and begin the account anew. */
async function beginAnew({ sql, account }: PublishingFixture): Promise<void> {
  const partitions = Array.from({ length: 8 }, (_, n) => `evidence_p${n}`);
  const kept = ['evidence_subtrees', 'tree_heads', 'cosignatures', 'timestamps', 'publications'];
  for (const table of ['evidence', ...partitions, ...kept]) {
    await sql.unsafe(`alter table ${table} disable trigger user`);
    await sql.unsafe(`delete from ${table} where account_id = '${account.accountId}'`);
    await sql.unsafe(`alter table ${table} enable trigger user`);
  }
  await sql`update account_heads set size = 0, hash = decode(repeat('00', 32), 'hex'), edge = ''
    where account_id = ${account.accountId}`;
}

t.test(
  'who rewrites a whole account and signs it anew is contradicted by its witness and by a kept timestamp',
  {
    skip: opensslMissing(),
  },
  async (t) => {
    const fixture = await publishingFixture(t);
    const { appSql, heads, signing, account } = fixture;
    const logs = new Map([['mandate.example/*', signing.log.publicKey]]);
    const stateFile = join(await directory(t), 'witness.json');
    const running = await startWitness({ port: 0, name: 'witness.example', logs, stateFile });
    t.teardown(() => running.close());
    const witness = new Witness({
      url: running.url,
      key: readVerifierKey(running.verifierKey)!,
      timeoutMs: TIMEOUT_MS,
    });
    t.teardown(() => witness.close());
    const cosignatures = new Cosignatures({ sql: appSql, heads, witnesses: [witness], counted() {} });
    const tsa = await TestTsa.make(t);
    const authority = new TimestampAuthority({ url: await tsa.serve(t), timeoutMs: TIMEOUT_MS, anchors: [] });
    t.teardown(() => authority.close());
    const timestamps = new Timestamps({ sql: appSql, authority, required: true, counted() {} });

    const head = await fixture.grow(ENTRIES);
    await cosignatures.cosign(witness, head);
    const { token } = await timestamps.stamp(head);

    await beginAnew(fixture);
    const rewritten = await fixture.grow(ENTRIES + 2);
    t.equal(rewritten.size, ENTRIES + 2, 'the service itself finds nothing wrong');
    await t.rejects(cosignatures.cosign(witness, rewritten), { kind: 'contradicted', message: /does not continue/ });
    t.same(await cosignatures.of(account.accountId, rewritten.size), []);
    const root = await rootOf(appSql, { accountId: account.accountId, size: ENTRIES });
    const expected = { nonce: null, anchors: [], clock: null };
    t.match(await checkTimestampToken(token, { ...expected, digest: Buffer.from(head.root, 'hex') }), { valid: true });
    t.match(await checkTimestampToken(token, { ...expected, digest: Buffer.from(root, 'hex') }), { reason: 'imprint' });
  },
);
