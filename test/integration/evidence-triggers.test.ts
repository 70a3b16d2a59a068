import fc from 'fast-check';
import t from 'tap';
import { connect, type Sql } from '../../control-plane/db/client.ts';
import { CHAIN_START, EVIDENCE_KINDS, entryHash } from '../../core/evidence.ts';
import { canonicalize, type JsonValue } from '../../core/jcs.ts';
import { newTypeId } from '../../core/type-id.ts';
import { createDatabase } from '../database.ts';

const PARTITIONS = Array.from({ length: 8 }, (_, n) => `evidence_p${n}`);
const TABLES = ['evidence', ...PARTITIONS];
/** A trigger function that anybody may use, and the rest of a definition that checks nothing. */
const SOME_TRIGGER = 'suppress_redundant_updates_trigger';
const DOES_NOTHING = `returns trigger language plpgsql as 'begin return null; end'`;
const START_MS = Date.parse('2026-05-15T10:00:00.000Z');

interface Entry {
  readonly account: string;
  readonly seq: number;
  readonly id: string;
  readonly kind: string;
  readonly atMs: number;
  readonly prev: string;
  readonly body: string;
  readonly hash: string;
}

/** An entry with its right hash, whatever else is wrong with it. */
function entry(given: Partial<Entry> & { account: string; seq: number; prev: string }): Entry {
  const unhashed = { id: newTypeId('evt', START_MS), kind: 'decision', atMs: START_MS, body: '{"n":1}', ...given };
  const at = new Date(unhashed.atMs).toISOString();
  return { ...unhashed, hash: given.hash ?? entryHash({ ...unhashed, at }) };
}

/** The next `count` entries after `last` (or the first ones of an account), a millisecond apart. */
function continued(account: string, count: number, last: Entry | null = null): Entry[] {
  const entries: Entry[] = [];
  for (let before = last; entries.length < count; before = entries.at(-1) ?? null) {
    const [seq, prev] = [before === null ? 0 : before.seq + 1, before?.hash ?? CHAIN_START];
    entries.push(entry({ account, seq, prev, atMs: (before?.atMs ?? START_MS) + 1, body: `{"n":${seq}}` }));
  }
  return entries;
}

async function append(sql: Sql, entries: readonly Entry[], table = 'evidence'): Promise<void> {
  const rows = entries.map(({ account, seq, id, kind, atMs, prev, hash, body }) => {
    return [account, seq, id, kind, new Date(atMs).toISOString(), prev, hash, body];
  });
  await sql`insert into ${sql(table)} (account_id, seq, id, kind, at, prev, hash, body)
    select r->>0, (r->>1)::bigint, r->>2, r->>3, r->>4, decode(r->>5, 'hex'), decode(r->>6, 'hex'), r->>7
    from unnest(${rows.map((row) => JSON.stringify(row))}::text[]) as given (line), json(given.line) as r`;
}

async function stored(sql: Sql): Promise<string> {
  const [row] = await sql<{ all: string | null }[]>`select string_agg(encode(hash, 'hex'), ' ' order by account_id, seq)
    as all from evidence`;
  return row?.all ?? '';
}

const newAccount = () => newTypeId('acc', START_MS);

/** One account with three entries, and what was stored when they were in. */
async function begun(sql: Sql): Promise<{ account: string; first: Entry; last: Entry }> {
  const account = newAccount();
  const entries = continued(account, 3);
  await append(sql, entries);
  const [first, , last] = entries;
  if (first === undefined || last === undefined) throw new Error('three entries were made');
  return { account, first, last };
}

t.test('what continues the chains of several accounts is taken in one statement, in any order', async (t) => {
  const { sql } = await createDatabase(t);
  const chains = Array.from({ length: 12 }, () => continued(newAccount(), 5));
  await append(sql, chains.flat().reverse());
  const more = chains.map((chain) => continued(chain[0]?.account ?? '', 2, chain.at(-1)));
  await append(sql, more.flat());
  const [row] = await sql<{ count: number }[]>`select count(*) from evidence`;
  t.equal(row?.count, 12 * 7);
  const parts = await sql`select distinct tableoid from evidence`;
  t.ok(parts.length > 1, 'the accounts are in several partitions');
});

