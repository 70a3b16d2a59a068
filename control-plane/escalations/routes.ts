import type { FastifyInstance, FastifyRequest } from 'fastify';
import { z } from 'zod';
import { ESCALATION_STATES } from '../../core/decide.ts';
import { ProblemError } from '../../core/errors.ts';
import { MONEY_MINOR_MAX } from '../../core/limits.ts';
import { decimalOf } from '../../core/money.ts';
import { sameHash, secretHash } from '../../core/secret-token.ts';
import { isTypeId } from '../../core/type-id.ts';
import { factorFields, requireApprovalFactor } from '../admin/factor.ts';
import { accountOf } from '../admin/session.ts';
import { apiKeyOrNull } from '../api/api-keys.ts';
import type { Sql } from '../db/client.ts';
import { bearerToken } from '../http/credential.ts';
import type { RouteDependencies } from '../http/dependencies.ts';
import { readQuery, wholeQuery } from '../http/query.ts';
import { countAgainstAddress, countAgainstCredential } from '../http/rate-limit.ts';
import { idParam, readBody } from '../http/request.ts';
import { approve, type EscalationRecord, readEscalation, readEscalations, reject, type Settlement } from './store.ts';

const LIST_MAX = 200;
const LIST_DEFAULT = 50;
const REASON_MAX_CHARACTERS = 500;

const listQuery = z.strictObject({
  status: z.enum(ESCALATION_STATES).optional(),
  limit: wholeQuery(1, LIST_MAX).default(LIST_DEFAULT),
});
const answerBody = z.strictObject({
  ...factorFields,
  reason: z
    .string()
    .max(REASON_MAX_CHARACTERS)
    .refine((text) => text.isWellFormed() && !text.includes('\u0000'), 'must be well-formed text')
    .optional(),
});

/** The routes of escalations: cards and answers for the principal, the state for the agent that waits. */
export function registerEscalationRoutes(app: FastifyInstance, deps: RouteDependencies): void {
  app.get('/admin/escalations', async (request) => {
    const { status, limit } = readQuery(request, listQuery);
    const found = await readEscalations(deps.sql, accountOf(request), { status: status ?? null, limit });
    return { escalations: found.map(cardOf) };
  });
  app.get('/admin/escalations/:id', async (request) => {
    return cardOf(await existing(deps.sql, accountOf(request), idParam(request, 'esc')));
  });
  app.post('/admin/escalations/:id/approve', async (request) => {
    const { accountId, answer } = await humanAnswer(request, deps);
    taken(await approve(deps.commands, deps.custody, accountId, answer));
    deps.escalationChanged?.(accountId, answer.escalationId);
    const card = cardOf(await existing(deps.sql, accountId, answer.escalationId));
    return { ...card, escalation_token: deps.custody.escalationToken(answer.escalationId) };
  });
  app.post('/admin/escalations/:id/reject', async (request) => {
    const { accountId, answer } = await humanAnswer(request, deps);
    taken(await reject(deps.commands, accountId, answer));
    deps.escalationChanged?.(accountId, answer.escalationId);
    return cardOf(await existing(deps.sql, accountId, answer.escalationId));
  });
  app.get('/api/v1/escalations/:id', { config: { scope: 'verify', gatewayToken: true } }, async (request) => {
    const found = await readForSoftware(request, deps);
    if (found === null) throw notFound();
    const { id, status, expires_at_ms, usable } = found;
    const expires_at = time(expires_at_ms);
    if (status !== 'approved' || !usable) return { id, status, expires_at };
    return { id, status, expires_at, escalation_token: deps.custody.escalationToken(id) };
  });
}

async function humanAnswer(request: FastifyRequest, deps: RouteDependencies) {
  const accountId = accountOf(request);
  const { reason, totp_code } = readBody(request, answerBody);
  const escalationId = idParam(request, 'esc');
  await existing(deps.sql, accountId, escalationId);
  await requireApprovalFactor(deps, request, totp_code);
  return { accountId, answer: { escalationId, decidedBy: accountId, reason: reason || null } };
}

function taken(settlement: Settlement): void {
  if (settlement.taken) return;
  if (settlement.status === null) throw notFound();
  throw new ProblemError('conflict', `The escalation is not pending any more: it is ${settlement.status}.`);
}

function notFound(): ProblemError {
  return new ProblemError('not_found', 'There is no such escalation.');
}

async function existing(sql: Sql, accountId: string, id: string): Promise<EscalationRecord> {
  const found = await readEscalation(sql, accountId, id);
  if (found === null) throw notFound();
  return found;
}

