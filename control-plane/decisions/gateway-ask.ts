import { hash } from 'node:crypto';
import { contextDigest } from '../../core/action.ts';
import {
  type ActionFacts,
  type DecisionFacts,
  type DecisionRequest,
  decide,
  type GrantFacts,
  type StandingFacts,
  type Verdict,
} from '../../core/decide.ts';
import type { ProblemCode } from '../../core/errors.ts';
import type { MandateStatus } from '../../core/mandate.ts';
import { sameHash } from '../../core/secret-token.ts';
import { candidateKeys, type Shape } from '../../core/tool-name.ts';
import { newTypeId } from '../../core/type-id.ts';
import type { GatewayAnswer, GatewayAsk, RateState } from '../../core/wire.ts';
import type { BucketState, TokenBuckets } from '../rate-limit/buckets.ts';
import {
  type AccountFacts,
  answerKey,
  type DecisionMetrics,
  type HeadState,
  type InstanceState,
  type ToolState,
  toolKey,
} from './account-facts.ts';
import { gatewayDecisionBody } from './decision-body.ts';
import { recordEscalation } from './escalate.ts';
import type { AskItem } from './items.ts';
import type { Recording } from './record.ts';
import type { MandateVersion, ToolVersion, VersionCache } from './versions.ts';

/** Most escalations that may be pending on a mandate (contract §6). */
export const PENDING_ESCALATIONS_MAX = 20;
/** Most unmapped tools an instance may collect (contract §7). */
export const UNMAPPED_TOOLS_MAX = 500;

/** What asks are decided with; one object an account and batch. */
export interface AskContext {
  readonly facts: AccountFacts;
  readonly recording: Recording;
  readonly versions: VersionCache;
  readonly buckets: TokenBuckets;
  readonly metrics: DecisionMetrics;
  readonly monotonicMs: number;
}

/**
 * Answers one gateway request under its account's lock: mapping, rate, idempotency, then `decide`, then what follows
 * from the verdict. Nothing is recorded unless a verdict was reached. Source: contract §§4, 6, 7.
 */
export function answerGatewayAsk(context: AskContext, item: AskItem): GatewayAnswer {
  const { facts } = context;
  const { instanceId, ask } = item;
  const instance = facts.instances.get(instanceId);
  if (instance === undefined || !sameHash(instance.tokenHash, ask.token_hash)) return UNAUTHENTICATED;

  const tool = resolveTool(facts, instance, ask.name);
  const version = tool?.state === 'mapped' ? context.versions.tool(tool) : null;
  if (tool !== null && version !== null && !readByThis(ask, tool)) return mappingAnswer(tool, version, instance);

  const bucket = takeOnce(context, item, instance);
  const rate: RateState = [bucket.limit, bucket.remaining, bucket.resetSeconds];
  if (!bucket.allowed) {
    return problem('rate_limited', 'The rate of this gateway token is exceeded.', rate, null, bucket.retryAfterSeconds);
  }
  if (instance.status !== 'active') return problem('forbidden', 'This gateway instance is disabled.', rate);
  // The digest is only ever compared with that of another request under the same key.
  const digest = ask.idempotency_key_hash === null ? '' : requestDigest(ask);
  const earlier = earlierAnswer(facts, instanceId, ask, digest, rate);
  if (earlier !== null) return earlier;
  return decided(context, { head: facts.head, instance, tool, version, ask, rate, digest });
}

function takeOnce(context: AskContext, item: AskItem, { ratePerSecond, rateBurst }: InstanceState): BucketState {
  if (item.bucket !== undefined) return item.bucket;
  const bucket = context.buckets.take(item.ask.token_hash, ratePerSecond, rateBurst, context.monotonicMs);
  if (!bucket.allowed) context.metrics.rateLimited('verify');
  item.bucket = bucket;
  return bucket;
}

/** The answer to a token that is not one (any more). */
export const UNAUTHENTICATED: GatewayAnswer = problem('unauthenticated', 'The gateway token is not valid.', null);

interface Case {
  readonly head: HeadState;
  readonly instance: InstanceState;
  readonly tool: ToolState | null;
  readonly version: ToolVersion | null;
  readonly ask: GatewayAsk;
  readonly rate: RateState;
  readonly digest: string;
}

