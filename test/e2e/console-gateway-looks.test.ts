import type { Page } from 'playwright-core';
import t from 'tap';
import { discover, OPENAPI } from '../integration/console/discovered-tools.ts';
import { textAt } from '../integration/control-plane/admin-fixture.ts';
import { MANDATE } from '../integration/control-plane/noun-fixture.ts';
import { lookAt, NO_BROWSER, newVisitor, servedConsole, startBrowser } from './browser.ts';

const TEMPLATE = 'http.post:/orders/{order_id}/refund';
const LONG = `http.post:/${'x'.repeat(600)}`;
/** Names that want to break the page: direction marks, markup, no place to break. */
const HOSTILE = 'Shop \u202e<b>& co</b>\u2066';

t.test('pages of gateways are in order for axe-core and fit a phone', { skip: NO_BROWSER }, async (t) => {
  const fixture = await servedConsole(t);
  const person = await fixture.person('anna@example.com');
  const path = await makeGateway(fixture, person.accountId);
  const browser = await startBrowser(t);
  for (const dark of [false, true]) {
    const visitor = await newVisitor(browser, { dark, locale: dark ? 'de-DE' : 'en-GB' });
    const cookies = Array.from(person.browser.cookies, ([name, value]) => ({ name, value, url: fixture.url }));
    await visitor.addCookies(cookies);
    const page = await visitor.newPage();
    const look = async (name: string) => {
      await lookAt(t, page, name, { dark });
      t.notMatch(
        (await page.evaluate('document.body.innerText')) as string,
        /[\u202a-\u202e\u2066-\u2069]/,
        `${name} is read as it is written`,
      );
    };
    for (const [name, url] of Object.entries(pagesOf(path))) {
      const answer = await page.goto(`${fixture.url}${url}`);
      t.equal(answer?.status(), 200, url);
      await look(name);
    }
    await lookAtAnswers(page, fixture.url, path, look);
    await visitor.close();
  }
});

function pagesOf(path: string): Readonly<Record<string, string>> {
  const edit = `${path}/tools/edit?name=`;
  return {
    list: '/console/gateways',
    one: path,
    change: `${path}/change`,
    disable: `${path}/disable`,
    tools: `${path}/tools`,
    mapped: `${path}/tools?show=mapped`,
    blocked: `${path}/tools?show=blocked`,
    'edit-template': `${edit}${encodeURIComponent(TEMPLATE)}`,
    'edit-long': `${edit}${encodeURIComponent(LONG)}`,
    import: `${path}/tools/import`,
  };
}

/** What only forms answer: a mapping that was tried, what is wrong with one, operations to pick, a token. */
async function lookAtAnswers(page: Page, url: string, path: string, look: (name: string) => Promise<void>) {
  await page.goto(`${url}${path}/tools/edit?name=${encodeURIComponent(TEMPLATE)}`);
  await page.locator('[name=action_type]').selectOption('payments.refund');
  await page.locator('[name=try_body]').fill('{"amount": 5000, "currency": "EUR", "payee": "acme"}');
  await page.locator('button[value=try]').click();
  await page.locator('.notice.bad').waitFor();
  await look('tried');
  await page.locator('[name=amount]').selectOption('other');
  await page.locator('button[value=save]').click();
  await page.locator('.wrong').waitFor();
  await look('refused');
  await page.goto(`${url}${path}/tools/import`);
  await page
    .locator('input[type=file]')
    .setInputFiles({ name: 'a.json', mimeType: 'application/json', buffer: Buffer.from(OPENAPI) });
  await page.locator(`form[action="${path}/tools/import"] button[type=submit]`).click();
  await page.locator('[name="action[0]"]').waitFor();
  await look('operations');
  await page.goto(`${url}${path}/rotate`);
  await page.locator(`form[action="${path}/rotate"] button`).click();
  await page.locator('#new-token').waitFor();
  await look('token');
}

async function makeGateway(fixture: Awaited<ReturnType<typeof servedConsole>>, accountId: string): Promise<string> {
  const { sql, send } = fixture;
  const { token } = await fixture.signUp('cli@example.com');
  await sql`update token_routes set account_id = ${accountId} where kind = 'session' and account_id <> ${accountId}`;
  await sql`update sessions set account_id = ${accountId} where kind = 'cli'`;
  const mandate_id = textAt(await send('POST', '/admin/mandates', token, MANDATE), 'mandate_id');
  const credential = { header: 'Authorization', value: 'Bearer sk_live_4242' };
  const gateway = { mandate_id, target_url: 'http://127.0.0.1:9', name: HOSTILE, credential };
  const id = textAt(await send('POST', '/admin/gateways', token, gateway), 'instance_id');
  const tools = `/admin/gateways/${id}/tools`;
  const mapping = { action_type: 'payments.create' };
  await send('PUT', tools, token, { name: 'http.post:/payments', mapping });
  await send('POST', `${tools}/block`, token, { name: 'http.delete:/everything' });
  const orders = [81, 82, 83, 84, 85, 86, 87].map((order) => `http.post:/orders/${order}/refund`);
  const others = ['http.post:/v1/transfers', 'http.get:/%3Cscript%3Ealert(1)%3C/script%3E'];
  await discover(sql, { accountId, instanceId: id }, [...orders, LONG, ...others]);
  return `/console/gateways/${id}`;
}
