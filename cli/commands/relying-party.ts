import type { Command } from 'commander';
import type { AdminClient, JsonRecord } from '../admin-client.ts';
import { CliError, usageError } from '../cli-error.ts';
import { type Invocation, recordOf } from '../invocation.ts';
import { amountText, bodyText } from '../json-text.ts';
import { fields } from '../output.ts';
import { readInput } from '../prompt.ts';
import { idArgument } from './arguments.ts';

interface VerifyOptions {
  presentation: string;
  action: string;
  escalationToken?: string;
  idempotencyKey?: string;
}

interface ConsumeOptions {
  finalAmount?: string;
  currency?: string;
}

interface ExecuteOptions {
  outcome: string;
  amount?: string;
  currency?: string;
  ref?: string;
}

const VERIFY_HELP = `
Examples:
  mandate present --key agent-key.pem --mandate mdt_… --action '{…}' --json > presentation.json
  mandate verify --presentation presentation.json --action '{…}'
`;

/** `mandate status|verify|consume|execute`: what a relying party asks and reports, with MANDATE_API_KEY. */
export function registerRelyingParty(program: Command, invocation: Invocation): void {
  program
    .command('status')
    .argument('<mandate>', 'mandate (mdt_…)')
    .description('show how a mandate stands: limits, what is left of the month, its credential')
    .action(async (mandate: string) => {
      const answer = await service(invocation).get(`/api/v1/mandates/${idArgument(mandate, 'mdt')}/status`);
      invocation.show(answer, statusText);
    });
  program
    .command('verify')
    .requiredOption('--presentation <file>', 'what the agent signed, JSON; - for standard input')
    .requiredOption('--action <json>', 'the action, as it was presented')
    .option('--escalation-token <token>', 'of an escalation that was approved (etk_…)')
    .option('--idempotency-key <key>', 'the same key gives the same answer')
    .description('ask whether an action is allowed')
    .addHelpText('after', VERIFY_HELP)
    .action((options: VerifyOptions) => verify(invocation, options));
  program
    .command('consume')
    .argument('<consumption-token>', 'of an allow (ctk_…)')
    .option('--final-amount <amount>', 'what it cost, at most what was allowed; without it all of that')
    .option('--currency <code>', 'compared with the one that was allowed')
    .description('book what an allowed action cost')
    .action((token: string, options: ConsumeOptions) => consume(invocation, token, options));
  program
    .command('execute')
    .argument('<consumption-token>', 'of an allow (ctk_…)')
    .requiredOption('--outcome <outcome>', 'succeeded, failed, partial or cancelled')
    .option('--amount <amount>', 'what was executed')
    .option('--currency <code>', 'compared with the one that was allowed')
    .option('--ref <text>', 'your own reference')
    .description('report how an allowed action went')
    .action((token: string, options: ExecuteOptions) => execute(invocation, token, options));
}

function service(invocation: Invocation): AdminClient {
  const client = invocation.service();
  if (client !== null) return client;
  throw new CliError('There is no API key to ask with.', {
    code: 'unauthenticated',
    next: 'Make one with `mandate keys create --scope …`, and set MANDATE_API_KEY to it.',
  });
}

async function verify(invocation: Invocation, options: VerifyOptions): Promise<void> {
  const presentation = await readInput(invocation.io, 'presentation', options.presentation);
  // Both go into the body as they were written: amounts keep their digits, and nothing that was signed is reformatted.
  for (const [option, text] of [
    ['--presentation', presentation],
    ['--action', options.action],
  ] as const) {
    if (!isJson(text)) throw usageError(`${option} is not JSON.`);
  }
  const token = options.escalationToken;
  const more = token === undefined ? '' : `,"escalation_token":${JSON.stringify(token)}`;
  const body = `{"presentation":${presentation},"action":${options.action}${more}}`;
  const headers = options.idempotencyKey === undefined ? {} : { 'idempotency-key': options.idempotencyKey };
  const answer = await service(invocation).send('POST', '/api/v1/verify', body, headers);
  invocation.show(answer, decisionText);
}

async function consume(invocation: Invocation, token: string, options: ConsumeOptions): Promise<void> {
  const amount = options.finalAmount;
  const body = bodyText({
    consumption_token: token,
    final_amount: amount === undefined ? undefined : amountText('--final-amount', amount),
    currency: options.currency,
  });
  const answer = await service(invocation).send('POST', '/api/v1/consumptions', body);
  invocation.show(answer, (value) => {
    const [booked, remaining] = [recordOf(value, 'booked'), recordOf(value, 'remaining')];
    return fields([
      ['consumption', value['consumption_id']],
      ['booked', `${booked['value']} ${booked['currency']}`],
      ['left of the month', `${remaining['value']} ${remaining['currency']} (${remaining['period']})`],
    ]);
  });
}

async function execute(invocation: Invocation, token: string, options: ExecuteOptions): Promise<void> {
  const body = bodyText({
    reservation_token: token,
    outcome: options.outcome,
    executed_amount: options.amount === undefined ? undefined : amountText('--amount', options.amount),
    executed_currency: options.currency,
    external_ref: options.ref,
  });
  const answer = await service(invocation).send('POST', '/api/v1/executions', body);
  invocation.show(answer, (value) =>
    fields([
      ['execution', value['execution_id']],
      ['receipt', value['receipt_id']],
      ['status', value['status']],
    ]),
  );
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

function decisionText(value: JsonRecord): string {
  const [receipt, escalation] = [recordOf(value, 'receipt'), recordOf(value, 'escalation')];
  const reasons = Array.isArray(value['reasons']) ? value['reasons'] : [];
  return fields([
    ['decision', value['decision']],
    ['reason', [...reasons, value['reason_text']].filter((one) => one !== undefined).join(': ')],
    ['escalation', escalation['id']],
    ['answer by', escalation['expires_at']],
    ['receipt', receipt['receipt_id']],
    ['consumption token', value['consumption_token']],
  ]);
}

function statusText(value: JsonRecord): string {
  const [limits, usage] = [recordOf(value, 'limits'), recordOf(value, 'usage')];
  const currency = limits['currency'];
  return fields([
    ['mandate', value['mandate_id']],
    ['status', value['status']],
    ['scope', limits['scope']],
    ['per action', `${limits['amount_limit_per_action']} ${currency}`],
    ['per month', `${limits['amount_limit_per_month']} ${currency}`],
    ['asks above', limits['escalation_threshold']],
    ['counterparties', limits['counterparties']],
    ['valid until', limits['valid_until']],
    ['agent', value['agent_did']],
    ['verifier', value['presentation_verifier']],
    [`left of ${usage['month']}`, `${usage['remaining']} ${currency}`],
    ['month ends', usage['resets_at']],
  ]);
}
