import type { Page } from 'playwright-core';
import t from 'tap';
import { busyAccount } from '../integration/console/busy-console.ts';
import { CONSOLE_PASSWORD } from '../integration/console/console-fixture.ts';
import { textAt } from '../integration/control-plane/admin-fixture.ts';
import { MANDATE } from '../integration/control-plane/noun-fixture.ts';
import {
  axeFindings,
  DESK,
  fitsWidth,
  keepPicture,
  NO_BROWSER,
  newVisitor,
  PHONE,
  servedConsole,
  startBrowser,
} from './browser.ts';

/** Every page that can be looked at without an object of its own. */
const OPEN_PAGES = ['/console/login', '/console/signup', '/console/nowhere'];
const PAGES = [
  '/console',
  '/console/approvals',
  '/console/mandates',
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
  const [key] = await fixture.sql<{ key_id: string }[]>`select key_id from api_keys`;
  const { allowedReceipt, escalatedReceipt } = await busyAccount(fixture, person);
  const [entry] = await fixture.sql<{ id: string }[]>`select id from evidence where kind = 'mandate.created' limit 1`;
  const pages = [
    ...PAGES,
    `/console/mandates/${mandateId}`,
    `/console/keys/${key?.key_id}/revoke`,
    `/console/evidence/${allowedReceipt}`,
    `/console/evidence/${escalatedReceipt}#waits`,
    `/console/evidence/entries/${entry?.id}`,
  ];
  const browser = await startBrowser(t);
  for (const dark of [false, true]) {
    for (const size of [PHONE, DESK]) {
      const visitor = await newVisitor(browser, { dark, size, locale: dark ? 'de-DE' : 'en-GB' });
      const page = await visitor.newPage();
      const errors: string[] = [];
      page.on('console', (message) => message.type() === 'error' && errors.push(message.text()));
      const look = async (path: string) => {
        await page.goto(`${fixture.url}${path}`);
        const name = `${nameOf(path)}-${size.width}-${dark ? 'dark' : 'light'}`;
        t.same(await axeFindings(page), [], name);
        t.ok(await fitsWidth(page), `${name} fits`);
        await keepPicture(page, name);
      };
      for (const path of OPEN_PAGES) await look(path);
      await signIn(page, fixture.url, person.email, await codeAfter(fixture, person.secret));
      for (const path of pages) await look(path);
      await page.locator('details.menu:not(.pages) summary').click();
      await keepPicture(page, `menu-${size.width}-${dark ? 'dark' : 'light'}`);
      t.same(await axeFindings(page), [], 'with the menu open');
      await page.goto(`${fixture.url}/console/account/authenticator`);
      t.same(await axeFindings(page), [], 'authenticator');
      await keepPicture(page, `authenticator-${size.width}-${dark ? 'dark' : 'light'}`);
      await page.goto(`${fixture.url}/console/keys/new`);
      await page.locator('form[action="/console/keys"] button').click();
      t.same(await axeFindings(page), [], 'a refused form');
      await keepPicture(page, `refused-${size.width}-${dark ? 'dark' : 'light'}`);
      t.same(
        errors.filter((text) => !/status of (?:404|422)/.test(text)),
        [],
        'no console errors',
      );
      await visitor.close();
    }
  }
});

/** Gives the person what their lists are full of; made by another account, which is theirs from then on. */
async function makeObjects(
  { send, sql }: Awaited<ReturnType<typeof servedConsole>>,
  accountId: string,
  token: string,
): Promise<string> {
  await sql`update token_routes set account_id = ${accountId} where kind = 'session' and account_id <> ${accountId}`;
  await sql`update sessions set account_id = ${accountId} where kind = 'cli'`;
  for (const name of ['Purchasing agent', 'Travel <script>alert(1)</script>']) {
    await send('POST', '/admin/mandates', token, { ...MANDATE, name, counterparties: ['acme-supplies', 'x<b>y'] });
  }
  const made = await send('POST', '/admin/mandates', token, { ...MANDATE, activate: false, name: 'Draft' });
  await send('POST', '/admin/keys', token, { name: 'Webshop', scopes: ['verify', 'consumptions:write'] });
  await sql`
    insert into mandate_months (account_id, mandate_id, month, reserved, booked, allows)
    select account_id, mandate_id, date_trunc('month', db_clock())::date, 12000, 43050, 7 from mandates`;
  return textAt(made, 'mandate_id');
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
