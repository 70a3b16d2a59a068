import { randomBytes } from 'node:crypto';
import type { ServerResponse } from 'node:http';
import t from 'tap';
import { timestampPublisher } from '../../../control-plane/publishing/publishers.ts';
import { TimestampAuthority } from '../../../control-plane/timestamps/authority.ts';
import { type TimestampResult, Timestamps } from '../../../control-plane/timestamps/timestamps.ts';
import { readTrustAnchors } from '../../../core/certificate.ts';
import { timestampRequest } from '../../../core/timestamp-token.ts';
import { nonceOf, opensslMissing, sendReply, TestTsa } from '../../tsa.ts';
import { type PublishingFixture, publishingFixture } from './publishing-fixture.ts';

const skip = opensslMissing();
const TIMEOUT_MS = 10_000;

function lastByteChanged(bytes: Buffer): Buffer {
  return Buffer.concat([bytes.subarray(0, -1), Uint8Array.of(bytes[bytes.length - 1]! ^ 1)]);
}

interface Stamping {
  readonly timestamps: Timestamps;
  readonly results: TimestampResult[];
}

interface StampingOptions {
  readonly required?: boolean;
  readonly timeoutMs?: number;
  readonly trust?: TestTsa;
}

async function stamping(
  { appSql }: PublishingFixture,
  url: string,
  { required = false, timeoutMs = TIMEOUT_MS, trust }: StampingOptions = {},
): Promise<Stamping> {
  const anchors = trust === undefined ? [] : readTrustAnchors(await trust.rootPem());
  const authority = new TimestampAuthority({ url, timeoutMs, anchors });
  t.teardown(() => authority.close());
  const results: TimestampResult[] = [];
  const counted = (result: TimestampResult): unknown => results.push(result);
  return { timestamps: new Timestamps({ sql: appSql, authority, required, counted }), results };
}

t.test('a tree head is timestamped once, and openssl verifies the stored token by its root', { skip }, async (t) => {
  const fixture = await publishingFixture(t);
  const tsa = await TestTsa.make(t);
  const { timestamps, results } = await stamping(fixture, await tsa.serve(t), { trust: tsa, required: true });
  const head = await fixture.grow(3);
  const { timestamp } = await timestamps.timestampNow(head);
  t.match(timestamp, { size: 3, root: head.root, tsa: 'CN=Test TSA, O=Example', trusted: true });
  t.ok(await tsa.verifies(timestamp!.token, Buffer.from(head.root, 'hex')));
  t.same((await timestamps.timestampNow(head)).timestamp, timestamp, 'the stored one');
  t.same(results, ['stored']);
  const next = await fixture.grow(1);
  await timestamps.timestampNow(next);
  t.match(await timestamps.latest(head.accountId, 3), { size: 3 });
  t.match(await timestamps.latest(head.accountId, 9), { size: 4, root: next.root });
  t.equal(await timestamps.latest(head.accountId, 2), null);
  await t.rejects(timestamps.stamp(fixture.forged(3, 'ab'.repeat(32))), /not the one that was timestamped/);
});

t.test('stored timestamps and cosignatures cannot be changed or removed', { skip }, async (t) => {
  const fixture = await publishingFixture(t);
  const { sql, appSql } = fixture;
  const tsa = await TestTsa.make(t);
  const { timestamps } = await stamping(fixture, await tsa.serve(t));
  const { timestamp } = await timestamps.timestampNow(await fixture.grow(1));
  t.equal(timestamp?.trusted, false, 'without a trust anchor');
  for (const table of ['timestamps', 'cosignatures']) {
    for (const statement of [`update ${table} set size = 2`, `delete from ${table}`, `truncate ${table}`]) {
      await t.rejects(sql.unsafe(statement), /append-only/, statement);
      await t.rejects(appSql.unsafe(statement), /permission denied/, statement);
    }
  }
  t.equal((await sql`select from timestamps`).length, 1);
});

t.test('an authority that answers wrongly gives no timestamp, for the reason that is told', { skip }, async (t) => {
  const fixture = await publishingFixture(t);
  const tsa = await TestTsa.make(t);
  const stranger = await TestTsa.make(t);
  const head = await fixture.grow(1);
  const digest = Buffer.from(head.root, 'hex');
  const expired = await tsa.issue({ to: '20250101000000Z' });
  const useless = await tsa.issue({ extensions: ['keyUsage=critical,digitalSignature'] });
  const put = (make: (query: Buffer) => Promise<Uint8Array>) => async (query: Buffer, response: ServerResponse) =>
    sendReply(response, await make(query));
  const answers: [RegExp, boolean, (query: Buffer, response: ServerResponse) => unknown][] = [
    [/another digest/, false, put(() => tsa.reply(timestampRequest(randomBytes(32), randomBytes(16))))],
    [/another request/, false, put(() => tsa.reply(timestampRequest(digest, randomBytes(16))))],
    [/had expired/, false, put((query) => tsa.crafted({ digest, nonce: nonceOf(query) }, expired))],
    [/no extended key usage/, false, put((query) => tsa.crafted({ digest, nonce: nonceOf(query) }, useless))],
    [/wrong signature/, false, put(async (query) => lastByteChanged(await tsa.reply(query)))],
    [/a certificate has a wrong signature/, false, put((query) => stranger.reply(query))],
    [/status 2/, false, put((query) => tsa.reply(query, { digests: 'sha512' }))],
    [/not DER|bytes behind its end/, false, put(async () => randomBytes(500))],
    [/more than 65536 bytes/, true, put(async () => Buffer.alloc(70_000))],
    [/status 500/, true, (_query, response) => response.writeHead(500).end()],
    [/status 302/, true, (_query, response) => response.writeHead(302, { location: 'http://127.0.0.1:1/' }).end()],
    [/something else than application/, true, (_query, response) => response.writeHead(200).end('<html>')],
    [/cannot be reached/, true, (_query, response) => response.destroy()],
  ];
  for (const [problem, away, answer] of answers) {
    const { timestamps, results } = await stamping(fixture, await tsa.serve(t, answer), { trust: tsa });
    await t.rejects(timestamps.stamp(head), { name: 'TimestampFailure', message: problem, away });
    t.same(results, [away ? 'away' : 'refused']);
  }
  t.same(await fixture.sql`select from timestamps`, [], 'nothing was stored');
});

