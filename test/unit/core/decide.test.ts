import { readdirSync, readFileSync } from 'node:fs';
import fc from 'fast-check';
import t from 'tap';
import { z } from 'zod';
import {
  type DecisionFacts,
  type DecisionRequest,
  decide,
  ESCALATION_STATES,
  type Verdict,
} from '../../../core/decide.ts';
import { DENIAL_CODES, type DenialCode } from '../../../core/denial-codes.ts';
import { MONEY_MINOR_MAX } from '../../../core/limits.ts';
import { MANDATE_STATES } from '../../../core/mandate.ts';

const VECTORS = new URL('../../vectors/decisions/', import.meta.url);
const CODES = DENIAL_CODES.map(([code]) => code);

const state = z.enum(ESCALATION_STATES);
const facts = z.strictObject({
  now_ms: z.number(),
  account_id: z.string(),
  mandate: z
    .strictObject({
      mandate_id: z.string(),
      version: z.number(),
      scope: z.array(z.string()),
      currency: z.string(),
      per_action: z.number(),
      per_month: z.number(),
      escalation_threshold: z.number().nullable(),
      counterparties: z.array(z.string()),
      agent_did: z.string(),
      time_zone: z.string(),
      valid_until: z.iso.datetime().nullable(),
      max_uses: z.number().nullable(),
      status: z.enum(MANDATE_STATES),
      uses: z.number(),
    })
    .nullable(),
  month: z.strictObject({ month: z.iso.date(), reserved: z.number(), booked: z.number() }),
  presentation: z
    .strictObject({
      problem: z.string().nullable(),
      issued_at_ms: z.number(),
      expires_at_ms: z.number(),
      verifier: z.string(),
      ctx: z.string().nullable(),
      signer: z.string(),
      expected_signer: z.string().nullable(),
      nonce_spent: z.boolean(),
    })
    .nullable(),
  tool: z
    .strictObject({ state: z.enum(['unmapped', 'blocked', 'mapped']), unreadable: z.string().nullable() })
    .nullable(),
  grant: z
    .strictObject({
      escalation_id: z.string(),
      mandate_id: z.string(),
      ctx: z.string(),
      status: state,
      closes_at_ms: z.number(),
    })
    .nullable(),
  standing: z
    .strictObject({ escalation_id: z.string(), status: state, expires_at_ms: z.number(), closes_at_ms: z.number() })
    .nullable(),
  undecidable: z.string().nullable(),
}) satisfies z.ZodType<DecisionFacts>;
const request = z.strictObject({
  action: z
    .strictObject({
      type: z.string(),
      amount: z.number(),
      currency: z.string().nullable(),
      counterparty: z.string().nullable(),
    })
    .nullable(),
  ctx: z.string().nullable(),
  escalation_token_given: z.boolean(),
  bindable: z.boolean(),
}) satisfies z.ZodType<DecisionRequest>;
const verdict = z.discriminatedUnion('decision', [
  z.strictObject({
    decision: z.literal('deny'),
    code: z.enum(CODES as [DenialCode, ...DenialCode[]]),
    name: z.string(),
    reason_text: z.string().min(1),
  }),
  z.strictObject({ decision: z.literal('allow'), amount: z.number(), escalation_id: z.string().nullable() }),
  z.strictObject({ decision: z.literal('escalate'), standing: z.string().nullable() }),
]);
const vector = z.strictObject({ name: z.string().min(1), why: z.string().min(1), facts, request, verdict });
type Vector = z.infer<typeof vector>;

const files = readdirSync(VECTORS).sort();
const vectors = new Map<string, Vector>();
for (const file of files) {
  vectors.set(file, vector.parse(JSON.parse(readFileSync(new URL(file, VECTORS), 'utf8'))));
}

function named(file: string): Vector {
  const found = vectors.get(file);
  if (found === undefined) throw new Error(`the vector ${file} is missing`);
  return structuredClone(found);
}

/** Freezes a value and everything below it. */
function frozen<T>(value: T): T {
  if (typeof value === 'object' && value !== null)
    for (const member of Object.values(Object.freeze(value))) frozen(member);
  return value;
}

t.test('every decision vector decides as written, twice alike, and changes none of its input', async (t) => {
  for (const [file, { facts, request, verdict }] of vectors) {
    const before = JSON.stringify([facts, request]);
    t.same(decide(frozen(facts), frozen(request)), verdict, file);
    t.same(decide(facts, request), verdict, `${file} once more`);
    t.equal(JSON.stringify([facts, request]), before, `${file} is as it was`);
  }
});

