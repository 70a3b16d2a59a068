import type { FastifyInstance } from 'fastify';
import { z } from 'zod';
import { decimalText, invalidFields } from '../../core/body-value.ts';
import type { FieldProblem } from '../../core/errors.ts';
import { minorUnits } from '../../core/money.ts';
import type { ReplayChanges } from '../../core/replay.ts';
import { parseTimestamp } from '../../core/timestamp.ts';
import { accountOf } from '../admin/session.ts';
import { longReads } from '../evidence/long-reads.ts';
import type { RouteDependencies } from '../http/dependencies.ts';
import { idParam, readBody, wholeNumber } from '../http/request.ts';
import { mandateInput } from './input.ts';
import { replayable, replayMandate } from './replay.ts';

const CHANGES_MAX = 200;
const CHANGES_DEFAULT = 20;

const time = z
  .string()
  .transform((text) => parseTimestamp(text))
  .refine((ms) => ms !== null, 'must be an RFC 3339 time in UTC, such as 2030-01-31T00:00:00Z')
  .transform((ms) => new Date(ms ?? 0).toISOString());

const { scope, counterparties } = mandateInput.shape;

/** Limits that are left out stay as they were; a threshold of null is none. */
const replayBody = z.strictObject({
  scope: scope.optional(),
  amount_limit_per_action: decimalText.optional(),
  amount_limit_per_month: decimalText.optional(),
  escalation_threshold: decimalText.nullable().optional(),
  counterparties: counterparties.unwrap().optional(),
  from: time.optional(),
  to: time.optional(),
  changes: wholeNumber(0, CHANGES_MAX).default(CHANGES_DEFAULT),
});
type ReplayInput = z.infer<typeof replayBody>;

/** POST /admin/mandates/<id>/replay: what would have been decided under other limits; nothing is changed by it. */
export function registerReplayRoutes(app: FastifyInstance, deps: RouteDependencies): void {
  const reads = longReads(deps);
  app.post('/admin/mandates/:id/replay', async (request, reply) => {
    const input = readBody(request, replayBody);
    const [accountId, mandateId] = [accountOf(request), idParam(request, 'mdt')];
    const found = await replayable(deps.sql, accountId, mandateId);
    const changes = changesOf(input, found.terms.currency);
    const [from, to] = [input.from ?? null, input.to ?? null];
    if (from !== null && from >= (to ?? found.now))
      throw invalidFields([{ field: 'from', message: 'must be before to' }]);
    if (to !== null && to <= (from ?? found.monthBegan)) {
      throw invalidFields([{ field: 'to', message: 'must be after from, which is the beginning of this month' }]);
    }
    const read = reads.take(accountId, null);
    const gone = new AbortController();
    reply.raw.once('close', () => gone.abort());
    try {
      const asked = { accountId, mandateId, changes, from, to, changesMax: input.changes };
      return await replayMandate(deps.sql, asked, found, { read, signal: gone.signal });
    } finally {
      read.end();
    }
  });
}

/** Amounts in minor units of the mandate's currency; @throws ProblemError 422 naming each that is none. */
function changesOf(input: ReplayInput, currency: string): ReplayChanges {
  const problems: FieldProblem[] = [];
  const minor = (field: 'amount_limit_per_action' | 'amount_limit_per_month' | 'escalation_threshold') => {
    const amount = input[field];
    if (amount === undefined || amount === null) return amount;
    const reading = minorUnits(amount.text, currency, 'major');
    if (reading.ok) return reading.minor;
    problems.push({ field, message: reading.message });
    return undefined;
  };
  const changes = {
    scope: input.scope,
    counterparties: input.counterparties,
    per_action: minor('amount_limit_per_action') ?? undefined,
    per_month: minor('amount_limit_per_month') ?? undefined,
    escalation_threshold: minor('escalation_threshold'),
  };
  if (problems.length > 0) throw invalidFields(problems);
  return Object.fromEntries(Object.entries(changes).filter(([, value]) => value !== undefined)) as ReplayChanges;
}
