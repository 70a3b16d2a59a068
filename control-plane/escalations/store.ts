import { z } from 'zod';
import { ESCALATION_STATES, type EscalationStatus } from '../../core/decide.ts';
import { secretHash } from '../../core/secret-token.ts';
import type { Custody } from '../custody/custody.ts';
import type { Sql } from '../db/client.ts';
import type { CommandContext, CommandRunner } from '../decisions/command.ts';

/** How long an approval can be used, and how long a "no" holds for the identical action, in milliseconds. */
export const APPROVAL_VALID_MS = 600_000;
export const REJECTION_HOLD_MS = 600_000;

const storedAction = z.object({
  type: z.string(),
  amount: z.number().int().min(0),
  currency: z.string().nullable(),
  counterparty: z.string().nullable(),
});

const storedRequest = z.object({
  method: z.string(),
  path: z.string(),
  query: z.string(),
  body_sha256: z.string().nullable(),
  tool: z.string().nullable().default(null),
});

/** An escalation with what its card shows. Times are Unix milliseconds, amounts minor units of `mandateCurrency`. */
export interface EscalationRecord {
  readonly id: string;
  readonly status: EscalationStatus;
  readonly ctx: string;
  readonly action: z.infer<typeof storedAction>;
  readonly request: z.infer<typeof storedRequest> | null;
  readonly requestBody: Buffer | null;
  readonly receiptId: string;
  readonly subjectId: string;
  readonly instanceName: string | null;
  readonly mandateId: string;
  readonly mandateName: string;
  readonly mandateCurrency: string;
  readonly month: { readonly booked: number; readonly reserved: number; readonly limit: number };
  readonly createdAtMs: number;
  readonly expiresAtMs: number;
  readonly closesAtMs: number;
  readonly decidedAtMs: number | null;
  readonly decidedBy: string | null;
  readonly reason: string | null;
  readonly usedAtMs: number | null;
}

interface EscalationRow {
  readonly escalation_id: string;
  readonly status: string;
  readonly ctx: string;
  readonly action: unknown;
  readonly request: unknown;
  readonly request_body: Buffer | null;
  readonly receipt_id: string;
  readonly subject_id: string;
  readonly instance_name: string | null;
  readonly mandate_id: string;
  readonly mandate_name: string;
  readonly currency: string;
  readonly per_month: number;
  readonly booked: number;
  readonly reserved: number;
  readonly created_at: number;
  readonly expires_at: number;
  readonly closes_at: number;
  readonly decided_at: number | null;
  readonly decided_by: string | null;
  readonly reason: string | null;
  readonly used_at: number | null;
}

/** Reads one escalation of an account, or null. */
export async function readEscalation(sql: Sql, accountId: string, id: string): Promise<EscalationRecord | null> {
  const rows = await select(sql, accountId, sql`and e.escalation_id = ${id}`, 1);
  return rows[0] ?? null;
}

/** Which escalations are read; `status` null: all of them, `past`: those that wait for nobody any more. */
export interface EscalationsWanted {
  readonly status: EscalationStatus | 'past' | null;
  readonly limit: number;
  /** Those that were made before this one. */
  readonly before?: string;
  /** Whether the requests' bodies are read as well; they are where nothing is said. */
  readonly bodies?: boolean;
}

/** Reads an account's escalations, newest first. */
export function readEscalations(sql: Sql, accountId: string, wanted: EscalationsWanted): Promise<EscalationRecord[]> {
  const { status, limit, before, bodies = true } = wanted;
  const older = before === undefined ? sql`` : sql`and e.escalation_id < ${before}`;
  return select(sql, accountId, sql`${withStatus(sql, status)} ${older}`, limit, bodies);
}

// What is pending past its time counts as expired even before a job has written that.
function withStatus(sql: Sql, status: EscalationsWanted['status']) {
  if (status === null) return sql``;
  if (status === 'past') return sql`and (e.status <> 'pending' or e.expires_at <= db_clock())`;
  if (status === 'pending') return sql`and e.status = 'pending' and e.expires_at > db_clock()`;
  if (status === 'expired') {
    return sql`and (e.status = 'expired' or (e.status = 'pending' and e.expires_at <= db_clock()))`;
  }
  return sql`and e.status = ${status}`;
}

async function select(
  sql: Sql,
  accountId: string,
  condition: ReturnType<typeof withStatus>,
  limit: number,
  bodies = true,
): Promise<EscalationRecord[]> {
  const rows = await sql<EscalationRow[]>`
    select e.escalation_id, e.ctx, e.action, e.request, e.receipt_id, e.subject_id, e.mandate_id,
      case when e.status = 'pending' and e.expires_at <= db_clock() then 'expired' else e.status end as status,
      case when ${bodies} then e.request_body end as request_body,
      e.created_at, e.expires_at, e.closes_at, e.decided_at, e.decided_by, e.reason, e.used_at,
      i.name as instance_name, m.name as mandate_name, m.currency, m.per_month,
      coalesce(u.booked, 0) as booked, coalesce(u.reserved, 0) as reserved
    from escalations e
    join mandates m on m.account_id = e.account_id and m.mandate_id = e.mandate_id
    left join gateway_instances i on i.account_id = e.account_id and i.instance_id = e.subject_id
    left join mandate_months u on u.account_id = e.account_id and u.mandate_id = e.mandate_id
      and u.month = date_trunc('month', db_clock() at time zone m.time_zone)::date
    where e.account_id = ${accountId} ${condition}
    order by e.escalation_id desc limit ${limit}`;
  return rows.map(recordOf);
}

