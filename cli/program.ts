import { Command, CommanderError } from 'commander';
import { CheckedOtherwise, CliError, EXIT_DONE, EXIT_FAILED, EXIT_USAGE, usageError } from './cli-error.ts';
import { registerAccount } from './commands/account.ts';
import { registerAgent } from './commands/agent.ts';
import { registerDossiers } from './commands/dossiers.ts';
import { registerEscalations } from './commands/escalations.ts';
import { registerEvidence } from './commands/evidence.ts';
import { registerGateways } from './commands/gateways.ts';
import { registerKeys } from './commands/keys.ts';
import { registerMandates } from './commands/mandates.ts';
import { registerNotifications } from './commands/notifications.ts';
import { registerProcesses } from './commands/processes.ts';
import { registerReconcile } from './commands/reconcile.ts';
import { registerRelyingParty } from './commands/relying-party.ts';
import { registerSandbox } from './commands/sandbox.ts';
import { registerSigningKeys } from './commands/signing-keys.ts';
import { registerStop } from './commands/stop.ts';
import { registerTools } from './commands/tools.ts';
import { registerWebhooks } from './commands/webhooks.ts';
import { Invocation } from './invocation.ts';
import type { Io } from './io.ts';

const DESCRIPTION =
  'Holds AI agents to what people allowed: an agent sends its HTTP requests to the proxy, and only what its mandate ' +
  'allows reaches the target, with exact budgets and evidence of every decision.';

const WALK = `
A first walk:
  mandate up                                          start everything on this machine
  mandate signup --email you@example.com              make an account with a second factor
  mandate mandates create --scope payments.create --per-action 100 --per-month 500 --activate
  mandate gateways create --mandate mdt_… --target https://api.example.com
  mandate tools list gwi_…                            what the agent asked for, and what it is mapped to
Or watch it all happen: mandate up --demo

Exit codes: 0 done, 1 refused or failed, 2 bad usage. Settings: MANDATE_* variables, see README.md.
`;

/** Runs the command line `args` (without program and script) and returns the exit code; it never throws. */
export async function runCli(args: readonly string[], io: Io): Promise<number> {
  const jsonAsked = args.slice(0, endOfOptions(args)).includes('--json');
  try {
    await buildProgram(io, jsonAsked).parseAsync(args, { from: 'user' });
    return EXIT_DONE;
  } catch (error) {
    if (error instanceof CheckedOtherwise) return error.exitCode;
    if (error instanceof CommanderError) return commanderExit(error, io, jsonAsked);
    const known = error instanceof CliError ? error : unexpected(error);
    const lines = known.next === undefined ? [known.message] : [known.message, known.next];
    io.stderr.write(jsonAsked ? `${known.json}\n` : `${lines.join('\n')}\n`);
    return known.exitCode;
  }
}

function buildProgram(io: Io, jsonAsked: boolean): Command {
  const program = new Command('mandate')
    .description(DESCRIPTION)
    .option('--json', 'write one JSON value to standard output and nothing else')
    .addHelpText('after', WALK)
    .helpCommand(false)
    .showHelpAfterError(jsonAsked ? false : 'Add --help to see how it is used.')
    .exitOverride()
    .configureHelp({ showGlobalOptions: true })
    .configureOutput({
      writeOut: (text) => io.stdout.write(text),
      writeErr: (text) => io.stderr.write(text),
      outputError: (text, write) => (jsonAsked ? undefined : write(text)),
    });
  const invocation = new Invocation(io, () => program.opts()['json'] === true);
  program.commandsGroup('Run the system:');
  registerProcesses(program, invocation);
  registerSigningKeys(program, invocation);
  program.commandsGroup('Your account:');
  registerAccount(program, invocation);
  registerNotifications(program, invocation);
  registerWebhooks(program, invocation);
  program.commandsGroup('What agents may do, and what they did:');
  registerMandates(program, invocation);
  registerStop(program, invocation);
  registerGateways(program, invocation);
  registerTools(program, invocation);
  registerKeys(program, invocation);
  registerEscalations(program, invocation);
  registerReconcile(program, invocation);
  registerEvidence(program, invocation);
  registerDossiers(program, invocation);
  program.commandsGroup('For relying parties, with MANDATE_API_KEY:');
  registerRelyingParty(program, invocation);
  registerSandbox(program, invocation);
  program.commandsGroup('For agents that sign themselves:');
  registerAgent(program, invocation);
  return program;
}

/** Commander has written its message already, except with `--json`. */
function commanderExit(error: CommanderError, io: Io, jsonAsked: boolean): number {
  if (error.exitCode === 0) return EXIT_DONE;
  if (jsonAsked) io.stderr.write(`${usageError(error.message.replace(/^error: /, '')).json}\n`);
  return EXIT_USAGE;
}

function unexpected(error: unknown): CliError {
  const message = error instanceof Error ? error.message : String(error);
  return new CliError(`Something went wrong: ${message}`, {
    exitCode: EXIT_FAILED,
    next: 'This is a defect of `mandate`: please report it with the command you ran.',
  });
}

function endOfOptions(args: readonly string[]): number {
  const end = args.indexOf('--');
  return end === -1 ? args.length : end;
}
