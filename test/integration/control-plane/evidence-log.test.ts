import { hash } from 'node:crypto';
import { compactVerify, createLocalJWKSet, type JSONWebKeySet } from 'jose';
import t from 'tap';
import { signedTreeHead } from '../../../control-plane/evidence/tree-heads.ts';
import { openLogKey } from '../../../control-plane/signing/log-key.ts';
import { verifyCheckpoint } from '../../../core/checkpoint.ts';
import { readPublicKey } from '../../../core/ed25519.ts';
import { consistencyProof, rootOfLeaves, verifyConsistency } from '../../../core/merkle.ts';
import { readVerifierKey } from '../../../core/signed-note.ts';
import { cli } from '../cli/stub-admin.ts';
import { textAt } from './admin-fixture.ts';
import { NOUN_ROUTES, type NounFixture, nounFixture, problemOf } from './noun-fixture.ts';

interface LogFixture extends NounFixture {
  /** The answer to a GET with an API key that may read evidence. */
  read(path: string): Promise<{ status: number; type: string; bytes: Buffer }>;
  /** Appends so many entries to the person's chain. */
  append(count: number, body?: string): Promise<void>;
  /** The hashes of the person's entries. */
  leaves(): Promise<string[]>;
}

async function logFixture(t: Parameters<typeof nounFixture>[0]): Promise<LogFixture> {
  const fixture = await nounFixture(t, { register: NOUN_ROUTES });
  const { secret } = await fixture.apiKey(['evidence:read']);
  await fixture.sql`update api_keys set management_per_second = 1000, management_burst = 1000`;
  const read: LogFixture['read'] = async (path) => {
    const answer = await fixture.app.inject({ url: path, headers: { authorization: `Bearer ${secret}` } });
    return { status: answer.statusCode, type: String(answer.headers['content-type']), bytes: answer.rawPayload };
  };
  const append: LogFixture['append'] = (count, text = 'x') =>
    fixture.lanes.command(fixture.person.accountId, async (context) => {
      for (let i = 0; i < count; i++) context.append('mandate.changed', { text });
    });
  const leaves: LogFixture['leaves'] = async () => {
    const rows = await fixture.sql<{ hash: string }[]>`
      select encode(hash, 'hex') as hash from evidence where account_id = ${fixture.person.accountId} order by seq`;
    return rows.map((row) => row.hash);
  };
  return { ...fixture, read, append, leaves };
}

t.test('a checkpoint and the token of the same head verify under published keys, and cover all entries', async (t) => {
  const fixture = await logFixture(t);
  const answer = await fixture.read('/api/v1/evidence/tree-head');
  t.equal(answer.status, 200);
  const head = JSON.parse(answer.bytes.toString()) as Record<string, string> & { size: number };
  const leaves = await fixture.leaves();
  t.match(head, { account_id: fixture.person.accountId, size: leaves.length, root: rootOfLeaves(leaves) });
  t.equal(head['origin'], `mandate.example/${fixture.person.accountId}`);

  const { status, type, bytes } = await fixture.read('/api/v1/evidence/checkpoint');
  t.match({ status, type }, { status: 200, type: 'text/plain; charset=utf-8' });
  t.equal(bytes.toString(), head['checkpoint'], 'the head that still is the last one is not signed again');
  const key = readVerifierKey(head['verifier_key']!)!;
  t.match(await verifyCheckpoint(bytes.toString(), key, [], readPublicKey), {
    ok: true,
    checkpoint: { origin: head['origin'], size: head.size, root: head['root'] },
  });
  const jwks = (await fixture.send('GET', '/.well-known/jwks.json', null)).body as JSONWebKeySet;
  const token = await compactVerify(head['receipt']!, createLocalJWKSet(jwks), { algorithms: ['ES256'] });
  t.equal(token.protectedHeader.typ, 'sth+jwt');
  t.match(JSON.parse(Buffer.from(token.payload).toString()), {
    ...{ iss: 'https://mandate.example', sub: fixture.person.accountId, size: head.size },
    ...{ root: head['root'], at: head['at'], iat: Math.floor(Date.parse(head['at']!) / 1000) },
  });
  t.match(await fixture.send('GET', '/admin/evidence/log', fixture.person.token), { status: 200, body: head });
});

