import fc from 'fast-check';
import t from 'tap';
import { readTrustAnchors } from '../../../core/certificate.ts';
import type { Dossier } from '../../../core/dossier.ts';
import { checkDossier } from '../../../core/dossier-check.ts';
import { NO_TRUST, readPinned, type Trust } from '../../../core/dossier-trust.ts';
import { DOSSIER_MAX_BYTES, DOSSIER_SENTENCE_MAX_CHARACTERS } from '../../../core/limits.ts';
import { newTypeId } from '../../../core/type-id.ts';
import { byteEdits, byteFlips, entryEdits, runCampaign, seededRandom } from '../../campaigns/dossier-mutations.ts';
import { opensslMissing, TestTsa } from '../../tsa.ts';
import { type Recorded, SampleService, sampleDossier, timestamped } from './dossier-sample.ts';

const noTsa = opensslMissing();

const bytesOf = (dossier: unknown) => Buffer.from(JSON.stringify(dossier));

async function verdictOf(dossier: unknown, trust: Trust) {
  const report = await checkDossier(bytesOf(dossier), trust);
  const failed = report.claims.filter(({ result }) => result === 'failed');
  return { ...report, failed: failed.map(({ name }) => name), sentences: failed.map(({ sentence }) => sentence) };
}

/** The same dossier with its decision's body changed and everything signed anew: only the facts are wrong. */
function resealed(service: SampleService, dossier: Dossier): Dossier {
  const { seal: _, ...unsealed } = dossier;
  return service.seal(unsealed);
}

t.test('a dossier of every decision is accepted from the pinned key alone, and each claim is told', async (t) => {
  for (const [amount, decision] of [
    [100, 'allow'],
    [6000, 'allow'],
    [10001, 'deny'],
  ] as const) {
    const { dossier, service } = sampleDossier({ amount });
    const { verdict, summary, claims } = await checkDossier(bytesOf(dossier), service.trust);
    t.equal(verdict, 'accepted');
    t.equal(summary?.decision, decision);
    t.same(claims.find(({ name }) => name === 'witness')?.result, 'ok');
    t.ok(claims.every(({ sentence }) => sentence.endsWith('.') && sentence === sentence.trim()));
  }
});

t.test('without a pinned key nothing is accepted, however right it is', async (t) => {
  const { dossier } = sampleDossier();
  const { verdict, claims } = await checkDossier(bytesOf(dossier), NO_TRUST);
  t.equal(verdict, 'incomplete');
  const open = claims.filter(({ result, essential }) => result === 'not_checked' && essential);
  t.same(
    open.map(({ name }) => name),
    ['seal', 'tree_head', 'mat'],
  );
  for (const { sentence } of open) t.match(sentence, 'no key of the service is pinned');
});

t.test('a dossier signed with another key is rejected, whatever JWKS is put into it', async (t) => {
  const [mine, theirs] = [new SampleService(), new SampleService()];
  const { dossier } = sampleDossier({ service: theirs });
  const forged = await verdictOf(dossier, mine.trust);
  t.equal(forged.verdict, 'rejected');
  t.same(forged.failed, ['seal', 'tree_head', 'mat']);
  t.match(forged.sentences[0], 'not among the pinned ones');
  const swapped = await verdictOf({ ...dossier, jwks: mine.jwks }, mine.trust);
  t.equal(swapped.verdict, 'rejected');
  const own = sampleDossier({ service: mine }).dossier;
  const { verdict, failed } = await verdictOf({ ...own, jwks: theirs.jwks }, mine.trust);
  t.equal(verdict, 'rejected', 'the JWKS in the file is sealed like all of it');
  t.same(failed, ['seal']);
});

