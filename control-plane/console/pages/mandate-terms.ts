import { isCounterparty, isScopeEntry } from '../../../core/action.ts';
import { DecimalText } from '../../../core/body-value.ts';
import { isDidKey } from '../../../core/did-key.ts';
import { ProblemError } from '../../../core/errors.ts';
import type { MandateTerms } from '../../../core/mandate.ts';
import type { WordedTerms } from '../../../core/mandate-words.ts';
import { formatMinor, isCurrency, minorUnits } from '../../../core/money.ts';
import { limitsOf, type MandateInput, mandateInput, validUntil } from '../../mandates/input.ts';
import { ticked } from '../form.ts';
import type { FormState } from '../parts/form-parts.ts';
import type { SignedInVisit } from '../visit.ts';
import type { Language, Words } from '../words.ts';

/** The parts of a mandate's form, in the order in which they are asked. */
export const TERM_STEPS = ['agent', 'actions', 'limits', 'conditions'] as const;
export type TermStep = (typeof TERM_STEPS)[number];

type Values = Readonly<Record<string, string>>;
type Problems = Words['wizard']['problems'];

/** What part of a form says: its errors by field, and its values as the admin API takes them. */
export interface TermsReading {
  readonly errors: Readonly<Record<string, string>>;
  readonly input: Partial<MandateInput>;
}

/** The fields that hold a form's terms; what a page does not ask for it carries along. */
export const TERM_FIELDS = [
  'name',
  'agent_kind',
  'agent_did',
  'scope',
  'per_action',
  'per_month',
  'currency',
  'time_zone',
  'threshold',
  'counterparties',
  'valid_day',
  'valid_time',
  'max_uses',
] as const;

const SCOPE_MAX_ENTRIES = 100;
const NAME_MAX_CHARACTERS = 200;
const USES_MAX = 1_000_000_000;
/** What a text in an error may repeat, in characters. */
const ECHO_MAX_CHARACTERS = 60;
const DID_CHARACTERS = 56;

/** Reads some parts of the form; every field that cannot be accepted has its error, and the rest is read. */
export async function readTerms(
  visit: SignedInVisit,
  values: Values,
  steps: readonly TermStep[] = TERM_STEPS,
): Promise<TermsReading> {
  const problems = visit.words.wizard.problems;
  const read = {
    agent: async () => readAgent(values, problems),
    actions: async () => readActions(values, problems),
    limits: async () => readLimits(values, problems, visit.language),
    conditions: () => readConditions(visit, values, problems),
  };
  const parts = await Promise.all(steps.map((step) => read[step]()));
  return {
    errors: Object.assign(Object.create(null), ...parts.map(({ errors }) => errors)),
    input: Object.assign({}, ...parts.map(({ input }) => input)),
  };
}

/** The whole form as the admin API takes it; null with errors where it cannot be, as only a form of nobody's does. */
export function completeInput(input: Partial<MandateInput>): MandateInput | null {
  const { max_uses: uses } = input;
  const digits = uses === null || uses === undefined ? null : new DecimalText(String(uses));
  const parsed = mandateInput.safeParse({ ...input, max_uses: digits });
  return parsed.success ? parsed.data : null;
}

/** The terms of an input without the names that only the service gives; @throws ProblemError 422 */
export function wordedTerms(input: MandateInput, nowMs: number): WordedTerms {
  const { scope, currency, counterparties, agent_did, time_zone } = input;
  const end = validUntil(input, nowMs);
  const given = { scope, currency, counterparties, agent_did, time_zone };
  return { ...given, ...limitsOf(input), valid_until: end, max_uses: input.max_uses ?? null };
}

/** The values with everything that is allowed in one field, as pages that do not ask for it carry it along. */
export function carriedValues(values: Values): Record<string, string> {
  const kept: Record<string, string> = Object.create(null);
  for (const [name, value] of Object.entries(values)) {
    if (name !== 'more' && !name.startsWith('pick[')) kept[name] = value;
  }
  return { ...kept, scope: scopeEntries(values).join('\n') };
}

/** Every action type that a form names, once: carried along, ticked, or typed. */
export function scopeEntries(values: Values): string[] {
  const typed = `${values['scope'] ?? ''}\n${values['more'] ?? ''}`.split(/[\s,;]+/);
  return [...new Set([...typed, ...ticked(values, 'pick')].filter((entry) => entry !== ''))];
}

/** What a form shows of a mandate that there is. */
export function valuesOf(terms: MandateTerms, language: Language): Record<string, string> {
  const amount = (minor: number | null) => (minor === null ? '' : amountText(language, minor, terms.currency));
  const { day, time } = untilParts(terms.valid_until, terms.time_zone);
  return {
    ...{ scope: terms.scope.join('\n'), counterparties: terms.counterparties.join('\n') },
    ...{ per_action: amount(terms.per_action), per_month: amount(terms.per_month) },
    ...{ threshold: amount(terms.escalation_threshold), currency: terms.currency, time_zone: terms.time_zone },
    ...{ valid_day: day, valid_time: time, max_uses: terms.max_uses === null ? '' : String(terms.max_uses) },
  };
}

