import type { DecisionFacts, DecisionRequest, Verdict } from '../../core/decide.ts';
import { DENIAL_CODE_VERSION } from '../../core/denial-codes.ts';
import type { GatewayAsk } from '../../core/wire.ts';

/** What a decision's evidence says besides facts, request and verdict. */
export interface DecisionRecord {
  readonly facts: DecisionFacts;
  readonly request: DecisionRequest;
  readonly verdict: Verdict;
  readonly instanceId: string;
  readonly mandateDigest: string;
  readonly tool: { readonly id: string; readonly key: string; readonly version: number };
  readonly ask: GatewayAsk;
  readonly escalation: { readonly id: string; readonly expires_at: string } | null;
  readonly decidedBy: string | null;
}

/**
 * The JCS text of a gateway decision's evidence body: every fact that `decide` was given, so that a stranger can run it
 * again, and digests in place of the request's body.
 *
 * Written out in JCS order instead of canonicalising an object, because it runs once a request (a test holds it to
 * `canonicalize`). Source: contract §10, RFC 8785.
 */
export function gatewayDecisionBody(record: DecisionRecord): string {
  const { facts, request, verdict, ask } = record;
  const denied = verdict.decision === 'deny';
  return (
    `{"action":${actionText(request.action)},"code":${denied ? `"${verdict.code}"` : 'null'},` +
    `"ctx":${text(request.ctx)},"decision":"${verdict.decision}","denial_code_version":${DENIAL_CODE_VERSION},` +
    `"escalation":${escalationText(record)},"grant":${grantText(record)},` +
    `"idempotency_key":${text(ask.idempotency_key_hash)},"instance":"${record.instanceId}",` +
    `"mandate":${mandateText(record)},` +
    `"month":{"booked":${facts.month.booked},"month":"${facts.month.month}","reserved":${facts.month.reserved}},` +
    `"path":"gateway","reason_text":${denied ? text(verdict.reason_text) : 'null'},` +
    `"request":{"bindable":${request.bindable},"body_sha256":${text(ask.request.body_sha256)},` +
    `"method":${text(ask.request.method)},"path":${text(ask.request.path)},"query":${text(ask.request.query)},` +
    `"token_given":${request.escalation_token_given}},` +
    `"standing":${standingText(facts)},"tool":${toolText(record)},"undecidable":${text(facts.undecidable)}}`
  );
}

function text(value: string | null): string {
  return JSON.stringify(value);
}

function actionText(action: DecisionRequest['action']): string {
  if (action === null) return 'null';
  return (
    `{"amount":${action.amount},"counterparty":${text(action.counterparty)},` +
    `"currency":${text(action.currency)},"type":${text(action.type)}}`
  );
}

function escalationText({ escalation }: DecisionRecord): string {
  return escalation === null ? 'null' : `{"expires_at":${text(escalation.expires_at)},"id":${text(escalation.id)}}`;
}

function grantText({ facts: { grant }, decidedBy }: DecisionRecord): string {
  if (grant === null) return 'null';
  return (
    `{"closes_at_ms":${grant.closes_at_ms},"ctx":${text(grant.ctx)},"decided_by":${text(decidedBy)},` +
    `"escalation_id":${text(grant.escalation_id)},"mandate_id":${text(grant.mandate_id)},` +
    `"status":"${grant.status}"}`
  );
}

function mandateText({ facts: { mandate }, mandateDigest }: DecisionRecord): string {
  if (mandate === null) return 'null';
  return (
    `{"digest":"${mandateDigest}","id":"${mandate.mandate_id}","status":"${mandate.status}",` +
    `"uses":${mandate.uses},"version":${mandate.version}}`
  );
}

function standingText({ standing }: DecisionFacts): string {
  if (standing === null) return 'null';
  return (
    `{"closes_at_ms":${standing.closes_at_ms},"escalation_id":${text(standing.escalation_id)},` +
    `"expires_at_ms":${standing.expires_at_ms},"status":"${standing.status}"}`
  );
}

function toolText({ facts, tool }: DecisionRecord): string {
  if (facts.tool === null) return 'null';
  return (
    `{"id":"${tool.id}","key":${text(tool.key)},"state":"${facts.tool.state}",` +
    `"unreadable":${text(facts.tool.unreadable)},"version":${tool.version}}`
  );
}
