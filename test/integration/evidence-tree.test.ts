import { cp } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import fc from 'fast-check';
import t from 'tap';
import { connect, type Sql } from '../../control-plane/db/client.ts';
import { migrate } from '../../control-plane/db/migrate.ts';
import { consistencyProofOf, inclusionProofOf, rootOf, tileOf, widthAt } from '../../control-plane/evidence/tree.ts';
import { currentTreeHead } from '../../control-plane/evidence/tree-heads.ts';
import { CHAIN_START, entryHash } from '../../core/evidence.ts';
import { appendLeaf, rootOfLeaves, verifyConsistency, verifyInclusion } from '../../core/merkle.ts';
import { edgeHashes, type RightEdge } from '../../core/merkle-tree.ts';
import { newTypeId } from '../../core/type-id.ts';
import { createDatabase, createEmptyDatabase } from '../database.ts';
import { ask, chainOf, laneFixture } from './decisions/lane-client.ts';

const MIGRATIONS = fileURLToPath(new URL('../../migrations', import.meta.url));
const START_MS = Date.parse('2026-05-15T10:00:00.000Z');
const AT = new Date(START_MS).toISOString();

/** Writes the first entries of an account, as many as said, without a tree; returns their hashes. */
async function writeEntries(sql: Sql, account: string, count: number): Promise<string[]> {
  const hashes: string[] = [];
  while (hashes.length < count) {
    const rows: { id: string; prev: string; hash: string; body: string }[] = [];
    const from = hashes.length;
    while (rows.length < 5_000 && hashes.length < count) {
      const [seq, prev] = [hashes.length, hashes.at(-1) ?? CHAIN_START];
      const row = { id: newTypeId('evt', START_MS), prev, body: `{"n":${seq}}` };
      const hash = entryHash({ account, seq, kind: 'decision', at: AT, ...row });
      rows.push({ ...row, hash });
      hashes.push(hash);
    }
    await sql`insert into evidence (account_id, seq, id, kind, at, prev, hash, body)
      select ${account}, ${from}::bigint + n - 1, r.id, 'decision', ${AT}, decode(r.prev, 'hex'), decode(r.hash, 'hex'),
        r.body
      from unnest(${rows.map(({ id }) => id)}::text[], ${rows.map(({ prev }) => prev)}::text[],
        ${rows.map(({ hash }) => hash)}::text[], ${rows.map(({ body }) => body)}::text[])
        with ordinality as r (id, prev, hash, body, n)`;
  }
  return hashes;
}

async function insertHead(sql: Sql, account: string, hashes: readonly string[]): Promise<void> {
  await sql`insert into accounts (account_id, email, password_hash, totp_sealed, created_at)
    values (${account}, ${`${account}@example.test`}, 'none', 'x', db_clock())`;
  await sql`insert into account_heads (account_id, at) values (${account}, db_clock())`;
  const head = { size: hashes.length, hash: hashes.at(-1) ?? CHAIN_START };
  if (hashes.length === 0) return;
  const grown = (await sql`select from pg_proc where proname = 'evidence_grow_tree'`).length > 0;
  await sql`update account_heads set size = ${head.size}, hash = decode(${head.hash}, 'hex')
    ${grown ? sql`, edge = evidence_grow_tree(account_id, ${head.size})` : sql``} where account_id = ${account}`;
}

