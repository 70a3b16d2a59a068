import type { FastifyInstance } from 'fastify';
import { z } from 'zod';
import { contextDigest } from '../../core/action.ts';
import { typeIdField } from '../../core/body-fields.ts';
import { PRESENTATION_WINDOW_MS } from '../../core/decide.ts';
import { ProblemError } from '../../core/errors.ts';
import { createPresentation, type PresentationDocument } from '../../core/presentation.ts';
import type { TypeId } from '../../core/type-id.ts';
import { actionInput, actionOf } from '../../core/verify-request.ts';
import { apiKeyOf } from '../api/api-keys.ts';
import type { RouteDependencies } from '../http/dependencies.ts';
import { readBody } from '../http/request.ts';
import { openAgentKey } from './agent-keys.ts';

/** The body of POST /api/v1/agents/present (interface.md). */
export const presentBody = z.strictObject({
  mandate_id: typeIdField('mdt', 'a mandate'),
  action: actionInput,
});

/** What is said along with a presentation that the service signed. */
export const CUSTODIAL_NOTE =
  'The service holds the key of this agent and signed for it. This is not a decision: pass it to POST /api/v1/verify.';

/** POST /api/v1/agents/present: signs an agent's intent with the key that is held for its mandate (path 1). */
export function registerPresentRoutes(app: FastifyInstance, deps: RouteDependencies): void {
  app.post('/api/v1/agents/present', { config: { scope: 'agents:present' } }, async (request) => {
    const { mandate_id, action } = readBody(request, presentBody);
    const { accountId } = apiKeyOf(request);
    const ctx = contextDigest(actionOf(action));
    const presentation = await present(deps, { accountId, mandateId: mandate_id, ctx });
    return { presentation, custody: 'custodial', note: CUSTODIAL_NOTE };
  });
}

/** A presentation by the held key, valid for as long as one may be; @throws ProblemError 404, 409, 503 */
export async function present(
  { sql, custody }: Pick<RouteDependencies, 'sql' | 'custody'>,
  asked: { readonly accountId: string; readonly mandateId: TypeId<'mdt'>; readonly ctx: string | null },
): Promise<PresentationDocument> {
  const { accountId, mandateId, ctx } = asked;
  const [row] = await sql<{ agent_did: string; now_ms: number }[]>`
    select agent_did, epoch_ms(db_clock()) as now_ms from mandates
    where account_id = ${accountId} and mandate_id = ${mandateId}`;
  if (row === undefined) throw new ProblemError('not_found', 'There is no such mandate.');
  if (row.agent_did !== '') {
    throw new ProblemError('conflict', 'The agent of this mandate signs for itself: the service holds no key of it.');
  }
  const key = await openAgentKey(sql, custody, { accountId, mandateId });
  if (key === null) throw new ProblemError('conflict', 'The service holds no key for the agent of this mandate.');
  const verifier = accountId as TypeId<'acc'>;
  const [issued_at_ms, expires_at_ms] = [row.now_ms, row.now_ms + PRESENTATION_WINDOW_MS];
  return createPresentation({ mandate_id: mandateId, verifier, ctx, issued_at_ms, expires_at_ms }, key);
}
