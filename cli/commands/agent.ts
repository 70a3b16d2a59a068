import { type Command, Option } from 'commander';
import { type Action, contextDigest } from '../../core/action.ts';
import { bodyValue, fieldProblems } from '../../core/body-value.ts';
import { PRESENTATION_WINDOW_MS } from '../../core/decide.ts';
import { formatDidKey } from '../../core/did-key.ts';
import type { SigningKey } from '../../core/ed25519.ts';
import { type FieldProblem, ProblemError } from '../../core/errors.ts';
import { JsonSyntaxProblem, parseStrictJson } from '../../core/json.ts';
import { createPresentation } from '../../core/presentation.ts';
import { isTypeId, type TypeId } from '../../core/type-id.ts';
import { actionInput, actionOf } from '../../core/verify-request.ts';
import { createAgentKey, readAgentKey } from '../agent-key-file.ts';
import { CliError, usageError } from '../cli-error.ts';
import { type Invocation, recordOf } from '../invocation.ts';
import { fields } from '../output.ts';
import { idArgument } from './arguments.ts';

const TTL_MAX_S = PRESENTATION_WINDOW_MS / 1000;

const PRESENT_HELP = `
With --key nothing is sent, unless --verifier is missing: then it is asked for, with MANDATE_API_KEY or else with your
session. Without --key the service signs with the key that it holds (path 1).
The presentation goes to POST /api/v1/verify together with the identical action, and is good for one allow.

Example:
  mandate present --key agent-key.pem --mandate mdt_… --verifier acc_… \\
    --action '{"type":"payments.create","amount":{"value":12.5,"currency":"EUR"},"counterparty":"acme"}'
`;

interface PresentOptions {
  key?: string;
  mandate: string;
  verifier?: string;
  action: string;
  ttlSeconds: string;
}

/** `mandate agent-key …` and `mandate present`: what an agent does that signs itself (path 2). */
export function registerAgent(program: Command, invocation: Invocation): void {
  const keys = program.command('agent-key').description('the key of an agent that signs itself');
  keys
    .command('create')
    .option('--out <file>', 'a new file for the private key, mode 0600', 'agent-key.pem')
    .description('make an Ed25519 key, offline, and show its did:key')
    .action(async ({ out }: { out: string }) => {
      showKey(invocation, await createAgentKey(out), out);
      invocation.note('Whoever sets the mandate needs the did:key: mandate mandates create --agent-did did:key:…');
    });
  keys
    .command('show')
    .argument('<file>', 'the private key, PEM')
    .description('show the did:key of a private key')
    .action(async (file: string) => showKey(invocation, await readAgentKey(file), file));
  program
    .command('present')
    .option('--key <file>', "the agent's private key, PEM; without it the service signs, with the key that it holds")
    .requiredOption('--mandate <id>', 'mandate (mdt_…)')
    .option('--verifier <account>', "who verifies (acc_…): `presentation_verifier` in the mandate's status")
    .requiredOption('--action <json>', 'the action, as it will be verified')
    .addOption(new Option('--ttl-seconds <n>', `how long it is good for, at most ${TTL_MAX_S}`).default(`${TTL_MAX_S}`))
    .description('sign what an agent is about to do')
    .addHelpText('after', PRESENT_HELP)
    .action((options: PresentOptions) => present(invocation, options));
}

function showKey(invocation: Invocation, key: SigningKey, file: string): void {
  const value = { agent_did: formatDidKey(key.publicKey), key_file: file };
  invocation.show({ text: JSON.stringify(value), value }, () =>
    fields([
      ['agent', value.agent_did],
      ['private key', file],
    ]),
  );
}

async function present(invocation: Invocation, options: PresentOptions): Promise<void> {
  const mandate = idArgument(options.mandate, 'mdt');
  const action = actionArgument(options.action);
  if (options.key === undefined) return await presentByService(invocation, mandate, options);
  const ctx = contextDigest(action);
  const lifetime = ttlMs(options.ttlSeconds);
  const key = await readAgentKey(options.key);
  const verifier = options.verifier ?? (await verifierOf(invocation, mandate));
  if (!isTypeId(verifier, 'acc')) {
    throw usageError(
      '--verifier must be the id of an account: acc_ and 26 characters.',
      "It is `presentation_verifier` in the mandate's status.",
    );
  }
  const issued = Date.now();
  const intent = { mandate_id: mandate, verifier, ctx, issued_at_ms: issued, expires_at_ms: issued + lifetime };
  const value = createPresentation(intent, key);
  invocation.show({ text: JSON.stringify(value), value }, () => `${JSON.stringify(value, null, 2)}\n`);
}

/** Path 1: the service signs; shows the presentation alone, as the other path does. */
async function presentByService(invocation: Invocation, mandate: string, options: PresentOptions): Promise<void> {
  const service = invocation.service();
  if (service === null) {
    throw usageError(
      '--key is missing, and there is no API key to have the service sign with.',
      'Give --key FILE where the agent has its own key, or set MANDATE_API_KEY (scope agents:present).',
    );
  }
  const body = `{"mandate_id":${JSON.stringify(mandate)},"action":${options.action}}`;
  const { value } = await service.send('POST', '/api/v1/agents/present', body);
  const presentation = recordOf(value, 'presentation');
  const shown = { text: JSON.stringify(presentation), value: presentation };
  invocation.show(shown, () => `${JSON.stringify(presentation, null, 2)}\n`);
}

/** The account that owns a mandate, from whoever is there to be asked. */
async function verifierOf(invocation: Invocation, mandate: TypeId<'mdt'>): Promise<unknown> {
  const service = invocation.service();
  if (service !== null) return (await service.get(`/api/v1/mandates/${mandate}/status`)).value['presentation_verifier'];
  const admin = await invocation.client().catch((error: unknown) => {
    if (!(error instanceof CliError) || !error.json.includes('"unauthenticated"')) throw error;
    throw usageError('--verifier is missing, and there is nobody to ask for it.', NOBODY_TO_ASK);
  });
  // Answers only where the mandate is this account's: another one would verify nothing that is presented to it.
  await admin.get(`/admin/mandates/${mandate}`);
  return (await admin.get('/admin/account')).value['account_id'];
}

const NOBODY_TO_ASK =
  "Give --verifier acc_… (`presentation_verifier` in the mandate's status), set MANDATE_API_KEY, or sign in.";

/** Reads an action as POST /api/v1/verify does: strictly, and its amount from its digits. */
function actionArgument(text: string): Action {
  try {
    const parsed = actionInput.safeParse(bodyValue(parseStrictJson(Buffer.from(text))));
    if (!parsed.success) throw wrongAction(fieldProblems(parsed.error));
    return actionOf(parsed.data, '');
  } catch (error) {
    if (error instanceof JsonSyntaxProblem) throw usageError(`--action is not strict JSON: ${error.message}`);
    if (error instanceof ProblemError) throw wrongAction(error.fields);
    throw error;
  }
}

function wrongAction(problems: readonly FieldProblem[]): CliError {
  const lines = problems.map(({ field, message }) => `--action ${field.replace(/^\./, '')}: ${message}`);
  return usageError(lines.join('\n'), 'See `mandate present --help` for an example.');
}

function ttlMs(text: string): number {
  const seconds = /^[1-9][0-9]{0,3}$/.test(text) ? Number(text) : Number.NaN;
  if (seconds <= TTL_MAX_S) return seconds * 1000;
  throw usageError(`--ttl-seconds must be a whole number from 1 to ${TTL_MAX_S}.`);
}
