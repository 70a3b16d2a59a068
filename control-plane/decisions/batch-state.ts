import type { EvidenceKind } from '../../core/evidence.ts';

/** An account's chain head in a batch; it moves as entries are appended. `nowMs` never lies before the last entry. */
export interface HeadState {
  readonly accountId: string;
  readonly nowMs: number;
  readonly now: string;
  size: number;
  hash: string;
}

/** A month of a mandate as the batch sees it, the effects of its earlier asks included (minor units). */
export interface MonthState {
  readonly month: string;
  reserved: number;
  booked: number;
}

/** What can change of a mandate; its terms are immutable per version and come from the version cache. */
export interface MandateState {
  readonly accountId: string;
  readonly mandateId: string;
  readonly version: number;
  status: string;
  uses: number;
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
  readonly month: MonthState;
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
  state: 'reserved' | 'booked' | 'released' | 'unknown';
}

export interface AnswerState {
  readonly requestDigest: string;
  readonly receiptId: string;
  state: 'in_flight' | 'answered' | 'unknown';
  readonly status: number | null;
  readonly headers: readonly (readonly [string, string])[];
  readonly body: string | null;
}

/** Everything a batch reads and changes, keyed as its asks look it up. */
export interface BatchState {
  readonly heads: ReadonlyMap<string, HeadState>;
  readonly instances: ReadonlyMap<string, InstanceState>;
  readonly months: ReadonlyMap<string, MonthState>;
  readonly tools: Map<string, ToolState>;
  readonly escalations: EscalationState[];
  readonly reservations: ReadonlyMap<string, ReservationState>;
  readonly answers: Map<string, AnswerState>;
  readonly grants: ReadonlyMap<string, GrantState>;
}

/** The key of a month in {@link BatchState.months}. */
export function monthKey(mandateId: string, month: string): string {
  return `${mandateId} ${month}`;
}

/** The key of a tool in {@link BatchState.tools}. */
export function toolKey(instanceId: string, key: string): string {
  return `${instanceId} ${key}`;
}

/** The key of a stored answer in {@link BatchState.answers}. */
export function answerKey(subjectId: string, keyHash: string): string {
  return `${subjectId} ${keyHash}`;
}

/** The key of a grant in {@link BatchState.grants}: tokens are looked up within their account only. */
export function grantKey(accountId: string, tokenHash: string): string {
  return `${accountId} ${tokenHash}`;
}

/** What decisions count; the process wires it to its metrics. */
export interface DecisionMetrics {
  decision(path: 'gateway' | 'verify', decision: 'allow' | 'deny' | 'escalate', code: string): void;
  outcome(outcome: 'booked' | 'released' | 'unknown'): void;
  batch(size: number, seconds: number): void;
  laneDepth(depth: number): void;
  evidence(kind: EvidenceKind, count: number): void;
  rateLimited(rateClass: 'verify' | 'management'): void;
}
