import type { DecisionRequest, GrantFacts, StandingFacts } from '../../core/decide.ts';
import { newTypeId } from '../../core/type-id.ts';
import type { AccountFacts, GrantState, HeadState, MandateState } from './account-facts.ts';
import type { Recording } from './record.ts';

/** How long a human has to answer, in milliseconds (interface.md, Limits). */
export const ESCALATION_TIMEOUT_MS = 600_000;
/** How long a "no" holds for the identical action, so that an agent's retries cannot drown the approver. */
export const ESCALATION_REFUSAL_HOLD_MS = 600_000;
/** Most escalations that may be pending on a mandate (contract §6). */
export const PENDING_ESCALATIONS_MAX = 20;

/** What an approval is bound to besides the action: a mandate, and the gateway instance or `verify`. */
export interface EscalationSubject {
  readonly mandate: MandateState;
  readonly subjectId: string;
}

interface EscalationCase extends EscalationSubject {
  readonly head: HeadState;
  readonly decision: DecisionRequest;
  /** The context digest that the approval binds. */
  readonly ctx: string | null;
  /** The whole request on the gateway path, for the approver's card. */
  readonly request: object | null;
  readonly receiptId: string;
  readonly standing: string | null;
}

interface Changing {
  readonly facts: AccountFacts;
  readonly recording: Recording;
}

/**
 * The escalation of this decision: the one that stands for the same action, or a new pending one.
 *
 * Times are RFC 3339 UTC; `created` tells whether the approver's card still lacks the request's body.
 * Source: contract §6.
 */
export function recordEscalation(
  context: Changing,
  given: EscalationCase,
): { id: string; expires_at: string; created: boolean } {
  const { head, mandate, subjectId, decision, ctx, request, receiptId, standing } = given;
  if (standing !== null) {
    const known = context.facts.escalations.find((one) => one.escalationId === standing);
    if (known === undefined) throw new Error('a standing escalation is not among those that were read');
    return { id: standing, expires_at: new Date(known.expiresAtMs).toISOString(), created: false };
  }
  if (decision.action === null || ctx === null) throw new Error('an action that was not read cannot escalate');
  const id = newTypeId('esc', head.nowMs);
  const expiresAtMs = head.nowMs + ESCALATION_TIMEOUT_MS;
  const closesAtMs = expiresAtMs + ESCALATION_REFUSAL_HOLD_MS;
  context.facts.escalations.push({
    escalationId: id,
    mandateId: mandate.mandateId,
    subjectId,
    ctx,
    createdAtMs: head.nowMs,
    expiresAtMs,
    closesAtMs,
    status: 'pending',
  });
  context.recording.change(
    `insert into escalations (account_id, escalation_id, mandate_id, subject_id, ctx, status, action, request,
       receipt_id, created_at, expires_at, closes_at)
     values ($1, $2, $3, $4, $5, 'pending', $6::text::jsonb, $7::text::jsonb, $8, ms_time($9), ms_time($10),
       ms_time($11))`,
    [
      head.accountId,
      id,
      mandate.mandateId,
      subjectId,
      ctx,
      JSON.stringify(decision.action),
      request === null ? null : JSON.stringify(request),
      receiptId,
      String(head.nowMs),
      String(expiresAtMs),
      String(closesAtMs),
    ],
  );
  return { id, expires_at: new Date(expiresAtMs).toISOString(), created: true };
}

/** The approval that a token names, as `decide` sees it; at another subject it was granted for another action. */
export function grantFacts(grant: GrantState | undefined, subjectId: string): GrantFacts | null {
  if (grant === undefined) return null;
  return {
    escalation_id: grant.escalationId,
    mandate_id: grant.mandateId,
    ctx: grant.subjectId === subjectId ? grant.ctx : '',
    status: grant.status,
    closes_at_ms: grant.closesAtMs,
  };
}

/** The latest escalation of the same action that still bears on decisions. */
export function standingFacts(
  facts: AccountFacts,
  { mandate, subjectId }: EscalationSubject,
  ctx: string | null,
): StandingFacts | null {
  if (ctx === null) return null;
  let latest: StandingFacts | null = null;
  for (const known of facts.escalations) {
    if (known.ctx !== ctx || known.subjectId !== subjectId || known.status === 'used') continue;
    if (known.mandateId !== mandate.mandateId) continue;
    latest = {
      escalation_id: known.escalationId,
      status: known.status,
      expires_at_ms: known.expiresAtMs,
      closes_at_ms: known.closesAtMs,
    };
  }
  return latest;
}

/** Whether a mandate has as many pending escalations as it may have. */
export function escalationsFull(facts: AccountFacts, { mandateId }: MandateState): boolean {
  let pending = 0;
  for (const known of facts.escalations) if (known.status === 'pending' && known.mandateId === mandateId) pending += 1;
  return pending >= PENDING_ESCALATIONS_MAX;
}

/** Uses up the approval by which an allow was decided: it was good for this one. */
export function useGrant({ facts, recording }: Changing, grant: GrantState | undefined, escalationId: string): void {
  if (grant === undefined || grant.escalationId !== escalationId)
    throw new Error('an allow used a grant it was not given');
  grant.status = 'used';
  const standing = facts.escalations.find((known) => known.escalationId === escalationId);
  if (standing !== undefined) standing.status = 'used';
  const { accountId, nowMs } = facts.head;
  recording.change(
    `update escalations set status = 'used', used_at = ms_time($3), closes_at = ms_time($3), request_body = null
     where account_id = $1 and escalation_id = $2 and status = 'approved'`,
    [accountId, escalationId, String(nowMs)],
  );
}