t.test('a vector is filed under what it decides, and every code has at least two', async (t) => {
  for (const [file, { verdict }] of vectors) {
    const group = verdict.decision === 'deny' ? verdict.code : verdict.decision;
    t.ok(file.startsWith(`${group}-`), `${file} decides ${group}`);
  }
  for (const group of [...CODES, 'allow', 'escalate']) {
    t.ok(files.filter((file) => file.startsWith(`${group}-`)).length >= 2, group);
  }
});

t.test('the order of the codes is the order of contract §4, and none is missing', async (t) => {
  t.same(CODES, [
    ...['MD-101', 'MD-102', 'MD-103', 'MD-104', 'MD-105', 'MD-201', 'MD-202', 'MD-203', 'MD-204', 'MD-501', 'MD-502'],
    ...['MD-301', 'MD-305', 'MD-304', 'MD-302', 'MD-303', 'MD-401', 'MD-402', 'MD-503'],
  ]);
});

/** Facts of a signed request through a mapped tool that is allowed: every check looks at something in them. */
function passing(): Vector {
  const base = named('allow-presented.json');
  return { ...base, facts: { ...base.facts, tool: { state: 'mapped', unreadable: null } } };
}

type Draft = { -readonly [K in keyof Vector]: Vector[K] };

/** For each code, how to make facts fail exactly its check and none before it. */
const FAILING: Record<DenialCode, (draft: Draft) => void> = {
  'MD-101': ({ facts }) => edit(facts.presentation).set({ problem: 'The signature does not verify.' }),
  'MD-102': ({ facts }) => edit(facts.presentation).set({ issued_at_ms: 0, expires_at_ms: 1 }),
  'MD-103': ({ facts }) => edit(facts.presentation).set({ verifier: 'acc_other' }),
  'MD-104': ({ facts }) => edit(facts.presentation).set({ ctx: 'sha-256:other' }),
  'MD-105': ({ facts }) => edit(facts.presentation).set({ nonce_spent: true }),
  'MD-201': ({ facts }) => Object.assign(facts, { mandate: null }),
  'MD-202': ({ facts }) => edit(facts.presentation).set({ signer: 'did:key:z6Other' }),
  'MD-203': ({ facts }) => edit(facts.mandate).set({ status: 'suspended' }),
  'MD-204': ({ facts }) => edit(facts.mandate).set({ valid_until: '2000-01-01T00:00:00.000Z' }),
  'MD-501': ({ facts }) => edit(facts.tool).set({ state: 'unmapped' }),
  'MD-502': ({ facts }) => edit(facts.tool).set({ unreadable: 'amount: is not there' }),
  'MD-301': ({ request }) => edit(request.action).set({ type: 'never.covered' }),
  'MD-305': ({ request }) => edit(request.action).set({ currency: 'USD' }),
  'MD-304': ({ request }) => edit(request.action).set({ counterparty: 'nobody' }),
  'MD-302': ({ facts }) => edit(facts.mandate).set({ per_action: 1 }),
  'MD-303': ({ facts }) => edit(facts.mandate).set({ per_month: 1 }),
  'MD-401': ({ facts }) => {
    edit(facts.mandate).set({ escalation_threshold: 1 });
    const times = { expires_at_ms: facts.now_ms + 1, closes_at_ms: facts.now_ms + 1 };
    Object.assign(facts, { standing: { escalation_id: 'esc_1', status: 'rejected', ...times } });
  },
  'MD-402': ({ request }) => Object.assign(request, { escalation_token_given: true }),
  'MD-503': ({ facts }) => Object.assign(facts, { undecidable: 'A stored secret cannot be opened.' }),
};

function edit<T extends object>(target: T | null): { set: (change: Partial<T>) => void } {
  return { set: (change) => void (target === null ? null : Object.assign(target, change)) };
}

function failing(codes: readonly DenialCode[]): DenialCode | 'allow' | 'escalate' {
  const draft = passing();
  for (const code of codes) FAILING[code](draft);
  const decided = decide(frozen(draft.facts), frozen(draft.request));
  return decided.decision === 'deny' ? decided.code : decided.decision;
}

