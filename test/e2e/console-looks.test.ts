import type { Page } from 'playwright-core';
import t from 'tap';
import { secretHash } from '../../core/secret-token.ts';
import { busyAccount } from '../integration/console/busy-console.ts';
import { CONSOLE_PASSWORD } from '../integration/console/console-fixture.ts';
import { textAt } from '../integration/control-plane/admin-fixture.ts';
import { MANDATE } from '../integration/control-plane/noun-fixture.ts';
import { ask } from '../integration/decisions/lane-client.ts';
import { DESK, lookAt, NO_BROWSER, newVisitor, PHONE, servedConsole, startBrowser } from './browser.ts';

/** Every page that can be looked at without an object of its own. */
const OPEN_PAGES = ['/console/login', '/console/signup', '/console/nowhere'];
const PAGES = [
  '/console',
  '/console/approvals',
  '/console/mandates',
  '/console/mandates/new',
  '/console/gateways',
  '/console/gateways/new',
  '/console/keys',
  '/console/keys/new',
  '/console/evidence',
  '/console/evidence?decision=deny&min_amount=5',
  '/console/evidence/entries',
  '/console/evidence/export',
  '/console/evidence/log',
  '/console/reconcile',
  '/console/settings',
  '/console/settings/webhooks/new',
  '/console/stop',
  '/console/stop/resume',
  '/console/account',
  '/console/confirm',
];

const nameOf = (path: string): string =>
  path
    .replace(/[a-z]{3}_[0-9a-z]{26}/, 'one')
    .replace(/\?.*/, '-asked')
    .replace('#', '-')
    .slice('/console'.length)
    .replaceAll('/', '-')
    .replace(/^-/, '') || 'overview';

t.test('every page is in order for axe-core, light and dark, and fits a phone', { skip: NO_BROWSER }, async (t) => {
  const fixture = await servedConsole(t);
  const person = await fixture.person('anna@example.com');
  const { token } = await fixture.signUp('cli@example.com');
  const mandateId = await makeObjects(fixture, person.accountId, token);
  await makeDecisions(fixture, person.accountId, token);
  const [key] = await fixture.sql<{ key_id: string }[]>`select key_id from api_keys`;
  const [active] = await fixture.sql<{ mandate_id: string }[]>`
    select mandate_id from mandates where name like 'Travel%'`;
  const own = `/console/mandates/${active?.mandate_id}`;
  const { allowedReceipt, escalatedReceipt } = await busyAccount(fixture, person);
  const [entry] = await fixture.sql<{ id: string }[]>`select id from evidence where kind = 'mandate.created' limit 1`;
  const pages = [
    ...PAGES,
    ...['', '/edit', '/versions', '/suspend', '/revoke'].map((step) => `${own}${step}`),
    `/console/mandates/${mandateId}/activate`,
    `/console/keys/${key?.key_id}/revoke`,
    `/console/evidence/${allowedReceipt}`,
    `/console/evidence/${escalatedReceipt}#waits`,
    `/console/evidence/entries/${entry?.id}`,
  ];
  const browser = await startBrowser(t);
  for (const dark of [false, true]) {
    const visitor = await newVisitor(browser, { dark, locale: dark ? 'de-DE' : 'en-GB' });
    const page = await visitor.newPage();
    const errors: string[] = [];
    page.on('console', (message) => message.type() === 'error' && errors.push(message.text()));
    const look = (name: string) => lookAt(t, page, name, { dark });
    const visit = async (path: string) => {
      await page.goto(`${fixture.url}${path}`);
      await look(nameOf(path));
    };
    for (const path of OPEN_PAGES) await visit(path);
    await signIn(page, fixture.url, person.email, await codeAfter(fixture, person.secret));
    for (const path of pages) await visit(path);
    for (const size of [PHONE, DESK]) {
      await page.setViewportSize(size);
      await page.goto(`${fixture.url}${own}`);
      await page.locator('details.menu:not(.pages) summary').click();
      await lookAt(t, page, 'menu', { dark, sizes: [size] });
    }
    await visit('/console/account/authenticator');
    await page.goto(`${fixture.url}/console/keys/new`);
    await page.locator('form[action="/console/keys"] button').click();
    await look('refused');
    await lookAtWizard(page, fixture.url, look);
    await page.goto(`${fixture.url}${own}/edit`);
    await page.locator('input[name=per_action]').fill('60');
    for (const go of ['review', 'replay-now']) {
      await page.locator(`button[name=go][value=${go}]`).click();
      await look(go);
    }
    t.same(
      errors.filter((text) => !/status of (?:404|422)/.test(text)),
      [],
      'no console errors',
    );
    await visitor.close();
  }
});

