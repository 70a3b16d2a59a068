import t from 'tap';
import type { Sql } from '../../../control-plane/db/client.ts';
import { entryHash, type StoredEntry } from '../../../core/evidence.ts';
import { isSecretToken, newSecretToken } from '../../../core/secret-token.ts';
import { isTypeId } from '../../../core/type-id.ts';
import {
  type AdminAnswer,
  type AdminFixture,
  adminFixture,
  at,
  PASSWORD,
  TOTP_SECRET,
  textAt,
} from './admin-fixture.ts';

async function evidence(sql: Sql, accountId: string): Promise<StoredEntry[]> {
  return sql<StoredEntry[]>`
    select account_id as account, seq, id, kind, at, encode(prev, 'hex') as prev, encode(hash, 'hex') as hash, body
    from evidence where account_id = ${accountId} order by seq`;
}

async function kinds(sql: Sql, accountId: string): Promise<string[]> {
  return (await evidence(sql, accountId)).map((entry) => entry.kind);
}

function problem(answer: AdminAnswer): [number, unknown] {
  return [answer.status, at(answer, 'error')];
}

/** What a client can tell two answers by. */
function visible(answer: AdminAnswer): unknown {
  const { request_id: _, ...body } = answer.body as Record<string, unknown>;
  const { 'x-request-id': __, date: ___, ...headers } = answer.headers;
  return { status: answer.status, headers, body };
}

function changedAt(token: string, at: number): string {
  return `${token.slice(0, at)}${token[at] === 'A' ? 'B' : 'A'}${token.slice(at + 1)}`;
}

async function logIn(fixture: AdminFixture, email: string, changes: Record<string, unknown> = {}) {
  const body = { email, password: PASSWORD, totp_code: await fixture.code(), ...changes };
  return fixture.send('POST', '/admin/login', null, body);
}

