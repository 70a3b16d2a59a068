import { hash } from 'node:crypto';
import type { MandateTerms } from './mandate.ts';
import { formatMinor } from './money.ts';

/** The languages that a mandate can be read in. */
export const WORDING_LANGUAGES = ['en', 'de'] as const;
export type WordingLanguage = (typeof WORDING_LANGUAGES)[number];

/** What is put into words: the terms without the names that only the service gives. */
export type WordedTerms = Omit<MandateTerms, 'mandate_id' | 'version'>;

/** What a person was shown and agreed to, as evidence names it: hex SHA-256 of its UTF-8 text. */
export interface Wording {
  readonly language: WordingLanguage;
  readonly sha256: string;
}

/**
 * A mandate in plain sentences, one a line, for a person to read before agreeing to it.
 *
 * Says every term, in words that depend on nothing but the terms: the same terms always make the same text. No value
 * can add a line: what a list names stands on lines of its own, each after a dash.
 */
export function mandateWords(terms: WordedTerms, language: WordingLanguage): string {
  const lines = language === 'de' ? german(terms) : english(terms);
  return lines.flat().join('\n');
}

/** What evidence says of a wording that was shown. */
export function wordingOf(text: string, language: WordingLanguage): Wording {
  return { language, sha256: hash('sha256', text, 'hex') };
}

type Lines = readonly (string | readonly string[])[];

function english(terms: WordedTerms): Lines {
  const { agent_did: agent, time_zone: zone, counterparties, max_uses: uses, escalation_threshold: threshold } = terms;
  const money = (minor: number) => moneyText(minor, terms.currency, ',', '.');
  return [
    agent === ''
      ? 'The agent acts with a key that this service holds for it, or through a gateway of yours.'
      : `Only the agent with this key may act: ${agent}`,
    'It may do this, and nothing else:',
    list(terms.scope, (prefix) => `everything below ${prefix}`),
    `One action may cost at most ${money(terms.per_action)}.`,
    `All actions of a calendar month (time zone ${zone}) together may cost at most ${money(terms.per_month)}.`,
    threshold === null ? 'No action waits for a human.' : `Above ${money(threshold)} a human must approve each action.`,
    ...(counterparties.length === 0
      ? ['It may deal with anybody.']
      : ['It may deal with these only, written exactly so:', list(counterparties)]),
    uses === null
      ? 'It may act as often as the limits allow.'
      : `It may act at most ${counted(uses, 'time', 'times')}.`,
    terms.valid_until === null
      ? 'The mandate has no end; you can suspend or revoke it at any moment.'
      : `The mandate ends on ${momentText(terms.valid_until, 'at')}; you can suspend or revoke it before.`,
  ];
}

function german(terms: WordedTerms): Lines {
  const { agent_did: agent, time_zone: zone, counterparties, max_uses: uses, escalation_threshold: threshold } = terms;
  const money = (minor: number) => moneyText(minor, terms.currency, '.', ',');
  const perMonth = money(terms.per_month);
  return [
    agent === ''
      ? 'Der Agent handelt mit einem Schlüssel, den dieser Dienst für ihn verwahrt, oder über eines Ihrer Gateways.'
      : `Nur der Agent mit diesem Schlüssel darf handeln: ${agent}`,
    'Er darf dies und nichts anderes:',
    list(terms.scope, (prefix) => `alles unterhalb von ${prefix}`),
    `Eine Handlung darf höchstens ${money(terms.per_action)} kosten.`,
    `Alle Handlungen eines Kalendermonats (Zeitzone ${zone}) dürfen zusammen höchstens ${perMonth} kosten.`,
    threshold === null
      ? 'Keine Handlung wartet auf einen Menschen.'
      : `Über ${money(threshold)} muss ein Mensch jede Handlung genehmigen.`,
    ...(counterparties.length === 0
      ? ['Er darf mit allen zu tun haben.']
      : ['Er darf nur mit diesen zu tun haben, genau so geschrieben:', list(counterparties)]),
    uses === null ? 'Er darf so oft handeln, wie es die Grenzen erlauben.' : `Er darf höchstens ${uses}-mal handeln.`,
    terms.valid_until === null
      ? 'Das Mandat hat kein Ende; Sie können es jederzeit aussetzen oder widerrufen.'
      : `Das Mandat endet am ${momentText(terms.valid_until, 'um')}; Sie können es vorher aussetzen oder widerrufen.`,
  ];
}

function list(values: readonly string[], below?: (prefix: string) => string): string[] {
  return values.map((value) => {
    const prefix = below !== undefined && value.endsWith('.*') ? value.slice(0, -2) : null;
    return prefix === null || below === undefined ? `- ${value}` : `- ${value} (${below(prefix)})`;
  });
}

function counted(number: number, one: string, many: string): string {
  return `${number} ${number === 1 ? one : many}`;
}

/** With all decimals of the currency, thousands apart: `1,250.00 EUR`, `1.250,00 EUR`. */
function moneyText(minor: number, currency: string, thousands: string, point: string): string {
  const [whole = '', decimals] = formatMinor(minor, currency).split('.');
  const apart = whole.replaceAll(/\B(?=(?:\d{3})+$)/g, thousands);
  return `${apart}${decimals === undefined ? '' : point + decimals} ${currency}`;
}

/** `2030-01-31 at 23:59:59 UTC`; parts of a second only where there are any. */
function momentText(at: string, word: string): string {
  return `${at.slice(0, 10)} ${word} ${at.slice(11, -1).replace(/\.000$/, '')} UTC`;
}
