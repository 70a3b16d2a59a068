import t from 'tap';
import { CONSOLE_PASSWORD } from '../integration/console/console-fixture.ts';
import { axeFindings, keepPicture, NO_BROWSER, newVisitor, PHONE, servedConsole, startBrowser } from './browser.ts';

t.test('without scripts: sign-up, second factor, an API key, sign-out, sign-in', { skip: NO_BROWSER }, async (t) => {
  const fixture = await servedConsole(t);
  const browser = await startBrowser(t);
  const visitor = await newVisitor(browser, { scripts: false, size: PHONE });
  const page = await visitor.newPage();
  const press = (name: string) => page.getByRole('button', { name, exact: true }).click();
  await page.goto(`${fixture.url}/`);
  t.equal(page.url(), `${fixture.url}/console/login?next=%2Fconsole`);
  t.equal(await page.getByRole('button', { name: 'Sign in with a passkey' }).isVisible(), false);
  await page.getByRole('link', { name: 'Create one' }).click();
  await page.getByLabel('E-mail address').fill('anna@example.com');
  await page.getByLabel('Password').fill('password1234');
  await press('Go on');
  t.equal(await page.getByText('one of the passwords that are tried first').count(), 1);
  await page.getByLabel('Password').fill(CONSOLE_PASSWORD);
  await press('Go on');
  t.equal(await page.getByRole('img', { name: 'QR code for your authenticator app' }).count(), 1);
  await keepPicture(page, 'story-factor');
  const secret = ((await page.locator('#totp-key').textContent()) ?? '').replaceAll(' ', '');
  await page.getByLabel('Code', { exact: true }).fill(await fixture.codeOf(secret));
  await press('Confirm');
  t.equal(await page.locator('.codes li').count(), 10);
  await keepPicture(page, 'story-recovery-codes');
  await page.getByRole('link', { name: 'I have kept them' }).click();
  await page.getByText('Menu', { exact: true }).click();
  await page.getByRole('link', { name: 'API keys' }).click();
  await page.getByRole('link', { name: 'New key' }).click();
  await page.getByLabel('Name').fill('Webshop');
  await page.getByLabel('Have actions decided').check();
  await press('Make the key');
  t.match(await page.locator('#new-key').textContent(), /^mak_/);
  await keepPicture(page, 'story-key');
  await page.getByRole('link', { name: 'I have copied it' }).click();
  await page.locator('details.menu:not(.pages) summary').click();
  await press('Deutsch');
  t.equal(await page.getByRole('heading', { name: 'API-Schlüssel' }).count(), 1);
  await page.locator('details.menu:not(.pages) summary').click();
  await press('Abmelden');
  await page.getByText('Sie sind abgemeldet.').waitFor();
  await fixture.advance(60);
  await page.getByLabel('E-Mail-Adresse').fill('anna@example.com');
  await page.getByLabel('Passwort').fill(CONSOLE_PASSWORD);
  await page.getByLabel('Code').fill(await fixture.codeOf(secret));
  await press('Anmelden');
  t.equal(page.url(), `${fixture.url}/console`);
  t.same(fixture.errors, []);
});

t.test(
  'every control of the sign-in is reached with the keyboard, and is seen there',
  { skip: NO_BROWSER },
  async (t) => {
    const fixture = await servedConsole(t);
    const page = await (await newVisitor(await startBrowser(t))).newPage();
    await page.goto(`${fixture.url}/console/login`);
    const reached: string[] = [];
    for (let i = 0; i < 14; i++) {
      await page.keyboard.press('Tab');
      const [tag, name, outline] = (await page.evaluate(
        `[document.activeElement.tagName, document.activeElement.id || document.activeElement.textContent.trim(),
        getComputedStyle(document.activeElement).outlineStyle]`,
      )) as [string, string, string];
      if (tag === 'BODY') break;
      reached.push(name);
      t.equal(outline, 'solid', `${name} shows where it is`);
    }
    const wanted = [
      'Skip to the content',
      'f-email',
      'f-password',
      'f-code',
      'Sign in',
      'Create one',
      'Deutsch',
      'Dark',
    ];
    for (const name of wanted) t.ok(reached.includes(name), name);
  },
);

t.test('the check for violations finds one where there is one', { skip: NO_BROWSER }, async (t) => {
  const page = await (await newVisitor(await startBrowser(t))).newPage();
  await page.setContent(
    '<html lang="en"><title>x</title><main><h1>x</h1><input><p style="color:#ccc">faint</p></main>',
  );
  const rules = (await axeFindings(page)).map(({ rule }) => rule);
  t.same(rules.sort(), ['color-contrast', 'label']);
});
