import { generateKeyPairSync } from 'node:crypto';
import t, { type Test } from 'tap';
import { logKey, signCheckpoint } from '../../../core/checkpoint.ts';
import { SigningKey } from '../../../core/ed25519.ts';
import { CHAIN_START, entryHash, type StoredEntry } from '../../../core/evidence.ts';
import { publicJwk } from '../../../core/jwk.ts';
import { signJws } from '../../../core/jws.ts';
import { rootOfLeaves } from '../../../core/merkle.ts';
import { verifierKeyText } from '../../../core/signed-note.ts';
import { TREE_HEAD_TYPE, treeHeadClaims } from '../../../core/tree-head.ts';
import { cli, stubAdmin } from './stub-admin.ts';

const ACCOUNT = 'acc_01jd0000000000000000000000';

function chain(length: number): StoredEntry[] {
  const entries: StoredEntry[] = [];
  let prev = CHAIN_START;
  for (let seq = 0; seq < length; seq++) {
    const at = new Date(1_700_000_000_000 + seq).toISOString();
    const entry = { account: ACCOUNT, seq, id: `evt_${seq}`, kind: 'decision', at, prev, body: `{"n":${seq}}` };
    prev = entryHash(entry);
    entries.push({ ...entry, hash: prev });
  }
  return entries;
}

/** The complete subtrees of 256 entries. */
function subtrees(entries: readonly StoredEntry[]): string[] {
  const leaves = entries.map((entry) => entry.hash);
  return Array.from({ length: Math.floor(leaves.length / 256) }, (_, i) =>
    rootOfLeaves(leaves.slice(i * 256, (i + 1) * 256)),
  );
}

const SIGNER = generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey;
const LOG_SIGNER = new SigningKey(Buffer.alloc(32, 3));
const LOG = logKey('mandate.example/log', LOG_SIGNER.publicKey);
const AT = '2026-05-15T10:00:00.000Z';

/** What a service says about its log; `told` are the members that it lies in. */
function logAnswer(head: { size: number; root: string }, told: Record<string, unknown> = {}): string {
  const claims = treeHeadClaims('https://mandate.example', { accountId: ACCOUNT, ...head, at: AT });
  return JSON.stringify({
    receipt: signJws({ typ: TREE_HEAD_TYPE, kid: publicJwk(SIGNER).kid }, claims, SIGNER),
    checkpoint: signCheckpoint(head, LOG, (message) => LOG_SIGNER.sign(message)),
    verifier_key: verifierKeyText(LOG),
    ...told,
  });
}

/** The log of the entries up to `size`, as an honest service has it. */
function honestLog(entries: readonly StoredEntry[], size: number): string {
  return logAnswer({ size, root: rootOfLeaves(entries.slice(0, size).map((entry) => entry.hash)) });
}

async function verify(t: Test, entries: readonly StoredEntry[], size: number, hash: string, args: string[] = []) {
  return verifyAgainst(t, honestLog(entries, size), { entries, size, hash }, args);
}

async function verifyAgainst(
  t: Test,
  log: string,
  { entries, size, hash }: { entries: readonly StoredEntry[]; size: number; hash: string },
  args: string[] = [],
) {
  const stub = await stubAdmin(({ path }) => {
    const url = new URL(path, 'http://x');
    if (url.pathname === '/admin/account') {
      return { text: JSON.stringify({ account_id: ACCOUNT, evidence: { size, hash } }) };
    }
    if (url.pathname === '/admin/evidence/log') return { text: log };
    if (url.pathname === '/.well-known/jwks.json') return { text: JSON.stringify({ keys: [publicJwk(SIGNER)] }) };
    if (url.pathname === '/admin/evidence/subtrees') return { text: JSON.stringify({ hashes: subtrees(entries) }) };
    const from = Number(url.searchParams.get('from_seq'));
    const page = entries.slice(from, from + Math.min(Number(url.searchParams.get('limit')), 100));
    return { text: JSON.stringify({ head: { size, hash }, entries: page, next_seq: from + page.length }) };
  });
  t.teardown(() => stub.close());
  return cli(['evidence', 'verify', ...args], { MANDATE_CONTROL_URL: stub.url, MANDATE_TOKEN: 'ses_x' });
}

t.test('an intact chain is read page by page and verified up to its head', async (t) => {
  const entries = chain(250);
  const { code, stdout } = await verify(t, entries, 250, entries[249]?.hash ?? '');
  t.equal(code, 0);
  t.match(stdout, /^250 entries, chain intact/);
  const json = await verify(t, entries, 250, entries[249]?.hash ?? '', ['--json']);
  const root = rootOfLeaves(entries.map((entry) => entry.hash));
  const head = { intact: true, entries: 250, hash: entries[249]?.hash, tree_head: { size: 250, root, at: AT } };
  t.strictSame(JSON.parse(json.stdout), head);
});

t.test('entries that were appended after the head was told do not disturb', async (t) => {
  const entries = chain(120);
  const { code, stdout } = await verify(t, entries, 110, entries[109]?.hash ?? '');
  t.equal(code, 0);
  t.match(stdout, /^110 entries/);
});

t.test('a changed byte is found and its entry named, exit code 1', async (t) => {
  const entries = chain(150).map((entry) => (entry.seq === 120 ? { ...entry, body: '{"n":121}' } : entry));
  const { code, stderr } = await verify(t, entries, 150, entries[149]?.hash ?? '');
  t.equal(code, 1);
  t.match(stderr, /broken at entry 120 \(evt_120\): hash is not the hash of the entry/);
});

