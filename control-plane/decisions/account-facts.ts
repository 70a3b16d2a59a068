import type { EvidenceKind } from '../../core/evidence.ts';
import type { RightEdge } from '../../core/merkle-tree.ts';

/** An account's chain head in a batch; it moves as entries are appended. `nowMs` never lies before the last entry. */
export interface HeadState {
  readonly accountId: string;
  nowMs: number;
  now: string;
  size: number;
  hash: string;
  /** The right edge of the Merkle tree over the `size` entries. */
  edge: RightEdge | null;
  /** The hash as the batch found it, and the revision of the facts that are not in the chain. */
  before: string;
  readonly revision: number;
}

/** A month of a mandate as the batch sees it, the effects of its earlier asks included (minor units). */
export interface MonthState {
  readonly month: string;
  /** Whether it has a row already. */
  stored: boolean;
  reserved: number;
  booked: number;
  /** The highest share of the limit, in per cent, whose crossing is recorded since it was read. */
  told?: 80 | 100;
}

/** What can change of a mandate; its terms are immutable per version and come from the version cache. */
export interface MandateState {
  readonly accountId: string;
  readonly mandateId: string;
  readonly version: number;
  status: string;
  uses: number;
  /** The current month in the mandate's time zone, and until when it surely is, in milliseconds. */
  readonly month: MonthState;
  readonly monthSureUntilMs: number;
}

export interface InstanceState {
  readonly accountId: string;
  readonly instanceId: string;
  readonly status: string;
  readonly tokenHash: string;
  readonly configVersion: number;
  readonly shapes: readonly string[];
  readonly ratePerSecond: number;
  readonly rateBurst: number;
  readonly mandate: MandateState;
  unmappedTools: number;
}

export interface ToolState {
  readonly accountId: string;
  readonly instanceId: string;
  readonly key: string;
  readonly toolId: string;
  readonly state: 'unmapped' | 'mapped' | 'blocked';
  readonly version: number;
}

export type EscalationStatus = 'pending' | 'approved' | 'rejected' | 'expired' | 'used';

export interface EscalationState {
  readonly escalationId: string;
  readonly mandateId: string;
  readonly subjectId: string;
  readonly ctx: string;
  readonly createdAtMs: number;
  readonly expiresAtMs: number;
  readonly closesAtMs: number;
  status: EscalationStatus;
}

export interface GrantState {
  readonly escalationId: string;
  readonly mandateId: string;
  readonly subjectId: string;
  readonly ctx: string;
  readonly closesAtMs: number;
  readonly decidedBy: string | null;
  status: EscalationStatus;
}

export interface ReservationState {
  readonly accountId: string;
  readonly receiptId: string;
  readonly mandateId: string;
  readonly month: string;
  readonly subjectId: string;
  readonly amount: number;
  readonly keyHash: string | null;
  /** Settled: by a person; it holds nothing of the month any more. */
  state: 'reserved' | 'unknown' | 'settled_booked' | 'settled_released';
}

export interface AnswerState {
  readonly requestDigest: string;
  readonly receiptId: string;
  state: 'in_flight' | 'answered' | 'unknown';
  readonly status: number | null;
  readonly headers: readonly (readonly [string, string])[];
  readonly body: string | null;
}

/** An API key as it stands; it may be of another account than the one that is decided for (sandbox). */
export interface KeyState {
  readonly accountId: string;
  readonly keyId: string;
  readonly tokenHash: string;
  readonly scopes: readonly string[];
  readonly status: string;
  readonly ratePerSecond: number;
  readonly rateBurst: number;
}

/** What an allow on path 1 or 2 reserved, and what became of it. */
export interface AuthorisationState {
  readonly accountId: string;
  readonly receiptId: string;
  readonly mandateId: string;
  readonly month: string;
  readonly keyId: string;
  readonly amount: number;
  readonly currency: string;
  readonly actionType: string;
  readonly counterparty: string | null;
  readonly ctx: string | null;
  /** What the mandate allows in a month, in minor units. */
  readonly perMonth: number;
  state: 'reserved' | 'booked' | 'released' | 'final';
  booked: number;
  /** Of what was asked when it was booked, in hex, and the answer to it. */
  consumptionDigest: string | null;
  consumptionAnswer: string | null;
  /** What was reported of it, in order. */
  readonly executions: ExecutionState[];
}

/** A report of an execution: what was asked (SHA-256 in hex) and answered. */
export interface ExecutionState {
  readonly outcome: string;
  readonly digest: string;
  readonly answer: string;
}

/**
 * What an account's decisions are made from, keyed as its asks look it up; a batch changes it as it goes.
 *
 * `mandates` and `tools` hold null for what is known not to be there; `spentNonces` are SHA-256 in hex.
 */
export interface AccountFacts {
  head: HeadState;
  readonly mandates: Map<string, MandateState | null>;
  readonly instances: Map<string, InstanceState>;
  readonly months: Map<string, MonthState>;
  readonly tools: Map<string, ToolState | null>;
  readonly escalations: EscalationState[];
  readonly reservations: Map<string, ReservationState>;
  readonly answers: Map<string, AnswerState>;
  readonly grants: Map<string, GrantState>;
  readonly keys: Map<string, KeyState>;
  readonly spentNonces: Set<string>;
  readonly authorisations: Map<string, AuthorisationState>;
}

/** The key of a month in {@link AccountFacts.months}. */
export function monthKey(mandateId: string, month: string): string {
  return `${mandateId} ${month}`;
}

/** The key of a tool in {@link AccountFacts.tools}. */
export function toolKey(instanceId: string, key: string): string {
  return `${instanceId} ${key}`;
}

/** The key of a stored answer in {@link AccountFacts.answers}. */
export function answerKey(subjectId: string, keyHash: string): string {
  return `${subjectId} ${keyHash}`;
}

export type FactsSource = 'carried' | 'changed' | 'read';

/** What decisions count; the process wires it to its metrics. */
export interface DecisionMetrics {
  decision(path: 'gateway' | 'verify', decision: 'allow' | 'deny' | 'escalate', code: string): void;
  outcome(outcome: 'booked' | 'released' | 'unknown'): void;
  batch(size: number, seconds: number): void;
  laneDepth(depth: number): void;
  evidence(kind: EvidenceKind, count: number): void;
  /** Where a batch had its facts from; `changed`: carried facts that were no longer so. */
  facts(source: FactsSource): void;
  rateLimited(rateClass: 'verify' | 'management'): void;
}
