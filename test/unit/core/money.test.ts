import fc from 'fast-check';
import t from 'tap';
import { ISO_4217_DATE, MINOR_DIGITS } from '../../../core/iso-4217.ts';
import { canonicalize } from '../../../core/jcs.ts';
import { MONEY_MINOR_MAX } from '../../../core/limits.ts';
import {
  type AmountUnit,
  currencyOfLower,
  decimalOf,
  formatMinor,
  isCurrency,
  isCurrencyLower,
  minorUnits,
} from '../../../core/money.ts';

/** The minor units, or the problem. */
function read(text: string, currency = 'EUR', unit: AmountUnit = 'major'): number | string {
  const reading = minorUnits(text, currency, unit);
  return reading.ok ? reading.minor : reading.problem;
}

const currency = fc.constantFrom(...MINOR_DIGITS.keys());
const minor = fc.oneof(
  fc.integer({ min: 0, max: MONEY_MINOR_MAX }),
  fc.integer({ min: MONEY_MINOR_MAX - 10_000, max: MONEY_MINOR_MAX }),
  fc.nat(10_000),
);

t.test('plain decimals are read exactly into minor units', async (t) => {
  const cases: [string, string, AmountUnit, number][] = [
    ['0', 'EUR', 'major', 0],
    ['0.0', 'EUR', 'major', 0],
    ['120', 'EUR', 'major', 12000],
    ['120.5', 'EUR', 'major', 12050],
    ['0.07', 'EUR', 'major', 7],
    ['1.005', 'KWD', 'major', 1005],
    ['500', 'JPY', 'major', 500],
    ['1250', 'EUR', 'minor', 1250],
    ['10000000000000', 'EUR', 'major', MONEY_MINOR_MAX],
    ['1000000000000000', 'JPY', 'major', MONEY_MINOR_MAX],
    ['9999999999999.99', 'EUR', 'major', MONEY_MINOR_MAX - 1],
  ];
  for (const [text, code, unit, expected] of cases)
    t.equal(read(text, code, unit), expected, `${text} ${code} ${unit}`);
});

t.test('anything but a plain decimal is refused by its source text', async (t) => {
  const bad = ['', ' ', '.', '5.', '.5', '01', '00', '00.5', '+1', '1e2', '1E2', '1e-7', '0x1', '1_000', '1,00', ' 1'];
  const odd = ['1 ', '1.2.3', '１', '٣', 'NaN', 'Infinity', '--1', '-', '-01', '1\n', '1\0', '"100"'];
  for (const text of [...bad, ...odd]) {
    t.equal(read(text), 'not_a_plain_decimal', JSON.stringify(text));
  }
  for (const text of ['-1', '-0', '-0.00', '-120.5']) t.equal(read(text), 'negative', text);
});

t.test('more decimals than the currency has are refused, zeros included', async (t) => {
  for (const text of ['100.005', '1.000', '0.001']) t.equal(read(text), 'too_many_decimals', text);
  t.equal(read('1.0', 'JPY'), 'too_many_decimals');
  t.equal(read('1.0000', 'KWD'), 'too_many_decimals');
  t.equal(read('1.0', 'EUR', 'minor'), 'too_many_decimals');
});

t.test('amounts above the limit are refused however many digits they have', async (t) => {
  for (const text of ['10000000000000.01', '10000000000001', '9'.repeat(20), '9'.repeat(100_000)]) {
    t.equal(read(text), 'out_of_range', text.slice(0, 20));
  }
  t.equal(read('1000000000000001', 'EUR', 'minor'), 'out_of_range');
  t.equal(read('9007199254740993', 'JPY'), 'out_of_range');
});

t.test('the currencies are those of the pinned list, in upper case exactly', async (t) => {
  t.match(ISO_4217_DATE, /^\d{4}-\d\d-\d\d$/);
  t.equal(MINOR_DIGITS.size, 155);
  for (const code of MINOR_DIGITS.keys()) t.match(code, /^[A-Z]{3}$/);
  for (const code of ['EUR', 'USD', 'JPY', 'KWD', 'XOF', 'XCG', 'ZWG']) t.ok(isCurrency(code), code);
  const refused = ['eur', 'Eur', 'EUR ', '', 'EURO', 'XXX', 'XTS', 'XAU', 'XDR', 'CLF', 'USN', 'HRK', 'BGN', 'ANG'];
  for (const code of [...refused, '__proto__', 'constructor']) {
    t.notOk(isCurrency(code), code);
    t.equal(read('1', code), 'unknown_currency', code);
  }
});

t.test('the pinned minor digits agree with what is known of them', async (t) => {
  const expected: [string, number][] = [
    ['JPY', 0],
    ['KRW', 0],
    ['CLP', 0],
    ['ISK', 0],
    ['UGX', 0],
    ['XPF', 0],
    ['BHD', 3],
    ['IQD', 3],
    ['TND', 3],
    ['MGA', 2],
    ['HUF', 2],
  ];
  for (const [code, digits] of expected) t.equal(MINOR_DIGITS.get(code), digits, code);
});

t.test('lower-case codes are known by their own table, mixed case never', async (t) => {
  t.ok(isCurrencyLower('eur'));
  t.equal(currencyOfLower('eur'), 'EUR');
  for (const code of ['EUR', 'Eur', 'xxx', 'eur ', '']) {
    t.notOk(isCurrencyLower(code), code);
    t.equal(currencyOfLower(code), null, code);
  }
});

t.test('number → JCS text → minor units is the identity over the whole range', async (t) => {
  const property = fc.property(minor, currency, (amount, code) => {
    const text = canonicalize(decimalOf(amount, code));
    return read(text, code) === amount && Number(text) === Number(formatMinor(amount, code));
  });
  fc.assert(property, { numRuns: 5000 });
  t.equal(decimalOf(12050, 'EUR'), 120.5);
  t.equal(decimalOf(MONEY_MINOR_MAX, 'EUR'), 1e13);
});

t.test('text with all decimals is read back to the same minor units', async (t) => {
  const property = fc.property(minor, currency, (amount, code) => read(formatMinor(amount, code), code) === amount);
  fc.assert(property, { numRuns: 2000 });
  t.equal(formatMinor(12000, 'EUR'), '120.00');
  t.equal(formatMinor(7, 'EUR'), '0.07');
  t.equal(formatMinor(7, 'JPY'), '7');
  t.equal(formatMinor(7, 'KWD'), '0.007');
});

t.test('what is not an amount is not written', async (t) => {
  for (const amount of [-1, 0.5, Number.NaN, 2 ** 53]) {
    t.throws(() => formatMinor(amount, 'EUR'), RangeError);
    t.throws(() => decimalOf(amount, 'EUR'), RangeError);
  }
  t.throws(() => formatMinor(1, 'XXX'), RangeError);
  t.throws(() => decimalOf(MONEY_MINOR_MAX + 1, 'EUR'), RangeError);
});

t.test('random text never throws, and reads only what the grammar allows', async (t) => {
  const text = fc.stringMatching(/^[-+0-9.eE ]{0,20}$/);
  const property = fc.property(text, currency, fc.constantFrom<AmountUnit>('major', 'minor'), (given, code, unit) => {
    const got = read(given, code, unit);
    if (typeof got !== 'number') return true;
    return /^(?:0|[1-9][0-9]*)(?:\.[0-9]+)?$/.test(given) && Number.isSafeInteger(got) && got <= MONEY_MINOR_MAX;
  });
  fc.assert(property, { numRuns: 2000 });
  t.pass('held');
});
