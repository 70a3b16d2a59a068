import fc from 'fast-check';
import t from 'tap';
import { entryHash, entryText } from '../../../core/evidence.ts';
import { readExportClaims } from '../../../core/evidence-export.ts';
import { ExportCheck, type ExportVerdict, type PinnedKeys } from '../../../core/export-check.ts';
import { compareExports } from '../../../core/export-compare.ts';
import { canonicalize } from '../../../core/jcs.ts';
import { EXPORT_LINE_MAX_BYTES } from '../../../core/limits.ts';
import { exportCampaign } from './export-campaign.ts';
import { fileOf, SAMPLE_ACCOUNT, type SampleOptions, sampleChain, sampleKey, sampleLines } from './export-sample.ts';

const KEY = sampleKey();
const PINNED: PinnedKeys = new Map([[KEY.kid, KEY.publicKey]]);
const CHAIN = sampleChain(20);

function check(bytes: Uint8Array, keys: PinnedKeys = PINNED, piece = bytes.length): Promise<ExportVerdict> {
  const one = new ExportCheck(keys);
  for (let at = 0; at < bytes.length; at += piece) one.push(bytes.subarray(at, at + piece));
  return one.end();
}

async function* chunks(bytes: Buffer, piece = 333): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < bytes.length; at += piece) yield bytes.subarray(at, at + piece);
}

const compare = (first: Buffer, second: Buffer, keys: PinnedKeys = PINNED) =>
  compareExports(chunks(first), chunks(second, 500), keys);
const exported = (options: SampleOptions = {}, chain = CHAIN) => fileOf(sampleLines(chain, KEY, options));

t.test('every range in both formats is intact, however it comes in pieces', async (t) => {
  for (const format of ['json', 'ndjson'] as const) {
    for (let fromSeq = 0; fromSeq < 20; fromSeq += 3) {
      for (let toSeq = fromSeq; toSeq < 20; toSeq += 5) {
        const file = exported({ format, fromSeq, toSeq });
        for (const piece of [1, 7, 1_000, file.length]) {
          const verdict = await check(file, PINNED, piece);
          if (!verdict.intact || verdict.entries !== toSeq - fromSeq + 1 || verdict.signature !== 'valid') {
            t.match(verdict, { intact: true, entries: toSeq - fromSeq + 1, signature: 'valid' });
          }
        }
      }
    }
  }
  t.match(await check(exported({ fromSeq: 3 })), { intact: true, claims: { fromSeq: 3, toSeq: 19, size: 20 } });
});

t.test(
  'every change to a file is found, and its entry named (the whole campaign: npm run tamper:export)',
  async (t) => {
    const { counts, failures } = await exportCampaign({ seed: 7, mutations: 5_000, everyByte: false });
    t.same(failures, []);
    t.ok(
      Object.values(counts).every((count) => count > 200) && Object.keys(counts).length === 12,
      JSON.stringify(counts),
    );
  },
);

t.test('a file without pinned keys is as consistent as it says, and whose it is was not checked', async (t) => {
  const stranger = sampleKey();
  const file = fileOf(sampleLines(CHAIN, stranger));
  t.match(await check(file, null), { intact: true, signature: 'not_checked' });
  t.match(await check(file), {
    intact: false,
    signature: 'invalid',
    problem: { seq: null, problem: /no key of this service/ },
  });
  const forged = fileOf(sampleLines(CHAIN, { ...stranger, kid: KEY.kid }));
  t.match(await check(forged), { intact: false, problem: { problem: /The signature is not valid/ } });
});

t.test('a fork that is as well signed is found by its first entry', async (t) => {
  const forked = exported({ at: '2026-06-02T00:00:00.000Z' }, sampleChain(25, 12));
  t.match(await check(forked), { intact: true, signature: 'valid' }, 'alone it is as good as the other');
  t.match(await compare(exported(), forked), {
    ...{ first: { intact: true }, second: { intact: true }, common: { fromSeq: 0, toSeq: 12 } },
    differs: { seq: 12 },
  });
  t.match(await compare(exported({ fromSeq: 15 }), forked), { differs: { seq: 15 } }, 'the first that both have');
  t.match(await compare(forked, exported({ toSeq: 11, logSize: 12 })), {
    differs: null,
    common: { toSeq: 11 },
    problem: null,
  });
});

t.test('a tail that was cut off behind a newer head is found by its first entry', async (t) => {
  const shorter = exported({ at: '2026-06-02T00:00:00.000Z' }, CHAIN.slice(0, 14));
  const result = await compare(exported(), shorter);
  t.match(result, { differs: null, common: { fromSeq: 0, toSeq: 13 }, problem: /entry 14 and all after it are gone/ });
  t.match(
    await compare(shorter, exported()),
    { problem: /entry 14 and all after it are gone/ },
    'whichever comes first',
  );
  const earlier = exported({ at: '2026-05-02T00:00:00.000Z' }, CHAIN.slice(0, 14));
  t.match(await compare(earlier, exported()), { problem: null, differs: null }, 'a log that only grew');
});

