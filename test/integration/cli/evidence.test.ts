import t, { type Test } from 'tap';
import { CHAIN_START, entryHash, type StoredEntry } from '../../../core/evidence.ts';
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

async function verify(t: Test, entries: readonly StoredEntry[], size: number, hash: string, args: string[] = []) {
  const stub = await stubAdmin(({ path }) => {
    const url = new URL(path, 'http://x');
    if (url.pathname === '/admin/account') {
      return { text: JSON.stringify({ account_id: ACCOUNT, evidence: { size, hash } }) };
    }
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
  t.strictSame(JSON.parse(json.stdout), { intact: true, entries: 250, hash: entries[249]?.hash });
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
