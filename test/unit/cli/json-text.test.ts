import t from 'tap';
import { amountText, bodyText, wholeText } from '../../../cli/json-text.ts';

t.test('an amount reaches the body with the digits it was typed in', async (t) => {
  const amount = amountText('--per-action', '9007199254740993.10');
  t.equal(bodyText({ a: amount, b: undefined, c: 'x"' }), '{"a":9007199254740993.10,"c":"x\\""}');
});

t.test('anything but plain digits is refused as an amount', async (t) => {
  for (const value of ['', '-1', '+1', '1e3', '01', '.5', '5.', '1,5', ' 1', '1 EUR', 'NaN', '1}', '٣', '1.23456']) {
    t.throws(() => amountText('--per-action', value), /in plain digits/);
  }
});

t.test('a count is a whole number above 0', async (t) => {
  t.equal(wholeText('--max-uses', '10').text, '10');
  for (const value of ['0', '1.0', '-3', 'x']) t.throws(() => wholeText('--max-uses', value), /whole number/);
});
