import fc from 'fast-check';
import t from 'tap';
import { gatewayDecisionBody } from '../../../control-plane/decisions/decision-body.ts';
import {
  type DecisionFacts,
  type DecisionRequest,
  decide,
  type GrantFacts,
  type Verdict,
} from '../../../core/decide.ts';
import { type MandateTerms, mandateDigest } from '../../../core/mandate.ts';
import { Replay, type ReplayChanges, type ReplayEntry, type ReplayedDecision } from '../../../core/replay.ts';
import { ReplaySummary } from '../../../core/replay-summary.ts';

const ACCOUNT = 'acc_01jd0000000000000000000000';
const MANDATE = 'mdt_01jd0000000000000000000000';
const START_MS = Date.parse('2026-05-31T23:00:00.000Z');
const STEP_MS = 60_000;

const TERMS: MandateTerms = {
  ...{ mandate_id: MANDATE, version: 1, scope: ['payments.*'], currency: 'EUR', per_action: 500, per_month: 1_000 },
  ...{ escalation_threshold: null, counterparties: [], agent_did: '', time_zone: 'UTC', valid_until: null },
  max_uses: null,
};

/** A request, or how an earlier one ended: booked in full, released, or booked with so much. */
type Step =
  | { readonly ask: number; readonly type?: string; readonly grant?: GrantFacts; readonly standing?: string }
  | { readonly of: number; readonly ends: 'booked' | 'released' | number };

interface World {
  readonly entries: readonly ReplayEntry[];
  readonly verdicts: readonly Verdict[];
}

/** What the service would have decided and recorded of these steps, a minute apart; `of` counts the requests. */
function worldOf(terms: MandateTerms, steps: readonly Step[], atMs = START_MS): World {
  const [entries, verdicts]: [ReplayEntry[], Verdict[]] = [[], []];
  const months = new Map<string, number>();
  const counted = new Map<number, { month: string; amount: number }>();
  let [now, uses] = [atMs, 0];
  const push = (kind: string, id: string, body: string) => {
    entries.push({ account: ACCOUNT, seq: entries.length, id, kind, at: new Date(now).toISOString(), body });
  };
  const status = () => (terms.max_uses !== null && uses >= terms.max_uses ? 'consumed' : 'active');
  for (const step of steps) {
    now += STEP_MS;
    if ('of' in step) {
      const one = counted.get(step.of);
      if (one === undefined) continue;
      counted.delete(step.of);
      const left = step.ends === 'booked' ? one.amount : step.ends === 'released' ? 0 : Math.min(step.ends, one.amount);
      months.set(one.month, (months.get(one.month) ?? 0) - one.amount + left);
      const receipt = { receipt_id: receiptOf(step.of), mandate_id: MANDATE };
      if (typeof step.ends === 'number')
        push('consumption.booked', 'con', JSON.stringify({ ...receipt, final_amount: left }));
      else push('outcome', 'evt', JSON.stringify({ outcomes: [{ ...receipt, outcome: step.ends }] }));
      continue;
    }
    const month = `${new Date(now).toISOString().slice(0, 7)}-01`;
    const action = { type: step.type ?? 'payments.create', amount: step.ask, currency: 'EUR', counterparty: null };
    const given = step.grant !== undefined;
    const request: DecisionRequest = { action, ctx: `ctx ${step.ask}`, escalation_token_given: given, bindable: true };
    const facts: DecisionFacts = {
      ...{ now_ms: now, account_id: ACCOUNT, mandate: { ...terms, status: status(), uses } },
      month: { month, reserved: months.get(month) ?? 0, booked: 0 },
      ...{
        presentation: null,
        tool: { state: 'mapped', unreadable: null },
        grant: step.grant ?? null,
        undecidable: null,
      },
      standing: step.standing === undefined ? null : standingOf(step.standing, now),
    };
    const verdict = decide(facts, request);
    const number = verdicts.push(verdict) - 1;
    push('decision', receiptOf(number), bodyOf(facts, request, verdict, step.standing ?? `esc_${number}`));
    if (verdict.decision !== 'allow') continue;
    uses += 1;
    months.set(month, (months.get(month) ?? 0) + step.ask);
    counted.set(number, { month, amount: step.ask });
  }
  return { entries, verdicts };
}

function standingOf(id: string, now: number) {
  return { escalation_id: id, status: 'pending', expires_at_ms: now + 600_000, closes_at_ms: now + 600_000 } as const;
}