t.test('as the owner: UPDATE, DELETE and TRUNCATE are refused, on the table and on every partition', async (t) => {
  const { sql } = await createDatabase(t);
  await begun(sql);
  const before = await stored(sql);
  for (const table of TABLES) {
    const name = sql(table);
    await t.rejects(sql`update ${name} set body = '{}'`, /evidence is append-only: UPDATE refused/, `update ${table}`);
    await t.rejects(sql`update ${name} set body = body where false`, /append-only/, `empty update ${table}`);
    await t.rejects(sql`delete from ${name}`, /evidence is append-only: DELETE refused/, `delete ${table}`);
    await t.rejects(sql`truncate ${name}`, /evidence is append-only: TRUNCATE refused/, `truncate ${table}`);
    await t.rejects(sql`truncate ${name} cascade`, /append-only/, `truncate cascade ${table}`);
  }
  t.equal(await stored(sql), before);
});

t.test('as the owner: an upsert and a MERGE change nothing either', async (t) => {
  const { sql } = await createDatabase(t);
  const { first } = await begun(sql);
  const before = await stored(sql);
  await t.rejects(
    sql`insert into evidence select * from evidence on conflict (account_id, seq) do update set body = '{"n":9}'`,
    /evidence is append-only: UPDATE refused/,
  );
  await t.rejects(
    sql`merge into evidence e using (select 0 as seq) s on e.seq = s.seq and e.account_id = ${first.account}
      when matched then delete`,
    /evidence is append-only: DELETE refused/,
  );
  t.equal(await stored(sql), before);
});

t.test('as the owner: an entry that does not continue the chain is refused and says which and why', async (t) => {
  const { sql } = await createDatabase(t);
  const { account, first, last } = await begun(sql);
  const before = await stored(sql);
  const next = { account, seq: last.seq + 1, prev: last.hash, atMs: last.atMs };
  const ahead = Date.now() + 3_600_000;
  const other = newAccount();
  const refused: [string, Entry[], RegExp][] = [
    ['a gap', [entry({ ...next, seq: next.seq + 1 })], /entry 4 of account acc_.*: seq does not continue the chain/],
    ['a gap inside a batch', [entry(next), entry({ ...next, seq: next.seq + 2 })], /seq does not continue the chain/],
    ['a chain that begins late', [entry({ account: other, seq: 1, prev: CHAIN_START })], /entry 1 .*: seq does not/],
    ['a duplicate', [entry({ ...next, seq: last.seq })], /duplicate key value/],
    ['a restart', [entry({ ...next, seq: 0, prev: CHAIN_START })], /duplicate key value/],
    ['a negative seq', [entry({ ...next, seq: -1 })], /entry -1 .*: seq does not continue the chain/],
    ['a used id', [entry({ ...next, id: first.id })], /duplicate key value/],
    ['another prev', [entry({ ...next, prev: first.hash })], /entry 3 .*: prev is not the hash of the entry before/],
    ['a first entry with a prev', [entry({ account: other, seq: 0, prev: last.hash })], /entry 0 .*: prev is not/],
    ['another hash', [entry({ ...next, hash: first.hash })], /entry 3 .*: hash is not the hash of the entry/],
    ['time that goes back', [entry({ ...next, atMs: last.atMs - 1 })], /entry 3 .*: time goes back/],
    ['time ahead of the clock', [entry({ ...next, atMs: ahead })], /entry 3 .*: time is ahead of the database clock/],
    ['a first entry ahead', [entry({ account: other, seq: 0, prev: CHAIN_START, atMs: ahead })], /time is ahead/],
  ];
  for (const [name, entries, message] of refused) await t.rejects(append(sql, entries), message, name);
  const [part] = await sql<{ name: string }[]>`select tableoid::regclass::text as name from evidence
    where account_id = ${account} limit 1`;
  for (const [name, entries, message] of refused.filter(([, [only]]) => only?.account === account)) {
    await t.rejects(append(sql, entries, part?.name), message, `${name}, directly into a partition`);
  }
  t.equal(await stored(sql), before);
  await append(sql, [entry(next)]);
});