t.test('each head that is signed continues the one before', async (t) => {
  const fixture = await logFixture(t);
  const { accountId } = fixture.person;
  const first = await signedTreeHead(fixture.deps, accountId);
  await fixture.append(300);
  t.same(await signedTreeHead(fixture.deps, accountId), first, 'within a second one head serves all readers');
  const second = await signedTreeHead(fixture.deps, accountId, first.size + 300);
  t.equal(second.size, first.size + 300, 'but not who needs a later entry');
  const leaves = await fixture.leaves();
  const proof = consistencyProof(leaves, first.size);
  const sizes = { firstSize: first.size, secondSize: second.size };
  t.ok(verifyConsistency({ ...sizes, firstRoot: first.root, secondRoot: second.root, proof }));
  await fixture.append(1);
  await fixture.advance(2);
  const many = await Promise.all(Array.from({ length: 20 }, () => signedTreeHead(fixture.deps, accountId)));
  t.equal(new Set(many.map(({ checkpoint }) => checkpoint)).size, 1, 'readers at once get one head');
  const kept = await fixture.sql`select size from tree_heads order by size`;
  t.same(
    kept.map(({ size }) => size),
    [first.size, second.size, second.size + 1],
  );
});

t.test('tiles hold the hashes of the entries, bundles the entries that they are of', async (t) => {
  const fixture = await logFixture(t);
  await fixture.append(256 + 40 - (await fixture.leaves()).length);
  const leaves = await fixture.leaves();
  const full = await fixture.read('/api/v1/evidence/tile/0/000');
  t.match({ ...full, bytes: 0 }, { status: 200, type: 'application/octet-stream' });
  t.equal(full.bytes.toString('hex'), leaves.slice(0, 256).join(''));
  t.equal((await fixture.read('/api/v1/evidence/tile/0/001.p/40')).bytes.toString('hex'), leaves.slice(256).join(''));
  t.equal((await fixture.read('/api/v1/evidence/tile/0/001.p/7')).bytes.length, 7 * 32, 'and what was there before');
  const above = await fixture.read('/api/v1/evidence/tile/1/000.p/1');
  t.equal(above.bytes.toString('hex'), rootOfLeaves(leaves.slice(0, 256)));
  for (const [path, of] of [
    ['000', leaves.slice(0, 256)],
    ['001.p/40', leaves.slice(256)],
  ] as const) {
    const { status, bytes } = await fixture.read(`/api/v1/evidence/tile/entries/${path}`);
    t.equal(status, 200);
    const hashes: string[] = [];
    for (let at = 0; at < bytes.length; ) {
      const length = bytes.readUInt16BE(at);
      hashes.push(hash('sha256', Buffer.concat([Buffer.of(0), bytes.subarray(at + 2, at + 2 + length)])));
      at += 2 + length;
    }
    t.same(hashes, of);
  }
});

t.test(
  'an entry that is too long for a bundle is a conflict that says so, and its hash still in the tile',
  async (t) => {
    const fixture = await logFixture(t);
    await fixture.append(1, 'x'.repeat(65_500));
    const { length } = await fixture.leaves();
    const { status, bytes } = await fixture.read(`/api/v1/evidence/tile/entries/000.p/${length}`);
    t.equal(status, 409);
    t.match(JSON.parse(bytes.toString()), { error: 'conflict', detail: new RegExp(`Entry ${length - 1} is longer`) });
    t.equal((await fixture.read(`/api/v1/evidence/tile/entries/000.p/${length - 1}`)).status, 200);
    t.equal((await fixture.read(`/api/v1/evidence/tile/0/000.p/${length}`)).bytes.length, 32 * length);
  },
);

