import type { Command } from 'commander';
import type { JsonRecord } from '../admin-client.ts';
import { type Invocation, recordOf, recordsOf } from '../invocation.ts';
import { amountText, wholeText } from '../json-text.ts';
import { fields, table } from '../output.ts';
import { collect, commaList, idArgument, TOTP_HELP } from './arguments.ts';
import { registerReplay } from './mandate-replay.ts';
import { registerChange } from './mandate-versions.ts';

/** `mandate mandates …`: the limits that a principal sets for an agent. */
export function registerMandates(program: Command, invocation: Invocation): void {
  const mandates = program.command('mandates').description('the limits you set for agents');
  registerCreate(mandates, invocation);
  registerChange(mandates, invocation);
  mandates
    .command('list')
    .description('list all mandates')
    .action(async () => {
      const answer = await (await invocation.client()).list('/admin/mandates', 'mandates');
      invocation.show(answer, (value) => mandateTable(recordsOf(value, 'mandates')));
    });
  mandates
    .command('show')
    .argument('<id>', 'mandate (mdt_…)')
    .description('show one mandate and how much of this month is left')
    .action(async (id: string) => {
      const answer = await (await invocation.client()).get(`/admin/mandates/${idArgument(id, 'mdt')}`);
      invocation.show(answer, mandateCard);
    });
  registerReplay(mandates, invocation);
  const steps = [
    ['activate', 'put a draft into force'],
    ['suspend', 'stop it at once, until it is resumed'],
    ['resume', 'put a suspended mandate back into force'],
    ['revoke', 'end it for good'],
  ] as const;
  for (const [step, description] of steps) {
    mandates
      .command(step)
      .argument('<id>', 'mandate (mdt_…)')
      .option('--reason <text>', 'why; kept in the evidence')
      .option('--totp <code>', TOTP_HELP)
      .description(description)
      .action(async (id: string, { reason, totp }: { reason?: string; totp?: string }) => {
        const path = `/admin/mandates/${idArgument(id, 'mdt')}/${step}`;
        const answer = await invocation.sendConfirmed(path, { reason }, totp);
        invocation.show(answer, mandateCard);
      });
  }
}

interface CreateOptions {
  name?: string;
  scope: string[];
  perAction: string;
  perMonth: string;
  threshold?: string;
  currency?: string;
  counterparty?: string[];
  agentDid?: string;
  timeZone?: string;
  validUntil?: string;
  maxUses?: string;
  activate?: true;
  totp?: string;
}

function registerCreate(mandates: Command, invocation: Invocation): void {
  mandates
    .command('create')
    .description('create a mandate, as a draft unless --activate is given')
    .requiredOption('--scope <types>', 'action types, comma-separated: payments.create or payments.*', commaList)
    .requiredOption('--per-action <amount>', 'the most one action may cost')
    .requiredOption('--per-month <amount>', 'the most all actions of a calendar month may cost')
    .option('--threshold <amount>', 'above this a human is asked')
    .option('--currency <code>', 'ISO 4217 code (default EUR)')
    .option('--counterparty <name>', 'an allowed counterparty; repeat for more (default: any)', collect)
    .option('--agent-did <did>', "the agent's did:key, where it signs itself")
    .option('--time-zone <zone>', 'IANA time zone whose calendar month counts (default UTC)')
    .option('--valid-until <time>', 'when it ends, RFC 3339, such as 2030-01-31T00:00:00Z')
    .option('--max-uses <n>', 'how many actions it is good for')
    .option('--name <name>', 'a name for people')
    .option('--activate', 'put it into force at once')
    .option('--totp <code>', TOTP_HELP)
    .action(async (options: CreateOptions) => {
      const answer = await invocation.sendConfirmed('/admin/mandates', mandateBody(options), options.totp);
      invocation.show(answer, mandateCard);
    });
}

function mandateBody(options: CreateOptions): Record<string, unknown> {
  return {
    name: options.name,
    scope: options.scope,
    amount_limit_per_action: amountText('--per-action', options.perAction),
    amount_limit_per_month: amountText('--per-month', options.perMonth),
    escalation_threshold: options.threshold === undefined ? undefined : amountText('--threshold', options.threshold),
    currency: options.currency,
    counterparties: options.counterparty,
    agent_did: options.agentDid,
    time_zone: options.timeZone,
    valid_until: options.validUntil,
    max_uses: options.maxUses === undefined ? undefined : wholeText('--max-uses', options.maxUses),
    activate: options.activate,
  };
}

function mandateTable(mandates: readonly JsonRecord[]): string {
  if (mandates.length === 0) return 'No mandates yet. Create one: mandate mandates create --help\n';
  const rows = mandates.map((mandate) => [
    mandate['mandate_id'],
    mandate['status'],
    mandate['amount_limit_per_action'],
    mandate['amount_limit_per_month'],
    mandate['currency'],
    mandate['scope'],
    mandate['name'],
  ]);
  return table(['mandate', 'status', 'per action', 'per month', '', 'scope', 'name'], rows, [2, 3]);
}

function mandateCard(mandate: JsonRecord): string {
  const usage = recordOf(mandate, 'usage');
  const money = (value: unknown): unknown => (value === null || value === undefined ? '' : `${value} ${currency}`);
  const currency = mandate['currency'] ?? '';
  return fields([
    ['mandate', mandate['mandate_id']],
    ['name', mandate['name']],
    ['status', mandate['status']],
    ['scope', mandate['scope']],
    ['per action', money(mandate['amount_limit_per_action'])],
    ['per month', money(mandate['amount_limit_per_month'])],
    ['asks above', money(mandate['escalation_threshold'])],
    ['counterparties', mandate['counterparties']],
    ['agent', mandate['agent_did']],
    ['time zone', mandate['time_zone']],
    ['valid until', mandate['valid_until']],
    ['uses', mandate['max_uses'] ? `${mandate['uses'] ?? 0} of ${mandate['max_uses']}` : ''],
    ['this month', usage['month']],
    ['  booked', money(usage['booked'])],
    ['  reserved', money(usage['reserved'])],
    ['  remaining', money(usage['remaining'])],
    ['  resets', usage['resets_at']],
  ]);
}
