import type { Response } from 'light-my-request';
import { generateSync } from 'otplib';
import { type AdminFixture, type AdminFixtureOptions, adminFixture } from '../control-plane/admin-fixture.ts';
import { NOUN_ROUTES } from '../control-plane/noun-fixture.ts';

export const CONSOLE_PASSWORD = 'an unlikely sentence';

/** An answer of a page: its text, and what a browser would do with it. */
export interface PageAnswer {
  readonly status: number;
  readonly headers: Response['headers'];
  readonly text: string;
  readonly location: string | null;
}

/** A browser without scripts: it keeps cookies, reads the token out of pages, and sends forms. */
export interface Browser {
  readonly cookies: Map<string, string>;
  get(path: string, headers?: Record<string, string>): Promise<PageAnswer>;
  /** Sends a form with the token of the last page that had one. */
  post(path: string, fields: Readonly<Record<string, string>>, headers?: Record<string, string>): Promise<PageAnswer>;
  /** What the last answer set, line by line. */
  readonly set: readonly string[];
  csrf: string;
}

export interface ConsolePerson {
  readonly browser: Browser;
  readonly email: string;
  readonly secret: string;
  readonly recoveryCodes: readonly string[];
  readonly accountId: string;
}

export interface ConsoleFixture extends AdminFixture {
  browser(): Browser;
  /** Signs a person up with clicks and typing only. */
  person(email?: string): Promise<ConsolePerson>;
  /** A code of a secret, `steps` of 30 s later than now. */
  codeOf(secret: string, steps?: number): Promise<string>;
}

/** The console on a fresh database, in this process. */
export async function consoleFixture(
  t: Parameters<typeof adminFixture>[0],
  options: AdminFixtureOptions = {},
): Promise<ConsoleFixture> {
  const fixture = await adminFixture(t, { register: NOUN_ROUTES, ...options });
  const codeOf: ConsoleFixture['codeOf'] = async (secret, steps = 0) => {
    const [row] = await fixture.sql<{ now: number }[]>`select epoch_ms(db_clock()) as now`;
    return generateSync({ secret, epoch: Math.floor((row?.now ?? 0) / 1000) + steps * 30 });
  };
  let people = 0;
  const person: ConsoleFixture['person'] = async (email = `console-${++people}@example.com`) => {
    const browser = newBrowser(fixture);
    await browser.get('/console/signup');
    await browser.post('/console/signup', { email, password: CONSOLE_PASSWORD });
    const setup = await browser.get('/console/signup/factor');
    const secret = (/id="totp-key">([A-Z2-7 ]+)</.exec(setup.text)?.[1] ?? '').replaceAll(' ', '');
    const done = await browser.post('/console/signup/factor', { code: await codeOf(secret) });
    const recoveryCodes = Array.from(done.text.matchAll(/<li>([0-9a-z-]{19})<\/li>/g), ([, code]) => code ?? '');
    if (recoveryCodes.length === 0) throw new Error(`the sign-up failed: ${done.status} ${done.text}`);
    const [row] = await fixture.sql<{ account_id: string }[]>`select account_id from accounts where email = ${email}`;
    await browser.get('/console');
    return { browser, email, secret, recoveryCodes, accountId: row?.account_id ?? '' };
  };
  return { ...fixture, browser: () => newBrowser(fixture), person, codeOf };
}

function newBrowser({ app, deps }: AdminFixture): Browser {
  const { origin } = new URL(deps.issuer);
  const cookies = new Map<string, string>();
  const state = { csrf: '', set: [] as string[] };
  const send = async (method: 'GET' | 'POST', url: string, payload: string | null, headers: Record<string, string>) => {
    const cookie = Array.from(cookies, ([name, value]) => `${name}=${value}`).join('; ');
    const answer = await app.inject({
      method,
      url,
      headers: { host: 'mandate.example', ...(cookie === '' ? {} : { cookie }), ...headers },
      ...(payload === null ? {} : { payload }),
    });
    state.set = [answer.headers['set-cookie'] ?? []].flat();
    for (const line of state.set) keep(cookies, line);
    state.csrf = /name="csrf" value="([^"]+)"/.exec(answer.body)?.[1] ?? state.csrf;
    const location = answer.headers.location ?? null;
    return { status: answer.statusCode, headers: answer.headers, text: answer.body, location };
  };
  return {
    cookies,
    get: (path, headers = {}) => send('GET', path, null, headers),
    post: (path, fields, headers = {}) => {
      const body = new URLSearchParams({ csrf: state.csrf, ...fields }).toString();
      const own = {
        origin,
        'sec-fetch-site': 'same-origin',
        'content-type': 'application/x-www-form-urlencoded',
      };
      return send('POST', path, body, { ...own, ...headers });
    },
    get set() {
      return state.set;
    },
    get csrf() {
      return state.csrf;
    },
    set csrf(value) {
      state.csrf = value;
    },
  };
}

function keep(cookies: Map<string, string>, line: string): void {
  const [pair = '', ...flags] = line.split('; ');
  const [name = '', value = ''] = pair.split('=');
  if (flags.includes('Max-Age=0')) cookies.delete(name);
  else cookies.set(name, value);
}