t.test('an authority that is silent, or begins and does not end, is given up', { skip }, async (t) => {
  const fixture = await publishingFixture(t);
  const tsa = await TestTsa.make(t);
  const head = await fixture.grow(1);
  const slow: ((query: Buffer, response: ServerResponse) => unknown)[] = [
    () => {},
    (_query, response) => response.writeHead(200, { 'content-type': 'application/timestamp-reply' }).write('0'),
  ];
  for (const answer of slow) {
    const { timestamps } = await stamping(fixture, await tsa.serve(t, answer), { timeoutMs: 200 });
    await t.rejects(timestamps.stamp(head), { message: /did not answer within 200 ms/, away: true });
  }
});

t.test('a required timestamp is had or the export is refused; otherwise it is left out with the reason', async (t) => {
  const fixture = await publishingFixture(t);
  const head = await fixture.grow(1);
  const nobody = 'http://127.0.0.1:1/tsa';
  const required = await stamping(fixture, nobody, { required: true });
  const refused = { code: 'timestamp_unavailable', status: 503, retryAfterSeconds: 30 };
  await t.rejects(required.timestamps.timestampNow(head), refused);
  const optional = await stamping(fixture, nobody);
  t.match(await optional.timestamps.timestampNow(head), { timestamp: null, why: /does not answer/ });
  const none = new Timestamps({ sql: fixture.appSql, authority: null, required: false, counted() {} });
  t.match(await none.timestampNow(head), { timestamp: null, why: /No timestamping authority/ });
  t.match(await optional.timestamps.timestampNow({ ...head, size: 0 }), { timestamp: null, why: /no entry/ });
});

t.test(
  'in the background each new head is timestamped once an interval, however many replicas look',
  { skip },
  async (t) => {
    const fixture = await publishingFixture(t);
    const tsa = await TestTsa.make(t);
    let asked = 0;
    const url = await tsa.serve(t, async (query, response) => {
      asked += 1;
      sendReply(response, await tsa.reply(query));
    });
    const { timestamps } = await stamping(fixture, url, { trust: tsa });
    const replicas = [1, 2, 3].map(() => fixture.publisher(timestampPublisher(timestamps, TIMEOUT_MS)));
    const rounds = (): Promise<boolean[]> => Promise.all(replicas.map((one) => one.round()));
    await fixture.grow(2);
    const others = await fixture.moreAccounts(6);
    t.same(await rounds(), [false, false, false]);
    t.equal(asked, 1, 'accounts without entries are left alone');
    await fixture.grow(1);
    await rounds();
    t.equal(asked, 1, 'not before its turn');
    await fixture.moveTime(601);
    await rounds();
    await fixture.moveTime(601);
    await rounds();
    t.equal(asked, 2, 'a head that did not move is left alone');
    t.match(await fixture.sql`select size, trusted from timestamps order by size`, [
      { size: 2, trusted: true },
      { size: 3, trusted: true },
    ]);
    t.equal(others.length, 6);
    t.same(fixture.logged.lines, []);
  },
);

t.test(
  'an authority that went away is said once, left alone for a while, and used again when it is back',
  { skip },
  async (t) => {
    const fixture = await publishingFixture(t);
    const tsa = await TestTsa.make(t);
    let [up, asked] = [false, 0];
    const url = await tsa.serve(t, async (query, response) => {
      asked += 1;
      if (up) sendReply(response, await tsa.reply(query));
      else response.writeHead(503).end();
    });
    const { timestamps, results } = await stamping(fixture, url);
    await fixture.grow(1);
    const publisher = fixture.publisher(timestampPublisher(timestamps, TIMEOUT_MS));
    t.equal(await publisher.round(), false);
    t.equal(await publisher.round(), false);
    t.equal(asked, 1, 'it pauses');
    t.same(fixture.logged.lines, ['tree heads cannot be published; it is tried again every minute']);
    up = true;
    await fixture.moveTime(61);
    await fixture.publisher(timestampPublisher(timestamps, TIMEOUT_MS)).round();
    t.same(results, ['away', 'stored']);
    t.match(await fixture.sql`select size from timestamps`, [{ size: 1 }]);
  },
);
