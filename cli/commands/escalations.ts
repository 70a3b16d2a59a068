import { setTimeout as delay } from 'node:timers/promises';
import type { Command } from 'commander';
import type { AdminClient, Answer, JsonRecord } from '../admin-client.ts';
import { usageError } from '../cli-error.ts';
import { type Invocation, recordOf, recordsOf } from '../invocation.ts';
import { cell, fields, printable, table } from '../output.ts';
import { idArgument, TOTP_HELP } from './arguments.ts';

const WATCH_INTERVAL_MS = 1_000;
const ESCALATION = 'escalation (esc_…)';

/** `mandate escalations …`: what agents want that needs a human's yes. */
export function registerEscalations(program: Command, invocation: Invocation): void {
  const escalations = program.command('escalations').description('requests that wait for your yes or no');
  escalations
    .command('list')
    .description('list escalations, newest first')
    .option('--status <status>', 'only these: pending, approved, rejected, expired, used')
    .option('--limit <n>', 'at most so many')
    .option('--watch', 'go on, and show new pending ones as they come; Ctrl-C ends it')
    .action((options: { status?: string; limit?: string; watch?: true }) => list(invocation, options));
  escalations
    .command('show')
    .argument('<id>', ESCALATION)
    .description('show everything that an approval would bind')
    .option('--watch', 'wait until it is answered or has expired, then show it')
    .action(async (id: string, options: { watch?: true }) => {
      const path = `/admin/escalations/${idArgument(id, 'esc')}`;
      const client = await invocation.client();
      let answer = await client.get(path);
      while (options.watch === true && answer.value['status'] === 'pending') {
        await delay(WATCH_INTERVAL_MS);
        answer = await client.get(path);
      }
      invocation.show(answer, escalationCard);
    });
  const answers = [
    ['approve', 'say yes, once, to exactly this request'],
    ['reject', 'say no'],
  ] as const;
  for (const [step, description] of answers) {
    escalations
      .command(step)
      .argument('<id>', ESCALATION)
      .option('--reason <text>', 'why; kept in the evidence')
      .option('--totp <code>', TOTP_HELP)
      .description(description)
      .action(async (id: string, { reason, totp }: { reason?: string; totp?: string }) => {
        const path = `/admin/escalations/${idArgument(id, 'esc')}/${step}`;
        const answer = await invocation.sendConfirmed(path, { reason }, totp);
        invocation.show(answer, (value) => escalationCard(value) + approvalHint(value));
      });
  }
}

async function list(invocation: Invocation, options: { status?: string; limit?: string; watch?: true }): Promise<void> {
  if (options.watch === true && invocation.json) {
    throw usageError(
      '--watch never ends, so it cannot write one JSON value.',
      'Use `mandate escalations show <id> --watch --json` for one escalation, or poll without --watch.',
    );
  }
  const query = new URLSearchParams();
  if (options.status !== undefined) query.set('status', options.status);
  if (options.limit !== undefined) query.set('limit', options.limit);
  const client = await invocation.client();
  if (options.watch === true) return watch(invocation, client);
  const answer = await client.get(`/admin/escalations${query.size > 0 ? `?${query}` : ''}`);
  invocation.show(answer, (value) => escalationTable(recordsOf(value, 'escalations')));
}

async function watch(invocation: Invocation, client: AdminClient): Promise<void> {
  invocation.note('Waiting for escalations; Ctrl-C ends this.');
  let shown = new Set<unknown>();
  for (;;) {
    const answer: Answer = await client.get('/admin/escalations?status=pending');
    const pending = recordsOf(answer.value, 'escalations');
    for (const escalation of pending.filter((item) => !shown.has(escalationId(item)))) {
      const id = cell(escalationId(escalation));
      invocation.io.stdout.write(
        `${escalationCard(escalation)}  yes: mandate escalations approve ${id}\n` +
          `  no:  mandate escalations reject ${id}\n\n`,
      );
    }
    // Only what is still pending is remembered, so that watching for weeks does not grow.
    shown = new Set(pending.map(escalationId));
    await delay(WATCH_INTERVAL_MS);
  }
}

function escalationId(escalation: JsonRecord): unknown {
  return escalation['escalation_id'] ?? escalation['id'];
}

function escalationTable(escalations: readonly JsonRecord[]): string {
  if (escalations.length === 0) return 'No escalations.\n';
  const rows = escalations.map((escalation) => {
    const action = recordOf(escalation, 'action');
    return [escalationId(escalation), escalation['status'], action['type'], money(action), escalation['expires_at']];
  });
  return table(['escalation', 'status', 'action', 'amount', 'expires'], rows, [3]);
}

function money(action: JsonRecord): string {
  const amount = recordOf(action, 'amount');
  return amount['value'] === undefined ? '' : `${cell(amount['value'])} ${cell(amount['currency'])}`;
}

function escalationCard(escalation: JsonRecord): string {
  const action = recordOf(escalation, 'action');
  const request = recordOf(escalation, 'request');
  const known = new Set(['escalation_id', 'id', 'status', 'action', 'request', 'request_body', 'escalation_token']);
  const query = request['query'] ? `?${cell(request['query'])}` : '';
  return fields([
    ['escalation', escalationId(escalation)],
    ['status', escalation['status']],
    ['action', action['type']],
    ['amount', money(action)],
    ['counterparty', action['counterparty']],
    ['request', request['method'] ? `${cell(request['method'])} ${cell(request['path'])}${query}` : ''],
    ['body', typeof escalation['request_body'] === 'string' ? escalation['request_body'] : ''],
    ...Object.entries(escalation)
      .filter(([name]) => !known.has(name))
      .map(([name, value]) => [printable(name).replaceAll('_', ' '), value] as const),
    ['escalation token', escalation['escalation_token']],
  ]);
}

function approvalHint(escalation: JsonRecord): string {
  if (escalation['escalation_token'] === undefined) return '';
  return (
    '\nThe agent repeats the identical request with the header X-Service-Escalation-Token: <token>.\n' +
    'The token is good for one use and is not shown here again.\n'
  );
}
