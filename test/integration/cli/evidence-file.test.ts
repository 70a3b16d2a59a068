import { mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import { entryHash, type StoredEntry } from '../../../core/evidence.ts';
import { appendLeaf } from '../../../core/merkle.ts';
import { edgeHashes, type RightEdge } from '../../../core/merkle-tree.ts';
import { fileOf, sampleChain, sampleKey, sampleLines } from '../../unit/core/export-sample.ts';
import { type NounFixture, nounFixture } from '../control-plane/noun-fixture.ts';
import { cli } from './stub-admin.ts';

/** A service that listens, a directory for files, and the CLI signed in to it. */
async function exporting(t: Parameters<typeof nounFixture>[0], entries = 20) {
  const fixture = await nounFixture(t);
  const directory = await mkdtemp(join(tmpdir(), 'mandate-export-'));
  t.teardown(() => rm(directory, { recursive: true, force: true }));
  const url = await fixture.app.listen({ host: '127.0.0.1', port: 0 });
  await fixture.lanes.command(fixture.person.accountId, async (context) => {
    for (let i = 0; i < entries; i++) context.append('mandate.changed', { n: i });
  });
  const path = (name: string) => join(directory, name);
  const jwks = path('jwks.json');
  await writeFile(jwks, (await fixture.send('GET', '/.well-known/jwks.json', null)).text);
  const environment = { MANDATE_CONTROL_URL: url, MANDATE_TOKEN: fixture.person.token };
  const run = (...args: string[]) => cli(['evidence', ...args], environment);
  /** Without any address or session: offline. */
  const verify = (...args: string[]) =>
    cli(['evidence', 'verify', ...args], { MANDATE_CONTROL_URL: 'http://127.0.0.1:9' });
  return { ...fixture, path, jwks, run, verify };
}

t.test('what is exported is verified offline with the keys alone, in both formats and any range', async (t) => {
  const { run, verify, path, jwks } = await exporting(t);
  for (const [name, ...args] of [
    ['a.ndjson'],
    ['b.json', '--format', 'json'],
    ['c.ndjson', '--from-seq', '7', '--to-seq', '9'],
  ]) {
    const file = path(name ?? '');
    const exported = await run('export', '--out', file, ...args);
    t.equal(exported.code, 0, exported.stderr);
    t.match(exported.stdout, /chain and root checked/);
    t.equal((await stat(file)).mode & 0o777, 0o600, 'for its owner alone');
    const checked = await verify(file, '--jwks', jwks);
    t.equal(checked.code, 0, checked.stderr);
    t.match(checked.stdout, /signed by https:\/\/mandate\.example with a key you pinned/);
    const unproven = await verify(file);
    t.equal(unproven.code, 3, 'nothing failed, and who signed it is not proven');
    t.match(unproven.stdout, /WHO SIGNED IT WAS NOT CHECKED/);
  }
  const json = await verify(path('c.ndjson'), '--jwks', jwks, '--json');
  t.match(JSON.parse(json.stdout), {
    intact: true,
    files: [{ entries: 3, from_seq: 7, to_seq: 9, signature: 'valid', root: /^[0-9a-f]{64}$/ }],
  });
});

t.test('a changed file is refused with the entry named, exit code 1', async (t) => {
  const { run, verify, path, jwks } = await exporting(t);
  await run('export', '--out', path('a'));
  const text = await readFile(path('a'), 'utf8');
  await writeFile(path('changed'), text.replace('"n":5', '"n":6'));
  const { code, stderr } = await verify(path('changed'), '--jwks', jwks);
  t.equal(code, 1);
  t.match(stderr, /changed is not as it was exported: entry \d+ \(evt_\w+\): its hash is not the one/);
  const json = await verify(path('changed'), '--json');
  t.match(JSON.parse(json.stderr), { error: 'export_broken', intact: false, files: [{ seq: /\d/, problem: /hash/ }] });
  await writeFile(path('cut'), text.slice(0, -600));
  t.match((await verify(path('cut'))).stderr, /cut off/);
  await writeFile(path('resigned'), fileOf(sampleLines(sampleChain(5), sampleKey())));
  t.match(
    (await verify(path('resigned'), '--jwks', jwks)).stderr,
    /the receipt: The token names no key of this service/,
  );
  t.match((await verify(path('not there'))).stderr, /cannot be read \(ENOENT\)/);
  t.equal((await verify(path('a'), '--jwks', path('a'))).code, 2, 'a JWKS that is none');
});

/** What somebody can do who rules over the database: writes the chain anew from an entry on, tree and all. */
async function rebuild({ sql, person }: NounFixture, fromSeq: number): Promise<string> {
  const tables = ['evidence', ...Array.from({ length: 8 }, (_, n) => `evidence_p${n}`), 'tree_heads'];
  for (const table of tables) await sql.unsafe(`alter table ${table} disable trigger user`);
  const rows = await sql<StoredEntry[]>`
    select account_id as account, seq, id, kind, at, encode(prev, 'hex') as prev, encode(hash, 'hex') as hash, body
    from evidence where account_id = ${person.accountId} order by seq`;
  let [edge, prev]: [RightEdge | null, string] = [null, ''];
  for (const row of rows) {
    const entry =
      row.seq < fromSeq ? row : { ...row, prev, body: row.seq === fromSeq ? '{"n":"rewritten"}' : row.body };
    prev = entryHash(entry);
    edge = appendLeaf(edge, row.seq, prev);
    await sql`update evidence
      set prev = decode(${entry.prev}, 'hex'), hash = decode(${prev}, 'hex'), body = ${entry.body}
      where account_id = ${person.accountId} and seq = ${row.seq}`;
  }
  await sql`delete from tree_heads where account_id = ${person.accountId}`;
  await sql`update account_heads set hash = decode(${prev}, 'hex'), edge = decode(${edgeHashes(edge).join('')}, 'hex')
    where account_id = ${person.accountId}`;
  for (const table of tables) await sql.unsafe(`alter table ${table} enable trigger user`);
  return rows[fromSeq]?.id ?? '';
}

t.test(
  'a chain that a superuser rebuilt is good alone, and an older export tells from which entry on it is not',
  async (t) => {
    const fixture = await exporting(t);
    const { run, verify, path, jwks } = fixture;
    t.equal((await run('export', '--out', path('old'))).code, 0);
    const id = await rebuild(fixture, 9);
    const exported = await run('export', '--out', path('new'), '--format', 'json');
    t.equal(exported.code, 0, exported.stderr);
    t.equal((await verify(path('new'), '--jwks', jwks)).code, 0, 'nobody can tell by the new file alone');
    const { code, stderr } = await verify(path('old'), path('new'), '--jwks', jwks);
    t.equal(code, 1);
    t.match(stderr, new RegExp(`Entry 9 \\(${id}\\) is not the same in both files, the first that is not`));
    t.match(stderr, /it has told two histories/);
    const json = await verify(path('new'), path('old'), '--jwks', jwks, '--json');
    t.match(JSON.parse(json.stderr), { error: 'exports_contradict', consistent: false, differs: { seq: 9 } });
  },
);

t.test('two exports of a log that only grew are consistent', async (t) => {
  const { run, verify, path, jwks } = await exporting(t);
  await run('export', '--out', path('old'));
  await run('export', '--out', path('new'), '--from-seq', '4', '--format', 'json');
  const { code, stdout } = await verify(path('old'), path('new'), '--jwks', jwks);
  t.equal(code, 0);
  t.match(stdout, /Entries 4 to \d+ are in both and the same: nothing was rewritten/);
  const unproven = await verify(path('old'), path('new'), '--json');
  t.equal(unproven.code, 3, 'without the keys it is not proven');
  t.match(JSON.parse(unproven.stdout), { intact: true, consistent: true, files: [{ signature: 'not_checked' }] });
});

t.test('a file that is there is left alone, and one that breaks off is not kept', async (t) => {
  const { run, path, sql, errors } = await exporting(t);
  await writeFile(path('mine'), 'precious');
  const refused = await run('export', '--out', path('mine'));
  t.equal(refused.code, 1);
  t.match(refused.stderr, /is there already/);
  t.equal(await readFile(path('mine'), 'utf8'), 'precious');
  t.equal((await run('export', '--out', path('x'), '--from-seq', '1e3')).code, 2);
  t.match((await run('export', '--out', path('x'), '--from-seq', '9999')).stderr, /from_seq: must be a whole number/);
  t.match((await run('export', '--out', path('x'), '--format', 'csv')).stderr, /format: /);
  t.match((await run('export', '--out', path('no/such/directory'))).stderr, /cannot be written \(ENOENT\)/);
  for (let n = 0; n < 8; n++) await sql.unsafe(`alter table evidence_p${n} disable trigger user`);
  await sql.unsafe('alter table evidence disable trigger user');
  await sql`update evidence set body = '{"n":"changed"}' where seq = 9`;
  const broken = await run('export', '--out', path('broken'));
  t.equal(broken.code, 1);
  t.match(String(errors.at(-1)), /was broken off: entry \d+ of it/);
  for (const name of ['broken', 'broken.part', 'x', 'x.part']) await t.rejects(stat(path(name)), name);
});
