import type { Sql } from '../db/client.ts';

/** The database's time in Unix milliseconds: the only clock that lifetimes are measured by. */
export async function databaseTime(sql: Sql): Promise<number> {
  const [row] = await sql<{ now: number }[]>`select epoch_ms(db_clock()) as now`;
  if (row === undefined) throw new Error('the database told no time');
  return row.now;
}