function decided(context: AskContext, given: Case): GatewayAnswer {
  const { head, instance, ask, rate } = given;
  const mandate = context.versions.mandate(instance.mandate);
  const request = decisionRequest(given, mandate);
  const facts = decisionFacts(context, given, mandate, request);
  const verdict = decide(facts, request);
  if (
    verdict.decision === 'escalate' &&
    verdict.standing === null &&
    pendingOn(context.facts, instance) >= PENDING_ESCALATIONS_MAX
  ) {
    const detail = `${PENDING_ESCALATIONS_MAX} escalations of this mandate wait for an answer; answer those first.`;
    return problem('too_many_escalations', detail, rate, null, 60);
  }
  const tool = given.tool ?? discoverTool(context, given);
  const receiptId = newTypeId('rcp', head.nowMs);
  const escalation =
    verdict.decision === 'escalate'
      ? recordEscalation(context, { head, instance, ask, request, receiptId, standing: verdict.standing })
      : null;
  const grant = grantOf(context.facts, ask);
  const body = gatewayDecisionBody({
    facts,
    request,
    verdict,
    instanceId: instance.instanceId,
    mandateDigest: mandate.digest,
    tool: { id: tool.toolId, key: tool.key, version: tool.version },
    ask,
    escalation: escalation === null ? null : { id: escalation.id, expires_at: escalation.expires_at },
    decidedBy: grant?.decidedBy ?? null,
  });
  context.recording.append(head, 'decision', receiptId, body);
  context.recording.verdicts.push([verdict.decision, verdict.decision === 'deny' ? verdict.code : 'none']);
  if (escalation !== null) {
    return {
      answer: 'escalate',
      receipt_id: receiptId,
      account_id: head.accountId,
      escalation_id: escalation.id,
      expires_at: escalation.expires_at,
      created: escalation.created,
      rate,
    };
  }
  return settleVerdict(context, given, verdict, receiptId);
}

function settleVerdict(context: AskContext, given: Case, verdict: Verdict, receiptId: string): GatewayAnswer {
  const { head, instance, ask, rate } = given;
  switch (verdict.decision) {
    case 'deny':
      return {
        answer: 'deny',
        receipt_id: receiptId,
        code: verdict.code,
        reason_text: verdict.reason_text,
        rate,
      };
    case 'allow': {
      reserve(context, given, verdict.amount, receiptId);
      if (verdict.escalation_id !== null) useGrant(context, head, ask, verdict.escalation_id);
      const target = context.versions.target(instance);
      if (target === null || target.config === null) throw new Error('allowed without a target');
      return {
        answer: 'allow',
        receipt_id: receiptId,
        account_id: head.accountId,
        instance_id: instance.instanceId,
        target: ask.config_version === instance.configVersion ? null : target.config,
        rate,
      };
    }
    default:
      throw new Error(`a verdict that is not known: ${verdict.decision}`);
  }
}

function reserve(context: AskContext, given: Case, amount: number, receiptId: string): void {
  const { head, instance, ask } = given;
  const { mandate, month } = instance;
  const hold = {
    accountId: head.accountId,
    receiptId,
    mandateId: mandate.mandateId,
    month: month.month,
    subjectId: instance.instanceId,
    amount,
    keyHash: ask.idempotency_key_hash,
  };
  context.recording.month(hold, month, { reserved: amount, booked: 0, allows: 1 });
  context.recording.hold(hold);
  context.facts.reservations.set(receiptId, { ...hold, state: 'reserved' });
  month.reserved += amount;
  countUse(context, head, instance);
  if (hold.keyHash !== null) keepKey(context, given, receiptId, hold.keyHash);
}

function countUse(context: AskContext, head: HeadState, { mandate }: InstanceState): void {
  const max = context.versions.mandate(mandate).terms.max_uses;
  if (max === null) return;
  mandate.uses += 1;
  if (mandate.uses >= max) {
    mandate.status = 'consumed';
    const body = `{"mandate_id":"${mandate.mandateId}","uses":${mandate.uses},"version":${mandate.version}}`;
    context.recording.append(head, 'mandate.consumed', newTypeId('evt', head.nowMs), body);
  }
  context.recording.change(
    'update mandates set uses = $3, status = $4, changed_at = ms_time($5) where account_id = $1 and mandate_id = $2',
    [head.accountId, mandate.mandateId, String(mandate.uses), mandate.status, String(head.nowMs)],
  );
}

