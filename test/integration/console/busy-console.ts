import type { SeededAccount } from '../../../bench/seed.ts';
import { secretHash } from '../../../core/secret-token.ts';
import { textAt } from '../control-plane/admin-fixture.ts';
import { MANDATE } from '../control-plane/noun-fixture.ts';
import { type AskOptions, allowed, ask, tell } from '../decisions/lane-client.ts';
import type { ConsoleFixture, ConsolePerson } from './console-fixture.ts';

/** Text that would run if a page took it for markup. */
export const HOSTILE = `<img src=x onerror="alert(1)">'"&</details><script>alert(2)</script>`;

/** A person with a mandate, a gateway and decisions of every kind. */
export interface BusyAccount {
  readonly account: SeededAccount;
  /** The session of their command line. */
  readonly token: string;
  readonly allowedReceipt: string;
  readonly deniedReceipt: string;
  readonly escalatedReceipt: string;
  readonly escalationId: string;
  ask(options?: AskOptions): ReturnType<typeof ask>;
}

type Given = Pick<ConsoleFixture, 'send' | 'sql' | 'lanes' | 'signUp'>;

/** Gives a person what their pages are full of; all of it is made as the product makes it. */
export async function busyAccount(
  fixture: Given,
  { accountId }: Pick<ConsolePerson, 'accountId'>,
): Promise<BusyAccount> {
  const { send, sql, lanes, signUp } = fixture;
  const { accountId: cliId, token } = await signUp();
  await sql`update token_routes set account_id = ${accountId} where account_id = ${cliId}`;
  await sql`update sessions set account_id = ${accountId} where account_id = ${cliId}`;
  const terms = {
    ...MANDATE,
    name: `Purchasing ${HOSTILE}`,
    escalation_threshold: 50,
    counterparties: ['acme', HOSTILE],
  };
  const mandateId = textAt(await send('POST', '/admin/mandates', token, terms), 'mandate_id');
  const target = { mandate_id: mandateId, target_url: 'http://127.0.0.1:9', name: `Shop ${HOSTILE}` };
  const gateway = await send('POST', '/admin/gateways', token, target);
  const [instanceId, secret] = [textAt(gateway, 'instance_id'), textAt(gateway, 'token')];
  const unmapped = { accountId, mandateId, instanceId, toolId: '', token: secret, tokenHash: secretHash(secret) };
  await ask(lanes, unmapped, { toolVersion: null });
  const mapping = {
    ...{ action_type: 'payments.create', amount: '/amount', currency: '/currency', counterparty: '/counterparty' },
    ...{ amount_unit: 'major', currency_notation: 'iso', body_limit_bytes: 65_536 },
  };
  await send('PUT', `/admin/gateways/${instanceId}/tools`, token, { name: 'http.post:/payments', mapping });
  const [tool] = await sql<{ tool_id: string; version: number; state: string }[]>`
    select tool_id, version, state from tools
    where account_id = ${accountId} and instance_id = ${instanceId} and key = 'http.post:/payments'`;
  if (tool?.state !== 'mapped') throw new Error('the tool is not mapped');
  const account = { ...unmapped, toolId: tool.tool_id };
  const asked = (options: AskOptions = {}) => ask(lanes, account, { toolVersion: tool.version, ...options });
  const first = await asked({ amount: 1_250, counterparty: 'acme' });
  await tell(lanes, account, allowed(first), { outcome: 'booked' });
  const second = await asked({ amount: 700, counterparty: HOSTILE });
  await tell(lanes, account, allowed(second), { outcome: 'unknown' });
  await asked({ amount: 20_000 });
  await asked({ amount: 5, counterparty: `evil ${HOSTILE}` });
  await asked({ name: 'http.post:/elsewhere', toolVersion: null });
  await asked({ amount: 6_000 });
  const rows = await sql<{ id: string; decision: string }[]>`
    select id, body::json ->> 'decision' as decision from evidence
    where account_id = ${accountId} and kind = 'decision' order by seq`;
  const receiptOf = (decision: string) => rows.find((row) => row.decision === decision)?.id ?? '';
  const [escalation] = await sql<{ escalation_id: string }[]>`
    select escalation_id from escalations where account_id = ${accountId}`;
  return {
    ...{ account, token, ask: asked, escalationId: escalation?.escalation_id ?? '' },
    ...{ allowedReceipt: receiptOf('allow'), deniedReceipt: receiptOf('deny') },
    escalatedReceipt: receiptOf('escalate'),
  };
}