t.test('as the owner: a batch of one time, as decisions are written, is refused for any one entry in it', async (t) => {
  const { sql } = await createDatabase(t);
  const { account, last } = await begun(sql);
  const before = await stored(sql);
  /** Four entries of one time; `change` alters what is hashed of the one at `at`, those behind it follow on. */
  const batch = (at = -1, change: (one: Entry) => Partial<Entry> = () => ({})): Entry[] => {
    const entries: Entry[] = [];
    for (let i = 0; i < 4; i++) {
      const { seq, hash } = entries.at(-1) ?? last;
      const plain = entry({ account, seq: seq + 1, prev: hash, atMs: last.atMs + 5, body: `{"n":${i}}` });
      entries.push(i === at ? entry({ ...plain, ...change(plain) }) : plain);
    }
    return entries;
  };
  const good = batch();
  const [a, b, c, d] = good as [Entry, Entry, Entry, Entry];
  const cut = { ...entry({ ...b, prev: `${b.prev}${c.prev.slice(0, 2)}`, hash: '' }) };
  const refused: [string, Entry[], RegExp][] = [
    ['a hash of another entry', [a, { ...b, hash: c.hash }, c, d], /hash is not the hash of the entry/],
    ['another body under the hash', [a, b, { ...c, body: '{"n":9}' }, d], /hash is not the hash of the entry/],
    ['another prev, hashed', batch(2, () => ({ prev: a.prev })), /entry 5 .*: prev is not the hash/],
    ['another prev at the front', batch(0, () => ({ prev: CHAIN_START })), /entry 3 .*: prev is not the hash/],
    [
      'a prev cut elsewhere',
      [a, { ...cut, hash: entryHash({ ...cut, at: new Date(cut.atMs).toISOString() }) }, c, d],
      /prev is not the hash/,
    ],
    ['a gap', [a, b, d], /seq does not continue the chain/],
    ['a gap at the front', [b, c, d], /entry 4 .*: seq does not continue the chain/],
    ['links that follow the order of writing', followed(account, last, [1, 0, 2, 3]), /prev is not the hash/],
    ['a time before the last entry', batch().map((one) => entry({ ...one, atMs: last.atMs - 1 })), /time goes back/],
    ['a time ahead', ahead(account, last), /time is ahead of the database clock/],
  ];
  for (const [name, entries, message] of refused) await t.rejects(append(sql, entries), message, name);
  t.equal(await stored(sql), before);
  await append(sql, [d, b, a, c]);
  t.not(await stored(sql), before, 'the order of writing does not matter');
});

/** Entries whose links follow the order in which they are written, which is not that of their numbers. */
function followed(account: string, last: Entry, order: readonly number[]): Entry[] {
  const entries: Entry[] = [];
  for (const step of order) {
    const prev = (entries.at(-1) ?? last).hash;
    entries.push(entry({ account, seq: last.seq + 1 + step, prev, atMs: last.atMs + 5 }));
  }
  return entries;
}

function ahead(account: string, last: Entry): Entry[] {
  const [atMs, entries] = [Date.now() + 3_600_000, [] as Entry[]];
  for (let i = 1; i <= 3; i++) {
    entries.push(entry({ account, seq: last.seq + i, prev: (entries.at(-1) ?? last).hash, atMs }));
  }
  return entries;
}

t.test('as the owner: an entry whose members could be written in two ways is refused', async (t) => {
  const { sql } = await createDatabase(t);
  const times = [
    '-infinity',
    'now',
    '',
    '2026-05-15 10:00:00.000Z',
    '2026-05-15T10:00:00Z',
    '2026-05-15T10:00:00.0001Z',
  ];
  for (const at of [
    ...times,
    '2026-02-30T10:00:00.000Z',
    '2026-05-15T24:00:00.000Z',
    '2026-05-15T10:00:00.000+02:00',
  ]) {
    const write = sql`insert into evidence (account_id, seq, id, kind, at, prev, hash, body) values (${newAccount()}, 0,
      ${newTypeId('evt', 0)}, 'decision', ${at}, decode(${CHAIN_START}, 'hex'),
      decode(${CHAIN_START}, 'hex'), '{}')`;
    await t.rejects(write, /evidence refused: at is not a canonical time|out of range/, at);
  }
  t.equal(await stored(sql), '');
});

