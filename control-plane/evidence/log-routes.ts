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
import { tileOf, widthAt } from './tree.ts';
import { currentSize, logKeyOf, type SignedTreeHead, signedTreeHead } from './tree-heads.ts';

/** The account's log as C2SP tlog-tiles serves it, and its tree head as a token (contract §10). */
export function registerLogRoutes(app: FastifyInstance, deps: RouteDependencies): void {
  const config = { scope: 'evidence:read' } as const;
  app.get('/api/v1/evidence/checkpoint', { config }, async (request, reply) => {
    const { checkpoint } = await signedTreeHead(deps, apiKeyOf(request).accountId);
    return reply.type('text/plain; charset=utf-8').send(checkpoint);
  });
  app.get('/api/v1/evidence/tree-head', { config }, async (request) => treeHead(deps, apiKeyOf(request).accountId));
  for (const path of ['/api/v1/evidence/tile/entries/*', '/api/v1/evidence/tile/:level/*']) {
    app.get(path, { config }, async (request, reply) => {
      const { level = 'entries', '*': index } = request.params as { readonly level?: string; readonly '*': string };
      const bytes = await tile(deps, apiKeyOf(request).accountId, `${level}/${index}`);
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
  app.get('/admin/evidence/log', async (request) => treeHead(deps, accountOf(request)));
  app.get('/admin/evidence/subtrees', async (request) => {
    const { level, index } = readQuery(request, subtreesQuery);
    const accountId = accountOf(request);
    const size = await currentSize(deps.sql, accountId);
    const width = widthAt(size, level, index);
    const hashes = width < 1 ? null : await tileOf(deps.sql, { accountId, size }, { level, index, width });
    return { level, first: index * TILE_WIDTH, hashes: hashesOf(hashes?.toString('hex') ?? '') };
  });
}

/** A tree head in all its forms, with the key of its checkpoint. */
async function treeHead(deps: RouteDependencies, accountId: string) {
  const head: SignedTreeHead = await signedTreeHead(deps, accountId);
  const key = logKeyOf(deps, accountId);
  return {
    account_id: accountId,
    size: head.size,
    root: head.root,
    at: head.at,
    receipt: head.receipt,
    checkpoint: head.checkpoint,
    origin: key.name,
    verifier_key: verifierKeyText(key),
  };
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
