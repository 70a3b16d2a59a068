import type { FastifyInstance } from 'fastify';
import { z } from 'zod';
import { decimalOf } from '../../core/money.ts';
import { isTypeId } from '../../core/type-id.ts';
import { accountOf } from '../admin/session.ts';
import type { RouteDependencies } from '../http/dependencies.ts';
import { readQuery, wholeQuery } from '../http/query.ts';
import { idParam, readBody } from '../http/request.ts';
import { reasonText } from '../mandates/input.ts';
import { decisionOf } from './decision-text.ts';
import { readUnknown, SETTLEMENTS, settle, type UnknownOutcome } from './store.ts';

const LIST_MAX = 200;
const LIST_DEFAULT = 50;

const listQuery = z.strictObject({
  after: z
    .string()
    .refine((text) => isTypeId(text, 'rcp'), 'must be a receipt_id (rcp_…): the next_after of the page before')
    .optional(),
  limit: wholeQuery(1, LIST_MAX).default(LIST_DEFAULT),
});

/** Somebody must be able to tell later why: the reason is not optional. */
const settleBody = z.strictObject({ outcome: z.enum(SETTLEMENTS), reason: reasonText });

/** The reconcile list: forwards whose outcome nobody knows, and a person's word on them (contract §7 "Booking"). */
export function registerReconciliationRoutes(app: FastifyInstance, deps: RouteDependencies): void {
  app.get('/admin/reconcile', async (request) => {
    const { after, limit } = readQuery(request, listQuery);
    // One more than asked for tells whether there is a next page.
    const found = await readUnknown(deps.sql, accountOf(request), { after: after ?? null, limit: limit + 1 });
    const page = found.slice(0, limit);
    return { outcomes: page.map(unknownView), next_after: found.length > limit ? page.at(-1)?.receipt_id : null };
  });
  app.post('/admin/reconcile/:id/settle', async (request) => {
    const { outcome, reason } = readBody(request, settleBody);
    const [accountId, receiptId] = [accountOf(request), idParam(request, 'rcp')];
    const done = await deps.commands.command(accountId, (context) =>
      settle(context, receiptId, { outcome, reason, settledBy: accountId }),
    );
    const { currency } = done;
    return {
      receipt_id: receiptId,
      mandate_id: done.mandateId,
      outcome,
      amount: { value: decimalOf(done.amount, currency), currency },
      month: {
        month: done.month.slice(0, 7),
        booked: decimalOf(done.booked, currency),
        reserved: decimalOf(done.reserved, currency),
      },
      reason,
      settled_by: accountId,
      settled_at: done.settledAt,
      evidence: { seq: done.seq },
    };
  });
}

/** An unknown outcome as a person needs it to find out at the target what became of it. */
function unknownView(found: UnknownOutcome) {
  const decision = decisionOf(found);
  return {
    receipt_id: found.receipt_id,
    mandate_id: found.mandate_id,
    mandate_name: found.mandate_name,
    instance_id: found.instance_id,
    instance_name: found.instance_name,
    tool: decision.tool?.key ?? null,
    request: decision.request === undefined ? null : requestOf(decision.request),
    action_type: decision.action?.type ?? null,
    counterparty: decision.action?.counterparty ?? null,
    amount: { value: decimalOf(found.amount, found.currency), currency: found.currency },
    month: found.month.slice(0, 7),
    reserved_at: new Date(found.reserved_at).toISOString(),
    unknown_since: found.unknown_at === null ? null : new Date(found.unknown_at).toISOString(),
    cause: found.cause,
    target_status: found.target_status,
    evidence: found.seq === null ? null : { seq: found.seq },
  };
}

function requestOf({ method, path, query, body_sha256 }: Readonly<Record<string, unknown>>) {
  return { method, path, query: query ?? '', body_sha256: body_sha256 ?? null };
}
