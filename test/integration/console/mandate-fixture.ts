import { secretHash } from '../../../core/secret-token.ts';
import { textAt } from '../control-plane/admin-fixture.ts';
import { MANDATE } from '../control-plane/noun-fixture.ts';
import { ask } from '../decisions/lane-client.ts';
import { type ConsoleFixture, type ConsolePerson, consoleFixture } from './console-fixture.ts';

/** A person with a mandate and a gateway whose agent can ask. */
export interface MandateFixture extends ConsoleFixture {
  readonly owner: ConsolePerson;
  readonly mandateId: string;
  /** The path of the mandate's page. */
  readonly own: string;
  /** The admin API as the owner. */
  api(method: 'GET' | 'POST' | 'PUT', url: string, body?: unknown): ReturnType<ConsoleFixture['send']>;
  /** The agent asks to pay so many major units. */
  pay(amount: number): ReturnType<typeof ask>;
}

/** Makes them; `changes` are terms of the mandate. */
export async function mandateFixture(
  t: Parameters<typeof consoleFixture>[0],
  changes: Readonly<Record<string, unknown>> = {},
): Promise<MandateFixture> {
  const fixture = await consoleFixture(t);
  const [owner, cli] = [await fixture.person(), await fixture.signUp()];
  await fixture.sql`update sessions set account_id = ${owner.accountId} where account_id = ${cli.accountId}`;
  await fixture.sql`update token_routes set account_id = ${owner.accountId} where account_id = ${cli.accountId}`;
  const api: MandateFixture['api'] = (method, url, body) => fixture.send(method, url, cli.token, body);
  const made = await api('POST', '/admin/mandates', { ...MANDATE, name: 'Travel <i>', ...changes });
  const mandateId = textAt(made, 'mandate_id');
  const target = { mandate_id: mandateId, target_url: 'http://127.0.0.1:9', name: 'Shop' };
  const gateway = await api('POST', '/admin/gateways', target);
  const [token, instanceId] = [textAt(gateway, 'token'), textAt(gateway, 'instance_id')];
  const tool = { name: 'http.post:/payments', mapping: { action_type: 'payments.create' } };
  const mapped = await api('PUT', `/admin/gateways/${instanceId}/tools`, tool);
  const account = {
    ...{ accountId: owner.accountId, mandateId, instanceId, token, tokenHash: secretHash(token) },
    toolId: textAt(mapped, 'tool_id'),
  };
  const pay: MandateFixture['pay'] = (amount) => ask(fixture.lanes, account, { amount: amount * 100 });
  await owner.browser.get('/console');
  return { ...fixture, owner, mandateId, own: `/console/mandates/${mandateId}`, api, pay };
}

/** What a page carries along, as a browser without scripts would send it back. */
export function hiddenFields(text: string): Record<string, string> {
  const found = text.matchAll(/<input type="hidden" name="([^"]+)" value="([^"]*)">/g);
  const fields = Array.from(found, ([, name, value]): [string, string] => [name ?? '', unescaped(value ?? '')]);
  return Object.fromEntries(fields.filter(([name]) => name !== 'csrf' && name !== 'next'));
}

/** The text of an element, as a reader sees it. */
export function unescaped(text: string): string {
  return text
    .replaceAll('&lt;', '<')
    .replaceAll('&gt;', '>')
    .replaceAll('&quot;', '"')
    .replaceAll('&#39;', "'")
    .replaceAll('&amp;', '&');
}
