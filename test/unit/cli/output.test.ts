import fc from 'fast-check';
import t from 'tap';
import { fields, printable, table } from '../../../cli/output.ts';

t.test('characters that move the cursor, reorder or hide text are escaped', async (t) => {
  t.equal(printable('a\u001b[2J\r\nb'), 'a\\u{1b}[2J\\u{d}\\u{a}b');
  t.equal(printable('pay\u202egnp.exe'), 'pay\\u{202e}gnp.exe');
  t.equal(printable('\u200bzero\u2028line\u009b'), '\\u{200b}zero\\u{2028}line\\u{9b}');
  t.equal(printable('Grüße, 東京 €'), 'Grüße, 東京 €');
});

t.test('whatever the text, what is shown has no control or format character and one line', async (t) => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary' }), (text) => !/[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/u.test(printable(text))),
  );
  t.pass();
});

t.test('tables are aligned, numbers to the right, without trailing spaces', async (t) => {
  const text = table(
    ['name', 'n'],
    [
      ['a', 5],
      ['long\nname', 1234],
    ],
    [1],
  );
  t.equal(text, 'name              n\na                 5\nlong\\u{a}name  1234\n');
});

t.test('fields leave out what is empty and keep 0 and false', async (t) => {
  t.equal(
    fields([
      ['a', ''],
      ['bb', 0],
      ['c', false],
      ['d', null],
      ['e', ['x', 'y']],
    ]),
    'bb  0\nc   false\ne   x, y\n',
  );
});
