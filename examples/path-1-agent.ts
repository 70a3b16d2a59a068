import { parseArgs } from 'node:util';
import { actUnderMandate } from './client/act-under-mandate.ts';
import type { Allow } from './client/interface.ts';
import { MandateClient } from './client/mandate-client.ts';
import type { Action } from './client/presentation.ts';
import { echoTarget, report } from './echo-target.ts';

// Path 1: the service holds the agent's key and signs for it. The API key needs the scopes agents:present, verify,
// consumptions:write and executions:write.
//
//   export MANDATE_URL=http://127.0.0.1:8080 MANDATE_API_KEY=mak_…
//   node examples/path-1-agent.ts --mandate mdt_… \
//     --action '{"type":"payments.create","amount":{"value":12.5,"currency":"EUR"},"counterparty":"acme"}'

const { values } = parseArgs({ options: { mandate: { type: 'string' }, action: { type: 'string' } } });
const { MANDATE_URL: url = 'http://127.0.0.1:8080', MANDATE_API_KEY: apiKey } = process.env;
if (values.mandate === undefined || values.action === undefined || apiKey === undefined) {
  console.error('usage: MANDATE_API_KEY=mak_… node examples/path-1-agent.ts --mandate mdt_… --action JSON');
  process.exit(2);
}
const action = JSON.parse(values.action) as Action;
const client = new MandateClient({ url, apiKey });

const { presentation, custody, note } = await client.present({ mandate_id: values.mandate, action });
console.log(`Presented (${custody}): ${note}`);

const act = (allow: Allow) => echoTarget(url, action, allow);
process.exitCode = report(url, await actUnderMandate(client, { presentation, action }, act, console.log));
