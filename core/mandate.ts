import { hash } from 'node:crypto';
import { canonicalize } from './jcs.ts';

/** The states of a mandate (interface.md, "States and transitions"). */
export const MANDATE_STATES = ['draft', 'active', 'suspended', 'expired', 'consumed', 'revoked'] as const;
export type MandateStatus = (typeof MANDATE_STATES)[number];

/** What moves a mandate: the principal (`activate` … `revoke`), the clock (`expire`) or its last use (`consume`). */
export type MandateTrigger = 'activate' | 'suspend' | 'resume' | 'revoke' | 'expire' | 'consume';

const TRANSITIONS: Record<MandateTrigger, { from: readonly MandateStatus[]; to: MandateStatus }> = {
  activate: { from: ['draft'], to: 'active' },
  suspend: { from: ['active'], to: 'suspended' },
  resume: { from: ['suspended'], to: 'active' },
  revoke: { from: ['draft', 'active', 'suspended'], to: 'revoked' },
  expire: { from: ['draft', 'active', 'suspended'], to: 'expired' },
  consume: { from: ['active'], to: 'consumed' },
};

/** The states that nothing leaves again. */
export const TERMINAL_STATES: readonly MandateStatus[] = ['expired', 'consumed', 'revoked'];

/** The state that follows, or null when this trigger does not apply in `from` (terminal states are final). */
export function nextStatus(from: MandateStatus, trigger: MandateTrigger): MandateStatus | null {
  const transition = TRANSITIONS[trigger];
  return transition.from.includes(from) ? transition.to : null;
}

/**
 * What the principal allows. Amounts are integer minor units of `currency`; `valid_until` is RFC 3339 UTC.
 *
 * An empty `counterparties` allows any; an empty `agent_did` means that the service holds the agent's key (path 1) or
 * that only gateway instances act under it (path 3).
 */
export interface MandateTerms {
  readonly mandate_id: string;
  readonly version: number;
  readonly scope: readonly string[];
  readonly currency: string;
  readonly per_action: number;
  readonly per_month: number;
  readonly escalation_threshold: number | null;
  readonly counterparties: readonly string[];
  readonly agent_did: string;
  readonly time_zone: string;
  readonly valid_until: string | null;
  readonly max_uses: number | null;
}

/** `sha-256:` and the hex SHA-256 of the JCS of the terms: what a decision's evidence says it was decided under. */
export function mandateDigest(terms: MandateTerms): string {
  const text = canonicalize({
    mandate_id: terms.mandate_id,
    version: terms.version,
    scope: [...terms.scope],
    currency: terms.currency,
    per_action: terms.per_action,
    per_month: terms.per_month,
    escalation_threshold: terms.escalation_threshold,
    counterparties: [...terms.counterparties],
    agent_did: terms.agent_did,
    time_zone: terms.time_zone,
    valid_until: terms.valid_until,
    max_uses: terms.max_uses,
  });
  return `sha-256:${hash('sha256', text, 'hex')}`;
}
