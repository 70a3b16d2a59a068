import { hash } from 'node:crypto';
import { contextDigest } from '../../core/action.ts';
import { type ActionFacts, type DecisionFacts, type DecisionRequest, decide, type Verdict } from '../../core/decide.ts';
import type { MandateStatus } from '../../core/mandate.ts';
import { sameHash } from '../../core/secret-token.ts';
import { candidateKeys, type Shape } from '../../core/tool-name.ts';
import { newTypeId } from '../../core/type-id.ts';
import type { GatewayAnswer, GatewayAsk, RateState } from '../../core/wire.ts';
import { type AccountFacts, type HeadState, type InstanceState, type ToolState, toolKey } from './account-facts.ts';
import { type AskContext, countUse, type Owed, problem, takeOnce, tooManyEscalations } from './ask.ts';
import { gatewayDecisionBody } from './decision-body.ts';
import { escalationsFull, grantFacts, recordEscalation, standingFacts, useGrant } from './escalate.ts';
import { earlierAnswer, type KeyedRequest, keepKey } from './idempotency.ts';
import type { AskItem } from './items.ts';
import type { MandateVersion, ToolVersion } from './versions.ts';

/** Most unmapped tools an instance may collect (contract §7). */
export const UNMAPPED_TOOLS_MAX = 500;

/**
 * Answers one gateway request under its account's lock: mapping, rate, idempotency, then `decide`, then what follows
 * from the verdict. Nothing is recorded unless a verdict was reached. Source: contract §§4, 6, 7.
 */
export function answerGatewayAsk(context: AskContext, item: AskItem): GatewayAnswer | Owed {
  const { facts } = context;
  const { instanceId, ask } = item;
  const instance = facts.instances.get(instanceId);
  if (instance === undefined || !sameHash(instance.tokenHash, ask.token_hash)) return UNAUTHENTICATED;

  const tool = resolveTool(facts, instance, ask.name);
  const version = tool?.state === 'mapped' ? context.versions.tool(tool) : null;
  if (tool !== null && version !== null && !readByThis(ask, tool)) return mappingAnswer(tool, version, instance);

  const bucket = takeOnce(context, item, instance);
  if ('answer' in bucket) return bucket;
  const rate: RateState = [bucket.limit, bucket.remaining, bucket.resetSeconds];
  if (!bucket.allowed) {
    return problem('rate_limited', 'The rate of this gateway token is exceeded.', rate, null, bucket.retryAfterSeconds);
  }
  if (instance.status !== 'active') return problem('forbidden', 'This gateway instance is disabled.', rate);
  const keyed = keyedRequest({ instance, ask });
  const earlier = keyed === null ? null : earlierAnswer(facts, keyed, rate);
  if (earlier !== null) return earlier;
  return decided(context, { head: facts.head, instance, tool, version, ask, rate });
}

/** The answer to a token that is not one (any more). */
export const UNAUTHENTICATED: GatewayAnswer = problem('unauthenticated', 'The gateway token is not valid.', null);

/** One request with what its account's facts say of it; `version` null: no mapping to read it by. */
export interface GatewayCase {
  readonly head: HeadState;
  readonly instance: InstanceState;
  readonly tool: ToolState | null;
  readonly version: ToolVersion | null;
  readonly ask: GatewayAsk;
  readonly rate: RateState;
}

/** What `decide` says of a request and was told for it; changes and records nothing. */
export function judge(context: Pick<AskContext, 'facts' | 'versions'>, given: GatewayCase) {
  const mandate = context.versions.mandate(given.instance.mandate);
  const request = decisionRequest(given, mandate);
  const facts = decisionFacts(context, given, mandate, request);
  return { mandate, request, facts, verdict: decide(facts, request) };
}

