import type { FastifyInstance } from 'fastify';
import { z } from 'zod';
import { EVIDENCE_KINDS, type EvidenceKind, type StoredEntry } from '../../core/evidence.ts';
import { accountOf } from '../admin/session.ts';
import type { Sql } from '../db/client.ts';
import type { RouteDependencies } from '../http/dependencies.ts';
import { readQuery, wholeQuery } from '../http/query.ts';

const PAGE_MAX = 1_000;
const PAGE_DEFAULT = 100;

const pageQuery = z.strictObject({
  from_seq: wholeQuery(0, Number.MAX_SAFE_INTEGER).default(0),
  limit: wholeQuery(1, PAGE_MAX).default(PAGE_DEFAULT),
  kind: z.enum(EVIDENCE_KINDS).optional(),
});

/** The route that reads an account's chain, page by page, exactly as it was hashed. */
export function registerEvidenceRoutes(app: FastifyInstance, deps: RouteDependencies): void {
  app.get('/admin/evidence', async (request) => {
    const { from_seq, limit, kind } = readQuery(request, pageQuery);
    const accountId = accountOf(request);
    const head = await readHead(deps.sql, accountId);
    // One more than asked for tells where the next page begins.
    const range = { from: from_seq, to: head.size, limit: limit + 1 };
    const found = await readEntries(deps.sql, accountId, range, kind ?? null);
    return { head, entries: found.slice(0, limit), next_seq: found[limit]?.seq ?? null };
  });
}

/** Where a chain ends: how many entries it has, the last one's hash (hex) and the time of it. */
async function readHead(sql: Sql, accountId: string): Promise<{ size: number; hash: string; at: string }> {
  const [row] = await sql<{ size: number; hash: string; at: number }[]>`
    select size, encode(hash, 'hex') as hash, at from account_heads where account_id = ${accountId}`;
  if (row === undefined) throw new Error('an account with a session has no head');
  return { size: row.size, hash: row.hash, at: new Date(row.at).toISOString() };
}

/** Entries with `from` <= seq < `to`, in the order of the chain. */
async function readEntries(
  sql: Sql,
  accountId: string,
  { from, to, limit }: { readonly from: number; readonly to: number; readonly limit: number },
  kind: EvidenceKind | null,
): Promise<StoredEntry[]> {
  const rows = await sql<StoredEntry[]>`
    select account_id as account, seq, id, kind, at, encode(prev, 'hex') as prev, body, encode(hash, 'hex') as hash
    from evidence
    where account_id = ${accountId} and seq >= ${from} and seq < ${to} ${ofKind(sql, kind)}
    order by seq limit ${limit}`;
  return [...rows];
}

// The rare kinds have an index of their own, which the planner takes only where the query says that they are rare.
function ofKind(sql: Sql, kind: EvidenceKind | null) {
  if (kind === null) return sql``;
  if (kind === 'decision' || kind === 'outcome') return sql`and kind = ${kind}`;
  return sql`and kind = ${kind} and kind not in ('decision', 'outcome')`;
}
