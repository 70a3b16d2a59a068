import assert from 'node:assert/strict';
import fc from 'fast-check';
import t from 'tap';
import { parseTimestamp } from '../../../core/timestamp.ts';

t.test('what we write is read back to the millisecond', async (t) => {
  const dates = fc.date({ min: new Date('0000-01-01T00:00:00Z'), max: new Date('9999-12-31T23:59:59.999Z') });
  const property = fc.property(dates, (date) => {
    if (!Number.isNaN(date.getTime())) assert.equal(parseTimestamp(date.toISOString()), date.getTime());
  });
  fc.assert(property, { numRuns: 500 });
  t.pass('held');
});

t.test('a fraction may be left out or have up to nine digits, and is cut off below a millisecond', async (t) => {
  const at = Date.UTC(2026, 4, 15, 10, 0, 0);
  t.equal(parseTimestamp('2026-05-15T10:00:00Z'), at);
  t.equal(parseTimestamp('2026-05-15T10:00:00.5Z'), at + 500);
  t.equal(parseTimestamp('2026-05-15T10:00:00.123456Z'), at + 123);
  t.equal(parseTimestamp('2026-05-15T10:00:00.999999999Z'), at + 999);
  t.equal(parseTimestamp('2024-02-29T23:59:59Z'), Date.UTC(2024, 1, 29, 23, 59, 59));
});

t.test('other zones, other spellings and times that do not exist are refused', async (t) => {
  const refused = [
    '',
    '2026-05-15',
    '2026-05-15T10:00Z',
    '2026-05-15T10:00:00',
    '2026-05-15T10:00:00+00:00',
    '2026-05-15T10:00:00-00:00',
    '2026-05-15T12:00:00+02:00',
    '2026-05-15t10:00:00Z',
    '2026-05-15T10:00:00z',
    '2026-05-15 10:00:00Z',
    ' 2026-05-15T10:00:00Z',
    '2026-05-15T10:00:00Z\n',
    '2026-05-15T10:00:00.Z',
    '2026-05-15T10:00:00,5Z',
    '2026-05-15T10:00:00.1234567890Z',
    '2026-05-15T10:00:60Z',
    '2026-06-30T23:59:60Z',
    '2026-05-15T24:00:00Z',
    '2026-05-15T10:60:00Z',
    '2026-02-30T10:00:00Z',
    '2025-02-29T10:00:00Z',
    '2026-00-15T10:00:00Z',
    '2026-13-15T10:00:00Z',
    '2026-05-00T10:00:00Z',
    '2026-5-15T10:00:00Z',
    '12026-05-15T10:00:00Z',
    '+002026-05-15T10:00:00Z',
    '-0001-05-15T10:00:00Z',
    '２026-05-15T10:00:00Z',
    'Fri, 15 May 2026 10:00:00 GMT',
    '1778839200000',
  ];
  for (const text of refused) t.equal(parseTimestamp(text), null, JSON.stringify(text));
});