t.test('an account exists once its second factor showed a code, and is signed in then', async (t) => {
  const fixture = await adminFixture(t);
  const { sql, send } = fixture;
  const begun = await send('POST', '/admin/signup', null, { email: 'Ada@Example.com', password: PASSWORD });
  t.equal(begun.status, 200);
  const secret = textAt(begun, 'totp.secret');
  t.match(secret, /^[A-Z2-7]{32}$/);
  t.match(textAt(begun, 'totp.otpauth_uri'), new RegExp(`^otpauth://totp/.*secret=${secret}`));
  t.equal((await sql`select from accounts`).length, 0, 'nothing is stored before');

  const { accountId, token, email } = await fixture.signUp('Ada@Example.com');
  t.ok(isTypeId(accountId, 'acc'));
  t.ok(isSecretToken(token, 'ses'));
  t.same(await kinds(sql, accountId), ['account.created', 'account.second_factor', 'session.created']);
  for (const entry of await evidence(sql, accountId)) {
    t.equal(entryHash({ ...entry, at: new Date(entry.at).toISOString() }), entry.hash, `entry ${entry.seq}`);
  }
  const account = await send('GET', '/admin/account', token);
  t.match(account.body, { account_id: accountId, email: email.toLowerCase(), evidence: { size: 3 } });
  t.match(textAt(account, 'created_at'), /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
  t.same(fixture.errors, []);
});

t.test('a sign-up is refused field by field', async (t) => {
  const { send } = await adminFixture(t);
  const signUp = (body: Record<string, unknown>) =>
    send('POST', '/admin/signup', null, { email: 'ada@example.com', password: PASSWORD, ...body });
  const refusals: [string, Record<string, unknown>][] = [
    ['email', { email: 'ada' }],
    ['email', { email: `${'a'.repeat(250)}@example.com` }],
    ['email', { email: null }],
    ['password', { password: 'short' }],
    ['password', { password: 'a'.repeat(12) }],
    ['password', { password: 'Password1234' }],
    ['password', { password: 'x'.repeat(1000) }],
    ['password', { password: 'ADA@example.com' }],
    ['totp_secret', { totp_secret: 'JBSWY3DP' }],
    ['totp_secret', { totp_secret: '1'.repeat(32) }],
    ['(body)', { admin: true }],
  ];
  for (const [field, body] of refusals) {
    const answer = await signUp(body);
    t.same(problem(answer), [422, 'invalid'], `${field} ${JSON.stringify(body).slice(0, 40)}`);
    t.equal(at(answer, 'fields.0.field'), field);
  }
});

t.test('a sign-up token works once, for fifteen minutes, and only as it was given', async (t) => {
  const fixture = await adminFixture(t);
  const { send, sql } = fixture;
  const begin = async (email: string) =>
    textAt(
      await send('POST', '/admin/signup', null, { email, password: PASSWORD, totp_secret: TOTP_SECRET }),
      'signup_token',
    );
  const confirm = async (token: string, code?: string) =>
    send('POST', '/admin/signup/confirm', null, { signup_token: token, totp_code: code ?? (await fixture.code()) });

  const token = await begin('ada@example.com');
  const wrong = await confirm(token, await fixture.code(5));
  t.same(problem(wrong), [422, 'invalid'], 'a wrong code');
  t.equal(at(wrong, 'fields.0.field'), 'totp_code');
  t.same(problem(await confirm(changedAt(token, 40))), [422, 'invalid'], 'a changed token');
  t.same(problem(await confirm('sgn_')), [422, 'invalid'], 'no token');
  const other = await begin('ADA@example.com');
  t.equal((await confirm(token)).status, 201);
  t.same(problem(await confirm(token)), [409, 'conflict'], 'the same token again');
  t.same(problem(await confirm(other)), [409, 'conflict'], 'the same address in another sign-up');
  const late = await begin('bob@example.com');
  await fixture.advance(15 * 60);
  t.same(problem(await confirm(late)), [422, 'invalid'], 'fifteen minutes later');
  t.equal((await sql`select from accounts`).length, 1);
  t.equal((await sql`select from account_heads`).length, 1, 'no head without its account');
});

t.test('wrong password, unknown address and wrong code cannot be told apart', async (t) => {
  const fixture = await adminFixture(t);
  const { email, accountId } = await fixture.signUp();
  await fixture.advance(60);
  const wrong = visible(await logIn(fixture, email, { password: 'another sentence' }));
  t.match(wrong, { status: 401, body: { error: 'unauthenticated' } });
  t.same(visible(await logIn(fixture, 'nobody@example.com')), wrong);
  t.same(visible(await logIn(fixture, email, { totp_code: await fixture.code(5) })), wrong);
  t.same((await kinds(fixture.sql, accountId)).slice(3), ['session.refused', 'session.refused']);
  t.equal((await logIn(fixture, email)).status, 200, 'both factors right');
  t.same((await kinds(fixture.sql, accountId)).slice(5), ['session.created']);
});

t.test('a code works once, even when it is presented many times at once', async (t) => {
  const fixture = await adminFixture(t);
  const { email, code: first } = await fixture.signUp();
  t.equal((await logIn(fixture, email, { totp_code: first })).status, 401, 'the code of the sign-up');
  await fixture.advance(60);
  const code = await fixture.code();
  const body = { totp_code: code };
  const answers = await Promise.all([
    logIn(fixture, email, body),
    logIn(fixture, email, body),
    logIn(fixture, email, body),
  ]);
  t.same(answers.map((answer) => answer.status).sort(), [200, 401, 401]);
  await fixture.advance(30);
  t.equal((await logIn(fixture, email, body)).status, 401, 'in the tolerance of the next step');
  t.equal((await logIn(fixture, email)).status, 200, 'the next code');
  t.equal((await logIn(fixture, email, { totp_code: await fixture.code(-1) })).status, 401, 'an earlier code');
});

t.test('five failures lock the account, each further one for twice as long', async (t) => {
  const fixture = await adminFixture(t);
  const { email, token, accountId } = await fixture.signUp();
  await fixture.advance(60);
  const fail = () => logIn(fixture, email, { password: 'another sentence' });
  for (let i = 0; i < 5; i++) t.equal((await fail()).status, 401, `failure ${i + 1}`);
  const size = (await evidence(fixture.sql, accountId)).length;
  for (const seconds of [30, 60, 120, 240, 480, 900, 900]) {
    const locked = await logIn(fixture, email);
    t.same(problem(locked), [429, 'locked_out'], 'even with both factors right');
    const wait = Number(locked.headers['retry-after']);
    t.ok(wait >= 1 && wait <= seconds, `${wait} of ${seconds} seconds`);
    const last = (await evidence(fixture.sql, accountId)).at(-1);
    const { locked_until: until } = JSON.parse(last?.body ?? '{}');
    t.equal(Date.parse(until) - new Date(last?.at ?? 0).getTime(), seconds * 1000);
    await fixture.advance(seconds);
    t.equal((await fail()).status, 401, 'one more attempt after the lock');
  }
  t.equal((await evidence(fixture.sql, accountId)).length, size + 7, 'attempts on a locked account leave no entry');
  t.equal((await fixture.send('GET', '/admin/account', token)).status, 200, 'the lock ends no session');
  await fixture.advance(900);
  t.equal((await logIn(fixture, email)).status, 200);
  t.equal((await fail()).status, 401, 'counting starts anew');
  await fixture.advance(30);
  t.equal((await logIn(fixture, email)).status, 200);
});

t.test('attempts that are many at once are no more than the lock allows', async (t) => {
  const fixture = await adminFixture(t);
  const { email } = await fixture.signUp();
  await fixture.advance(60);
  const attempts = Array.from({ length: 12 }, () => logIn(fixture, email, { password: 'another sentence' }));
  const statuses = (await Promise.all(attempts)).map((answer) => answer.status);
  t.equal(statuses.filter((status) => status === 401).length, 5);
  t.equal(statuses.filter((status) => status === 429).length, 7);
});

t.test('an address without an account locks as one that has one does', async (t) => {
  const fixture = await adminFixture(t);
  const { email } = await fixture.signUp();
  await fixture.advance(60);
  const answersAt = async (address: string) => {
    const answers: unknown[] = [];
    for (let i = 0; i < 6; i++) {
      const answer = await logIn(fixture, address, { password: 'another sentence' });
      const { 'retry-after': seconds, ...headers } = answer.headers;
      t.equal(seconds !== undefined, i === 5);
      answers.push(visible({ ...answer, headers: { ...headers, 'x-ratelimit-remaining': null } }));
    }
    return answers;
  };
  const known = await answersAt(email);
  t.match(known[5], { status: 429, body: { error: 'locked_out' } });
  t.same(await answersAt('nobody@example.com'), known);
  await fixture.advance(30);
  t.equal((await logIn(fixture, 'nobody@example.com')).status, 401, 'one more attempt after the lock');
  const wait = Number((await logIn(fixture, 'nobody@example.com')).headers['retry-after']);
  t.ok(wait > 30 && wait <= 60, 'then locked for twice as long');
  const { token } = await fixture.signUp('nobody@example.com');
  t.equal((await fixture.send('GET', '/admin/account', token)).status, 200, 'the lock keeps nobody from signing up');
  const attempts = Array.from({ length: 8 }, () => logIn(fixture, 'noone@example.com'));
  const statuses = (await Promise.all(attempts)).map((answer) => answer.status);
  t.same(statuses.sort(), [401, 401, 401, 401, 401, 429, 429, 429], 'also where they are many at once');
});

t.test('a session ends at once when it is signed out, alone, and by itself after twelve hours', async (t) => {
  const fixture = await adminFixture(t);
  const { send, sql } = fixture;
  const { email, token, accountId } = await fixture.signUp();
  await fixture.advance(60);
  const second = textAt(await logIn(fixture, email), 'token');
  const out = await send('POST', '/admin/logout', token);
  t.same([out.status, out.text], [204, '']);
  t.same(problem(await send('GET', '/admin/account', token)), [401, 'unauthenticated']);
  t.same(problem(await send('POST', '/admin/logout', token)), [401, 'unauthenticated']);
  t.equal((await send('GET', '/admin/account', second)).status, 200);
  t.equal((await kinds(sql, accountId)).at(-1), 'session.revoked');
  await fixture.advance(12 * 60 * 60);
  t.same(problem(await send('GET', '/admin/account', second)), [401, 'unauthenticated']);
  const third = await logIn(fixture, email);
  t.equal((await sql`select from sessions`).length, 1, 'the dead ones are forgotten');
  t.equal((await sql`select from token_routes`).length, 1);
  t.equal((await send('GET', '/admin/account', textAt(third, 'token'))).status, 200);
});

t.test('an account has a bounded number of sessions; the oldest ends first', async (t) => {
  const fixture = await adminFixture(t);
  const { accountId, token, email } = await fixture.signUp();
  await fixture.sql`
    insert into sessions (account_id, session_id, token_hash, created_at, last_seen_at, expires_at)
    select ${accountId}, 'ses_7' || lpad(n::text, 25, '0'), sha256(n::text::bytea), db_clock(), db_clock(),
      db_clock() + interval '1 hour' from generate_series(1, 31) as n`;
  await fixture.advance(60);
  t.equal((await logIn(fixture, email)).status, 200);
  t.equal((await fixture.sql`select from sessions`).length, 32);
  t.equal((await fixture.send('GET', '/admin/account', token)).status, 401, 'the oldest');
});

t.test('nothing but a live session token opens a route below /admin', async (t) => {
  const fixture = await adminFixture(t);
  const { token } = await fixture.signUp();
  const flipped = changedAt(token, 5);
  for (const one of [
    null,
    '',
    'x',
    flipped,
    newSecretToken('ses'),
    `gwt_${token.slice(4)}`,
    `${token}A`,
    `${token} `,
  ]) {
    const answer = await fixture.send('GET', '/admin/account', one);
    t.same(problem(answer), [401, 'unauthenticated'], JSON.stringify(one)?.slice(0, 12));
    const challenge = 'Bearer realm="mandate-gateway"';
    t.equal(answer.headers['www-authenticate'], one === null ? challenge : `${challenge}, error="invalid_token"`);
  }
  t.equal((await fixture.send('POST', '/admin/logout', null)).status, 401);
  t.not((await fixture.send('GET', '/admin/../admin/account', null)).status, 200);
});

t.test('no table holds a token, a second factor or a password in clear', async (t) => {
  const fixture = await adminFixture(t);
  const { email, token } = await fixture.signUp();
  await fixture.advance(60);
  const second = textAt(await logIn(fixture, email), 'token');
  await logIn(fixture, email, { password: 'a wrong sentence' });
  const tables = await fixture.sql<{ name: string }[]>`
    select quote_ident(table_name) as name from information_schema.tables
    where table_schema = current_schema() and table_type = 'BASE TABLE'`;
  const secrets = [token, second, TOTP_SECRET, PASSWORD, 'a wrong sentence'];
  const forms = secrets.flatMap((secret) => [secret, Buffer.from(secret).toString('hex')]);
  for (const { name } of tables) {
    const rows = await fixture.sql.unsafe<{ text: string }[]>(`select row_to_json(r)::text as text from ${name} as r`);
    const found = rows.filter(({ text }) => forms.some((form) => text.includes(form)));
    t.equal(found.length, 0, name);
  }
  t.notOk(JSON.stringify(fixture.errors).includes(token));
});

t.test('attempts to sign in and up are counted by address, over all accounts', async (t) => {
  const fixture = await adminFixture(t);
  const attempt = (i: number) => logIn(fixture, `nobody-${i}@example.com`, { totp_code: '000000' });
  const begin = (i: number) =>
    fixture.send('POST', '/admin/signup', null, { email: `new-${i}@example.com`, password: PASSWORD });
  const answers = await Promise.all(Array.from({ length: 45 }, (_, i) => (i % 2 === 0 ? attempt(i) : begin(i))));
  const refused = answers.filter(({ status }) => status === 429);
  t.ok(refused.length > 5 && refused.length <= 15, `${refused.length} were refused`);
  for (const answer of refused) t.same(problem(answer), [429, 'rate_limited']);
  const there = await fixture.app.inject({
    ...{ method: 'POST', url: '/admin/login', remoteAddress: '203.0.113.9' },
    payload: { email: 'nobody@example.com', password: PASSWORD, totp_code: '000000' },
  });
  t.equal(there.statusCode, 401, 'another address has its own');
});
