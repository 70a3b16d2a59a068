import type { StoredEntry } from './evidence.ts';

/** What a decision is searched by; amounts are minor units of `currency`, times Unix milliseconds. */
export interface DecisionSummary {
  readonly seq: number;
  readonly receiptId: string;
  readonly atMs: number;
  /** The gateway instance or the API key that asked. */
  readonly subjectId: string;
  readonly mandateId: string | null;
  /** The did:key that signed the presentation, where there was one that could be read. */
  readonly agent: string | null;
  readonly decision: DecisionKind;
  readonly code: string | null;
  readonly currency: string | null;
  readonly amount: number | null;
}

export const DECISION_KINDS = ['allow', 'deny', 'escalate'] as const;
export type DecisionKind = (typeof DECISION_KINDS)[number];

/** What to look for; every condition that is given must hold, `toMs` is not included, amounts are. */
export interface DecisionFilter {
  readonly receiptId?: string | undefined;
  readonly subjectId?: string | undefined;
  readonly mandateId?: string | undefined;
  readonly agent?: string | undefined;
  readonly decision?: DecisionKind | undefined;
  readonly code?: string | undefined;
  readonly fromMs?: number | undefined;
  readonly toMs?: number | undefined;
  readonly currency?: string | undefined;
  readonly minAmount?: number | undefined;
  readonly maxAmount?: number | undefined;
}

type Body = Readonly<Record<string, unknown>>;

/**
 * What a decision's evidence says that is searched by; null for a body that no decision has.
 *
 * The body is what the control plane wrote (control-plane/decisions/decision-body.ts).
 */
export function decisionSummary(entry: Pick<StoredEntry, 'seq' | 'id' | 'at' | 'body'>): DecisionSummary | null {
  const { seq, id, at, body } = entry;
  const value = JSON.parse(body) as Body;
  const decision = value['decision'];
  const subjectId = value['instance'] ?? value['key'];
  if (!isDecision(decision) || typeof subjectId !== 'string') return null;
  const action = objectAt(value, 'action');
  return {
    seq,
    receiptId: id,
    atMs: Date.parse(at),
    subjectId,
    mandateId: textAt(objectAt(value, 'mandate'), 'id'),
    agent: agentOf(value),
    decision,
    code: textAt(value, 'code'),
    currency: textAt(action, 'currency'),
    amount: amountOf(action),
  };
}

/** What the entries say, without those that are no decisions. */
export function decisionSummaries(entries: readonly Pick<StoredEntry, 'seq' | 'id' | 'at' | 'body'>[]) {
  return entries.map(decisionSummary).filter((one) => one !== null);
}

/** Whether a decision is one that is looked for. */
export function matchesFilter(summary: DecisionSummary, filter: DecisionFilter): boolean {
  const { fromMs, toMs, minAmount, maxAmount } = filter;
  const exact = ['receiptId', 'subjectId', 'mandateId', 'agent', 'decision', 'code', 'currency'] as const;
  if (exact.some((name) => filter[name] !== undefined && filter[name] !== summary[name])) return false;
  if (fromMs !== undefined && summary.atMs < fromMs) return false;
  if (toMs !== undefined && summary.atMs >= toMs) return false;
  if (minAmount !== undefined && !(summary.amount !== null && summary.amount >= minAmount)) return false;
  return maxAmount === undefined || (summary.amount !== null && summary.amount <= maxAmount);
}

function isDecision(value: unknown): value is DecisionKind {
  return DECISION_KINDS.some((kind) => kind === value);
}

const AGENT = /^(did:key:z[1-9A-HJ-NP-Za-km-z]{40,60})(?:#|$)/;

function agentOf(body: Body): string | null {
  const method = textAt(objectAt(objectAt(objectAt(body, 'presentation'), 'document'), 'proof'), 'verificationMethod');
  return AGENT.exec(method ?? '')?.[1] ?? null;
}

function amountOf(action: Body): number | null {
  const amount = action['amount'];
  return typeof amount === 'number' && Number.isSafeInteger(amount) && amount >= 0 ? amount : null;
}

function objectAt(value: Body, name: string): Body {
  const found = value[name];
  return typeof found === 'object' && found !== null && !Array.isArray(found) ? (found as Body) : {};
}

function textAt(value: Body, name: string): string | null {
  const found = value[name];
  return typeof found === 'string' ? found : null;
}
