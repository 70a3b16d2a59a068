import { chmod, lstat, rm } from 'node:fs/promises';
import type { AddressInfo, ListenOptions } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { type Config, publicUrl } from '../config/load.ts';
import type { Logger } from '../config/log.ts';
import { type MetricsServer, startMetricsServer } from '../config/metrics-server.ts';
import type { RunningProcess } from '../config/run-process.ts';
import { MAT_TYPE, matClaims } from '../core/mat.ts';
import { Custody, checkMasterKey } from './custody/custody.ts';
import { connect, type Sql } from './db/client.ts';
import { assertMigrated } from './db/migrate.ts';
import { type EscalationGate, type InternalServer, startInternalServer } from './decisions/internal-server.ts';
import { Lanes } from './decisions/lanes.ts';
import { TokenRoutes } from './decisions/token-routes.ts';
import { VersionCache } from './decisions/versions.ts';
import { ToolSightings } from './gateways/sightings.ts';
import { KeyUses } from './keys/uses.ts';
import { ControlPlaneMetrics } from './metrics.ts';
import { openPublishing, type Publishing } from './publishing/start-publishing.ts';
import { evidenceTreeHeads } from './publishing/tree-heads.ts';
import { TokenBuckets } from './rate-limit/buckets.ts';
import type { Buckets } from './rate-limit/operations.ts';
import { openSandbox } from './sandbox/account.ts';
import { SigningKeys } from './signing/signing-keys.ts';

/** Only the owner may connect to the socket: whoever can is one step from the shared secret. */
const SOCKET_MODE = 0o600;

/** Answers of finished work are on their way out within this time. */
const ANSWERS_SENT_MS = 250;

/** What the nouns are built on. */
export interface ControlPlaneCore {
  readonly config: Config;
  readonly log: Logger;
  readonly sql: Sql;
  readonly lanes: Lanes;
  readonly metrics: ControlPlaneMetrics;
  readonly custody: Custody;
  readonly signing: SigningKeys;
  /** The address of the service: who signs. */
  readonly issuer: string;
  readonly buckets: Buckets;
  readonly keyUses: KeyUses;
  readonly sightings: ToolSightings;
  readonly sandboxAccountId: string;
  /** Timestamps, cosignatures, and who makes them. */
  readonly publishing: Publishing;
  readonly logError: (error: unknown, message: string) => void;
}

/** The admin API: listens where it is told, and stops after the requests it has. */
export interface AdminListener {
  listen(options: { readonly host: string; readonly port: number }): Promise<unknown>;
  readonly server: { address(): AddressInfo | string | null };
  close(): Promise<unknown>;
}

/** Escalations, as the listener for proxies, the metrics and the admin API see them. */
export interface Escalations extends EscalationGate {
  countPending(): Promise<number>;
  changed(accountId: string, escalationId: string): void;
}

/** The nouns' side of a control plane; `control-plane/main.ts` brings the real ones. */
export interface ControlPlaneParts {
  readonly escalations: (core: ControlPlaneCore) => Escalations;
  readonly admin: (core: ControlPlaneCore, escalations: Escalations) => Promise<AdminListener>;
  /** Starts what runs by the clock (escalations that expire, reservations nobody settled); returns what stops it. */
  readonly jobs: (core: ControlPlaneCore) => () => Promise<void>;
}

/**
 * Brings up one control plane: database, master key, lanes, the listener for proxies, the admin API, jobs and metrics.
 *
 * `stop` takes no new work, finishes what was accepted, and closes the database last.
 *
 * @throws DatabaseError, an Error where the master key is another one, a listener's system error; nothing is left
 * running then
 */
