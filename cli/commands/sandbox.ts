import type { Command } from 'commander';
import { serviceUrl } from '../../config/load.ts';
import { AdminClient, type JsonRecord, SERVICE_API } from '../admin-client.ts';
import { type Invocation, recordOf } from '../invocation.ts';

const MANDATE = {
  scope: ['payments.*'],
  amount_limit_per_action: 100,
  amount_limit_per_month: 500,
  escalation_threshold: 50,
};

/** One step of the walk: what was called, and what came back. */
interface Step {
  readonly call: string;
  readonly answer: JsonRecord;
}

/** `mandate sandbox try`: the whole sequence without an account; what is decided needs an API key (interface.md). */
export function registerSandbox(program: Command, invocation: Invocation): void {
  const sandbox = program.command('sandbox').description('try it without an account: nothing here is real');
  sandbox
    .command('try')
    .description('make a sandbox mandate and present under it; with MANDATE_API_KEY, verify and consume as well')
    .action(() => walk(invocation));
}

async function walk(invocation: Invocation): Promise<void> {
  const open = new AdminClient(serviceUrl(invocation.config), null, SERVICE_API);
  const keyed = invocation.service();
  const steps: Step[] = [];
  const call = async (client: AdminClient, path: string, body: object): Promise<JsonRecord> => {
    const { value } = await client.send('POST', path, JSON.stringify(body));
    steps.push({ call: `POST ${path}`, answer: value });
    if (!invocation.json) invocation.io.stdout.write(`POST ${path}\n${told(value)}\n`);
    return value;
  };
  const { mandate_id, agent_secret } = await call(open, '/api/v1/sandbox/mandates', MANDATE);
  const present = () => call(open, '/api/v1/sandbox/presentations', { mandate_id, agent_secret });
  await call(open, '/api/sandbox/echo', { hello: 'this is what a target would have received' });
  if (keyed === null) {
    await present();
    invocation.note(
      'To have something decided, set MANDATE_API_KEY to a key with the scopes verify and consumptions:write.',
    );
  } else {
    await decide(keyed, call, present);
  }
  if (invocation.json) invocation.io.stdout.write(`${JSON.stringify({ steps })}\n`);
}

/** Within the limits, above the one for an action, and above the threshold. */
async function decide(
  keyed: AdminClient,
  call: (client: AdminClient, path: string, body: object) => Promise<JsonRecord>,
  present: () => Promise<JsonRecord>,
): Promise<void> {
  for (const value of [12.5, 100.01, 60]) {
    const { presentation } = await present();
    const action = { type: 'payments.create', amount: { value, currency: 'EUR' } };
    const decided = await call(keyed, '/api/v1/verify', { presentation, action });
    const { consumption_token } = decided;
    if (consumption_token !== undefined) await call(keyed, '/api/v1/consumptions', { consumption_token });
  }
}

/** The answer in a few lines: what is long is named, not shown. */
function told(value: JsonRecord): string {
  const shown: Record<string, unknown> = { ...value };
  const presentation = recordOf(value, 'presentation');
  if ('presentation' in shown) shown['presentation'] = `… signed, nonce ${String(presentation['nonce'])}`;
  if ('mat_compact' in shown) shown['mat_compact'] = '…';
  return JSON.stringify(shown, null, 2);
}