/** The end of a mandate as its form shows it; midnight is the end of the day before. */
export function untilParts(until: string | null, timeZone: string): { readonly day: string; readonly time: string } {
  if (until === null) return { day: '', time: '' };
  const format = new Intl.DateTimeFormat('en-CA', {
    ...{ timeZone, hourCycle: 'h23', year: 'numeric', month: '2-digit' },
    ...{ day: '2-digit', hour: '2-digit', minute: '2-digit' },
  });
  const partsAt = (ms: number) => {
    const part = new Map(format.formatToParts(ms).map(({ type, value }) => [type, value]));
    const day = `${part.get('year')}-${part.get('month')}-${part.get('day')}`;
    return { day, time: `${part.get('hour')}:${part.get('minute')}` };
  };
  const at = Date.parse(until);
  const own = partsAt(at);
  return own.time === '00:00' ? { day: partsAt(at - 1).day, time: '' } : own;
}

/** A form again with what a noun's 422 says, at the fields of the form. @throws whatever is none */
export function refusedTerms(visit: SignedInVisit, values: Values, error: unknown): FormState {
  if (!(error instanceof ProblemError) || error.code !== 'invalid') throw error;
  const { problems } = visit.words.wizard;
  const errors: Record<string, string> = Object.create(null);
  for (const { field } of error.fields) {
    const [name, text] = FIELD_OF[field.split(/[.[]/, 1)[0] ?? ''] ?? ['name', 'other'];
    const said = problems[text];
    errors[name] ??= typeof said === 'string' ? said : problems.other;
  }
  return { values, errors };
}

const FIELD_OF: Readonly<Record<string, readonly [field: string, problem: keyof Problems]>> = {
  name: ['name', 'name'],
  agent_did: ['agent_did', 'didKey'],
  scope: ['scope', 'scopeEmpty'],
  amount_limit_per_action: ['per_action', 'amount'],
  amount_limit_per_month: ['per_month', 'amount'],
  escalation_threshold: ['threshold', 'amount'],
  currency: ['currency', 'currency'],
  time_zone: ['time_zone', 'zone'],
  counterparties: ['counterparties', 'counterparties'],
  valid_until: ['valid_day', 'past'],
  max_uses: ['max_uses', 'usesUsed'],
  reason: ['reason', 'other'],
};

function readAgent(values: Values, problems: Problems): TermsReading {
  const errors: Record<string, string> = {};
  const name = (values['name'] ?? '').trim();
  if (!isLine(name, NAME_MAX_CHARACTERS)) errors['name'] = problems.name;
  const kind = values['agent_kind'];
  const did = kind === 'own' ? (values['agent_did'] ?? '').trim() : '';
  if (kind !== 'own' && kind !== 'custody') errors['agent_kind'] = problems.kind;
  const wrong = kind === 'own' ? didProblem(did, problems) : null;
  if (wrong !== null) errors['agent_did'] = wrong;
  return { errors, input: { name, agent_did: did } };
}

/** Why a text is not the did:key of an Ed25519 key, for whoever typed or pasted it; null where it is one. */
export function didProblem(did: string, problems: Problems): string | null {
  if (isDidKey(did)) return null;
  if (did === '') return problems.didEmpty;
  if (!did.startsWith('did:key:')) return problems.didScheme;
  if (/[#?/]/.test(did)) return problems.didExtra;
  if (/^did:key:z(?!6Mk)[1-9A-HJ-NP-Za-km-z]{3}/.test(did)) return problems.didType;
  if (!/^did:key:z[1-9A-HJ-NP-Za-km-z]*$/.test(did)) return problems.didCharacters;
  return did.length === DID_CHARACTERS ? problems.didKey : problems.didLength(did.length);
}

function readActions(values: Values, problems: Problems): TermsReading {
  const scope = scopeEntries(values);
  const wrong = scope.find((entry) => !isScopeEntry(entry));
  const error =
    scope.length === 0
      ? problems.scopeEmpty
      : wrong !== undefined
        ? problems.scopeEntry(echo(wrong))
        : scope.length > SCOPE_MAX_ENTRIES
          ? problems.scopeMany(SCOPE_MAX_ENTRIES)
          : null;
  return { errors: error === null ? {} : { scope: error }, input: { scope } };
}

function readLimits(values: Values, problems: Problems, language: Language): TermsReading {
  const errors: Record<string, string> = {};
  const currency = values['currency'] ?? '';
  if (!isCurrency(currency)) errors['currency'] = problems.currency;
  const zone = values['time_zone'] ?? '';
  if (!TIME_ZONES.has(zone)) errors['time_zone'] = problems.zone;
  const amount = (field: 'per_action' | 'per_month' | 'threshold'): DecimalText | null => {
    const typed = (values[field] ?? '').trim();
    const text = language === 'de' && /^\d+,\d+$/.test(typed) ? typed.replace(',', '.') : typed;
    if (text === '') {
      if (field !== 'threshold') errors[field] = problems.amountEmpty;
      return null;
    }
    const reading = minorUnits(text, isCurrency(currency) ? currency : 'EUR', 'major');
    if (reading.ok) return new DecimalText(text);
    const { problem } = reading;
    if (problem === 'too_many_decimals') errors[field] = problems.amountDecimals(currency);
    else errors[field] = problem === 'out_of_range' ? problems.amountRange : problems.amount;
    return null;
  };
  const [perAction, perMonth] = [amount('per_action'), amount('per_month')];
  return {
    errors,
    input: {
      ...{ currency, time_zone: zone, escalation_threshold: amount('threshold') },
      ...(perAction === null ? {} : { amount_limit_per_action: perAction }),
      ...(perMonth === null ? {} : { amount_limit_per_month: perMonth }),
    },
  };
}

async function readConditions(visit: SignedInVisit, values: Values, problems: Problems): Promise<TermsReading> {
  const errors: Record<string, string> = {};
  const lines = (values['counterparties'] ?? '').split(/\r?\n/).map((line) => line.trim().normalize('NFC'));
  const counterparties = [...new Set(lines.filter((line) => line !== ''))];
  const wrong = counterparties.find((name) => !isCounterparty(name));
  if (wrong !== undefined) errors['counterparties'] = problems.counterparty(echo(wrong));
  else if (!mandateInput.shape.counterparties.safeParse(counterparties).success) {
    errors['counterparties'] = problems.counterparties;
  }
  const typed = (values['max_uses'] ?? '').trim();
  const uses = typed === '' ? null : /^[1-9][0-9]{0,9}$/.test(typed) ? Number(typed) : Number.NaN;
  if (uses !== null && !(uses <= USES_MAX)) errors['max_uses'] = problems.uses;
  const until = await readUntil(visit, values, problems, errors);
  return { errors, input: { counterparties, valid_until: until, max_uses: uses } };
}

/** The moment that a day and a time name in the mandate's zone; the database knows when that is. */
async function readUntil(
  { deps, session }: SignedInVisit,
  values: Values,
  problems: Problems,
  errors: Record<string, string>,
): Promise<string | null> {
  const [day, time] = [(values['valid_day'] ?? '').trim(), (values['valid_time'] ?? '').trim()];
  if (day === '') {
    if (time !== '') errors['valid_day'] = problems.timeAlone;
    return null;
  }
  if (!isDay(day)) errors['valid_day'] = problems.day;
  if (!/^(?:(?:[01]\d|2[0-3]):[0-5]\d)?$/.test(time)) errors['valid_time'] = problems.time;
  const zone = values['time_zone'] ?? '';
  if (errors['valid_day'] !== undefined || errors['valid_time'] !== undefined || !isZone(zone)) return null;
  const [row] = await deps.sql<{ at: number }[]>`
    select epoch_ms((${day}::text::date + ${time === '' ? '24:00' : time}::text::time) at time zone ${zone}) as at`;
  const at = Number(row?.at ?? 0);
  if (at <= session.nowMs) errors['valid_day'] = problems.past;
  return new Date(at).toISOString();
}

/** A calendar day that exists, within what people date things by. */
function isDay(text: string): boolean {
  if (!/^(?:19[7-9]\d|[2-8]\d{3}|9[0-8]\d{2})-\d{2}-\d{2}$/.test(text)) return false;
  const at = Date.parse(`${text}T00:00:00Z`);
  return !Number.isNaN(at) && new Date(at).toISOString().startsWith(text);
}

/** The zones that a form offers. */
export const TIME_ZONES: ReadonlySet<string> = new Set(['UTC', ...Intl.supportedValuesOf('timeZone')]);

/** Zones of mandates that there are may have names that no form offers. */
function isZone(zone: string): boolean {
  if (TIME_ZONES.has(zone)) return true;
  return mandateInput.shape.time_zone.safeParse(zone).success;
}

/** An amount as people of a language type it. */
export function amountText(language: Language, minor: number, currency: string): string {
  const text = formatMinor(minor, currency);
  return language === 'de' ? text.replace('.', ',') : text;
}

function isLine(text: string, max: number): boolean {
  return text !== '' && text.length <= max && text.isWellFormed() && !/\p{Cc}/u.test(text);
}

function echo(text: string): string {
  return text.length > ECHO_MAX_CHARACTERS ? `${text.slice(0, ECHO_MAX_CHARACTERS)}…`.toWellFormed() : text;
}