t.test(
  'two control planes that append to one account keep its tree exactly, retries and commands included',
  async (t) => {
    const fixture = await laneFixture(t);
    const { lanes, account, sql, sources } = fixture;
    const planes = [lanes, fixture.moreLanes({ batchMax: 7 })];
    const [other] = await fixture.moreAccounts(1);
    const asks = Array.from({ length: 600 }, (_, i) => ask(planes[i % 2]!, i % 5 === 0 ? other! : account));
    const commands = Array.from({ length: 40 }, (_, i) =>
      planes[i % 2]!.command(account.accountId, async ({ append }) => {
        append('mandate.changed', { n: i });
        // A command that fails leaves neither entry nor tree behind.
        if (i % 4 === 0) throw new Error('refused on purpose');
      }).catch((error: Error) => error.message),
    );
    await Promise.all([...asks, ...commands]);
    t.equal((await chainOf(sql, account)).length, 480 + 30);
    t.equal((await chainOf(sql, other!)).length, 120);
    t.ok(sources.includes('changed'), 'carried facts were found to be old, and read again');
    t.match(await sql`select level, index from evidence_subtrees`, [{ level: 1, index: 0 }]);
    await lanes.command(account.accountId, async ({ append }) => {
      for (let i = 0; i < 600; i++) append('mandate.changed', { n: i });
    });
    const chain = await chainOf(sql, account);
    t.match(await currentTreeHead(sql, account.accountId), {
      size: chain.length,
      root: rootOfLeaves(chain.map(({ hash }) => hash)),
    });
  },
);

t.test('a wrong edge is refused where it would reach a tile, and the batch with it', async (t) => {
  const { lanes, account, sql } = await laneFixture(t);
  const append = (count: number) =>
    lanes.command(account.accountId, async (context) => {
      for (let i = 0; i < count; i++) context.append('mandate.changed', { i });
    });
  await append(250);
  await sql`update account_heads set edge = substr(edge, 33) || substr(edge, 1, 32)`;
  await append(5);
  await t.rejects(append(5), /evidence refused: subtree 0 of level 1 of account .* is not the root of what is below/);
  t.match(await sql`select size from account_heads`, [{ size: 255 }]);
  t.match(await sql`select count(*)::integer as count from evidence`, [{ count: 255 }]);
  await t.rejects(currentTreeHead(sql, account.accountId), { name: 'EvidenceContradiction' });
  await sql`update account_heads set edge = evidence_grow_tree(account_id, size)`;
  await append(5);
  t.equal((await chainOf(sql, account)).length, 260);
});

t.test('the database refuses subtrees that are not those of the entries, and any change of one', async (t) => {
  const { sql, appUrl } = await createDatabase(t);
  const app = connect(appUrl, { applicationName: 'test', max: 1 });
  t.teardown(() => app.end());
  const account = newTypeId('acc', START_MS);
  const hashes = await writeEntries(sql, account, 511);
  const insert = (level: number, index: number, hash: string) =>
    app`insert into evidence_subtrees (account_id, level, index, hash)
      values (${account}, ${level}, ${index}, decode(${hash}, 'hex'))`;
  const refused = { code: '23000', message: /is not the root of what is below it/ };
  const root = rootOfLeaves(hashes.slice(0, 256));
  await t.rejects(insert(1, 0, hashes[0]!), refused);
  await t.rejects(insert(1, 1, rootOfLeaves(hashes.slice(256))), refused, 'one that is not complete');
  await t.rejects(insert(2, 0, root), refused, 'one whose parts are not there');
  await t.rejects(insert(7, 0, root), { code: '23514' });
  await insert(1, 0, root);
  for (const statement of ['update evidence_subtrees set hash = hash', 'delete from evidence_subtrees']) {
    await t.rejects(app.unsafe(statement), { code: '42501' }, `${statement} by the application`);
    await t.rejects(sql.unsafe(statement), { code: '23000' }, `${statement} by the owner`);
  }
  await t.rejects(sql`truncate evidence_subtrees`, { code: '23000' });
  await app.unsafe('create temporary table evidence_subtrees (account_id text, level int, index bigint, hash bytea)');
  await t.rejects(
    app`insert into public.evidence_subtrees values (${account}, 2, 0, sha256('x'))`,
    refused,
    'a table of the session lends nothing',
  );
});

