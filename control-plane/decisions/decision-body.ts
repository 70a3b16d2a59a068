import type { DecisionFacts, DecisionRequest, Verdict } from '../../core/decide.ts';
import { DENIAL_CODE_VERSION } from '../../core/denial-codes.ts';
import type { GatewayAsk, VerifyAsk } from '../../core/wire.ts';

/** What every decision's evidence is made from; `mandateDigest` is empty where there is no such mandate. */
export interface DecisionParts {
  readonly facts: DecisionFacts;
  readonly request: DecisionRequest;
  readonly verdict: Verdict;
  readonly mandateDigest: string;
  readonly escalation: { readonly id: string; readonly expires_at: string } | null;
  readonly decidedBy: string | null;
}

/** What a gateway decision's evidence says besides. */
export interface DecisionRecord extends DecisionParts {
  readonly instanceId: string;
  readonly tool: { readonly id: string; readonly key: string; readonly version: number };
  readonly ask: GatewayAsk;
}

/**
 * The JCS text of a gateway decision's evidence body: every fact that `decide` was given, so that a stranger can run it
 * again, and digests in place of the request's body. A member that would be null or false is left out.
 *
 * Written out in JCS order instead of canonicalising an object, because it runs once a request (a test holds it to
 * `canonicalize`). Source: contract §10, RFC 8785.
 */
export function gatewayDecisionBody(record: DecisionRecord): string {
  const { facts, request, verdict, ask } = record;
  const denied = verdict.decision === 'deny' ? verdict : null;
  // `action` is always there, so that every other member follows a comma.
  return (
    `{"action":${actionText(request.action)}${text('code', denied?.code)}${text('ctx', request.ctx)}` +
    `,"decision":"${verdict.decision}","denial_code_version":${DENIAL_CODE_VERSION}` +
    `${escalationText(record)}${grantText(record)}${text('idempotency_key', ask.idempotency_key_hash)}` +
    `,"instance":"${record.instanceId}"${mandateText(record)}` +
    `,"month":${monthText(facts)}` +
    `,"path":"gateway"${text('reason_text', denied?.reason_text)}` +
    `,"request":{"bindable":${request.bindable}${text('body_sha256', ask.request.body_sha256)}` +
    `${text('method', ask.request.method)}${text('path', ask.request.path)}${text('query', ask.request.query)}` +
    `${request.escalation_token_given ? ',"token_given":true' : ''}}` +
    `${standingText(facts)}${toolText(record)}${text('undecidable', facts.undecidable)}}`
  );
}

/** What a verification's evidence says besides facts, request and verdict. */
export interface VerificationRecord extends DecisionParts {
  readonly keyId: string;
  readonly ask: VerifyAsk;
  readonly sandbox: boolean;
}

/** The JCS text of a verification's evidence body: as {@link gatewayDecisionBody}, with the presentation as signed. */
export function verificationBody(record: VerificationRecord): string {
  const { facts, request, verdict, ask } = record;
  const denied = verdict.decision === 'deny' ? verdict : null;
  const month = facts.mandate === null ? '' : `,"month":${monthText(facts)}`;
  return (
    `{"action":${actionText(request.action)}${text('code', denied?.code)}${text('ctx', request.ctx)}` +
    `,"decision":"${verdict.decision}","denial_code_version":${DENIAL_CODE_VERSION}` +
    `${escalationText(record)}${grantText(record)}${text('idempotency_key', ask.idempotency_key_hash)}` +
    `,"key":"${record.keyId}"${mandateText(record)}${month},"path":"verify"` +
    `,"presentation":${presentationText(record)}` +
    `${text('reason_text', denied?.reason_text)},"request_sha256":"${ask.request_digest}"` +
    `${record.sandbox ? ',"sandbox":true' : ''}${standingText(facts)}` +
    `${request.escalation_token_given ? ',"token_given":true' : ''}${text('undecidable', facts.undecidable)}}`
  );
}

function presentationText({ facts: { presentation }, ask }: VerificationRecord): string {
  const { document } = ask.presentation ?? {};
  const members = [
    document === undefined ? '' : `,"document":${document}`,
    text('expected_signer', presentation?.expected_signer),
    presentation?.nonce_spent ? ',"nonce_spent":true' : '',
    text('problem', presentation?.problem),
  ];
  return `{${members.join('').slice(1)}}`;
}

function monthText({ month }: DecisionFacts): string {
  return `{"booked":${month.booked},"month":"${month.month}","reserved":${month.reserved}}`;
}

/** A member with the comma before it; nothing where there is no value. */
function text(name: string, value: string | null | undefined): string {
  return value === null || value === undefined ? '' : `,"${name}":${JSON.stringify(value)}`;
}

function actionText(action: DecisionRequest['action']): string {
  if (action === null) return 'null';
  return (
    `{"amount":${action.amount}${text('counterparty', action.counterparty)}` +
    `${text('currency', action.currency)}${text('type', action.type)}}`
  );
}

function escalationText({ escalation }: DecisionParts): string {
  if (escalation === null) return '';
  return `,"escalation":{"expires_at":${JSON.stringify(escalation.expires_at)}${text('id', escalation.id)}}`;
}

function grantText({ facts: { grant }, decidedBy }: DecisionParts): string {
  if (grant === null) return '';
  return (
    `,"grant":{"closes_at_ms":${grant.closes_at_ms}${text('ctx', grant.ctx)}${text('decided_by', decidedBy)}` +
    `${text('escalation_id', grant.escalation_id)}${text('mandate_id', grant.mandate_id)}` +
    `,"status":"${grant.status}"}`
  );
}

function mandateText({ facts: { mandate }, mandateDigest }: DecisionParts): string {
  if (mandate === null) return '';
  return (
    `,"mandate":{"digest":"${mandateDigest}","id":"${mandate.mandate_id}","status":"${mandate.status}",` +
    `"uses":${mandate.uses},"version":${mandate.version}}`
  );
}

function standingText({ standing }: DecisionFacts): string {
  if (standing === null) return '';
  return (
    `,"standing":{"closes_at_ms":${standing.closes_at_ms}${text('escalation_id', standing.escalation_id)}` +
    `,"expires_at_ms":${standing.expires_at_ms},"status":"${standing.status}"}`
  );
}

function toolText({ facts, tool }: DecisionRecord): string {
  if (facts.tool === null) return '';
  return (
    `,"tool":{"id":"${tool.id}"${text('key', tool.key)},"state":"${facts.tool.state}"` +
    `${text('unreadable', facts.tool.unreadable)},"version":${tool.version}}`
  );
}
