import t from 'tap';
import { CONSOLE_ROUTES } from '../../../control-plane/console/routes.ts';
import { newSecretToken } from '../../../core/secret-token.ts';
import { type Browser, CONSOLE_PASSWORD, consoleFixture } from './console-fixture.ts';

const SESSION = '__Host-mandate_session';

t.test('every answer of the console tells browsers to load nothing from elsewhere and to keep nothing', async (t) => {
  const fixture = await consoleFixture(t);
  const { browser } = await fixture.person();
  // Streams do not end; what they carry is tried in events.test.ts.
  const pages = CONSOLE_ROUTES.filter(({ method, path }) => method === 'GET' && !/:|\/events$/.test(path));
  for (const path of [...pages.map((route) => `/console${route.path === '/' ? '' : route.path}`), '/console/nowhere']) {
    const { headers } = await browser.get(path);
    const policy = String(headers['content-security-policy']);
    t.match(policy, /default-src 'none'; script-src 'self'; style-src 'self'/, path);
    t.match(policy, /form-action 'self'; base-uri 'none'; frame-ancestors 'none'/, path);
    t.notMatch(policy, /unsafe|\*|data:/, path);
    t.match(headers, {
      'x-content-type-options': 'nosniff',
      'x-frame-options': 'DENY',
      'referrer-policy': 'same-origin',
      'cross-origin-opener-policy': 'same-origin',
      'strict-transport-security': /max-age=\d+/,
      'permissions-policy': /camera=\(\)/,
      'cache-control': 'no-store',
      'x-ratelimit-limit': /\d+/,
    });
  }
});

t.test('assets alone may be kept, under names that change with what they hold', async (t) => {
  const fixture = await consoleFixture(t);
  const browser = fixture.browser();
  const { text } = await browser.get('/console/login');
  const paths = Array.from(text.matchAll(/(?:href|src)="(\/console\/assets\/[^"]+)"/g), ([, path]) => path ?? '');
  t.equal(paths.length, 4, 'icon, style sheet and two scripts');
  for (const path of paths) {
    const answer = await browser.get(path);
    t.equal(answer.status, 200, path);
    t.equal(answer.headers['cache-control'], 'public, max-age=31536000, immutable');
    t.match(path, /\.[0-9a-f]{16}\.(?:css|js|svg)$/);
    t.equal(answer.headers['x-content-type-options'], 'nosniff');
  }
  for (const path of ['/console/assets/x.css', '/console/assets/..%2fsession.ts', '/console/assets/']) {
    t.equal((await browser.get(path)).status, 404, path);
  }
});

t.test('the session is a cookie of this host only, that scripts and other sites do not get', async (t) => {
  const fixture = await consoleFixture(t);
  const { browser, email, secret } = await fixture.person();
  await fixture.advance(60);
  browser.cookies.clear();
  await browser.get('/console/login');
  const code = await fixture.codeOf(secret);
  const answer = await browser.post('/console/login', { email, password: CONSOLE_PASSWORD, code });
  t.same([answer.status, answer.location], [303, '/console']);
  const line = browser.set.find((one) => one.startsWith(SESSION)) ?? '';
  t.same(line.split('; ').slice(1).sort(), ['HttpOnly', 'Max-Age=43200', 'Path=/', 'SameSite=Lax', 'Secure']);
  for (const one of browser.set) {
    t.match(one, /^__Host-mandate_\w+=[^;]*;.*Path=\/; HttpOnly; SameSite=Lax; Secure$/);
    t.notMatch(one, /Domain/i);
  }
});

t.test('on plain HTTP the cookies have other names, since no browser would keep these', async (t) => {
  const fixture = await consoleFixture(t, { issuer: 'http://127.0.0.1:8080' });
  const { browser } = await fixture.person();
  t.ok(browser.cookies.has('mandate_plain_session'));
  t.notOk(browser.cookies.has(SESSION));
  t.notMatch(browser.set.join(), /Secure/);
  const secure = await consoleFixture(t);
  const stolen = secure.browser();
  stolen.cookies.set('mandate_plain_session', browser.cookies.get('mandate_plain_session') ?? '');
  t.equal((await stolen.get('/console')).status, 303, 'a cookie of the one kind is none of the other');
});