/** Pairs that cannot fail together, in check order: a token is either given (MD-402) or not (MD-401). */
const EXCLUSIVE = new Map<DenialCode, DenialCode>([['MD-401', 'MD-402']]);

t.test('where two checks fail, the earlier code of contract §4 is the denial', async (t) => {
  t.equal(failing([]), 'allow', 'facts that fail nothing are allowed');
  for (const [at, code] of CODES.entries()) {
    t.equal(failing([code]), code, `${code} alone`);
    for (const later of CODES.slice(at + 1)) {
      const expected = EXCLUSIVE.get(code) === later ? later : code;
      // Without a mandate nothing of it can be made to fail; the drafts then skip those edits.
      t.equal(failing(code === 'MD-201' ? [later, code] : [code, later]), expected, `${code} and ${later}`);
    }
  }
});

t.test('where any set of checks fails, the first one in order is the denial', async (t) => {
  const property = fc.property(fc.subarray(CODES, { minLength: 1 }), (set) => {
    const effective = set.includes('MD-402') ? set.filter((code) => code !== 'MD-401') : set;
    // MD-201 takes the mandate away, so it is applied after what edits the mandate.
    const order = [...set].sort((a, b) => Number(a === 'MD-201') - Number(b === 'MD-201'));
    return failing(order) === effective[0];
  });
  t.doesNotThrow(() => fc.assert(property, { numRuns: 1000 }));
});

const amount = fc.oneof(fc.nat(300), fc.integer({ min: 0, max: MONEY_MINOR_MAX }));
const status = fc.constantFrom(...ESCALATION_STATES);
const around = (ms: number) => fc.integer({ min: ms - 2, max: ms + 2 });

/** Facts of a gateway request around the limits: small numbers, so that edges are hit often. */
const cases = fc
  .record({
    per_action: amount,
    per_month: amount,
    escalation_threshold: fc.option(amount),
    reserved: fc.nat(300),
    booked: fc.nat(300),
    asked: amount,
    token: fc.boolean(),
    max_uses: fc.option(fc.integer({ min: 1, max: 3 })),
    uses: fc.nat(3),
    mandate_status: fc.constantFrom(...MANDATE_STATES),
    grant: fc.option(fc.record({ status, closes: around(0), same: fc.boolean() })),
    standing: fc.option(fc.record({ status, expires: around(0), closes: around(0) })),
    bindable: fc.boolean(),
  })
  .map((given) => {
    const { facts, request } = named('allow-ordinary.json');
    const { per_action, per_month, escalation_threshold, max_uses, uses, mandate_status } = given;
    edit(facts.mandate).set({ per_action, per_month, escalation_threshold, max_uses, uses, status: mandate_status });
    edit(facts.month).set({ reserved: given.reserved, booked: given.booked });
    edit(request.action).set({ amount: given.asked });
    Object.assign(request, { escalation_token_given: given.token, bindable: given.bindable });
    const { grant, standing } = given;
    const now = facts.now_ms;
    if (grant !== null) {
      const ctx = grant.same ? (request.ctx ?? '') : 'sha-256:other';
      const mandate_id = facts.mandate?.mandate_id ?? '';
      const { status } = grant;
      Object.assign(facts, {
        grant: { escalation_id: 'esc_1', mandate_id, ctx, status, closes_at_ms: now + grant.closes },
      });
    }
    if (standing !== null) {
      const times = { expires_at_ms: now + standing.expires, closes_at_ms: now + standing.closes };
      Object.assign(facts, { standing: { escalation_id: 'esc_2', status: standing.status, ...times } });
    }
    return { facts, request };
  });

/** What must hold for an allow, written without looking at how `decide` checks it. */
function brokenPromise({ facts, request }: Pick<Vector, 'facts' | 'request'>, given: Verdict): string | null {
  if (given.decision !== 'allow') return null;
  const { mandate, month, grant } = facts;
  const { action } = request;
  if (mandate === null || action === null || mandate.status !== 'active') return 'no active mandate or no action';
  if (given.amount !== action.amount) return 'reserves another amount';
  if (BigInt(given.amount) > BigInt(mandate.per_action)) return 'above the limit per action';
  const total = BigInt(month.reserved) + BigInt(month.booked) + BigInt(given.amount);
  if (total > BigInt(mandate.per_month)) return 'above the limit per month';
  if (mandate.max_uses !== null && mandate.uses >= mandate.max_uses) return 'more uses than permitted';
  if (mandate.escalation_threshold === null || given.amount <= mandate.escalation_threshold) return null;
  if (grant === null || !request.escalation_token_given || grant.status !== 'approved') return 'above the threshold';
  if (grant.ctx !== request.ctx || facts.now_ms >= grant.closes_at_ms) return 'by an approval of something else';
  return given.escalation_id === grant.escalation_id ? null : 'without using the approval up';
}

