import t from 'tap';
import { NO_BROWSER, newVisitor, servedConsole, startBrowser } from './browser.ts';

t.test(
  'a passkey is added, signs in alone, and confirms; removed, it does neither',
  { skip: NO_BROWSER },
  async (t) => {
    const fixture = await servedConsole(t);
    const person = await fixture.person('anna@example.com');
    const browser = await startBrowser(t);
    const visitor = await newVisitor(browser);
    const page = await visitor.newPage();
    const devtools = await visitor.newCDPSession(page);
    await devtools.send('WebAuthn.enable');
    await devtools.send('WebAuthn.addVirtualAuthenticator', {
      options: {
        protocol: 'ctap2',
        transport: 'internal',
        hasResidentKey: true,
        hasUserVerification: true,
        isUserVerified: true,
        automaticPresenceSimulation: true,
      },
    });
    const [session] = [...person.browser.cookies].filter(([name]) => name.endsWith('_session'));
    await visitor.addCookies([
      { name: session?.[0] ?? '', value: session?.[1] ?? '', url: fixture.url, httpOnly: true },
    ]);
    await page.goto(`${fixture.url}/console/account`);
    await page.getByLabel('Name').fill('Laptop <b>');
    await page.getByRole('button', { name: 'Add a passkey' }).click();
    await page.getByText('The passkey works from now on.').waitFor();
    t.equal(await page.getByRole('cell', { name: 'Laptop <b>' }).count(), 1);
    t.match(await fixture.sql`select type, facts from notification_events`, [
      { type: 'account.passkey_added', facts: { name: 'Laptop <b>' } },
    ]);

    await visitor.clearCookies();
    await page.goto(`${fixture.url}/console/login`);
    await page.getByRole('button', { name: 'Sign in with a passkey' }).click();
    await page.waitForURL(`${fixture.url}/console`);
    t.equal(await page.getByRole('heading', { name: 'Overview' }).count(), 1);

    await fixture.advance(600);
    await page.goto(`${fixture.url}/console/account/authenticator`);
    t.match(page.url(), /\/console\/confirm\?next=/);
    await page.getByRole('button', { name: 'Use a passkey' }).click();
    await page.waitForURL(`${fixture.url}/console/account/authenticator`);

    await page.goto(`${fixture.url}/console/account`);
    await fixture.advance(600);
    await page.getByRole('button', { name: 'Add a passkey' }).click();
    await page.waitForURL(/\/console\/confirm\?next=/);
    await page.getByRole('button', { name: 'Use a passkey' }).click();
    await page.waitForURL(`${fixture.url}/console/account`);
    await page.getByRole('button', { name: 'Remove' }).click();
    await page.getByText('The passkey is removed.').waitFor();
    await visitor.clearCookies();
    await page.goto(`${fixture.url}/console/login`);
    await page.getByRole('button', { name: 'Sign in with a passkey' }).click();
    await page.getByText('This passkey was not accepted.').waitFor();
    t.same(fixture.errors, []);
    const kinds = await fixture.sql<{ kind: string }[]>`
    select kind from evidence where account_id = ${person.accountId} and seq > 3 order by seq`;
    t.same(
      kinds.map(({ kind }) => kind),
      ['account.passkey_added', 'session.created', 'session.confirmed', 'session.confirmed', 'account.passkey_removed'],
    );
  },
);

t.test("a passkey's answer works once", { skip: NO_BROWSER }, async (t) => {
  const fixture = await servedConsole(t);
  const person = await fixture.person('anna@example.com');
  const visitor = await newVisitor(await startBrowser(t));
  const page = await visitor.newPage();
  const devtools = await visitor.newCDPSession(page);
  await devtools.send('WebAuthn.enable');
  await devtools.send('WebAuthn.addVirtualAuthenticator', {
    options: {
      ...{ protocol: 'ctap2', transport: 'internal', hasResidentKey: true, hasUserVerification: true },
      ...{ isUserVerified: true, automaticPresenceSimulation: true },
    },
  });
  const [session] = [...person.browser.cookies].filter(([name]) => name.endsWith('_session'));
  await visitor.addCookies([{ name: session?.[0] ?? '', value: session?.[1] ?? '', url: fixture.url, httpOnly: true }]);
  await page.goto(`${fixture.url}/console/account`);
  await page.getByRole('button', { name: 'Add a passkey' }).click();
  await page.getByText('The passkey works from now on.').waitFor();
  await visitor.clearCookies();
  await page.goto(`${fixture.url}/console/login`);
  const sent = page.waitForRequest('**/console/passkeys/login');
  await page.getByRole('button', { name: 'Sign in with a passkey' }).click();
  const request = await sent;
  await page.waitForURL(`${fixture.url}/console`);
  const headers = await request.allHeaders();
  const repeat = await fixture.app.inject({
    method: 'POST',
    url: '/console/passkeys/login',
    headers: {
      origin: fixture.url,
      cookie: headers['cookie'] ?? '',
      'content-type': 'application/x-www-form-urlencoded',
    },
    payload: request.postData() ?? '',
  });
  t.equal(repeat.statusCode, 422, 'the same challenge and signature a second time');
});
