const TIMESTAMP = /^([0-9]{4}-[0-9]{2}-([0-9]{2})T([0-9]{2}):[0-9]{2}:[0-9]{2})(?:\.([0-9]{1,9}))?Z$/;

/**
 * The Unix milliseconds of a timestamp that somebody else wrote, or null.
 *
 * RFC 3339 in UTC with upper-case `T` and `Z`, up to nine digits of fraction (what is below a millisecond is cut off),
 * a day and a time of day that exist; no leap seconds, since Unix time has none.
 */
export function parseTimestamp(text: string): number | null {
  const parts = TIMESTAMP.exec(text);
  if (parts === null) return null;
  const [, seconds = '', day = '', hour = '', fraction = ''] = parts;
  // Three digits of fraction are what Date.parse reads in ISO 8601.
  const ms = Date.parse(fraction.length === 3 ? text : `${seconds}.${fraction.slice(0, 3).padEnd(3, '0')}Z`);
  // It carries 30 February and 24:00 over to the next day.
  const date = new Date(ms);
  return date.getUTCDate() === Number(day) && date.getUTCHours() === Number(hour) ? ms : null;
}
