import { escaped } from '../../core/html-text.ts';
import { APPROVALS_PATH } from '../console/paths.ts';
import { WORDS, type Words } from './mail-words.ts';
import type { Language } from './settings.ts';

/** A mail as it is sent, besides its addresses. */
export interface MailText {
  readonly subject: string;
  readonly text: string;
  readonly html: string;
}

/** The facts of a payload that mails show; whatever is not there is left out. */
type Data = Readonly<Record<string, unknown>>;

/** Characters of one fact: what agents and targets say must not fill a mail. */
const FACT_MAX_CHARACTERS = 200;

/**
 * The mail about a payload, in plain text and the same in simple HTML.
 *
 * `baseUrl`: where a person signs in. Names and requests come from outside: one line each, cut, and escaped in HTML.
 */
export function mailText(payload: string, language: Language, baseUrl: string): MailText {
  const { type, data } = JSON.parse(payload) as { readonly type: string; readonly data: Data };
  const words = WORDS[language];
  const { subject, sentence } = words.of(type, shown(data));
  const facts = factsOf(words, data);
  const link = linkOf(type, data, baseUrl);
  const text = [
    sentence,
    facts.map(([name, value]) => `${name}: ${value}`).join('\n'),
    link === null ? '' : `${words.link}:\n${link}`,
    words.footer,
  ]
    .filter((part) => part !== '')
    .join('\n\n');
  return { subject, text: `${text}\n`, html: htmlOf({ words, language, sentence, facts, link }) };
}

/** The values that sentences are made with, as text. */
function shown(data: Data): (name: string) => string {
  return (name) => factText(data[name]);
}

function factText(value: unknown): string {
  if (value === null || value === undefined) return '';
  const money = moneyText(value);
  const text = money ?? (Array.isArray(value) ? value.join(', ') : String(value));
  // Broken up, so that mail programs make no link of what an agent wrote beside the one that is ours.
  const line = text
    .replaceAll(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]+/gu, ' ')
    .replaceAll(/:\/\/|(?<=\bwww)\./gi, ' $& ')
    .trim();
  return line.length > FACT_MAX_CHARACTERS ? `${line.slice(0, FACT_MAX_CHARACTERS)}…` : line;
}

function moneyText(value: unknown): string | null {
  if (typeof value !== 'object' || value === null || !('value' in value)) return null;
  const { value: amount, currency } = value as { readonly value: unknown; readonly currency?: unknown };
  return typeof currency === 'string' ? `${String(amount)} ${currency}` : '–';
}

function factsOf(words: Words, data: Data): [string, string][] {
  const action = (data['action'] ?? {}) as Data;
  const request = (data['request'] ?? {}) as Data;
  const values: [keyof Words['facts'], unknown][] = [
    ['mandate', data['mandate_name']],
    ['mandate_id', data['mandate_id']],
    ['instance', data['instance_name']],
    ['action', action['type']],
    ['amount', action['amount'] ?? data['amount']],
    ['counterparty', action['counterparty']],
    ['request', request['path'] === undefined ? null : `${String(request['method'])} ${String(request['path'])}`],
    ['month', data['month']],
    ['used', data['used']],
    ['limit', data['limit']],
    ['count', data['count']],
    ['receipts', data['receipt_ids'] ?? data['receipt_id']],
    ['expires', data['expires_at']],
    ['reason', data['reason']],
    ['endpoint', data['endpoint_id']],
  ];
  return values
    .map(([name, value]): [string, string] => [words.facts[name], factText(value)])
    .filter(([, value]) => value !== '');
}

function linkOf(type: string, data: Data, baseUrl: string): string | null {
  const id = data['escalation_id'];
  if (!type.startsWith('escalation.') || typeof id !== 'string') return null;
  return `${baseUrl}${APPROVALS_PATH}/${encodeURIComponent(id)}`;
}

interface Parts {
  readonly words: Words;
  readonly language: Language;
  readonly sentence: string;
  readonly facts: readonly (readonly [string, string])[];
  readonly link: string | null;
}

function htmlOf({ words, language, sentence, facts, link }: Parts): string {
  const rows = facts.map(
    ([name, value]) => `<tr><th align="left">${escaped(name)}</th><td>${escaped(value)}</td></tr>`,
  );
  const anchor = link === null ? '' : `<p><a href="${escaped(link)}">${escaped(words.link)}</a></p>`;
  return (
    `<!doctype html><html lang="${language}"><body><p>${escaped(sentence)}</p><table>${rows.join('')}</table>` +
    `${anchor}<p><small>${escaped(words.footer)}</small></p></body></html>`
  );
}
