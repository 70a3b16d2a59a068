import type { Command } from 'commander';
import type { JsonRecord } from '../admin-client.ts';
import { usageError } from '../cli-error.ts';
import { type Invocation, recordOf, recordsOf } from '../invocation.ts';
import { amountText, bodyText, type JsonText, wholeText } from '../json-text.ts';
import { cell, fields, table } from '../output.ts';
import { collect, commaList, idArgument } from './arguments.ts';

/** Cells of the longest bar. */
const BAR_CELLS = 40;

interface ReplayOptions {
  readonly scope?: string[];
  readonly perAction?: string;
  readonly perMonth?: string;
  readonly threshold?: string;
  readonly counterparty?: string[];
  readonly anyCounterparty?: true;
  readonly from?: string;
  readonly to?: string;
  readonly changes?: string;
}

const HELP = `
Nothing is changed by it. Months are counted anew in order: an action that would have been allowed counts in full, one
that would not have been counts nothing. A repeat of an action that was escalated and would have been allowed is left
out ("not asked"). What a human would have said to a new escalation is not guessed: it counts nothing.

Example: mandate mandates replay mdt_… --per-month 2000 --threshold 250 --from 2026-01-01T00:00:00Z
`;

/** `mandate mandates replay <id>`: what would have been decided under other limits. */
export function registerReplay(mandates: Command, invocation: Invocation): void {
  mandates
    .command('replay')
    .argument('<id>', 'mandate (mdt_…)')
    .description('decide a period again under other limits, and show what would have changed')
    .option('--scope <types>', 'other action types, comma-separated', commaList)
    .option('--per-action <amount>', 'another limit per action')
    .option('--per-month <amount>', 'another limit per month')
    .option('--threshold <amount>', 'ask a human above this; none: never')
    .option('--counterparty <name>', 'an allowed counterparty; repeat for more', collect)
    .option('--any-counterparty', 'allow any counterparty')
    .option('--from <time>', 'beginning of the period, RFC 3339 (default: this month)')
    .option('--to <time>', 'end of the period, itself not included (default: now)')
    .option('--changes <n>', 'show at most so many decisions that change (default 20)')
    .addHelpText('after', HELP)
    .action(async (id: string, options: ReplayOptions) => {
      const path = `/admin/mandates/${idArgument(id, 'mdt')}/replay`;
      invocation.show(await (await invocation.client()).send('POST', path, replayBody(options)), replayText);
    });
}

function replayBody(options: ReplayOptions): string {
  if (options.anyCounterparty === true && options.counterparty !== undefined) {
    throw usageError('Give either --counterparty or --any-counterparty.');
  }
  const amount = (option: string, value: string | undefined): JsonText | undefined =>
    value === undefined ? undefined : amountText(option, value);
  return bodyText({
    scope: options.scope,
    amount_limit_per_action: amount('--per-action', options.perAction),
    amount_limit_per_month: amount('--per-month', options.perMonth),
    escalation_threshold: options.threshold === 'none' ? null : amount('--threshold', options.threshold),
    counterparties: options.anyCounterparty === true ? [] : options.counterparty,
    from: options.from,
    to: options.to,
    changes: options.changes === undefined ? undefined : wholeText('--changes', options.changes),
  });
}

function replayText(value: JsonRecord): string {
  const currency = cell(value['currency']);
  const [period, allowed] = [recordOf(value, 'period'), recordOf(value, 'allowed')];
  const unreplayed = Number(value['unreplayed']);
  return [
    fields([
      ['period', `${cell(period['from'])} to ${cell(period['to'])}`],
      ['decisions', `${cell(value['decisions'])}, of which ${cell(value['changed'])} change`],
      ['allowed', `${sum(allowed['recorded'])} ${currency}, would be ${sum(allowed['replayed'])} ${currency}`],
      ['not replayed', unreplayed > 0 ? `${unreplayed} (their terms or codes are not known here)` : ''],
    ]),
    countTable(recordsOf(value, 'counts')),
    dayChart(recordsOf(value, 'days')),
    changeTable(recordsOf(value, 'changes'), Number(value['changed'])),
  ]
    .filter((part) => part !== '')
    .join('\n');
}

function sum(amount: unknown): string {
  return amount === null ? 'more than can be shown' : cell(amount);
}

function verdict(value: JsonRecord, name: string): string {
  const { decision, code } = recordOf(value, name);
  return [cell(decision).replace('_', ' '), cell(code)].filter((part) => part !== '').join(' ');
}

function countTable(counts: readonly JsonRecord[]): string {
  const rows = counts.map((one) => {
    const [was, is] = [verdict(one, 'recorded'), verdict(one, 'replayed')];
    return [was, is === was ? '=' : is, one['count'], sum(one['amount'])];
  });
  return rows.length === 0 ? '' : table(['was', 'would be', 'decisions', 'amount'], rows, [2, 3]);
}

/** A bar a day: # what was allowed and would be, - what would not be any more, + what would be besides. */
function dayChart(days: readonly JsonRecord[]): string {
  const sums = days.map((day) => ({ day, recorded: Number(day['recorded']), replayed: Number(day['replayed']) }));
  const most = Math.max(...sums.map(({ recorded, replayed }) => Math.max(recorded, replayed)));
  if (!(most > 0)) return '';
  const cells = (amount: number): number => Math.ceil((amount / most) * BAR_CELLS);
  const lines = sums.map(({ day, recorded, replayed }) => {
    const [was, is] = [cells(recorded), cells(replayed)];
    const bar = '#'.repeat(Math.min(was, is)) + '-'.repeat(Math.max(0, was - is)) + '+'.repeat(Math.max(0, is - was));
    return `${cell(day['day'])}  ${bar.padEnd(BAR_CELLS)}  ${sum(day['recorded'])} -> ${sum(day['replayed'])}\n`;
  });
  return `Allowed a day (# still, - no more, + besides):\n${lines.join('')}`;
}

function changeTable(changes: readonly JsonRecord[], changed: number): string {
  if (changes.length === 0) return '';
  const rows = changes.map((one) => [
    one['at'],
    one['receipt_id'],
    sum(one['amount']),
    verdict(one, 'recorded'),
    verdict(one, 'replayed'),
    recordOf(one, 'replayed')['reason'] ?? recordOf(one, 'recorded')['reason'],
  ]);
  const more = changed > changes.length ? `… and ${changed - changes.length} more (--changes, at most 200)\n` : '';
  return table(['at', 'receipt', 'amount', 'was', 'would be', 'why'], rows, [2]) + more;
}
