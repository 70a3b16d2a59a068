import { readdirSync } from 'node:fs';
import { tmpdir } from 'node:os';
import t from 'tap';
import { ANY_PORTS, mandate } from './running-system.ts';

t.test('the demo tells the whole story in order, ends by itself, and leaves nothing behind', async (t) => {
  const before = readdirSync(tmpdir()).filter((name) => name.startsWith('mandate-demo-'));
  const { code, stdout, stderr } = await mandate(['up', '--demo'], ANY_PORTS);
  t.equal(code, 0, stderr);
  const told = [
    'deny MD-501',
    '✓ allow',
    'deny MD-302',
    'deny MD-303',
    '? escalate',
    '✓ allow',
    'deny MD-203',
    'chain intact',
  ];
  let at = 0;
  for (const part of told) {
    at = stdout.indexOf(part, at);
    t.not(at, -1, part);
    at += part.length;
  }
  t.ok(stdout.split('\n').length <= 100, 'it fits on a screen or two');
  t.notMatch(stdout, /(?:gwt|etk|ses)_[A-Za-z0-9_-]{20}/);
  t.notMatch(stdout, /\u001b/);
  const after = readdirSync(tmpdir()).filter((name) => name.startsWith('mandate-demo-'));
  t.strictSame(
    after.filter((name) => !before.includes(name)),
    [],
  );
});
