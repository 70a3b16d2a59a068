import type { MandateTerms } from '../../core/mandate.ts';

/** Terms without the counterparties, which may have 44 kB: what lists are made of. */
export type ListedTerms = Omit<MandateTerms, 'counterparties'>;

/** The columns of `mandates` that {@link listedTerms} reads. */
export const LISTED_TERMS_COLUMNS = `mandate_id, version, scope, currency, per_action, per_month, escalation_threshold,
  agent_did, time_zone, epoch_ms(valid_until) as valid_until_ms, max_uses`;

/**
 * The columns of `mandates` that {@link mandateTerms} reads. Counterparties come as JSON: the runtime parses it a dozen
 * times as fast as the client does an array.
 */
export const MANDATE_TERMS_COLUMNS = `${LISTED_TERMS_COLUMNS}, to_json(counterparties) as counterparties`;

/** The terms in a row of `mandates` (columns of {@link MANDATE_TERMS_COLUMNS}); throws on a row that is not one. */
export function mandateTerms(row: Readonly<Record<string, unknown>>): MandateTerms {
  return { ...listedTerms(row), counterparties: texts(row, 'counterparties') };
}

/** The same of {@link LISTED_TERMS_COLUMNS}. */
export function listedTerms(row: Readonly<Record<string, unknown>>): ListedTerms {
  const validUntil = optionalNumber(row, 'valid_until_ms');
  return {
    mandate_id: text(row, 'mandate_id'),
    version: number(row, 'version'),
    scope: texts(row, 'scope'),
    currency: text(row, 'currency'),
    per_action: number(row, 'per_action'),
    per_month: number(row, 'per_month'),
    escalation_threshold: optionalNumber(row, 'escalation_threshold'),
    agent_did: text(row, 'agent_did'),
    time_zone: text(row, 'time_zone'),
    valid_until: validUntil === null ? null : new Date(validUntil).toISOString(),
    max_uses: optionalNumber(row, 'max_uses'),
  };
}

function text(row: Readonly<Record<string, unknown>>, column: string): string {
  const value = row[column];
  if (typeof value === 'string') return value;
  throw new TypeError(`mandates.${column} is not text`);
}

function texts(row: Readonly<Record<string, unknown>>, column: string): string[] {
  const value = row[column];
  if (Array.isArray(value) && value.every((one) => typeof one === 'string')) return value;
  throw new TypeError(`mandates.${column} is not a list of text`);
}

function number(row: Readonly<Record<string, unknown>>, column: string): number {
  const value = row[column];
  if (typeof value === 'number' && Number.isSafeInteger(value)) return value;
  throw new TypeError(`mandates.${column} is not an exact number`);
}

function optionalNumber(row: Readonly<Record<string, unknown>>, column: string): number | null {
  return row[column] === null ? null : number(row, column);
}
