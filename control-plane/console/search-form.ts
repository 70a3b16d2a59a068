import { invalidFields } from '../../core/body-value.ts';
import type { DecisionFilter } from '../../core/decision-search.ts';
import { ProblemError } from '../../core/errors.ts';
import { filterOf, searchQuery } from '../evidence/decision-query.ts';
import type { FormState } from './parts/form-parts.ts';
import type { Visit } from './visit.ts';
import type { Words } from './words.ts';

/** The names in the address of a search; `before` goes on below an entry. */
const NAMES: ReadonlySet<string> = new Set([
  'receipt',
  'agent',
  'mandate',
  'subject',
  'code',
  'decision',
  'from',
  'to',
  'currency',
  'min_amount',
  'max_amount',
  'before',
]);

/** A search as its address has it; where it cannot be read, `state` says why, and nothing is looked for. */
export interface EvidenceSearch {
  readonly ok: boolean;
  readonly state: FormState;
  readonly filter: DecisionFilter;
  readonly before: number | null;
  /** Whether there is any condition. */
  readonly narrowed: boolean;
}

/**
 * Reads what the search is asked; fields that were left empty are none.
 *
 * @throws ProblemError 422 for a name that the search does not know, or one that is given twice
 */
export function readEvidenceSearch({ request, words }: Pick<Visit, 'request' | 'words'>): EvidenceSearch {
  const values: Record<string, string> = {};
  for (const [name, value] of Object.entries(request.query as Readonly<Record<string, unknown>>)) {
    if (!NAMES.has(name)) throw invalidFields([{ field: name, message: 'is not known to the search' }]);
    if (typeof value !== 'string') throw invalidFields([{ field: name, message: 'must be given once' }]);
    if (value.trim() !== '') values[name] = value.trim();
  }
  const narrowed = Object.keys(values).some((name) => name !== 'before');
  const parsed = searchQuery.safeParse(queryOf(values));
  if (!parsed.success) {
    return refused(
      words,
      values,
      parsed.error.issues.map(({ path }) => String(path[0])),
    );
  }
  try {
    const filter = filterOf(parsed.data);
    return { ok: true, state: { values, errors: {} }, filter, before: parsed.data.before_seq ?? null, narrowed };
  } catch (error) {
    if (!(error instanceof ProblemError) || error.code !== 'invalid') throw error;
    return refused(
      words,
      values,
      error.fields.map(({ field }) => field),
    );
  }
}

/** The form's values as the API's search has them. */
function queryOf(values: Readonly<Record<string, string>>): Record<string, string> {
  const { subject, before, from, to, currency, min_amount, max_amount, ...same } = values;
  const given = {
    ...(subject?.startsWith('key_') ? { key: subject } : { instance: subject }),
    before_seq: before,
    from: from === undefined ? undefined : momentOf(from),
    to: to === undefined ? undefined : momentOf(to),
    currency: currency?.toUpperCase(),
    min_amount: min_amount === undefined ? undefined : decimalPoint(min_amount),
    max_amount: max_amount === undefined ? undefined : decimalPoint(max_amount),
  };
  const known = Object.entries(given).flatMap(([name, value]) => (value === undefined ? [] : [[name, value] as const]));
  return { ...same, ...Object.fromEntries(known) };
}

/** A day, or a day and a time, in UTC; whatever else it is is left for the search to refuse. */
function momentOf(text: string): string {
  const [, day, minute, second = ':00'] = /^(\d{4}-\d{2}-\d{2})(?:[T ](\d{2}:\d{2})(:\d{2})?)?$/.exec(text) ?? [];
  if (day === undefined) return text;
  const start = new Date(`${day}T00:00:00Z`);
  const exists = !Number.isNaN(start.getTime()) && start.toISOString().startsWith(day);
  return exists ? `${day}T${minute ?? '00:00'}${second}Z` : text;
}

/** `19,90` is how half of Europe writes 19.90; a text with both is refused. */
function decimalPoint(text: string): string {
  return text.includes('.') ? text : text.replace(',', '.');
}

function refused(words: Words, values: Readonly<Record<string, string>>, fields: readonly string[]): EvidenceSearch {
  const errors: Record<string, string> = Object.create(null);
  for (const field of fields) {
    const [name, problem] = problemOf(words, values, field);
    errors[name] ??= problem;
  }
  return { ok: false, state: { values, errors }, filter: {}, before: null, narrowed: true };
}

function problemOf(
  { evidence: { problems } }: Words,
  values: Readonly<Record<string, string>>,
  field: string,
): readonly [name: string, problem: string] {
  switch (field) {
    case 'instance':
    case 'key':
      return ['subject', problems.subject];
    case 'from':
    case 'to':
      return [field, problems.time];
    case 'min_amount':
    case 'max_amount':
      return [field, problems.amount];
    case 'currency':
      return [field, values['currency'] === undefined ? problems.currencyMissing : problems.currency];
    case 'receipt':
    case 'agent':
    case 'mandate':
    case 'code':
    case 'decision':
      return [field, problems[field]];
    default:
      return ['before', problems.before];
  }
}
