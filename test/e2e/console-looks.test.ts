import type { Page } from 'playwright-core';
import t from 'tap';
import { CONSOLE_PASSWORD } from '../integration/console/console-fixture.ts';
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
  '/console/keys',
  '/console/keys/new',
  '/console/evidence',
  '/console/reconcile',
  '/console/settings',
  '/console/account',
  '/console/confirm',
];

const nameOf = (path: string): string =>
  path.slice('/console'.length).replaceAll('/', '-').replace(/^-/, '') || 'overview';

t.test('every page is in order for axe-core, light and dark, and fits a phone', { skip: NO_BROWSER }, async (t) => {
  const fixture = await servedConsole(t);
  const person = await fixture.person('anna@example.com');
  const { token } = await fixture.signUp('cli@example.com');
  t.ok(token);
  await fixture.deps.commands.command(person.accountId, async ({ sql, now }) => {
    await sql`select ${now}::text, ${MANDATE.scope.length}::integer`;
  });
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
      for (const path of PAGES) await look(path);
      t.same(
        errors.filter((text) => !text.includes('404')),
        [],
        'no console errors',
      );
      await visitor.close();
    }
  }
});

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
