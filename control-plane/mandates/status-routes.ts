import type { FastifyInstance } from 'fastify';
import { ProblemError } from '../../core/errors.ts';
import { CREDENTIAL_TYPE, mandateCredential } from '../../core/mandate-credential.ts';
import { apiKeyOf } from '../api/api-keys.ts';
import type { RouteDependencies } from '../http/dependencies.ts';
import { idParam } from '../http/request.ts';
import { type MandateRecord, mandateView, readMandate } from './view.ts';

/** How a mandate stands, for the software of the organisation that verifies by it (interface.md). */
export function registerMandateStatusRoutes(app: FastifyInstance, deps: RouteDependencies): void {
  app.get('/api/v1/mandates/:id/status', { config: { scope: 'mandates:read' } }, async (request) => {
    const { accountId, record } = await found(deps, apiKeyOf(request).accountId, idParam(request, 'mdt'));
    const view = mandateView(record);
    return {
      mandate_id: view.mandate_id,
      status: view.status,
      limits: {
        scope: view.scope,
        amount_limit_per_action: view.amount_limit_per_action,
        amount_limit_per_month: view.amount_limit_per_month,
        escalation_threshold: view.escalation_threshold,
        currency: view.currency,
        counterparties: view.counterparties,
        valid_until: view.valid_until,
        max_uses: view.max_uses,
        uses: view.uses,
        time_zone: view.time_zone,
      },
      agent_did: view.agent_did,
      presentation_verifier: accountId,
      usage: view.usage,
      ...(view.status === 'active' ? { credential: await credentialOf(deps, accountId, record) } : {}),
    };
  });
}

/** The mandate of this account, or of the sandbox, which anybody's key verifies in. */
async function found({ sql, booking: { sandboxAccountId } }: RouteDependencies, ownAccountId: string, id: string) {
  for (const accountId of [ownAccountId, sandboxAccountId]) {
    const record = accountId === null ? undefined : await readMandate(sql, accountId, id);
    if (accountId !== null && record !== undefined) return { accountId, record };
  }
  throw new ProblemError('not_found', 'There is no such mandate.');
}

/** What the agent may do, signed: for whoever is shown it (contract §9). */
export function credentialOf(
  { signing, issuer }: Pick<RouteDependencies, 'signing' | 'issuer'>,
  accountId: string,
  { terms, read_at: issuedAtMs }: MandateRecord,
): Promise<string> {
  return signing.signLater(CREDENTIAL_TYPE, mandateCredential(issuer, { accountId, terms, issuedAtMs }));
}
