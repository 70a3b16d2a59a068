import type { Command } from 'commander';
import type { JsonRecord } from '../admin-client.ts';
import { usageError } from '../cli-error.ts';
import { type Invocation, recordsOf } from '../invocation.ts';
import { amountText, wholeText } from '../json-text.ts';
import { cell, fields, printable, table } from '../output.ts';
import { collect, commaList, idArgument, TOTP_HELP } from './arguments.ts';

interface ChangeOptions {
  scope?: string[];
  perAction?: string;
  perMonth?: string;
  threshold?: string;
  counterparty?: string[];
  anyCounterparty?: true;
  validUntil?: string;
  maxUses?: string;
  reason?: string;
  ifVersion?: string;
  totp?: string;
}

const CHANGE_HELP = `
What is left out stays as it is. "none" takes a threshold, an end or a number of uses away.
Currency, time zone and agent cannot change: make a new mandate and revoke this one.
`;

/** `mandate mandates change|versions|words`: the terms of a mandate, now and before. */
export function registerChange(mandates: Command, invocation: Invocation): void {
  mandates
    .command('change')
    .argument('<id>', 'mandate (mdt_…)')
    .description('put new terms into force at once, as a new version')
    .option('--scope <types>', 'action types, comma-separated: payments.create or payments.*', commaList)
    .option('--per-action <amount>', 'the most one action may cost')
    .option('--per-month <amount>', 'the most all actions of a calendar month may cost')
    .option('--threshold <amount>', 'above this a human is asked; "none": never')
    .option('--counterparty <name>', 'an allowed counterparty; repeat for more', collect)
    .option('--any-counterparty', 'allow any counterparty')
    .option('--valid-until <time>', 'when it ends, RFC 3339; "none": not by itself')
    .option('--max-uses <n>', 'how many actions it is good for; "none": any number')
    .option('--if-version <n>', 'only if this is still its version')
    .option('--reason <text>', 'why; kept in the evidence')
    .option('--totp <code>', TOTP_HELP)
    .addHelpText('after', CHANGE_HELP)
    .action(async (id: string, options: ChangeOptions) => {
      const path = `/admin/mandates/${idArgument(id, 'mdt')}/change`;
      invocation.show(await invocation.sendConfirmed(path, changeBody(options), options.totp), changeCard);
    });
  mandates
    .command('versions')
    .argument('<id>', 'mandate (mdt_…)')
    .description('list the versions of its terms, with what each one changed')
    .action(async (id: string) => {
      const path = `/admin/mandates/${idArgument(id, 'mdt')}/versions`;
      const answer = await (await invocation.client()).list(path, 'versions');
      invocation.show(answer, (value) => recordsOf(value, 'versions').map(versionText).join('\n'));
    });
  mandates
    .command('words')
    .argument('<id>', 'mandate (mdt_…)')
    .option('--language <language>', 'en or de', 'en')
    .description('say in plain sentences what a mandate allows')
    .action(async (id: string, { language }: { language: string }) => {
      const path = `/admin/mandates/${idArgument(id, 'mdt')}/wording?language=${encodeURIComponent(language)}`;
      const answer = await (await invocation.client()).get(path);
      invocation.show(answer, (value) => `${String(value['text']).split('\n').map(printable).join('\n')}\n`);
    });
}

function changeBody(options: ChangeOptions): Record<string, unknown> {
  if (options.counterparty !== undefined && options.anyCounterparty === true) {
    throw usageError('--counterparty and --any-counterparty say two things: give one of them.');
  }
  const orNone = <T>(value: string | undefined, read: (text: string) => T): T | null | undefined =>
    value === undefined ? undefined : value === 'none' ? null : read(value);
  const { perAction, perMonth, ifVersion } = options;
  return {
    scope: options.scope,
    amount_limit_per_action: perAction === undefined ? undefined : amountText('--per-action', perAction),
    amount_limit_per_month: perMonth === undefined ? undefined : amountText('--per-month', perMonth),
    escalation_threshold: orNone(options.threshold, (text) => amountText('--threshold', text)),
    counterparties: options.anyCounterparty === true ? [] : options.counterparty,
    valid_until: orNone(options.validUntil, (text) => text),
    max_uses: orNone(options.maxUses, (text) => wholeText('--max-uses', text)),
    version: ifVersion === undefined ? undefined : wholeText('--if-version', ifVersion),
    reason: options.reason,
  };
}

function changeCard(value: JsonRecord): string {
  const uncovered = Array.isArray(value['uncovered_tools']) ? (value['uncovered_tools'] as unknown[]) : [];
  const warning =
    uncovered.length === 0
      ? ''
      : `\nNo longer covered by the scope, and so denied:\n${uncovered.map(cell).join('\n')}\n`;
  const head = fields([
    ['mandate', value['mandate_id']],
    ['status', value['status']],
    ['version', value['version']],
  ]);
  return `${head}\n${diff(value)}${warning}`;
}

function versionText(version: JsonRecord): string {
  const head = `version ${cell(version['version'])}, in force from ${cell(version['effective_at'])}\n`;
  return head + (recordsOf(version, 'changes').length === 0 ? '' : diff(version));
}

function diff(value: JsonRecord): string {
  const shown = (one: unknown): string => (one === null || cell(one) === '' ? 'none' : cell(one));
  const rows = recordsOf(value, 'changes').map(({ field, before, after }) => [field, shown(before), '→', shown(after)]);
  return table(['term', 'before', '', 'after'], rows);
}
