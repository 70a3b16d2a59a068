import { existsSync, mkdirSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { type Browser, type BrowserContext, chromium, type Page } from 'playwright-core';
import { type ConsoleFixture, consoleFixture } from '../integration/console/console-fixture.ts';
import type { AdminFixtureOptions } from '../integration/control-plane/admin-fixture.ts';

/** Where distributions put it; the variable wins. */
const CHROMIUM = [
  process.env['MANDATE_TEST_CHROMIUM'],
  '/usr/bin/chromium',
  '/usr/bin/chromium-browser',
  '/usr/bin/google-chrome',
].find((path) => path !== undefined && existsSync(path));

/** Why tests that need a browser are skipped here, or false where there is one. */
export const NO_BROWSER: string | false =
  CHROMIUM === undefined && 'no Chromium: set MANDATE_TEST_CHROMIUM to one that can be started';

/** Pictures are kept where this names a directory; nowhere otherwise. */
const SHOTS = process.env['MANDATE_TEST_SHOTS'] || undefined;

export const PHONE = { width: 360, height: 740 } as const;
export const DESK = { width: 1280, height: 800 } as const;

interface Teardown {
  teardown(fn: () => unknown): void;
}

/** The console behind a port of this machine, under a name that browsers trust (`localhost`). */
export async function servedConsole(
  t: Parameters<typeof consoleFixture>[0],
  options: AdminFixtureOptions = {},
): Promise<ConsoleFixture & { readonly url: string }> {
  const port = await freePort();
  const url = `http://localhost:${port}`;
  const fixture = await consoleFixture(t, { issuer: url, ...options });
  await fixture.app.listen({ host: '127.0.0.1', port });
  return { ...fixture, url };
}

/** A Chromium of the test's own; ends with it. */
export async function startBrowser(t: Teardown): Promise<Browser> {
  const browser = await chromium.launch({
    ...(CHROMIUM === undefined ? {} : { executablePath: CHROMIUM }),
    args: ['--no-sandbox', '--disable-gpu'],
  });
  t.teardown(() => browser.close());
  return browser;
}

/** How one visitor's browser is set. */
export interface VisitorOptions {
  readonly size?: { readonly width: number; readonly height: number };
  readonly dark?: boolean;
  readonly scripts?: boolean;
  readonly locale?: string;
}

/** A visitor without anybody else's cookies. */
export function newVisitor(browser: Browser, options: VisitorOptions = {}): Promise<BrowserContext> {
  return browser.newContext({
    viewport: options.size ?? DESK,
    colorScheme: options.dark === true ? 'dark' : 'light',
    javaScriptEnabled: options.scripts ?? true,
    locale: options.locale ?? 'en-GB',
  });
}

/** One serious or critical finding of axe-core: the rule, and what it is about. */
export interface Finding {
  readonly rule: string;
  readonly targets: readonly string[];
}

let axe: Promise<string> | undefined;

/** What axe-core holds against a page: WCAG 2.2 A and AA and its best practices, serious and critical only. */
export async function axeFindings(page: Page): Promise<Finding[]> {
  axe ??= readFile(new URL('../../node_modules/axe-core/axe.min.js', import.meta.url), 'utf8');
  if ((await page.evaluate('typeof axe')) === 'undefined') await page.evaluate(`${await axe}; undefined`);
  const found = (await page.evaluate(
    `axe.run(document, { resultTypes: ['violations'] }).then(({ violations }) => violations
      .filter(({ impact }) => impact === 'serious' || impact === 'critical')
      .map(({ id, nodes }) => ({ rule: id, targets: nodes.map(({ target, any }) =>
        target.join(' ') + ': ' + any.map(({ message }) => message).join('; ')) })))`,
  )) as Finding[];
  return found;
}

/** Whether nothing on the page is wider than the window: who has to scroll sideways on a phone misses things. */
export async function fitsWidth(page: Page): Promise<boolean> {
  return (await page.evaluate('document.documentElement.scrollWidth <= window.innerWidth')) as boolean;
}

/** Keeps a picture of a whole page, or of what its window shows, where pictures are kept. */
export async function keepPicture(page: Page, name: string, fullPage = true): Promise<void> {
  if (SHOTS === undefined) return;
  mkdirSync(SHOTS, { recursive: true });
  await page.screenshot({ path: join(SHOTS, `${name}.png`), fullPage });
}

export interface Looks {
  readonly dark: boolean;
  /** Widths to look at the page in, without loading it again; the last one stays. */
  readonly sizes?: readonly { readonly width: number; readonly height: number }[];
}

interface Assertions {
  same(found: unknown, wanted: unknown, message: string): unknown;
  ok(found: unknown, message: string): unknown;
}

/** Holds that a page is in order for axe-core and no wider than its window, at each width, and keeps pictures of it. */
export async function lookAt(t: Assertions, page: Page, what: string, { dark, sizes }: Looks): Promise<void> {
  for (const size of sizes ?? [PHONE, DESK]) {
    const name = `${what}-${size.width}-${dark ? 'dark' : 'light'}`;
    await page.setViewportSize(size);
    t.same(await axeFindings(page), [], name);
    t.ok(await fitsWidth(page), `${name} fits`);
    await keepPicture(page, name);
  }
}

/** A port of this machine that nobody listens on, for what must know its own address before it listens. */
export async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', () => resolve()));
  const address = server.address();
  await new Promise((resolve) => server.close(resolve));
  if (address === null || typeof address === 'string') throw new TypeError('a TCP listener has a port');
  return address.port;
}