/** Walks through the wizard up to its last page, with a fault on the way. */
async function lookAtWizard(page: Page, url: string, look: (name: string) => Promise<void>): Promise<void> {
  const next = () => page.locator('button[name=go][value=next]').click();
  await page.goto(`${url}/console/mandates/new`);
  await page.locator('input[name=name]').fill('Purchasing agent');
  await next();
  await page.locator('textarea[name=more]').fill('Pay me');
  await next();
  await look('wizard-actions-refused');
  await page.locator('textarea[name=more]').fill('payments.*\norders.create');
  await next();
  await page.locator('input[name=per_action]').fill('250');
  await page.locator('input[name=per_month]').fill('2000');
  await page.locator('input[name=threshold]').fill('300');
  await look('wizard-limits');
  await next();
  await page.locator('textarea[name=counterparties]').fill('acme-supplies\n<script>alert(1)</script>');
  await look('wizard-conditions');
  await next();
  await look('wizard-review');
}

/** Gives the person what their lists are full of; made by another account, which is theirs from then on. */
async function makeObjects(
  { send, sql }: Awaited<ReturnType<typeof servedConsole>>,
  accountId: string,
  token: string,
): Promise<string> {
  await sql`update token_routes set account_id = ${accountId} where kind = 'session' and account_id <> ${accountId}`;
  await sql`update sessions set account_id = ${accountId} where kind = 'cli'`;
  for (const name of ['Purchasing agent', 'Travel <script>alert(1)</script>']) {
    await send('POST', '/admin/mandates', token, { ...MANDATE, name, counterparties: ['acme', 'x<b>y'] });
  }
  const made = await send('POST', '/admin/mandates', token, { ...MANDATE, activate: false, name: 'Draft' });
  await send('POST', '/admin/keys', token, { name: 'Webshop', scopes: ['verify', 'consumptions:write'] });
  await sql`
    insert into mandate_months (account_id, mandate_id, month, reserved, booked, allows)
    select account_id, mandate_id, date_trunc('month', db_clock())::date, 12000, 43050, 7 from mandates`;
  return textAt(made, 'mandate_id');
}

/** Has the agent of a mandate ask for some payments on a few days. */
async function makeDecisions(
  fixture: Awaited<ReturnType<typeof servedConsole>>,
  accountId: string,
  token: string,
): Promise<void> {
  const { send, sql, lanes } = fixture;
  const [row] = await sql<{ mandate_id: string }[]>`select mandate_id from mandates where name like 'Travel%'`;
  const mandateId = row?.mandate_id ?? '';
  const target = { mandate_id: mandateId, target_url: 'http://127.0.0.1:9', name: 'Webshop' };
  const made = await send('POST', '/admin/gateways', token, target);
  const [secret, instanceId] = [textAt(made, 'token'), textAt(made, 'instance_id')];
  const tool = { name: 'http.post:/payments', mapping: { action_type: 'payments.create' } };
  const mapped = await send('PUT', `/admin/gateways/${instanceId}/tools`, token, tool);
  const account = {
    ...{ accountId, mandateId, instanceId, token: secret, tokenHash: secretHash(secret) },
    toolId: textAt(mapped, 'tool_id'),
  };
  for (const amounts of [[20, 35, 120], [80], [12, 64, 20, 150]]) {
    for (const amount of amounts) await ask(lanes, account, { amount: amount * 100 });
    await fixture.advance(2_000);
  }
  await sql`
    update reservations set state = 'unknown' where receipt_id in (select min(receipt_id) from reservations)`;
}

async function codeAfter(fixture: Awaited<ReturnType<typeof servedConsole>>, secret: string): Promise<string> {
  await fixture.advance(60);
  return fixture.codeOf(secret);
}

async function signIn(page: Page, url: string, email: string, code: string): Promise<void> {
  await page.goto(`${url}/console/login`);
  await page.getByLabel(/E-mail|E-Mail/).fill(email);
  await page.locator('input[name=password]').fill(CONSOLE_PASSWORD);
  await page.locator('input[name=code]').fill(code);
  await page.locator('form[action="/console/login"] button').click();
  await page.waitForURL(`${url}/console`);
}
