import { registerDenialCodeRoutes } from './api/denial-codes.ts';
import { registerOpenApiRoutes } from './api/openapi.ts';
import { registerConsumptionRoutes } from './consumptions/routes.ts';
import { registerPresentRoutes } from './custody/routes.ts';
import { registerDossierRoutes } from './dossiers/routes.ts';
import { registerEscalationRoutes } from './escalations/routes.ts';
import { registerDecisionRoutes } from './evidence/decision-routes.ts';
import { registerExportRoutes } from './evidence/export-routes.ts';
import { registerLogRoutes } from './evidence/log-routes.ts';
import { registerEvidenceRoutes } from './evidence/routes.ts';
import { registerExecutionRoutes } from './executions/routes.ts';
import { registerGatewayRoutes } from './gateways/routes.ts';
import { registerToolRoutes } from './gateways/tool-routes.ts';
import { registerToolSuggestionRoutes } from './gateways/tool-suggestions.ts';
import { registerToolTrialRoute } from './gateways/tool-trial.ts';
import { registerKeyRoutes } from './keys/routes.ts';
import { registerMandateVersionRoutes } from './mandates/change.ts';
import { registerReplayRoutes } from './mandates/replay-routes.ts';
import { registerMandateRoutes } from './mandates/routes.ts';
import { registerMandateStatusRoutes } from './mandates/status-routes.ts';
import { registerStopRoutes } from './mandates/stop.ts';
import { registerNotificationRoutes } from './notifications/routes.ts';
import { registerReconciliationRoutes } from './reconciliation/routes.ts';
import { registerSandboxRoutes } from './sandbox/routes.ts';
import type { RegisterRoutes } from './server.ts';
import { jwksRoute } from './signing/routes.ts';
import type { SigningKeys } from './signing/signing-keys.ts';

const NOUNS: readonly RegisterRoutes[] = [
  registerMandateRoutes,
  registerMandateVersionRoutes,
  registerStopRoutes,
  registerReplayRoutes,
  registerGatewayRoutes,
  registerToolRoutes,
  registerToolSuggestionRoutes,
  registerToolTrialRoute,
  registerEscalationRoutes,
  registerNotificationRoutes,
  registerReconciliationRoutes,
  registerEvidenceRoutes,
  registerExportRoutes,
  registerLogRoutes,
  registerDecisionRoutes,
  registerDossierRoutes,
  registerKeyRoutes,
  registerMandateStatusRoutes,
  registerPresentRoutes,
  registerConsumptionRoutes,
  registerExecutionRoutes,
  registerDenialCodeRoutes,
  registerSandboxRoutes,
  registerOpenApiRoutes,
];

/** Every route of a control plane besides accounts and health: the admin API and the public one. */
export function allRoutes(signing: Pick<SigningKeys, 'jwks'>): readonly RegisterRoutes[] {
  return [...NOUNS, jwksRoute(signing)];
}