export async function startControlPlane(
  config: Config,
  log: Logger,
  parts: ControlPlaneParts,
): Promise<RunningProcess> {
  const undo: Undo = [];
  const stop = async (): Promise<void> => {
    for (const step of undo.splice(0).toReversed()) await step();
  };
  try {
    const started = await startCore(config, log, undo);
    return { addresses: await startListeners(started, parts, undo), stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

type Undo = (() => Promise<unknown>)[];

interface StartedCore {
  readonly core: ControlPlaneCore;
  readonly internalSecret: string;
}

async function startCore(config: Config, log: Logger, undo: Undo): Promise<StartedCore> {
  const { databaseAppUrl, masterKey, internalSecret } = config;
  if (databaseAppUrl === null || masterKey === null || internalSecret === null) {
    throw new TypeError('the configuration of a control plane has a database, a master key and an internal secret');
  }
  const sql = connect(databaseAppUrl, { applicationName: 'mandate control plane' });
  undo.push(() => sql.end());
  await assertMigrated(sql);
  await checkMasterKey(sql, masterKey);
  const sandboxAccountId = await openSandbox(sql);
  const custody = new Custody(masterKey);
  const metrics = new ControlPlaneMetrics();
  const buckets = await openBuckets(config, log, undo);
  const logError = (error: unknown, message: string): void => log.error({ err: error }, message);
  const signing = await SigningKeys.open(sql, custody, logError);
  undo.push(async () => signing.close());
  const issuer = publicUrl(config);
  const sightings = new ToolSightings();
  const lanes = new Lanes({
    databaseUrl: databaseAppUrl,
    lanes: config.controlLanes,
    batchMax: config.decisionBatchMax,
    versions: new VersionCache((accountId, instanceId, sealed) =>
      custody.open(accountId, 'credential', instanceId, sealed).toString('utf8'),
    ),
    buckets,
    verifications: {
      consumptionToken: (receiptId) => custody.consumptionToken(receiptId),
      signMat: (facts) => signing.sign(MAT_TYPE, matClaims(issuer, facts)),
      sandboxAccountId,
    },
    metrics,
    sighted: (seen) => sightings.note(seen),
    logError,
  });
  undo.push(() => lanes.close());
  const keyUses = new KeyUses();
  const heads = evidenceTreeHeads({ sql, signing, issuer });
  const publishing = await openPublishing({ config, sql, heads, log, metrics });
  undo.push(() => publishing.close());
  const kept = { keyUses, sightings, publishing };
  const means = { lanes, metrics, custody, signing, issuer, buckets, sandboxAccountId, ...kept };
  const core = { config, log, sql, logError, ...means };
  return { core, internalSecret };
}

async function startListeners(
  { core, internalSecret }: StartedCore,
  parts: ControlPlaneParts,
  undo: Undo,
): Promise<Record<string, string>> {
  const { config, sql, lanes, metrics, buckets, keyUses, sandboxAccountId, logError } = core;
  const escalations = parts.escalations(core);
  metrics.watch({ laneDepth: () => lanes.depth, pendingEscalations: () => escalations.countPending() });
  const internal = await startInternalServer({
    listen: await internalAddress(config),
    secret: internalSecret,
    lanes,
    routes: new TokenRoutes(sql),
    buckets,
    escalations,
    keyUsed: (accountId, keyId, atMs) => keyUses.note(accountId, keyId, atMs),
    sandboxAccountId,
    metrics,
    logError,
  });
  undo.push(() => drain(internal, lanes));
  if (config.controlSocket !== null) await chmod(config.controlSocket, SOCKET_MODE);
  undo.push(() => writeNoted(core));
  undo.push(parts.jobs(core));
  const admin = await parts.admin(core, escalations);
  undo.push(() => admin.close());
  await admin.listen({ host: config.controlHost, port: config.controlPort });
  const { metricsHost: host, controlMetricsPort: port } = config;
  const scraped = await startMetricsServer({ host, port, source: metrics.registry });
  undo.push(() => scraped.close());
  return addressesOf(config, admin, internal, scraped);
}

/** Buckets of this process, or those that several control planes share; the store need not be there yet. */
async function openBuckets({ rateLimitUrl: url }: Config, log: Logger, undo: Undo): Promise<Buckets> {
  if (url === null) return new TokenBuckets();
  const onChange = (away: boolean, error: unknown): void => {
    if (away) log.error({ err: error }, 'the store of the rate limits is away: requests are refused until it is back');
    else log.warn('the store of the rate limits is back');
  };
  // Loaded where it is used: its client holds 15 MB.
  const { RedisBuckets } = await import('./rate-limit/redis-buckets.ts');
  const buckets = await RedisBuckets.open({ url, onChange });
  undo.push(async () => buckets.close());
  return buckets;
}

/** What was noted since the job's last round: a regular stop loses nothing. */
async function writeNoted({ keyUses, sightings, sql, logError }: ControlPlaneCore): Promise<void> {
  try {
    while (await keyUses.flush(sql));
    while (await sightings.flush(sql));
  } catch (error) {
    logError(error, 'the last uses of API keys, or what was seen of tools, could not be written');
  }
}

/** Finishes what proxies asked for, then ends their connections: some hold one open to wait for a human. */
async function drain(internal: InternalServer, lanes: Lanes): Promise<void> {
  const closed = internal.close();
  await lanes.close();
  await Promise.race([closed, delay(ANSWERS_SENT_MS)]);
  internal.server.closeAllConnections();
  await closed;
}

/** Where proxies connect to; a socket that a killed control plane left behind is removed first. */
async function internalAddress(config: Config): Promise<ListenOptions> {
  if (config.controlSocket === null) return { host: config.internalHost, port: config.internalPort };
  const found = await lstat(config.controlSocket).catch(() => null);
  if (found?.isSocket() === true) await rm(config.controlSocket, { force: true });
  return { path: config.controlSocket };
}

function addressesOf(
  config: Config,
  admin: AdminListener,
  internal: InternalServer,
  scraped: MetricsServer,
): Record<string, string> {
  const link = internal.server.address();
  return {
    admin: urlOf(config.controlHost, admin.server.address()),
    internal: typeof link === 'string' ? `unix:${link}` : urlOf(config.internalHost, link),
    control_metrics: `${urlOf(config.metricsHost, { port: scraped.port })}/metrics`,
  };
}

function urlOf(host: string, address: { readonly port: number } | string | null): string {
  if (address === null || typeof address === 'string') throw new TypeError('a TCP listener has a port');
  return `http://${host.includes(':') ? `[${host}]` : host}:${address.port}`;
}