function keepKey(context: AskContext, given: Case, receiptId: string, keyHash: string): void {
  const { head, instance, digest } = given;
  context.facts.answers.set(answerKey(instance.instanceId, keyHash), {
    requestDigest: digest,
    receiptId,
    state: 'in_flight',
    status: null,
    headers: [],
    body: null,
  });
  context.recording.statement(
    `insert into idempotency_answers (account_id, subject_id, key_hash, request_digest, receipt_id, state, created_at,
       expires_at) values ($1, $2, decode($3, 'hex'), decode($4, 'hex'), $5, 'in_flight', ms_time($6),
       ms_time($6) + interval '24 hours')
     on conflict (account_id, subject_id, key_hash) do update set request_digest = excluded.request_digest,
       receipt_id = excluded.receipt_id, state = 'in_flight', status = null, headers = null, body = null,
       created_at = excluded.created_at, expires_at = excluded.expires_at
       where idempotency_answers.expires_at <= excluded.created_at`,
    [head.accountId, instance.instanceId, keyHash, digest, receiptId, String(head.nowMs)],
  );
}

function useGrant(context: AskContext, head: HeadState, ask: GatewayAsk, escalationId: string): void {
  const grant = grantOf(context.facts, ask);
  if (grant === undefined || grant.escalationId !== escalationId)
    throw new Error('an allow used a grant it was not given');
  grant.status = 'used';
  const standing = context.facts.escalations.find((known) => known.escalationId === escalationId);
  if (standing !== undefined) standing.status = 'used';
  context.recording.change(
    `update escalations set status = 'used', used_at = ms_time($3), closes_at = ms_time($3), request_body = null
     where account_id = $1 and escalation_id = $2 and status = 'approved'`,
    [head.accountId, escalationId, String(head.nowMs)],
  );
}

function grantOf(facts: AccountFacts, ask: GatewayAsk) {
  return ask.escalation_token_hash === null ? undefined : facts.grants.get(ask.escalation_token_hash);
}

/** The tool of a name: a configured exact name, else the most specific template, else what was discovered. */
export function resolveTool(state: AccountFacts, instance: InstanceState, name: string): ToolState | null {
  for (const key of candidateKeys(name, instance.shapes as readonly Shape[])) {
    const tool = state.tools.get(toolKey(instance.instanceId, key));
    if (tool && tool.state !== 'unmapped') return tool;
  }
  return state.tools.get(toolKey(instance.instanceId, name)) ?? null;
}

function readByThis(ask: GatewayAsk, tool: ToolState): boolean {
  return ask.tool !== null && ask.reading !== null && ask.tool.id === tool.toolId && ask.tool.version === tool.version;
}

function mappingAnswer(tool: ToolState, version: ToolVersion, instance: InstanceState): GatewayAnswer {
  return {
    answer: 'mapping',
    tool: {
      id: tool.toolId,
      version: tool.version,
      key: tool.key,
      pattern: version.pattern,
      mapping: version.mapping,
      shapes: [...instance.shapes],
    },
  };
}

/** The digest that tells whether a repeat under one idempotency key is the same request, in hex. */
function requestDigest({ request }: GatewayAsk): string {
  return hash('sha256', JSON.stringify([request.method, request.path, request.query, request.body_sha256]), 'hex');
}

function earlierAnswer(
  state: AccountFacts,
  instanceId: string,
  ask: GatewayAsk,
  digest: string,
  rate: RateState,
): GatewayAnswer | null {
  if (ask.idempotency_key_hash === null) return null;
  const known = state.answers.get(answerKey(instanceId, ask.idempotency_key_hash));
  if (known === undefined) return null;
  const receipt = known.receiptId;
  if (!sameHash(known.requestDigest, digest)) {
    return problem('idempotency_mismatch', 'Another request was sent under this Idempotency-Key.', rate, receipt);
  }
  switch (known.state) {
    case 'in_flight':
      return problem(
        'idempotency_in_flight',
        'The first request is still in flight; ask again later.',
        rate,
        receipt,
        1,
      );
    case 'unknown':
      return problem('outcome_unknown', 'What became of the first request is not known.', rate, receipt);
    case 'answered':
      break;
    default:
      throw new Error(`an idempotency state that is not known: ${String(known.state satisfies never)}`);
  }
  if (known.status === null || known.body === null) {
    return problem('idempotency_answer_too_large', 'The first answer was too large to keep.', rate, receipt);
  }
  const headers = known.headers.map(([name, value]): [string, string] => [name, value]);
  return { answer: 'replay', receipt_id: receipt, stored: { status: known.status, headers, body: known.body }, rate };
}

