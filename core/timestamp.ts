const TIMESTAMP = /^([0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2})(?:\.([0-9]{1,9}))?Z$/;

/**
 * The Unix milliseconds of a timestamp that somebody else wrote, or null.
 *
 * RFC 3339 in UTC with upper-case `T` and `Z`, up to nine digits of fraction (what is below a millisecond is cut off),
 * a day and a time of day that exist; no leap seconds, since Unix time has none.
 */
export function parseTimestamp(text: string): number | null {
  const [, seconds, fraction = ''] = TIMESTAMP.exec(text) ?? [];
  if (seconds === undefined) return null;
  const ms = Date.parse(`${seconds}.${fraction.slice(0, 3).padEnd(3, '0')}Z`);
  // Date.parse carries 30 February and 24:00 over to the next day.
  return Number.isFinite(ms) && new Date(ms).toISOString().startsWith(seconds) ? ms : null;
}