t.test('a missing tail, a swapped head and an entry of another account are found', async (t) => {
  const entries = chain(5);
  t.match((await verify(t, entries.slice(0, 3), 5, 'x')).stderr, /broken at entry 3: entry is missing/);
  t.match((await verify(t, entries, 5, 'ab'.repeat(32))).stderr, /the head names another hash/);
  const foreign = entries.map((entry) => ({ ...entry, account: 'acc_other' }));
  t.match((await verify(t, foreign, 5, 'x', ['--json'])).stderr, /"seq":0,"id":"evt_0","problem":"of another account"/);
});

t.test('an entry whose members could be read two ways is refused', async (t) => {
  const entries = chain(2).map((entry) => ({ ...entry, kind: 'decision","x":"' }));
  t.match((await verify(t, entries, 2, 'x')).stderr, /broken at entry 0: entry is not of the known form/);
});

t.test('a tree head that covers less than the chain is compared with as much of it', async (t) => {
  const entries = chain(700);
  const { code, stdout } = await verifyAgainst(t, honestLog(entries, 300), {
    ...{ entries, size: 700, hash: entries[699]?.hash ?? '' },
  });
  t.equal(code, 0);
  t.match(stdout, /^700 entries, chain intact[\s\S]*tree head of 300 entries/);
});

t.test('a checkpoint that was kept finds a chain that was rewritten consistently, signed heads and all', async (t) => {
  const entries = chain(40);
  const stated = { entries, size: 40, hash: entries[39]?.hash ?? '' };
  const rootOver = (size: number) => rootOfLeaves(entries.slice(0, size).map((entry) => entry.hash));
  const origin = logKey(`mandate.example/${ACCOUNT}`, LOG_SIGNER.publicKey);
  const note = (size: number, root: string, key = origin) =>
    signCheckpoint({ size, root }, key, (m) => LOG_SIGNER.sign(m));
  const against = (file: string) =>
    verifyAgainst(t, honestLog(entries, 40), stated, ['--checkpoint', `${t.testdirName}/${file}`]);
  t.testdir({
    honest: note(30, rootOver(30)),
    now: note(40, rootOver(40)),
    empty: note(0, rootOfLeaves([])),
    rewritten: note(30, rootOver(29)),
    longer: note(41, rootOver(40)),
    another: note(30, rootOver(30), LOG),
    broken: note(30, rootOver(30)).replace('\n30\n', '\n3O\n'),
  });
  t.match((await against('honest')).stdout, /So is the checkpoint of 30 entries that was kept: nothing before/);
  for (const file of ['now', 'empty']) t.equal((await against(file)).code, 0, file);
  const found = await against('rewritten');
  t.equal(found.code, 1);
  t.match(found.stderr, /entry 29: the checkpoint of 30 entries that was kept is of other entries/);
  t.match((await against('longer')).stderr, /the checkpoint of 41 entries that was kept covers more than the 40 there/);
  for (const [file, message] of [
    ['another', /The file is a checkpoint of another log, mandate.example\/log/],
    ['broken', /The file is no checkpoint/],
    ['absent', /cannot be read/],
  ] as const) {
    const { code, stderr } = await against(file);
    t.equal(code, 2, file);
    t.match(stderr, message);
  }
});

t.test('a tree head of other entries, of another signer or of another account is not believed', async (t) => {
  const entries = chain(20);
  const stated = { entries, size: 20, hash: entries[19]?.hash ?? '' };
  const root = rootOfLeaves(entries.map((entry) => entry.hash));
  const other = generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey;
  const receiptOf = (key: typeof other, kid: string, accountId = ACCOUNT) =>
    signJws(
      { typ: TREE_HEAD_TYPE, kid },
      treeHeadClaims('https://mandate.example', { accountId, size: 20, root, at: AT }),
      key,
    );
  const honest = { size: 20, root };
  const cases: [string, RegExp][] = [
    [logAnswer({ size: 20, root: 'ab'.repeat(32) }), /entry 19: the tree head of 20 entries .* is of other entries/],
    [logAnswer({ size: 21, root }), /entry 20: the tree head of 21 entries .* covers more than the 20 there are/],
    [logAnswer(honest, { receipt: receiptOf(other, 'x') }), /is not signed with a key of the service/],
    [
      logAnswer(honest, { receipt: receiptOf(other, publicJwk(SIGNER).kid) }),
      /is not signed with a key of the service/,
    ],
    [
      logAnswer(honest, { receipt: receiptOf(SIGNER, publicJwk(SIGNER).kid, 'acc_01jd0000000000000000000001') }),
      /no tree head of this account/,
    ],
    [logAnswer(honest, { checkpoint: 'x' }), /the checkpoint is not signed with its verifier key/],
    [logAnswer(honest, { verifier_key: undefined }), /the checkpoint is not signed with its verifier key/],
    [
      logAnswer(honest, { checkpoint: (JSON.parse(honestLog(entries, 19)) as { checkpoint: string }).checkpoint }),
      /the checkpoint states another tree head than the token/,
    ],
  ];
  for (const [log, message] of cases) {
    const { code, stderr } = await verifyAgainst(t, log, stated);
    t.equal(code, 1);
    t.match(stderr, message);
  }
});
