import t from 'tap';
import { settings, settingsTable } from '../../../config/schema.ts';

t.test('every setting has a name of its own with our prefix, and says what it means', async (t) => {
  const names = settings().map(([, item]) => item.env);
  t.equal(new Set(names).size, names.length);
  for (const [, item] of settings()) {
    t.match(item.env, /^MANDATE_[A-Z_]+$/);
    t.match(item.meaning, /\.$/, item.env);
    t.notMatch(item.meaning, /\|/, item.env);
  }
});

t.test('the table has a row for every setting and never a secret value', async (t) => {
  const rows = settingsTable().split('\n');
  t.equal(rows.length, settings().length + 2);
  for (const [, item] of settings()) if (item.secret) t.equal(item.fallback, null, item.env);
});