t.test('an allow never passes a limit, a use count, or the threshold without an approval', async (t) => {
  const property = fc.property(cases, (given) => brokenPromise(given, decide(given.facts, given.request)) === null);
  t.doesNotThrow(() => fc.assert(property, { numRuns: 20_000 }));
});

t.test('a month filled by allows one after the other never passes its limit', async (t) => {
  const property = fc.property(fc.array(fc.nat(60_000), { maxLength: 60 }), fc.nat(300_000), (amounts, per_month) => {
    const { facts, request } = named('allow-ordinary.json');
    edit(facts.mandate).set({ per_month, escalation_threshold: null });
    let reserved = 0;
    for (const asked of amounts) {
      edit(facts.month).set({ reserved });
      edit(request.action).set({ amount: asked });
      const given = decide(facts, request);
      if (given.decision === 'allow') reserved += given.amount;
    }
    return reserved <= per_month;
  });
  t.doesNotThrow(() => fc.assert(property, { numRuns: 1000 }));
});

const NOT_AMOUNTS = [Number.NaN, -1, -0.5, 0.5, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY, 2 ** 53, 1e300];
const ODD = [...NOT_AMOUNTS, '1', null, undefined, {}, [1], true];

/** Every number and every state that a decision reads, as a path into a vector. */
const READ = [
  ...['request.action.amount', 'facts.mandate.per_action', 'facts.mandate.per_month', 'facts.month.reserved'],
  ...['facts.month.booked', 'facts.mandate.escalation_threshold', 'facts.mandate.uses', 'facts.mandate.max_uses'],
  ...['facts.mandate.status', 'facts.mandate.valid_until', 'facts.mandate.currency', 'facts.tool.state'],
  ...['facts.grant.status', 'facts.grant.closes_at_ms', 'facts.now_ms'],
];

/** Members that may be null, and mean with it that nothing limits. */
const NULLABLE = new Set(['facts.mandate.escalation_threshold', 'facts.mandate.max_uses', 'facts.mandate.valid_until']);

function put(target: object, path: string, value: unknown): void {
  const names = path.split('.');
  const last = names.pop() ?? '';
  let at: Record<string, unknown> = target as Record<string, unknown>;
  for (const name of names) at = at[name] as Record<string, unknown>;
  at[last] = value;
}

function decisionOf({ facts, request }: Vector): string {
  try {
    return decide(facts, request).decision;
  } catch (error) {
    return error instanceof Error ? 'threw' : 'threw something odd';
  }
}

t.test('a number that is none and a state that is not known never yield an allow', async (t) => {
  for (const path of READ) {
    for (const odd of [...ODD, 'unheard-of']) {
      if (odd === null && NULLABLE.has(path)) continue;
      const changed = named('allow-approved.json');
      edit(changed.facts.mandate).set({ max_uses: 5, valid_until: '2027-01-01T00:00:00.000Z' });
      t.equal(decisionOf(changed), 'allow', 'the case itself is allowed');
      put(changed, path, odd);
      t.not(decisionOf(changed), 'allow', `${path} = ${String(odd)}`);
    }
  }
});

t.test('amounts that are none are denied as not decidable, not thrown', async (t) => {
  for (const odd of NOT_AMOUNTS) {
    for (const path of READ.slice(0, 6)) {
      const changed = named('allow-at-threshold.json');
      put(changed, path, odd);
      const given = decide(changed.facts, changed.request);
      t.equal(given.decision === 'deny' && given.code, 'MD-503', `${path} = ${odd}`);
    }
  }
});

t.test('presentation times that are no numbers deny', async (t) => {
  for (const path of ['facts.presentation.issued_at_ms', 'facts.presentation.expires_at_ms', 'facts.now_ms']) {
    const changed = named('allow-presented.json');
    put(changed, path, Number.NaN);
    const given = decide(changed.facts, changed.request);
    t.equal(given.decision === 'deny' && given.code, 'MD-102', path);
  }
});