t.test('what is no tile, or none yet, is not found', async (t) => {
  const fixture = await logFixture(t);
  const { length } = await fixture.leaves();
  for (const path of [
    ...['0/000', `0/000.p/${length + 1}`, '0/001.p/1', '1/000.p/1', 'entries/000', 'entries/001.p/1', '6/000.p/1'],
    ...['0/0', '00/000.p/1', '0/000.p/0', '0/000.p/01', '0/000.p/256', '0/x000/000.p/1', '0/000/000.p/1', '7/000.p/1'],
    ...['-1/000.p/1', 'x/000.p/1', '0/x9007199254740993', '0/', '63/000.p/1', '0/000.p/', `0/${'x999/'.repeat(12)}999`],
  ]) {
    const { status, bytes } = await fixture.read(`/api/v1/evidence/tile/${path}`);
    t.match([status, JSON.parse(bytes.toString())], [404, { error: 'not_found' }], path);
  }
  t.equal((await fixture.read('/api/v1/evidence/tile/0/000.p/1?x=1')).status, 200);
});

const ROUTES = ['checkpoint', 'tree-head', 'tile/0/000.p/1', 'tile/entries/000.p/1'];

t.test('only a key with evidence:read reads a log, and only that of its own account', async (t) => {
  const fixture = await logFixture(t);
  const { secret } = await fixture.apiKey(['verify', 'mandates:read']);
  const stranger = await fixture.signUp('eve@example.com');
  for (const route of ROUTES) {
    const path = `/api/v1/evidence/${route}`;
    t.same(problemOf(await fixture.send('GET', path, null)), [401, 'unauthenticated'], route);
    const unscoped = problemOf(await fixture.send('GET', path, secret));
    t.same(unscoped, [403, 'insufficient_scope'], route);
    t.equal((await fixture.send('GET', path, fixture.person.token)).status, 401, 'a session is no key');
    t.equal((await fixture.send('POST', path, secret, {})).status, 405, route);
  }
  t.equal((await fixture.send('GET', '/admin/evidence/log', null)).status, 401);
  const own = await fixture.send('GET', '/admin/evidence/log', stranger.token);
  t.equal(textAt(own, 'account_id'), stranger.accountId);
  for (const query of ['', '?level=0&index=0', '?level=7&index=0', '?level=1&index=-1', '?level=1&index=0&x=1']) {
    t.equal((await fixture.send('GET', `/admin/evidence/subtrees${query}`, stranger.token)).status, 422, query);
  }
  t.match(await fixture.send('GET', '/admin/evidence/subtrees?level=1&index=9', stranger.token), {
    body: { hashes: [] },
  });
});

t.test('the key of the log is made once, opens under its master key only, and cannot be exchanged', async (t) => {
  const fixture = await logFixture(t);
  const { custody, sql } = fixture.deps;
  const keys = await Promise.all(Array.from({ length: 5 }, () => openLogKey(sql, custody)));
  for (const key of keys) t.same(key.publicKey, fixture.deps.signing.log.publicKey);
  t.equal((await sql`select from log_keys`).length, 1);
  await t.rejects(sql`delete from log_keys`, { code: '42501' });
  await t.rejects(sql`update log_keys set sealed = sealed`, { code: '42501' });
  await fixture.sql`update log_keys set public_key = ${Buffer.alloc(32)}`;
  await t.rejects(openLogKey(sql, custody), 'what was sealed for another public key does not open');
});

async function verifyFixture(t: Parameters<typeof nounFixture>[0] & { teardown(fn: () => unknown): void }) {
  const fixture = await logFixture(t);
  const url = await fixture.app.listen({ host: '127.0.0.1', port: 0 });
  const environment = { MANDATE_CONTROL_URL: url, MANDATE_TOKEN: fixture.person.token };
  const superuser = async (...statements: string[]) => {
    for (const table of [
      'evidence_subtrees',
      'tree_heads',
      'evidence',
      ...Array.from({ length: 8 }, (_, n) => `evidence_p${n}`),
    ]) {
      await fixture.sql.unsafe(`alter table ${table} disable trigger user`);
    }
    for (const statement of statements) await fixture.sql.unsafe(statement);
  };
  const verify = () => cli(['evidence', 'verify'], environment);
  return { ...fixture, environment, superuser, verify };
}