function decided(context: AskContext, given: GatewayCase): GatewayAnswer {
  const { head, instance, ask, rate } = given;
  const { mandate, request, facts, verdict } = judge(context, given);
  const opens = verdict.decision === 'escalate' && verdict.standing === null;
  if (opens && escalationsFull(context.facts, instance.mandate)) return tooManyEscalations(rate);
  const tool = given.tool ?? discoverTool(context, given);
  const receiptId = newTypeId('rcp', head.nowMs);
  const escalation =
    verdict.decision === 'escalate'
      ? recordEscalation(context, {
          ...{ head, decision: request, ctx: request.ctx, receiptId, standing: verdict.standing },
          ...{ mandate: instance.mandate, subjectId: instance.instanceId, request: { ...ask.request, tool: ask.name } },
        })
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
  context.recording.verdicts.push(['gateway', verdict.decision, verdict.decision === 'deny' ? verdict.code : 'none']);
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
  return settleVerdict(context, given, verdict, { receiptId, key: tool.toolId === 'none' ? null : tool.key });
}

interface Settled {
  readonly receiptId: string;
  /** Of the tool; null where there are so many that this one was not kept. */
  readonly key: string | null;
}

function settleVerdict(
  context: AskContext,
  given: GatewayCase,
  verdict: Verdict,
  { receiptId, key }: Settled,
): GatewayAnswer {
  const { head, instance, ask, rate } = given;
  switch (verdict.decision) {
    case 'deny':
      if (verdict.code === 'MD-501' || verdict.code === 'MD-502') see(context, given, key);
      return {
        answer: 'deny',
        receipt_id: receiptId,
        code: verdict.code,
        reason_text: verdict.reason_text,
        rate,
      };
    case 'allow': {
      reserve(context, given, verdict.amount, receiptId);
      if (verdict.escalation_id !== null) useGrant(context, grantOf(context.facts, ask), verdict.escalation_id);
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

/** Notes what whoever maps the tool will want to see; a blocked one has been dealt with. */
function see({ recording }: AskContext, { head, instance, tool, ask }: GatewayCase, key: string | null): void {
  if (key === null || tool?.state === 'blocked') return;
  const unreadable = ask.reading === null || ask.reading.ok ? null : `${ask.reading.field}: ${ask.reading.message}`;
  recording.sightings.push({
    accountId: head.accountId,
    instanceId: instance.instanceId,
    key,
    atMs: head.nowMs,
    unreadable: tool?.state === 'mapped' ? unreadable : null,
    shape: ask.shape ?? null,
  });
}

function reserve(context: AskContext, given: GatewayCase, amount: number, receiptId: string): void {
  const { head, instance, ask } = given;
  const { mandate } = instance;
  const { month } = mandate;
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
  countUse(context, mandate, amount);
  const keyed = keyedRequest(given);
  if (keyed !== null) keepKey(context, keyed, receiptId);
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

/** What tells a repeat under an idempotency key from another request; null where there is no key. */
function keyedRequest({ instance, ask }: Pick<GatewayCase, 'instance' | 'ask'>): KeyedRequest | null {
  const { idempotency_key_hash: keyHash, request } = ask;
  if (keyHash === null) return null;
  const text = JSON.stringify([request.method, request.path, request.query, request.body_sha256]);
  return { subjectId: instance.instanceId, keyHash, digest: hash('sha256', text, 'hex') };
}

function decisionRequest({ ask, version }: GatewayCase, mandate: MandateVersion): DecisionRequest {
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
  context: Pick<AskContext, 'facts' | 'versions'>,
  { head, instance, tool, ask }: GatewayCase,
  mandate: MandateVersion,
  request: DecisionRequest,
): DecisionFacts {
  const { reading } = ask;
  const { month } = instance.mandate;
  const target = context.versions.target(instance);
  return {
    now_ms: head.nowMs,
    account_id: head.accountId,
    mandate: {
      ...mandate.terms,
      status: instance.mandate.status as MandateStatus,
      uses: instance.mandate.uses,
    },
    month: { month: month.month, reserved: month.reserved, booked: month.booked },
    presentation: null,
    tool: {
      state: tool?.state ?? 'unmapped',
      unreadable: reading !== null && !reading.ok ? `${reading.field}: ${reading.message}` : null,
    },
    grant: grantFacts(grantOf(context.facts, ask), instance.instanceId),
    standing: standingFacts(context.facts, { mandate: instance.mandate, subjectId: instance.instanceId }, request.ctx),
    undecidable: target?.config === null ? "The target's stored credential cannot be opened." : null,
  };
}

function discoverTool(context: AskContext, { head, instance, ask }: GatewayCase): ToolState {
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