t.test('a session that somebody else began is not the one that is signed in', async (t) => {
  const fixture = await consoleFixture(t);
  const { email, secret, browser: other } = await fixture.person();
  const planted = newSecretToken('ses');
  const theirs = other.cookies.get(SESSION) ?? '';
  for (const token of [planted, theirs]) {
    await fixture.advance(60);
    const browser = fixture.browser();
    await browser.get('/console/login');
    const visit = browser.cookies.get('__Host-mandate_visit');
    browser.cookies.set(SESSION, token === theirs ? planted : token);
    await browser.get('/console/login');
    const code = await fixture.codeOf(secret);
    t.equal((await browser.post('/console/login', { email, password: CONSOLE_PASSWORD, code })).status, 303);
    t.not(browser.cookies.get(SESSION), planted);
    t.not(browser.cookies.get(SESSION), theirs);
    t.not(browser.cookies.get('__Host-mandate_visit'), visit ?? '', 'what bound the forms before is gone');
    const fixated = fixture.browser();
    fixated.cookies.set(SESSION, planted);
    t.equal((await fixated.get('/console')).status, 303, 'the planted one opens nothing');
  }
});

t.test('a second factor renews the session: the token before it is worth nothing', async (t) => {
  const fixture = await consoleFixture(t);
  const { browser, secret, accountId } = await fixture.person();
  const before = browser.cookies.get(SESSION) ?? '';
  await fixture.advance(600);
  t.equal((await browser.get('/console/account/authenticator')).location?.split('?')[0], '/console/confirm');
  await browser.get('/console/confirm?next=/console/account/authenticator');
  const fields = { code: await fixture.codeOf(secret), next: '/console/account/authenticator' };
  const confirmed = await browser.post('/console/confirm', fields);
  t.same([confirmed.status, confirmed.location], [303, '/console/account/authenticator']);
  t.not(browser.cookies.get(SESSION), before);
  t.equal((await browser.get('/console/account/authenticator')).status, 200);
  const old = fixture.browser();
  old.cookies.set(SESSION, before);
  t.equal((await old.get('/console')).status, 303);
  await browser.get('/console/confirm');
  t.equal((await browser.post('/console/confirm', fields)).status, 422, 'a code works once');
  const kinds = await fixture.sql<{ kind: string }[]>`
    select kind from evidence where account_id = ${accountId} order by seq`;
  t.same(
    kinds.map(({ kind }) => kind),
    [
      'account.created',
      'account.second_factor',
      'account.recovery_codes',
      'session.created',
      'session.confirmed',
      'session.refused',
    ],
  );
});

t.test('a session ends when nobody uses it for an hour, and after twelve hours whatever happens', async (t) => {
  const fixture = await consoleFixture(t);
  const { browser } = await fixture.person();
  for (let minutes = 0; minutes < 11 * 60; minutes += 50) {
    await fixture.advance(50 * 60);
    t.equal((await browser.get('/console')).status, 200);
  }
  const idle = (await fixture.person()).browser;
  await fixture.advance(61 * 60);
  t.equal((await idle.get('/console')).status, 303);
  t.equal((await browser.get('/console')).location, '/console/login?next=%2Fconsole');
});

t.test('a session of the console is none of the admin API, and the other way round', async (t) => {
  const fixture = await consoleFixture(t);
  const { browser } = await fixture.person();
  const cookie = browser.cookies.get(SESSION) ?? '';
  t.equal((await fixture.send('GET', '/admin/account', cookie)).status, 401);
  const { token } = await fixture.signUp();
  const other = fixture.browser();
  other.cookies.set(SESSION, token);
  t.equal((await other.get('/console')).status, 303);
});

const posts = CONSOLE_ROUTES.filter(({ method }) => method === 'POST');
const pathOf = (path: string): string =>
  path === '/' ? '/console' : `/console${path.replace(':id', 'key_01h455vb4pex5vsknk084sn02q')}`;

