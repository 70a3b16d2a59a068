import fc from 'fast-check';
import t from 'tap';
import { barChart, columnChart } from '../../../../../control-plane/console/parts/chart.ts';
import { wordsOf } from '../../../../../control-plane/console/words.ts';

const VISIT = { words: wordsOf('en'), language: 'en' } as const;
const SERIES = [
  { label: 'Allowed', tone: 'good' },
  { label: 'Denied', tone: 'bad' },
] as const;

const drawn = (points: readonly { label: string; values: readonly number[] }[], beside = false): string =>
  String(columnChart(VISIT, { caption: 'A week', axis: 'Day', series: SERIES, points, format: String, beside }));

t.test('every number of a chart stands in the table behind it', async (t) => {
  const text = drawn([
    { label: '1 May', values: [12, 3] },
    { label: '2 May', values: [0, 7] },
  ]);
  for (const value of [12, 3, 0, 7]) t.match(text, `<td class="end number">${value}</td>`);
  t.match(text, '<th scope="row">1 May</th>');
  t.match(text, /<div class="drawing" aria-hidden="true">/);
  t.equal(text.match(/<rect /g)?.length, 3, 'nothing is drawn for a zero');
});

t.test('no column leaves the drawing, whatever its values', async (t) => {
  const value = fc.integer({ min: 0, max: 1_000_000_000_000_000 });
  const point = fc.record({ label: fc.string(), values: fc.tuple(value, value) });
  fc.assert(
    fc.property(fc.array(point, { maxLength: 40 }), fc.boolean(), (points, beside) => {
      const text = drawn(points, beside);
      const tall = [...text.matchAll(/y="([0-9.]+)"\s+width="([0-9.]+)%" height="([0-9.]+)"/g)];
      return tall.every(([, y, width, height]) => {
        const [top, bottom] = [Number(y), Number(y) + Number(height)];
        return top >= 9.9 && bottom <= 152.1 && Number(width) > 0 && Number(width) <= 100;
      });
    }),
  );
  t.pass();
});

t.test('text in a chart stays text', async (t) => {
  const hostile = '"><script>alert(1)</script>';
  const text = drawn([{ label: hostile, values: [1, 1] }]);
  t.notMatch(text, /<script/);
  t.notMatch(String(barChart(hostile, 'bad', [{ label: hostile, amount: 1, text: hostile }])), /<script/);
});
