import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { z } from 'zod';
import { type Dossier, dossierJsonSchema } from '../../core/dossier.ts';
import { ProblemError } from '../../core/errors.ts';
import { JWS_MAX_CHARACTERS } from '../../core/limits.ts';
import { MAT_TYPE, readMat } from '../../core/mat.ts';
import { accountOf } from '../admin/session.ts';
import { apiKeyOf } from '../api/api-keys.ts';
import type { RouteDependencies } from '../http/dependencies.ts';
import { readQuery } from '../http/query.ts';
import { idParam } from '../http/request.ts';
import { makeDossier } from './make.ts';
import { DOSSIER_PAGE_POLICY, dossierPage } from './page.ts';

const matQuery = z.strictObject({ mat: z.string().min(1).max(JWS_MAX_CHARACTERS) });
const noQuery = z.strictObject({});

/** The routes of dossiers: with the MAT of the decision for software, with a session for the principal. */
export function registerDossierRoutes(app: FastifyInstance, deps: RouteDependencies): void {
  const schema = JSON.stringify(dossierJsonSchema());
  app.get('/api/v1/verifications/:id/dossier', { config: { scope: 'evidence:read' } }, async (request, reply) => {
    const receiptId = idParam(request, 'rcp');
    const { mat } = readQuery(request, matQuery);
    const accountId = accountOfMat(deps, { mat, receiptId, ownAccountId: apiKeyOf(request).accountId });
    return answer(request, reply, await existing(makeDossier(deps, { accountId, receiptId, mat })));
  });
  // Denials, escalations and what came through the gateway have no MAT: whose account it is may see them all.
  app.get('/admin/verifications/:id/dossier', async (request, reply) => {
    const [accountId, receiptId] = [accountOf(request), idParam(request, 'rcp')];
    readQuery(request, noQuery);
    return answer(request, reply, await existing(makeDossier(deps, { accountId, receiptId, mat: null })));
  });
  app.get('/api/v1/dossier-schema', { config: { public: true } }, async (_request, reply) => {
    return reply
      .type('application/schema+json')
      .serializer((text: unknown) => String(text))
      .send(schema);
  });
}

/**
 * The account whose decision a MAT is of: that of the API key, or the sandbox, where anybody's key verifies.
 *
 * Whatever is wrong with it gets the same answer, so that nothing can be learned about receipts of others.
 */
function accountOfMat(
  { signing, issuer, booking }: RouteDependencies,
  asked: { readonly mat: string; readonly receiptId: string; readonly ownAccountId: string },
): string {
  const reading = signing.check(asked.mat, MAT_TYPE);
  const mat = reading.ok ? readMat(reading.payload) : null;
  const own = mat !== null && (mat.accountId === asked.ownAccountId || mat.accountId === booking.sandboxAccountId);
  if (own && mat.issuer === issuer && mat.receiptId === asked.receiptId) return mat.accountId;
  throw new ProblemError('forbidden', 'The mat is not the mat_compact that this receipt was answered with.');
}

async function existing(made: Promise<Dossier | null>): Promise<Dossier> {
  const dossier = await made;
  if (dossier === null) throw new ProblemError('not_found', 'There is no such receipt.');
  return dossier;
}

function answer(request: FastifyRequest, reply: FastifyReply, dossier: Dossier): FastifyReply {
  reply.headers({ vary: 'Accept', 'x-content-type-options': 'nosniff', 'referrer-policy': 'no-referrer' });
  if (prefersPage(request.headers.accept)) {
    reply.header('content-security-policy', DOSSIER_PAGE_POLICY);
    return reply.type('text/html; charset=utf-8').send(dossierPage(dossier));
  }
  return reply.type('application/json; charset=utf-8').send(JSON.stringify(dossier));
}

/** Whether HTML is wanted more than JSON (RFC 9110 §12.5.1); JSON where neither is. */
function prefersPage(accept: string | undefined): boolean {
  const weights = new Map<string, number>();
  for (const range of (accept ?? '').split(',')) {
    const [type = '', ...parameters] = range.split(';').map((part) => part.trim().toLowerCase());
    const quality = parameters.find((parameter) => parameter.startsWith('q='));
    weights.set(type, quality === undefined ? 1 : Number(quality.slice(2)));
  }
  const weight = (type: string, group: string): number =>
    weights.get(type) ?? weights.get(`${group}/*`) ?? weights.get('*/*') ?? 0;
  // A browser names text/html; what takes anything is a program.
  return weights.has('text/html') && weight('text/html', 'text') > weight('application/json', 'application');
}
