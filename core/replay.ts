import { type DecisionFacts, type DecisionRequest, decide, type MandateFacts } from './decide.ts';
import type { DenialCode } from './denial-codes.ts';
import type { MandateTerms } from './mandate.ts';
import {
  hasKnownCodes,
  type RecordedDecision,
  recordedDecision,
  recordedFacts,
  recordedRequest,
} from './recorded-decision.ts';

/** The limits to decide by instead; what is left out stays as it was. Amounts are minor units. */
export type ReplayChanges = Partial<
  Pick<MandateTerms, 'scope' | 'per_action' | 'per_month' | 'escalation_threshold' | 'counterparties'>
>;

/** `not_asked`: repeats a request that would have been allowed before, so that nobody would have sent it again. */
export type ReplayDecision = 'allow' | 'deny' | 'escalate' | 'not_asked';

export interface ReplayVerdict {
  readonly decision: ReplayDecision;
  /** Of a deny only. */
  readonly code: DenialCode | null;
  readonly reason: string | null;
}

/** A decision as it was, and as it would have been. `amount` is in minor units, null where none could be read. */
export interface ReplayedDecision {
  readonly receiptId: string;
  readonly at: string;
  readonly seq: number;
  readonly type: string | null;
  readonly amount: number | null;
  readonly counterparty: string | null;
  readonly recorded: ReplayVerdict;
  readonly replayed: ReplayVerdict;
  readonly changed: boolean;
}

/** An entry of the chain as a replay reads it; `body` is its JSON text. */
export interface ReplayEntry {
  readonly account: string;
  readonly seq: number;
  readonly id: string;
  readonly kind: string;
  readonly at: string;
  readonly body: string;
}

/** The kinds of entries that a replay looks at; of others it learns nothing. */
export const REPLAY_KINDS = [
  'decision',
  'outcome',
  'outcome.settled',
  'consumption.booked',
  'consumption.lapsed',
  'execution.reported',
] as const;

/** How long an escalation is remembered: it bears on decisions for far less. */
const ESCALATION_KEPT_MS = 24 * 60 * 60_000;
/** Escalations at which old ones are looked for. */
const ESCALATIONS_SWEPT_AT = 1_000;

/** An allow that only the replay has: what it holds of a month, until its recorded repeat takes its place. */
interface Early {
  readonly month: string;
  readonly amount: number;
  readonly atMs: number;
}

/**
 * Runs the recorded decisions of one mandate through `decide` under other limits, entry by entry in chain order.
 *
 * Each is decided on the facts that were recorded with it. What the month holds is corrected by what this replay did
 * otherwise before: an allow that was none counts in full from then on (nobody knows what it would have cost); one that
 * would not have been counts nothing, and its later booking or release moves nothing. An action that was escalated and
 * would be allowed counts once: its repeats, and what people answered, drop out (`not_asked`). An action that would be
 * escalated counts nothing, since nobody knows what a human would have said; an approval that was given is kept where
 * the escalation would have been opened as well. With no changes it changes nothing. Memory: what is open, not what
 * was. Source: contract §§4-6, docs/design/0019-replay-and-export.md.
 */
export class Replay {
  readonly #mandateId: string;
  readonly #changes: ReplayChanges;
  readonly #termsOf: (digest: string) => MandateTerms | null;
  /** How much more (or less) a month holds here than in the record. */
  readonly #deltas = new Map<string, number>();
  /** Recorded allows that are none here: what the record counts for them now. */
  readonly #missing = new Map<string, { readonly month: string; readonly counted: number }>();
  /** Escalations of the record that were allowed at once here, and those that were never opened here. */
  readonly #early = new Map<string, Early>();
  readonly #unopened = new Map<string, number>();
  #usesMore = 0;
  /** Decisions of the mandate that could not be replayed: another version of the codes, or terms that are not there. */
  unreplayed = 0;

  /** `termsOf` gives the terms of a version of the mandate by their digest. */
  constructor(mandateId: string, changes: ReplayChanges, termsOf: (digest: string) => MandateTerms | null) {
    this.#mandateId = mandateId;
    this.#changes = changes;
    this.#termsOf = termsOf;
  }