t.test('no form works without the token of its session', async (t) => {
  const fixture = await consoleFixture(t);
  const [anna, bert] = [(await fixture.person()).browser, (await fixture.person()).browser];
  await anna.get('/console');
  await bert.get('/console');
  for (const { path } of posts) {
    for (const csrf of ['', 'x', bert.csrf, anna.csrf.slice(1), `${anna.csrf}=`]) {
      const answer = await anna.post(pathOf(path), { csrf });
      t.equal(answer.status, 403, `${path} with ${csrf === bert.csrf ? "another person's" : 'a wrong'} token`);
    }
  }
  t.equal((await anna.get('/console')).status, 200, 'and nobody was signed out by it');
});

t.test('no form works that another site sent', async (t) => {
  const fixture = await consoleFixture(t);
  const { browser } = await fixture.person();
  await browser.get('/console');
  const foreign: Record<string, string>[] = [
    { origin: 'https://evil.example' },
    { origin: 'null' },
    { origin: '' },
    { origin: 'https://mandate.example.evil.example' },
    { origin: 'http://mandate.example' },
    { 'sec-fetch-site': 'cross-site' },
    { 'sec-fetch-site': 'same-site' },
    { 'sec-fetch-site': 'none' },
  ];
  for (const { path } of posts) {
    for (const headers of foreign) {
      const answer = await browser.post(pathOf(path), {}, headers);
      t.equal(answer.status, 403, `${path} with ${JSON.stringify(headers)}`);
    }
  }
  t.equal((await browser.get('/console')).status, 200);
});

t.test('a form is a strict form', async (t) => {
  const fixture = await consoleFixture(t);
  const browser = fixture.browser();
  await browser.get('/console/login');
  const strange: [status: number, type: string, extra: string][] = [
    [400, 'application/x-www-form-urlencoded', '&csrf=again'],
    [400, 'application/x-www-form-urlencoded', '&email=%ff'],
    [415, 'application/json', ''],
    [415, 'multipart/form-data; boundary=x', ''],
  ];
  for (const [status, type, extra] of strange) {
    const headers = {
      'content-type': type,
      cookie: `__Host-mandate_visit=${browser.cookies.get('__Host-mandate_visit')}`,
    };
    const answer = await fixture.app.inject({
      method: 'POST',
      url: '/console/login',
      headers: { ...headers, origin: 'https://mandate.example' },
      payload: `csrf=${browser.csrf}${extra}`,
    });
    t.equal(answer.statusCode, status, `${type}${extra}`);
    t.match(answer.headers['content-type'], /^text\/html/);
  }
});

t.test('who is not signed in is led to the sign-in, and from there nowhere else', async (t) => {
  const fixture = await consoleFixture(t);
  for (const { method, path, access } of CONSOLE_ROUTES) {
    if (access === 'open') continue;
    const browser = fixture.browser();
    await browser.get('/console/login');
    const answer = method === 'GET' ? await browser.get(pathOf(path)) : await browser.post(pathOf(path), {});
    t.equal(answer.status, 303, `${method} ${path}`);
    t.equal(answer.location?.split('?')[0], '/console/login');
  }
  const { email, secret } = await fixture.person();
  const elsewhere = [
    'https://evil.example',
    '//evil.example',
    '/\\evil.example',
    '/console//evil',
    '/admin/x',
    'x',
    '/console/../x',
    '/console/%2e%2e/x',
  ];
  for (const next of elsewhere) {
    await fixture.advance(60);
    const browser: Browser = fixture.browser();
    const page = await browser.get(`/console/login?next=${encodeURIComponent(next)}`);
    t.match(page.text, /name="next" value="\/console">\s*<div class="field">/, 'the form leads to the start');
    const fields = { email, password: CONSOLE_PASSWORD, code: await fixture.codeOf(secret), next };
    t.equal((await browser.post('/console/login', fields)).location, '/console', next);
  }
});
