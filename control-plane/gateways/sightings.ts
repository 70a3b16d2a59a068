import { JOB_BATCH } from '../../core/limits.ts';
import { mergeShapes, type RequestShape, requestShape } from '../../core/request-shape.ts';
import type { Sql } from '../db/client.ts';
import type { Sighting } from '../decisions/record.ts';

/** Tools whose sightings wait to be written by one process: what a hundred busy instances discover at once. */
const SIGHTINGS_WAITING_MAX = 20_000;
const REASON_MAX_CHARACTERS = 500;

interface Seen {
  readonly accountId: string;
  readonly instanceId: string;
  readonly key: string;
  unmapped: number;
  unreadable: number;
  reason: string | null;
  firstMs: number;
  lastMs: number;
  shape: RequestShape | null;
}

/**
 * How often tools were seen that nothing could be read from, and their shape, until it is written: no denial has a
 * write for it.
 *
 * What is noted and not written yet is lost with the process; it is shown to people and nothing depends on it.
 */
export class ToolSightings {
  #waiting = new Map<string, Seen>();

  /** Notes denied requests. Beyond the bound a tool is left out; the next request of it counts. */
  note(sightings: readonly Sighting[]): void {
    for (const { accountId, instanceId, key, atMs, unreadable, shape } of sightings) {
      this.#add({
        ...{ accountId, instanceId, key, shape, firstMs: atMs, lastMs: atMs },
        ...{ unmapped: unreadable === null ? 1 : 0, unreadable: unreadable === null ? 0 : 1 },
        reason: unreadable?.slice(0, REASON_MAX_CHARACTERS).toWellFormed() ?? null,
      });
    }
  }

  #add(seen: Seen): void {
    const place = `${seen.instanceId} ${seen.key}`;
    const known = this.#waiting.get(place);
    if (known === undefined) {
      if (this.#waiting.size < SIGHTINGS_WAITING_MAX) this.#waiting.set(place, seen);
      return;
    }
    known.unmapped += seen.unmapped;
    known.unreadable += seen.unreadable;
    known.reason = seen.reason ?? known.reason;
    known.firstMs = Math.min(known.firstMs, seen.firstMs);
    known.lastMs = Math.max(known.lastMs, seen.lastMs);
    known.shape = merged(known.shape, seen.shape);
  }

  /**
   * Writes the oldest of what was noted, at most {@link JOB_BATCH} tools; returns whether there is more. On a failure
   * they are kept for the next time.
   */
  async flush(sql: Sql): Promise<boolean> {
    const all = [...this.#waiting.entries()].slice(0, JOB_BATCH);
    if (all.length === 0) return false;
    for (const [place] of all) this.#waiting.delete(place);
    // In the order of the primary key, so that replicas that write the same tools wait for each other in one direction.
    const seen = all.map(([, one]) => one).sort(byKey);
    try {
      await write(sql, await withKnownShapes(sql, seen));
    } catch (error) {
      for (const one of seen) this.#add(one);
      throw error;
    }
    return this.#waiting.size > 0;
  }
}

function merged(known: RequestShape | null, newer: RequestShape | null): RequestShape | null {
  return known === null || newer === null ? (newer ?? known) : mergeShapes(known, newer);
}

/** Shapes come rarely, so that reading those that are stored is rare as well. */
async function withKnownShapes(sql: Sql, seen: readonly Seen[]): Promise<readonly Seen[]> {
  const shaped = seen.filter((one) => one.shape !== null);
  if (shaped.length === 0) return seen;
  const rows = await sql<{ instance_id: string; key: string; shape: unknown }[]>`
    select s.instance_id, s.key, s.shape from unnest(${shaped.map((one) => one.accountId)}::text[],
      ${shaped.map((one) => one.instanceId)}::text[], ${shaped.map((one) => one.key)}::text[])
      as n (account_id, instance_id, key)
    join tool_sightings s on s.account_id = n.account_id and s.instance_id = n.instance_id and s.key = n.key
    where s.shape is not null`;
  const known = new Map(rows.map((row) => [`${row.instance_id} ${row.key}`, row.shape]));
  return seen.map((one) => {
    const stored = requestShape.safeParse(known.get(`${one.instanceId} ${one.key}`));
    return stored.success ? { ...one, shape: merged(stored.data, one.shape) } : one;
  });
}

/** Of tools that are still there: one that was unmapped by its principal may be gone. */
async function write(sql: Sql, seen: readonly Seen[]): Promise<void> {
  const column = (of: (one: Seen) => string | number | null) => seen.map(of) as (string | null)[];
  await sql`
    insert into tool_sightings as s (account_id, instance_id, key, unmapped, unreadable, unreadable_reason, first_at,
      last_at, shape)
    select n.account_id, n.instance_id, n.key, n.unmapped, n.unreadable, n.reason, n.first_at, n.last_at,
      n.shape::jsonb
    from unnest(${column((one) => one.accountId)}::text[], ${column((one) => one.instanceId)}::text[],
      ${column((one) => one.key)}::text[], ${column((one) => String(one.unmapped))}::text[]::bigint[],
      ${column((one) => String(one.unreadable))}::text[]::bigint[], ${column((one) => one.reason)}::text[],
      ${column((one) => new Date(one.firstMs).toISOString())}::text[]::timestamptz[],
      ${column((one) => new Date(one.lastMs).toISOString())}::text[]::timestamptz[],
      ${column((one) => (one.shape === null ? null : JSON.stringify(one.shape)))}::text[])
      as n (account_id, instance_id, key, unmapped, unreadable, reason, first_at, last_at, shape)
    join tools t on t.account_id = n.account_id and t.instance_id = n.instance_id and t.key = n.key
    on conflict (account_id, instance_id, key) do update set
      unmapped = s.unmapped + excluded.unmapped, unreadable = s.unreadable + excluded.unreadable,
      unreadable_reason = coalesce(excluded.unreadable_reason, s.unreadable_reason),
      last_at = greatest(s.last_at, excluded.last_at), shape = coalesce(excluded.shape, s.shape)`;
}

function byKey(a: Seen, b: Seen): number {
  const [left, right] = [a, b].map((one) => `${one.accountId} ${one.instanceId} ${one.key}`) as [string, string];
  return left < right ? -1 : Number(left > right);
}
