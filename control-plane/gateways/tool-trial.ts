import type { FastifyInstance } from 'fastify';
import { z } from 'zod';
import { scopeCovers } from '../../core/action.ts';
import { invalidFields } from '../../core/body-value.ts';
import type { DecisionFacts, DecisionRequest, Verdict } from '../../core/decide.ts';
import { ProblemError } from '../../core/errors.ts';
import { decimalOf, isCurrency } from '../../core/money.ts';
import { contentKind, parseBody } from '../../core/request-body.ts';
import { type RequestShape, shapeOf } from '../../core/request-shape.ts';
import { secretHash } from '../../core/secret-token.ts';
import { checkMapping, compileMapping, type ReadInput, readValues, type ToolMapping } from '../../core/tool-mapping.ts';
import {
  candidateKeys,
  isGatewayMethod,
  parseToolPattern,
  readQuery,
  readToolPath,
  type Shape,
  type ToolPattern,
  toolName,
} from '../../core/tool-name.ts';
import { accountOf } from '../admin/session.ts';
import type { AccountFacts, InstanceState } from '../decisions/account-facts.ts';
import type { CommandContext } from '../decisions/command.ts';
import { escalationsFull } from '../decisions/escalate.ts';
import { FactReader } from '../decisions/facts.ts';
import { type GatewayCase, judge, resolveTool } from '../decisions/gateway-ask.ts';
import type { AskItem } from '../decisions/items.ts';
import { type ToolVersion, VersionCache } from '../decisions/versions.ts';
import type { RouteDependencies } from '../http/dependencies.ts';
import { idParam, readBody } from '../http/request.ts';
import { mappingBody } from './mapping-body.ts';

const URL_MAX_CHARACTERS = 12_000;
const BODY_MAX_CHARACTERS = 200_000;

/** A request to try out, as it is sent. */
export const trialBody = z.strictObject({
  method: z.string().max(16),
  /** With its query, as the agent would send it behind /api/gateway/http. */
  path: z.string().max(URL_MAX_CHARACTERS),
  content_type: z.string().max(256).nullish(),
  body: z.string().max(BODY_MAX_CHARACTERS).optional(),
  /** A mapping that is not saved yet, and (for a template) what it would be saved under. */
  mapping: mappingBody.optional(),
  name: z.string().max(4_096).optional(),
});
export type Trial = z.infer<typeof trialBody>;

/** A request of a trial, read as the proxy reads one. */
interface TriedRequest extends ReadInput {
  readonly method: string;
  readonly query: string;
  readonly name: string;
  readonly bodySha256: string;
}

/** The route that says what would become of a request, without recording or reserving anything. */
export function registerToolTrialRoute(app: FastifyInstance, deps: RouteDependencies): void {
  const versions = trialVersions(deps);
  app.post('/admin/gateways/:id/tools/test', async (request) => {
    const trial = readBody(request, trialBody);
    return tryRequest(deps, versions, { accountId: accountOf(request), instanceId: idParam(request, 'gwi') }, trial);
  });
}

/** What trials keep of mandates and mappings from one to the next. */
export function trialVersions({ custody }: Pick<RouteDependencies, 'custody'>): VersionCache {
  return new VersionCache((accountId, instanceId, sealed) =>
    custody.open(accountId, 'credential', instanceId, sealed).toString('utf8'),
  );
}

/**
 * What would become of a request; nothing is recorded or reserved.
 *
 * @throws ProblemError as the gateway would answer the request before it decides; 404; 422 naming what of the mapping
 * could not be saved
 */
export async function tryRequest(
  { commands }: Pick<RouteDependencies, 'commands'>,
  versions: VersionCache,
  { accountId, instanceId }: { readonly accountId: string; readonly instanceId: string },
  trial: Trial,
) {
  const tried = readTrial(trial);
  const given = trial.mapping === undefined ? null : givenVersion(trial.mapping, trial.name, tried);
  return commands.command(accountId, (context) => tryOut(context, versions, instanceId, tried, given));
}

