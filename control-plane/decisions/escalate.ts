import type { DecisionRequest } from '../../core/decide.ts';
import { newTypeId } from '../../core/type-id.ts';
import type { GatewayAsk } from '../../core/wire.ts';
import type { AccountFacts, HeadState, InstanceState } from './account-facts.ts';
import type { Recording } from './record.ts';

/** How long a human has to answer, in milliseconds (interface.md, Limits). */
export const ESCALATION_TIMEOUT_MS = 600_000;
/** How long a "no" holds for the identical action, so that an agent's retries cannot drown the approver. */
export const ESCALATION_REFUSAL_HOLD_MS = 600_000;

interface EscalationCase {
  readonly head: HeadState;
  readonly instance: InstanceState;
  readonly ask: GatewayAsk;
  readonly request: DecisionRequest;
  readonly receiptId: string;
  readonly standing: string | null;
}

/**
 * The escalation of this decision: the one that stands for the same action, or a new pending one.
 *
 * Times are RFC 3339 UTC; `created` tells whether the approver's card still lacks the request's body.
 * Source: contract §6.
 */
export function recordEscalation(
  context: { readonly facts: AccountFacts; readonly recording: Recording },
  given: EscalationCase,
): { id: string; expires_at: string; created: boolean } {
  const { head, instance, ask, request, receiptId, standing } = given;
  if (standing !== null) {
    const known = context.facts.escalations.find((one) => one.escalationId === standing);
    if (known === undefined) throw new Error('a standing escalation is not among those that were read');
    return { id: standing, expires_at: new Date(known.expiresAtMs).toISOString(), created: false };
  }
  const { action, ctx } = request;
  if (action === null || ctx === null) throw new Error('an action that was not read cannot escalate');
  const id = newTypeId('esc', head.nowMs);
  const expiresAtMs = head.nowMs + ESCALATION_TIMEOUT_MS;
  const closesAtMs = expiresAtMs + ESCALATION_REFUSAL_HOLD_MS;
  context.facts.escalations.push({
    escalationId: id,
    mandateId: instance.mandate.mandateId,
    subjectId: instance.instanceId,
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
      instance.mandate.mandateId,
      instance.instanceId,
      ctx,
      JSON.stringify(action),
      JSON.stringify({ ...ask.request, tool: ask.name }),
      receiptId,
      String(head.nowMs),
      String(expiresAtMs),
      String(closesAtMs),
    ],
  );
  return { id, expires_at: new Date(expiresAtMs).toISOString(), created: true };
}