/** The card: everything that an approval binds, and what the month would hold after it. */
function cardOf(record: EscalationRecord) {
  const { action, request, month, mandateCurrency } = record;
  const after = month.booked + month.reserved + action.amount;
  return {
    id: record.id,
    status: record.status,
    created_at: time(record.createdAtMs),
    expires_at: time(record.expiresAtMs),
    action: {
      type: action.type,
      amount: {
        value: action.currency === null ? 0 : decimalOf(action.amount, action.currency),
        currency: action.currency,
      },
      counterparty: action.counterparty,
    },
    request: request === null ? null : requestOf(request),
    ...bodyOf(record.requestBody),
    mandate_id: record.mandateId,
    mandate_name: record.mandateName,
    instance_id: record.subjectId,
    instance_name: record.instanceName,
    tool: request?.tool ?? null,
    receipt_id: record.receiptId,
    ctx: record.ctx,
    month: {
      booked: decimalOf(month.booked, mandateCurrency),
      reserved: decimalOf(month.reserved, mandateCurrency),
      limit: decimalOf(month.limit, mandateCurrency),
      // More than an amount may be is far above any limit, and has no exact number.
      after: after > MONEY_MINOR_MAX ? null : decimalOf(after, mandateCurrency),
    },
    decided_at: optionalTime(record.decidedAtMs),
    decided_by: record.decidedBy,
    reason: record.reason,
    closes_at: time(record.closesAtMs),
    used_at: optionalTime(record.usedAtMs),
  };
}

function requestOf({ method, path, query, body_sha256 }: NonNullable<EscalationRecord['request']>) {
  return { method, path, query, body_sha256 };
}

/** The body as text where it is UTF-8, else as base64; null where none was kept. */
function bodyOf(body: Buffer | null) {
  if (body === null) return { request_body: null, request_body_encoding: null };
  try {
    const text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(body);
    return { request_body: text, request_body_encoding: 'utf-8' };
  } catch {
    return { request_body: body.toString('base64'), request_body_encoding: 'base64' };
  }
}

function time(ms: number): string {
  return new Date(ms).toISOString();
}

function optionalTime(ms: number | null): string | null {
  return ms === null ? null : time(ms);
}

interface PolledEscalation {
  readonly id: string;
  readonly status: string;
  readonly expires_at_ms: number;
  readonly usable: boolean;
}

/** An escalation of the API key's account, or of the very instance whose gateway token is shown; null for any other. */
async function readForSoftware(request: FastifyRequest, deps: RouteDependencies): Promise<PolledEscalation | null> {
  const key = apiKeyOrNull(request);
  if (key !== null) {
    const { sandboxAccountId } = deps.booking;
    const id = idParam(request, 'esc');
    // Anybody's key verifies in the sandbox, so anybody's key may ask what became of it there.
    const own = await readForKey(deps.sql, key.accountId, id);
    return own ?? (sandboxAccountId === null ? null : await readForKey(deps.sql, sandboxAccountId, id));
  }
  const found = await readForAgent(deps.sql, bearerToken(request) ?? '', idOrNull(request));
  if (found === null) {
    await countAgainstAddress(request, deps);
    throw new ProblemError('unauthenticated', 'The gateway token is not valid.');
  }
  await countAgainstCredential(request, deps);
  const { id } = found;
  return id === null ? null : { ...found, id };
}

async function readForKey(sql: Sql, accountId: string, id: string): Promise<PolledEscalation | null> {
  const [row] = await sql<PolledEscalation[]>`
    select e.escalation_id as id, epoch_ms(e.expires_at) as expires_at_ms, e.closes_at > db_clock() as usable,
      case when e.status = 'pending' and e.expires_at <= db_clock() then 'expired' else e.status end as status
    from escalations e where e.account_id = ${accountId} and e.escalation_id = ${id}`;
  return row ?? null;
}

/** The live instance of a token and its escalation, `id` null where it has none of this id; null: no valid token. */
async function readForAgent(sql: Sql, token: string, id: string | null) {
  const hash = secretHash(token);
  const [row] = await sql<(Omit<PolledEscalation, 'id'> & { token_hash: string; id: string | null })[]>`
    select encode(i.token_hash, 'hex') as token_hash, e.escalation_id as id, epoch_ms(e.expires_at) as expires_at_ms,
      case when e.status = 'pending' and e.expires_at <= db_clock() then 'expired' else e.status end as status,
      e.closes_at > db_clock() as usable
    from token_routes r
    join gateway_instances i on i.account_id = r.account_id and i.instance_id = r.subject_id and i.status = 'active'
    left join escalations e on e.account_id = i.account_id and e.subject_id = i.instance_id and e.escalation_id = ${id}
    where r.token_hash = decode(${hash}, 'hex') and r.kind = 'gateway'`;
  return row !== undefined && sameHash(row.token_hash, hash) ? row : null;
}

/** What is no identifier is nothing that exists, but only for whoever has a valid token. */
function idOrNull(request: FastifyRequest): string | null {
  const { id } = request.params as { readonly id?: unknown };
  return isTypeId(id, 'esc') ? id : null;
}
