import type { Command } from 'commander';
import type { JsonRecord } from '../admin-client.ts';
import { type Invocation, recordOf, recordsOf } from '../invocation.ts';
import { table } from '../output.ts';

/** The options of a search and the parameter that each one is. */
const OPTIONS = [
  ['--receipt <id>', 'receipt', 'the decision of this receipt (rcp_…)'],
  ['--mandate <id>', 'mandate', 'decided under this mandate (mdt_…)'],
  ['--instance <id>', 'instance', 'asked through this gateway instance (gwi_…)'],
  ['--key <id>', 'key', 'asked with this API key (key_…)'],
  ['--agent <did>', 'agent', 'signed by this agent (did:key:…)'],
  ['--decision <kind>', 'decision', 'allow, deny or escalate'],
  ['--code <code>', 'code', 'denied with this code, such as MD-302'],
  ['--from <time>', 'from', 'at this time or later, RFC 3339'],
  ['--to <time>', 'to', 'before this time, RFC 3339'],
  ['--currency <code>', 'currency', 'in this currency'],
  ['--min-amount <amount>', 'min_amount', 'of at least this amount; needs --currency'],
  ['--max-amount <amount>', 'max_amount', 'of at most this amount; needs --currency'],
  ['--before-seq <n>', 'before_seq', 'go on below this entry (`next_before_seq` of the page before)'],
  ['--limit <n>', 'limit', 'at most so many'],
] as const;

/** `mandate evidence search`: decisions by what is known of them, the newest first. */
export function registerSearch(evidence: Command, invocation: Invocation): void {
  const search = evidence.command('search').description('find decisions, the newest first');
  for (const [flags, , description] of OPTIONS) search.option(flags, description);
  search.action(async (options: Readonly<Record<string, string | undefined>>) => {
    const query = new URLSearchParams();
    for (const [, name] of OPTIONS) {
      const value = options[name.replaceAll(/_([a-z])/g, (_, letter: string) => letter.toUpperCase())];
      if (value !== undefined) query.set(name, value);
    }
    const path = `/admin/decisions${query.size > 0 ? `?${query}` : ''}`;
    invocation.show(await (await invocation.client()).get(path), decisionTable);
  });
}

function decisionTable(value: JsonRecord): string {
  const decisions = recordsOf(value, 'decisions');
  const next = value['next_before_seq'];
  const more = typeof next === 'number' ? `\nThere may be more: mandate evidence search … --before-seq ${next}\n` : '';
  if (decisions.length === 0) return more === '' ? 'No decision matches.\n' : `No decision matches so far.\n${more}`;
  const rows = decisions.map((one) => {
    const action = recordOf(one, 'action');
    const { value: amount = '', currency = '' } = recordOf(action, 'amount');
    const asked = [action['type'], amount, currency, action['counterparty']];
    return [one['seq'], one['at'], one['decision'], one['code'], ...asked, one['receipt_id']];
  });
  const head = ['seq', 'at', 'decision', 'code', 'action type', 'amount', '', 'counterparty', 'receipt'];
  return table(head, rows, [0, 5]) + more;
}
