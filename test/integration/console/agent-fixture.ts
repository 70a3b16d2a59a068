import type { SeededAccount } from '../../../bench/seed.ts';
import { secretHash } from '../../../core/secret-token.ts';
import { textAt } from '../control-plane/admin-fixture.ts';
import { MANDATE } from '../control-plane/noun-fixture.ts';
import { type AskOptions, allowed, ask, tell } from '../decisions/lane-client.ts';
import type { ConsoleFixture, ConsolePerson } from './console-fixture.ts';

const PAYMENTS = 'http.post:/payments';

/** An agent of a person at the console: it asks, and what it asks for above 5.00 EUR waits for that person. */
export interface PersonsAgent {
  readonly account: SeededAccount;
  /** A session of the CLI, for what the test does not want to click. */
  readonly cli: string;
  /** Asks for what needs a human; returns the escalation's identifier. */
  escalate(options?: AskOptions): Promise<string>;
  /** The same with a body that the card shows. */
  escalateWith(body: string | Buffer, options?: AskOptions): Promise<string>;
  /** Forwards a payment whose outcome nobody knows; returns its receipt. */
  unknown(options?: AskOptions): Promise<string>;
}

/** Gives a person of the console an agent with a mandate, a gateway and a mapped tool. */
export async function agentOf(
  fixture: Pick<ConsoleFixture, 'send' | 'sql' | 'signUp' | 'lanes'>,
  { accountId }: Pick<ConsolePerson, 'accountId'>,
  mandate: Readonly<Record<string, unknown>> = {},
): Promise<PersonsAgent> {
  const { sql, send, lanes } = fixture;
  const { token: cli, accountId: lent } = await fixture.signUp();
  await sql`update sessions set account_id = ${accountId} where account_id = ${lent}`;
  await sql`update token_routes set account_id = ${accountId} where account_id = ${lent}`;
  const made = await send('POST', '/admin/mandates', cli, { ...MANDATE, escalation_threshold: 5, ...mandate });
  const mandateId = textAt(made, 'mandate_id');
  const gateway = { mandate_id: mandateId, target_url: 'http://127.0.0.1:9', name: 'Payments <b>API</b>' };
  const instance = await send('POST', '/admin/gateways', cli, gateway);
  const [instanceId, token] = [textAt(instance, 'instance_id'), textAt(instance, 'token')];
  const tool = { name: PAYMENTS, mapping: { action_type: 'payments.create' } };
  const mapped = await send('PUT', `/admin/gateways/${instanceId}/tools`, cli, tool);
  const toolId = textAt(mapped, 'tool_id');
  const account = { accountId, mandateId, instanceId, toolId, token, tokenHash: secretHash(token) };
  const escalate: PersonsAgent['escalate'] = async (options = {}) => {
    const answer = await ask(lanes, account, { amount: 501, ...options });
    if (answer.answer !== 'escalate') throw new Error(`not escalated: ${JSON.stringify(answer)}`);
    return answer.escalation_id;
  };
  return {
    account,
    cli,
    escalate,
    escalateWith: async (body, options = {}) => {
      const id = await escalate({ body: `of ${String(body).length} characters`, ...options });
      // As EscalationWaits.storeBody keeps it, whose check of the digest is tried elsewhere.
      await sql`update escalations set request_body = ${Buffer.from(body)} where escalation_id = ${id}`;
      return id;
    },
    unknown: async (options = {}) => {
      const receipt = allowed(await ask(lanes, account, { amount: 300, ...options }));
      await tell(lanes, account, receipt, { outcome: 'unknown', cause: 'target_timeout', target_status: null });
      return receipt;
    },
  };
}
