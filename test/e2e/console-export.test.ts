import { readFile } from 'node:fs/promises';
import t from 'tap';
import { ExportCheck } from '../../core/export-check.ts';
import { busyAccount } from '../integration/console/busy-console.ts';
import { CONSOLE_PASSWORD } from '../integration/console/console-fixture.ts';
import { NO_BROWSER, newVisitor, servedConsole, startBrowser } from './browser.ts';

t.test('an export is saved by the browser, with scripts and without', { skip: NO_BROWSER }, async (t) => {
  const fixture = await servedConsole(t);
  const person = await fixture.person('anna@example.com');
  await busyAccount(fixture, person);
  const browser = await startBrowser(t);
  for (const scripts of [true, false]) {
    const visitor = await newVisitor(browser, { scripts });
    const page = await visitor.newPage();
    await page.goto(`${fixture.url}/console/login`);
    await page.getByLabel('E-mail').fill(person.email);
    await page.locator('input[name=password]').fill(CONSOLE_PASSWORD);
    await fixture.advance(60);
    await page.locator('input[name=code]').fill(await fixture.codeOf(person.secret));
    await page.locator('form[action="/console/login"] button').click();
    await page.waitForURL(`${fixture.url}/console`);
    await page.goto(`${fixture.url}/console/evidence/export`);
    const downloading = page.waitForEvent('download');
    await page.locator('form[action="/console/evidence/export"] button').click();
    const download = await downloading;
    t.match(download.suggestedFilename(), /^evidence-acc_[0-9a-z]{26}-0-\d+\.json$/);
    const check = new ExportCheck(null);
    check.push(await readFile(await download.path()));
    t.equal(check.problem, null);
    if (scripts) await page.getByText('Done. The file is in your downloads.').waitFor();
    const refused = page.locator('#f-to-seq-error');
    await page.locator('input[name=to_seq]').fill('999999');
    await page.locator('form[action="/console/evidence/export"] button').click();
    await refused.waitFor();
    t.ok(await refused.isVisible(), 'what is refused is shown beside its field');
    await visitor.close();
  }
});
