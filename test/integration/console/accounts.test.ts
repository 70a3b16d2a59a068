import t from 'tap';
import { CONSOLE_PASSWORD, type ConsoleFixture, type ConsolePerson, consoleFixture } from './console-fixture.ts';

const SESSION = '__Host-mandate_session';

async function logIn(fixture: ConsoleFixture, person: ConsolePerson, code: string, password = CONSOLE_PASSWORD) {
  const browser = fixture.browser();
  await browser.get('/console/login');
  return { browser, answer: await browser.post('/console/login', { email: person.email, password, code }) };
}

t.test('nothing of an account exists before its second factor has shown a code', async (t) => {
  const fixture = await consoleFixture(t);
  const browser = fixture.browser();
  await browser.get('/console/signup');
  const begun = await browser.post('/console/signup', { email: 'Anna@Example.com ', password: CONSOLE_PASSWORD });
  t.same([begun.status, begun.location], [303, '/console/signup/factor']);
  const setup = await browser.get('/console/signup/factor');
  t.match(setup.text, /<svg viewBox="0 0 \d+ \d+" role="img" aria-label="QR code/);
  t.notMatch(setup.text, /sgn_/, 'the token of the sign-up is in a cookie and in no page');
  t.equal((await browser.get('/console')).status, 303);
  const wrong = await browser.post('/console/signup/factor', { code: '000000' });
  t.equal(wrong.status, 422);
  t.match(wrong.text, /aria-invalid="true"/);
  t.equal((await fixture.sql`select from accounts where email = 'anna@example.com'`).length, 0);
  const secret = (/id="totp-key">([A-Z2-7 ]+)</.exec(wrong.text)?.[1] ?? '').replaceAll(' ', '');
  const done = await browser.post('/console/signup/factor', { code: await fixture.codeOf(secret) });
  t.equal(done.status, 200);
  t.equal((await fixture.sql`select from accounts where email = 'anna@example.com'`).length, 1);
  t.equal((await browser.get('/console/signup/factor')).location, '/console/signup', 'and the sign-up is over');
});

t.test('a password that is tried first, too short or the address itself is refused in words', async (t) => {
  const fixture = await consoleFixture(t);
  const browser = fixture.browser();
  await browser.get('/console/signup', { 'accept-language': 'de-AT, en;q=0.5' });
  const cases = [
    ['password1234', /zuerst probiert/],
    ['short', /mindestens 12 Zeichen/],
    ['anna@example.com', /nicht Ihre E-Mail-Adresse/],
    ['', /Füllen Sie dieses Feld aus/],
  ] as const;
  for (const [password, words] of cases) {
    const fields = { email: 'anna@example.com', password };
    const answer = await browser.post('/console/signup', fields, { 'accept-language': 'de' });
    t.equal(answer.status, 422, password);
    t.match(answer.text, words);
    if (password !== '' && !fields.email.includes(password)) t.notMatch(answer.text, password);
  }
});

t.test('a code and a recovery code work once; neither is needed twice by anybody else', async (t) => {
  const fixture = await consoleFixture(t);
  const person = await fixture.person();
  await fixture.advance(60);
  const code = await fixture.codeOf(person.secret);
  t.equal((await logIn(fixture, person, code)).answer.status, 303);
  t.equal((await logIn(fixture, person, code)).answer.status, 422);
  const recovery = person.recoveryCodes[0] ?? '';
  t.equal((await logIn(fixture, person, recovery.toUpperCase().replaceAll('-', ' '))).answer.status, 303);
  t.equal((await logIn(fixture, person, recovery)).answer.status, 422);
  const page = await person.browser.get('/console/account');
  t.match(page.text, /9 codes are left/);
  const rows = await fixture.sql<{ text: string }[]>`select row_to_json(r)::text as text from recovery_codes r`;
  t.notMatch(rows.map(({ text }) => text).join(), recovery.replaceAll('-', ''));
});

t.test('who tries codes is locked out, at the sign-in and in a session', async (t) => {
  const fixture = await consoleFixture(t);
  const person = await fixture.person();
  await fixture.advance(600);
  for (let i = 0; i < 5; i++) t.equal((await logIn(fixture, person, '000000')).answer.status, 422);
  const right = await fixture.codeOf(person.secret);
  const { answer } = await logIn(fixture, person, right);
  t.equal(answer.status, 429, 'even with both factors right');
  t.match(answer.headers['retry-after'], /^\d+$/);
  t.match(answer.text, /Wait \d+ seconds/);
  const { browser } = person;
  await browser.get('/console/confirm');
  for (let i = 0; i < 5; i++) {
    t.equal((await browser.post('/console/confirm', { code: '000000' })).status, 422);
  }
  t.equal((await browser.post('/console/confirm', { code: right })).status, 429, 'so is a code in the session');
  const nobody = { ...person, email: 'nobody@example.com' };
  for (let i = 0; i < 5; i++) t.equal((await logIn(fixture, nobody, '000000')).answer.status, 422);
  t.equal((await logIn(fixture, nobody, '000000')).answer.status, 429, 'an address without an account locks as well');
});

t.test('who knows only an address keeps nobody who is signed in from confirming', async (t) => {
  const fixture = await consoleFixture(t);
  const person = await fixture.person();
  const { browser } = person;
  await fixture.advance(600);
  for (let i = 0; i < 5; i++) await logIn(fixture, person, '000000', 'another sentence');
  await browser.get('/console/confirm');
  const confirmed = await browser.post('/console/confirm', { code: await fixture.codeOf(person.secret) });
  t.equal(confirmed.status, 303);
  await fixture.advance(20);
  t.equal((await logIn(fixture, person, '000000')).answer.status, 429, 'which opens no lock of the sign-in');
  await browser.get('/console/account');
  const next = 'another unlikely sentence';
  const changed = await browser.post('/console/account/password', { present: CONSOLE_PASSWORD, password: next });
  t.equal(changed.status, 303, 'nor from changing the password');
});

t.test('codes that failed in a session lock no sign-in, and a sign-in opens no lock of theirs', async (t) => {
  const fixture = await consoleFixture(t);
  const person = await fixture.person();
  const { browser } = person;
  await fixture.advance(600);
  await browser.get('/console/confirm');
  for (let i = 0; i < 5; i++) await browser.post('/console/confirm', { code: '000000' });
  t.equal((await logIn(fixture, person, await fixture.codeOf(person.secret))).answer.status, 303);
  const later = await fixture.codeOf(person.secret, 1);
  t.equal((await browser.post('/console/confirm', { code: later })).status, 429);
  await fixture.advance(30);
  t.equal((await browser.post('/console/confirm', { code: '000000' })).status, 422);
  t.equal((await browser.post('/console/confirm', { code: later })).status, 429, 'each further failure locks again');
});

t.test('signing out ends the session at once, everywhere ends all', async (t) => {
  const fixture = await consoleFixture(t);
  const person = await fixture.person();
  await fixture.advance(60);
  const { browser: second } = await logIn(fixture, person, await fixture.codeOf(person.secret));
  const token = second.cookies.get(SESSION) ?? '';
  await second.get('/console');
  t.equal((await second.post('/console/logout', {})).location, '/console/login');
  t.notOk(second.cookies.has(SESSION));
  t.match((await second.get('/console/login')).text, /You are signed out\./);
  second.cookies.set(SESSION, token);
  t.equal((await second.get('/console')).status, 303, 'the token is worth nothing');
  await fixture.advance(60);
  const { browser: third } = await logIn(fixture, person, await fixture.codeOf(person.secret));
  await third.get('/console');
  await third.post('/console/logout/everywhere', {});
  t.equal((await person.browser.get('/console')).status, 303);
});

t.test('the sessions of an account are listed, and any of them can be ended', async (t) => {
  const fixture = await consoleFixture(t);
  const person = await fixture.person();
  await fixture.advance(60);
  const { browser: second } = await logIn(fixture, person, await fixture.codeOf(person.secret));
  const page = await person.browser.get('/console/account');
  const ids = Array.from(page.text.matchAll(/sessions\/(ses_[0-9a-z]{26})\/revoke/g), ([, id]) => id ?? '');
  t.equal(new Set(ids).size, 2);
  const [row] = await fixture.sql<{ session_id: string }[]>`
    select session_id from sessions where account_id = ${person.accountId} order by session_id desc limit 1`;
  const ended = await person.browser.post(`/console/account/sessions/${row?.session_id}/revoke`, {});
  t.equal(ended.location, '/console/account');
  t.equal((await second.get('/console')).status, 303);
  t.equal((await person.browser.get('/console')).status, 200);
});

t.test('a changed password ends every other session, and needs the one before and a fresh factor', async (t) => {
  const fixture = await consoleFixture(t);
  const person = await fixture.person();
  await fixture.advance(60);
  const { browser: second } = await logIn(fixture, person, await fixture.codeOf(person.secret));
  const { browser } = person;
  await browser.get('/console/account');
  const next = 'another unlikely sentence';
  const wrong = await browser.post('/console/account/password', { present: 'x', password: next });
  t.equal(wrong.status, 422);
  t.match(wrong.text, /not your present password/);
  await browser.get('/console/account');
  const before = browser.cookies.get(SESSION);
  const done = await browser.post('/console/account/password', { present: CONSOLE_PASSWORD, password: next });
  t.equal(done.location, '/console/account');
  t.not(browser.cookies.get(SESSION), before ?? '');
  t.equal((await browser.get('/console/account')).status, 200);
  t.equal((await second.get('/console')).status, 303);
  await fixture.advance(600);
  t.match((await browser.get('/console/account')).text, /name="factor_code"/);
  const again = { present: next, password: 'a third unlikely sentence' };
  for (const code of ['', '000000']) {
    const stale = await browser.post('/console/account/password', { ...again, factor_code: code });
    t.equal(stale.status, 422);
    t.match(stale.text, /id="f-factor-code-error"/);
  }
  const wrongAgain = { ...again, present: 'x', factor_code: await fixture.codeOf(person.secret) };
  const spent = await browser.post('/console/account/password', wrongAgain);
  t.equal(spent.status, 422, 'the code is right, the password is not');
  t.equal((await browser.post('/console/account/password', again)).status, 303, 'and the factor is fresh now');
  await fixture.advance(60);
  const code = await fixture.codeOf(person.secret);
  t.equal((await logIn(fixture, person, code)).answer.status, 422, 'the password before is none any more');
  await fixture.advance(60);
  t.equal((await logIn(fixture, person, await fixture.codeOf(person.secret), again.password)).answer.status, 303);
});

t.test('a new authenticator takes the place of the one before once it shows a code', async (t) => {
  const fixture = await consoleFixture(t);
  const person = await fixture.person();
  const { browser } = person;
  const page = await browser.get('/console/account/authenticator');
  const secret = (/id="totp-key">([A-Z2-7 ]+)</.exec(page.text)?.[1] ?? '').replaceAll(' ', '');
  t.not(secret, person.secret);
  t.equal((await browser.post('/console/account/authenticator', { code: '000000' })).status, 422);
  const done = await browser.post('/console/account/authenticator', { code: await fixture.codeOf(secret) });
  t.equal(done.location, '/console/account');
  await fixture.advance(60);
  t.equal((await logIn(fixture, person, await fixture.codeOf(person.secret))).answer.status, 422);
  t.equal((await logIn(fixture, person, await fixture.codeOf(secret))).answer.status, 303);
});

t.test('what a thief added ends with the password or the authenticator, where its owner says so', async (t) => {
  const fixture = await consoleFixture(t);
  const person = await fixture.person();
  const { browser, accountId } = person;
  const { sql } = fixture;
  const addPasskey = (n: number) => sql`
    insert into passkeys (account_id, passkey_id, credential_id, public_key, counter, transports, name, backed_up,
      created_at)
    values (${accountId}, ${`psk_${n}`}, ${Buffer.from([n])}, ${Buffer.from([n])}, 0, '{}', 'Mine', false, db_clock())`;
  const others = async () => {
    const [row] = await sql<{ passkeys: number; codes: number }[]>`
      select (select count(*) from passkeys)::integer as passkeys,
        (select count(*) from recovery_codes)::integer as codes`;
    return [row?.passkeys, row?.codes];
  };
  await addPasskey(1);
  const next = 'another unlikely sentence';
  const page = await browser.get('/console/account');
  t.match(page.text, /name="remove_others"/);
  await browser.post('/console/account/password', { present: CONSOLE_PASSWORD, password: next });
  t.same(await others(), [1, 10], 'unasked, nothing is removed');
  await browser.get('/console/account');
  const again = { present: next, password: CONSOLE_PASSWORD, remove_others: 'on' };
  t.equal((await browser.post('/console/account/password', again)).status, 303);
  t.same(await others(), [0, 0]);
  await addPasskey(2);
  const setup = await browser.get('/console/account/authenticator');
  t.match(setup.text, /name="remove_others"/);
  const secret = (/id="totp-key">([A-Z2-7 ]+)</.exec(setup.text)?.[1] ?? '').replaceAll(' ', '');
  const code = await fixture.codeOf(secret);
  t.equal((await browser.post('/console/account/authenticator', { code, remove_others: 'on' })).status, 303);
  t.same(await others(), [0, 0]);
  const kinds = await sql<{ kind: string }[]>`
    select kind from evidence where kind in ('account.passkey_removed', 'account.recovery_codes') order by seq`;
  const removed = ['account.passkey_removed', 'account.recovery_codes', 'account.passkey_removed'];
  t.same(
    kinds.map(({ kind }) => kind),
    ['account.recovery_codes', ...removed],
  );
});

t.test('new recovery codes end the ones before', async (t) => {
  const fixture = await consoleFixture(t);
  const person = await fixture.person();
  await person.browser.get('/console/account');
  const made = await person.browser.post('/console/account/recovery-codes', {});
  const codes = Array.from(made.text.matchAll(/<li>([0-9a-z-]{19})<\/li>/g), ([, code]) => code ?? '');
  t.equal(new Set([...codes, ...person.recoveryCodes]).size, 20);
  t.equal((await logIn(fixture, person, person.recoveryCodes[0] ?? '')).answer.status, 422);
  t.equal((await logIn(fixture, person, codes[0] ?? '')).answer.status, 303);
});

t.test('language and colours are remembered without a script', async (t) => {
  const fixture = await consoleFixture(t);
  const browser = fixture.browser();
  t.match((await browser.get('/console/login')).text, /<html lang="en">/);
  t.match(
    (await browser.get('/console/login', { 'accept-language': 'fr, de;q=0.8, en;q=0.7' })).text,
    /<html lang="de">/,
  );
  const back = await browser.post('/console/preferences', { language: 'de', next: '/console/login' });
  t.equal(back.location, '/console/login');
  await browser.get('/console/login');
  await browser.post('/console/preferences', { theme: 'dark', next: '/console/login' });
  t.match((await browser.get('/console/login')).text, /<html lang="de" data-theme="dark">/);
  await browser.post('/console/preferences', { language: 'xx', theme: '"><script>' });
  t.match((await browser.get('/console/login')).text, /<html lang="de" data-theme="dark">/);
});

t.test('who tries one password on many accounts is slowed down by address', async (t) => {
  const fixture = await consoleFixture(t);
  const browser = fixture.browser();
  await browser.get('/console/login');
  const attempts = Array.from({ length: 45 }, (_, i) =>
    browser.post('/console/login', {
      email: `nobody-${i}@example.com`,
      password: 'spring and summer',
      code: '000000',
    }),
  );
  const statuses = (await Promise.all(attempts)).map(({ status }) => status);
  const told = statuses.filter((status) => status === 422).length;
  t.ok(told >= 30 && told < 40, `${told} were told that it was wrong`);
  t.equal(statuses.filter((status) => status === 429).length, 45 - told);
});
