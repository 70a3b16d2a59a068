import { generateKeyPairSync, randomBytes } from 'node:crypto';
import { createLocalJWKSet, type JSONWebKeySet, jwtVerify } from 'jose';
import t from 'tap';
import { Custody } from '../../../control-plane/custody/custody.ts';
import { connect, type Sql } from '../../../control-plane/db/client.ts';
import { SigningKeys } from '../../../control-plane/signing/signing-keys.ts';
import { listKeys, type Rotation, rotateKeys } from '../../../control-plane/signing/stored-keys.ts';
import { publicJwk, readJwks } from '../../../core/jwk.ts';
import { SIGNING_KEY_PUBLISHED_MS } from '../../../core/limits.ts';
import { createDatabase } from '../../database.ts';
import { adminFixture } from './admin-fixture.ts';

type Teardown = Parameters<typeof createDatabase>[0];

interface Fixture {
  readonly owner: Sql;
  /** A pool of the role that the control plane runs as. */
  readonly sql: Sql;
  readonly custody: Custody;
  readonly errors: unknown[];
  /** Another control plane on the same database. */
  start(): Promise<SigningKeys>;
  /** Moves the database's clock forward. */
  advance(ms: number): Promise<void>;
  /** Rotates after the next key has been published for long enough. */
  rotate(): Promise<Rotation>;
}

async function fixture(t: Teardown): Promise<Fixture> {
  const database = await createDatabase(t);
  const sql = connect(database.appUrl, { applicationName: 'test signing', max: 4 });
  const custody = new Custody(randomBytes(32));
  const errors: unknown[] = [];
  const started: SigningKeys[] = [];
  t.teardown(async () => {
    for (const keys of started) keys.close();
    await sql.end();
  });
  const start = async (): Promise<SigningKeys> => {
    const keys = await SigningKeys.open(sql, custody, (error) => errors.push(error));
    started.push(keys);
    return keys;
  };
  let offset = 0;
  const advance = async (ms: number): Promise<void> => {
    offset += ms;
    await database.sql.unsafe(`create or replace function db_clock() returns timestamptz language sql volatile
      parallel safe as $$ select date_trunc('milliseconds', clock_timestamp()) + interval '${offset} ms' $$`);
  };
  const rotate = async (): Promise<Rotation> => {
    await advance(SIGNING_KEY_PUBLISHED_MS);
    const done = await rotateKeys(sql, custody);
    if ('waitMs' in done) throw new Error(`wait for ${done.waitMs} ms`);
    return done;
  };
  return { owner: database.sql, sql, custody, errors, start, advance, rotate };
}

const claims = (jti: string): string => JSON.stringify({ iss: 'https://gateway.example', jti });
const kidsOf = (keys: SigningKeys): string[] => keys.jwks().keys.map(({ kid }) => kid);
const kidOf = (token: string): string => JSON.parse(Buffer.from(token.split('.')[0] ?? '', 'base64url').toString()).kid;

t.test('control planes that start at once on a new database have the same keys: one current, one next', async (t) => {
  const { sql, start } = await fixture(t);
  const planes = await Promise.all(Array.from({ length: 8 }, () => start()));
  const stored = await listKeys(sql);
  t.same(stored.map(({ status }) => status).sort(), ['current', 'next']);
  for (const plane of planes) {
    t.same(kidsOf(plane).sort(), stored.map(({ kid }) => kid).sort());
    const token = plane.sign('mat+jwt', claims('1'));
    for (const other of planes) t.ok(other.check(token, 'mat+jwt').ok);
  }
  const later = await start();
  t.same(kidsOf(later), kidsOf(planes[0] as SigningKeys), 'a later start makes no further ones');
});

t.test('what is signed, at once or on another thread, is checked with the published keys by anybody', async (t) => {
  const { start } = await fixture(t);
  const keys = await start();
  const published = createLocalJWKSet(keys.jwks() as unknown as JSONWebKeySet);
  for (const token of [keys.sign('mat+jwt', claims('1')), await keys.signLater('mat+jwt', claims('1'))]) {
    const { payload } = await jwtVerify(token, published, { algorithms: ['ES256'], typ: 'mat+jwt' });
    t.equal(payload.jti, '1');
  }
  t.same(readJwks(Buffer.from(JSON.stringify(keys.jwks())))?.size, 2, 'and read strictly');
  t.notMatch(JSON.stringify(keys.jwks()), /"d"/, 'nothing private is published');
});

