import type { Command } from 'commander';
import type { JsonRecord } from '../admin-client.ts';
import { usageError } from '../cli-error.ts';
import { type Invocation, recordOf, recordsOf } from '../invocation.ts';
import { bodyText } from '../json-text.ts';
import { cell, fields, table } from '../output.ts';
import { idArgument } from './arguments.ts';

interface ListOptions {
  readonly after?: string;
  readonly limit?: string;
}

interface SettleOptions {
  readonly booked?: true;
  readonly released?: true;
  readonly reason: string;
}

/** `mandate reconcile …`: requests that were forwarded and whose outcome nobody knows. */
export function registerReconcile(program: Command, invocation: Invocation): void {
  const reconcile = program.command('reconcile').description('forwarded requests whose outcome nobody knows');
  reconcile
    .command('list')
    .description('list them, the oldest first; each counts in full until it is settled')
    .option('--after <receipt>', 'begin after this one: the next page')
    .option('--limit <n>', 'at most so many')
    .action(async (options: ListOptions) => {
      const query = new URLSearchParams();
      if (options.after !== undefined) query.set('after', idArgument(options.after, 'rcp'));
      if (options.limit !== undefined) query.set('limit', options.limit);
      const path = `/admin/reconcile${query.size > 0 ? `?${query}` : ''}`;
      invocation.show(await (await invocation.client()).get(path), listText);
    });
  reconcile
    .command('settle')
    .argument('<receipt>', 'receipt (rcp_…)')
    .option('--booked', 'the target did it: the amount counts for good')
    .option('--released', 'the target did not do it: the amount is free again')
    .requiredOption('--reason <text>', 'how you know; kept in the evidence')
    .description('say for good how one of them ended, after asking the target')
    .action((receipt: string, options: SettleOptions) => settle(invocation, receipt, options));
}

async function settle(invocation: Invocation, receipt: string, options: SettleOptions): Promise<void> {
  if ((options.booked === true) === (options.released === true)) {
    throw usageError('Say how it ended: either --booked or --released.');
  }
  const body = bodyText({ outcome: options.booked === true ? 'booked' : 'released', reason: options.reason });
  const path = `/admin/reconcile/${idArgument(receipt, 'rcp')}/settle`;
  const answer = await (await invocation.client()).send('POST', path, body);
  invocation.show(answer, (value) => {
    const month = recordOf(value, 'month');
    return fields([
      ['receipt', value['receipt_id']],
      ['outcome', value['outcome']],
      ['amount', money(value)],
      [`booked in ${cell(month['month'])}`, month['booked']],
      ['still reserved', month['reserved']],
      ['evidence', `entry ${cell(recordOf(value, 'evidence')['seq'])}`],
    ]);
  });
}

function listText(value: JsonRecord): string {
  const outcomes = recordsOf(value, 'outcomes');
  if (outcomes.length === 0) return 'Nothing to reconcile.\n';
  const rows = outcomes.map((one) => [
    one['receipt_id'],
    one['unknown_since'] ?? one['reserved_at'],
    money(one),
    one['instance_name'] ?? one['instance_id'],
    one['tool'] ?? one['action_type'],
    [one['cause'], one['target_status']].filter((part) => part !== null && part !== undefined).join(' '),
  ]);
  const next = value['next_after'];
  const more = typeof next === 'string' ? `There are more: --after ${cell(next)}\n` : '';
  return table(['receipt', 'unknown since', 'amount', 'gateway', 'tool', 'what happened'], rows, [2]) + more;
}

function money(value: JsonRecord): string {
  const amount = recordOf(value, 'amount');
  return `${cell(amount['value'])} ${cell(amount['currency'])}`;
}
