import type { Command } from 'commander';
import type { JsonRecord } from '../admin-client.ts';
import { usageError } from '../cli-error.ts';
import { type Invocation, recordsOf } from '../invocation.ts';
import { table } from '../output.ts';
import { ask } from '../prompt.ts';
import { TOTP_HELP } from './arguments.ts';

interface StopOptions {
  reason?: string;
  yes?: true;
  totp?: string;
}

const STEPS = [
  {
    name: 'stop-everything',
    path: '/admin/account/stop',
    description: 'suspend every active mandate of your account at once',
    question: 'Every agent is denied from now on, until you resume. Stop everything? [y/N] ',
    done: 'Suspended',
  },
  {
    name: 'resume-everything',
    path: '/admin/account/resume',
    description: 'resume the mandates that stop-everything suspended, and only those',
    question: 'The agents may act again within their mandates. Resume? [y/N] ',
    done: 'Resumed',
  },
] as const;

/** `mandate stop-everything` and `mandate resume-everything`. */
export function registerStop(program: Command, invocation: Invocation): void {
  for (const { name, path, description, question, done } of STEPS) {
    program
      .command(name)
      .description(description)
      .option('--reason <text>', 'why; kept in the evidence')
      .option('--yes', 'do not ask')
      .option('--totp <code>', TOTP_HELP)
      .action(async ({ reason, yes, totp }: StopOptions) => {
        if (yes !== true) await confirmed(invocation, question);
        const answer = await invocation.sendConfirmed(path, { reason }, totp);
        invocation.show(answer, (value) => mandateTable(done, value));
      });
  }
}

async function confirmed(invocation: Invocation, question: string): Promise<void> {
  if (invocation.io.stdin.isTTY !== true) throw usageError('Nobody can be asked here: give --yes.');
  const answer = await ask(invocation.io, question, { hidden: false });
  if (!/^(?:y|yes)$/i.test(answer.trim())) throw usageError('Nothing was changed.');
}

function mandateTable(done: string, value: JsonRecord): string {
  const mandates = recordsOf(value, 'mandates');
  const rows = mandates.map((one) => [one['mandate_id'], one['name']]);
  return `${table(['mandate', 'name'], rows)}\n${done}: ${mandates.length}\n`;
}
