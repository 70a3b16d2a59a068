import { request as httpRequest } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import t from 'tap';
import { seedKey } from '../../../bench/seed.ts';
import { openApiDocument } from '../../../control-plane/api/openapi-document.ts';
import { exportFile, prepareExport, recordExport } from '../../../control-plane/evidence/export.ts';
import { entryText, type StoredEntry } from '../../../core/evidence.ts';
import { ExportCheck, type ExportVerdict } from '../../../core/export-check.ts';
import { readJwks } from '../../../core/jwk.ts';
import { EXPORT_PAGE_ENTRIES } from '../../../core/limits.ts';
import { rootOfLeaves } from '../../../core/merkle.ts';
import { answersAs } from '../../openapi-answers.ts';
import { at, textAt } from './admin-fixture.ts';
import { fieldsOf, type NounFixture, nounFixture, problemOf } from './noun-fixture.ts';

const PATH = '/api/v1/evidence/export';

/** A person with some history, an API key that may export, and the keys that a stranger would pin. */
async function exporter(t: Parameters<typeof nounFixture>[0], entries = 12) {
  const fixture = await nounFixture(t);
  for (let i = 0; i < entries; i++) await fixture.mandate({ name: `Mandate ${i} – ünïcode 😀 "quoted" \\ end` });
  const { apiKey: secret, keyId: id } = await seedKey(fixture.sql, fixture.person, ['evidence:read']);
  const keys = readJwks(Buffer.from((await fixture.send('GET', '/.well-known/jwks.json', null)).text));
  if (keys === null) throw new Error('the keys cannot be read');
  const file = async (body: unknown = {}) => {
    const answer = await fixture.app.inject({
      ...{
        method: 'POST',
        url: PATH,
        headers: { authorization: `Bearer ${secret}`, 'content-type': 'application/json' },
      },
      payload: JSON.stringify(body),
    });
    return { status: answer.statusCode, type: String(answer.headers['content-type']), text: answer.body };
  };
  const check = async (text: string): Promise<ExportVerdict> => {
    const one = new ExportCheck(keys);
    const bytes = Buffer.from(text);
    // In pieces that end anywhere.
    for (let i = 0; i < bytes.length; i += 97) one.push(bytes.subarray(i, i + 97));
    return one.end();
  };
  /** Adds entries whose bodies hold this text, all at once. */
  const append = (count: number, text: string) =>
    fixture.lanes.command(fixture.person.accountId, async (context) => {
      for (let i = 0; i < count; i++) context.append('mandate.changed', { text });
    });
  return { ...fixture, secret, keyId: id, keys, file, check, append };
}

async function entriesOf({ sql, person }: NounFixture): Promise<StoredEntry[]> {
  return await sql<StoredEntry[]>`
    select account_id as account, seq, id, kind, at, encode(prev, 'hex') as prev, encode(hash, 'hex') as hash, body
    from evidence where account_id = ${person.accountId} order by seq`;
}

t.test(
  'both formats hold the very texts that were hashed, and a stranger checks them with the keys alone',
  async (t) => {
    const fixture = await exporter(t);
    const lines = await fixture.file({ format: 'ndjson' });
    t.equal(lines.type, 'application/x-ndjson; charset=utf-8');
    const stored = await entriesOf(fixture);
    t.same(lines.text.split('\n').slice(1, -2), stored.map(entryText));
    t.equal(stored.at(-1)?.kind, 'evidence.exported', 'the last entry is that of the export itself');
    t.match(JSON.parse(stored.at(-1)?.body ?? ''), {
      ...{ from_seq: 0, to_seq: stored.length - 1, format: 'ndjson', timestamp: false, exported_by: fixture.keyId },
    });
    const verdict = await fixture.check(lines.text);
    t.match(verdict, {
      ...{ intact: true, problem: null, entries: stored.length, signature: 'valid' },
      claims: {
        ...{ account: fixture.person.accountId, fromSeq: 0, toSeq: stored.length - 1, logSize: stored.length },
        ...{
          root: rootOfLeaves(stored.map(({ hash }) => hash)),
          last: stored.at(-1)?.hash,
          issuer: 'https://mandate.example',
        },
        exportId: stored.at(-1)?.id,
      },
    });
    const json = await fixture.file();
    const document = openApiDocument('https://mandate.example');
    for (const { status, type, text } of [lines, json]) {
      const headers = {
        'content-type': type,
        'cache-control': 'no-store',
        'x-request-id': 'x',
        'x-ratelimit-limit': 1,
        'x-ratelimit-remaining': 1,
      };
      const given = { status, headers: { ...headers, 'x-ratelimit-reset': 1 }, body: text };
      t.same(answersAs(document, 'POST', PATH, given), []);
    }
    t.equal(json.type, 'application/json; charset=utf-8');
    t.match(await fixture.check(json.text), { intact: true, entries: stored.length + 1, signature: 'valid' });
    const { entries, root, size, receipt, ...header } = JSON.parse(json.text) as Record<string, unknown>;
    t.same(
      (entries as object[]).slice(0, -1),
      stored.map((entry) => JSON.parse(entryText(entry))),
    );
    t.same([typeof receipt, size], ['string', stored.length + 1]);
    t.equal(root, rootOfLeaves((await entriesOf(fixture)).map(({ hash }) => hash)));
    t.same(Object.keys(header).sort(), [
      ...['account', 'count', 'edge', 'format', 'from_seq', 'issuer', 'prev', 'to_seq', 'version'],
    ]);
    t.same(fixture.errors, []);
  },
);

