import t from 'tap';
import { changePassword } from '../../../control-plane/accounts/password-change.ts';
import { replaceTotp } from '../../../control-plane/accounts/second-factor.ts';
import { findConsoleSession } from '../../../control-plane/accounts/sessions.ts';
import { newTotpSecret } from '../../../control-plane/accounts/totp.ts';
import { CONSOLE_PASSWORD, consoleFixture } from './console-fixture.ts';

t.test('a session that was ended while its request was under way changes no factor any more', async (t) => {
  const fixture = await consoleFixture(t);
  const { browser, accountId } = await fixture.person();
  const token = browser.cookies.get('__Host-mandate_session') ?? '';
  const session = await findConsoleSession(fixture.sql, token);
  if (session === null) throw new Error('no session');
  const stored = async () => {
    const [row] = await fixture.sql<{ password_hash: string; totp: string; entries: number }[]>`
      select password_hash, encode(totp_sealed, 'hex') as totp,
        (select size from account_heads h where h.account_id = a.account_id) as entries
      from accounts a where account_id = ${accountId}`;
    return row;
  };
  t.equal((await browser.post('/console/logout/everywhere', {})).status, 303);
  const before = await stored();
  const secret = newTotpSecret();
  t.equal(
    await replaceTotp(fixture.deps, session, { secret, code: await fixture.codeOf(secret), removeOthers: false }),
    null,
  );
  t.equal(
    await changePassword(fixture.deps, session, {
      ...{ present: CONSOLE_PASSWORD, next: 'another unlikely sentence', removeOthers: false },
    }),
    null,
  );
  t.same(await stored(), before, 'neither the authenticator nor the password, and no evidence says so');
});
