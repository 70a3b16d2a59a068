import { scopeCovers } from './action.ts';
import { DENIAL_CODES, type DenialCode, type DenialName, denialName } from './denial-codes.ts';
import { MONEY_MINOR_MAX } from './limits.ts';
import type { MandateStatus, MandateTerms } from './mandate.ts';
import { formatMinor, isCurrency } from './money.ts';

/** A mandate as it stands at the decision: its terms, its state and how often it was used. */
export interface MandateFacts extends MandateTerms {
  readonly status: MandateStatus;
  readonly uses: number;
}

/** What a month holds of a mandate's currency, in minor units, before the decision. */
export interface MonthFacts {
  readonly month: string;
  readonly reserved: number;
  readonly booked: number;
}

/** What was found out about a presentation before deciding (paths 1 and 2); times are Unix milliseconds. */
export interface PresentationFacts {
  readonly problem: string | null;
  readonly issued_at_ms: number;
  readonly expires_at_ms: number;
  readonly verifier: string;
  readonly ctx: string | null;
  readonly signer: string;
  readonly expected_signer: string | null;
  readonly nonce_spent: boolean;
}

/** The tool that a gateway request names, and what was read from the request by its mapping. */
export interface ToolFacts {
  readonly state: 'unmapped' | 'blocked' | 'mapped';
  readonly unreadable: string | null;
}

/** The states of an escalation (contract §6). */
export const ESCALATION_STATES = ['pending', 'approved', 'rejected', 'expired', 'used'] as const;
export type EscalationStatus = (typeof ESCALATION_STATES)[number];

/** The escalation that a presented token names. */
export interface GrantFacts {
  readonly escalation_id: string;
  readonly mandate_id: string;
  readonly ctx: string;
  readonly status: EscalationStatus;
  readonly closes_at_ms: number;
}

/** The latest escalation of the same mandate and ctx that still bears on decisions. */
export interface StandingFacts {
  readonly escalation_id: string;
  readonly status: EscalationStatus;
  readonly expires_at_ms: number;
  readonly closes_at_ms: number;
}

/** Everything that a decision depends on besides the request; read under the account's head lock. */
export interface DecisionFacts {
  readonly now_ms: number;
  readonly account_id: string;
  readonly mandate: MandateFacts | null;
  readonly month: MonthFacts;
  readonly presentation: PresentationFacts | null;
  readonly tool: ToolFacts | null;
  readonly grant: GrantFacts | null;
  readonly standing: StandingFacts | null;
  readonly undecidable: string | null;
}

/** The action as it was read; `currency` null (only with amount 0) means that no money is named. */
export interface ActionFacts {
  readonly type: string;
  readonly amount: number;
  readonly currency: string | null;
  readonly counterparty: string | null;
}

/** What is asked. `ctx` null: unsigned sandbox action or unmapped tool; `bindable` false: the body streams unread. */
export interface DecisionRequest {
  readonly action: ActionFacts | null;
  readonly ctx: string | null;
  readonly escalation_token_given: boolean;
  readonly bindable: boolean;
}

export interface Denial {
  readonly decision: 'deny';
  readonly code: DenialCode;
  readonly name: DenialName;
  readonly reason_text: string;
}

/** Allow: `amount` minor units are to be reserved, and `escalation_id` (if any) is used up. */
export interface Allowance {
  readonly decision: 'allow';
  readonly amount: number;
  readonly escalation_id: string | null;
}

/** Escalate: to the escalation that already stands for this ctx, or (null) to a new one. */
export interface Escalation {
  readonly decision: 'escalate';
  readonly standing: string | null;
}

export type Verdict = Allowance | Denial | Escalation;

/** Clock skew allowed on presentations, and their longest window, in milliseconds (contract §3). */
export const PRESENTATION_SKEW_MS = 30_000;
export const PRESENTATION_WINDOW_MS = 300_000;

interface Input {
  readonly facts: DecisionFacts;
  readonly request: DecisionRequest;
}

type Check = (input: Input) => string | null;

/**
 * Chooses allow, deny or escalate: the only place where that happens.
 *
 * Pure: no clock, randomness, environment or await; `facts.now_ms` is the database's time. A denial carries the first
 * failing check of contract §4's order. Source: contract §§4-7.
 */
export function decide(facts: DecisionFacts, request: DecisionRequest): Verdict {
  const input: Input = { facts, request };
  for (const [code, check] of CHECKS) {
    const reason = check(input);
    if (reason !== null) return { decision: 'deny', code, name: denialName(code), reason_text: reason };
  }
  const { action } = request;
  if (facts.mandate === null || action === null) throw new Error('a passed check let an impossible decision through');
  const granted = grantOf(input);
  if (aboveThreshold(input) && granted === null) {
    const { standing, now_ms } = facts;
    const open = standing !== null && (standing.status === 'pending' || standing.status === 'approved');
    return { decision: 'escalate', standing: open && now_ms < standing.closes_at_ms ? standing.escalation_id : null };
  }
  return { decision: 'allow', amount: action.amount, escalation_id: granted?.escalation_id ?? null };
}