t.test('every range checks alone against its root, whatever begins before it', async (t) => {
  const fixture = await exporter(t, 9);
  const { length } = await entriesOf(fixture);
  for (const format of ['json', 'ndjson'] as const) {
    for (let from = 0; from < length; from += 3) {
      for (let to = from; to < length; to += 4) {
        const { text } = await fixture.file({ from_seq: from, to_seq: to, format });
        const verdict = await fixture.check(text);
        t.match(verdict, { intact: true, entries: to - from + 1, claims: { fromSeq: from, toSeq: to, size: to + 1 } });
      }
    }
  }
  const hashes = (await entriesOf(fixture)).map(({ hash }) => hash);
  const { claims } = await fixture.check((await fixture.file({ from_seq: 5, to_seq: 7 })).text);
  t.equal(claims?.root, rootOfLeaves(hashes.slice(0, 8)));
  t.same([claims?.prev, claims?.last], [hashes[4], hashes[7]]);
});

t.test('pages of long entries join without a seam', async (t) => {
  const fixture = await exporter(t, 0);
  await fixture.append(60, 'ö'.repeat(30_000));
  await fixture.append(5_000, 'short');
  for (const format of ['json', 'ndjson'] as const) {
    const { text } = await fixture.file({ format });
    t.ok(Buffer.byteLength(text) > 2 * 1024 * 1024, 'several pages');
    t.match(await fixture.check(text), { intact: true, signature: 'valid' });
  }
});

t.test('who may not export, and what cannot be meant, is refused, and nothing is recorded', async (t) => {
  const fixture = await exporter(t, 1);
  const { send, secret, person, apiKey } = fixture;
  const { length } = await entriesOf(fixture);
  const refused = async (body: unknown) => {
    const answer = await send('POST', PATH, secret, body);
    t.equal(answer.status, 422, answer.text);
    return fieldsOf(answer);
  };
  t.same(await refused({ from_seq: -1 }), ['from_seq']);
  t.same(await refused({ from_seq: 1.5, to_seq: '3' }), ['from_seq', 'to_seq']);
  t.same(await refused({ from_seq: length + 1 }), ['from_seq']);
  t.same(await refused({ to_seq: length + 1 }), ['to_seq']);
  t.same(await refused({ from_seq: 3, to_seq: 2 }), ['from_seq']);
  t.same(await refused({ format: 'csv', timestamp: 'yes' }), ['format', 'timestamp']);
  t.same(await refused({ range: 'all' }), ['(body)']);
  t.same(problemOf(await send('POST', PATH, secret, '{"from_seq":0,"from_seq":1}')), [400, 'malformed_json']);
  t.same(problemOf(await send('POST', PATH, null, {})), [401, 'unauthenticated']);
  t.same(problemOf(await send('POST', PATH, person.token, {})), [401, 'unauthenticated'], 'a session is no API key');
  const other = await apiKey(['verify', 'mandates:read']);
  t.same(problemOf(await send('POST', PATH, other.secret, {})), [403, 'insufficient_scope']);
  t.same(problemOf(await send('GET', PATH, secret)), [405, 'method_not_allowed']);
  const kinds = (await fixture.chain()).map(({ kind }) => kind);
  t.notOk(kinds.includes('evidence.exported'));
});

t.test('an account exports its own chain only, one file at a time, also signed in', async (t) => {
  const fixture = await exporter(t, 1);
  const stranger = await fixture.signUp();
  const answer = await fixture.send('POST', '/admin/evidence/export', stranger.token, {});
  t.equal(at(answer, 'account'), stranger.accountId);
  t.notMatch(answer.text, fixture.person.accountId);
  const all = await Promise.all([fixture.file(), fixture.file(), fixture.file()]);
  const statuses = all.map(({ status }) => status).sort();
  t.ok(statuses.includes(200) && statuses.every((one) => one === 200 || one === 409), statuses.join());
  t.equal((await fixture.file()).status, 200, 'and the turn is given back');
});

