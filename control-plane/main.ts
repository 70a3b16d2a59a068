import { runProcess } from '../config/run-process.ts';
import { secretHash } from '../core/secret-token.ts';
import { registerDenialCodeRoutes } from './api/denial-codes.ts';
import { registerConsumptionRoutes } from './consumptions/routes.ts';
import { registerPresentRoutes } from './custody/routes.ts';
import { EscalationWaits } from './escalations/gate.ts';
import { registerEscalationRoutes } from './escalations/routes.ts';
import { registerEvidenceRoutes } from './evidence/routes.ts';
import { registerExecutionRoutes } from './executions/routes.ts';
import { registerGatewayRoutes } from './gateways/routes.ts';
import { registerToolRoutes } from './gateways/tool-routes.ts';
import { startJobs } from './jobs/loop.ts';
import { registerKeyRoutes } from './keys/routes.ts';
import { registerMandateRoutes } from './mandates/routes.ts';
import { registerMandateStatusRoutes } from './mandates/status-routes.ts';
import { registerSandboxRoutes } from './sandbox/routes.ts';
import { buildServer, type RegisterRoutes } from './server.ts';
import { jwksRoute } from './signing/routes.ts';
import { type ControlPlaneParts, startControlPlane } from './start.ts';

const ROUTES: readonly RegisterRoutes[] = [
  registerMandateRoutes,
  registerGatewayRoutes,
  registerToolRoutes,
  registerEscalationRoutes,
  registerEvidenceRoutes,
  registerKeyRoutes,
  registerMandateStatusRoutes,
  registerPresentRoutes,
  registerConsumptionRoutes,
  registerExecutionRoutes,
  registerDenialCodeRoutes,
  registerSandboxRoutes,
];

const PARTS: ControlPlaneParts = {
  escalations: ({ sql, lanes, custody, logError }) => new EscalationWaits({ sql, commands: lanes, custody, logError }),
  admin: (core, escalations) => {
    const { config, sql, lanes, custody, signing, issuer, buckets, metrics, keyUses, sandboxAccountId, logError } =
      core;
    return buildServer(
      {
        sql,
        commands: lanes,
        custody,
        booking: { lanes, sandboxAccountId },
        signing,
        issuer,
        buckets,
        allowPrivateTargets: config.gatewayAllowPrivateTargets,
        logError,
        rateLimited: (rateClass) => metrics.rateLimited(rateClass),
        internalSecretHash: config.internalSecret === null ? null : secretHash(config.internalSecret),
        keyUses,
        escalationChanged: (accountId, escalationId) => escalations.changed(accountId, escalationId),
      },
      [...ROUTES, jwksRoute(signing)],
    );
  },
  jobs: startJobs,
};

await runProcess('control-plane', (config, log) => startControlPlane(config, log, PARTS));