/** @throws ProblemError as the gateway would answer the request before it decides */
function readTrial({ method, path: url, content_type: contentType, body = '' }: Trial): TriedRequest {
  if (!isGatewayMethod(method)) throw new ProblemError('method_not_allowed', 'This method is not forwarded.');
  const mark = url.indexOf('?');
  const path = readToolPath(url.slice(0, mark < 0 ? undefined : mark).replace(/^\//, ''));
  if (!path.ok) throw new ProblemError('ambiguous_path', path.message);
  const query = readQuery(mark < 0 ? '' : url.slice(mark + 1));
  if (!query.ok) throw new ProblemError('ambiguous_query', query.message);
  const bytes = Buffer.from(body, 'utf8');
  const kind = bytes.length === 0 ? 'none' : contentKind(contentType === undefined ? 'application/json' : contentType);
  return {
    method,
    path: path.path,
    query: query.query,
    queryParams: query.params,
    body: parseBody(kind, bytes),
    name: toolName(method, path.path),
    bodySha256: secretHash(body),
  };
}

/** The mapping to try out, for this request; @throws ProblemError 422 where it could not be saved, or is for others. */
function givenVersion(mapping: ToolMapping, text: string | undefined, { name }: TriedRequest): ToolVersion {
  const pattern = patternOf(text ?? name);
  const shapes: Shape[] = pattern.shape === null ? [] : [pattern.shape];
  if (!candidateKeys(name, shapes).includes(pattern.key)) {
    throw invalidFields([{ field: 'name', message: `does not stand for ${name}` }]);
  }
  const problems = checkMapping(mapping, pattern);
  if (problems.length > 0) throw invalidFields(problems.map((one) => ({ ...one, field: `mapping.${one.field}` })));
  return { pattern: pattern.text, mapping };
}

function patternOf(name: string): ToolPattern {
  const reading = parseToolPattern(name);
  if (reading.ok) return reading.pattern;
  throw invalidFields([{ field: 'name', message: reading.message }]);
}

async function tryOut(
  { sql, accountId }: CommandContext,
  versions: VersionCache,
  instanceId: string,
  tried: TriedRequest,
  given: ToolVersion | null,
) {
  const item = askOf(accountId, instanceId, tried);
  const { batch } = await new FactReader().read(sql, [item], { begin: false });
  const facts = batch.get(accountId);
  const instance = facts?.instances.get(instanceId);
  if (facts === undefined || instance === undefined) {
    throw new ProblemError('not_found', 'There is no such gateway instance.');
  }
  await versions.load(sql, facts);
  const { tool, version } = toolOf(facts, instance, versions, tried.name, given);
  const reading =
    version === null ? null : readValues(compileMapping(version.mapping, patternOf(version.pattern)), tried);
  const rate = [0, 0, 0] as [number, number, number];
  const judged = { head: facts.head, instance, tool, version, ask: { ...item.ask, reading }, rate };
  const { request, facts: known, verdict } = judge({ facts, versions }, judged);
  const full = verdict.decision === 'escalate' && verdict.standing === null && escalationsFull(facts, instance.mandate);
  const scope = versions.mandate(instance.mandate).terms.scope;
  return {
    tool: { name: tried.name, pattern: version?.pattern ?? null, state: tool?.state ?? 'unmapped' },
    covered: version === null ? null : scopeCovers(scope, version.mapping.action_type),
    disabled: instance.status !== 'active',
    escalations_full: full,
    ...answerOf(request, known, verdict),
    shape: shapeOf(tried) satisfies RequestShape,
  };
}

/** An ask as the proxy would send it; it is never queued, so that its time, token and answer are nobody's. */
function askOf(accountId: string, instanceId: string, tried: TriedRequest): AskItem {
  const { method, path, query, name, bodySha256 } = tried;
  return {
    kind: 'ask',
    accountId,
    instanceId,
    ask: {
      path: 'gateway',
      token_hash: '',
      address: '',
      name,
      tool: null,
      reading: null,
      request: { method, path: `/${path}`, query, body_sha256: bodySha256 },
      bindable: true,
      idempotency_key_hash: null,
      escalation_token_hash: null,
      config_version: 0,
      budget_ms: 0,
    },
    deadlineMs: 0,
    answer: () => {},
  };
}

/** What the request is read by: the mapping that is tried out, else the one that is saved. */
function toolOf(
  facts: AccountFacts,
  instance: InstanceState,
  versions: VersionCache,
  name: string,
  given: ToolVersion | null,
): Pick<GatewayCase, 'tool' | 'version'> {
  const tool = resolveTool(facts, instance, name);
  if (given === null) return { tool, version: tool?.state === 'mapped' ? versions.tool(tool) : null };
  const { accountId, instanceId } = instance;
  const tried = { accountId, instanceId, key: patternOf(given.pattern).key, toolId: '', state: 'mapped', version: 0 };
  return { tool: { ...tried, state: 'mapped' }, version: given };
}

function answerOf({ action }: DecisionRequest, { mandate, month }: DecisionFacts, verdict: Verdict) {
  const denied = verdict.decision === 'deny' ? verdict : null;
  const unit = mandate?.currency ?? '';
  const money = (minor: number) => decimalOf(minor, unit);
  const used = { month: month.month.slice(0, 7), booked: money(month.booked), reserved: money(month.reserved) };
  const counts = denied === null && action !== null;
  return {
    decision: verdict.decision,
    code: denied?.code ?? null,
    reason: denied?.reason_text ?? reasonOf(verdict),
    action: action === null ? null : { ...action, amount: moneyOf(action.amount, action.currency) },
    currency: unit,
    month_limit: mandate === null ? null : money(mandate.per_month),
    before: used,
    // What an escalation would leave once it is approved.
    after: counts ? { ...used, reserved: money(month.reserved + action.amount) } : used,
  };
}

function reasonOf({ decision }: Verdict): string {
  return decision === 'allow'
    ? 'The action is within every limit of the mandate.'
    : 'The amount is above the escalation threshold: a human would be asked.';
}

function moneyOf(minor: number, currency: string | null) {
  return currency === null || !isCurrency(currency) ? null : { value: decimalOf(minor, currency), currency };
}