t.test('files that follow each other fit or do not; files that share nothing say nothing', async (t) => {
  const [head, tail] = [exported({ toSeq: 9 }), exported({ fromSeq: 10 })];
  t.match(await compare(head, tail), { common: null, differs: null, problem: null });
  t.match(await compare(tail, head), { problem: null });
  const forked = exported({ fromSeq: 10 }, sampleChain(20, 5));
  t.match(await compare(head, forked), { problem: /entry 10 does not follow entry 9/ });
  t.match(await compare(exported({ toSeq: 5 }), tail), { problem: /no entry in common/ });
  const other = fileOf(sampleLines(CHAIN, KEY).map((line) => line.replaceAll('acc_01jd', 'acc_01je')));
  t.match(await compare(exported(), other), { first: { intact: true }, second: { intact: false } });
});

t.test('two trees over one chain are found, whichever file has which', async (t) => {
  const treeBefore = sampleChain(20, 2);
  const whole = exported({ toSeq: 14, logSize: 15 });
  const later = { at: '2026-06-02T00:00:00.000Z' };
  for (const fromSeq of [8, 13, 14, 15]) {
    const other = exported({ fromSeq, treeBefore, ...later });
    t.match(await check(other), { intact: true, signature: 'valid' }, 'alone it is as good as any');
    for (const [one, two] of [
      [whole, other],
      [other, whole],
    ] as const) {
      t.match(await compare(one, two), { differs: null, problem: /trees of the first \d+ entries are not the same/ });
    }
    t.match(await compare(whole, exported({ fromSeq, ...later })), { differs: null, problem: null });
  }
  const one = exported({ fromSeq: 8, toSeq: 14, logSize: 15 });
  t.match(await compare(one, exported({ fromSeq: 8, treeBefore, ...later })), { problem: /trees of the first 8 / });
});

t.test('an entry that two readers read differently is refused, however well it is signed', async (t) => {
  const bodies = [
    '{"decision":"allow","decision":"deny"}',
    '{"a":1}}',
    '{"a":"\t"}',
    '{"a": 1}',
    '{}x',
    '[]',
    '1e400',
    '',
  ];
  for (const body of bodies) {
    const last = CHAIN.at(-1)!;
    const entry = {
      account: SAMPLE_ACCOUNT,
      seq: 20,
      id: `evt_${'0'.repeat(26)}`,
      kind: 'decision',
      prev: last.hash,
      body,
    };
    const placed = { ...entry, at: '2026-06-01T00:00:00.000Z' };
    const chain = [...CHAIN, { line: entryText(placed), hash: entryHash(placed) }];
    t.match(await check(exported({}, chain)), { intact: false, problem: { seq: 20, problem: /one way|form/ } }, body);
  }
  const digits = { '10': 1, '9': [{ '1': 'ö', '00': -0.5 }] };
  const last = CHAIN.at(-1)!;
  const entry = { account: SAMPLE_ACCOUNT, seq: 20, id: `evt_${'0'.repeat(26)}`, kind: 'decision', prev: last.hash };
  const placed = { ...entry, at: '2026-06-01T00:00:00.000Z', body: canonicalize(digits) };
  const chain = [...CHAIN, { line: entryText(placed), hash: entryHash(placed) }];
  t.match(await check(exported({}, chain)), { intact: true }, 'names that an engine orders in its own way');
});

t.test('what is no export is refused and crashes nothing', async (t) => {
  t.match(await check(Buffer.alloc(0)), { intact: false, problem: { problem: /cut off/ } });
  const long = new ExportCheck(PINNED);
  for (let i = 0; i < 40 && !long.failed; i++) long.push(Buffer.alloc(EXPORT_LINE_MAX_BYTES / 4, 0x61));
  t.match(await long.end(), { intact: false, problem: { problem: /longer than any entry/ } });
  const [header = '', ...rest] = sampleLines(CHAIN, KEY);
  const line = fc.oneof(fc.constantFrom(header, ...rest), fc.string(), fc.json());
  const files = fc.oneof(
    fc.uint8Array({ maxLength: 500 }),
    fc.array(line, { maxLength: 6 }).map((lines) => fileOf([header, ...lines])),
    fc.array(line, { maxLength: 6 }).map((lines) => fileOf(lines)),
  );
  const property = fc.asyncProperty(files, async (bytes) => !(await check(bytes)).intact);
  await t.resolves(fc.assert(property, { numRuns: 2_000 }));
});

t.test('claims that contradict themselves are no receipt', async (t) => {
  t.equal(readExportClaims(new Map()), null);
  const lines = sampleLines(CHAIN, KEY, { logSize: 19 });
  t.match(await check(fileOf(lines)), { intact: false, problem: { problem: /does not state an export/ } });
});
