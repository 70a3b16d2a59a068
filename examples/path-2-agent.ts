import { readFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { actUnderMandate } from './client/act-under-mandate.ts';
import type { Allow } from './client/interface.ts';
import { MandateClient } from './client/mandate-client.ts';
import { type Action, signerOf, signPresentation } from './client/presentation.ts';
import { echoTarget, report } from './echo-target.ts';

// Path 2: the agent signs with its own key, which never leaves it. The API key needs the scopes verify,
// consumptions:write and executions:write; mandates:read too where --verifier is not given.
//
//   npm run -s mandate -- agent-key create --out agent-key.pem      (its did:key goes into the mandate)
//   export MANDATE_URL=http://127.0.0.1:8080 MANDATE_API_KEY=mak_…
//   node examples/path-2-agent.ts --key agent-key.pem --mandate mdt_… \
//     --action '{"type":"payments.create","amount":{"value":12.5,"currency":"EUR"},"counterparty":"acme"}'

const text = { type: 'string' } as const;
const flag = { type: 'boolean', default: false } as const;
const { values } = parseArgs({
  options: { key: text, mandate: text, verifier: text, action: text, print: flag, did: flag },
});
const { MANDATE_URL: url = 'http://127.0.0.1:8080', MANDATE_API_KEY: apiKey = '' } = process.env;

function usage(): never {
  console.error(
    'usage: MANDATE_API_KEY=mak_… node examples/path-2-agent.ts --key FILE (--did | --mandate mdt_… --action JSON ' +
      '[--verifier acc_…] [--print])\n--print shows the presentation and sends nothing.',
  );
  process.exit(2);
}

const signer = signerOf(readFileSync(values.key ?? usage()));
if (values.did) {
  console.log(signer.did);
  process.exit();
}
const mandate = values.mandate ?? usage();
if (apiKey === '' && !(values.print && values.verifier)) usage();
const action = JSON.parse(values.action ?? usage()) as Action;
const client = new MandateClient({ url, apiKey });

const verifier = values.verifier ?? (await client.status(mandate)).presentation_verifier;
const presentation = await signPresentation({ mandate_id: mandate, verifier, action }, signer);
if (values.print) {
  console.log(JSON.stringify(presentation));
} else {
  const act = (allow: Allow) => echoTarget(url, action, allow);
  process.exitCode = report(url, await actUnderMandate(client, { presentation, action }, act, console.log));
}
