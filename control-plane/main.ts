import { runProcess } from '../config/run-process.ts';
import { secretHash } from '../core/secret-token.ts';
import { allRoutes } from './all-routes.ts';
import { EscalationWaits } from './escalations/gate.ts';
import { publishingJobs, startJobs } from './jobs/loop.ts';
import { startNotifications } from './notifications/start.ts';
import { buildServer } from './server.ts';
import { type ControlPlaneParts, startControlPlane } from './start.ts';

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
        timestamps: core.publishing.timestamps,
        approvalFactorMs: config.approvalFactorMs,
        escalationChanged: (accountId, escalationId) => escalations.changed(accountId, escalationId),
      },
      allRoutes(signing),
    );
  },
  jobs: (core) => {
    const stops = [startJobs(core, publishingJobs(core.publishing.publishers)), startNotifications(core)];
    return async () => {
      await Promise.all(stops.map((stop) => stop()));
    };
  },
};

await runProcess('control-plane', (config, log) => startControlPlane(config, log, PARTS));