t.test('evidence verify recomputes the signed root over what it read', async (t) => {
  const { append, verify, leaves, environment } = await verifyFixture(t);
  await append(1_400);
  const count = (await leaves()).length;
  const root = rootOfLeaves(await leaves());
  const { code, stdout, stderr } = await verify();
  t.equal(code, 0, stderr);
  t.match(
    stdout,
    new RegExp(`^${count} entries, chain intact.*\nThe tree head of ${count} entries signed at .*${root}`),
  );
  const shown = await cli(['evidence', 'log'], environment);
  t.match(
    shown.stdout,
    new RegExp(`^mandate.example/acc_\\w+\n${count}\n[\\s\\S]*Verifier key: mandate.example/acc_\\w+\\+`),
  );
  t.match(JSON.parse((await cli(['evidence', 'log', '--json'], environment)).stdout), { size: count, root });
});

t.test('a subtree that a superuser changed is named by its level and entries', async (t) => {
  const { append, verify, superuser } = await verifyFixture(t);
  await append(600);
  t.equal((await verify()).code, 0);
  await superuser(`update evidence_subtrees set hash = sha256(hash) where index = 1`);
  const { code, stderr } = await verify();
  t.equal(code, 1);
  t.match(stderr, /broken at entry 256: the stored subtree of level 1 over the entries 256 to 511 is not their root/);
});

t.test('a chain that a superuser rewrote consistently is found out by the head that was signed', async (t) => {
  const { append, verify, superuser, sql, person, read, advance } = await verifyFixture(t);
  await append(600);
  t.equal((await verify()).code, 0);
  const { accountId } = person;
  // A new last entry with everything that belongs to it: chain, head and tree agree with each other.
  await superuser(
    `update evidence e set body = '{"text":"y"}' where seq = (select max(seq) from evidence)`,
    `update evidence e set hash = evidence_leaf_hash(account_id, seq, id, kind, at, prev, body)
      where account_id = '${accountId}' and seq = (select size - 1 from account_heads where account_id = e.account_id)`,
  );
  await sql`update account_heads h set hash = e.hash, edge = evidence_grow_tree(h.account_id, h.size)
    from evidence e where e.account_id = h.account_id and e.seq = h.size - 1`;
  const rewritten = await verify();
  t.equal(rewritten.code, 1);
  t.match(rewritten.stderr, /the tree head of \d+ entries that was signed at .* is of other entries/);
  await append(1);
  await advance(2);
  const { status, bytes } = await read('/api/v1/evidence/checkpoint');
  t.match([status, bytes.toString()], [409, /contradicts itself or what was signed/], 'nothing more is signed');
  t.match((await verify()).stderr, /is of other entries/, 'and verify still says what is wrong');
});

t.test('a tail that a superuser cut off is found out by the head that was signed', async (t) => {
  const { append, verify, superuser, sql } = await verifyFixture(t);
  await append(100);
  t.equal((await verify()).code, 0);
  await superuser(
    'delete from evidence where seq > (select size - 11 from account_heads h where h.account_id = evidence.account_id)',
  );
  await sql`update account_heads h set size = h.size - 10, edge = evidence_grow_tree(h.account_id, h.size - 10),
    hash = (select e.hash from evidence e where e.account_id = h.account_id and e.seq = h.size - 11)`;
  const { code, stderr } = await verify();
  t.equal(code, 1);
  t.match(stderr, /the tree head of \d+ entries that was signed at .* covers more than the \d+ there are/);
});

t.test('the application itself cannot change a head that was signed', async (t) => {
  const fixture = await logFixture(t);
  await signedTreeHead(fixture.deps, fixture.person.accountId);
  for (const statement of ['update tree_heads set size = 1', 'delete from tree_heads']) {
    await t.rejects(fixture.deps.sql.unsafe(statement), { code: '42501' });
    await t.rejects(fixture.sql.unsafe(statement), { code: '23000' });
  }
});