t.test(
  'as the owner: an entry with a member out of form is refused, and a statement without entries is not',
  async (t) => {
    const { sql } = await createDatabase(t);
    const first = { account: newAccount(), seq: 0, prev: CHAIN_START };
    const refused: [Partial<Entry>, RegExp][] = [
      [{ account: 'acc_1' }, /account is not an identifier/],
      [{ account: `${first.account}"` }, /account is not an identifier/],
      [{ kind: 'Decision' }, /kind is not a dotted name/],
      [{ kind: 'a"b' }, /kind is not a dotted name/],
      [{ kind: '' }, /kind is not a dotted name/],
      [{ id: 'rcp_1' }, /id is not an identifier/],
      [{ id: `rcp_${'"'.repeat(26)}` }, /id is not an identifier/],
      [{ prev: CHAIN_START.slice(2) }, /prev is not the hash of the entry before/],
      [{ body: `"${'x'.repeat(65_536)}"` }, /body is longer than 65536 bytes/],
      [{ body: `"${'ü'.repeat(32_768)}"` }, /body is longer than 65536 bytes/],
    ];
    for (const [change, message] of refused) {
      await t.rejects(append(sql, [entry({ ...first, ...change })]), message, JSON.stringify(change).slice(0, 60));
    }
    await append(sql, []);
    t.equal(await stored(sql), '');
  },
);

t.test('one wrong row refuses the whole batch, the other accounts in it included', async (t) => {
  const { sql } = await createDatabase(t);
  const [good, bad] = [continued(newAccount(), 3), continued(newAccount(), 3)];
  const broken = bad.map((made, at) => (at === 2 ? { ...made, hash: CHAIN_START } : made));
  await t.rejects(append(sql, [...good, ...broken]), new RegExp(`entry 2 of account ${bad[0]?.account}: hash is not`));
  t.equal(await stored(sql), '');
  await append(sql, [...good, ...bad]);
});

t.test('when the clock was set back an account goes on at the time of its last entry, and not beyond', async (t) => {
  const { sql } = await createDatabase(t);
  const { account, last } = await begun(sql);
  await sql.unsafe(`create or replace function db_clock() returns timestamptz language sql volatile parallel safe
    as $$ select timestamptz '2020-01-01 00:00:00Z' $$`);
  const next = { account, seq: last.seq + 1, prev: last.hash };
  await t.rejects(append(sql, [entry({ ...next, atMs: last.atMs + 1 })]), /time is ahead of the database clock/);
  await t.rejects(append(sql, [entry({ ...next, atMs: last.atMs - 1 })]), /time goes back/);
  await append(sql, [entry({ ...next, atMs: last.atMs })]);
});

t.test('the role of the service appends and reads, and can neither change evidence nor what protects it', async (t) => {
  const { sql, appUrl, ownerUrl } = await createDatabase(t);
  const app = connect(appUrl, { max: 1, applicationName: 'test app' });
  t.teardown(() => app.end());
  const { account, last } = await begun(app);
  const before = await stored(sql);
  const owner = new URL(ownerUrl).username;
  const forbidden = [
    ...TABLES.flatMap((table) => [
      `update ${table} set body = '{}'`,
      `delete from ${table}`,
      `truncate ${table}`,
      `alter table ${table} disable trigger all`,
      `alter table ${table} disable trigger evidence_chain`,
      `drop trigger evidence_chain on ${table}`,
      `drop trigger evidence_append_only on ${table}`,
      `create trigger mine before update on ${table} for each row execute function ${SOME_TRIGGER}()`,
      `drop table ${table}`,
    ]),
    ...PARTITIONS.map((part) => `insert into ${part} select * from evidence`),
    `alter table evidence detach partition evidence_p0`,
    `set session_replication_role = replica`,
    `set role ${owner}`,
    `create or replace function evidence_continues_chain() ${DOES_NOTHING}`,
    `create or replace function evidence_is_append_only() ${DOES_NOTHING}`,
    `create or replace function db_clock() returns timestamptz language sql as 'select now()'`,
    `drop function evidence_continues_chain() cascade`,
    `alter function evidence_continues_chain() rename to other`,
    `alter function db_clock() owner to current_user`,
    `create rule mine as on insert to evidence do instead nothing`,
    `create function public.mine() returns int language sql as 'select 1'`,
    `drop schema public cascade`,
  ];
  // PostgreSQL answers this with a warning only; the statements after it show that nothing was granted.
  await app.unsafe('grant all on evidence to current_user');
  for (const statement of forbidden) await t.rejects(app.unsafe(statement), { code: '42501' }, statement);
  await t.rejects(append(app, [entry({ account, seq: 9, prev: last.hash })]), /seq does not continue/);
  t.equal(await stored(sql), before);
});

