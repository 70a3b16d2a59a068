import type { MandateTerms } from './mandate.ts';
import { decimalOf } from './money.ts';

/** A term as people read it: amounts in major units. */
export type TermValue = string | number | null | readonly string[];

/** One term that two versions of a mandate have differently. */
export interface TermChange {
  readonly field: string;
  readonly before: TermValue;
  readonly after: TermValue;
}

/** What differs between two versions of a mandate, in the names and units of the admin API, in its order. */
export function mandateChanges(before: MandateTerms, after: MandateTerms): TermChange[] {
  const [old, now] = [termsView(before), termsView(after)];
  return Object.keys(now).flatMap((field): TermChange[] => {
    const [one, other] = [old[field] ?? null, now[field] ?? null];
    return JSON.stringify(one) === JSON.stringify(other) ? [] : [{ field, before: one, after: other }];
  });
}

/** The terms of a mandate in the names and units of the admin API. */
export function termsView(terms: MandateTerms): Readonly<Record<string, TermValue>> {
  const money = (minor: number | null) => (minor === null ? null : decimalOf(minor, terms.currency));
  return {
    scope: terms.scope,
    amount_limit_per_action: money(terms.per_action),
    amount_limit_per_month: money(terms.per_month),
    escalation_threshold: money(terms.escalation_threshold),
    currency: terms.currency,
    counterparties: terms.counterparties,
    agent_did: terms.agent_did,
    time_zone: terms.time_zone,
    valid_until: terms.valid_until,
    max_uses: terms.max_uses,
  };
}