t.test(
  'without a timestamping authority the receipt says why there is none; a token is bound by the receipt',
  async (t) => {
    const fixture = await exporter(t, 1);
    t.match((await fixture.check((await fixture.file({ timestamp: true })).text)).claims, {
      timestampSha256: null,
      timestampProblem: /No timestamping authority/,
    });
    const asked: object[] = [];
    const timestamps = {
      timestampNow: async (head: object) => {
        asked.push(head);
        const timestamp = { token: Buffer.from('a token'), genTime: '', tsa: '', trusted: true, ...head };
        return { timestamp, why: null } as never;
      },
    };
    Object.assign(fixture.deps, { timestamps });
    const { text } = await fixture.file({ timestamp: true });
    const verdict = await fixture.check(text);
    t.match(verdict, { intact: true, trailer: { timestamp: Buffer.from('a token').toString('base64') } });
    t.match(asked, [{ accountId: fixture.person.accountId, size: verdict.claims?.size, root: verdict.claims?.root }]);
    t.match(await fixture.check(text.replace(/"timestamp":"[^"]+"/, '"timestamp":"YQ=="')), {
      problem: { problem: 'the timestamp is not the one that was signed' },
    });
  },
);

t.test('a client that goes away in the middle ends the export, and one that comes back gets all', async (t) => {
  const fixture = await exporter(t, 0);
  await fixture.append(60, 'ö'.repeat(30_000));
  await fixture.app.listen({ host: '127.0.0.1', port: 0 });
  const { port } = fixture.app.server.address() as AddressInfo;
  await new Promise<void>((resolve, reject) => {
    const request = httpRequest({
      ...{ host: '127.0.0.1', port, method: 'POST', path: PATH },
      headers: { authorization: `Bearer ${fixture.secret}`, 'content-type': 'application/json' },
    });
    request.on('response', (response) => {
      response.once('data', () => {
        request.destroy();
        resolve();
      });
    });
    request.on('error', reject);
    request.end('{"format":"ndjson"}');
  });
  let again = await fixture.file({ format: 'ndjson' });
  for (let i = 0; again.status === 409 && i < 200; i++) {
    await delay(25);
    again = await fixture.file({ format: 'ndjson' });
  }
  t.match(await fixture.check(again.text), { intact: true, signature: 'valid' });
  const kinds = (await fixture.chain()).map(({ kind }) => kind).filter((kind) => kind === 'evidence.exported');
  t.equal(kinds.length, 2, 'the one that was broken off is recorded as well');
});

t.test('pages are read as they are taken, one ahead, and none any more once nobody takes them', async (t) => {
  const fixture = await exporter(t, 0);
  await fixture.append(EXPORT_PAGE_ENTRIES * 10, 'x');
  let reads = 0;
  const sql = new Proxy(fixture.deps.sql, {
    apply: (target, self, args) => {
      reads += 1;
      return Reflect.apply(target, self, args);
    },
  });
  const asked = {
    accountId: fixture.person.accountId,
    fromSeq: 0,
    toSeq: null,
    timestamp: false,
    exportedBy: 'a test',
  };
  const recorded = await recordExport(fixture.deps, { ...asked, format: 'ndjson' });
  const pieces = exportFile({ ...fixture.deps, sql }, await prepareExport(fixture.deps, recorded));
  t.equal(reads, 0);
  for (let taken = 0; taken < 5; taken++) {
    const { value } = await pieces.next();
    t.ok(value instanceof Buffer);
    await fixture.sql`select 1`;
    t.equal(reads, taken === 0 ? 0 : taken + 1, `${taken} pages were taken`);
  }
  await pieces.return(undefined);
  t.match(await pieces.next(), { done: true });
  t.equal(reads, 5);
});

t.test('nothing is signed over entries that are not those that were recorded', async (t) => {
  const fixture = await exporter(t, 3);
  const before = await fixture.file({ format: 'ndjson' });
  const { sql, person } = fixture;
  await sql.unsafe('alter table evidence disable trigger user');
  for (let n = 0; n < 8; n++) await sql.unsafe(`alter table evidence_p${n} disable trigger user`);
  await sql`update evidence set body = replace(body, 'Mandate 1', 'Mandate 7')
    where account_id = ${person.accountId} and kind = 'mandate.created'`;
  const { text } = await fixture.file({ format: 'ndjson' }).catch(() => ({ text: '' }));
  t.notMatch(text, 'receipt', 'the file ends without its last line');
  t.match(String(fixture.errors.at(-1)), /an export of acc_\w+ was broken off: entry \d+ of it/);
  t.match(await fixture.check(before.text), { intact: true }, 'what was exported before is still good');
  t.ok(textAt(await fixture.as('GET', '/admin/account'), 'account_id'));
});
