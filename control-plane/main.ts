import { runProcess } from '../config/run-process.ts';
import { EscalationWaits } from './escalations/gate.ts';
import { registerEscalationRoutes } from './escalations/routes.ts';
import { registerEvidenceRoutes } from './evidence/routes.ts';
import { registerGatewayRoutes } from './gateways/routes.ts';
import { registerToolRoutes } from './gateways/tool-routes.ts';
import { startJobs } from './jobs/loop.ts';
import { registerMandateRoutes } from './mandates/routes.ts';
import { buildServer, type RegisterRoutes } from './server.ts';
import { jwksRoute } from './signing/routes.ts';
import { type ControlPlaneParts, startControlPlane } from './start.ts';

const ROUTES: readonly RegisterRoutes[] = [
  registerMandateRoutes,
  registerGatewayRoutes,
  registerToolRoutes,
  registerEscalationRoutes,
  registerEvidenceRoutes,
];

const PARTS: ControlPlaneParts = {
  escalations: ({ sql, lanes, custody, logError }) => new EscalationWaits({ sql, commands: lanes, custody, logError }),
  admin: ({ config, sql, lanes, custody, signing, buckets, logError }, escalations) =>
    buildServer(
      {
        sql,
        commands: lanes,
        custody,
        buckets,
        allowPrivateTargets: config.gatewayAllowPrivateTargets,
        logError,
        escalationChanged: (accountId, escalationId) => escalations.changed(accountId, escalationId),
      },
      [...ROUTES, jwksRoute(signing)],
    ),
  jobs: startJobs,
};

await runProcess('control-plane', (config, log) => startControlPlane(config, log, PARTS));