t.test('a temporary table of the same name cannot stand in for the chain', async (t) => {
  const { sql, name, appUrl, superuserUrl } = await createDatabase(t);
  const superuser = connect(superuserUrl, { max: 1, applicationName: 'test superuser' });
  await superuser.unsafe(`grant temporary on database ${name} to public`);
  await superuser.end();
  const app = connect(appUrl, { max: 1, applicationName: 'test app' });
  t.teardown(() => app.end());
  const { account, last } = await begun(app);
  const before = await stored(sql);
  const forged = entry({ account, seq: 50, prev: last.hash, atMs: last.atMs });
  await app.unsafe('create temporary table evidence (like public.evidence)');
  await append(app, [forged], 'evidence');
  const next = entry({ account, seq: 51, prev: forged.hash, atMs: last.atMs });
  await t.rejects(append(app, [next], 'public.evidence'), /entry 51 .*: seq does not continue the chain/);
  t.equal(await stored(sql), before);
});

t.test('replication mode, which turns ordinary triggers off, leaves these on', async (t) => {
  const { sql, superuserUrl } = await createDatabase(t);
  const { account, last } = await begun(sql);
  const superuser = connect(superuserUrl, { max: 1, applicationName: 'test superuser' });
  t.teardown(() => superuser.end());
  await superuser`set session_replication_role = replica`;
  await t.rejects(superuser`delete from evidence`, /evidence is append-only/);
  await t.rejects(append(superuser, [entry({ account, seq: 9, prev: last.hash })]), /seq does not continue/);
});

t.test('the database and the program hash every entry alike, whatever its body holds', async (t) => {
  const { sql } = await createDatabase(t);
  const json = fc
    .jsonValue({ maxDepth: 2, stringUnit: 'binary' })
    .filter((value) => JSON.stringify(value).isWellFormed()) as fc.Arbitrary<JsonValue>;
  const entries = fc.array(
    fc.record({
      body: json,
      kind: fc.constantFrom(...EVIDENCE_KINDS),
      seq: fc.maxSafeNat(),
      atMs: fc.integer({ min: 0, max: Date.parse('9999-12-31T23:59:59.999Z') }),
    }),
    { minLength: 50, maxLength: 50 },
  );
  const property = fc.asyncProperty(entries, async (given) => {
    const made = given.map(({ body, ...rest }) =>
      entry({ account: newAccount(), prev: CHAIN_START, body: canonicalize(body), ...rest }),
    );
    const rows = made.map((each) => {
      return [each.account, each.seq, each.id, each.kind, new Date(each.atMs).toISOString(), each.prev, each.body];
    });
    const hashes = await sql<{ hash: string }[]>`
      select encode(evidence_leaf_hash(r->>0, (r->>1)::bigint, r->>2, r->>3,
        r->>4, decode(r->>5, 'hex'), r->>6), 'hex') as hash
      from unnest(${rows.map((row) => JSON.stringify(row))}::text[]) with ordinality as given (line, at),
        json(given.line) as r order by given.at`;
    return hashes.every(({ hash }, at) => hash === made[at]?.hash);
  });
  await t.resolves(fc.assert(property, { numRuns: 20 }));
});