t.test('what a dishonest service seals is still held to the log and to its own facts', async (t) => {
  const { dossier, service } = sampleDossier();
  const cases: [string, (one: Dossier) => Dossier, string[]][] = [
    ['a fact changed', (one) => withBody(one, { month: { booked: 0, month: '2026-10-01', reserved: 0 } }), ['entry']],
    ['an approval of nothing', (one) => ({ ...one, escalations: [] }), ['escalation']],
    ['no booking shown as another', (one) => ({ ...one, consumption: one.execution }), ['consumption', 'chain']],
    ['its MAT left out', (one) => ({ ...one, mat: null }), ['mat']],
    [
      'another action shown',
      (one) => ({ ...one, action: { ...one.action, type: 'payments.refund' } }),
      ['action', 'mat'],
    ],
    ['another receipt shown', (one) => ({ ...one, receipt: { ...one.receipt, decision: 'deny' } }), ['receipt', 'mat']],
    ['no status', (one) => ({ ...one, mandate: { terms: one.mandate!.terms, status: null } }), ['mandate']],
    ['an entry twice', (one) => ({ ...one, execution: [...one.execution, ...one.execution] }), ['chain']],
  ];
  for (const [what, change, failed] of cases) {
    const { verdict, failed: found, sentences } = await verdictOf(resealed(service, change(dossier)), service.trust);
    t.equal(verdict, 'rejected', what);
    for (const name of failed) t.ok(found.includes(name as never), `${what}: ${name} of ${found.join(', ')}`);
    t.ok(
      sentences.some((sentence) => /[Ee]ntry \d+ \(|escalation|mdt_|MAT|receipt|action/.test(sentence)),
      sentences.join('; '),
    );
  }
});

function withBody(dossier: Dossier, changes: object): Dossier {
  const { decision } = dossier;
  const body = { ...decision.entry.body, ...changes } as Dossier['decision']['entry']['body'];
  return { ...dossier, decision: { ...decision, entry: { ...decision.entry, body } } };
}

t.test(
  'a decision that its facts do not lead to is found out, even where all of it is signed and in the log',
  async (t) => {
    const service = new SampleService();
    const cases = [
      ['an allow above the limit', { amount: 10001, recorded: { decision: 'allow' } }],
      [
        'a denial without a reason',
        { amount: 100, recorded: { code: 'MD-302', decision: 'deny', reason_text: 'No.' } },
      ],
      ['another code', { amount: 10001, recorded: { code: 'MD-303' } }],
    ] as const;
    for (const [what, { amount, recorded }] of cases) {
      const { dossier } = sampleDossier({ service, amount, recorded });
      const { verdict, sentences } = await verdictOf(dossier, service.trust);
      t.equal(verdict, 'rejected', what);
      t.ok(
        sentences.some((sentence) => /^Decided again from its facts, entry \d+ .* comes out otherwise/.test(sentence)),
        sentences.join('; '),
      );
    }
  },
);

t.test('what the agent signed for one mandate proves nothing of another', async (t) => {
  const { dossier, service } = sampleDossier({ presentedFor: newTypeId('mdt', 1_790_000_000_000) });
  const { verdict, failed, sentences } = await verdictOf(dossier, service.trust);
  t.equal(verdict, 'rejected');
  t.same(failed, ['presentation']);
  t.match(sentences[0], /is for another mandate/);
});

t.test('that the agent wanted an action is not claimed where it signed none', async (t) => {
  const open = sampleDossier({ amount: 100, unsignedAction: true, recorded: { sandbox: true } });
  const { verdict, claims } = await checkDossier(bytesOf(open.dossier), open.service.trust);
  t.equal(verdict, 'accepted', 'in the sandbox');
  t.match(
    claims.find(({ name, result }) => name === 'presentation' && result === 'not_checked')?.sentence,
    /no action/,
  );
});

t.test('an action that was decided for has a digest, whatever the path', async (t) => {
  const { dossier, service } = sampleDossier({ amount: 100, recorded: gatewayWithoutDigest });
  const receipt = { ...dossier.receipt, ctx: null };
  const shown = resealed(service, { ...dossier, receipt, action: null, presentation: null, mat: null });
  const { verdict, failed } = await verdictOf(shown, service.trust);
  t.equal(verdict, 'rejected');
  t.same(failed, ['action']);
});

function gatewayWithoutDigest({ action, decision, denial_code_version, mandate, month }: Recorded): Recorded {
  return {
    ...({ action, decision, denial_code_version, mandate, month, path: 'gateway', instance: 'gwi_1' } as Recorded),
    request: { bindable: true, method: 'POST', path: '/pay', query: '' },
    tool: { id: 'tol_1', key: 'http.post:/pay', state: 'mapped', version: 1 },
  };
}

t.test('a denial that rests on an escalation is held to how that was answered', async (t) => {
  const service = new SampleService();
  for (const [status, code, sentence] of [
    ['rejected', 'MD-401', /came before the decision, which calls the escalation rejected/],
    ['expired', 'MD-401', /came before the decision, which calls the escalation expired/],
  ] as const) {
    const { dossier } = sampleDossier({ service, recorded: (body) => standing(body, status, code) });
    const contradicted = await verdictOf(dossier, service.trust);
    t.same(contradicted.failed, ['escalation'], `${status}, and the log has an approval`);
    t.match(contradicted.sentences[0], sentence);
    const escalations = dossier.escalations.map((one) => ({ ...one, answered: null }));
    const unshown = await verdictOf(resealed(service, { ...dossier, escalations }), service.trust);
    t.same(unshown.failed, ['escalation'], `${status}, and nothing shows it`);
  }
  const pending = sampleDossier({ service, recorded: (body) => standing(body, 'pending', 'MD-401', 0) });
  t.same((await verdictOf(pending.dossier, service.trust)).failed, ['escalation'], 'pending, and it was approved');
});

function standing(body: Recorded, status: string, code: string, expires_at_ms = 1_900_000_000_000): Recorded {
  const { grant, token_given: _, ...rest } = body;
  if (grant === undefined) return body;
  const { escalation_id } = grant as { readonly escalation_id: string };
  const closes_at_ms = 1_900_000_000_000;
  return { ...rest, decision: 'deny', code, standing: { closes_at_ms, escalation_id, expires_at_ms, status } };
}

t.test('an allow is booked once, and no more is reported of it than was allowed', async (t) => {
  const service = new SampleService();
  const twice = await verdictOf(sampleDossier({ service, booked: [6000, 6000] }).dossier, service.trust);
  t.same(twice.failed, ['consumption']);
  t.match(twice.sentences[0], /books again/);
  const more = await verdictOf(sampleDossier({ service, executed: 6001 }).dossier, service.trust);
  t.same(more.failed, ['execution']);
  t.equal((await verdictOf(sampleDossier({ service, executed: 6000 }).dossier, service.trust)).verdict, 'accepted');
});

t.test('that nothing was booked is only what the service shows', async (t) => {
  const { dossier, service } = sampleDossier({ booked: [] });
  const { verdict, claims } = await checkDossier(bytesOf(dossier), service.trust);
  t.equal(verdict, 'accepted');
  t.match(
    claims.find(({ name }) => name === 'consumption'),
    { result: 'not_checked', sentence: /not proven/ },
  );
});

t.test('a checkpoint without the signature of the log that is pinned is rejected', async (t) => {
  const { dossier, service } = sampleDossier();
  const [own] = dossier.tree_head
    .checkpoint!.split('\n')
    .filter((line) => line.startsWith(`\u2014 ${service.log.name} `));
  const checkpoint = dossier.tree_head.checkpoint!.replace(`${own}\n`, '');
  const unsigned = resealed(service, { ...dossier, tree_head: { ...dossier.tree_head, checkpoint } });
  const { failed, sentences } = await verdictOf(unsigned, service.trust);
  t.same(failed, ['checkpoint']);
  t.match(sentences[0], /not signed by the log/);
  const { claims } = await checkDossier(bytesOf(unsigned), { ...service.trust, logs: [] });
  t.match(
    claims.find(({ name }) => name === 'checkpoint'),
    { result: 'not_checked', sentence: /no log is pinned/ },
  );
});

t.test('an entry later than somebody else saw it is not of the time that it says', async (t) => {
  const { dossier, service, head } = sampleDossier();
  for (const [beforeS, result] of [
    [900, 'failed'],
    [300, 'ok'],
  ] as const) {
    const at = Math.floor(Date.parse(dossier.decision.entry.at) / 1000) - beforeS;
    const tree_head = { ...dossier.tree_head, checkpoint: service.checkpoint(head, at) };
    const { claims } = await checkDossier(bytesOf(resealed(service, { ...dossier, tree_head })), service.trust);
    t.equal(claims.find(({ name }) => name === 'witness')?.result, result);
  }
});

t.test('facts that this checker does not know are not guessed at', async (t) => {
  const { dossier, service } = sampleDossier({ amount: 100, recorded: { weather: 'fair' } });
  const { verdict, claims } = await checkDossier(bytesOf(dossier), service.trust);
  t.equal(verdict, 'incomplete');
  t.match(claims.find(({ name }) => name === 'decision')?.sentence, 'does not know');
});

t.test(
  'a timestamp counts by the authority that is pinned, and only over this tree head',
  { skip: noTsa },
  async (t) => {
    const tsa = await TestTsa.make(t);
    const sample = sampleDossier({ amount: 100 });
    const { trust } = sample.service;
    const dossier = await timestamped(sample, tsa);
    const authorities = readTrustAnchors(await tsa.rootPem());
    const told = async (one: Dossier, given: Trust) => {
      const { verdict, claims } = await checkDossier(bytesOf(one), given);
      return [verdict, claims.find(({ name }) => name === 'timestamp')?.result];
    };
    t.same(await told(dossier, { ...trust, authorities }), ['accepted', 'ok']);
    t.same(await told(dossier, trust), ['accepted', 'not_checked']);
    const postdated = await timestamped(
      sampleDossier({ service: sample.service, startMs: Date.now() + 3_600_000 }),
      tsa,
    );
    t.same(await told(postdated, { ...trust, authorities }), ['rejected', 'failed'], 'entries from after it was seen');
    const other = await TestTsa.make(t);
    const theirs = readTrustAnchors(await other.rootPem());
    t.same(await told(dossier, { ...trust, authorities: theirs }), ['rejected', 'failed']);
    const elsewhere = await timestamped(sampleDossier({ service: sample.service }), tsa);
    const { timestamps } = elsewhere.tree_head;
    const moved = resealed(sample.service, { ...dossier, tree_head: { ...dossier.tree_head, timestamps } });
    t.same(await told(moved, { ...trust, authorities }), ['rejected', 'failed']);
    const bytes = bytesOf(dossier);
    const flips = Iterator.from(byteFlips(bytes)).filter((_, i) => i % 293 === 0);
    const { wrong, incomplete } = await runCampaign({ bytes, trust: { ...trust, authorities } }, flips);
    t.same([wrong, incomplete], [[], 0]);
  },
);

t.test('every byte flip and every change of an entry is rejected', async (t) => {
  const { dossier, service } = sampleDossier();
  const other = sampleDossier({ service }).dossier;
  const bytes = bytesOf(dossier);
  const random = seededRandom(7);
  const flips = Iterator.from(byteFlips(bytes)).filter((_, i) => i % 67 === 0);
  const mutations = [...entryEdits(dossier, other), ...flips, ...byteEdits(bytes, random, 300)];
  t.ok(mutations.length > 1500, `${mutations.length} of them; test/campaigns/dossier.ts makes all of them`);
  const { rejected, wrong, incomplete } = await runCampaign({ bytes, trust: service.trust }, mutations);
  t.same({ rejected, incomplete, wrong }, { rejected: mutations.length, incomplete: 0, wrong: [] });
});

t.test('whatever a file holds, the checker answers and its sentences are bounded', async (t) => {
  const { dossier, service } = sampleDossier();
  const bytes = bytesOf(dossier);
  const text = bytes.toString();
  const judged = async (file: Uint8Array) => {
    const { verdict, claims } = await checkDossier(file, service.trust);
    for (const { sentence } of claims) {
      if (sentence.length > DOSSIER_SENTENCE_MAX_CHARACTERS + 1) throw new Error('an unbounded sentence');
    }
    return verdict;
  };
  await fc.assert(
    fc.asyncProperty(fc.uint8Array({ maxLength: 300 }), async (file) => (await judged(file)) === 'rejected'),
    { numRuns: 100 },
  );
  await fc.assert(
    fc.asyncProperty(fc.json(), async (file) => (await judged(Buffer.from(file))) === 'rejected'),
    { numRuns: 200 },
  );
  const names = Object.keys(dossier);
  await fc.assert(
    fc.asyncProperty(fc.constantFrom(...names), fc.jsonValue(), async (name, value) => {
      const same = JSON.stringify(value) === JSON.stringify(dossier[name as keyof Dossier]);
      return same || (await judged(bytesOf({ ...dossier, [name]: value }))) === 'rejected';
    }),
    { numRuns: 200 },
  );
  const odd = [
    Buffer.alloc(DOSSIER_MAX_BYTES + 1, 0x20),
    Buffer.from(`${'['.repeat(100)}`),
    Buffer.from(text.replace('{', '{"dossier_version":1,')),
    Buffer.from(text.replace('{"dossier_version"', `{"${'a'.repeat(10_000)}":0,"dossier_version"`)),
    Buffer.from(text.replace('"issuer"', '"__proto__":{"x":1},"issuer"')),
    Buffer.concat([Buffer.from([0xef, 0xbb, 0xbf]), bytes]),
    Buffer.from(text.replace('"dossier_version":1', '"dossier_version":2')),
  ];
  for (const file of odd) t.equal(await judged(file), 'rejected', file.subarray(0, 40).toString());
});

t.test('a file of keys is understood as a whole or refused with what is wrong', async (t) => {
  const service = new SampleService();
  const read = (value: unknown) => readPinned(Buffer.from(typeof value === 'string' ? value : JSON.stringify(value)));
  t.ok(read(service.jwks).ok);
  t.ok(read({ trust_version: 1 }).ok);
  t.ok(read({ trust_version: 1, jwks: service.jwks }).ok);
  const bad = [
    ...['', '{}', '[]', '{"keys":[]}', { keys: [{ ...service.jwks.keys[0], d: 'x' }] }],
    ...[{ trust_version: 2 }, { trust_version: 1, more: 1 }, { trust_version: 1, jwks: {} }],
    ...[
      { trust_version: 1, logs: ['x'] },
      { trust_version: 1, witnesses: ['a+b+c'] },
    ],
    { trust_version: 1, tsa_certificates: ['-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n'] },
  ];
  for (const value of bad) {
    const reading = read(value);
    t.equal(reading.ok, false, JSON.stringify(value).slice(0, 60));
    if (!reading.ok) t.match(reading.problem, /\.$/);
  }
});