function decisionRequest({ ask, version }: Case, mandate: MandateVersion): DecisionRequest {
  const token = ask.escalation_token_hash !== null;
  const reading = ask.reading;
  if (version === null || reading === null || !reading.ok) {
    return { action: null, ctx: null, escalation_token_given: token, bindable: ask.bindable };
  }
  const action: ActionFacts = {
    type: version.mapping.action_type,
    amount: reading.amount_minor,
    currency: reading.currency,
    counterparty: reading.counterparty,
  };
  const ctx = contextDigest({
    type: action.type,
    amount_minor: action.amount,
    currency: action.currency ?? mandate.terms.currency,
    counterparty: action.counterparty,
    request: ask.request,
  });
  return { action, ctx, escalation_token_given: token, bindable: ask.bindable };
}

function decisionFacts(
  context: AskContext,
  { head, instance, tool, ask }: Case,
  mandate: MandateVersion,
  request: DecisionRequest,
): DecisionFacts {
  const { reading } = ask;
  const target = context.versions.target(instance);
  return {
    now_ms: head.nowMs,
    account_id: head.accountId,
    mandate: {
      ...mandate.terms,
      status: instance.mandate.status as MandateStatus,
      uses: instance.mandate.uses,
    },
    month: { month: instance.month.month, reserved: instance.month.reserved, booked: instance.month.booked },
    presentation: null,
    tool: {
      state: tool?.state ?? 'unmapped',
      unreadable: reading !== null && !reading.ok ? `${reading.field}: ${reading.message}` : null,
    },
    grant: grantFacts(context.facts, instance, ask),
    standing: standingFacts(context.facts, instance, request.ctx),
    undecidable: target?.config === null ? "The target's stored credential cannot be opened." : null,
  };
}

function grantFacts(state: AccountFacts, instance: InstanceState, ask: GatewayAsk): GrantFacts | null {
  const grant = grantOf(state, ask);
  if (grant === undefined) return null;
  return {
    escalation_id: grant.escalationId,
    mandate_id: grant.mandateId,
    // An approval speaks of one instance's target: at another instance it was granted for another action.
    ctx: grant.subjectId === instance.instanceId ? grant.ctx : '',
    status: grant.status,
    closes_at_ms: grant.closesAtMs,
  };
}

function standingFacts(state: AccountFacts, instance: InstanceState, ctx: string | null): StandingFacts | null {
  if (ctx === null) return null;
  let latest: StandingFacts | null = null;
  for (const known of state.escalations) {
    if (known.ctx !== ctx || known.subjectId !== instance.instanceId || known.status === 'used') continue;
    if (known.mandateId !== instance.mandate.mandateId) continue;
    latest = {
      escalation_id: known.escalationId,
      status: known.status,
      expires_at_ms: known.expiresAtMs,
      closes_at_ms: known.closesAtMs,
    };
  }
  return latest;
}

function pendingOn(state: AccountFacts, instance: InstanceState): number {
  let pending = 0;
  for (const known of state.escalations) {
    if (known.status === 'pending' && known.mandateId === instance.mandate.mandateId) pending += 1;
  }
  return pending;
}

function discoverTool(context: AskContext, { head, instance, ask }: Case): ToolState {
  const toolId = newTypeId('tol', head.nowMs);
  const tool: ToolState = {
    accountId: head.accountId,
    instanceId: instance.instanceId,
    key: ask.name,
    toolId,
    state: 'unmapped',
    version: 1,
  };
  if (instance.unmappedTools >= UNMAPPED_TOOLS_MAX) return { ...tool, toolId: 'none', version: 0 };
  instance.unmappedTools += 1;
  context.facts.tools.set(toolKey(instance.instanceId, ask.name), tool);
  context.recording.change(
    `insert into tools (account_id, instance_id, key, tool_id, pattern, state, created_at, changed_at)
     values ($1, $2, $3, $4, $3, 'unmapped', ms_time($5), ms_time($5))`,
    [head.accountId, instance.instanceId, ask.name, toolId, String(head.nowMs)],
  );
  context.recording.change(
    'update gateway_instances set unmapped_tools = $3 where account_id = $1 and instance_id = $2',
    [head.accountId, instance.instanceId, String(instance.unmappedTools)],
  );
  const body = `{"instance":"${instance.instanceId}","name":${JSON.stringify(ask.name)},"tool_id":"${toolId}"}`;
  context.recording.append(head, 'tool.discovered', newTypeId('evt', head.nowMs), body);
  return tool;
}

function problem(
  error: ProblemCode,
  detail: string,
  rate: RateState | null,
  receiptId: string | null = null,
  retryAfterSeconds: number | null = null,
): GatewayAnswer {
  return { answer: 'problem', error, detail, receipt_id: receiptId, retry_after_s: retryAfterSeconds, rate };
}