function bodyOf(facts: DecisionFacts, request: DecisionRequest, verdict: Verdict, escalationId: string): string {
  return gatewayDecisionBody({
    ...{ facts, request, verdict, instanceId: 'gwi_1', decidedBy: null, tool: { id: 'tol_1', key: 'k', version: 1 } },
    mandateDigest: mandateDigest(facts.mandate ?? TERMS),
    escalation: verdict.decision === 'escalate' ? { id: escalationId, expires_at: '2026-06-01T00:00:00.000Z' } : null,
    ask: {
      ...{ path: 'gateway', token_hash: '', address: '', name: 'k', tool: null, reading: null, bindable: true },
      request: { method: 'POST', path: '/', query: '', body_sha256: null },
      ...{ idempotency_key_hash: null, escalation_token_hash: null, config_version: 0, budget_ms: 0 },
    },
  });
}

function receiptOf(number: number): string {
  return `rcp_${String(number).padStart(26, '0')}`;
}

function grantOf(escalationId: string, amount: number): GrantFacts {
  const closes = { closes_at_ms: Number.MAX_SAFE_INTEGER };
  return { escalation_id: escalationId, mandate_id: MANDATE, ctx: `ctx ${amount}`, status: 'approved', ...closes };
}

function replayed(world: World, changes: ReplayChanges, terms = TERMS): ReplayedDecision[] {
  const replay = new Replay(MANDATE, changes, (digest) => (digest === mandateDigest(terms) ? terms : null));
  const decisions = world.entries.flatMap((entry) => replay.next(entry) ?? []);
  if (replay.unreplayed > 0) throw new Error(`${replay.unreplayed} decisions were not replayed`);
  return decisions;
}

const shown = ({ replayed: { decision, code } }: ReplayedDecision) =>
  code === null ? decision : `${decision} ${code}`;

const limits = fc.record({
  per_action: fc.integer({ min: 0, max: 600 }),
  per_month: fc.integer({ min: 0, max: 2_000 }),
  escalation_threshold: fc.option(fc.integer({ min: 0, max: 600 })),
  max_uses: fc.option(fc.integer({ min: 1, max: 10 })),
});
const asks = fc.record({
  ask: fc.integer({ min: 0, max: 600 }),
  type: fc.constantFrom('payments.create', 'payments.create', 'refunds.create'),
});
const ends = fc.record({
  of: fc.nat(30),
  ends: fc.oneof(fc.constantFrom('booked' as const, 'released' as const), fc.integer({ min: 0, max: 600 })),
});
const story = fc.array(fc.oneof({ arbitrary: asks, weight: 3 }, ends), { maxLength: 60 });

t.test('under the limits it was decided under a period comes out as it was', async (t) => {
  const property = fc.property(limits, story, (changed, steps) => {
    const terms = { ...TERMS, ...changed };
    const world = worldOf(terms, steps);
    const { per_action, per_month, escalation_threshold, scope, counterparties } = terms;
    for (const changes of [{}, { per_action, per_month, escalation_threshold, scope, counterparties }]) {
      for (const one of replayed(world, changes, terms)) {
        if (one.changed || one.recorded.code !== one.replayed.code) return false;
        if (one.recorded.decision === 'deny' && one.recorded.reason !== one.replayed.reason) return false;
      }
    }
    return true;
  });
  t.doesNotThrow(() => fc.assert(property, { numRuns: 500 }));
});

t.test('under other limits it comes out as if they had held, where both know how every allow ended', async (t) => {
  const property = fc.property(limits, limits, story, (was, is, steps) => {
    const before = { ...TERMS, ...was };
    const after = { ...before, ...is, max_uses: was.max_uses };
    const world = worldOf(before, steps);
    // What the record does not know of an allow that it had not, the other world must not know either.
    const known = new Set(world.verdicts.flatMap((one, i) => (one.decision === 'allow' ? [i] : [])));
    const other = worldOf(
      after,
      steps.map((step) => ('of' in step && !known.has(step.of) ? { of: -1, ends: 0 } : step)),
    );
    const { max_uses: _, ...changes } = is;
    const decisions = replayed(world, changes, before);
    const differs = (one: ReplayedDecision, i: number) => {
      const verdict = other.verdicts[i];
      return verdict?.decision !== one.replayed.decision || ('code' in verdict && verdict.code !== one.replayed.code);
    };
    return decisions.length === other.verdicts.length && !decisions.some(differs);
  });
  t.doesNotThrow(() => fc.assert(property, { numRuns: 1_000 }));
});

t.test(
  'what was not allowed any more leaves room, and what was released or booked for less before leaves none',
  (t) => {
    const steps: Step[] = [{ ask: 400 }, { ask: 400 }, { of: 0, ends: 'released' }, { ask: 400 }, { ask: 300 }];
    const world = worldOf(TERMS, steps);
    t.same(replayed(world, {}).map(shown), ['allow', 'allow', 'allow', 'deny MD-303']);
    t.same(replayed(world, { per_month: 700 }).map(shown), ['allow', 'deny MD-303', 'allow', 'allow']);
    t.same(replayed(world, { per_action: 300 }).map(shown), [...Array(3).fill('deny MD-302'), 'allow']);
    t.same(replayed(world, { per_month: 1_100 }).map(shown), ['allow', 'allow', 'allow', 'allow']);
    t.end();
  },
);

