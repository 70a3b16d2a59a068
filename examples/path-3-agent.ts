import { randomUUID } from 'node:crypto';
import { parseArgs } from 'node:util';

// Path 3: the agent sends its request to the gateway in place of the target, with a token that is good for nothing
// else. It signs nothing and holds no credential of the target; the gateway forwards only what the mandate allows.
//
//   PAYMENTS_PORT=9090 node examples/payments-api.ts                (a target; point the gateway instance at it)
//   export MANDATE_URL=http://127.0.0.1:8080 GATEWAY_TOKEN=gwt_…
//   node examples/path-3-agent.ts --path /payments --body '{"amount":12.5,"currency":"EUR","counterparty":"acme"}'

/** The gateway holds the request while a human is asked; fetch itself gives up after five minutes. */
const WAIT_S = 240;

const text = { type: 'string' } as const;
const { values } = parseArgs({ options: { method: { ...text, default: 'POST' }, path: text, body: text } });
const { MANDATE_URL: url = 'http://127.0.0.1:8080', GATEWAY_TOKEN: token } = process.env;
if (values.path === undefined || token === undefined) {
  console.error('usage: GATEWAY_TOKEN=gwt_… node examples/path-3-agent.ts [--method M] --path /P [--body JSON]');
  process.exit(2);
}

const response = await fetch(`${url}/api/gateway/http/${values.path.replace(/^\//, '')}`, {
  method: values.method,
  headers: {
    authorization: `Bearer ${token}`,
    // Sent again under the same key, the request is forwarded at most once.
    'idempotency-key': randomUUID(),
    prefer: `wait=${WAIT_S}`,
    ...(values.body === undefined ? {} : { 'content-type': 'application/json' }),
  },
  ...(values.body === undefined ? {} : { body: values.body }),
  redirect: 'manual',
});
const answer = await response.text();

// A target may answer 403 too: who answered is what the header says.
const decision = response.headers.get('x-service-decision');
const receipt = response.headers.get('x-service-receipt') ?? 'none';
if (decision === 'allow') {
  console.log(`Allowed, receipt ${receipt}. The target answered ${response.status}:\n${answer}`);
  process.exitCode = response.ok ? 0 : 1;
} else {
  const { error, reasons = [], reason_text, escalation, detail } = JSON.parse(answer);
  if (error === 'service_deny') console.log(`Denied: ${reasons.join(', ')} ${reason_text} (receipt ${receipt})`);
  else if (error === 'service_escalate') console.log(`A human is still asked: ${escalation.id} (receipt ${receipt})`);
  else console.log(`Nothing was forwarded: ${response.status} ${error} ${detail}`);
  process.exitCode = 1;
}