t.test('entries that were written before there was a tree get theirs by the migration', async (t) => {
  const { ownerUrl, superuserUrl } = await createEmptyDatabase(t);
  const before = t.testdir({});
  await cp(MIGRATIONS, before, { recursive: true, filter: (path) => !/00(1[1-9]|[2-9][0-9])_/.test(path) });
  const app = { role: `app_tree_${process.pid}_${Date.now()}`, password: 'correct horse' };
  await migrate(ownerUrl, { dir: before, app });
  t.teardown(async () => {
    const superuser = connect(superuserUrl, { max: 1, applicationName: 'test' });
    await superuser.unsafe(`drop owned by ${app.role}; drop role ${app.role}`);
    await superuser.end();
  });
  const sql = connect(ownerUrl, { applicationName: 'test', max: 1 });
  t.teardown(() => sql.end());
  const accounts = new Map<string, string[]>();
  for (const size of [0, 1, 255, 256, 257, 1_000]) {
    const account = newTypeId('acc', START_MS + size);
    const hashes = await writeEntries(sql, account, size);
    await insertHead(sql, account, hashes);
    accounts.set(account, hashes);
  }
  await migrate(ownerUrl, { dir: join(MIGRATIONS), app });
  for (const [accountId, hashes] of accounts) {
    let edge: RightEdge | null = null;
    for (const [size, hash] of hashes.entries()) edge = appendLeaf(edge, size, hash);
    const rows = await sql`select encode(edge, 'hex') as edge from account_heads where account_id = ${accountId}`;
    t.match(rows, [{ edge: edgeHashes(edge).join('') }]);
    t.same(await currentTreeHead(sql, accountId), { size: hashes.length, root: rootOfLeaves(hashes) });
    const subtrees = await sql`select from evidence_subtrees where account_id = ${accountId}`;
    t.equal(subtrees.length, Math.floor(hashes.length / 256));
  }
});

t.test('roots, proofs and tiles of 70,000 entries are those of RFC 6962, read from a tile a level', async (t) => {
  const { sql } = await createDatabase(t);
  const accountId = newTypeId('acc', START_MS);
  const hashes = await writeEntries(sql, accountId, 70_000);
  await insertHead(sql, accountId, hashes);
  const sizes = fc.oneof(
    fc.integer({ min: 1, max: hashes.length }),
    fc.constantFrom(1, 255, 256, 257, 65_535, 65_536, 65_537, 70_000),
  );
  const property = fc.asyncProperty(sizes, fc.double({ min: 0, max: 1, noNaN: true }), async (size, part) => {
    const tree = { accountId, size };
    const root = rootOfLeaves(hashes.slice(0, size));
    const index = Math.min(size - 1, Math.floor(size * part));
    const firstSize = index + 1;
    const firstRoot = rootOfLeaves(hashes.slice(0, firstSize));
    const proof = await inclusionProofOf(sql, tree, index);
    const consistency = await consistencyProofOf(sql, tree, firstSize);
    return (
      (await rootOf(sql, tree)) === root &&
      verifyInclusion({ index, size, leafHash: hashes[index]!, proof, root }) &&
      verifyConsistency({ firstSize, secondSize: size, firstRoot, secondRoot: root, proof: consistency })
    );
  });
  await fc.assert(property, { numRuns: 40 });
  // The example of the specification: a tree of size 70,000.
  const widths = [
    [0, 272, 256],
    [0, 273, 112],
    [1, 0, 256],
    [1, 1, 17],
    [2, 0, 1],
  ] as const;
  for (const [level, index, width] of widths) t.equal(widthAt(70_000, level, index), width);
  const tree = { accountId, size: 70_000 };
  t.same((await tileOf(sql, tree, { level: 0, index: 273, width: 112 }))?.toString('hex'), hashes.slice(-112).join(''));
  const top = await tileOf(sql, tree, { level: 2, index: 0, width: 1 });
  t.equal(top?.toString('hex'), rootOfLeaves(hashes.slice(0, 65_536)));
  t.equal(await tileOf(sql, tree, { level: 0, index: 273, width: 113 }), null);
  await t.rejects(rootOf(sql, { accountId, size: 70_001 }), { name: 'EvidenceContradiction' });
});
