import type { Sql } from '../../../control-plane/db/client.ts';

/** Stops the database's clock at a moment (RFC 3339); times of a chain never go back, so it must be ahead. */
export async function stopClock(sql: Sql, at: string): Promise<void> {
  await sql.unsafe(`create or replace function db_clock() returns timestamptz language sql volatile parallel safe
    as $$ select timestamptz '${new Date(at).toISOString()}' $$`);
}

/** Lets the database's clock run on from a moment. */
export async function runClock(sql: Sql, from: string): Promise<void> {
  const [row] = await sql<{ now: string }[]>`select clock_timestamp()::text as now`;
  await sql.unsafe(`create or replace function db_clock() returns timestamptz language sql volatile parallel safe
    as $$ select date_trunc('milliseconds',
      clock_timestamp() + (timestamptz '${new Date(from).toISOString()}' - timestamptz '${row?.now}')) $$`);
}

/** The moment so many milliseconds after (or before) another. */
export function after(at: string, ms: number): string {
  return new Date(Date.parse(at) + ms).toISOString();
}