// A grant counts only where its token was given; that it is valid has been checked by then.
function grantOf({ facts, request }: Input): GrantFacts | null {
  return request.escalation_token_given ? facts.grant : null;
}

const presentationInvalid: Check = ({ facts: { presentation } }) =>
  presentation === null ? null : presentation.problem;

const presentationExpired: Check = ({ facts: { presentation, now_ms } }) => {
  if (presentation === null) return null;
  const { issued_at_ms: from, expires_at_ms: to } = presentation;
  if (!(to > from)) return 'The presentation expires before it is issued.';
  if (to - from > PRESENTATION_WINDOW_MS) return 'The presentation is valid for more than 5 minutes.';
  if (!(now_ms >= from - PRESENTATION_SKEW_MS)) return 'The presentation is issued in the future.';
  if (!(now_ms < to + PRESENTATION_SKEW_MS)) return 'The presentation has expired.';
  return null;
};

const presentationWrongVerifier: Check = ({ facts: { presentation, account_id } }) =>
  presentation === null || presentation.verifier === account_id
    ? null
    : 'The presentation names another verifying organisation.';

const presentationContextMismatch: Check = ({ facts: { presentation }, request }) =>
  presentation === null || presentation.ctx === request.ctx ? null : 'The presentation was signed for another action.';

const presentationReplayed: Check = ({ facts: { presentation } }) =>
  presentation === null || presentation.nonce_spent === false
    ? null
    : 'The presentation has already been used for an allow.';

const mandateUnknown: Check = ({ facts }) =>
  facts.mandate === null ? 'There is no such mandate for this organisation.' : null;

const agentMismatch: Check = ({ facts: { presentation, mandate } }) => {
  if (presentation === null || mandate === null) return null;
  const agent = presentation.expected_signer;
  return agent !== null && presentation.signer === agent ? null : "The signer is not the mandate's agent.";
};

const mandateNotActive: Check = ({ facts: { mandate } }) => {
  if (mandate?.status === 'draft') return 'The mandate is a draft: its principal has not activated it.';
  return mandate?.status === 'suspended' ? 'The mandate is suspended.' : null;
};

const mandateEnded: Check = ({ facts: { mandate, now_ms } }) => {
  if (mandate === null) return null;
  switch (mandate.status) {
    case 'expired':
      return 'The mandate has expired.';
    case 'consumed':
      return 'The mandate is consumed: all its permitted uses were made.';
    case 'revoked':
      return 'The mandate was revoked.';
    case 'draft':
    case 'suspended':
    case 'active':
      break;
    default:
      return unknownState(mandate.status);
  }
  if (mandate.valid_until !== null && !(now_ms < Date.parse(mandate.valid_until))) return 'The mandate has expired.';
  if (mandate.max_uses !== null && mandate.uses >= mandate.max_uses) return 'All permitted uses were made.';
  return null;
};

function unknownState(status: never): string {
  return `The mandate is in a state that is not known: ${String(status)}.`;
}

const toolUnmapped: Check = ({ facts: { tool } }) => {
  if (tool === null || tool.state === 'mapped') return null;
  if (tool.state === 'blocked') return 'The tool is blocked by the principal.';
  return 'The tool is not mapped to an action type of the mandate yet; its principal can map it.';
};

const toolUnreadable: Check = ({ facts: { tool } }) => (tool === null ? null : tool.unreadable);

const actionTypeNotCovered: Check = ({ facts: { mandate }, request: { action } }) => {
  if (action === null) return 'The request names no action.';
  return mandate !== null && scopeCovers(mandate.scope, action.type)
    ? null
    : `The mandate's scope does not cover the action type ${action.type}.`;
};

const currencyMismatch: Check = ({ facts: { mandate }, request: { action } }) => {
  if (mandate === null || action === null || action.currency === mandate.currency) return null;
  if (action.currency === null && action.amount === 0) return null;
  return `The action is in ${action.currency ?? 'no currency'}, the mandate in ${mandate.currency}.`;
};

const counterpartyNotAllowed: Check = ({ facts: { mandate }, request: { action } }) => {
  if (mandate === null || action === null || mandate.counterparties.length === 0) return null;
  if (action.counterparty === null) return 'The mandate lists its counterparties and the action names none.';
  return mandate.counterparties.includes(action.counterparty) ? null : "The counterparty is not on the mandate's list.";
};

// Amounts that are no amounts compare with nothing: the two limits pass them on to `notDecidable`, which refuses them.
const amountAboveActionLimit: Check = (input) => {
  const { mandate } = input.facts;
  const { action } = input.request;
  if (mandate === null || action === null || unsound(input)) return null;
  if (action.amount <= mandate.per_action) return null;
  const over = formatMinor(action.amount - mandate.per_action, mandate.currency);
  const limit = formatMinor(mandate.per_action, mandate.currency);
  const asked = formatMinor(action.amount, mandate.currency);
  return `${asked} ${mandate.currency} is ${over} above the limit of ${limit} per action.`;
};

