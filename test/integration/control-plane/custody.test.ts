import { randomBytes } from 'node:crypto';
import t from 'tap';
import { Custody, checkMasterKey } from '../../../control-plane/custody/custody.ts';
import { isSecretToken } from '../../../core/secret-token.ts';
import { createDatabase } from '../../database.ts';

const SECRET = Buffer.from('sk_live_of_a_target');

t.test('a sealed secret opens for its account, purpose and subject, and is another one each time', async (t) => {
  const custody = new Custody(randomBytes(32));
  const sealed = custody.seal('acc_a', 'credential', 'gwi_a', SECRET);
  t.same(custody.open('acc_a', 'credential', 'gwi_a', sealed), SECRET);
  t.notSame(custody.seal('acc_a', 'credential', 'gwi_a', SECRET), sealed, 'the nonce is new');
  t.notOk(sealed.includes(SECRET));
  t.same(custody.open('a', 'totp', 'b', custody.seal('a', 'totp', 'b', Buffer.alloc(0))), Buffer.alloc(0));
});

t.test('a sealed secret does not open anywhere else', async (t) => {
  const key = randomBytes(32);
  const custody = new Custody(key);
  const sealed = custody.seal('acc_a', 'credential', 'gwi_a', SECRET);
  t.throws(() => custody.open('acc_b', 'credential', 'gwi_a', sealed), 'for another account');
  t.throws(() => custody.open('acc_a', 'credential', 'gwi_b', sealed), 'for another subject');
  t.throws(() => custody.open('acc_a', 'totp', 'gwi_a', sealed), 'for another purpose');
  t.throws(() => new Custody(randomBytes(32)).open('acc_a', 'credential', 'gwi_a', sealed), 'under another key');
});

t.test('a sealed secret with any byte changed, or cut short, is refused', async (t) => {
  const custody = new Custody(randomBytes(32));
  const sealed = custody.seal('acc_a', 'totp', 'acc_a', SECRET);
  const opened: number[] = [];
  for (let at = 0; at < sealed.length; at++) {
    const changed = Buffer.from(sealed);
    changed[at] = (changed[at] ?? 0) ^ 1;
    try {
      custody.open('acc_a', 'totp', 'acc_a', changed);
      opened.push(at);
    } catch {}
  }
  t.same(opened, []);
  for (const length of [0, 1, 28, sealed.length - 1]) {
    t.throws(() => custody.open('acc_a', 'totp', 'acc_a', sealed.subarray(0, length)), `${length} bytes`);
  }
});

t.test('an escalation has one token, which only the master key makes', async (t) => {
  const key = randomBytes(32);
  const token = new Custody(key).escalationToken('esc_1');
  t.ok(isSecretToken(token, 'etk'));
  t.equal(new Custody(key).escalationToken('esc_1'), token);
  t.not(new Custody(key).escalationToken('esc_2'), token);
  t.not(new Custody(randomBytes(32)).escalationToken('esc_1'), token);
});

t.test('a key of another length is no master key', async (t) => {
  t.throws(() => new Custody(randomBytes(31)), RangeError);
  t.throws(() => new Custody(Buffer.alloc(0)), RangeError);
});

t.test('a database is started with the master key of its first start only', async (t) => {
  const { sql } = await createDatabase(t);
  const key = randomBytes(32);
  await Promise.all([checkMasterKey(sql, key), checkMasterKey(sql, key)]);
  await t.resolves(checkMasterKey(sql, key));
  await t.rejects(checkMasterKey(sql, randomBytes(32)), { message: /MANDATE_MASTER_KEY/ });
  await t.resolves(checkMasterKey(sql, key), 'the refused start changed nothing');
  const rows = await sql<{ master_key_check: Buffer }[]>`select master_key_check from installation`;
  t.equal(rows.length, 1);
  t.notSame(rows[0]?.master_key_check, key);
});