  /** Takes the next entry; returns what became of it where it is a decision of this mandate that can be replayed. */
  next(entry: ReplayEntry): ReplayedDecision | null {
    if (!entry.body.includes(this.#mandateId)) return null;
    const body = JSON.parse(entry.body) as Readonly<Record<string, unknown>>;
    if (entry.kind === 'decision') return this.#decision(entry, body);
    if (entry.kind === 'outcome') {
      for (const one of body['outcomes'] as readonly Readonly<Record<string, unknown>>[]) this.#outcome(one);
    } else if (entry.kind === 'outcome.settled') {
      this.#outcome(body);
    } else if (entry.kind === 'consumption.booked') {
      this.#counts(String(body['receipt_id']), Number(body['final_amount']));
    } else if (entry.kind === 'consumption.lapsed') {
      this.#missing.delete(String(body['receipt_id']));
    } else if (entry.kind === 'execution.reported' && Number(body['released']) > 0) {
      this.#counts(String(body['receipt_id']), 0);
    }
    return null;
  }

  #decision(entry: ReplayEntry, value: unknown): ReplayedDecision | null {
    const parsed = recordedDecision.safeParse(value);
    if (!parsed.success) {
      this.unreplayed += 1;
      return null;
    }
    const body = parsed.data;
    if (body.mandate?.id !== this.#mandateId) return null;
    const terms = this.#termsOf(body.mandate.digest);
    if (terms === null || !hasKnownCodes(body)) {
      this.unreplayed += 1;
      return null;
    }
    const atMs = Date.parse(entry.at);
    const replayed = this.#repeats(entry.id, body) ?? this.#decided(entry, body, terms, atMs);
    const recorded: ReplayVerdict = {
      decision: body.decision,
      code: (body.code as DenialCode | undefined) ?? null,
      reason: body.reason_text ?? null,
    };
    this.#forget(atMs);
    return {
      ...{ receiptId: entry.id, at: entry.at, seq: entry.seq, recorded, replayed },
      ...{ type: body.action?.type ?? null, amount: body.action?.amount ?? null },
      counterparty: body.action?.counterparty ?? null,
      changed: recorded.decision !== replayed.decision || recorded.code !== replayed.code,
    };
  }

  /** What a repeat of an action that was allowed at once here comes to; null where it is none. */
  #repeats(receiptId: string, body: RecordedDecision): ReplayVerdict | null {
    const escalationId = body.grant?.escalation_id ?? body.standing?.escalation_id;
    const early = escalationId === undefined ? undefined : this.#early.get(escalationId);
    if (escalationId === undefined || early === undefined) return null;
    if (body.decision === 'allow') {
      const { month, amount } = placeOf(body);
      // From here on the record holds the action as well: in the same month it is the same money.
      if (month === early.month) this.#add(month, -early.amount);
      else this.#miss(receiptId, month, amount);
      this.#usesMore -= 1;
      this.#early.delete(escalationId);
    }
    return { decision: 'not_asked', code: null, reason: 'The same action would have been allowed before.' };
  }

  #decided(entry: ReplayEntry, body: RecordedDecision, terms: MandateTerms, atMs: number): ReplayVerdict {
    const facts = this.#factsOf(recordedFacts(body, { account: entry.account, atMs, terms }));
    const escalationId = body.grant?.escalation_id ?? body.standing?.escalation_id ?? body.escalation?.id;
    const unopened = escalationId !== undefined && this.#unopened.has(escalationId);
    const request = recordedRequest(body);
    const asked: [DecisionFacts, DecisionRequest] = unopened
      ? [
          { ...facts, grant: null, standing: null },
          { ...request, escalation_token_given: false },
        ]
      : [facts, request];
    const verdict = decide(...asked);
    const { month, amount } = placeOf(body);
    const [was, is] = [body.decision === 'allow', verdict.decision === 'allow'];
    if (was && !is) {
      this.#miss(entry.id, month, amount);
      this.#usesMore -= 1;
    } else if (is && !was) {
      this.#add(month, amount);
      this.#usesMore += 1;
      if (body.escalation !== undefined) this.#early.set(body.escalation.id, { month, amount, atMs });
    }
    if (escalationId !== undefined) {
      if (verdict.decision !== 'deny') this.#unopened.delete(escalationId);
      else if (body.decision === 'escalate') this.#unopened.set(escalationId, atMs);
    }
    return verdictOf(verdict, facts.mandate);
  }

  /** The recorded facts under the changed limits, with the month and the uses as they are here. */
  #factsOf(facts: DecisionFacts): DecisionFacts {
    const { month, mandate } = facts;
    if (mandate === null) return facts;
    const reserved = month.reserved + (this.#deltas.get(month.month) ?? 0);
    const uses = Math.max(0, mandate.uses + this.#usesMore);
    const unused = mandate.max_uses !== null && mandate.status === 'consumed' && uses < mandate.max_uses;
    return {
      ...facts,
      // Only the sum bears on a decision.
      month: { ...month, reserved: Math.max(0, reserved), booked: Math.max(0, month.booked + Math.min(0, reserved)) },
      mandate: { ...mandate, ...this.#changes, uses, status: unused ? 'active' : mandate.status },
    };
  }

  #outcome(one: Readonly<Record<string, unknown>>): void {
    // What was told after a person had settled it moved nothing.
    if (one['settled'] !== undefined || one['outcome'] === 'unknown') return;
    const receiptId = String(one['receipt_id']);
    if (one['outcome'] === 'released') this.#counts(receiptId, 0);
    else this.#missing.delete(receiptId);
  }

  /** The record counts so much for a receipt from now on, for good. */
  #counts(receiptId: string, amount: number): void {
    const missing = this.#missing.get(receiptId);
    if (missing === undefined) return;
    this.#add(missing.month, missing.counted - amount);
    this.#missing.delete(receiptId);
  }

  #miss(receiptId: string, month: string, amount: number): void {
    this.#add(month, -amount);
    this.#missing.set(receiptId, { month, counted: amount });
  }

  #add(month: string, amount: number): void {
    this.#deltas.set(month, (this.#deltas.get(month) ?? 0) + amount);
  }

  #forget(atMs: number): void {
    if (this.#early.size + this.#unopened.size < ESCALATIONS_SWEPT_AT) return;
    for (const [id, one] of this.#early) if (one.atMs < atMs - ESCALATION_KEPT_MS) this.#early.delete(id);
    for (const [id, at] of this.#unopened) if (at < atMs - ESCALATION_KEPT_MS) this.#unopened.delete(id);
  }
}

/** The month that a decision counts in, and what it counts where it is allowed. */
function placeOf(body: RecordedDecision): { readonly month: string; readonly amount: number } {
  return { month: body.month?.month ?? '', amount: body.action?.amount ?? 0 };
}

function verdictOf(verdict: ReturnType<typeof decide>, mandate: MandateFacts | null): ReplayVerdict {
  if (verdict.decision === 'deny') return { decision: 'deny', code: verdict.code, reason: verdict.reason_text };
  const asks = verdict.decision === 'escalate' && mandate !== null;
  const reason = asks ? 'The amount is above the threshold, so a human would have been asked.' : null;
  return { decision: verdict.decision, code: null, reason };
}
