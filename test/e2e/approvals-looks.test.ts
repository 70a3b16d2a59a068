import type { Page } from 'playwright-core';
import t from 'tap';
import { agentOf, type PersonsAgent } from '../integration/console/agent-fixture.ts';
import { CONSOLE_PASSWORD, type ConsolePerson } from '../integration/console/console-fixture.ts';
import { textAt } from '../integration/control-plane/admin-fixture.ts';
import { DESK, keepPicture, lookAt, NO_BROWSER, newVisitor, servedConsole, startBrowser } from './browser.ts';

/** The smallest phone that the card is for: what is within it counts, not what is below. */
const SMALL_PHONE = { width: 360, height: 640 } as const;

const BODY = JSON.stringify(
  {
    amount: 512.5,
    currency: 'EUR',
    counterparty: 'acme-supplies',
    reference: 'PO-2041 <script>alert(1)</script>\u202e',
  },
  null,
  2,
);

t.test(
  'an escalation is answered on a small phone, live, and every page of it is in order',
  { skip: NO_BROWSER },
  async (t) => {
    const fixture = await servedConsole(t);
    const person = await fixture.person('anna@example.com');
    const agent = await agentOf(fixture, person, { name: 'Purchasing agent', amount_limit_per_action: 900 });
    await fixture.sql`
    insert into mandate_months (account_id, mandate_id, month, reserved, booked, allows)
    select account_id, mandate_id, date_trunc('month', db_clock())::date, 12000, 33050, 7 from mandates
    on conflict (account_id, mandate_id, month) do update set reserved = 12000, booked = 33050`;
    const browser = await startBrowser(t);
    const escalate = (counterparty: string) => agent.escalateWith(BODY, { amount: 51_250, counterparty });
    for (const dark of [false, true]) {
      const visitor = await newVisitor(browser, { dark, size: SMALL_PHONE, locale: dark ? 'de-DE' : 'en-GB' });
      const page = await visitor.newPage();
      const errors: string[] = [];
      page.on('console', (message) => message.type() === 'error' && errors.push(message.text()));
      const look = async (what: string) => {
        await keepPicture(page, `${what}-${dark ? 'dark' : 'light'}-screen`, false);
        await lookAt(t, page, what, { dark, sizes: [DESK, SMALL_PHONE] });
      };
      await signIn(page, fixture.url, person, fixture);
      await page.goto(`${fixture.url}/console/approvals`);
      const [one, two] = [await escalate(`acme-${dark}`), await escalate(`globex-${dark}`)];
      await page.locator(`a[href="/console/approvals/${two}"]`).first().waitFor();
      await look('inbox');
      await page.goto(`${fixture.url}/console/approvals/${one}`);
      await look('card');
      await fixture.advance(301);
      await page.goto(`${fixture.url}/console/approvals/${one}`);
      await look('card-code');
      await page.locator('button[value=approve]').click();
      await page.locator('#f-factor-code-error').waitFor();
      await look('card-refused');
      const other = await visitor.newPage();
      await other.goto(`${fixture.url}/console/approvals/${one}`);
      await page.locator('input[name=factor_code]').fill(await codeAfter(fixture, person));
      await page.locator('button[value=approve]').click();
      await page.locator('.notice.good').first().waitFor();
      await look('approved');
      await other.locator('.notice.good').first().waitFor();
      await other.close();
      await page.goto(`${fixture.url}/console/approvals/${two}`);
      await page.locator('summary', { hasText: /reason|Grund/ }).click();
      await page.locator('textarea').fill('Ask Berta first.');
      await look('card-reason');
      await page.locator('button[value=reject]').click();
      await page.locator('.notice.bad').first().waitFor();
      await look('rejected');
      await page.goto(`${fixture.url}/console/approvals`);
      await look('history');
      // Each width and each theme once: these pages differ less.
      const sizes = [dark ? DESK : SMALL_PHONE];
      await lookAtRest({ fixture, agent, page, look: (what) => lookAt(t, page, what, { dark, sizes }) });
      t.same(
        errors.filter((text) => !/status of (?:404|409|422)/.test(text)),
        [],
        'no console errors',
      );
      await visitor.close();
    }
  },
);

interface Look {
  readonly fixture: Awaited<ReturnType<typeof servedConsole>>;
  readonly agent: PersonsAgent;
  readonly page: Page;
  readonly look: (what: string) => Promise<void>;
}

/** What nobody knows the outcome of, and what is told where. */
async function lookAtRest({ fixture, agent, page, look }: Look): Promise<void> {
  const receipt = await agent.unknown({ counterparty: 'initech' });
  const webhook = await webhookOf(fixture, agent.cli);
  const own = `/console/settings/webhooks/${webhook.id}`;
  for (const [what, path] of [
    ['reconcile', '/console/reconcile'],
    ['settle', `/console/reconcile/${receipt}`],
    ['settings', '/console/settings'],
    ['webhook-new', '/console/settings/webhooks/new'],
    ['webhook', own],
    ['delivery', `${own}/deliveries/${webhook.delivery}`],
    ['webhook-delete', `${own}/delete`],
  ] as const) {
    await page.goto(`${fixture.url}${path}`);
    await look(what);
  }
  await page.goto(`${fixture.url}${own}/rotate`);
  await page.locator('form[action$="/rotate"] button').click();
  await page.locator('#webhook-secret').waitFor();
  await look('webhook-secret');
}

async function webhookOf(
  { send, sql }: Awaited<ReturnType<typeof servedConsole>>,
  token: string,
): Promise<{ readonly id: string; readonly delivery: string }> {
  const made = await send('POST', '/admin/webhooks', token, { name: 'Shop', url: 'https://127.0.0.1:9/hooks/mandate' });
  const id = textAt(made, 'endpoint_id');
  const test = await send('POST', `/admin/webhooks/${id}/test`, token);
  const delivery = textAt(test, 'delivery_id');
  const log = [{ at: '2026-11-21T12:00:00.000Z', attempt: 1, status: 503, error: 'refused', latency_ms: 41 }];
  await sql`update notification_deliveries set log = ${JSON.stringify(log)}::text::jsonb, attempts = 1,
    last_status = 503, last_error = 'refused' where delivery_id = ${delivery}`;
  return { id, delivery };
}

async function codeAfter(
  fixture: Awaited<ReturnType<typeof servedConsole>>,
  { secret }: ConsolePerson,
): Promise<string> {
  await fixture.advance(31);
  return fixture.codeOf(secret);
}

async function signIn(
  page: Page,
  url: string,
  person: ConsolePerson,
  fixture: Awaited<ReturnType<typeof servedConsole>>,
): Promise<void> {
  await page.goto(`${url}/console/login`);
  await page.getByLabel(/E-mail|E-Mail/).fill(person.email);
  await page.locator('input[name=password]').fill(CONSOLE_PASSWORD);
  await page.locator('input[name=code]').fill(await codeAfter(fixture, person));
  await page.locator('form[action="/console/login"] button').click();
  await page.waitForURL(`${url}/console`);
}
