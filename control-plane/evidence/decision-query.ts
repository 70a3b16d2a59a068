import { z } from 'zod';
import { currencyField } from '../../core/body-fields.ts';
import { invalidFields } from '../../core/body-value.ts';
import { DECISION_KINDS, type DecisionFilter } from '../../core/decision-search.ts';
import { DENIAL_CODES } from '../../core/denial-codes.ts';
import type { FieldProblem } from '../../core/errors.ts';
import { minorUnits } from '../../core/money.ts';
import { isTypeId, type TypeIdPrefix } from '../../core/type-id.ts';
import { wholeQuery } from '../http/query.ts';

const PAGE_MAX = 200;
const PAGE_DEFAULT = 50;
/** What the database's calendar is asked for at most. */
const LAST_MOMENT_MS = Date.UTC(9999, 11, 31);

/** Zod: an identifier of one kind; `of` names the kind to people. */
export const idQuery = (prefix: TypeIdPrefix, of: string) =>
  z.string().refine((text) => isTypeId(text, prefix), `must be the identifier of ${of} (${prefix}_…)`);
const TIME = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(?:\.\d{1,3})?(?:Z|[+-]\d{2}:\d{2})$/;
const time = z
  .string()
  .refine((text) => TIME.test(text) && !Number.isNaN(Date.parse(text)), 'must be an RFC 3339 time with a zone')
  .transform((text) => Math.min(Math.max(Date.parse(text), 0), LAST_MOMENT_MS));
const codes = DENIAL_CODES.map(([code]) => code) as [string, ...string[]];

/** What GET /admin/decisions is asked with, and the console's search: amounts in major units, times RFC 3339. */
export const searchQuery = z
  .strictObject({
    receipt: idQuery('rcp', 'a receipt').optional(),
    mandate: idQuery('mdt', 'a mandate').optional(),
    instance: idQuery('gwi', 'a gateway instance').optional(),
    key: idQuery('key', 'an API key').optional(),
    agent: z
      .string()
      .regex(/^did:key:z[1-9A-HJ-NP-Za-km-z]{40,60}$/, 'must be a did:key')
      .optional(),
    decision: z.enum(DECISION_KINDS).optional(),
    code: z.enum(codes).optional(),
    from: time.optional(),
    to: time.optional(),
    currency: currencyField.optional(),
    min_amount: z.string().max(40).optional(),
    max_amount: z.string().max(40).optional(),
    before_seq: wholeQuery(0, Number.MAX_SAFE_INTEGER).optional(),
    limit: wholeQuery(1, PAGE_MAX).default(PAGE_DEFAULT),
  })
  .refine(({ instance, key }) => instance === undefined || key === undefined, {
    path: ['key'],
    message: 'cannot be given together with instance: a decision was asked for by one of them',
  });
export type SearchQuery = z.infer<typeof searchQuery>;

/**
 * What a query asks to look for.
 *
 * @throws ProblemError 422 naming the amounts that cannot be read, or the currency that they lack
 */
export function filterOf(query: SearchQuery): DecisionFilter {
  const problems: FieldProblem[] = [];
  const minor = (field: 'min_amount' | 'max_amount'): number | undefined => {
    const text = query[field];
    if (text === undefined) return undefined;
    if (query.currency === undefined) {
      problems.push({
        field: 'currency',
        message: `must be given with ${field}: amounts of different ones do not compare`,
      });
      return undefined;
    }
    const reading = minorUnits(text, query.currency, 'major');
    if (reading.ok) return reading.minor;
    problems.push({ field, message: reading.message });
    return undefined;
  };
  const [minAmount, maxAmount] = [minor('min_amount'), minor('max_amount')];
  if (problems.length > 0) throw invalidFields(problems);
  const { receipt: receiptId, mandate: mandateId, instance, key, from: fromMs, to: toMs } = query;
  const { agent, decision, code, currency } = query;
  const amounts = { minAmount, maxAmount, currency };
  return { receiptId, mandateId, subjectId: instance ?? key, agent, decision, code, fromMs, toMs, ...amounts };
}
