import { existsSync } from 'node:fs';
import { cp, mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { type Browser, chromium, type Page } from 'playwright-core';
import t from 'tap';
import type { Dossier } from '../../core/dossier.ts';
import { ANY_PORTS, mandate, newDirectory, startUp, type Variables } from './running-system.ts';

const SECRET = 'JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP';
const ACTION = '{"type":"payments.create","amount":{"value":12.5,"currency":"EUR"},"counterparty":"acme"}';
const CHROMIUM = ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'].find(existsSync);

/** Runs a command that must succeed and answer JSON. */
async function run(args: readonly string[], variables: Variables, stdin = ''): Promise<Record<string, string>> {
  const { code, stdout, stderr } = await mandate([...args, '--json'], variables, stdin);
  if (code !== 0) throw new Error(`mandate ${args.slice(0, 2).join(' ')}: ${stderr}`);
  return JSON.parse(stdout) as Record<string, string>;
}

/** A dossier, the keys and the page of a system that ran and is gone, in a directory with nothing else. */
async function fetchedFiles(directory: string): Promise<string> {
  const files = join(directory, 'files');
  const up = await startUp({ ...ANY_PORTS, MANDATE_DATA_DIR: join(directory, 'data') });
  try {
    await mkdir(files);
    const at = (name: string) => join(files, name);
    const [url, control] = [up.addresses['proxy'] ?? '', up.addresses['admin'] ?? ''];
    const own = { MANDATE_HOME: join(directory, 'home'), MANDATE_CONTROL_URL: control, MANDATE_URL: url };
    const signup = ['signup', '--email', 'a@example.com', '--password-stdin', '--totp-secret', SECRET];
    await run(signup, own, 'correct horse battery staple\n');
    const key = await run(['keys', 'create', '--scope', 'verify,evidence:read,agents:present'], own);
    const limits = ['--scope', 'payments.*', '--per-action', '100', '--per-month', '500', '--activate'];
    const { mandate_id: id = '' } = await run(['mandates', 'create', ...limits], own);
    const software = { ...own, MANDATE_API_KEY: String(key['api_key']) };
    const presented = await run(['present', '--mandate', id, '--action', ACTION], software);
    await writeFile(join(directory, 'presentation.json'), JSON.stringify(presented['presentation'] ?? presented));
    const asked = ['verify', '--presentation', join(directory, 'presentation.json'), '--action', ACTION];
    const verified = await run(asked, software);
    const { receipt_id: receiptId = '' } = verified['receipt'] as unknown as Record<string, string>;
    await run(
      ['dossier', 'get', receiptId, '--out', at('dossier.json'), '--mat', String(verified['mat_compact'])],
      software,
    );
    await run(['dossier', 'get', receiptId, '--out', at('own.json')], own);
    await writeFile(at('jwks.json'), await (await fetch(`${url}/.well-known/jwks.json`)).text());
    await run(['signing-keys', 'export', '--out', at('exported.json')], { MANDATE_DATA_DIR: join(directory, 'data') });
    await run(['dossier', 'page', '--out', at('check.html')], {});
    up.process.kill('SIGTERM');
    await up.ended;
  } finally {
    await up.killTree();
  }
  return files;
}

/** Copies that were tampered with, by what was done to them. */
function tampered(text: string): [string, string][] {
  const dossier = JSON.parse(text) as Dossier;
  const changed = (change: (one: Dossier) => unknown): string => {
    const one = structuredClone(dossier);
    change(one);
    return JSON.stringify(one);
  };
  return [
    ['another amount', text.replaceAll('1250', '1251')],
    ['another counterparty', text.replaceAll('acme', 'acne')],
    ['html put in', text.replaceAll('acme', '<img src=x onerror=alert(1)>')],
    ['an entry put in', changed((one) => Object.assign(one, { consumption: [one.decision] }))],
    ['no proof', changed((one) => Object.assign(one.decision, { inclusion: [] }))],
    ['cut off', text.slice(0, -100)],
    ['not a dossier', '<!doctype html><script>alert(1)</script>'],
  ];
}

t.test(
  'a dossier of a system that is gone is checked from nothing but files, and tampered copies are not',
  async (t) => {
    const directory = await newDirectory();
    t.teardown(() => rm(directory, { recursive: true, force: true }));
    const files = await fetchedFiles(directory);
    const at = (name: string) => join(files, name);
    t.same(
      JSON.parse(await readFile(at('exported.json'), 'utf8')),
      JSON.parse(await readFile(at('jwks.json'), 'utf8')),
    );
    const check = async (file: string, ...pins: string[]) => {
      const { code, stdout } = await mandate(['dossier', 'check', at(file), ...pins, '--json'], {});
      return [code, JSON.parse(stdout).verdict];
    };
    const pinned = ['--jwks', at('jwks.json')];
    t.same(await check('dossier.json', ...pinned), [0, 'accepted']);
    t.same(await check('own.json', ...pinned), [0, 'accepted']);
    t.same(await check('dossier.json'), [3, 'incomplete']);
    const text = await readFile(at('dossier.json'), 'utf8');
    const copies = tampered(text);
    for (const [n, [what, copy]] of copies.entries()) {
      await writeFile(at(`tampered-${n}.json`), copy);
      t.same(await check(`tampered-${n}.json`, ...pinned), [1, 'rejected'], what);
    }
    const skip = CHROMIUM === undefined ? 'there is no Chromium on this machine' : false;
    await t.test('the page says the same in a browser without network', { skip }, async (t) => {
      if (CHROMIUM === undefined) throw new Error('this was to be skipped');
      const browser = await chromium.launch({ executablePath: CHROMIUM, args: ['--no-sandbox'] });
      t.teardown(() => browser.close());
      const { page, said } = await openPage(browser, at('check.html'));
      t.equal(await verdictOf(page, at('dossier.json')), 'incomplete');
      await page.setInputFiles('#keys-file', at('jwks.json'));
      await page.waitForSelector('.verdict.accepted');
      t.match(await page.textContent('#summary'), 'payments.create, 12.50 EUR to acme');
      for (const [n, [what]] of copies.entries()) {
        t.equal(await verdictOf(page, at(`tampered-${n}.json`)), 'rejected', what);
        t.equal(await page.locator('#report img, #report script').count(), 0, 'what is in a file is text');
      }
      t.equal(await verdictOf(page, at('dossier.json')), 'accepted');
      t.same(said, [], 'nothing was refused, loaded or thrown');
    });
  },
);

/** Opens the page from its file, offline; collects whatever it says, asks for or throws. */
async function openPage(browser: Browser, file: string): Promise<{ page: Page; said: string[] }> {
  const context = await browser.newContext({ offline: true });
  const page = await context.newPage();
  const said: string[] = [];
  const own = pathToFileURL(file).href;
  page.on('console', (message) => said.push(message.text()));
  page.on('pageerror', (error) => said.push(error.message));
  page.on('dialog', (dialog) => said.push(dialog.message()));
  page.on('request', (request) => {
    if (request.url() !== own) said.push(request.url());
  });
  await page.goto(own);
  await page.waitForSelector('#ready:not([hidden])');
  return { page, said };
}

let shown = 0;

/** Gives the page a file under a name that was not shown before, and returns what it comes to. */
async function verdictOf(page: Page, file: string): Promise<string> {
  shown += 1;
  const copy = `${file}.${shown}.json`;
  await cp(file, copy);
  await page.setInputFiles('#dossier-file', copy);
  const name = copy.slice(copy.lastIndexOf('/') + 1);
  await page.waitForSelector(`#report[data-file="${name}"]`);
  const className = (await page.getAttribute('#verdict', 'class')) ?? '';
  return className.replace('verdict ', '');
}