function recordOf(row: EscalationRow): EscalationRecord {
  return {
    id: row.escalation_id,
    status: z.enum(ESCALATION_STATES).parse(row.status),
    ctx: row.ctx,
    action: storedAction.parse(row.action),
    request: row.request === null ? null : storedRequest.parse(row.request),
    requestBody: row.request_body,
    receiptId: row.receipt_id,
    subjectId: row.subject_id,
    instanceName: row.instance_name,
    mandateId: row.mandate_id,
    mandateName: row.mandate_name,
    mandateCurrency: row.currency,
    month: { booked: row.booked, reserved: row.reserved, limit: row.per_month },
    createdAtMs: row.created_at,
    expiresAtMs: row.expires_at,
    closesAtMs: row.closes_at,
    decidedAtMs: row.decided_at,
    decidedBy: row.decided_by,
    reason: row.reason,
    usedAtMs: row.used_at,
  };
}

/** A human's answer to an escalation. */
export interface HumanAnswer {
  readonly escalationId: string;
  readonly decidedBy: string;
  readonly reason: string | null;
}

/** Whether the answer was taken; else what the escalation is instead (null: there is none of this identifier). */
export type Settlement = { readonly taken: true } | { readonly taken: false; readonly status: EscalationStatus | null };

/**
 * Says yes: once, and only while it is pending and not past its time (contract §6).
 *
 * The token is derived, so that only its hash is stored. One that is past its time is written as expired instead.
 */
export function approve(
  commands: CommandRunner,
  custody: Custody,
  accountId: string,
  answer: HumanAnswer,
): Promise<Settlement> {
  const tokenHash = secretHash(custody.escalationToken(answer.escalationId));
  return commands.command(accountId, async (context) => {
    const closesAt = new Date(context.nowMs + APPROVAL_VALID_MS).toISOString();
    const rows = await context.sql<AnsweredRow[]>`
      update escalations set status = 'approved', token_hash = decode(${tokenHash}, 'hex'),
        decided_at = ${context.now}, decided_by = ${answer.decidedBy}, reason = ${answer.reason},
        closes_at = ${closesAt}
      where account_id = ${accountId} and escalation_id = ${answer.escalationId} and status = 'pending'
        and expires_at > ${context.now}
      returning mandate_id, subject_id, ctx, action, receipt_id`;
    return settle(context, 'escalation.approved', answer, rows[0], { closes_at: closesAt });
  });
}

/** Says no: the same action is denied for a while, and the request's body is forgotten. */
export function reject(commands: CommandRunner, accountId: string, answer: HumanAnswer): Promise<Settlement> {
  return commands.command(accountId, async (context) => {
    const closesAt = new Date(context.nowMs + REJECTION_HOLD_MS).toISOString();
    const rows = await context.sql<AnsweredRow[]>`
      update escalations set status = 'rejected', decided_at = ${context.now}, decided_by = ${answer.decidedBy},
        reason = ${answer.reason}, closes_at = ${closesAt}, request_body = null
      where account_id = ${accountId} and escalation_id = ${answer.escalationId} and status = 'pending'
        and expires_at > ${context.now}
      returning mandate_id, subject_id, ctx, action, receipt_id`;
    return settle(context, 'escalation.rejected', answer, rows[0], { closes_at: closesAt });
  });
}

interface AnsweredRow {
  readonly mandate_id: string;
  readonly subject_id: string;
  readonly ctx: string;
  readonly action: unknown;
  readonly receipt_id: string;
}

async function settle(
  context: CommandContext,
  kind: 'escalation.approved' | 'escalation.rejected',
  answer: HumanAnswer,
  row: AnsweredRow | undefined,
  times: { readonly closes_at: string },
): Promise<Settlement> {
  if (row === undefined) {
    await expireWithin(context, [answer.escalationId]);
    const [found] = await context.sql<{ status: EscalationStatus }[]>`
      select status from escalations
      where account_id = ${context.accountId} and escalation_id = ${answer.escalationId}`;
    return { taken: false, status: found?.status ?? null };
  }
  context.append(kind, {
    ...evidenceOf(answer.escalationId, row),
    ...times,
    decided_by: answer.decidedBy,
    reason: answer.reason,
  });
  return { taken: true };
}

function evidenceOf(escalationId: string, row: AnsweredRow) {
  return {
    action: storedAction.parse(row.action),
    ctx: row.ctx,
    escalation_id: escalationId,
    instance: row.subject_id,
    mandate_id: row.mandate_id,
    receipt_id: row.receipt_id,
  };
}

/** Expires those of these escalations that are pending past their time; returns how many that were. */
export function expire(commands: CommandRunner, accountId: string, ids: readonly string[]): Promise<number> {
  return commands.command(accountId, (context) => expireWithin(context, ids));
}

async function expireWithin(context: CommandContext, ids: readonly string[]): Promise<number> {
  const rows = await context.sql<(AnsweredRow & { escalation_id: string })[]>`
    update escalations set status = 'expired', request_body = null
    where account_id = ${context.accountId} and escalation_id = any (${[...ids]}::text[]) and status = 'pending'
      and expires_at <= ${context.now}
    returning escalation_id, mandate_id, subject_id, ctx, action, receipt_id`;
  for (const row of rows) context.append('escalation.expired', evidenceOf(row.escalation_id, row));
  return rows.length;
}
