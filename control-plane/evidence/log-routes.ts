import type { FastifyInstance } from 'fastify';
import { z } from 'zod';
import { ProblemError } from '../../core/errors.ts';
import { hashesOf, TILE_WIDTH } from '../../core/merkle-tree.ts';
import { verifierKeyText } from '../../core/signed-note.ts';
import { accountOf } from '../admin/session.ts';
import { apiKeyOf } from '../api/api-keys.ts';
import type { RouteDependencies } from '../http/dependencies.ts';
import { readQuery, wholeQuery } from '../http/query.ts';
import { entryBundle } from './entry-bundle.ts';
import { readTilePath } from './tile-path.ts';
import { EvidenceContradiction, tileOf, widthAt } from './tree.ts';
import { currentSize, lastSignedTreeHead, logKeyOf, type SignedTreeHead, signedTreeHead } from './tree-heads.ts';

/** The account's log as C2SP tlog-tiles serves it, and its tree head as a token (contract §10). */
export function registerLogRoutes(app: FastifyInstance, deps: RouteDependencies): void {
  const config = { scope: 'evidence:read' } as const;
  app.get('/api/v1/evidence/checkpoint', { config }, async (request, reply) => {
    const { checkpoint } = await plainly(signedTreeHead(deps, apiKeyOf(request).accountId));
    return reply.type('text/plain; charset=utf-8').send(checkpoint);
  });
  app.get('/api/v1/evidence/tree-head', { config }, async (request) => {
    const { accountId } = apiKeyOf(request);
    return treeHead(deps, await plainly(signedTreeHead(deps, accountId)));
  });
  for (const path of ['/api/v1/evidence/tile/entries/*', '/api/v1/evidence/tile/:level/*']) {
    app.get(path, { config }, async (request, reply) => {
      const { level = 'entries', '*': index } = request.params as { readonly level?: string; readonly '*': string };
      const bytes = await plainly(tile(deps, apiKeyOf(request).accountId, `${level}/${index}`));
      return reply.type('application/octet-stream').send(bytes);
    });
  }
  registerAdminLogRoutes(app, deps);
}

const subtreesQuery = z.strictObject({
  level: wholeQuery(1, 6),
  index: wholeQuery(0, Number.MAX_SAFE_INTEGER),
});

/** The same for whoever is signed in: what `mandate evidence verify` compares with what it computes. */
function registerAdminLogRoutes(app: FastifyInstance, deps: RouteDependencies): void {
  app.get('/admin/evidence/log', async (request) => treeHead(deps, await lastOrNew(deps, accountOf(request))));
  app.get('/admin/evidence/subtrees', async (request) => {
    const { level, index } = readQuery(request, subtreesQuery);
    const accountId = accountOf(request);
    const size = await currentSize(deps.sql, accountId);
    const width = widthAt(size, level, index);
    const place = { level, index, width };
    const hashes = width < 1 ? null : await plainly(tileOf(deps.sql, { accountId, size }, place));
    return { level, first: index * TILE_WIDTH, hashes: hashesOf(hashes?.toString('hex') ?? '') };
  });
}

/** A tree head in all its forms, with the key of its checkpoint. */
function treeHead(deps: RouteDependencies, head: SignedTreeHead) {
  const key = logKeyOf(deps, head.accountId);
  return {
    account_id: head.accountId,
    size: head.size,
    root: head.root,
    at: head.at,
    receipt: head.receipt,
    checkpoint: head.checkpoint,
    origin: key.name,
    verifier_key: verifierKeyText(key),
  };
}

/** Where nothing can be signed any more, what was signed last: entry by entry, its reader finds out what differs. */
async function lastOrNew(deps: RouteDependencies, accountId: string): Promise<SignedTreeHead> {
  try {
    return await signedTreeHead(deps, accountId);
  } catch (error) {
    const last = error instanceof EvidenceContradiction ? await lastSignedTreeHead(deps.sql, accountId) : null;
    if (last === null) return plainly(Promise.reject(error));
    deps.logError(error, 'no tree head is signed: the evidence contradicts the last one');
    return last;
  }
}

/** A contradiction is no secret: whoever may read the evidence is told of it. */
async function plainly<T>(promised: Promise<T>): Promise<T> {
  try {
    return await promised;
  } catch (error) {
    if (!(error instanceof EvidenceContradiction)) throw error;
    const detail =
      'The stored evidence contradicts itself or what was signed of it; `mandate evidence verify` says where.';
    throw new ProblemError('conflict', detail, { cause: error });
  }
}

async function tile({ sql }: RouteDependencies, accountId: string, path: string): Promise<Buffer> {
  const place = readTilePath(path);
  if (place === null) throw new ProblemError('not_found', 'A tile is <L>/<N>[.p/<W>] or entries/<N>[.p/<W>].');
  const size = await currentSize(sql, accountId);
  const { level, index, width } = place;
  const absent = width > widthAt(size, level, index);
  if (place.of === 'entries' && !absent) return entryBundle(sql, accountId, index * TILE_WIDTH, width);
  const hashes = absent ? null : await tileOf(sql, { accountId, size }, place);
  if (hashes === null) throw new ProblemError('not_found', `A log of ${size} entries has no such tile.`);
  return hashes;
}