const amountAboveMonthLimit: Check = (input) => {
  const { mandate, month } = input.facts;
  const { action } = input.request;
  if (mandate === null || action === null || unsound(input)) return null;
  const left = mandate.per_month - month.booked - month.reserved;
  if (action.amount <= left) return null;
  const unit = mandate.currency;
  const limit = formatMinor(mandate.per_month, unit);
  if (left < 0) return `The month is already ${formatMinor(-left, unit)} ${unit} above its limit of ${limit}.`;
  const [asked, over] = [formatMinor(action.amount, unit), formatMinor(action.amount - left, unit)];
  const rest = formatMinor(left, unit);
  return `${asked} ${unit} is ${over} more than the ${rest} left of the limit of ${limit} per month.`;
};

const escalationNotGranted: Check = (input) => {
  const { facts, request } = input;
  const standing = facts.standing;
  if (standing === null || request.escalation_token_given || !aboveThreshold(input)) return null;
  if (!(facts.now_ms < standing.closes_at_ms)) return null;
  if (standing.status === 'rejected') return 'The escalation for this action was rejected.';
  const late = standing.status === 'pending' && !(facts.now_ms < standing.expires_at_ms);
  return standing.status === 'expired' || late ? 'Nobody approved the escalation for this action in time.' : null;
};

const escalationTokenInvalid: Check = ({ facts, request }) => {
  if (!request.escalation_token_given) return null;
  const { grant, mandate } = facts;
  if (grant === null) return 'The escalation token is not known.';
  if (grant.status === 'used') return 'The escalation token has already been used.';
  if (grant.status !== 'approved' || !(facts.now_ms < grant.closes_at_ms)) return 'The approval is no longer valid.';
  if (grant.mandate_id !== mandate?.mandate_id) return 'The escalation token was granted for another mandate.';
  return grant.ctx === request.ctx && request.ctx !== null
    ? null
    : 'The escalation token was granted for another action.';
};

const notDecidable: Check = (input) => {
  if (input.facts.undecidable !== null) return input.facts.undecidable;
  if (unsound(input)) return 'A number or state that the decision depends on is not one that it can be made on.';
  if (aboveThreshold(input) && grantOf(input) === null && !input.request.bindable) {
    return 'The action needs an approval, and a request whose body is streamed cannot be bound to one.';
  }
  return null;
};

function aboveThreshold({ facts: { mandate }, request: { action } }: Input): boolean {
  if (mandate === null || action === null || mandate.escalation_threshold === null) return false;
  // Written so that a value that compares with nothing counts as above.
  return !(action.amount <= mandate.escalation_threshold);
}

// Whether a value is one that the types allow and the arithmetic of the checks cannot carry; the database and the
// parsers refuse all of them earlier, and nothing is decided on one that got through.
function unsound({ facts: { now_ms, mandate, month, grant, standing }, request: { action } }: Input): boolean {
  if (mandate === null || action === null) return false;
  const { escalation_threshold: threshold, max_uses: maxUses } = mandate;
  if (!isCurrency(mandate.currency)) return true;
  const amounts = [action.amount, mandate.per_action, mandate.per_month, month.reserved, month.booked];
  if (threshold !== null) amounts.push(threshold);
  const counts = maxUses === null ? [now_ms] : [now_ms, mandate.uses, maxUses];
  if (grant !== null) counts.push(grant.closes_at_ms);
  if (!amounts.every((amount) => isCount(amount) && amount <= MONEY_MINOR_MAX)) return true;
  return !counts.every(isCount) || (standing !== null && !ESCALATION_STATES.includes(standing.status));
}

function isCount(value: number): boolean {
  return Number.isSafeInteger(value) && value >= 0;
}

const CHECK_OF: Record<DenialCode, Check> = {
  'MD-101': presentationInvalid,
  'MD-102': presentationExpired,
  'MD-103': presentationWrongVerifier,
  'MD-104': presentationContextMismatch,
  'MD-105': presentationReplayed,
  'MD-201': mandateUnknown,
  'MD-202': agentMismatch,
  'MD-203': mandateNotActive,
  'MD-204': mandateEnded,
  'MD-501': toolUnmapped,
  'MD-502': toolUnreadable,
  'MD-301': actionTypeNotCovered,
  'MD-305': currencyMismatch,
  'MD-304': counterpartyNotAllowed,
  'MD-302': amountAboveActionLimit,
  'MD-303': amountAboveMonthLimit,
  'MD-401': escalationNotGranted,
  'MD-402': escalationTokenInvalid,
  'MD-503': notDecidable,
};

const CHECKS: readonly (readonly [DenialCode, Check])[] = DENIAL_CODES.map(([code]) => [code, CHECK_OF[code]]);
