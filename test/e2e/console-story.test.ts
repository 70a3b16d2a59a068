import { readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { generateSync } from 'otplib';
import type { Browser, Page } from 'playwright-core';
import t from 'tap';
import { type PaymentsApi, startPaymentsApi } from '../../examples/payments-api.ts';
import { fitsWidth, freePort, keepPicture, NO_BROWSER, newVisitor, startBrowser } from './browser.ts';
import { ANY_PORTS, mandate, newDirectory, startUp } from './running-system.ts';

type Check = Pick<typeof t, 'equal' | 'match' | 'ok' | 'same'>;
type Teardown = Parameters<typeof startBrowser>[0];

const PASSWORD = 'an unlikely sentence';
const CREDENTIAL = 'what only the target and the gateway know';
const SMALL_PHONE = { width: 360, height: 640 } as const;
/** A page comes within milliseconds; this is for a machine that is busy. */
const STEP_TIMEOUT_MS = 15_000;
const RELOAD_MS = 250;
const TOTP_STEP_MS = 30_000;
/** Beside the threshold of 100: one below it, one above. */
const SMALL = { amount: 12.5, currency: 'EUR', counterparty: 'acme-supplies', reference: 'PO-2041' };
const LARGE = { ...SMALL, amount: 150, reference: 'PO-2042' };

/** What happened so far, and who is in it. */
interface Story {
  readonly t: Check;
  readonly browser: Browser;
  /** Whether browsers run scripts. */
  readonly scripts: boolean;
  /** The one address that is public: the proxy's. */
  readonly url: string;
  readonly email: string;
  readonly target: PaymentsApi;
  readonly directory: string;
  /** The person's browser at a desk. */
  readonly page: Page;
  /** What browsers reported as errors. */
  readonly errors: string[];
}

/** An authenticator app: a step of 30 s has one code, and a code is given once. */
class Authenticator {
  readonly #secret: string;
  #last = 0;

  constructor(secret: string) {
    this.#secret = secret;
  }

  /** The code of a step that none was given for; waits where the service would not take that step yet. */
  async code(): Promise<string> {
    const now = () => Math.floor(Date.now() / TOTP_STEP_MS);
    this.#last = Math.max(this.#last + 1, now());
    // The service takes the next step too: clocks differ (RFC 6238 §5.2).
    while (this.#last > now() + 1) await new Promise((resolve) => setTimeout(resolve, 500));
    return generateSync({ secret: this.#secret, epoch: (this.#last * TOTP_STEP_MS) / 1000 });
  }
}

/** What an agent has: an address, a token, and what it got back. */
interface Agent {
  readonly address: string;
  readonly token: string;
}

interface Answer {
  readonly status: number;
  readonly body: Readonly<Record<string, unknown>>;
}

t.test('the whole story, in a browser, through the public address', { skip: NO_BROWSER }, async (t) => {
  const directory = await newDirectory();
  const up = await startUp({
    ...ANY_PORTS,
    // Forms come from the public address only, which so must be known beforehand.
    MANDATE_PROXY_PORT: String(await freePort()),
    MANDATE_DATA_DIR: join(directory, 'data'),
    // Each yes asks for a code: what was shown at the sign-in does not count.
    MANDATE_APPROVAL_FACTOR_MS: '0',
  });
  t.teardown(async () => {
    await up.killTree();
    await rm(directory, { recursive: true, force: true });
  });
  const browser = await startBrowser(t);
  const url = up.addresses['proxy'] ?? '';
  for (const scripts of [true, false]) {
    await t.test(scripts ? 'with scripts' : 'without scripts', async (t) => {
      const story = await beginning(t, { browser, scripts, url, directory });
      const { authenticator, recoveryCode } = await signUp(story);
      await writeMandate(story);
      const agent = await makeGateway(story);
      await firstRequest(story, agent);
      await mapFromSuggestion(story);
      await allowed(story, agent);
      const escalation = await escalated(story, agent);
      await approveOnPhone(story, authenticator, recoveryCode);
      const receipt = await repeatApproved(story, agent, escalation);
      await findEvidence(story, receipt);
      await takeDossier(story, receipt);
      await revoke(story, agent);
      t.same(story.errors, [], 'no browser reported an error');
    });
  }
});

async function beginning(
  t: Check & Teardown,
  given: Pick<Story, 'browser' | 'scripts' | 'url' | 'directory'>,
): Promise<Story> {
  const target = await startPaymentsApi({ port: 0, apiKey: CREDENTIAL });
  t.teardown(() => target.close());
  const page = await (await newVisitor(given.browser, { scripts: given.scripts, dark: !given.scripts })).newPage();
  const errors: string[] = [];
  const story = { ...given, t, target, page, errors, email: `anna-${given.scripts}@example.com` };
  watch(story, page);
  return story;
}

/** Has a step that never comes fail soon, and notes what a page reports: failed scripts, what the policy forbids. */
function watch({ errors }: Story, page: Page): void {
  page.setDefaultTimeout(STEP_TIMEOUT_MS);
  page.on('pageerror', (error) => errors.push(error.message));
  page.on('console', (message) => {
    // A form that is shown again with what is wrong in it.
    const refused = message.text().includes('status of 422');
    if (message.type() === 'error' && !refused) errors.push(message.text());
  });
}

const press = (page: Page, name: string) => page.getByRole('button', { name, exact: true }).click();
const follow = (page: Page, name: string) => page.getByRole('link', { name, exact: true }).click();
const textOf = async (page: Page, selector: string) => (await page.locator(selector).textContent()) ?? '';

function picture({ scripts, page }: Story, name: string, of = page): Promise<void> {
  // What stays within reach on a phone would be in the midst of a picture of all of the page.
  return keepPicture(of, `story-${scripts ? 'scripts' : 'plain'}-${name}`, of === page);
}

/** The part of the console that a link of the navigation leads to; its name may be followed by a count. */
async function section(page: Page, name: string): Promise<void> {
  await page.locator('nav').getByRole('link', { name }).first().click();
  await page.getByRole('heading', { name, level: 1 }).waitFor();
}

async function signUp(story: Story): Promise<{ authenticator: Authenticator; recoveryCode: string }> {
  const { t, page, url, email } = story;
  await page.goto(`${url}/`);
  await follow(page, 'Create one');
  await page.getByLabel('E-mail address').fill(email);
  await page.getByLabel('Password').fill(PASSWORD);
  await picture(story, '01-sign-up');
  await press(page, 'Go on');
  const authenticator = new Authenticator((await textOf(page, '#totp-key')).replaceAll(' ', ''));
  t.ok(await page.getByRole('img', { name: 'QR code for your authenticator app' }).isVisible());
  await picture(story, '02-second-factor');
  await page.getByLabel('Code', { exact: true }).fill(await authenticator.code());
  await press(page, 'Confirm');
  const codes = await page.locator('#recovery-codes li').allTextContents();
  t.equal(codes.length, 10);
  await picture(story, '03-recovery-codes');
  await follow(page, 'I have kept them');
  t.equal(page.url(), `${url}/console`);
  await picture(story, '04-overview-first');
  return { authenticator, recoveryCode: codes[0] ?? '' };
}

async function writeMandate(story: Story): Promise<void> {
  const { t, page } = story;
  await follow(page, 'New mandate');
  await page.getByLabel('Name of the mandate').fill('Purchasing agent');
  await picture(story, '05-wizard-agent');
  await press(page, 'Go on');
  await page.getByLabel('Other action types').fill('payments.*');
  await picture(story, '06-wizard-actions');
  await press(page, 'Go on');
  await page.getByLabel('At most for one action').fill('250');
  await page.getByLabel('At most for all actions of a month').fill('2000.00');
  await page.getByLabel('Ask me above').fill('100');
  await picture(story, '07-wizard-limits');
  await press(page, 'Go on');
  await page.getByLabel('Only with these').fill('acme-supplies\nglobex');
  await picture(story, '08-wizard-conditions');
  await press(page, 'Go on');
  const wording = await textOf(page, '.wording');
  for (const part of ['payments.*', '250.00', '2,000.00', '100.00', 'acme-supplies', 'globex']) t.match(wording, part);
  await picture(story, '09-wizard-review');
  await press(page, 'Activate');
  await page.getByText('The mandate is active.').waitFor();
  await picture(story, '10-mandate');
}

async function makeGateway(story: Story): Promise<Agent> {
  const { t, page, url, target } = story;
  await section(page, 'Overview');
  await follow(page, 'New gateway');
  await page.getByLabel('Name', { exact: true }).fill('Purchasing at the payments API');
  const mandates = page.getByLabel('Mandate', { exact: true });
  const option = await mandates.locator('option', { hasText: 'Purchasing agent' }).getAttribute('value');
  await mandates.selectOption(option);
  await page.getByLabel('Target', { exact: true }).fill(target.url);
  await page.getByLabel('Header', { exact: true }).fill('x-api-key');
  await page.getByLabel('Value', { exact: true }).fill(CREDENTIAL);
  await picture(story, '11-gateway-new');
  await press(page, 'Make the gateway');
  const token = await textOf(page, '#new-token');
  const line = await textOf(page, '#curl-line');
  const [, address = ''] = /curl -i (\S+)\/payments /.exec(line) ?? [];
  t.ok(address.startsWith(`${url}/`), `the agent is told the public address: ${address}`);
  t.ok(line.includes(token));
  await picture(story, '12-gateway-token');
  await follow(page, 'I have copied it');
  t.ok(!(await page.content()).includes(token), 'the token was shown once');
  await picture(story, '13-gateway');
  return { address, token };
}

async function pay({ address, token }: Agent, order: object, headers: Record<string, string> = {}): Promise<Answer> {
  const answer = await fetch(`${address}/payments`, {
    method: 'POST',
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json', ...headers },
    body: JSON.stringify(order),
  });
  return { status: answer.status, body: (await answer.json()) as Answer['body'] };
}

/** What reached the target, and with what it was answered. */
function reached({ target }: Story): string[] {
  return target.ledger.map(({ method, url, status }) => `${method} ${url} ${status}`);
}

async function firstRequest(story: Story, agent: Agent): Promise<void> {
  const { status, body } = await pay(agent, SMALL);
  story.t.match({ status, body }, { status: 403, body: { error: 'service_deny', reasons: ['MD-501'] } });
  story.t.same(reached(story), [], 'nothing reached the target');
}

async function mapFromSuggestion(story: Story): Promise<void> {
  const { t, page } = story;
  await section(page, 'Overview');
  await picture(story, '14-overview-unmapped');
  await follow(page, 'Map the tool');
  const tool = page.getByRole('row').filter({ hasText: 'http.post:/payments' });
  await tool.waitFor();
  // What was seen of a body is written within a second or two; a person would load the page again too.
  const deadline = Date.now() + STEP_TIMEOUT_MS;
  while ((await tool.getByText('4 fields').count()) === 0 && Date.now() < deadline) {
    await page.waitForTimeout(RELOAD_MS);
    await page.reload();
  }
  t.match(await tool.textContent(), 'Counts as payments.create. Amount: the field /amount, in the main unit.');
  await picture(story, '15-tools-new');
  await follow(page, 'Look and accept');
  await page.getByLabel('Body', { exact: true }).fill(JSON.stringify(SMALL));
  await press(page, 'Try this mapping');
  await page.getByText('This request would be allowed').waitFor();
  await picture(story, '16-tool-tried');
  await press(page, 'Save the mapping');
  await page.getByText('The mapping is saved.').waitFor();
  await picture(story, '17-tools-mapped');
}

async function allowed(story: Story, agent: Agent): Promise<void> {
  const { status, body } = await pay(agent, SMALL);
  story.t.match({ status, body }, { status: 201, body: { amount: 12.5, counterparty: 'acme-supplies' } });
  story.t.same(reached(story), ['POST /payments 201'], 'the first request that reached the target');
}

async function escalated(story: Story, agent: Agent): Promise<string> {
  const { status, body } = await pay(agent, LARGE);
  story.t.match({ status, body }, { status: 403, body: { error: 'service_escalate' } });
  story.t.equal(reached(story).length, 1);
  return String((body['escalation'] as Record<string, unknown> | undefined)?.['id']);
}

/** On another device, signed in with a recovery code: the authenticator's next code is for the yes itself. */
async function approveOnPhone(story: Story, authenticator: Authenticator, recoveryCode: string): Promise<void> {
  const { t, browser, scripts, url, email } = story;
  const visitor = await newVisitor(browser, { scripts, dark: !scripts, size: SMALL_PHONE });
  const phone = await visitor.newPage();
  watch(story, phone);
  const look = async (name: string) => {
    t.ok(await fitsWidth(phone), `${name} fits a phone`);
    await picture(story, name, phone);
  };
  await phone.goto(`${url}/`);
  await phone.getByLabel('E-mail address').fill(email);
  await phone.getByLabel('Password').fill(PASSWORD);
  await phone.getByLabel('Code', { exact: true }).fill(recoveryCode);
  await look('18-phone-sign-in');
  await press(phone, 'Sign in');
  await look('19-phone-overview');
  await follow(phone, 'Answer');
  await look('20-phone-approvals');
  await phone.getByRole('link', { name: 'Look and answer' }).click();
  t.match(await textOf(phone, 'h1'), /150\.00.*to acme-supplies/);
  t.ok(await phone.getByText('PO-2042').first().isVisible(), 'the body that the yes binds');
  await look('21-phone-card');
  await press(phone, 'Approve');
  await phone.getByText('Enter the six digits').first().waitFor();
  await look('22-phone-card-without-code');
  await phone.getByLabel('Code', { exact: true }).fill(await authenticator.code());
  await press(phone, 'Approve');
  await phone.getByText(`${email} approved this.`).waitFor();
  await look('23-phone-approved');
  await visitor.close();
}

async function repeatApproved(story: Story, agent: Agent, escalation: string): Promise<string> {
  const { t, url } = story;
  const asked = await fetch(`${url}/api/v1/escalations/${escalation}`, {
    headers: { authorization: `Bearer ${agent.token}` },
  });
  const { status, escalation_token: granted = '' } = (await asked.json()) as Record<string, string>;
  t.equal(status, 'approved');
  const answer = await pay(agent, LARGE, { 'x-service-escalation-token': granted });
  t.match(answer, { status: 201, body: { amount: 150 } });
  t.same(reached(story), ['POST /payments 201', 'POST /payments 201']);
  return String(answer.body['receipt']);
}

async function findEvidence(story: Story, receipt: string): Promise<void> {
  const { t, page } = story;
  await section(page, 'Evidence');
  await page.locator('main table').first().waitFor();
  await picture(story, '24-evidence');
  await page.getByLabel('Decision', { exact: true }).selectOption('allow');
  await page.getByText('Narrow down').click();
  await page.getByLabel('Amount from').fill('100');
  await page.getByLabel('Currency').fill('EUR');
  await press(page, 'Search');
  const found = page.locator('main table a[href^="/console/evidence/rcp_"]');
  t.equal(await found.count(), 1, 'one was allowed from 100 EUR on');
  t.equal(await found.getAttribute('href'), `/console/evidence/${receipt}`);
  await picture(story, '25-evidence-found');
  await found.click();
  t.equal(await textOf(page, '#receipt'), receipt);
  await picture(story, '26-decision');
}

async function takeDossier(story: Story, receipt: string): Promise<void> {
  const { t, page, url, directory } = story;
  const downloading = page.waitForEvent('download');
  await follow(page, 'Download the dossier');
  const download = await downloading;
  t.equal(download.suggestedFilename(), `dossier-${receipt}.json`);
  const [dossier, keys] = [join(directory, `${receipt}.json`), join(directory, 'jwks.json')];
  await writeFile(dossier, await readFile(await download.path()));
  await writeFile(keys, await (await fetch(`${url}/.well-known/jwks.json`)).text());
  const { code, stdout, stderr } = await mandate(['dossier', 'check', dossier, '--jwks', keys, '--json'], {});
  t.equal(code, 0, stderr);
  t.equal(JSON.parse(stdout).verdict, 'accepted');
}

/** What the page of a mandate says of an escalated action and of one that a person let through. */
async function lookBack(story: Story): Promise<void> {
  const { t, page } = story;
  await section(page, 'Mandates');
  await follow(page, 'Purchasing agent');
  await page.getByRole('heading', { name: 'Recent decisions' }).waitFor();
  const rows = page.getByRole('row');
  t.equal(await rows.filter({ hasText: 'Above the amount from which you are asked' }).count(), 1);
  t.equal(await rows.filter({ hasText: 'You had approved it' }).count(), 1);
  await picture(story, '27-mandate-used');
}

async function revoke(story: Story, agent: Agent): Promise<void> {
  const { t, page } = story;
  await lookBack(story);
  await follow(page, 'Revoke');
  await page.getByLabel('Why').fill('The trial is over');
  await picture(story, '28-revoke');
  await press(page, 'Revoke');
  await page.getByText('The mandate is revoked.').waitFor();
  const { status, body } = await pay(agent, SMALL);
  t.match({ status, body }, { status: 403, body: { error: 'service_deny', reasons: ['MD-204'] } });
  t.equal(reached(story).length, 2, 'nothing reached the target any more');
  await section(page, 'Overview');
  await picture(story, '29-overview-last');
}
