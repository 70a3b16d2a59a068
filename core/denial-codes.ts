/**
 * The nineteen denial codes in the order in which they are checked; a code never changes its meaning.
 *
 * Source: contract §4. Published at GET /api/v1/denial-codes as `denial_code_version` 1.
 */
export const DENIAL_CODE_VERSION = 1;

export const DENIAL_CODES = [
  ['MD-101', 'presentation_invalid', 'The presentation is not well formed, or its signature does not verify.'],
  ['MD-102', 'presentation_expired', 'The presentation is outside its time window, or the window is too long.'],
  ['MD-103', 'presentation_wrong_verifier', 'The presentation does not name this verifying organisation.'],
  ['MD-104', 'presentation_context_mismatch', 'The presentation was signed for another action.'],
  ['MD-105', 'presentation_replayed', 'The presentation has already been used for an allow.'],
  ['MD-201', 'mandate_unknown', 'There is no such mandate for this organisation.'],
  ['MD-202', 'agent_mismatch', "The signer is not the mandate's agent."],
  ['MD-203', 'mandate_not_active', 'The mandate is a draft or suspended.'],
  ['MD-204', 'mandate_ended', 'The mandate has expired, is consumed or was revoked.'],
  ['MD-501', 'tool_unmapped', 'The tool is not mapped to an action type.'],
  ['MD-502', 'tool_unreadable', 'Amount, currency or counterparty cannot be read as the mapping says.'],
  ['MD-301', 'action_type_not_covered', "The mandate's scope does not cover the action type."],
  ['MD-305', 'currency_mismatch', "The action's currency is not the mandate's."],
  ['MD-304', 'counterparty_not_allowed', "The counterparty is not on the mandate's list."],
  ['MD-302', 'amount_above_action_limit', 'The amount is above the limit per action.'],
  ['MD-303', 'amount_above_month_limit', 'The amount does not fit into what is left of the month.'],
  ['MD-401', 'escalation_not_granted', 'The escalation was rejected, or nobody approved it in time.'],
  ['MD-402', 'escalation_token_invalid', 'The escalation token is unknown, used, or for another mandate or action.'],
  ['MD-503', 'not_decidable', 'The decision could not be completed; nothing was done.'],
] as const satisfies readonly (readonly [code: `MD-${number}`, name: string, meaning: string])[];

export type DenialCode = (typeof DENIAL_CODES)[number][0];
export type DenialName = (typeof DENIAL_CODES)[number][1];

/** The name of a code. */
export function denialName(code: DenialCode): DenialName {
  return DENIAL_CODES.find(([known]) => known === code)![1];
}
