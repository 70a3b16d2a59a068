import type { FastifyInstance } from 'fastify';
import { z } from 'zod';
import { invalidFields } from '../../core/body-value.ts';
import { MONEY_MINOR_MAX } from '../../core/limits.ts';
import { decimalOf, isCurrency } from '../../core/money.ts';
import { accountOf } from '../admin/session.ts';
import type { Sql } from '../db/client.ts';
import type { RouteDependencies } from '../http/dependencies.ts';
import { readQuery } from '../http/query.ts';
import { filterOf, idQuery, searchQuery } from './decision-query.ts';
import { countDays, type DayCount, type FoundDecision, searchDecisions } from './search.ts';

/** Days of one answer: a year and a leap day, with each mandate and code of them. */
const DAYS_MAX = 366;
const DAY_MS = 86_400_000;

const day = z.string().refine(isDay, 'must be a day such as 2030-01-31');
const daysQuery = z.strictObject({ from: day, to: day, mandate: idQuery('mdt', 'a mandate').optional() });

/** The routes that find decisions in an account's chain, and count them by day. */
export function registerDecisionRoutes(app: FastifyInstance, deps: RouteDependencies): void {
  app.get('/admin/decisions', async (request) => {
    const query = readQuery(request, searchQuery);
    const { before_seq: before = null, limit } = query;
    const page = await searchDecisions(deps.sql, accountOf(request), filterOf(query), { before, limit });
    return { decisions: page.decisions.map(decisionView), next_before_seq: page.nextBefore };
  });
  app.get('/admin/decisions/days', async (request) => {
    const { from, to, mandate } = readQuery(request, daysQuery);
    const span = (Date.parse(to) - Date.parse(from)) / DAY_MS;
    if (!(span >= 0 && span < DAYS_MAX)) {
      throw invalidFields([{ field: 'to', message: `must not lie before from, nor ${DAYS_MAX} days after it` }]);
    }
    const accountId = accountOf(request);
    const counts = await countDays(deps.sql, accountId, { from, to, mandateId: mandate ?? null });
    const currencies = await currenciesOf(deps.sql, accountId, counts.days);
    return {
      days: counts.days.map((one) => dayView(one, currencies.get(one.mandate_id) ?? null)),
      uncounted_from_seq: counts.uncountedFrom,
    };
  });
}

function isDay(text: string): boolean {
  if (!/^\d{4}-\d{2}-\d{2}$/.test(text)) return false;
  const at = Date.parse(`${text}T00:00:00Z`);
  return !Number.isNaN(at) && new Date(at).toISOString().startsWith(text);
}

type Body = Readonly<Record<string, unknown>>;

/** A decision as people read it: its evidence body with the amount in major units. */
function decisionView({ seq, id: receiptId, at, body }: FoundDecision) {
  const { action, code, decision, reason_text, instance, key, mandate, tool, escalation, path } = JSON.parse(
    body,
  ) as Body;
  return {
    seq,
    receipt_id: receiptId,
    at,
    path,
    decision,
    code: code ?? null,
    reason_text: reason_text ?? null,
    action: actionView(action as Body | null),
    ...(instance === undefined ? { key_id: key } : { instance_id: instance }),
    mandate: mandate === undefined ? null : pick(mandate as Body, ['id', 'version', 'status']),
    tool: tool === undefined ? null : pick(tool as Body, ['id', 'key', 'state', 'unreadable']),
    escalation_id: (escalation as Body | undefined)?.['id'] ?? null,
  };
}

function actionView(action: Body | null) {
  if (action === null) return null;
  const { type, amount, currency, counterparty } = action;
  const known = typeof currency === 'string' && isCurrency(currency) && Number.isSafeInteger(amount);
  const money =
    known && Number(amount) <= MONEY_MINOR_MAX ? { value: decimalOf(Number(amount), currency), currency } : null;
  return { type, amount: money, counterparty: counterparty ?? null };
}

function pick(value: Body, names: readonly string[]): Body {
  return Object.fromEntries(names.map((name) => [name, value[name] ?? null]));
}

function dayView(one: DayCount, currency: string | null) {
  const minor = BigInt(one.amount);
  // A sum beyond what an amount can be is told as the largest one: it is what agents asked for, not what was paid.
  const shown = minor > BigInt(MONEY_MINOR_MAX) ? MONEY_MINOR_MAX : Number(minor);
  return {
    day: one.day,
    mandate_id: one.mandate_id === '' ? null : one.mandate_id,
    decision: one.decision,
    code: one.code === '' ? null : one.code,
    decisions: one.decisions,
    amount: currency === null ? null : { value: decimalOf(shown, currency), currency },
  };
}

async function currenciesOf(sql: Sql, accountId: string, days: readonly DayCount[]): Promise<Map<string, string>> {
  const ids = [...new Set(days.map((one) => one.mandate_id))];
  const rows = await sql<{ mandate_id: string; currency: string }[]>`
    select mandate_id, currency from mandates where account_id = ${accountId} and mandate_id = any (${ids}::text[])`;
  return new Map(rows.map(({ mandate_id, currency }) => [mandate_id, currency]));
}