t.test('a key is in every JWKS before anything is signed with it, and stays there after its time', async (t) => {
  const { start, rotate, sql } = await fixture(t);
  const [here, there] = [await start(), await start()];
  const before = here.sign('mat+jwt', claims('before'));
  const known = kidsOf(there);
  const rotation = await rotate();
  t.equal(rotation.retired, kidOf(before));
  await here.reload();
  const after = here.sign('mat+jwt', claims('after'));
  t.equal(kidOf(after), rotation.current);
  t.ok(known.includes(rotation.current), 'who does not know of the rotation yet published the key already');
  t.ok(there.check(after, 'mat+jwt').ok);
  const late = there.sign('mat+jwt', claims('late'));
  t.equal(kidOf(late), rotation.retired, 'and signs with the key before for a moment');
  await there.reload();
  for (const plane of [here, there, await start()]) {
    for (const token of [before, after, late]) t.ok(plane.check(token, 'mat+jwt').ok);
    t.same(kidsOf(plane).sort(), [rotation.current, rotation.retired, rotation.next].sort());
    t.equal(kidOf(plane.sign('mat+jwt', claims('x'))), rotation.current);
  }
  t.same((await listKeys(sql)).map(({ status }) => status).sort(), ['current', 'next', 'retired']);
});

t.test('a rotation elsewhere is taken up without being told', async (t) => {
  const { start, rotate } = await fixture(t);
  const keys = await start();
  const { current } = await rotate();
  while (kidOf(keys.sign('mat+jwt', claims('1'))) !== current) await new Promise((done) => setTimeout(done, 50));
  t.ok(kidsOf(keys).includes(current));
});

t.test('a key that is not known everywhere yet does not become the current one', async (t) => {
  const { sql, custody, start, advance } = await fixture(t);
  await start();
  const first = await rotateKeys(sql, custody);
  t.ok('waitMs' in first && first.waitMs > 0 && first.waitMs <= SIGNING_KEY_PUBLISHED_MS);
  t.same((await listKeys(sql)).map(({ status }) => status).sort(), ['current', 'next'], 'nothing was changed');
  await advance(SIGNING_KEY_PUBLISHED_MS);
  t.match(await rotateKeys(sql, custody), { current: /./, retired: /./, next: /./ });
});

t.test(
  'of rotations at once each happens after the other or waits; there is one current key at all times',
  async (t) => {
    const { sql, custody, start, advance } = await fixture(t);
    await start();
    await advance(SIGNING_KEY_PUBLISHED_MS);
    const all = await Promise.all(Array.from({ length: 6 }, () => rotateKeys(sql, custody)));
    t.equal(all.filter((one) => !('waitMs' in one)).length, 1, 'the next key of the first is too young for the others');
    t.same((await listKeys(sql)).map(({ status }) => status).sort(), ['current', 'next', 'retired']);
    await t.rejects(sql`update signing_keys set status = 'current', current_at = db_clock() where status = 'next'`, {
      code: '23505',
    });
  },
);

t.test('a private key is in the database sealed only, and is gone from it once it is retired', async (t) => {
  const { owner, custody, start, rotate } = await fixture(t);
  await start();
  const { retired } = await rotate();
  const rows = await owner<{ kid: string; status: string; sealed: Buffer; text: string }[]>`
    select kid, status, sealed, public_jwk::text as text from signing_keys`;
  t.equal(rows.length, 3);
  for (const { kid, status, sealed, text } of rows) {
    t.notMatch(text, /"d"/);
    const secret = custody.open('service', 'signing', kid, sealed);
    t.equal(secret.length > 0, status !== 'retired', status);
    t.throws(() => custody.open('acc_x', 'signing', kid, sealed), 'it is no account’s');
    t.throws(() => custody.open('service', 'agent', kid, sealed), 'and nothing else');
  }
  t.equal(rows.find(({ kid }) => kid === retired)?.status, 'retired');
});