t.test('an action that would have been allowed at once counts once, and its repeats drop out', (t) => {
  const terms = { ...TERMS, escalation_threshold: 100 };
  const steps: Step[] = [
    { ask: 400 },
    { ask: 400, standing: 'esc_0' },
    { ask: 400, grant: grantOf('esc_0', 400) },
    { ask: 90 },
    { ask: 400 },
  ];
  const world = worldOf(terms, steps);
  t.same(replayed(world, {}, terms).map(shown), ['escalate', 'escalate', 'allow', 'allow', 'escalate']);
  const lifted = replayed(world, { escalation_threshold: null }, terms);
  t.same(lifted.map(shown), ['allow', 'not_asked', 'not_asked', 'allow', 'allow']);
  t.same(
    replayed(world, { escalation_threshold: null, per_month: 490 }, terms).map(shown),
    ['allow', 'not_asked', 'not_asked', 'allow', 'deny MD-303'],
    '400 and 90 are in the month, once',
  );
  t.end();
});

t.test('an approval counts only where the escalation would have been opened as well', (t) => {
  const terms = { ...TERMS, escalation_threshold: 100 };
  const steps: Step[] = [{ ask: 400 }, { ask: 400, grant: grantOf('esc_0', 400) }, { ask: 300 }];
  const world = worldOf(terms, steps);
  t.same(replayed(world, { escalation_threshold: 50 }, terms).map(shown), ['escalate', 'allow', 'escalate']);
  t.same(replayed(world, { per_action: 350 }, terms).map(shown), ['deny MD-302', 'deny MD-302', 'escalate']);
  const room: Step[] = [
    { ask: 50 },
    { ask: 300 },
    { of: 0, ends: 'released' },
    { ask: 300, grant: grantOf('esc_1', 300) },
  ];
  t.same(
    replayed(worldOf(terms, room), { per_month: 330 }, terms).map(shown),
    ['allow', 'deny MD-303', 'escalate'],
    'nobody would have been asked when it was denied, so nobody approved it',
  );
  t.end();
});

t.test('what cannot be replayed is counted, and what is of another mandate is not', (t) => {
  const { entries } = worldOf(TERMS, [{ ask: 1 }, { ask: 2 }, { ask: 3 }]);
  const [first, second, third] = entries as [ReplayEntry, ReplayEntry, ReplayEntry];
  const replay = new Replay(MANDATE, {}, (digest) => (digest === mandateDigest(TERMS) ? TERMS : null));
  t.equal(replay.next({ ...first, body: first.body.replace(mandateDigest(TERMS), 'sha-256:00') }), null);
  t.equal(
    replay.next({ ...second, body: second.body.replace('"denial_code_version":1', '"denial_code_version":9') }),
    null,
  );
  t.equal(replay.unreplayed, 2);
  const other = third.body.replace(`"id":"${MANDATE}"`, `"id":"other","x":"${MANDATE}"`);
  t.equal(replay.next({ ...third, body: third.body.replaceAll(MANDATE, 'mdt_other') }), null);
  t.equal(replay.next({ ...third, body: other }), null, 'not of the known form');
  t.equal(replay.unreplayed, 3);
  t.end();
});

t.test('the summary adds up exactly and keeps no more changes than were asked for', (t) => {
  const world = worldOf({ ...TERMS, per_month: 1e15, per_action: 1e15 }, Array(5).fill({ ask: 500_000_000_000_000 }));
  const summary = new ReplaySummary(1);
  const terms = { ...TERMS, per_month: 1e15, per_action: 1e15 };
  for (const one of replayed(world, { per_month: 0 }, terms)) summary.add(one);
  const view = summary.view('EUR');
  t.match(view, {
    ...{ decisions: 5, changed: 2, allowed: { recorded: 10_000_000_000_000, replayed: 0 } },
    counts: [
      { recorded: { decision: 'deny', code: 'MD-303' }, replayed: { decision: 'deny', code: 'MD-303' }, amount: null },
      {
        recorded: { decision: 'allow', code: null },
        replayed: { code: 'MD-303' },
        count: 2,
        amount: 10_000_000_000_000,
      },
    ],
    days: [{ day: '2026-05-31', recorded: 10_000_000_000_000, replayed: 0 }],
  });
  t.equal(view.changes.length, 1);
  t.end();
});