t.test(
  "a public key that somebody wrote into the database is not published, and does not pass for one's own",
  async (t) => {
    const { owner, start, rotate, sql } = await fixture(t);
    const keys = await start();
    const { retired } = await rotate();
    await keys.reload();
    const published = kidsOf(keys);
    const jwk = publicJwk(generateKeyPairSync('ec', { namedCurve: 'P-256' }).publicKey);
    const insert = (sealed: Buffer) => owner`
    insert into signing_keys (kid, public_jwk, sealed, status, created_at, current_at, retired_at)
    values (${jwk.kid}, ${JSON.stringify(jwk)}::text::jsonb, ${sealed}, 'retired', now(), now(), now())`;
    const [other] = await owner<{ sealed: Buffer }[]>`select sealed from signing_keys where kid = ${retired}`;
    for (const sealed of [randomBytes(29), other?.sealed ?? Buffer.alloc(0)]) {
      await insert(sealed);
      await t.rejects(keys.reload());
      t.same(kidsOf(keys), published, 'what was known before goes on');
      t.ok(keys.check(keys.sign('mat+jwt', claims('1')), 'mat+jwt').ok);
      await t.rejects(start(), 'a start on it is refused');
      await owner`delete from signing_keys where kid = ${jwk.kid}`;
    }
    await owner`update signing_keys set public_jwk = ${JSON.stringify(jwk)}::text::jsonb where kid = ${retired}`;
    await t.rejects(start(), { message: /not its own/ });
    await t.rejects(rotateKeys(sql, new Custody(randomBytes(32))), 'another master key rotates nothing');
  },
);

t.test("the control plane's role may neither delete a key nor put another public key in its place", async (t) => {
  const { sql, start } = await fixture(t);
  await start();
  const denied = { code: '42501' };
  await t.rejects(sql`delete from signing_keys`, denied);
  await t.rejects(sql`truncate signing_keys`, denied);
  await t.rejects(sql`update signing_keys set public_jwk = '{}'`, denied);
  await t.rejects(sql`update signing_keys set kid = 'x'`, denied);
  await t.rejects(sql`update signing_keys set created_at = now()`, denied);
});

t.test('keys are not made by a rotation, but by the first start', async (t) => {
  const { sql, custody } = await fixture(t);
  await t.rejects(rotateKeys(sql, custody), { message: /no signing keys yet/ });
  t.same(await listKeys(sql), []);
});

t.test('while the database is away tokens are signed and checked with the keys that were read last', async (t) => {
  const { sql, start } = await fixture(t);
  const keys = await start();
  await sql.end();
  await t.rejects(keys.reload());
  t.ok(keys.check(keys.sign('mat+jwt', claims('1')), 'mat+jwt').ok);
  t.equal(kidsOf(keys).length, 2);
});

t.test('the JWKS is for anybody, is not to be kept, and counts for the address that asks', async (t) => {
  const { start, rotate } = await fixture(t);
  await start();
  await rotate();
  const keys = await start();
  const admin = await adminFixture(t, {
    signing: keys,
    managementRate: { perSecond: 0.001, burst: 2 },
  });
  const answer = await admin.send('GET', '/.well-known/jwks.json', null);
  t.equal(answer.status, 200);
  t.equal(answer.headers['content-type'], 'application/jwk-set+json');
  t.equal(answer.headers['cache-control'], 'no-store');
  t.equal(answer.headers['x-ratelimit-limit'], '2');
  t.equal(answer.headers['x-ratelimit-remaining'], '1');
  t.same(readJwks(Buffer.from(answer.text))?.size, 3, 'next, current and retired');
  t.strictSame(answer.body, { keys: keys.jwks().keys });
  t.equal((await admin.send('POST', '/.well-known/jwks.json', null, {})).status, 405);
  const refused = await admin.send('GET', '/.well-known/jwks.json', null);
  t.equal(refused.status, 429);
  t.ok(refused.headers['retry-after']);
});
